//! About the bytes of memory that values take, without asking the allocator.

use serde_json::Value;

/// What an allocation takes beyond what was asked for.
const ALLOCATION: usize = 16;
/// Fields that a node of a B-tree has room for, as of Rust's standard library.
const NODE_FIELDS: usize = 11;
/// Fields in a node of a tree that grew by insertions in order.
const USUAL_FIELDS: usize = 6;
/// A node. That of an object with one field is as large as that of one with eleven.
const NODE: usize = NODE_FIELDS * (size_of::<String>() + size_of::<Value>()) + ALLOCATION;

/// What a text has on the heap.
pub(crate) fn of_text(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len().next_multiple_of(16) + ALLOCATION / 2 }
}

/// What a JSON value has on the heap.
pub(crate) fn inside_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => of_text(text),
        Value::Array(values) => {
            let inside = values.iter().map(|value| size_of::<Value>() + inside_of(value));
            ALLOCATION + inside.sum::<usize>()
        }
        Value::Object(fields) => {
            let nodes = match fields.len() {
                0 => 0,
                1..=NODE_FIELDS => 1,
                more => more.div_ceil(USUAL_FIELDS),
            };
            let inside = fields.iter().map(|(name, value)| of_text(name) + inside_of(value));
            nodes * NODE + inside.sum::<usize>()
        }
    }
}
