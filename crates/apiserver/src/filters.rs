//! What every request passes before a handler sees it: audit id, path, authentication, bounds,
//! authorisation, body limit, deadline; and what every answer gets on its way out.

use std::fmt;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use convoy_meta::{GroupResource, Query, Status};
use convoy_runtime::traces::TRACES;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use rustls_pki_types::CertificateDer;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::audit::{AuditLog, Record};
use crate::authentication::{Authenticator, Credentials};
use crate::authorization::{Attributes, Authorizer, Decision};
use crate::call::{Call, Warnings};
use crate::health::Checks;
use crate::impersonation;
use crate::metrics::{Gauge, Labels, Metrics};
use crate::negotiation::{Accepted, accept};
use crate::request_info::RequestInfo;
use crate::response::{self, Response};
use crate::user::{SYSTEM_MASTERS, User};

/// Largest request body, in bytes.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// Tells the time.
pub type Now = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// Answers requests that passed the filters.
#[async_trait]
pub trait Handler: Send + Sync + fmt::Debug {
    /// Answers one.
    async fn handle(&self, call: Call) -> Response;

    /// Whether a path may be read without permission by anyone, as health is.
    fn is_open(&self, _info: &RequestInfo) -> bool {
        false
    }

    /// Whether a resource is served here, so that it may be counted by name.
    fn serves(&self, _info: &RequestInfo) -> bool {
        true
    }
}

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Reads at a time.
    pub reads: usize,
    /// Writes at a time.
    pub writes: usize,
    /// Connections at a time.
    pub connections: usize,
    /// How long a request that is no watch may take.
    pub request_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reads: 400, writes: 200, connections: 10_000, request_timeout: Duration::from_secs(60) }
    }
}

/// The other side of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Its certificates, leaf first.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// The filters of one server, around its handler.
pub struct Filters {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) audit_annotations: Vec<(String, String)>,
    pub(crate) checks: Checks,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Limits,
    pub(crate) impersonation: bool,
    pub(crate) reads: Semaphore,
    pub(crate) writes: Semaphore,
    pub(crate) now: Now,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filters").field("handler", &self.handler).finish_non_exhaustive()
    }
}

/// What the filters found out about a request, for the log.
struct Trail {
    user: User,
    /// As whom it is carried out, when that is somebody else.
    impersonated: Option<User>,
    decision: Option<(&'static str, String)>,
}

impl Filters {
    /// Answers one request, whatever happens.
    pub async fn serve(self: Arc<Self>, request: Request<Incoming>, peer: Peer) -> Response {
        let started = Instant::now();
        let received = (self.now)();
        let (parts, body) = request.into_parts();
        let given = parts.headers.get("audit-id").and_then(|id| id.to_str().ok()).filter(|id| id.len() <= 64);
        let id = given.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let info = RequestInfo::parse(&parts.method, parts.uri.path(), &query);
        let uri = parts.uri.path_and_query().map_or("/", |uri| uri.as_str()).to_owned();
        let agent = parts.headers.get(http::header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let agent = agent.unwrap_or_default().to_owned();
        let mut trail = Trail { user: User::anonymous(), impersonated: None, decision: None };
        let warnings = Warnings::default();

        let Some(info) = info else {
            return with_headers(not_found(), &id, &warnings);
        };
        let known = self.handler.serves(&info);
        let span = request_span(&parts.method, known.then_some(&info));
        let filtered =
            self.filtered(&parts.method, &info, &query, &parts.headers, body, &peer, &warnings, &mut trail);
        let filtered = filtered.instrument(span.clone());
        let mut answer = match AssertUnwindSafe(filtered).catch_unwind().await {
            Ok(answer) => answer,
            Err(_) => {
                tracing::error!(uri, "a handler panicked");
                let status = Status::internal("the server panicked while answering this request");
                response::status(&status, &Accepted::default())
            }
        };
        let code = answer.status();
        span.record("http.response.status_code", code.as_u16());
        if code.is_server_error() {
            span.record("otel.status_code", "ERROR");
        }
        drop(span);
        let long = info.is_long_running() && code == StatusCode::OK;
        let log = |stage: &str, now| {
            let Some(audit) = &self.audit else { return };
            let record = Record {
                id: &id,
                stage,
                uri: &uri,
                info: &info,
                user: &trail.user,
                impersonated: trail.impersonated.as_ref(),
                source: peer.address.ip().to_string(),
                user_agent: &agent,
                code: code.as_u16(),
                decision: trail.decision.as_ref().map(|(decision, reason)| (*decision, reason.as_str())),
                annotations: &self.audit_annotations,
                received,
                now,
            };
            audit.write(&record.event());
        };
        log(if long { "ResponseStarted" } else { "ResponseComplete" }, (self.now)());
        if known {
            self.metrics.observe(labels(&info, code), started.elapsed());
        }
        if long {
            answer = self.clone().counted(answer);
        }
        with_headers(answer, &id, &warnings)
    }

    /// Counts a watch for as long as its body lives.
    fn counted(self: Arc<Self>, answer: Response) -> Response {
        let (parts, body) = answer.into_parts();
        let counter = WatchCount::enter(self.metrics.clone());
        let body = body.map_frame(move |frame| {
            let _ = &counter;
            frame
        });
        Response::from_parts(parts, body.boxed_unsync())
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one request, each used once")]
    async fn filtered(
        &self,
        method: &Method,
        info: &RequestInfo,
        query: &Query,
        headers: &HeaderMap,
        body: Incoming,
        peer: &Peer,
        warnings: &Warnings,
        trail: &mut Trail,
    ) -> Response {
        let accepted = accept(headers, query, &[]).unwrap_or_default();
        let fail = |status: &Status| response::status(status, &accepted);
        if headers.contains_key(http::header::UPGRADE) {
            return fail(&Status::bad_request("this server upgrades no connection to another protocol"));
        }
        let stopping = *self.stopping.borrow();
        if let Some(answer) = self.checks.answer(&info.path, query, stopping).await {
            return answer;
        }
        let credentials = Credentials {
            headers,
            certificates: &peer.certificates,
            remote: peer.address,
            now: (self.now)(),
        };
        trail.user = match self.authenticator.authenticate(&credentials).await {
            Ok(Some(user)) => user.authenticated(),
            // A token that nobody knows is wrong; it does not make its bearer anonymous.
            Ok(None) if credentials.bearer_token().is_some() => return fail(&Status::unauthorized()),
            Ok(None) => User::anonymous(),
            Err(refused) => {
                tracing::info!(%refused, remote = %peer.address, "authentication failed");
                return fail(&Status::unauthorized());
            }
        };
        if self.impersonation {
            match impersonation::of(headers, &trail.user, &*self.authorizer).await {
                Ok(impersonated) => trail.impersonated = impersonated,
                Err(status) => return fail(&status),
            }
        } else if impersonation::is_asked_for(headers) {
            let why = "this server does not take impersonation headers";
            return fail(&Status::forbidden(&Default::default(), "", why));
        }
        let user = trail.impersonated.as_ref().unwrap_or(&trail.user).clone();

        let (semaphore, gauge) = if info.is_read() {
            (&self.reads, &self.metrics.reads)
        } else {
            (&self.writes, &self.metrics.writes)
        };
        let _permit = match semaphore.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) if info.is_long_running() || user.is_in(SYSTEM_MASTERS) => None,
            Err(_) => {
                return fail(&Status::too_many_requests("too many requests, please try again later.", 1));
            }
        };
        let _gauge = Gauge::enter(gauge);

        if !self.handler.is_open(info) {
            let attributes = attributes(&user, info);
            match self.authorizer.authorize(&attributes).await {
                Decision::Allow(reason) => trail.decision = Some(("allow", reason)),
                Decision::Deny(reason) | Decision::NoOpinion(reason) => {
                    let status = refused(&attributes, &reason);
                    trail.decision = Some(("forbid", reason));
                    return fail(&status);
                }
            }
        }

        let work = async {
            let body = if matches!(*method, Method::GET | Method::HEAD) {
                Bytes::new()
            } else {
                match read(body).await {
                    Ok(body) => body,
                    Err(status) => return fail(&status),
                }
            };
            let call = Call {
                method: method.clone(),
                info: info.clone(),
                query: query.clone(),
                headers: headers.clone(),
                user,
                body,
                now: (self.now)(),
                clock: self.now.clone(),
                stopping: self.stopping.clone(),
                warnings: warnings.clone(),
                authorizer: Arc::clone(&self.authorizer),
            };
            self.handler.handle(call).await
        };
        match tokio::time::timeout(self.limits.request_timeout, work).await {
            Ok(answer) => answer,
            Err(_) => fail(&Status::timeout("request did not complete within the allotted timeout", 0)),
        }
    }
}

struct WatchCount(Arc<Metrics>);

impl WatchCount {
    fn enter(metrics: Arc<Metrics>) -> Self {
        metrics.watches.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self(metrics)
    }
}

impl Drop for WatchCount {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The answer to who may not do something.
pub(crate) fn refused(attributes: &Attributes, reason: &str) -> Status {
    let text = attributes.refusal();
    let text = if reason.is_empty() { text } else { format!("{text}: {reason}") };
    let group_resource = GroupResource::new(attributes.group.as_str(), attributes.resource.as_str());
    Status::forbidden(&group_resource, &attributes.name, text)
}

/// What a request asks authorisation for.
pub fn attributes(user: &User, info: &RequestInfo) -> Attributes {
    let user = user.clone();
    let verb = info.verb.clone();
    match &info.resource {
        None => Attributes { user, verb, path: Some(info.path.clone()), ..Attributes::default() },
        Some(resource) => Attributes {
            user,
            verb,
            path: None,
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.resource.clone(),
            subresource: resource.subresource.clone(),
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
        },
    }
}

async fn read(body: Incoming) -> Result<Bytes, Status> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::request_entity_too_large(format!("limit is {MAX_BODY}")))
        }
        Err(error) => Err(Status::bad_request(format!("unable to read the body of the request: {error}"))),
    }
}

/// What Go's own mux answers, and clients therefore expect, for a path that nothing serves.
pub fn not_found() -> Response {
    response::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn with_headers(mut answer: Response, id: &str, warnings: &Warnings) -> Response {
    let headers = answer.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert("audit-id", value);
    }
    for warning in warnings.header_values() {
        if let Ok(value) = HeaderValue::from_str(&warning) {
            headers.append(http::header::WARNING, value);
        }
    }
    answer
}

/// The span of a request; of one for what is not served it has the method alone. A watch's ends when it begins to tell.
fn request_span(method: &Method, info: Option<&RequestInfo>) -> tracing::Span {
    use tracing::field::Empty;
    let is_usual = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method);
    let method = if is_usual { method.as_str() } else { "_OTHER" };
    let span = tracing::info_span!(
        target: TRACES, "request", otel.kind = "server", http.request.method = method,
        k8s.verb = Empty, k8s.resource = Empty, k8s.subresource = Empty, k8s.namespace.name = Empty, k8s.name = Empty,
        http.response.status_code = Empty, otel.status_code = Empty,
    );
    let Some(info) = info.filter(|_| !span.is_disabled()) else { return span };
    span.record("k8s.verb", info.verb.as_str());
    if let Some(resource) = &info.resource {
        // No name is longer; what was asked for may be none.
        let name = |text: &str| text.chars().take(253).collect::<String>();
        span.record("k8s.resource", format!("{}.{}", resource.resource, resource.group).as_str());
        span.record("k8s.subresource", resource.subresource.as_str());
        span.record("k8s.namespace.name", name(&resource.namespace).as_str());
        span.record("k8s.name", name(&resource.name).as_str());
    }
    span
}

fn labels(info: &RequestInfo, code: StatusCode) -> Labels {
    let resource = info.resource.clone().unwrap_or_default();
    Labels {
        verb: info.verb.to_ascii_uppercase(),
        group: resource.group,
        version: resource.version,
        resource: resource.resource,
        subresource: resource.subresource,
        code: code.as_u16(),
    }
}
