//! `GET` and `POST …/releases/<name>/preview`: what the next delivery would do. An observer answers; who may ask is
//! decided here, as `releases/preview`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use convoy_api::{GROUP, Release, ReleasePreview, VERSION};
use convoy_meta::{CreateOptions, GetOptions, GroupResource, GroupVersionKind, Object as _, Reason, Status};
use convoy_registry::{Registry, Resource, Subresource, Verb};
use convoy_runtime::{ProxiedAnswer, ProxiedRequest, ProxyAddress, ProxyClient, ProxyError, StoreKey};
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::call::Call;
use crate::decode;
use crate::handlers::{Api, Connect, context};
use crate::kinds::shard_label;
use crate::negotiation::accept;
use crate::response::{self, Response};

/// Requests that are passed on at a time.
const AT_A_TIME: usize = 64;
/// After how many seconds to ask again when nobody answered.
const ASK_AGAIN: u32 = 5;

/// Finds an observer and has it answer.
#[async_trait]
pub trait Observers: Send + Sync + fmt::Debug {
    /// Passes a request about a Release on this Cluster on.
    ///
    /// # Errors
    /// 503 when no observer answers.
    async fn ask(&self, cluster: &StoreKey, request: ProxiedRequest) -> Result<ProxiedAnswer, Status>;
}

/// There is no observer to ask.
#[derive(Debug)]
pub struct NoObserver;

#[async_trait]
impl Observers for NoObserver {
    async fn ask(&self, _cluster: &StoreKey, _request: ProxiedRequest) -> Result<ProxiedAnswer, Status> {
        Err(Status::service_unavailable(
            "this apiserver knows no observer to ask: run it with --observer-url, --observer-ca-file, \
             --proxy-client-cert-file and --proxy-client-key-file",
        ))
    }
}

/// All observers behind one address. Who does not own the Release says so with 404.
#[derive(Debug)]
pub struct OneService {
    /// Asks.
    pub client: ProxyClient,
    /// The address of the Service.
    pub address: ProxyAddress,
}

#[async_trait]
impl Observers for OneService {
    async fn ask(&self, _cluster: &StoreKey, request: ProxiedRequest) -> Result<ProxiedAnswer, Status> {
        self.client.ask(&self.address, request).await.map_err(|error| unavailable(&error))
    }
}

/// What an observer that does not answer comes to.
pub(super) fn unavailable(error: &ProxyError) -> Status {
    let mut why = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        why = format!("{why}: {source}");
    }
    let mut status = match error {
        ProxyError::TooLong { .. } => return Status::internal(why),
        ProxyError::Late { .. } => Status::timeout(format!("the observer: {why}"), 0),
        ProxyError::Connect { .. } | ProxyError::Broken { .. } => {
            Status::service_unavailable(format!("no observer answers: {why}"))
        }
    };
    status.details.get_or_insert_default().retry_after_seconds = ASK_AGAIN;
    status
}

/// Serves the subresource.
pub fn serve(api: Api, observers: Arc<dyn Observers>) -> Api {
    let registry = Arc::clone(api.registry());
    let previews = Previews { registry, observers, slots: Semaphore::new(AT_A_TIME) };
    api.connect(GroupResource::new(GROUP, Release::PLURAL), ReleasePreview::SUBRESOURCE, Arc::new(previews))
}

/// What discovery says of it.
pub(super) fn subresource() -> Subresource {
    Subresource {
        name: ReleasePreview::SUBRESOURCE.to_owned(),
        kind: Some(GroupVersionKind {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            kind: ReleasePreview::KIND.to_owned(),
        }),
        verbs: vec![Verb::Get, Verb::Create],
    }
}

#[derive(Debug)]
struct Previews {
    registry: Arc<Registry>,
    observers: Arc<dyn Observers>,
    slots: Semaphore,
}

#[async_trait]
impl Connect for Previews {
    async fn connect(&self, call: &Call, resource: &Resource) -> Response {
        let accepted = accept(&call.headers, &call.query, &[]).unwrap_or_default();
        match self.answer(call, resource).await {
            Ok((code, answer)) => response::value(code, &answer, &accepted),
            Err(status) => response::status(&status, &accepted),
        }
    }
}

impl Previews {
    async fn answer(&self, call: &Call, resource: &Resource) -> Result<(StatusCode, Value), Status> {
        let request = call.resource();
        if !request.in_namespace || !request.rest.is_empty() {
            return Err(Status::method_not_allowed());
        }
        let (namespace, name) = (request.namespace.as_str(), request.name.as_str());
        let release = match call.method {
            Method::GET => {
                let found = self.registry.get(resource, namespace, name, &GetOptions::default()).await?;
                found.to_value()
            }
            Method::POST => self.given(call, resource, namespace, name).await?,
            _ => return Err(Status::method_not_allowed()),
        };
        let (cluster_namespace, cluster) = shard_label::deciding(&resource.kind, &release);
        let cluster = StoreKey::new(cluster_namespace, cluster);
        let Ok(_slot) = self.slots.try_acquire() else {
            return Err(Status::too_many_requests("too many previews at a time, please try again later.", 1));
        };
        let path = format!("/apis/{GROUP}/{VERSION}/namespaces/{namespace}/releases/{name}/preview");
        // What is saved is the observer's to know.
        let body = if call.method == Method::POST { release.to_string().into() } else { Default::default() };
        let request = ProxiedRequest { method: call.method.clone(), path, body };
        let answer = self.observers.ask(&cluster, request).await?;
        let said: Value = serde_json::from_slice(&answer.body).map_err(|_| {
            Status::service_unavailable("the observer answered with something that is no JSON")
        })?;
        if !answer.code.is_success() {
            // With its headers, such as when to ask again.
            let status: Status = serde_json::from_value(said)
                .map_err(|_| Status::service_unavailable(format!("the observer answered {}", answer.code)))?;
            return Err(status);
        }
        Ok((answer.code, said))
    }

    /// The Release in the body, defaulted and judged as if it were to be saved under this name.
    async fn given(
        &self,
        call: &Call,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, Status> {
        let options = CreateOptions::parse(&call.query)?;
        let mut body = decode::object_of(&call.headers, &call.body, &resource.kind)?;
        let own_name = body.object.name();
        if !own_name.is_empty() && own_name != name {
            let message =
                format!("the name of the object ({own_name}) does not match the name on the URL ({name})");
            return Err(Status::bad_request(message));
        }
        let mut context = context(call, options.field_manager.as_ref());
        context.dry_run = true;
        context.field_validation = options.field_validation;
        let current = match self.registry.get(resource, namespace, name, &GetOptions::default()).await {
            Ok(current) => Some(current.to_value()),
            Err(status) if status.reason() == Reason::NotFound => None,
            Err(status) => return Err(status),
        };
        // It is about the Release as it is now, whatever the body was once copied from.
        for field in ["resourceVersion", "uid"] {
            let now = current.as_ref().and_then(|current| current.pointer(&format!("/metadata/{field}")));
            if let Some(metadata) = body.object.get_mut("metadata").and_then(Value::as_object_mut) {
                match now {
                    Some(now) => _ = metadata.insert(field.to_owned(), now.clone()),
                    None => _ = metadata.remove(field),
                }
            }
        }
        let written = if current.is_some() {
            let updated = self.registry.update(&context, resource, namespace, name, "", body).await?;
            (updated.object.to_value(), updated.warnings)
        } else {
            let created = self.registry.create(&context, resource, namespace, body).await?;
            let mut object = created.object.to_value();
            // It has none before it is saved.
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("uid");
            }
            (object, created.warnings)
        };
        let (object, warnings) = written;
        warnings.into_iter().for_each(|warning| call.warnings.add(warning));
        Ok(object)
    }
}
