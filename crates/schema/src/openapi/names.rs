//! Names of definitions and documents, and the schemas of custom resources.

use serde_json::{Map, Value, json};

const META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The name of a kind's schema: the group backwards, the version and the kind, such as
/// `io.kumodo.convoy.v1alpha1.Release`. No name of Kubernetes' own can collide with it.
pub fn definition_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

/// Where the group-version is served, and the name of its document: `api/v1` or `apis/<group>/<version>`.
pub fn group_version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The schemas of a custom resource and of its list, by name, for `components.schemas`.
///
/// `schema` is the structural schema as it stands in the CustomResourceDefinition; apiVersion, kind and
/// metadata are added, also in embedded objects. They refer to definitions of the
/// [`catalogue`](crate::catalogue()).
pub fn custom_resource_schemas(
    group: &str,
    version: &str,
    kind: &str,
    list_kind: &str,
    schema: Option<&Value>,
) -> Vec<(String, Value)> {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut object = schema.filter(|schema| schema.is_object()).cloned().unwrap_or(free);
    complete(&mut object, true, 0);
    object["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
    let name = definition_name(group, version, kind);
    let list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": format!("{META}ListMeta")}]},
            "items": {"type": "array", "items": {"$ref": format!("#/components/schemas/{name}")}},
        },
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": list_kind}],
    });
    let list_name = format!("{name}List");
    vec![(name, object), (list_name, list)]
}

fn complete(schema: &mut Value, is_resource: bool, depth: usize) {
    if depth > crate::MAX_DEPTH {
        return;
    }
    let Value::Object(fields) = schema else { return };
    let embedded = fields.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    if is_resource || embedded {
        let properties = fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        properties["apiVersion"] = json!({"type": "string"});
        properties["kind"] = json!({"type": "string"});
        properties["metadata"] = json!({"allOf": [{"$ref": format!("{META}ObjectMeta")}]});
    }
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(|property| complete(property, false, depth + 1));
            }
            ("items" | "additionalProperties", schema) => complete(schema, false, depth + 1),
            _ => {}
        }
    }
}
