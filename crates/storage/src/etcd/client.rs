//! Calls to the members of an etcd: one is asked until it fails, then the next; every call has a deadline.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use prost::Message;
use tokio::time::{Instant, sleep, timeout};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, ConnectError, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::wire::{WatchRequest, WatchResponse};
use super::{EtcdOptions, OpenError};
use crate::StorageError;

/// How long a call may take, with all that is tried.
const CALL: Duration = Duration::from_secs(10);
/// How long one member may take to answer.
const ATTEMPT: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(2);
/// A connection is asked this often whether it is still there, and given up when it does not say so in time; as
/// kube-apiserver has it.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// What to wait when every member failed.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Pages of large objects pass tonic's own limit of 4 MiB.
const MAX_MESSAGE: usize = i32::MAX as usize;

const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";
const COMPACT: &str = "/etcdserverpb.KV/Compact";
const WATCH: &str = "/etcdserverpb.Watch/Watch";

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Reads keys.
    Range,
    /// Reads and writes at once, when what it compares is as expected.
    Txn,
    /// Forgets history.
    Compact,
}

impl Operation {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Txn => "txn",
            Self::Compact => "compact",
        }
    }

    fn path(self) -> PathAndQuery {
        PathAndQuery::from_static(match self {
            Self::Range => RANGE,
            Self::Txn => TXN,
            Self::Compact => COMPACT,
        })
    }
}

/// Told of each answer and each failure of a member: the kind of call, how long it took, and whether it succeeded.
pub type Measure = Arc<dyn Fn(Operation, Duration, bool) + Send + Sync>;

/// Why a call has no answer.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// etcd has refused it, for good.
    Refused(StorageError),
    /// No member took it: it had no effect and never will.
    NotSent(String),
    /// Nobody knows: it may have been carried out, or may be later.
    Unknown(String),
}

impl Failure {
    fn of(status: &Status) -> Self {
        let text = status.message();
        let mut source = status.source();
        while let Some(error) = source {
            if error.is::<ConnectError>() {
                return Self::NotSent(explain(status));
            }
            source = error.source();
        }
        // These words are etcd's own; its clients go by them, too.
        if text.contains("required revision has been compacted") {
            return Self::Refused(StorageError::Compacted { requested: 0, oldest: 0 });
        }
        if text.contains("required revision is a future revision") {
            return Self::Refused(StorageError::FutureRevision { requested: 0, current: 0 });
        }
        if text.contains("database space exceeded") {
            return Self::Refused(StorageError::Full { path: "etcd".to_owned() });
        }
        if text.contains("request is too large") || text.contains("message larger than max") {
            return Self::Refused(StorageError::TooLarge { what: "a value", size: 0, limit: 0 });
        }
        if text.contains("etcdserver: no leader") || text.contains("etcdserver: too many requests") {
            return Self::NotSent(text.to_owned());
        }
        match status.code() {
            Code::Unauthenticated
            | Code::PermissionDenied
            | Code::InvalidArgument
            | Code::Unimplemented
            | Code::FailedPrecondition => Self::Refused(StorageError::Unavailable {
                reason: format!("etcd refused the call: {}", explain(status)),
                source: None,
            }),
            _ => Self::Unknown(explain(status)),
        }
    }

    /// As an answer to a caller who gets no other.
    pub(super) fn into_error(self) -> StorageError {
        match self {
            Self::Refused(error) => error,
            Self::NotSent(reason) => {
                StorageError::Unavailable { reason: format!("etcd is not reached: {reason}"), source: None }
            }
            Self::Unknown(reason) => {
                StorageError::Unavailable { reason: format!("etcd did not answer: {reason}"), source: None }
            }
        }
    }

    /// As an answer to who wanted to write.
    pub(super) fn into_write_error(self) -> StorageError {
        match self {
            Self::Unknown(reason) => {
                StorageError::Unknown { reason: format!("etcd did not answer: {reason}") }
            }
            known => known.into_error(),
        }
    }
}

fn explain(status: &Status) -> String {
    let mut text = format!("{}: {}", status.code(), status.message());
    let mut source = status.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}

/// The files of `--etcd-cafile`, `--etcd-certfile` and `--etcd-keyfile`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The CA of the members' certificates; the system's CAs if absent.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to etcd.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    fn read(&self) -> Result<ClientTlsConfig, OpenError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|source| OpenError::File { path: path.clone(), source })
        };
        let mut config = ClientTlsConfig::new();
        config = match &self.ca {
            Some(path) => config.ca_certificate(Certificate::from_pem(read(path)?)),
            None => config.with_native_roots(),
        };
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(config)
    }
}

struct Member {
    url: String,
    channel: RwLock<Channel>,
}

pub(super) struct Client {
    members: Vec<Member>,
    current: AtomicUsize,
    tls: TlsFiles,
    measure: Option<Measure>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let urls: Vec<_> = self.members.iter().map(|member| &member.url).collect();
        f.debug_struct("Client").field("members", &urls).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(options: &EtcdOptions) -> Result<Self, OpenError> {
        let mut members = Vec::new();
        for url in &options.servers {
            let channel = RwLock::new(channel(url, &options.tls)?);
            members.push(Member { url: url.clone(), channel });
        }
        if members.is_empty() {
            return Err(OpenError::NoServer);
        }
        let (tls, measure) = (options.tls.clone(), options.measure.clone());
        Ok(Self { members, current: AtomicUsize::new(0), tls, measure })
    }

    /// Calls until a member answers or all time is used up: for what can be asked twice.
    pub(super) async fn read<Q, A>(&self, operation: Operation, request: Q) -> Result<A, Failure>
    where
        Q: Message + Default + Clone + Send + Sync + 'static,
        A: Message + Default + Send + 'static,
    {
        self.call(operation, request, true).await
    }

    /// Calls until a member answers, or until nobody knows whether one has carried it out.
    pub(super) async fn write<Q, A>(&self, operation: Operation, request: Q) -> Result<A, Failure>
    where
        Q: Message + Default + Clone + Send + Sync + 'static,
        A: Message + Default + Send + 'static,
    {
        self.call(operation, request, false).await
    }

    async fn call<Q, A>(&self, operation: Operation, request: Q, again: bool) -> Result<A, Failure>
    where
        Q: Message + Default + Clone + Send + Sync + 'static,
        A: Message + Default + Send + 'static,
    {
        let deadline = Instant::now() + CALL;
        let mut tried = 0;
        loop {
            let (at, mut grpc) = self.current();
            let started = Instant::now();
            let attempt = ATTEMPT.min(deadline.saturating_duration_since(started));
            let answer = timeout(attempt, async {
                grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
                let codec = ProstCodec::<Q, A>::default();
                grpc.unary(leader_required(request.clone()), operation.path(), codec).await
            });
            let failure = match answer.await {
                Ok(Ok(answer)) => {
                    self.measured(operation, started, true);
                    return Ok(answer.into_inner());
                }
                Ok(Err(status)) => Failure::of(&status),
                Err(_) => Failure::Unknown(format!("no answer in {} s", attempt.as_secs())),
            };
            self.measured(operation, started, false);
            if matches!(failure, Failure::Refused(_)) {
                return Err(failure);
            }
            self.failed(at);
            tried += 1;
            let pause = self.pause(tried);
            let is_over = Instant::now() + pause >= deadline;
            if is_over || (!again && matches!(failure, Failure::Unknown(_))) {
                return Err(failure);
            }
            sleep(pause).await;
        }
    }

    /// Opens a stream of watches; what is sent into `requests` goes to the member.
    pub(super) async fn watch(
        &self,
        requests: impl tonic::codegen::tokio_stream::Stream<Item = WatchRequest> + Send + 'static,
    ) -> Result<Streaming<WatchResponse>, Failure> {
        let (at, mut grpc) = self.current();
        let opened = timeout(ATTEMPT, async {
            grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
            let path = PathAndQuery::from_static(WATCH);
            grpc.streaming(leader_required(requests), path, ProstCodec::default()).await
        });
        let failure = match opened.await {
            Ok(Ok(stream)) => return Ok(stream.into_inner()),
            Ok(Err(status)) => Failure::of(&status),
            Err(_) => Failure::Unknown("a watch was not begun in time".to_owned()),
        };
        self.failed(at);
        Err(failure)
    }

    /// What to wait before the next try, when this many failed.
    pub(super) fn pause(&self, tried: usize) -> Duration {
        let rounds = tried / self.members.len();
        match tried % self.members.len() {
            0 => PAUSE.saturating_mul(1 << rounds.min(6)).min(PAUSE_MAX),
            _ => Duration::ZERO,
        }
    }

    /// The failure of a stream that stood, after which another member is asked.
    pub(super) fn broken(&self, status: &Status) -> Failure {
        self.failed(self.current.load(Ordering::Relaxed));
        Failure::of(status)
    }

    fn measured(&self, operation: Operation, started: Instant, is_ok: bool) {
        if let Some(measure) = &self.measure {
            measure(operation, started.elapsed(), is_ok);
        }
    }

    fn current(&self) -> (usize, Grpc<Channel>) {
        let at = self.current.load(Ordering::Relaxed) % self.members.len();
        // There is at least one member.
        let channel = self.members[at].channel.read().clone();
        let grpc = Grpc::new(channel);
        (at, grpc.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE))
    }

    /// Asks the next member from now on, unless somebody else has noticed already. The member that failed gets a new
    /// connection, so that certificates that were replaced are read.
    fn failed(&self, at: usize) {
        let next = (at + 1) % self.members.len();
        if self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let Some(member) = self.members.get(at).filter(|member| member.url.starts_with("https:")) else {
            return;
        };
        match channel(&member.url, &self.tls) {
            Ok(made) => *member.channel.write() = made,
            Err(error) => {
                tracing::warn!(url = member.url, %error, "the files for TLS to etcd cannot be read");
            }
        }
    }
}

/// A member that sees no leader refuses at once, so that another one can be asked.
fn leader_required<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}

fn channel(url: &str, tls: &TlsFiles) -> Result<Channel, OpenError> {
    let invalid = |source| OpenError::Server { url: url.to_owned(), source };
    let mut endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(invalid)?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    if url.starts_with("https:") {
        endpoint = endpoint.tls_config(tls.read()?).map_err(invalid)?;
    } else if !url.starts_with("http:") {
        return Err(OpenError::Scheme { url: url.to_owned() });
    }
    Ok(endpoint.connect_lazy())
}
