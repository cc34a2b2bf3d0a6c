//! `cargo xtask schemas`: the catalogue of Kubernetes' built-in kinds, read from a running
//! kube-apiserver and written, without its prose, to `crates/schema/data/kubernetes.json`.
//!
//! The file has one resource or definition a line, sorted, so that a new Kubernetes version shows as a
//! readable change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use convoy_testkit::{ControlPlane, HttpsClient};
use serde_json::{Map, Value, json};

use crate::workspace;

const AGGREGATED_DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const REFERENCE: &str = "#/components/schemas/";

/// What to do with the file.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only compare: fail when the committed file is not what kube-apiserver says.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let file = workspace::root().join("crates/schema/data/kubernetes.json");
    let control_plane = ControlPlane::start().context("could not start kube-apiserver")?;
    let made = catalogue(control_plane.client())?;
    if arguments.check {
        let committed =
            fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
        ensure!(committed == made, "{} is not up to date; run `cargo xtask schemas`", file.display());
        return Ok(());
    }
    write(&file, &made)
}

fn write(file: &PathBuf, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text).with_context(|| format!("could not write {}", file.display()))?;
    println!("{}: {} KB", file.display(), text.len() / 1024);
    Ok(())
}

fn catalogue(client: &HttpsClient) -> anyhow::Result<String> {
    let version = get(client, "/version", "application/json")?;
    let version = version["gitVersion"].as_str().context("/version names no gitVersion")?.to_owned();
    let definitions = definitions(client)?;
    let resources = resources(client, &definitions)?;
    let kept = reachable(&definitions, &resources)?;

    let mut text = format!("{{\"kubernetes\":{},\n\"resources\":[\n", json!(version));
    let lines: Vec<String> = resources.iter().map(Value::to_string).collect();
    text.push_str(&lines.join(",\n"));
    text.push_str("\n],\n\"definitions\":{\n");
    let lines: Vec<String> =
        kept.iter().map(|name| format!("{}:{}", json!(name), definitions[name])).collect();
    text.push_str(&lines.join(",\n"));
    text.push_str("\n}}\n");
    Ok(text)
}

fn get(client: &HttpsClient, path: &str, accept: &str) -> anyhow::Result<Value> {
    let answer = client.request("GET", path, &[("Accept", accept)], b"")?;
    ensure!(answer.status == 200, "GET {path}: {} {}", answer.status, answer.text());
    Ok(answer.json())
}

/// Every definition of every group-version, without prose.
fn definitions(client: &HttpsClient) -> anyhow::Result<BTreeMap<String, Value>> {
    let index = get(client, "/openapi/v3", "application/json")?;
    let mut definitions = BTreeMap::new();
    for (path, entry) in index["paths"].as_object().context("/openapi/v3 has no paths")? {
        if !path.starts_with("api/v") && path.split('/').count() != 3 {
            continue;
        }
        let url = entry["serverRelativeURL"].as_str().context("an entry of /openapi/v3 has no URL")?;
        let document = get(client, url, "application/json")?;
        let schemas = document["components"]["schemas"].as_object();
        for (name, schema) in schemas.into_iter().flatten() {
            let schema = without_prose(schema);
            let before = definitions.insert(name.clone(), schema.clone());
            // Only the list of kinds that a shared definition serves may differ between documents.
            if let Some(before) = before {
                let (mut left, mut right) = (before, schema);
                for side in [&mut left, &mut right] {
                    side.as_object_mut().map(|fields| fields.remove("x-kubernetes-group-version-kind"));
                }
                ensure!(left == right, "{name} differs between documents, also in {path}");
            }
        }
    }
    Ok(definitions)
}

fn without_prose(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut kept = Map::new();
    for (keyword, value) in fields {
        let value = match (keyword.as_str(), value) {
            ("description" | "example" | "externalDocs" | "x-kubernetes-unions", _) => continue,
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, property)| (name.clone(), without_prose(property))).collect()
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter().map(without_prose).collect()
            }
            ("items" | "additionalProperties" | "not", schema) => without_prose(schema),
            (_, value) => value.clone(),
        };
        kept.insert(keyword.clone(), value);
    }
    Value::Object(kept)
}

fn resources(client: &HttpsClient, definitions: &BTreeMap<String, Value>) -> anyhow::Result<Vec<Value>> {
    let kinds = kinds(definitions);
    let mut resources = Vec::new();
    for root in ["/api", "/apis"] {
        let discovery = get(client, root, AGGREGATED_DISCOVERY)?;
        ensure!(discovery["kind"] == "APIGroupDiscoveryList", "{root} has no aggregated discovery");
        for group in discovery["items"].as_array().into_iter().flatten() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().into_iter().flatten() {
                let version_name = version["version"].as_str().context("a version has no name")?;
                for resource in version["resources"].as_array().into_iter().flatten() {
                    let mut line = one_resource(name, version_name, resource, &kinds)?;
                    if let Some(columns) = columns(client, root, name, version_name, resource)? {
                        line["columns"] = columns;
                    }
                    resources.push(line);
                }
            }
        }
    }
    Ok(resources)
}

/// The columns of `kubectl get`, of resources that can be listed.
fn columns(
    client: &HttpsClient,
    root: &str,
    group: &str,
    version: &str,
    resource: &Value,
) -> anyhow::Result<Option<Value>> {
    if !resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list")) {
        return Ok(None);
    }
    let plural = resource["resource"].as_str().unwrap_or_default();
    let group = if group.is_empty() { String::new() } else { format!("/{group}") };
    let table = get(client, &format!("{root}{group}/{version}/{plural}"), TABLE)?;
    let definitions = table["columnDefinitions"].as_array().context("a Table has no columnDefinitions")?;
    let columns = definitions.iter().map(|it| {
        let mut column = json!({"name": it["name"], "type": it["type"]});
        for field in ["format", "priority"] {
            if it[field] != "" && it[field] != 0 {
                column[field] = it[field].clone();
            }
        }
        column
    });
    Ok(Some(columns.collect()))
}

/// (group, version, kind) → definition. A definition that many kinds share, such as DeleteOptions, is
/// nobody's.
fn kinds(definitions: &BTreeMap<String, Value>) -> BTreeMap<(String, String, String), String> {
    let mut kinds = BTreeMap::new();
    for (name, schema) in definitions {
        let entries = schema["x-kubernetes-group-version-kind"].as_array();
        let [entry] = entries.map(Vec::as_slice).unwrap_or_default() else { continue };
        let field = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        kinds.insert((field("group"), field("version"), field("kind")), name.clone());
    }
    kinds
}

fn one_resource(
    group: &str,
    version: &str,
    resource: &Value,
    kinds: &BTreeMap<(String, String, String), String>,
) -> anyhow::Result<Value> {
    let kind = resource["responseKind"]["kind"].as_str().unwrap_or_default();
    let definition = kinds
        .get(&(group.to_owned(), version.to_owned(), kind.to_owned()))
        .with_context(|| format!("{group}/{version} {kind} has no definition"))?;
    let mut line = json!({
        "group": group, "version": version, "kind": kind, "definition": definition,
        "plural": resource["resource"], "singular": resource["singularResource"],
        "namespaced": resource["scope"] == "Namespaced", "verbs": resource["verbs"],
    });
    for (from, to) in [("shortNames", "shortNames"), ("categories", "categories")] {
        if resource[from].is_array() {
            line[to] = resource[from].clone();
        }
    }
    let mut subresources = Vec::new();
    for subresource in resource["subresources"].as_array().into_iter().flatten() {
        let kind = &subresource["responseKind"];
        if !kind.is_object() {
            bail!("{group}/{version} {}/{} has no kind", resource["resource"], subresource["subresource"]);
        }
        let text = |value: &Value, otherwise: &str| {
            value.as_str().filter(|text| !text.is_empty()).unwrap_or(otherwise).to_owned()
        };
        subresources.push(json!({
            "name": subresource["subresource"], "verbs": subresource["verbs"],
            "group": text(&kind["group"], group), "version": text(&kind["version"], version), "kind": kind["kind"],
        }));
    }
    if !subresources.is_empty() {
        line["subresources"] = json!(subresources);
    }
    Ok(line)
}

/// The definitions of the resources, of their lists and subresources, and all that these refer to.
fn reachable(definitions: &BTreeMap<String, Value>, resources: &[Value]) -> anyhow::Result<BTreeSet<String>> {
    let kinds = kinds(definitions);
    let mut pending: Vec<String> = Vec::new();
    for resource in resources {
        let key = |source: &Value, kind: &str| {
            let field = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
            (field("group"), field("version"), kind.to_owned())
        };
        let kind = resource["kind"].as_str().unwrap_or_default();
        pending.extend(kinds.get(&key(resource, kind)).cloned());
        pending.extend(kinds.get(&key(resource, &format!("{kind}List"))).cloned());
        for subresource in resource["subresources"].as_array().into_iter().flatten() {
            let kind = subresource["kind"].as_str().unwrap_or_default();
            pending.extend(kinds.get(&key(subresource, kind)).cloned());
        }
    }
    for meta in ["DeleteOptions", "Status", "WatchEvent", "Patch"] {
        pending.push(format!("io.k8s.apimachinery.pkg.apis.meta.v1.{meta}"));
    }
    let mut kept = BTreeSet::new();
    while let Some(name) = pending.pop() {
        let definition =
            definitions.get(&name).with_context(|| format!("{name} is referred to but missing"))?;
        if kept.insert(name) {
            references(definition, &mut pending);
        }
    }
    Ok(kept)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_goes_and_fields_called_description_stay() {
        let schema = json!({"description": "x", "properties": {"description": {"type": "string", "description": "y"}}});
        assert_eq!(without_prose(&schema), json!({"properties": {"description": {"type": "string"}}}));
    }
}
