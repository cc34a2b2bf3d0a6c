//! Lists of type `set` and `map`: their items are unique.

use std::collections::HashMap;

use convoy_meta::FieldError;
use serde_json::{Map, Value};

use crate::node::{Additional, Node};
use crate::structural::{ListType, MAX_DEPTH, Structural};

pub(crate) fn check(schema: &Structural, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, schema.node(schema.root), value, &mut String::new(), 0, &mut errors);
    errors
}

fn walk(
    schema: &Structural,
    node: &Node,
    value: &Value,
    path: &mut String,
    depth: usize,
    errors: &mut Vec<FieldError>,
) {
    if depth > MAX_DEPTH {
        return;
    }
    let length = path.len();
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let slot = if let Some(slot) = node.properties.get(name) {
                    path.push_str(if length == 0 { "" } else { "." });
                    path.push_str(name);
                    slot
                } else if let Additional::Schema(slot) = &node.additional {
                    path.push_str(&format!("[{name}]"));
                    slot
                } else {
                    continue;
                };
                walk(schema, schema.slot_node(slot), field, path, depth + 1, errors);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            match node.list_type {
                Some(ListType::Set) => duplicates(path, items.iter().cloned().enumerate(), errors),
                Some(ListType::Map) => check_keys(node, items, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            let Some(slot) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                walk(schema, schema.slot_node(slot), item, path, depth + 1, errors);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn check_keys(node: &Node, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let wrong = items.iter().position(|item| !item.is_null() && !item.is_object());
    if let Some(index) = wrong {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{index}]"), items[index].clone(), detail));
        return;
    }
    let key_of = |item: &Value| {
        let fields = node.list_map_keys.iter();
        let key: Map<String, Value> =
            fields.filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect();
        Value::Object(key)
    };
    duplicates(path, items.iter().map(key_of).enumerate(), errors);
}

/// Each value that occurs again is reported once, at its second place.
fn duplicates(path: &str, items: impl Iterator<Item = (usize, Value)>, errors: &mut Vec<FieldError>) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for (index, item) in items {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), item));
        }
    }
}
