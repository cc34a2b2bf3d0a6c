//! Which fields an object sets.

use std::borrow::Cow;

use serde_json::Value;

use super::{Shape, item_element, shape};
use crate::path::PathElement;
use crate::schema::{Arena, List, Map, Schema, TypeId};
use crate::set::Set;

/// The set of fields that a valid object sets: leaves, atomic lists and maps, list items, members of
/// free-form maps, and fields that are null or an empty map.
pub(crate) fn field_set<'a>(schema: &'a Schema, object: &'a Value) -> Set<'a> {
    value(schema.arena(), schema.root(), object).1
}

/// Whether the value itself is a member, and what is below it.
fn value<'a>(arena: &'a Arena, id: TypeId, value: &'a Value) -> (bool, Set<'a>) {
    match (shape(arena, id, value), value) {
        (Shape::Scalar(_), _) => (true, Set::default()),
        (Shape::Map(map), _) if map.atomic => (true, Set::default()),
        (Shape::List(list), _) if list.atomic => (true, Set::default()),
        (Shape::Map(map), Value::Object(_)) => (false, members(arena, map, value)),
        (Shape::List(list), Value::Array(items)) => (false, self::items(arena, list, items)),
        _ => (false, Set::default()),
    }
}

fn members<'a>(arena: &'a Arena, map: &'a Map, object: &'a Value) -> Set<'a> {
    let mut set = Set::default();
    // Members come sorted by name, as sets are.
    for (name, member) in object.as_object().into_iter().flatten() {
        let field = map.field(name);
        let (leaf, children) = value(arena, field.map_or(map.element, |field| field.id), member);
        let empty = match member {
            Value::Null => true,
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        set.push(PathElement::Field(Cow::Borrowed(name)), leaf || empty || field.is_none(), children);
    }
    set
}

fn items<'a>(arena: &'a Arena, list: &'a List, items: &'a [Value]) -> Set<'a> {
    // Items without a name, which pruning can leave behind, still show that the list is not empty.
    let unnamed = |_| PathElement::Index(-1);
    let mut named: Vec<(PathElement<'a>, &'a Value)> =
        items.iter().map(|item| (item_element(arena, list, item).unwrap_or_else(unnamed), item)).collect();
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut set = Set::default();
    let mut rest = named.into_iter().peekable();
    while let Some((element, item)) = rest.next() {
        let mut duplicates = false;
        while rest.next_if(|(other, _)| *other == element).is_some() {
            duplicates = true;
        }
        // Items of the same name are owned together, as one leaf.
        let children = if duplicates { Set::default() } else { value(arena, list.element, item).1 };
        set.push(element, true, children);
    }
    set
}
