//! A proxy in front of an API server that does harm at one request.
//!
//! Both API servers that a controller-manager writes to, its own and its target's, are reached through such
//! proxies, which let all pass except for the write that the [`Script`] spoils.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use convoy_testkit::Authority;
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::script::{Script, Side, Step};

/// A proxy in front of an API server.
#[derive(Debug)]
pub struct Proxy {
    kubeconfig: String,
}

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is broken")]
pub(super) struct Broken;

/// What a request is answered with.
pub(super) enum Passed<B> {
    /// What the server said.
    Through(Response<B>),
    /// What the script says instead.
    Instead(Response<Body>),
}

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
    let (parts, body) = request.into_parts();
    let body: Bytes = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let step = step_of(side, &parts, &body);
    let request = Request::from_parts(parts, Body::from(body.to_vec()));
    Ok(match spoiled(step, script, || forward(request, upstream)).await? {
        Passed::Through(response) | Passed::Instead(response) => response,
    })
}

/// The step that a request is; none when it reads, or is no part of a delivery.
pub(super) fn step_of(side: Side, parts: &http::request::Parts, body: &[u8]) -> Option<Step> {
    let path = parts.uri.path();
    let is_write = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS)
        && !["reviews", "/leases"].iter().any(|resource| path.contains(resource));
    let mut step = Step::new(side, parts.method.clone(), path);
    if step.kind().ends_with(" events") {
        step.note = words_of_event(body);
    } else if parts.method == Method::POST && side == Side::Target {
        // As if it named what it makes, as the others do.
        let object: Value = serde_json::from_slice(body).unwrap_or_default();
        step.path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
    }
    is_write.then_some(step)
}

/// Lets a step happen as the script says.
pub(super) async fn spoiled<B, F>(
    step: Option<Step>,
    script: &Script,
    forward: impl FnOnce() -> F,
) -> Result<Passed<B>, Broken>
where
    B: hyper::body::Body,
    F: Future<Output = Result<Response<B>, Broken>>,
{
    if script.is_killed() {
        return Err(Broken);
    }
    let Some(step) = step else { return forward().await.map(Passed::Through) };
    let (place, fault) = script.notice(step).await;
    let Some(fault) = fault else {
        let response = forward().await?;
        script.answered(place, response.status());
        return Ok(Passed::Through(response));
    };
    if let Some(response) = fault.response() {
        return Ok(Passed::Instead(response));
    }
    if fault.is_after() {
        let response = forward().await?;
        script.answered(place, response.status());
        // Carried out to the end.
        let _ = response.into_body().collect().await;
    }
    if fault.kills() {
        script.kill();
    }
    Err(Broken)
}

/// What an event says, and of what.
fn words_of_event(body: &[u8]) -> String {
    let event: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = if event["regarding"].is_object() { &event["regarding"] } else { &event["involvedObject"] };
    let note = if event["note"].is_string() { &event["note"] } else { &event["message"] };
    format!("{} {}: {}: {}", text(&about["kind"]), text(&about["name"]), text(&event["reason"]), text(note))
}

async fn forward(mut request: Request<Body>, upstream: Client) -> Result<Response<Body>, Broken> {
    for header in [AUTHORIZATION, HOST] {
        request.headers_mut().remove(header);
    }
    upstream.send(request).await.map_err(|_| Broken)
}
