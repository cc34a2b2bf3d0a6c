use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::{ProxiedAnswer, ProxiedRequest, ProxiedTls, ProxiedTlsError, provider, unusable};
use crate::Shutdown;

/// Connections at a time.
const CONNECTIONS: usize = 128;
/// Requests that are worked on at a time; more wait for their turn.
const REQUESTS: usize = 8;
/// The longest body: a Release.
const LONGEST_BODY: usize = 3 << 20;
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
const HEADER_DEADLINE: Duration = Duration::from_secs(10);
/// How long an answer may take, with the wait for its turn. The apiserver gives up a little later.
const ANSWER_DEADLINE: Duration = Duration::from_secs(50);

/// What answers requests.
#[async_trait]
pub trait Answers: Send + Sync + 'static {
    /// Answers one.
    async fn answer(&self, request: ProxiedRequest) -> ProxiedAnswer;
}

/// Serves until shutdown.
///
/// # Errors
/// When the certificates cannot be used.
pub async fn serve_proxied(
    listener: Arc<TcpListener>,
    tls: ProxiedTls,
    answers: Arc<dyn Answers>,
    shutdown: Shutdown,
) -> Result<(), ProxiedTlsError> {
    let acceptor = TlsAcceptor::from(config(&tls)?);
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let turns = Arc::new(Semaphore::new(REQUESTS));
    loop {
        // It is never closed.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return Ok(()) };
        let stream = tokio::select! {
            () = shutdown.wait() => return Ok(()),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Out of descriptors, or the peer went away between its call and ours.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (acceptor, shutdown) = (acceptor.clone(), shutdown.clone());
        let (answers, turns) = (Arc::clone(&answers), Arc::clone(&turns));
        tokio::spawn(async move {
            let _slot = slot;
            tokio::select! {
                () = connection(stream, acceptor, answers, turns) => {}
                () = shutdown.wait() => {}
            }
        });
    }
}

impl ProxiedTls {
    /// Whether a server can be made of it.
    ///
    /// # Errors
    /// Why not.
    pub fn check_server(&self) -> Result<(), ProxiedTlsError> {
        config(self).map(drop)
    }
}

fn config(tls: &ProxiedTls) -> Result<Arc<ServerConfig>, ProxiedTlsError> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(tls.roots()?, provider()).build().map_err(unusable)?;
    let (chain, key) = tls.own()?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    answers: Arc<dyn Answers>,
    turns: Arc<Semaphore>,
) {
    let stream = match tokio::time::timeout(HANDSHAKE_DEADLINE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::info!(%error, "a caller without the apiserver's certificate is not answered");
            return;
        }
        Err(_) => return,
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (answers, turns) = (Arc::clone(&answers), Arc::clone(&turns));
        async move { Ok::<_, Infallible>(respond(request, answers, turns).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_DEADLINE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of the apiserver ended");
    }
}

async fn respond(
    request: Request<Incoming>,
    answers: Arc<dyn Answers>,
    turns: Arc<Semaphore>,
) -> Response<Full<Bytes>> {
    let work = async {
        let (parts, body) = request.into_parts();
        let body = match Limited::new(body, LONGEST_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return failure(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "RequestEntityTooLarge",
                    "the body is too long",
                );
            }
            Err(_) => return failure(StatusCode::BAD_REQUEST, "BadRequest", "the body broke off"),
        };
        // It is never closed.
        let _turn = turns.acquire().await;
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let request = ProxiedRequest { method: parts.method, path: parts.uri.path().to_owned(), query, body };
        answers.answer(request).await
    };
    let answer = tokio::time::timeout(ANSWER_DEADLINE, work).await.unwrap_or_else(|_| {
        failure(StatusCode::GATEWAY_TIMEOUT, "Timeout", "the answer took too long; the target may be slow")
    });
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn failure(code: StatusCode, reason: &str, message: &str) -> ProxiedAnswer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    ProxiedAnswer { code, body: status.to_string().into() }
}
