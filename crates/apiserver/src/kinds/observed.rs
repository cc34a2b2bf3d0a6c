//! `…/releases/<name>/preview`, `diff`, `history` and `health`: an observer answers; who may ask is decided here, as
//! `releases/preview` and so on.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use convoy_api::{GROUP, Release, ReleaseDiff, ReleaseHealth, ReleaseHistory, ReleasePreview, VERSION};
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

/// A subresource that an observer answers for.
#[derive(Debug)]
pub(super) struct Observed {
    name: &'static str,
    kind: &'static str,
    /// What may be handed in.
    takes: Takes,
    /// What may stand in the query, and is passed on.
    query: &'static [&'static str],
    /// Whether the answer is also written as text.
    has_text: bool,
    schema: fn() -> Value,
}

/// What stands in the body of a POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// A Release, which is asked about instead of the one that is saved.
    Release,
    /// An archive of files, which stand for those of the Release's source.
    Files,
}

/// All of them.
const OBSERVED: [Observed; 4] = [
    Observed {
        name: ReleasePreview::SUBRESOURCE,
        kind: ReleasePreview::KIND,
        takes: Takes::Release,
        query: &[],
        has_text: false,
        schema: ReleasePreview::schema,
    },
    Observed {
        name: ReleaseDiff::SUBRESOURCE,
        kind: ReleaseDiff::KIND,
        takes: Takes::Files,
        query: &[],
        has_text: true,
        schema: ReleaseDiff::schema,
    },
    Observed {
        name: ReleaseHistory::SUBRESOURCE,
        kind: ReleaseHistory::KIND,
        takes: Takes::Nothing,
        query: &["revision", "to"],
        has_text: true,
        schema: ReleaseHistory::schema,
    },
    Observed {
        name: ReleaseHealth::SUBRESOURCE,
        kind: ReleaseHealth::KIND,
        takes: Takes::Nothing,
        query: &[],
        has_text: false,
        schema: ReleaseHealth::schema,
    },
];

/// Serves the subresources.
pub fn serve(api: Api, observers: &Arc<dyn Observers>) -> Api {
    let registry = Arc::clone(api.registry());
    let slots = Arc::new(Semaphore::new(AT_A_TIME));
    OBSERVED.iter().fold(api, |api, observed| {
        let (registry, observers, slots) = (Arc::clone(&registry), Arc::clone(observers), Arc::clone(&slots));
        let asks = Asks { observed, registry, observers, slots };
        api.connect(GroupResource::new(GROUP, Release::PLURAL), observed.name, Arc::new(asks))
    })
}

/// What discovery says of them.
pub(super) fn subresources() -> impl Iterator<Item = Subresource> {
    OBSERVED.iter().map(|observed| Subresource {
        name: observed.name.to_owned(),
        kind: Some(GroupVersionKind {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            kind: observed.kind.to_owned(),
        }),
        verbs: if observed.takes == Takes::Nothing { vec![Verb::Get] } else { vec![Verb::Get, Verb::Create] },
    })
}

/// The kinds of the answers, with their schemas.
pub(super) fn schemas() -> impl Iterator<Item = (&'static str, Value)> {
    OBSERVED.iter().map(|observed| (observed.kind, (observed.schema)()))
}

#[derive(Debug)]
struct Asks {
    observed: &'static Observed,
    registry: Arc<Registry>,
    observers: Arc<dyn Observers>,
    slots: Arc<Semaphore>,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Unified,
    Summary,
}

#[async_trait]
impl Connect for Asks {
    async fn connect(&self, call: &Call, resource: &Resource) -> Response {
        let accepted = accept(&call.headers, &call.query, &[]).unwrap_or_default();
        let answered = match self.format(call) {
            Ok(format) => self.answer(call, resource).await.map(|answer| (answer, format)),
            Err(status) => Err(status),
        };
        match answered {
            Ok(((code, answer), format)) => match as_text(&answer, format) {
                Some(text) => response::text(code, text),
                None => response::value(code, &answer, &accepted),
            },
            Err(status) => response::status(&status, &accepted),
        }
    }
}

impl Asks {
    async fn answer(&self, call: &Call, resource: &Resource) -> Result<(StatusCode, Value), Status> {
        let request = call.resource();
        if !request.in_namespace || !request.rest.is_empty() {
            return Err(Status::method_not_allowed());
        }
        let (namespace, name) = (request.namespace.as_str(), request.name.as_str());
        let release = match call.method {
            // Files are those of a Release that is there.
            Method::GET | Method::POST
                if call.method == Method::GET || self.observed.takes == Takes::Files =>
            {
                let found = self.registry.get(resource, namespace, name, &GetOptions::default()).await?;
                found.to_value()
            }
            Method::POST if self.observed.takes == Takes::Release => {
                self.given(call, resource, namespace, name).await?
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let (cluster_namespace, cluster) = shard_label::deciding(&resource.kind, &release);
        let cluster = StoreKey::new(cluster_namespace, cluster);
        let Ok(_slot) = self.slots.try_acquire() else {
            let message = "too many requests to observers at a time, please try again later.";
            return Err(Status::too_many_requests(message, 1));
        };
        let path = format!(
            "/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{}/{name}/{}",
            Release::PLURAL,
            self.observed.name
        );
        let query = self.query(call)?;
        // What is saved is the observer's to know.
        let body = match self.observed.takes {
            Takes::Release if call.method == Method::POST => release.to_string().into(),
            Takes::Files if call.method == Method::POST => call.body.clone(),
            _ => Default::default(),
        };
        let request = ProxiedRequest { method: call.method.clone(), path, query, body };
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

    fn format(&self, call: &Call) -> Result<Format, Status> {
        match call.query.text("format") {
            "" | "json" => Ok(Format::Json),
            "unified" if self.observed.has_text => Ok(Format::Unified),
            "summary" if self.observed.has_text => Ok(Format::Summary),
            other => {
                let all = if self.observed.has_text { "json, unified and summary" } else { "json alone" };
                Err(Status::bad_request(format!("format {other:?} is not known: there is {all}")))
            }
        }
    }

    /// What of the query is passed on: numbers of revisions.
    fn query(&self, call: &Call) -> Result<String, Status> {
        let mut parts = Vec::new();
        for name in self.observed.query {
            let Some(value) = call.query.get(name) else { continue };
            let number: Option<u32> = value.parse().ok().filter(|number| *number > 0);
            let Some(number) = number else {
                return Err(Status::bad_request(format!("{name} has to be the number of a revision")));
            };
            parts.push(format!("{name}={number}"));
        }
        Ok(parts.join("&"))
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

/// The text of an answer about differences; none of others.
fn as_text(answer: &Value, format: Format) -> Option<String> {
    if format == Format::Json || answer["kind"] != ReleaseDiff::KIND {
        return None;
    }
    let diff: ReleaseDiff = serde_json::from_value(answer.clone()).ok()?;
    Some(if format == Format::Unified { diff.unified() } else { diff.short() })
}
