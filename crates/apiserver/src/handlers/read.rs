//! get and list.

use bytes::Bytes;
use convoy_meta::{GetOptions, ListOptions, Status};
use convoy_registry::{Listing, Resource};
use convoy_storage::watch_cache::Entry;
use futures::stream;
use http::StatusCode;
use http_body::Frame;
use serde_json::{Map, Value};

use super::table::{self, IncludeObject};
use super::{Api, home, namespace};
use crate::call::Call;
use crate::negotiation::{Accepted, Format, Transform, accept};
use crate::request_info::ResourceRequest;
use crate::response::{self, Response};

/// Pieces in which a long list is sent.
const PIECE: usize = 64 * 1024;

impl Api {
    pub(super) async fn get(
        &self,
        call: &Call,
        request: &ResourceRequest,
        resource: &Resource,
    ) -> Result<Response, Status> {
        let transforms = [Transform::Table, Transform::PartialObjectMetadata];
        let accepted = accept(&call.headers, &call.query, &transforms)?;
        let options = GetOptions::parse(&call.query);
        let entry = self.registry.get(resource, home(request), &request.name, &options).await?;
        Ok(single(StatusCode::OK, call, resource, &entry, &accepted))
    }

    pub(super) async fn list(
        &self,
        call: &Call,
        request: &ResourceRequest,
        resource: &Resource,
    ) -> Result<Response, Status> {
        let transforms = [Transform::Table, Transform::PartialObjectMetadataList];
        let accepted = accept(&call.headers, &call.query, &transforms)?;
        let options = ListOptions::parse(&call.query)?;
        let listing = self.registry.list(resource, namespace(request), &options).await?;
        Ok(list(call, resource, &listing, &accepted))
    }
}

/// Answers with one object in the shape asked for.
pub(crate) fn single(
    code: StatusCode,
    call: &Call,
    resource: &Resource,
    entry: &Entry,
    accepted: &Accepted,
) -> Response {
    let include = IncludeObject::of(&call.query);
    let mut json = Vec::from(table::single(resource, entry, accepted.transform, include, call.now));
    json.push(b'\n');
    response::json(code, json.into(), accepted)
}

/// Answers with a list in the shape asked for.
pub(crate) fn list(call: &Call, resource: &Resource, listing: &Listing, accepted: &Accepted) -> Response {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".into(), listing.revision.to_string().into());
    if !listing.continue_token.is_empty() {
        metadata.insert("continue".into(), listing.continue_token.as_str().into());
    }
    if let Some(remaining) = listing.remaining {
        metadata.insert("remainingItemCount".into(), remaining.into());
    }
    let metadata = Value::Object(metadata).to_string();
    let mut head = Vec::new();
    match accepted.transform {
        Some(Transform::Table) => table::start(&mut head, &metadata, &table::columns(resource)),
        partial => {
            let (kind, api_version) = match partial {
                None => (resource.list_kind.clone(), resource.api_version()),
                Some(_) => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            };
            head.extend_from_slice(
                format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[")
                    .as_bytes(),
            );
        }
    }
    let include = IncludeObject::of(&call.query);
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut piece = head;
    for (index, entry) in listing.entries.iter().enumerate() {
        if index > 0 {
            piece.push(b',');
        }
        match accepted.transform {
            None => piece.extend_from_slice(entry.json()),
            Some(Transform::Table) => table::row(&mut piece, resource, entry, include, call.now),
            Some(_) => table::partial(&mut piece, entry),
        }
        if piece.len() >= PIECE {
            pieces.push(std::mem::take(&mut piece).into());
        }
    }
    piece.extend_from_slice(b"]}\n");
    pieces.push(piece.into());
    let plain = accepted.format == Format::Json && !accepted.pretty && !accepted.gzip;
    if !plain || pieces.len() == 1 {
        return response::json(StatusCode::OK, pieces.concat().into(), accepted);
    }
    let frames = stream::iter(pieces.into_iter().map(|piece| Ok(Frame::data(piece))));
    let mut answer = http::Response::new(response::stream(frames));
    response::describe(&mut answer, accepted);
    answer
}
