//! `metadata` as clients send it: what is no field of ObjectMeta goes, what is malformed is refused.

use serde_json::{Map, Value};

/// Fields of ObjectMeta and what they hold.
const FIELDS: [(&str, Shape); 15] = [
    ("annotations", Shape::Strings),
    ("creationTimestamp", Shape::Text),
    ("deletionGracePeriodSeconds", Shape::Number),
    ("deletionTimestamp", Shape::Text),
    ("finalizers", Shape::TextList),
    ("generateName", Shape::Text),
    ("generation", Shape::Number),
    ("labels", Shape::Strings),
    ("managedFields", Shape::ObjectList),
    ("name", Shape::Text),
    ("namespace", Shape::Text),
    ("ownerReferences", Shape::ObjectList),
    ("resourceVersion", Shape::Text),
    ("selfLink", Shape::Text),
    ("uid", Shape::Text),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Number,
    Strings,
    TextList,
    ObjectList,
}

/// Removes unknown and empty fields of `metadata` and answers the paths of the unknown ones.
///
/// # Errors
/// What is malformed, as a decoder would say it.
pub(crate) fn clean(object: &mut Value) -> Result<Vec<String>, String> {
    let Value::Object(object) = object else { return Err("the object is not a JSON object".to_owned()) };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(metadata) = metadata else { return Err(wrong(metadata, "metadata", "an object")) };
    let mut unknown = Vec::new();
    let names: Vec<String> = metadata.keys().cloned().collect();
    for name in names {
        let Some((_, shape)) = FIELDS.iter().find(|(field, _)| *field == name) else {
            metadata.remove(&name);
            unknown.push(format!("metadata.{name}"));
            continue;
        };
        let Some(value) = metadata.get_mut(&name) else { continue };
        if value.is_null() || *value == Value::String(String::new()) {
            metadata.remove(&name);
            continue;
        }
        let path = format!("metadata.{name}");
        match shape {
            Shape::Text if !value.is_string() => return Err(wrong(value, &path, "a string")),
            Shape::Number if value.as_i64().is_none() => return Err(wrong(value, &path, "an integer")),
            Shape::Strings => strings(value, &path)?,
            Shape::TextList => list(value, &path, "a string", Value::is_string)?,
            Shape::ObjectList => list(value, &path, "an object", Value::is_object)?,
            Shape::Text | Shape::Number => {}
        }
        // Kubernetes writes no empty maps and lists of metadata, but an empty managedFields means something.
        let empty = match value {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty() && name != "managedFields",
            _ => false,
        };
        if empty {
            metadata.remove(&name);
        }
    }
    Ok(unknown)
}

fn strings(value: &mut Value, path: &str) -> Result<(), String> {
    let Value::Object(map) = value else { return Err(wrong(value, path, "a map of strings")) };
    for (key, value) in map.iter_mut() {
        match value {
            Value::String(_) => {}
            // A map of strings decodes null as the empty string.
            Value::Null => *value = Value::String(String::new()),
            _ => return Err(wrong(value, &format!("{path}.{key}"), "a string")),
        }
    }
    Ok(())
}

fn list(value: &Value, path: &str, what: &str, is: impl Fn(&Value) -> bool) -> Result<(), String> {
    let Value::Array(items) = value else { return Err(wrong(value, path, "a list")) };
    match items.iter().position(|item| !is(item)) {
        Some(at) => Err(wrong(items.get(at).unwrap_or(&Value::Null), &format!("{path}[{at}]"), what)),
        None => Ok(()),
    }
}

fn wrong(value: &Value, path: &str, wanted: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    format!("{path} must be {wanted}, not {found}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_and_empty_fields_go_and_known_ones_stay() {
        let mut object = json!({"metadata": {"name": "a", "creationTimestamp": null, "colour": 1,
            "labels": {}, "annotations": {"x": null}, "managedFields": [], "generateName": ""}});
        assert_eq!(clean(&mut object).unwrap(), ["metadata.colour"]);
        assert_eq!(object, json!({"metadata": {"name": "a", "annotations": {"x": ""}, "managedFields": []}}));
    }

    #[test]
    fn malformed_metadata_is_refused_with_its_path() {
        for (metadata, text) in [
            (json!([]), "metadata must be an object, not a list"),
            (json!({"name": 7}), "metadata.name must be a string, not a number"),
            (json!({"labels": {"a": 1}}), "metadata.labels.a must be a string, not a number"),
            (json!({"finalizers": ["a", null]}), "metadata.finalizers[1] must be a string, not null"),
            (json!({"ownerReferences": "x"}), "metadata.ownerReferences must be a list, not a string"),
            (json!({"generation": 1.5}), "metadata.generation must be an integer, not a number"),
        ] {
            assert_eq!(clean(&mut json!({ "metadata": metadata })).unwrap_err(), text);
        }
    }
}
