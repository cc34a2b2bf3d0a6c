//! `/openapi/v2`: everything in one document, in the older form. kube-aggregator and old clients read
//! it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::operations::{self, Body, PATH_PARAMETERS, patch_types};
use super::v3::with_references;
use super::{ApiResource, group_version_path};

const V3_REFERENCE: &str = "#/components/schemas/";
const V2_REFERENCE: &str = "#/definitions/";

/// The document of all `resources`; see [`v3_document`](super::v3_document) for the arguments.
///
/// What OpenAPI v2 cannot say is left out, as kube-apiserver does: `nullable`, `oneOf`, `anyOf` and `not`.
pub fn v2_document<'a>(
    version: &str,
    resources: &[ApiResource],
    schema: impl Fn(&str) -> Option<&'a Value>,
) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut wanted = BTreeSet::new();
    for resource in resources {
        wanted.insert(resource.definition.clone());
        for operation in operations::of(resource) {
            wanted.extend(operation.response.name());
            wanted.extend(operation.request.as_ref().and_then(Body::name));
            let mut parameters: Vec<Value> = operation
                .query
                .iter()
                .map(|(name, kind)| json!({"name": name, "in": "query", "type": kind, "uniqueItems": true}))
                .collect();
            if let Some(body) = &operation.request {
                let required = operation.method != "delete";
                parameters.push(
                    json!({"name": "body", "in": "body", "required": required, "schema": reference(body)}),
                );
            }
            let consumes: Vec<&str> = match operation.method {
                "patch" => patch_types(operation.strategic_patch).collect(),
                _ => vec!["*/*"],
            };
            let [group, version, kind] = operation.group_version_kind;
            let described = json!({
                "consumes": consumes,
                "produces": ["application/json", "application/yaml"],
                "schemes": ["https"],
                "tags": [group_version_path(&resource.group, &resource.version).replace('/', "_")],
                "operationId": operation.operation_id,
                "parameters": parameters,
                "responses": {"200": {"description": "OK", "schema": reference(&operation.response)}},
                "x-kubernetes-action": operation.action,
                "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
            });
            let path = paths.entry(operation.path.clone()).or_insert_with(|| path_item(&operation.path));
            path[operation.method] = described;
        }
    }
    let mut definitions = with_references(wanted, schema);
    definitions.values_mut().for_each(|definition| convert(definition, 0));
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": version},
        "paths": paths, "definitions": definitions,
    })
}

fn path_item(path: &str) -> Value {
    let parameters = PATH_PARAMETERS.iter().filter(|name| path.contains(&format!("{{{name}}}")));
    let parameters: Vec<Value> = parameters
        .map(|name| json!({"name": name, "in": "path", "required": true, "type": "string"}))
        .collect();
    if parameters.is_empty() { json!({}) } else { json!({"parameters": parameters}) }
}

fn reference(body: &Body<'_>) -> Value {
    match body.name() {
        Some(name) => json!({"$ref": format!("{V2_REFERENCE}{name}")}),
        None => json!({"type": "object"}),
    }
}

fn convert(schema: &mut Value, depth: usize) {
    if depth > crate::MAX_DEPTH {
        return;
    }
    let Value::Object(fields) = schema else { return };
    // A reference beside other words stands in an allOf of one in v3, and alone in v2.
    if let Some(only) = fields.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1) {
        let target = only.first().and_then(|it| it.get("$ref")).cloned();
        fields.remove("allOf");
        if let Some(target) = target {
            fields.insert("$ref".to_owned(), target);
        }
    }
    if let Some(Value::String(target)) = fields.get_mut("$ref")
        && let Some(name) = target.strip_prefix(V3_REFERENCE)
    {
        *target = format!("{V2_REFERENCE}{name}");
    }
    // A number or a string is printed as a string in v2.
    if fields.get("oneOf").is_some() && !fields.contains_key("type") {
        fields.insert("type".to_owned(), json!("string"));
    }
    for word in ["nullable", "oneOf", "anyOf", "allOf", "not"] {
        fields.remove(word);
    }
    if fields.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        fields.insert("format".to_owned(), json!("int-or-string"));
    }
    for (keyword, value) in fields {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(|property| convert(property, depth + 1));
            }
            ("items" | "additionalProperties", schema) => convert(schema, depth + 1),
            _ => {}
        }
    }
}
