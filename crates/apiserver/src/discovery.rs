//! Discovery: which groups, versions and resources there are, aggregated and by group.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use convoy_registry::{ResourceTable, Resources, Scope, Verb};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::negotiation::{Accepted, Format, accepts_kind};
use crate::response::{self, Response};

/// The documents of one moment, made when first asked for after a change of the table.
#[derive(Debug)]
pub struct Discovery {
    table: Arc<ResourceTable>,
    documents: Mutex<Option<(u64, Arc<Documents>)>>,
}

/// One document and its tag.
#[derive(Debug)]
struct Document {
    value: Value,
    json: Bytes,
    etag: String,
}

impl Document {
    fn new(value: Value) -> Self {
        let json = Bytes::from(value.to_string());
        let digest: [u8; 32] = Sha256::digest(&json).into();
        let etag = digest.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        Self { value, json, etag: format!("\"{etag}\"") }
    }
}

/// Documents by path, and the aggregated ones by path and version.
type Documents = BTreeMap<(String, Shape), Document>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Legacy,
    V2,
    V2Beta1,
}

const AGGREGATED: [(Shape, &str, &str); 2] = [
    (Shape::V2, "v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    (Shape::V2Beta1, "v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
];

impl Discovery {
    /// Discovery of the resources of a table.
    pub fn new(table: Arc<ResourceTable>) -> Self {
        Self { table, documents: Mutex::new(None) }
    }

    /// Answers a discovery path, or `None` when the path is no such.
    pub fn answer(&self, path: &str, headers: &HeaderMap, accepted: &Accepted) -> Option<Response> {
        let documents = self.documents();
        let aggregated = AGGREGATED.iter().find(|(shape, version, _)| {
            documents.contains_key(&(path.to_owned(), *shape))
                && accepts_kind(headers, "apidiscovery.k8s.io", version, "APIGroupDiscoveryList")
        });
        let shape = aggregated.map_or(Shape::Legacy, |(shape, ..)| *shape);
        let document = documents.get(&(path.to_owned(), shape))?;
        let content_type = aggregated.map_or(accepted.format.media_type(), |(.., content_type)| content_type);
        Some(tagged(document, content_type, headers, accepted))
    }

    fn documents(&self) -> Arc<Documents> {
        let version = *self.table.subscribe().borrow();
        let mut current = self.documents.lock();
        match &*current {
            Some((made_for, documents)) if *made_for == version => documents.clone(),
            _ => {
                let documents = Arc::new(documents(&self.table.load()));
                *current = Some((version, documents.clone()));
                documents
            }
        }
    }
}

fn tagged(document: &Document, content_type: &str, headers: &HeaderMap, accepted: &Accepted) -> Response {
    let known = headers.get(IF_NONE_MATCH).and_then(|tag| tag.to_str().ok()).unwrap_or_default();
    let unchanged = known.split(',').any(|tag| tag.trim() == document.etag);
    let aggregated = content_type.contains("as=");
    let mut answer = if unchanged {
        let mut answer = http::Response::new(response::full(Bytes::new()));
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        answer
    } else if aggregated || (accepted.format == Format::Json && !accepted.pretty) {
        let mut answer = http::Response::new(response::full(document.json.clone()));
        response::describe(&mut answer, accepted);
        answer
    } else {
        response::value(StatusCode::OK, &document.value, accepted)
    };
    let headers = answer.headers_mut();
    for (name, value) in [(CONTENT_TYPE, content_type), (ETAG, document.etag.as_str())] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    if aggregated {
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    }
    answer
}

/// Orders versions as Kubernetes prefers them: v2, v1, v2beta1, v1beta1, v1alpha1, then the rest.
fn preference(version: &str) -> (Reverse<u8>, Reverse<u32>, Reverse<u32>, String) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u32 = rest.get(..digits)?.parse().ok()?;
        let rest = rest.get(digits..)?;
        match (rest, rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            ("", ..) => Some((3, major, 0)),
            (_, Some(minor), _) => Some((2, major, minor.parse().ok()?)),
            (_, _, Some(minor)) => Some((1, major, minor.parse().ok()?)),
            _ => None,
        }
    });
    let (level, major, minor) = parsed.unwrap_or((0, 0, 0));
    (Reverse(level), Reverse(major), Reverse(minor), version.to_owned())
}

fn documents(resources: &Resources) -> Documents {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in resources.iter() {
        let versions = groups.entry(resource.group.as_str()).or_default();
        if !versions.contains(&resource.version.as_str()) {
            versions.push(resource.version.as_str());
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| preference(version));
    }
    let mut out = Documents::new();
    let mut put = |path: String, shape, value| out.insert((path, shape), Document::new(value));
    let mut legacy_groups = Vec::new();
    for (group, versions) in &groups {
        for version in versions {
            let group_version = group_version(group, version);
            let list = json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
                "resources": legacy_resources(resources, group, version),
            });
            let path =
                if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group_version}") };
            put(path, Shape::Legacy, list);
        }
        if !group.is_empty() {
            let mut described = legacy_group(group, versions);
            legacy_groups.push(described.clone());
            if let Some(map) = described.as_object_mut() {
                map.insert("kind".into(), "APIGroup".into());
                map.insert("apiVersion".into(), "v1".into());
            }
            put(format!("/apis/{group}"), Shape::Legacy, described);
        }
    }
    let groups_document = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": legacy_groups});
    put("/apis".into(), Shape::Legacy, groups_document);
    let core = groups.get("").cloned().unwrap_or_default();
    let core_document = json!({
        "kind": "APIVersions", "versions": core,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    });
    put("/api".into(), Shape::Legacy, core_document);
    for (shape, api_version, _) in AGGREGATED {
        for (path, is_core) in [("/api", true), ("/apis", false)] {
            let items: Vec<Value> = groups
                .iter()
                .filter(|(group, _)| group.is_empty() == is_core)
                .map(|(group, versions)| aggregated_group(resources, group, versions))
                .collect();
            let document = json!({
                "kind": "APIGroupDiscoveryList",
                "apiVersion": format!("apidiscovery.k8s.io/{api_version}"),
                "metadata": {},
                "items": items,
            });
            put(path.into(), shape, document);
        }
    }
    out
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn legacy_group(group: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| json!({"groupVersion": group_version(group, version), "version": version});
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": group, "versions": all, "preferredVersion": all.first()})
}

fn verbs(verbs: &[Verb]) -> Vec<&'static str> {
    let mut names: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
    names.sort_unstable();
    names
}

fn legacy_resources(resources: &Resources, group: &str, version: &str) -> Vec<Value> {
    let mut out = Vec::new();
    for resource in resources.iter().filter(|r| r.group == group && r.version == version) {
        let namespaced = resource.scope == Scope::Namespaced;
        let mut entry = Map::new();
        entry.insert("name".into(), resource.plural.as_str().into());
        entry.insert("singularName".into(), resource.singular.as_str().into());
        entry.insert("namespaced".into(), namespaced.into());
        entry.insert("kind".into(), resource.kind.as_str().into());
        entry.insert("verbs".into(), verbs(&resource.verbs).into());
        for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
            if !names.is_empty() {
                entry.insert(field.into(), names.clone().into());
            }
        }
        out.push(Value::Object(entry));
        for subresource in &resource.subresources {
            let kind = subresource.kind.clone().unwrap_or_else(|| resource.gvk());
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, subresource.name), "singularName": "",
                "namespaced": namespaced, "kind": kind.kind, "verbs": verbs(&subresource.verbs),
            });
            if (kind.group.as_str(), kind.version.as_str()) != (group, version)
                && let Some(map) = entry.as_object_mut()
            {
                map.insert("group".into(), kind.group.into());
                map.insert("version".into(), kind.version.into());
            }
            out.push(entry);
        }
    }
    out
}

fn aggregated_group(resources: &Resources, group: &str, versions: &[&str]) -> Value {
    let kind_of = |kind: &convoy_meta::GroupVersionKind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let described = versions.iter().map(|version| {
        let served = resources.iter().filter(|r| r.group == group && r.version == *version);
        let list: Vec<Value> = served
            .map(|resource| {
                let scope = if resource.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" };
                let mut entry = json!({
                    "resource": resource.plural, "responseKind": kind_of(&resource.gvk()), "scope": scope,
                    "singularResource": resource.singular, "verbs": verbs(&resource.verbs),
                });
                let Some(map) = entry.as_object_mut() else { return entry };
                let names = [("shortNames", &resource.short_names), ("categories", &resource.categories)];
                for (field, names) in names.into_iter().filter(|(_, names)| !names.is_empty()) {
                    map.insert(field.into(), names.clone().into());
                }
                let subresources: Vec<Value> = resource
                    .subresources
                    .iter()
                    .map(|sub| {
                        let kind = sub.kind.clone().unwrap_or_else(|| resource.gvk());
                        json!({"subresource": sub.name, "responseKind": kind_of(&kind), "verbs": verbs(&sub.verbs)})
                    })
                    .collect();
                if !subresources.is_empty() {
                    map.insert("subresources".into(), subresources.into());
                }
                entry
            })
            .collect();
        json!({"version": version, "resources": list, "freshness": "Current"})
    });
    let described: Vec<Value> = described.collect();
    json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": described})
}

#[cfg(test)]
mod tests {
    use convoy_registry::{ResourceDef, Subresource};

    use super::*;

    fn discovery() -> Discovery {
        let table = Arc::new(ResourceTable::default());
        let mut release =
            ResourceDef::new("convoy.kumodo.io", "v1alpha1", "Release", "releases", Scope::Namespaced);
        release.subresources.push(Subresource::status());
        release.short_names.push("rel".into());
        table.install([ResourceDef::new("", "v1", "Secret", "secrets", Scope::Namespaced), release]);
        Discovery::new(table)
    }

    fn headers(name: http::header::HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn aggregated_discovery_is_given_to_those_who_ask_and_tagged() {
        let discovery = discovery();
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let asked = headers(http::header::ACCEPT, accept);
        let answer = discovery.answer("/apis", &asked, &Accepted::default()).unwrap();
        assert_eq!(answer.headers()[CONTENT_TYPE], AGGREGATED[0].2);
        let tag = answer.headers()[ETAG].to_str().unwrap().to_owned();
        let mut again = asked;
        again.insert(IF_NONE_MATCH, tag.parse().unwrap());
        let answer = discovery.answer("/apis", &again, &Accepted::default()).unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_MODIFIED);
        let plain = discovery.answer("/apis", &HeaderMap::new(), &Accepted::default()).unwrap();
        assert_eq!(plain.headers()[CONTENT_TYPE], "application/json");
        assert!(discovery.answer("/apis/unheard", &HeaderMap::new(), &Accepted::default()).is_none());
    }

    #[test]
    fn every_resource_and_subresource_has_its_kind_and_verbs() {
        let documents = documents(&discovery().table.load());
        let path = ("/apis/convoy.kumodo.io/v1alpha1".to_owned(), Shape::Legacy);
        let list = &documents[&path].value["resources"];
        assert_eq!(list[0]["name"], "releases");
        assert_eq!(list[0]["shortNames"], json!(["rel"]));
        assert_eq!(list[1]["name"], "releases/status");
        assert_eq!(list[1]["verbs"], json!(["get", "patch", "update"]));
        let aggregated = &documents[&("/apis".to_owned(), Shape::V2)].value["items"][0]["versions"][0];
        assert_eq!(aggregated["resources"][0]["subresources"][0]["responseKind"]["kind"], "Release");
    }

    #[test]
    fn a_change_of_the_table_shows_at_once() {
        let discovery = discovery();
        let ask = |discovery: &Discovery| {
            discovery.answer("/apis/apps/v1", &HeaderMap::new(), &Accepted::default()).is_some()
        };
        assert!(!ask(&discovery));
        discovery.table.install([ResourceDef::new(
            "apps",
            "v1",
            "Deployment",
            "deployments",
            Scope::Namespaced,
        )]);
        assert!(ask(&discovery));
    }

    #[test]
    fn stable_versions_come_first() {
        let mut versions = ["v1alpha1", "v1", "odd", "v2beta1", "v2", "v1beta1"];
        versions.sort_by_key(|version| preference(version));
        assert_eq!(versions, ["v2", "v1", "v2beta1", "v1beta1", "v1alpha1", "odd"]);
    }
}
