//! A listening server: TLS connections, HTTP/1.1 and HTTP/2, deadlines, and an end in good order.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::audit::AuditLog;
use crate::authentication::{Authenticator, Union};
use crate::authorization::{Authorizer, Masters};
use crate::filters::{Filters, Handler, Limits, Now, Peer};
use crate::health::Checks;
use crate::metrics::Metrics;
use crate::tls::{ServingCertificate, TlsError, server_config};

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the headers of a request may take to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// Streams on one HTTP/2 connection. kube-aggregator sends all of a cluster's requests on one.
const MAX_STREAMS: u32 = 1000;
/// How often an HTTP/2 peer is asked whether it is still there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_HEADER_BYTES: u32 = 1024 * 1024;

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error("cannot serve TLS")]
    Tls(#[source] TlsError),
}

/// What a server is made of.
pub struct ServerBuilder {
    address: SocketAddr,
    certificate: Arc<ServingCertificate>,
    handler: Arc<dyn Handler>,
    now: Now,
    authenticator: Arc<dyn Authenticator>,
    authorizer: Arc<dyn Authorizer>,
    audit: Option<Arc<AuditLog>>,
    audit_annotations: Vec<(String, String)>,
    checks: Checks,
    metrics: Arc<Metrics>,
    limits: Limits,
    impersonation: bool,
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// A server that lets nobody but `system:masters` do anything, and knows no users.
    pub fn new(
        address: SocketAddr,
        certificate: Arc<ServingCertificate>,
        handler: Arc<dyn Handler>,
        now: Now,
    ) -> Self {
        Self {
            address,
            certificate,
            handler,
            now,
            authenticator: Arc::new(Union::default()),
            authorizer: Arc::new(Masters),
            audit: None,
            audit_annotations: Vec::new(),
            checks: Checks::new(),
            metrics: Arc::new(Metrics::default()),
            limits: Limits::default(),
            impersonation: false,
        }
    }

    /// Who users are.
    #[must_use]
    pub fn authenticator(mut self, authenticator: Arc<dyn Authenticator>) -> Self {
        self.authenticator = authenticator;
        self
    }

    /// What users may do.
    #[must_use]
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = authorizer;
        self
    }

    /// Where requests are logged.
    #[must_use]
    pub fn audit(mut self, audit: Arc<AuditLog>) -> Self {
        self.audit = Some(audit);
        self
    }

    /// An annotation on each of this server's events in the audit log, which tells servers that share one
    /// log apart.
    #[must_use]
    pub fn audit_annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.audit_annotations.push((key.into(), value.into()));
        self
    }

    /// What must be well.
    #[must_use]
    pub fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Counters, shared with whoever serves them.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// The server's bounds.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Users may make requests as somebody else whom they may impersonate, with the headers of Kubernetes. Without it such
    /// requests are refused.
    #[must_use]
    pub fn impersonation(mut self) -> Self {
        self.impersonation = true;
        self
    }

    /// Listens and serves until [`Server::stop`].
    ///
    /// # Errors
    /// When the address cannot be listened on or the certificate cannot be used.
    pub async fn start(self) -> Result<Server, StartError> {
        let config = server_config(self.certificate).map_err(StartError::Tls)?;
        let address = self.address;
        let listen = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (stop, stopping) = watch::channel(false);
        let (close, closing) = watch::channel(false);
        let filters = Arc::new(Filters {
            handler: self.handler,
            authenticator: self.authenticator,
            authorizer: self.authorizer,
            audit: self.audit,
            audit_annotations: self.audit_annotations,
            checks: self.checks,
            metrics: self.metrics,
            reads: Semaphore::new(self.limits.reads),
            writes: Semaphore::new(self.limits.writes),
            limits: self.limits,
            impersonation: self.impersonation,
            now: self.now,
            stopping,
        });
        let task = tokio::spawn(accept_loop(listener, config, filters, closing));
        Ok(Server { address, stop, close, task })
    }
}

/// A running server. Dropping it leaves it running; [`Server::stop`] ends it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    close: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends in good order: readiness fails at once and watches end; after `drain`, which gives load
    /// balancers time to notice, no connection is taken any more and the requests in flight finish.
    /// What is left after `grace` is cut off.
    pub async fn stop(self, drain: Duration, grace: Duration) {
        let _ = self.stop.send(true);
        tokio::time::sleep(drain).await;
        let _ = self.close.send(true);
        let abort = self.task.abort_handle();
        if tokio::time::timeout(grace, self.task).await.is_err() {
            abort.abort();
        }
    }
}

/// Waits until the sender says true or is gone.
pub(crate) async fn closed(signal: &watch::Receiver<bool>) {
    let _ = signal.clone().wait_for(|closing| *closing).await;
}

async fn accept_loop(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    filters: Arc<Filters>,
    closing: watch::Receiver<bool>,
) {
    let acceptor = TlsAcceptor::from(config);
    let permits = Arc::new(Semaphore::new(filters.limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let permit = tokio::select! {
            () = closed(&closing) => break,
            Some(_) = connections.join_next() => continue,
            permit = permits.clone().acquire_owned() => permit,
        };
        let Ok(permit) = permit else { break };
        let accepted = loop {
            tokio::select! {
                () = closed(&closing) => break None,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => break Some(accepted),
            }
        };
        match accepted {
            None => break,
            Some(Ok((stream, address))) => {
                let (acceptor, filters, closing) = (acceptor.clone(), filters.clone(), closing.clone());
                connections.spawn(async move {
                    connection(stream, address, acceptor, filters, closing).await;
                    drop(permit);
                });
            }
            Some(Err(error)) => {
                // Out of file descriptors, most likely: wait for some to be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

struct Open(Arc<Filters>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    filters: Arc<Filters>,
    closing: watch::Receiver<bool>,
) {
    filters.metrics.connections.fetch_add(1, Ordering::Relaxed);
    let _open = Open(filters.clone());
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!(%address, "TLS handshake timed out");
            return;
        }
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificates = certificates.iter().map(|certificate| certificate.clone().into_owned()).collect();
    let peer = Peer { address, certificates };
    let service = service_fn(move |request| {
        let answer = filters.clone().serve(request, peer.clone());
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .initial_stream_window_size(256 * 1024);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closed(&closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%address, %error, "connection ended");
    }
}
