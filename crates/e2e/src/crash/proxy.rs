//! A proxy in front of an API server that does harm at one request.
//!
//! Both API servers that a controller-manager writes to, its own and its target's, are reached through such
//! proxies, and one [`Script`] counts the writes of both in the order in which they come. It lets each pass,
//! except for the one that it was told to spoil.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use convoy_testkit::Authority;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Which API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// convoy's own.
    Host,
    /// The target cluster's.
    Target,
}

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The process is killed before the write arrives.
    KillBefore,
    /// The write is carried out, and the process killed before it learns of it.
    KillAfter,
    /// As `KillAfter`, and another replica goes on.
    HandOver,
    /// The connection breaks before the write arrives.
    Refused,
    /// The write is carried out, and the connection breaks before the answer.
    LostResponse,
    /// 409: the object was changed.
    Conflict,
    /// 422: a field is wrong.
    Invalid,
    /// 403 by authorisation.
    Forbidden,
    /// 429 with a time to wait.
    TooManyRequests,
    /// 500.
    Internal,
    /// An admission webhook says no.
    WebhookDenied,
    /// An admission webhook does not answer.
    WebhookTimeout,
    /// 403: the namespace is going away.
    NamespaceTerminating,
    /// 403: a quota is used up.
    QuotaExceeded,
}

impl Fault {
    /// Those that end the process.
    pub fn kills(self) -> bool {
        matches!(self, Fault::KillBefore | Fault::KillAfter | Fault::HandOver)
    }

    /// All that make sense on a side: convoy's own API has neither webhooks nor quotas of its own.
    pub fn all(side: Side) -> &'static [Fault] {
        const ALL: &[Fault] = &[
            Fault::KillBefore,
            Fault::KillAfter,
            Fault::HandOver,
            Fault::Refused,
            Fault::LostResponse,
            Fault::Conflict,
            Fault::Invalid,
            Fault::Forbidden,
            Fault::TooManyRequests,
            Fault::Internal,
            Fault::WebhookDenied,
            Fault::WebhookTimeout,
            Fault::NamespaceTerminating,
            Fault::QuotaExceeded,
        ];
        match side {
            Side::Host => ALL.split_at(10).0,
            Side::Target => ALL,
        }
    }

    fn answer(self) -> Option<(StatusCode, &'static str, &'static str)> {
        Some(match self {
            Fault::Conflict => (
                StatusCode::CONFLICT,
                "Conflict",
                "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
            ),
            Fault::Invalid => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                "spec.field: Invalid value: \"x\": field is immutable",
            ),
            Fault::Forbidden => (StatusCode::FORBIDDEN, "Forbidden", "User \"convoy\" cannot patch resource"),
            Fault::TooManyRequests => (
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                "Too many requests, please try again later.",
            ),
            Fault::Internal => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "Internal error occurred")
            }
            Fault::WebhookDenied => (
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "admission webhook \"deny.example.com\" denied the request: no",
            ),
            Fault::WebhookTimeout => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                "Internal error occurred: failed calling webhook \"slow.example.com\": failed to call webhook: context deadline exceeded",
            ),
            Fault::NamespaceTerminating => (
                StatusCode::FORBIDDEN,
                "Forbidden",
                "unable to create new content in namespace because it is being terminated",
            ),
            Fault::QuotaExceeded => (
                StatusCode::FORBIDDEN,
                "Forbidden",
                "exceeded quota: objects, requested: 1, used: 9, limited: 9",
            ),
            _ => return None,
        })
    }

    fn response(self) -> Option<Response<Body>> {
        let (status, reason, message) = self.answer()?;
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status.as_u16(),
        });
        if self == Fault::NamespaceTerminating {
            body["details"] = json!({"causes": [{"reason": "NamespaceTerminating", "message": message}]});
        }
        let mut response = Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        if self == Fault::TooManyRequests {
            response.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static("1"));
        }
        Some(response)
    }
}

/// A write that came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where it went.
    pub side: Side,
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// What the API server answered; none when it was not asked.
    pub status: Option<StatusCode>,
}

impl Write {
    /// What is written, without the names: `host patch releases/status`.
    pub fn kind(&self) -> String {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        // After `api/v1` or `apis/<group>/<version>`, and the namespace of what has one.
        let mut rest = parts.get(if parts.first() == Some(&"api") { 2 } else { 3 }..).unwrap_or_default();
        if let ["namespaces", _, inner @ ..] = rest
            && !inner.is_empty()
        {
            rest = inner;
        }
        let resource = rest.first().copied().unwrap_or_default();
        let subresource = rest.get(2).map(|name| format!("/{name}")).unwrap_or_default();
        let side = if self.side == Side::Host { "host" } else { "target" };
        format!("{side} {} {resource}{subresource}", self.method.as_str().to_lowercase())
    }
}

/// What the proxies do, and what they saw.
#[derive(Clone, Debug)]
pub struct Script {
    state: Arc<Mutex<State>>,
    killed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    writes: Vec<Write>,
    /// Which write to spoil, counted from the last [`Script::arm`], how, and how often from there on.
    plan: Option<(usize, Fault, usize)>,
    seen: usize,
    fired: usize,
}

impl Default for Script {
    fn default() -> Self {
        Self { state: Arc::default(), killed: watch::Sender::new(false) }
    }
}

impl Script {
    /// Spoils the write number `at`, and as many from there on as `times` says.
    pub fn arm(&self, at: usize, fault: Fault, times: usize) {
        let mut state = self.state.lock();
        (state.plan, state.seen, state.fired) = (Some((at, fault, times)), 0, 0);
    }

    /// Lets everything pass from here on. Answers with whether the fault was met.
    pub fn disarm(&self) -> bool {
        let mut state = self.state.lock();
        state.plan = None;
        state.fired > 0
    }

    /// How many writes came by.
    pub fn len(&self) -> usize {
        self.state.lock().writes.len()
    }

    /// Whether none did.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The writes from a place on.
    pub fn writes(&self, from: usize) -> Vec<Write> {
        self.state.lock().writes.get(from..).unwrap_or_default().to_vec()
    }

    /// Waits until the process has to die.
    pub async fn killed(&self) {
        let _ = self.killed.subscribe().wait_for(|killed| *killed).await;
    }

    /// Whether the process has to die.
    pub fn is_killed(&self) -> bool {
        *self.killed.borrow()
    }

    /// The process is dead, another may begin.
    pub fn revive(&self) {
        self.killed.send_replace(false);
    }

    fn notice(&self, side: Side, request: &Request<Incoming>) -> (usize, Option<Fault>) {
        let mut state = self.state.lock();
        let number = state.seen;
        state.seen += 1;
        let path = request.uri().path().to_owned();
        state.writes.push(Write { side, method: request.method().clone(), path, status: None });
        let fault = match state.plan {
            Some((at, fault, times)) if number >= at && state.fired < times => {
                // A fault of one side is not met on the other.
                Fault::all(side).contains(&fault).then_some(fault)
            }
            _ => None,
        };
        state.fired += usize::from(fault.is_some());
        (state.writes.len() - 1, fault)
    }

    fn answered(&self, place: usize, status: StatusCode) {
        if let Some(write) = self.state.lock().writes.get_mut(place) {
            write.status = Some(status);
        }
    }
}

/// A proxy in front of an API server.
#[derive(Debug)]
pub struct Proxy {
    kubeconfig: String,
}

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is broken")]
struct Broken;

impl Proxy {
    /// Starts a proxy in front of what `upstream` reaches. It serves until the runtime ends.
    ///
    /// # Errors
    /// When there is no port, or no certificate can be made.
    pub async fn start(side: Side, upstream: Client, script: Script) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no port")?;
        let port = listener.local_addr()?.port();
        let authority = Authority::new("proxy")?;
        let identity = authority.server(&["127.0.0.1"])?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let tls =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(vec![certificate], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), side, upstream.clone(), script.clone()));
            }
        });
        let authority = BASE64.encode(authority.certificate());
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {
                "server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": authority,
            }}],
            "users": [{"name": "proxy", "user": {"token": "the-proxy-has-its-own"}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        });
        Ok(Self { kubeconfig: kubeconfig.to_string() })
    }

    /// How it is reached.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, side: Side, upstream: Client, script: Script) {
    /// A connection on which nothing was asked for so long has been forgotten.
    const HEADERS_WITHIN: Duration = Duration::from_secs(600);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = hyper::service::service_fn(|request| {
        let (upstream, script) = (upstream.clone(), script.clone());
        async move { pass(side, request, upstream, &script).await }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(hyper_util::rt::TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        // What the dead process had asked for is heard no more.
        () = script.killed() => {}
    }
}

async fn pass(
    side: Side,
    request: Request<Incoming>,
    upstream: Client,
    script: &Script,
) -> Result<Response<Body>, Broken> {
    if script.is_killed() {
        return Err(Broken);
    }
    let is_write = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !["reviews", "/leases"].iter().any(|resource| request.uri().path().contains(resource));
    if !is_write {
        return forward(request, upstream).await;
    }
    let (place, fault) = script.notice(side, &request);
    let Some(fault) = fault else {
        let response = forward(request, upstream).await?;
        script.answered(place, response.status());
        return Ok(response);
    };
    if let Some(response) = fault.response() {
        return Ok(response);
    }
    if matches!(fault, Fault::KillAfter | Fault::HandOver | Fault::LostResponse) {
        let response = forward(request, upstream).await?;
        script.answered(place, response.status());
        // Carried out to the end.
        let _ = response.into_body().collect().await;
    }
    if fault.kills() {
        script.killed.send_replace(true);
    }
    Err(Broken)
}

async fn forward(request: Request<Incoming>, upstream: Client) -> Result<Response<Body>, Broken> {
    let (mut parts, body) = request.into_parts();
    let body: Bytes = body.collect().await.map_err(|_| Broken)?.to_bytes();
    for header in [AUTHORIZATION, HOST] {
        parts.headers.remove(header);
    }
    upstream.send(Request::from_parts(parts, Body::from(body.to_vec()))).await.map_err(|_| Broken)
}
