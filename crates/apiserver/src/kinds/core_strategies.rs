//! What is special about Secrets and ConfigMaps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoy_meta::{FieldError, TableColumn};
use convoy_registry::{RequestContext, Strategy};
use serde_json::{Map, Value, json};

use super::columns::{age, name};

/// All data of one object together, in bytes.
const MAX_DATA: usize = 1024 * 1024;

fn count(object: &Value, fields: &[&str]) -> usize {
    fields.iter().filter_map(|field| object.get(*field)?.as_object()).map(Map::len).sum()
}

fn key_errors(object: &Value, field: &str, errors: &mut Vec<FieldError>) -> usize {
    let mut size = 0;
    for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
        let shaped = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if key.is_empty() || key.len() > 253 || !shaped || key == "." || key == ".." {
            let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
            errors.push(FieldError::invalid(format!("{field}[{key}]"), key.as_str(), detail));
        }
        size += value.as_str().map_or(0, str::len);
    }
    size
}

fn immutable(object: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    let frozen = |object: &Value| object.get("immutable") == Some(&Value::Bool(true));
    let detail = "field is immutable when `immutable` is set";
    let mut errors = Vec::new();
    if frozen(old) {
        if !frozen(object) {
            errors.push(FieldError::forbidden("immutable", detail));
        }
        for field in fields {
            if object.get(*field) != old.get(*field) {
                errors.push(FieldError::forbidden(*field, detail));
            }
        }
    }
    errors
}

/// Secrets: a type, `stringData` that becomes `data`, and data that is base64.
#[derive(Debug)]
pub(super) struct Secrets;

/// Moves `stringData` into `data`, where it wins, and drops it: it is only ever written.
fn move_string_data(object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    if let Some(Value::Object(strings)) = map.remove("stringData") {
        let data = map.entry("data").or_insert_with(|| json!({}));
        if data.is_null() {
            *data = json!({});
        }
        if let Value::Object(data) = data {
            for (key, value) in strings {
                let text = value.as_str().unwrap_or_default();
                data.insert(key, Value::from(STANDARD.encode(text.as_bytes())));
            }
        }
    }
}

impl Strategy for Secrets {
    fn default_object(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut()
            && map.get("type").and_then(Value::as_str).unwrap_or_default().is_empty()
        {
            map.insert("type".into(), "Opaque".into());
        }
    }

    fn prepare_for_create(&self, _context: &RequestContext, object: &mut Value) {
        move_string_data(object);
    }

    fn prepare_for_update(&self, _: &RequestContext, _: &str, object: &mut Value, old: &Value) {
        move_string_data(object);
        // A client that sends no type means the one there is.
        if let (Some(map), Some(type_)) = (object.as_object_mut(), old.get("type"))
            && map.get("type").and_then(Value::as_str).unwrap_or_default().is_empty()
        {
            map.insert("type".into(), type_.clone());
        }
    }

    fn validate(&self, _context: &RequestContext, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let size = key_errors(object, "data", &mut errors) / 4 * 3;
        if size > MAX_DATA {
            errors.push(FieldError::too_long("data", MAX_DATA));
        }
        for (key, value) in object.get("data").and_then(Value::as_object).into_iter().flatten() {
            if STANDARD.decode(value.as_str().unwrap_or_default()).is_err() {
                // The value is not repeated: it is a secret.
                errors.push(FieldError::forbidden(format!("data[{key}]"), "illegal base64 data"));
            }
        }
        let required: &[&str] = match object.get("type").and_then(Value::as_str).unwrap_or_default() {
            "kubernetes.io/tls" => &["tls.crt", "tls.key"],
            "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
            "kubernetes.io/dockercfg" => &[".dockercfg"],
            "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
            _ => &[],
        };
        for key in required {
            if object.get("data").and_then(|data| data.get(*key)).is_none() {
                errors.push(FieldError::required(format!("data[{key}]"), ""));
            }
        }
        errors
    }

    fn validate_update(&self, _: &RequestContext, _: &str, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = immutable(object, old, &["data"]);
        if object.get("type") != old.get("type") {
            let value = object.get("type").cloned().unwrap_or_default();
            errors.push(FieldError::invalid("type", value, "field is immutable"));
        }
        errors
    }

    fn table_columns(&self) -> Option<Vec<TableColumn>> {
        Some(vec![
            TableColumn::name_column(),
            TableColumn::new("Type", "string", "What the data is for."),
            TableColumn::new("Data", "string", "Number of keys."),
            TableColumn::age_column(),
        ])
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let type_ = object.get("type").cloned().unwrap_or_else(|| json!(""));
        vec![name(object), type_, json!(count(object, &["data"])), age(object, now)]
    }
}

/// ConfigMaps: keys of both maps are bounded and distinct.
#[derive(Debug)]
pub(super) struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn validate(&self, _context: &RequestContext, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let text = key_errors(object, "data", &mut errors);
        let binary = key_errors(object, "binaryData", &mut errors) / 4 * 3;
        for (key, _) in object.get("data").and_then(Value::as_object).into_iter().flatten() {
            if object.get("binaryData").and_then(|data| data.get(key)).is_some() {
                let detail = format!("duplicate of key present in {}", "binaryData");
                errors.push(FieldError::invalid(format!("data[{key}]"), key.as_str(), detail));
            }
        }
        if text + binary > MAX_DATA {
            errors.push(FieldError::too_long("", MAX_DATA));
        }
        errors
    }

    fn validate_update(&self, _: &RequestContext, _: &str, object: &Value, old: &Value) -> Vec<FieldError> {
        immutable(object, old, &["data", "binaryData"])
    }

    fn table_columns(&self) -> Option<Vec<TableColumn>> {
        Some(vec![
            TableColumn::name_column(),
            TableColumn::new("Data", "string", "Number of keys."),
            TableColumn::age_column(),
        ])
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![name(object), json!(count(object, &["data", "binaryData"])), age(object, now)]
    }
}

/// Leases: a positive duration, and a holder in the table.
#[derive(Debug)]
pub(super) struct Leases;

impl Strategy for Leases {
    fn validate(&self, _context: &RequestContext, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let number = |field: &str| object.pointer(&format!("/spec/{field}")).and_then(Value::as_i64);
        if let Some(seconds) = number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            let detail = "must be greater than 0";
            errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, detail));
        }
        if let Some(count) = number("leaseTransitions").filter(|count| *count < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("spec.leaseTransitions", count, detail));
        }
        errors
    }

    fn table_columns(&self) -> Option<Vec<TableColumn>> {
        Some(vec![
            TableColumn::name_column(),
            TableColumn::new("Holder", "string", "Who holds the lease."),
            TableColumn::age_column(),
        ])
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        vec![name(object), super::columns::text(object, "/spec/holderIdentity").into(), age(object, now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_data_becomes_data_and_wins() {
        let mut secret = json!({"data": {"a": "eA=="}, "stringData": {"a": "y", "b": "z"}});
        let context = RequestContext::internal("test", jiff::Timestamp::UNIX_EPOCH);
        Secrets.prepare_for_create(&context, &mut secret);
        assert_eq!(secret, json!({"data": {"a": "eQ==", "b": "eg=="}}));
    }

    #[test]
    fn a_fault_in_a_secret_does_not_show_its_data() {
        let secret = json!({"type": "kubernetes.io/tls", "data": {"a b": "hunter2!"}});
        let context = RequestContext::internal("test", jiff::Timestamp::UNIX_EPOCH);
        let errors = Secrets.validate(&context, &secret);
        assert_eq!(errors.len(), 4, "{errors:#?}");
        assert!(errors.iter().all(|error| !error.to_string().contains("hunter2")));
    }

    #[test]
    fn immutable_data_stays() {
        let old = json!({"immutable": true, "data": {"a": "b"}});
        let errors = immutable(&json!({"data": {"a": "c"}}), &old, &["data"]);
        assert_eq!(errors.len(), 2);
    }
}
