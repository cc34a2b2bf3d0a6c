//! Fields taken out of an object.

use serde_json::Value;

use super::{Shape, item_element, shape};
use crate::path::PathElement;
use crate::schema::{Arena, List, Map, Schema, TypeId};
use crate::set::Set;

/// Removes the set's fields from an object. A map or list that becomes empty becomes null, as does an
/// atomic one of which a part is to go.
pub(crate) fn remove(schema: &Schema, object: &mut Value, fields: &Set<'_>) {
    value(schema.arena(), schema.root(), object, fields);
}

fn value(arena: &Arena, id: TypeId, value: &mut Value, fields: &Set<'_>) {
    match shape(arena, id, value) {
        Shape::Scalar(_) => {}
        Shape::Map(map) if !map.atomic && value.is_object() => members(arena, map, value, fields),
        Shape::List(list) if !list.atomic && value.is_array() => items(arena, list, value, fields),
        Shape::Map(_) | Shape::List(_) | Shape::Nothing => *value = Value::Null,
    }
}

fn members(arena: &Arena, map: &Map, object: &mut Value, fields: &Set<'_>) {
    let Value::Object(members) = object else { return };
    let mut gone = Vec::new();
    for node in fields.nodes() {
        let PathElement::Field(name) = &node.element else { continue };
        if node.member {
            gone.push(name);
        } else if let Some(member) = members.get_mut(&**name) {
            value(arena, map.type_of(name), member, &node.children);
        }
    }
    for name in gone {
        members.remove(&**name);
    }
    if members.is_empty() {
        *object = Value::Null;
    }
}

fn items(arena: &Arena, list: &List, array: &mut Value, fields: &Set<'_>) {
    let Value::Array(items) = array else { return };
    items.retain_mut(|item| {
        let Ok(element) = item_element(arena, list, item) else { return true };
        let Some(node) = fields.node(&element) else { return true };
        if node.member {
            return false;
        }
        value(arena, list.element, item, &node.children);
        true
    });
    if items.is_empty() {
        *array = Value::Null;
    }
}
