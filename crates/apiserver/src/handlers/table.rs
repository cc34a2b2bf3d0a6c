//! Answers in the shapes that clients ask for: Table and PartialObjectMetadata, made from stored bytes.

use convoy_meta::{Query, TableColumn};
use convoy_registry::Resource;
use convoy_storage::watch_cache::Entry;
use serde_json::Value;

use crate::negotiation::Transform;

/// What a row of a Table holds besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    pub(super) fn of(query: &Query) -> Self {
        match query.text("includeObject") {
            "None" => Self::None,
            "Object" => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// The columns of a resource as JSON.
pub(super) fn columns(resource: &Resource) -> String {
    let columns: Vec<TableColumn> = resource.table_columns();
    serde_json::to_string(&columns).unwrap_or_else(|_| "[]".to_owned())
}

/// Appends the row of an object.
pub(super) fn row(
    out: &mut Vec<u8>,
    resource: &Resource,
    entry: &Entry,
    include: IncludeObject,
    now: jiff::Timestamp,
) {
    let cells = Value::Array(resource.table_cells(&entry.to_value(), now));
    out.extend_from_slice(b"{\"cells\":");
    out.extend_from_slice(cells.to_string().as_bytes());
    match include {
        IncludeObject::None => out.extend_from_slice(b",\"object\":null"),
        IncludeObject::Metadata => {
            out.extend_from_slice(b",\"object\":");
            partial(out, entry);
        }
        IncludeObject::Object => {
            out.extend_from_slice(b",\"object\":");
            out.extend_from_slice(entry.json());
        }
    }
    out.push(b'}');
}

/// Appends an object's PartialObjectMetadata.
pub(super) fn partial(out: &mut Vec<u8>, entry: &Entry) {
    out.extend_from_slice(
        b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":",
    );
    out.extend_from_slice(&entry.metadata_json());
    out.push(b'}');
}

/// Starts a Table whose metadata is this JSON; the columns may be left out of later events of a watch.
pub(super) fn start(out: &mut Vec<u8>, metadata: &str, columns: &str) {
    out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
    out.extend_from_slice(metadata.as_bytes());
    out.extend_from_slice(b",\"columnDefinitions\":");
    out.extend_from_slice(columns.as_bytes());
    out.extend_from_slice(b",\"rows\":[");
}

/// One object in the shape asked for.
pub(super) fn single(
    resource: &Resource,
    entry: &Entry,
    transform: Option<Transform>,
    include: IncludeObject,
    now: jiff::Timestamp,
) -> bytes::Bytes {
    match transform {
        None => entry.json().clone(),
        Some(Transform::Table) => {
            let mut out = Vec::new();
            let metadata = format!("{{\"resourceVersion\":\"{}\"}}", entry.revision());
            start(&mut out, &metadata, &columns(resource));
            row(&mut out, resource, entry, include, now);
            out.extend_from_slice(b"]}");
            out.into()
        }
        Some(Transform::PartialObjectMetadata | Transform::PartialObjectMetadataList) => {
            let mut out = Vec::new();
            partial(&mut out, entry);
            out.into()
        }
    }
}
