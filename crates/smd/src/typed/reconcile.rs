//! Field sets brought up to date with a schema that changed.

use super::{Deduced, Shape, invalid_atom, resolve};
use crate::path::PathElement;
use crate::schema::{Arena, Schema, TypeId};
use crate::set::Set;

/// Where a list or map has become atomic since the set was written, its owner of any part becomes the
/// owner of the whole.
///
/// # Errors
/// The set leads to a type that the schema does not have.
pub(crate) fn reconcile(schema: &Schema, set: &mut Set<'_>) -> Result<(), String> {
    walk(schema.arena(), schema.root(), set, true).map(|_| ())
}

/// Whether the place is to become a leaf.
fn walk(arena: &Arena, id: TypeId, set: &mut Set<'_>, leaf: bool) -> Result<bool, String> {
    let atom = resolve(arena, id)?;
    match Deduced::Any.shape(atom) {
        Shape::Scalar(_) => Ok(false),
        Shape::Nothing => Err(invalid_atom(atom)),
        Shape::Map(map) if map.deduced => Ok(false),
        Shape::Map(map) if map.atomic && !leaf => Ok(!set.is_empty()),
        Shape::List(list) if list.atomic && !leaf => Ok(true),
        Shape::Map(map) => below(arena, set, |element| match element {
            PathElement::Field(name) => map.type_of(name),
            _ => map.element,
        }),
        Shape::List(list) => below(arena, set, |_| list.element),
    }
}

fn below(
    arena: &Arena,
    set: &mut Set<'_>,
    type_of: impl Fn(&PathElement<'_>) -> TypeId,
) -> Result<bool, String> {
    for node in set.nodes_mut() {
        let id = type_of(&node.element);
        if id.is_none() {
            continue;
        }
        let leaf = node.member && node.children.is_empty();
        if walk(arena, id, &mut node.children, leaf)? {
            node.member = true;
            node.children = Set::default();
        }
    }
    Ok(false)
}
