//! How many shards this server counts, for those who have to count the same: one object that is only read.
//!
//! It is a resource of convoy's own group rather than a path of its own, so that it is also reached where
//! another API server passes on only the group's paths. It is not stored: each server answers for itself.

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use convoy_api::{GROUP, VERSION, sharding};
use convoy_meta::{GroupResource, ListOptions, Status};
use convoy_registry::{Listing, PrinterColumn, Resource, ResourceDef, Scope, Verb};
use convoy_storage::watch_cache::{Entry, EntryFormat, Selector};
use http::StatusCode;
use serde_json::{Value, json};

use crate::call::Call;
use crate::handlers::{Api, Connect, list, single};
use crate::negotiation::{Transform, accept};
use crate::response::{self, Response};

/// The resourceVersion of what never changes while the server runs.
const REVISION: u64 = 1;

/// Serves `shardings` with the one object that says `shards`.
pub fn serve(api: Api, shards: NonZeroU32) -> Api {
    api.registry().table().install([definition()]);
    let resource = GroupResource::new(GROUP, sharding::PLURAL);
    api.connect(resource, "", Arc::new(Counted { entry: entry(shards) }))
}

fn definition() -> ResourceDef {
    let mut def = ResourceDef::new(GROUP, VERSION, sharding::KIND, sharding::PLURAL, Scope::Cluster);
    def.verbs = vec![Verb::Get, Verb::List];
    def.columns = vec![PrinterColumn {
        name: "Shards".to_owned(),
        type_: "integer".to_owned(),
        description: "How many shards the API server counts.".to_owned(),
        json_path: ".status.shards".to_owned(),
        ..PrinterColumn::default()
    }];
    def
}

/// The schema, for documents.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "description": "Sharding says how many shards the API server counts. It is only read.",
        "properties": {"status": {
            "type": "object",
            "properties": {"shards": {
                "type": "integer", "format": "int32",
                "description": "The API server's --shards: the label convoy.kumodo.io/shard of each object is below it. \
                                Controller-managers and observers need the same.",
            }},
        }},
    })
}

fn entry(shards: NonZeroU32) -> Arc<Entry> {
    let object = json!({
        "apiVersion": convoy_api::API_VERSION, "kind": sharding::KIND,
        "metadata": {"name": sharding::NAME}, "status": {"shards": shards},
    });
    let format = EntryFormat {
        prefix: format!("/{GROUP}/{}/", sharding::PLURAL),
        namespaced: false,
        api_version: convoy_api::API_VERSION.to_owned(),
        kind: sharding::KIND.to_owned(),
        fields: Vec::new(),
    };
    let key: Arc<str> = format!("{}{}", format.prefix, sharding::NAME).into();
    Arc::new(Entry::read(&format, &key, REVISION, &Bytes::from(object.to_string())))
}

#[derive(Debug)]
struct Counted {
    entry: Arc<Entry>,
}

#[async_trait]
impl Connect for Counted {
    async fn connect(&self, call: &Call, resource: &Resource) -> Response {
        self.answer(call, resource).unwrap_or_else(|status| {
            response::status(&status, &accept(&call.headers, &call.query, &[]).unwrap_or_default())
        })
    }
}

impl Counted {
    fn answer(&self, call: &Call, resource: &Resource) -> Result<Response, Status> {
        if call.info.verb == Verb::List.as_str() {
            let transforms = [Transform::Table, Transform::PartialObjectMetadataList];
            let accepted = accept(&call.headers, &call.query, &transforms)?;
            let options = ListOptions::parse(&call.query)?;
            let selector =
                Selector { namespace: None, labels: options.label_selector, fields: options.field_selector };
            let entries = Some(&self.entry).filter(|entry| selector.matches(entry)).cloned();
            let listing = Listing {
                entries: entries.into_iter().collect(),
                revision: REVISION,
                continue_token: String::new(),
                remaining: None,
            };
            return Ok(list(call, resource, &listing, &accepted));
        }
        let name = call.resource().name;
        if name != sharding::NAME {
            return Err(Status::not_found(&resource.group_resource(), &name));
        }
        let accepted =
            accept(&call.headers, &call.query, &[Transform::Table, Transform::PartialObjectMetadata])?;
        Ok(single(StatusCode::OK, call, resource, &self.entry, &accepted))
    }
}
