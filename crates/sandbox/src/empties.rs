//! What Go does not print: empty lists and maps, nulls, and false, zero and empty text where the field
//! is neither required nor a pointer.
//!
//! A schema does not say which field is a pointer, so scalars are known by name.

use convoy_schema::{BuiltIn, catalogue};
use serde_json::{Map, Value};

/// Scalars that are left out when they are false, 0 or empty.
const PLAIN_SCALARS: &[&str] = &[
    "externalName",
    "healthCheckNodePort",
    "hostIPC",
    "hostIP",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "hostname",
    "loadBalancerIP",
    "minReadySeconds",
    "namespace",
    "nodeName",
    "nodePort",
    "paused",
    "priorityClassName",
    "publishNotReadyAddresses",
    "readOnly",
    "serviceAccount",
    "serviceAccountName",
    "serviceName",
    "stdin",
    "stdinOnce",
    "subPath",
    "subPathExpr",
    "subdomain",
    "tty",
    "unschedulable",
    "workingDir",
];

const PRINT_RULES: [&str; 2] = ["io.k8s.api.rbac.v1.ClusterRole", "io.k8s.api.rbac.v1.Role"];

/// The deepest object of Kubernetes is far less deep.
const MAX_DEPTH: usize = 64;

/// Leaves out of an object of the definition what kube-apiserver would not print.
pub(crate) fn drop_empty(definition: &str, object: &mut Value) {
    let Some(schema) = catalogue().schemas.get(definition) else { return };
    let rules = object.get("rules").filter(|_| PRINT_RULES.contains(&definition)).cloned();
    walk(schema, object, 0);
    if let (Some(rules), Some(fields)) = (rules.filter(Value::is_array), object.as_object_mut()) {
        fields.entry("rules").or_insert(rules);
    }
}

/// Empty lists that are printed as null. Before validation they are still lists.
pub(crate) fn print_nulls(definition: &str, object: &mut Value) {
    if PRINT_RULES.contains(&definition)
        && let Some(fields) = object.as_object_mut()
    {
        let rules = fields.entry("rules").or_insert(Value::Null);
        if rules.as_array().is_some_and(Vec::is_empty) {
            *rules = Value::Null;
        }
    }
}

/// The object that Go prints when no field is set: structures that are no pointers, and what is
/// required.
pub(crate) fn zero(kind: &BuiltIn) -> Value {
    let mut object = match catalogue().schemas.get(&kind.definition) {
        Some(schema) => zero_of(schema, 0),
        None => Value::Object(Map::new()),
    };
    let group_version = if kind.group.is_empty() { String::new() } else { format!("{}/", kind.group) };
    object["apiVersion"] = Value::from(format!("{group_version}{}", kind.version));
    object["kind"] = Value::from(kind.kind.as_str());
    object
}

fn zero_of(schema: &'static Value, depth: usize) -> Value {
    let schema = resolve(schema);
    let mut fields = Map::new();
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten().filter(|_| depth < MAX_DEPTH) {
        match property.get("default") {
            Some(Value::Object(_)) => {
                fields.insert(name.clone(), zero_of(property, depth + 1));
            }
            default if required.contains(&name.as_str()) => {
                fields.insert(name.clone(), default.cloned().unwrap_or_default());
            }
            _ => {}
        }
    }
    Value::Object(fields)
}

/// The schema that stands behind a reference.
fn resolve(schema: &'static Value) -> &'static Value {
    let wrapped = schema.get("allOf").and_then(|all| all.get(0)).and_then(|only| only.get("$ref"));
    let reference = schema.get("$ref").or(wrapped).and_then(Value::as_str);
    let target = reference.and_then(|it| catalogue().schemas.get(it.strip_prefix("#/components/schemas/")?));
    target.unwrap_or(schema)
}

fn walk(schema: &'static Value, value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    let schema = resolve(schema);
    match value {
        Value::Object(fields) => {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                let required = schema.get("required").and_then(Value::as_array);
                let is_required = |name: &str| required.is_some_and(|it| it.iter().any(|one| one == name));
                known_fields(properties, is_required, fields, depth);
            } else if let Some(values) = schema.get("additionalProperties").filter(|it| it.is_object()) {
                fields.values_mut().for_each(|field| walk(values, field, depth + 1));
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| walk(schema, item, depth + 1));
            }
        }
        _ => {}
    }
}

fn known_fields(
    properties: &'static Map<String, Value>,
    is_required: impl Fn(&str) -> bool,
    fields: &mut Map<String, Value>,
    depth: usize,
) {
    fields.retain(|name, field| {
        let Some(schema) = properties.get(name) else { return true };
        walk(schema, field, depth + 1);
        let schema = resolve(schema);
        let is_map = schema.get("additionalProperties").is_some();
        let empty = match &*field {
            Value::Null => return is_required(name),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => is_map && entries.is_empty(),
            Value::Bool(flag) => return *flag || !PLAIN_SCALARS.contains(&name.as_str()),
            Value::Number(number) => {
                return number.as_i64() != Some(0) || !PLAIN_SCALARS.contains(&name.as_str());
            }
            Value::String(text) => {
                return !text.is_empty() || is_required(name) || !PLAIN_SCALARS.contains(&name.as_str());
            }
        };
        !empty || is_required(name)
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_lists_and_maps_go_and_empty_structures_stay() {
        let mut object = json!({
            "metadata": {"name": "a", "labels": {}, "annotations": null},
            "spec": {"containers": [{"name": "c", "env": [], "tty": false, "volumeMounts": null}],
                "hostNetwork": false, "nodeSelector": {}, "securityContext": {}, "volumes": [{"name": "e", "emptyDir": {}}]},
        });
        drop_empty("io.k8s.api.core.v1.Pod", &mut object);
        let want = json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c"}], "securityContext": {}, "volumes": [{"name": "e", "emptyDir": {}}]},
        });
        assert_eq!(object, want);
    }

    #[test]
    fn rules_of_a_role_are_printed_as_null() {
        let mut object = json!({"metadata": {"name": "a"}, "rules": []});
        drop_empty("io.k8s.api.rbac.v1.ClusterRole", &mut object);
        print_nulls("io.k8s.api.rbac.v1.ClusterRole", &mut object);
        assert_eq!(object, json!({"metadata": {"name": "a"}, "rules": null}));
    }
}
