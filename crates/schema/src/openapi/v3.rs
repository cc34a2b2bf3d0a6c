//! `/openapi/v3` and the documents that it names.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::operations::{self, Body, Operation, PATH_PARAMETERS, patch_types};
use super::{ApiResource, group_version_path};

const REFERENCE: &str = "#/components/schemas/";
const ANSWER_TYPES: [&str; 2] = ["application/json", "application/yaml"];

/// A finished document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// JSON.
    pub body: Vec<u8>,
    /// The hash of the body, upper-case hexadecimal; it is the ETag and stands in the index.
    pub hash: String,
}

impl Document {
    /// Prints `value` and hashes it. Equal values give equal documents.
    pub fn new(value: &Value) -> Self {
        let body = value.to_string().into_bytes();
        let hash = Sha256::digest(&body).iter().map(|byte| format!("{byte:02X}")).collect();
        Self { body, hash }
    }
}

/// The index: the name of each document (see [`group_version_path`]) with its hash.
pub fn v3_index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let entries = documents.into_iter().map(|(path, hash)| {
        (path.to_owned(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}))
    });
    json!({"paths": entries.collect::<Map<_, _>>()})
}

/// The document of one group-version: the paths of its `resources` and all schemas that they lead to.
///
/// `schema` finds a schema by name; one that it does not know is described as any object. `version` is
/// the version of the server.
pub fn v3_document<'a>(
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
            let path = paths.entry(operation.path.clone()).or_insert_with(|| path_item(&operation.path));
            path[operation.method] = describe(&operation, resource);
        }
    }
    let info = json!({"title": "Kubernetes", "version": version});
    json!({
        "openapi": "3.0.0", "info": info, "paths": paths,
        "components": {"schemas": with_references(wanted, schema)},
    })
}

/// The schemas of those names and of all that they refer to.
pub(super) fn with_references<'a>(
    wanted: BTreeSet<String>,
    schema: impl Fn(&str) -> Option<&'a Value>,
) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut pending: Vec<String> = wanted.into_iter().collect();
    while let Some(name) = pending.pop() {
        if schemas.contains_key(&name) {
            continue;
        }
        let found = schema(&name).cloned().unwrap_or_else(|| json!({"type": "object"}));
        references(&found, &mut pending);
        schemas.insert(name, found);
    }
    schemas
}

fn references(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let target = fields.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix(REFERENCE));
            into.extend(target.map(str::to_owned));
            fields.values().for_each(|field| references(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

fn path_item(path: &str) -> Value {
    let parameters = PATH_PARAMETERS.iter().filter(|name| path.contains(&format!("{{{name}}}")));
    let parameters: Vec<Value> = parameters
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    if parameters.is_empty() { json!({}) } else { json!({"parameters": parameters}) }
}

fn describe(operation: &Operation<'_>, resource: &ApiResource) -> Value {
    let [group, version, kind] = operation.group_version_kind;
    let query: Vec<Value> = operation
        .query
        .iter()
        .map(|(name, kind)| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}}))
        .collect();
    let answer = content(&operation.response, ANSWER_TYPES);
    let mut responses = json!({"200": {"description": "OK", "content": answer}});
    if operation.method != "get" {
        let code = if operation.method == "delete" { "202" } else { "201" };
        let words = if operation.method == "delete" { "Accepted" } else { "Created" };
        responses[code] = json!({"description": words, "content": answer});
    }
    let mut described = json!({
        "tags": [group_version_path(&resource.group, &resource.version).replace('/', "_")],
        "operationId": operation.operation_id,
        "parameters": query,
        "responses": responses,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    });
    if let Some(body) = &operation.request {
        described["requestBody"] = match operation.method {
            "patch" => {
                json!({"content": content(body, patch_types(operation.strategic_patch)), "required": true})
            }
            "delete" => json!({"content": content(body, ["*/*"])}),
            _ => json!({"content": content(body, ["*/*"]), "required": true}),
        };
    }
    described
}

fn content(body: &Body<'_>, types: impl IntoIterator<Item = &'static str>) -> Value {
    let schema = match body.name() {
        Some(name) => json!({"$ref": format!("{REFERENCE}{name}")}),
        None => json!({"type": "object"}),
    };
    types.into_iter().map(|media_type| (media_type.to_owned(), json!({"schema": schema}))).collect()
}
