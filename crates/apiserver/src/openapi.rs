//! `/openapi/v2` and `/openapi/v3` for the resources of a table.
//!
//! Documents are made when they are asked for and kept until the table changes. Those of the built-in
//! group-versions are the same in every server of a process and are made once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use convoy_registry::{ResourceDef, ResourceTable};
use convoy_schema::openapi::{
    ApiResource, ApiSubresource, Document, definition_name, group_version_path, v2_document, v3_document,
    v3_index,
};
use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, LOCATION};
use http::{HeaderValue, StatusCode};
use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};

use crate::call::Call;
use crate::handlers::Documents;
use crate::response::{self, Response};

const V3: &str = "/openapi/v3";

/// The documents of one server.
#[derive(Debug)]
pub struct OpenApi {
    table: Arc<ResourceTable>,
    version: String,
    /// Schemas that are not in the catalogue of built-in kinds, by name.
    schemas: RwLock<Map<String, Value>>,
    made: Mutex<Made>,
}

/// Documents by version and path, with the resources that they describe.
type Shared = HashMap<String, (Vec<ApiResource>, Arc<Document>)>;

#[derive(Debug, Default)]
struct Made {
    /// Which state of the table they describe.
    revision: Option<u64>,
    v3: BTreeMap<String, Arc<Document>>,
    v2: Option<Arc<Document>>,
}

impl OpenApi {
    /// The documents of a table; `version` is what `/version` says.
    pub fn new(table: Arc<ResourceTable>, version: &str) -> Self {
        Self { table, version: version.to_owned(), schemas: RwLock::default(), made: Mutex::default() }
    }

    /// Adds schemas of kinds that are not built in, with the names that
    /// [`convoy_schema::openapi::definition_name`] gives; see
    /// [`convoy_schema::openapi::custom_resource_schemas`]. Call it before the table serves them.
    pub fn add_schemas(&self, schemas: impl IntoIterator<Item = (String, Value)>) {
        self.schemas.write().extend(schemas);
    }

    fn document(&self, path: &str) -> Option<Arc<Document>> {
        self.with(|made| made.v3.get(path).cloned())
    }

    /// The documents of the table as it is now.
    fn with<T>(&self, read: impl FnOnce(&mut Made) -> T) -> T {
        let revision = *self.table.subscribe().borrow();
        let mut made = self.made.lock();
        if made.revision != Some(revision) {
            *made = Made { revision: Some(revision), v3: self.make(), v2: None };
        }
        read(&mut made)
    }

    fn resources(&self) -> BTreeMap<String, Vec<ApiResource>> {
        let mut by_version: BTreeMap<String, Vec<ApiResource>> = BTreeMap::new();
        for resource in self.table.load().iter() {
            let path = group_version_path(&resource.group, &resource.version);
            by_version.entry(path).or_default().push(describe(resource));
        }
        by_version
    }

    fn make(&self) -> BTreeMap<String, Arc<Document>> {
        static BUILT_IN: LazyLock<Mutex<Shared>> = LazyLock::new(Mutex::default);
        let schemas = self.schemas.read();
        let find = |name: &str| schemas.get(name).or_else(|| built_in(name));
        let mut documents = BTreeMap::new();
        for (path, resources) in self.resources() {
            let all_built_in = resources.iter().all(|it| built_in(&it.definition).is_some());
            let key = format!("{} {path}", self.version);
            if all_built_in
                && let Some((_, document)) =
                    BUILT_IN.lock().get(&key).filter(|(known, _)| *known == resources)
            {
                documents.insert(path, Arc::clone(document));
                continue;
            }
            let document = Arc::new(Document::new(&v3_document(&self.version, &resources, find)));
            if all_built_in {
                BUILT_IN.lock().insert(key, (resources, Arc::clone(&document)));
            }
            documents.insert(path, document);
        }
        documents
    }

    fn index(&self) -> Document {
        self.with(|made| {
            let entries = made.v3.iter().map(|(path, document)| (path.as_str(), document.hash.as_str()));
            Document::new(&v3_index(entries))
        })
    }

    fn v2(&self) -> Arc<Document> {
        self.with(|made| {
            let document = made.v2.get_or_insert_with(|| {
                let resources: Vec<ApiResource> = self.resources().into_values().flatten().collect();
                let schemas = self.schemas.read();
                let find = |name: &str| schemas.get(name).or_else(|| built_in(name));
                Arc::new(Document::new(&v2_document(&self.version, &resources, find)))
            });
            Arc::clone(document)
        })
    }
}

impl Documents for OpenApi {
    fn answer(&self, call: &Call) -> Option<Response> {
        match call.info.path.trim_end_matches('/') {
            "/openapi/v2" => Some(serve(call, &self.v2(), None)),
            V3 => Some(serve(call, &self.index(), None)),
            path => {
                let path = path.strip_prefix(V3)?.trim_start_matches('/');
                let document = self.document(path)?;
                let asked = call.query.get("hash").unwrap_or_default();
                if !asked.is_empty() && asked != document.hash {
                    return Some(moved(path, &document.hash));
                }
                Some(serve(call, &document, Some(asked)))
            }
        }
    }
}

fn built_in(name: &str) -> Option<&'static Value> {
    convoy_schema::catalogue().schemas.get(name)
}

fn describe(resource: &ResourceDef) -> ApiResource {
    let catalogue = convoy_schema::catalogue();
    let definition =
        |group: &str, version: &str, kind: &str| match catalogue.definition_of(group, version, kind) {
            Some(name) => name.to_owned(),
            None => definition_name(group, version, kind),
        };
    let names = |verbs: &[convoy_registry::Verb]| verbs.iter().map(|verb| verb.as_str().to_owned()).collect();
    let subresources = resource.subresources.iter().map(|it| {
        let kind = it.kind.clone().unwrap_or_else(|| resource.gvk());
        ApiSubresource {
            name: it.name.clone(),
            definition: Some(definition(&kind.group, &kind.version, &kind.kind)),
            group_version_kind: [kind.group, kind.version, kind.kind],
            verbs: names(&it.verbs),
        }
    });
    ApiResource {
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        namespaced: resource.namespaced(),
        verbs: names(&resource.verbs),
        subresources: subresources.collect(),
        definition: definition(&resource.group, &resource.version, &resource.kind),
        strategic_patch: resource.strategic_patch,
    }
}

fn serve(call: &Call, document: &Document, hash: Option<&str>) -> Response {
    let tag = format!("\"{}\"", document.hash);
    let known = call.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut answer = if known.is_some_and(|known| known.contains(&tag)) {
        response::bytes(StatusCode::NOT_MODIFIED, "application/json", "")
    } else {
        response::bytes(StatusCode::OK, "application/json", document.body.clone())
    };
    let headers = answer.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    // The address with the right hash always leads to the same bytes.
    let caching =
        if hash.is_some_and(|hash| !hash.is_empty()) { "public, immutable" } else { "no-cache, private" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    answer
}

fn moved(path: &str, hash: &str) -> Response {
    let mut answer = response::bytes(StatusCode::MOVED_PERMANENTLY, "application/json", "");
    if let Ok(location) = HeaderValue::from_str(&format!("{V3}/{path}?hash={hash}")) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}
