//! What a process says of itself over HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::Shutdown;

/// How many probes and scrapes are answered at a time.
const MAX_CONNECTIONS: usize = 64;
const HEADER_DEADLINE: Duration = Duration::from_secs(10);

/// The metrics of a process.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
}

impl Metrics {
    /// Registers metrics; call once for each at the start, so that all are there from zero.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry.lock())
    }

    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry.lock());
        text
    }
}

/// Whether a process is ready: it is when all its named parts are.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    parts: Arc<Mutex<BTreeMap<String, Option<String>>>>,
}

impl Readiness {
    /// Says that a part is ready.
    pub fn ready(&self, part: &str) {
        self.parts.lock().insert(part.to_owned(), None);
    }

    /// Says that a part is not ready, and why.
    pub fn not_ready(&self, part: &str, why: impl Into<String>) {
        self.parts.lock().insert(part.to_owned(), Some(why.into()));
    }

    /// The parts that are not ready, with the reason of each.
    pub fn missing(&self) -> Vec<(String, String)> {
        let parts = self.parts.lock();
        parts.iter().filter_map(|(part, why)| Some((part.clone(), why.clone()?))).collect()
    }
}

/// What `/version` answers.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// The version, with a `v`.
    pub git_version: String,
    /// The process.
    pub process: String,
    /// The replica.
    pub replica_id: String,
}

/// A listening server of `/healthz`, `/livez`, `/readyz`, `/metrics` and `/version`.
#[derive(Debug)]
pub struct HealthServer {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl HealthServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it has ended, which it does on shutdown.
    pub async fn ended(self) {
        // It is never aborted, and a panic in it is reported by the panic hook.
        let _ = self.task.await;
    }
}

/// Why the health server could not start.
#[derive(Debug, thiserror::Error)]
#[error("listening on {address} for health and metrics")]
pub struct ServeHealthError {
    address: SocketAddr,
    #[source]
    source: std::io::Error,
}

impl ServeHealthError {
    /// Whether another process listens there: that can pass.
    pub fn is_in_use(&self) -> bool {
        self.source.kind() == std::io::ErrorKind::AddrInUse
    }
}

/// Starts the health server.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve_health(
    address: SocketAddr,
    readiness: Readiness,
    metrics: Metrics,
    version: VersionInfo,
    shutdown: Shutdown,
) -> Result<HealthServer, ServeHealthError> {
    let fail = |source| ServeHealthError { address, source };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    let context = Arc::new((readiness, metrics, version));
    let task = tokio::spawn(async move {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
            let stream = tokio::select! {
                () = shutdown.wait() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    // Out of descriptors, or the peer went away between its call and ours.
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let context = Arc::clone(&context);
            let shutdown = shutdown.clone();
            tokio::spawn(async move {
                let _slot = slot;
                let service = service_fn(move |request: Request<Incoming>| {
                    let response = answer(request.method(), request.uri().path(), &context);
                    async move { Ok::<_, Infallible>(response) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_DEADLINE)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    _ = connection => {}
                    () = shutdown.wait() => {}
                }
            });
        }
    });
    Ok(HealthServer { address, task })
}

fn answer(method: &Method, path: &str, context: &(Readiness, Metrics, VersionInfo)) -> Response<Full<Bytes>> {
    let (readiness, metrics, version) = context;
    const TEXT: &str = "text/plain; charset=utf-8";
    if method != Method::GET && method != Method::HEAD {
        return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is answered\n".to_owned());
    }
    match path {
        "/healthz" | "/livez" => respond(StatusCode::OK, TEXT, "ok".to_owned()),
        "/readyz" => {
            let missing = readiness.missing();
            if missing.is_empty() {
                return respond(StatusCode::OK, TEXT, "ok".to_owned());
            }
            let lines: String =
                missing.iter().map(|(part, why)| format!("[-]{part} is not ready: {why}\n")).collect();
            respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, lines)
        }
        "/metrics" => respond(
            StatusCode::OK,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            metrics.encode(),
        ),
        "/version" => {
            let body = serde_json::to_string_pretty(version).unwrap_or_default();
            respond(StatusCode::OK, "application/json", body)
        }
        _ => respond(
            StatusCode::NOT_FOUND,
            TEXT,
            "not found; there is /healthz, /livez, /readyz, /metrics and /version\n".to_owned(),
        ),
    }
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn a_process_is_ready_when_all_its_parts_are() {
        let readiness = Readiness::default();
        readiness.not_ready("releases", "the first list has not ended");
        let shutdown = Shutdown::new();
        let version = VersionInfo {
            git_version: "v1.2.3".to_owned(),
            process: "controller-manager".to_owned(),
            replica_id: "cm-0".to_owned(),
        };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = serve_health(address, readiness.clone(), Metrics::default(), version, shutdown.clone())
            .await
            .unwrap();
        let not_ready = get(server.address(), "/readyz").await;
        assert!(
            not_ready.starts_with("HTTP/1.1 503") && not_ready.contains("[-]releases is not ready"),
            "{not_ready}"
        );
        readiness.ready("releases");
        assert!(get(server.address(), "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(server.address(), "/livez").await.starts_with("HTTP/1.1 200"));
        assert!(get(server.address(), "/version").await.contains("\"gitVersion\": \"v1.2.3\""));
        assert!(get(server.address(), "/metrics").await.contains("# EOF"));
        assert!(get(server.address(), "/nothing").await.starts_with("HTTP/1.1 404"));
        shutdown.trigger();
        server.ended().await;
    }
}
