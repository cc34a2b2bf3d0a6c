//! Setting fields of JSON objects that may not be there.

use serde_json::{Map, Value};

/// Sets a field that is absent or null.
pub(super) fn default(parent: &mut Value, name: &str, value: impl Into<Value>) {
    if let Some(parent) = parent.as_object_mut() {
        let field = parent.entry(name).or_insert(Value::Null);
        if field.is_null() {
            *field = value.into();
        }
    }
}

/// The same, below objects that are made when they are not there.
pub(super) fn default_at(parent: &mut Value, path: &[&str], name: &str, value: impl Into<Value>) {
    let mut at = parent;
    for step in path {
        let Some(next) = object(at, step) else { return };
        at = next;
    }
    default(at, name, value);
}

/// The object in a field, made when it is absent or null; `None` when something else is there.
pub(super) fn object<'a>(parent: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let field = parent.as_object_mut()?.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    field.is_object().then_some(field)
}

/// Calls `change` on each item of a list field.
pub(super) fn each(parent: &mut Value, name: &str, change: impl FnMut(&mut Value)) {
    if let Some(items) = parent.get_mut(name).and_then(Value::as_array_mut) {
        items.iter_mut().for_each(change);
    }
}

/// Calls `change` on a field if an object is there.
pub(super) fn within(parent: &mut Value, name: &str, change: impl FnOnce(&mut Value)) {
    if let Some(field) = parent.get_mut(name).filter(|field| field.is_object()) {
        change(field);
    }
}
