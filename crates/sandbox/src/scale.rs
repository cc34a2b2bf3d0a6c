//! `/scale` of workloads: `kubectl scale` and autoscalers.

use std::sync::Arc;

use async_trait::async_trait;
use convoy_apiserver::negotiation::accept;
use convoy_apiserver::response::{self, Response};
use convoy_apiserver::{Call, Connect, decode};
use convoy_meta::{FieldValidation, GetOptions, Object, Status};
use convoy_registry::{Patch, Registry, RequestContext, Resource, UserInfo};
use http::StatusCode;
use serde_json::{Value, json};

/// Reads and changes `spec.replicas` of an object.
#[derive(Debug)]
pub(crate) struct Scale {
    pub(crate) registry: Arc<Registry>,
}

#[async_trait]
impl Connect for Scale {
    async fn connect(&self, call: &Call, resource: &Resource) -> Response {
        let accepted = accept(&call.headers, &call.query, &[]).unwrap_or_default();
        match self.answer(call, resource).await {
            Ok(scale) => response::value(StatusCode::OK, &scale, &accepted),
            Err(status) => response::status(&status, &accepted),
        }
    }
}

impl Scale {
    async fn answer(&self, call: &Call, resource: &Resource) -> Result<Value, Status> {
        let request = call.resource();
        let (namespace, name) = (request.namespace.as_str(), request.name.as_str());
        let object = match call.info.verb.as_str() {
            "get" => self.registry.get(resource, namespace, name, &GetOptions::default()).await?.to_value(),
            "update" | "patch" => {
                let body = match call.info.verb.as_str() {
                    // Merge patches of a Scale look like a Scale.
                    "patch" => decode::json(&call.body)?.object,
                    _ => decode::object(&call.headers, &call.body)?.object,
                };
                let replicas = body.pointer("/spec/replicas").and_then(Value::as_i64).filter(|it| *it >= 0);
                let replicas = replicas.ok_or_else(|| {
                    Status::bad_request("spec.replicas must be a number that is not negative")
                })?;
                let patch = json!({"spec": {"replicas": replicas}});
                let context = RequestContext {
                    user: UserInfo { name: call.user.name.clone(), ..UserInfo::default() },
                    field_manager: match call.query.text("fieldManager") {
                        "" => call.default_field_manager(),
                        manager => manager.to_owned(),
                    },
                    dry_run: call.query.text("dryRun") == "All",
                    field_validation: FieldValidation::Ignore,
                    may_create: true,
                    now: call.now,
                };
                let patch = Patch::Merge(patch.into());
                self.registry.patch(&context, resource, namespace, name, "", &patch).await?.object.to_value()
            }
            _ => return Err(Status::method_not_allowed()),
        };
        Ok(scale(&object))
    }
}

fn scale(object: &Value) -> Value {
    let labels = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let selector: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
        .collect();
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": object.name(), "namespace": object.namespace(), "uid": object.uid(),
            "resourceVersion": object.resource_version(),
            "creationTimestamp": object["metadata"]["creationTimestamp"],
        },
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or_default()},
        "status": {
            "replicas": object["status"]["replicas"].as_i64().unwrap_or_default(),
            "selector": selector.join(","),
        },
    })
}
