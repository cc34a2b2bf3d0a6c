//! Defaulting: the schema's defaults go wherever a field is absent, or null though it may not be.

use serde_json::Value;

use crate::node::{Additional, Node, Slot};
use crate::structural::{MAX_DEPTH, Structural};

pub(crate) fn apply(schema: &Structural, value: &mut Value) {
    walk(schema, schema.node(schema.root), value, 0);
}

fn walk(schema: &Structural, node: &Node, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, slot) in &node.properties {
                let Some(default) = &slot.default else { continue };
                match fields.get_mut(name) {
                    None => {
                        fields.insert(name.clone(), default.clone());
                    }
                    Some(present) => replace_forbidden_null(schema, slot, present),
                }
            }
            for (name, field) in fields {
                if let Some(slot) = node.properties.get(name) {
                    walk(schema, schema.slot_node(slot), field, depth + 1);
                } else if let Additional::Schema(slot) = &node.additional {
                    replace_forbidden_null(schema, slot, field);
                    walk(schema, schema.slot_node(slot), field, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            let Some(slot) = &node.items else { return };
            for item in items {
                replace_forbidden_null(schema, slot, item);
                walk(schema, schema.slot_node(slot), item, depth + 1);
            }
        }
        _ => {}
    }
}

fn replace_forbidden_null(schema: &Structural, slot: &Slot, value: &mut Value) {
    if value.is_null()
        && !schema.slot_node(slot).nullable
        && let Some(default) = &slot.default
    {
        *value = default.clone();
    }
}
