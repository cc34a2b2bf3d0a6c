use convoy_api::field_manager;
use convoy_health::{Health, health_of};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Deepest nesting of managed fields that is read; no built-in kind comes near.
const MAX_DEPTH: usize = 64;

/// One live object in a few words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) health: Health,
    /// Digest of the fields that convoy owns, and of their values.
    pub(crate) owned: [u8; 32],
    /// Somebody else wrote, other than to a subresource, after convoy last did.
    pub(crate) is_written_by_others: bool,
}

/// Looks at a live object.
pub(crate) fn look(object: &Value, now: Timestamp) -> Seen {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let managers = managers.map(Vec::as_slice).unwrap_or_default();
    let (own, others): (Vec<_>, Vec<_>) = managers.iter().partition(|entry| is_convoys(entry));
    let own_time = own.iter().filter_map(|entry| time(entry)).max();
    let is_main =
        |entry: &&&Value| entry.get("subresource").and_then(Value::as_str).unwrap_or_default().is_empty();
    let others_time = others.iter().filter(is_main).filter_map(|entry| time(entry)).max();

    let mut hash = Sha256::new();
    for fields in own.iter().filter_map(|entry| entry.get("fieldsV1")?.as_object()) {
        digest_fields(fields, object, MAX_DEPTH, &mut hash);
    }
    Seen {
        uid: text("/metadata/uid"),
        resource_version: text("/metadata/resourceVersion"),
        health: health_of(object, now),
        owned: hash.finalize().into(),
        is_written_by_others: others_time > own_time,
    }
}

fn is_convoys(entry: &Value) -> bool {
    entry.get("manager").and_then(Value::as_str) == Some(field_manager::TARGET)
        && entry.get("operation").and_then(Value::as_str) == Some("Apply")
}

fn time(entry: &Value) -> Option<Timestamp> {
    entry.get("time")?.as_str()?.parse().ok()
}

/// Digests a set of owned fields and the values that stand there now. A field that convoy lost to another
/// manager is missing in the set; one that was changed under convoy's own name has another value.
///
/// The form of the set is Kubernetes' FieldsV1: keys `f:<field>`, `k:<keys of a list's item>`, `v:<value
/// of a set's item>`, `i:<index>`, and `.` for the item itself.
fn digest_fields(fields: &Map<String, Value>, value: &Value, depth: usize, hash: &mut Sha256) {
    for (name, inner) in fields {
        add(hash, name.as_bytes());
        let child = child(value, name);
        match inner.as_object() {
            Some(inner) if !inner.is_empty() && depth > 0 => {
                digest_fields(inner, child.unwrap_or(&Value::Null), depth - 1, hash);
            }
            // A leaf: convoy owns all that is here.
            _ if name != "." => add(hash, child.map(Value::to_string).unwrap_or_default().as_bytes()),
            _ => {}
        }
    }
    add(hash, b"end");
}

fn add(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

fn child<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let (sort, rest) = name.split_once(':')?;
    match sort {
        "f" => value.get(rest),
        "i" => value.get(rest.parse::<usize>().ok()?),
        "v" => {
            let wanted: Value = serde_json::from_str(rest).ok()?;
            value.as_array()?.iter().find(|item| **item == wanted)
        }
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
            let has_keys = |item: &&Value| {
                keys.iter().all(|(key, want)| item.get(key).is_none_or(|found| found == want))
            };
            value.as_array()?.iter().find(has_keys)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-11-01T12:00:00Z".parse().unwrap()
    }

    fn entry(manager: &str, operation: &str, time: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn config_map() -> Value {
        let fields = json!({"f:data": {"f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:x": {}}}});
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "uid": "u", "resourceVersion": "7", "labels": {"x": "1"},
                "managedFields": [entry("convoy", "Apply", "2026-11-01T10:00:00Z", &fields)],
            },
            "data": {"a": "1", "b": "2"},
        })
    }

    fn owned(object: &Value) -> [u8; 32] {
        look(object, now()).owned
    }

    #[test]
    fn a_change_of_an_owned_value_or_of_the_owned_set_shows() {
        let before = config_map();
        let mut changed = vec![before.clone(); 4];
        changed[0]["data"]["a"] = json!("x");
        changed[1]["data"].as_object_mut().unwrap().remove("a");
        changed[2]
            .pointer_mut("/metadata/managedFields/0/fieldsV1/f:data")
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove("f:a");
        changed[3]["metadata"]["managedFields"] = json!([]);
        for after in changed {
            assert_ne!(owned(&before), owned(&after), "{after}");
        }
    }

    #[test]
    fn what_others_own_does_not_show() {
        let before = config_map();
        let mut after = before.clone();
        after["data"]["c"] = json!("theirs");
        after["metadata"]["annotations"] = json!({"note": "theirs"});
        after["metadata"]["resourceVersion"] = json!("9");
        after["status"] = json!({"x": 1});
        let fields = json!({"f:data": {"f:c": {}}});
        after["metadata"]["managedFields"].as_array_mut().unwrap().push(entry(
            "kubectl-edit",
            "Update",
            "2026-11-01T11:00:00Z",
            &fields,
        ));
        assert_eq!(owned(&before), owned(&after));
        assert!(!look(&before, now()).is_written_by_others);
        assert!(look(&after, now()).is_written_by_others);
        after["metadata"]["managedFields"][1]["subresource"] = json!("status");
        assert!(!look(&after, now()).is_written_by_others);
    }

    #[test]
    fn items_of_lists_are_found_by_key_value_and_index() {
        let fields = json!({"f:spec": {
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}},
            "f:finalizers": {"v:\"a/b\"": {}},
            "f:plain": {"i:1": {}},
            "f:map": {".": {}, "f:k": {}},
        }});
        let object = json!({
            "metadata": {"managedFields": [entry("convoy", "Apply", "2026-11-01T10:00:00Z", &fields)]},
            "spec": {
                "ports": [{"port": 81, "protocol": "TCP", "name": "o"}, {"port": 80, "protocol": "TCP", "name": "web"}],
                "finalizers": ["x/y", "a/b"], "plain": ["p", "q"], "map": {"k": 1, "other": 2},
            },
        });
        for (pointer, value) in [
            ("/spec/ports/1/name", json!("w")),
            ("/spec/ports/1/port", json!(82)),
            ("/spec/finalizers/1", json!("c/d")),
            ("/spec/plain/1", json!("r")),
            ("/spec/map/k", json!(3)),
        ] {
            let mut changed = object.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_ne!(owned(&object), owned(&changed), "{pointer}");
        }
        for (pointer, value) in
            [("/spec/ports/0/name", json!("w")), ("/spec/map/other", json!(3)), ("/spec/plain/0", json!("r"))]
        {
            let mut changed = object.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_eq!(owned(&object), owned(&changed), "{pointer}");
        }
    }

    #[test]
    fn an_object_of_any_shape_is_looked_at() {
        for object in [
            json!(null),
            json!([]),
            json!({"metadata": 1}),
            json!({"metadata": {"managedFields": [1, {"manager": "convoy", "operation": "Apply", "fieldsV1": {"k:{": {"v:": {}}, "x": 3}}]}}),
        ] {
            look(&object, now());
        }
    }
}
