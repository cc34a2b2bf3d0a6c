//! A store in an etcd, which several API servers share.
//!
//! Keys, transactions, watches and compaction are those of kube-apiserver, so that what is known about running it on
//! etcd holds here, too. One member is asked until it fails, then the next; a watch goes on at another member where it was.
//! A write whose answer was lost is looked for in the history of its key (`outcome.rs`).

mod client;
mod compactor;
mod outcome;
mod watch;
mod wire;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use self::client::{Client, Failure};
pub use self::client::{Measure, Operation, TlsFiles};
use self::outcome::Write;
use self::watch::EtcdWatch;
use self::wire::{
    CompactionRequest, CompactionResponse, RangeRequest, RangeResponse, Request, RequestOp, ResponseHeader,
};
use crate::storage::check_size;
use crate::{Deleted, KeyValue, List, ListOptions, Progress, Read, Storage, StorageError, Watch};

/// Keys that are read at once.
const PAGE: usize = 500;

/// Which etcd, and how.
#[derive(Clone)]
pub struct EtcdOptions {
    /// The URLs of the members.
    pub servers: Vec<String>,
    /// What the files of TLS are, for https.
    pub tls: TlsFiles,
    /// Keys that begin with `replaces` begin with this in etcd.
    pub prefix: String,
    /// The beginning of keys that `prefix` stands for.
    pub replaces: String,
    /// How old history is when it is forgotten; zero when others compact the etcd.
    pub compaction_interval: Duration,
    /// Is told about each call.
    pub measure: Option<Measure>,
}

impl std::fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("servers", &self.servers)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// An etcd that cannot be used as it was told.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No member was named.
    #[error("no etcd server was given")]
    NoServer,
    /// A URL that is none.
    #[error("{url} cannot be used as the URL of an etcd server")]
    Server {
        /// The URL.
        url: String,
        /// What is wrong with it.
        #[source]
        source: tonic::transport::Error,
    },
    /// A URL of another kind.
    #[error("{url} is not an http or https URL")]
    Scheme {
        /// The URL.
        url: String,
    },
    /// A file for TLS.
    #[error("{} cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// What a storage and its watches share.
struct Shared {
    client: Client,
    prefix: String,
    replaces: String,
    /// Up to where watches of a prefix are waited for.
    wanted: Mutex<HashMap<String, tokio::sync::watch::Sender<u64>>>,
    closed: tokio::sync::watch::Sender<bool>,
}

/// The etcd backend.
pub struct EtcdStorage {
    shared: Arc<Shared>,
    compactor: Option<AbortHandle>,
}

impl std::fmt::Debug for EtcdStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStorage").field("client", &self.shared.client).finish_non_exhaustive()
    }
}

impl EtcdStorage {
    /// Prepares the connections. Nothing is sent yet: an etcd that is not there yet is waited for by those who call.
    /// Needs a tokio runtime.
    ///
    /// # Errors
    /// When a URL or a file of TLS cannot be used.
    pub fn open(options: &EtcdOptions) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared {
            client: Client::new(options)?,
            prefix: options.prefix.clone(),
            replaces: options.replaces.clone(),
            wanted: Mutex::default(),
            closed: tokio::sync::watch::Sender::new(false),
        });
        let interval = options.compaction_interval;
        let compactor = (!interval.is_zero()).then(|| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { compactor::run(&shared.client, interval).await }).abort_handle()
        });
        Ok(Self { shared, compactor })
    }

    /// Whether etcd answers a read of its latest state within this time.
    ///
    /// # Errors
    /// When it does not.
    pub async fn check(&self, within: Duration) -> Result<(), StorageError> {
        match tokio::time::timeout(within, self.shared.current()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(failure)) => Err(failure.into_error()),
            Err(_) => Err(StorageError::Unavailable {
                reason: format!("etcd did not answer within {within:?}"),
                source: None,
            }),
        }
    }

    /// How many keys begin with this. Any member answers, also one that is behind.
    ///
    /// # Errors
    /// When none does.
    pub async fn count(&self, prefix: &str) -> Result<u64, StorageError> {
        let (key, range_end) = self.shared.range_of(prefix);
        let request =
            RangeRequest { key, range_end, count_only: true, serializable: true, ..RangeRequest::default() };
        let answer = self.shared.range(request).await.map_err(Failure::into_error)?;
        Ok(u64::try_from(answer.count).unwrap_or_default())
    }
}

impl Drop for EtcdStorage {
    fn drop(&mut self) {
        if let Some(compactor) = &self.compactor {
            compactor.abort();
        }
        self.shared.closed.send_replace(true);
    }
}

impl Shared {
    fn encode(&self, key: &str) -> Bytes {
        match key.strip_prefix(&self.replaces) {
            Some(rest) => format!("{}{rest}", self.prefix).into(),
            None => Bytes::copy_from_slice(key.as_bytes()),
        }
    }

    fn decode(&self, key: &[u8]) -> Option<Arc<str>> {
        let key = std::str::from_utf8(key).ok()?;
        let rest = key.strip_prefix(&self.prefix)?;
        Some(format!("{}{rest}", self.replaces).into())
    }

    /// The keys that begin with a prefix: the first, and the first behind them.
    fn range_of(&self, prefix: &str) -> (Bytes, Bytes) {
        let key = self.encode(prefix);
        let end = end_of(&key);
        (key, end)
    }

    fn key_value(&self, found: wire::KeyValue) -> Option<KeyValue> {
        let revision = u64::try_from(found.mod_revision).ok()?;
        Some(KeyValue { key: self.decode(&found.key)?, value: found.value, revision })
    }

    fn wanted(&self, prefix: &str) -> tokio::sync::watch::Receiver<u64> {
        let mut wanted = self.wanted.lock();
        wanted.retain(|_, sender| sender.receiver_count() > 0);
        wanted.entry(prefix.to_owned()).or_default().subscribe()
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Failure> {
        self.client.read(Operation::Range, request).await
    }

    /// The revision of the store now.
    async fn current(&self) -> Result<u64, Failure> {
        // Any key will do.
        let key = self.encode("health");
        let request = RangeRequest { key, count_only: true, ..RangeRequest::default() };
        let answer = self.range(request).await?;
        Ok(u64::try_from(revision_of(answer.header.as_ref())).unwrap_or_default())
    }

    /// Whether the store can be shown at a revision.
    async fn knows(&self, revision: u64) -> Result<bool, Failure> {
        let request = RangeRequest {
            key: self.encode("health"),
            count_only: true,
            revision: i64::try_from(revision.max(1)).unwrap_or(i64::MAX),
            ..RangeRequest::default()
        };
        match self.range(request).await {
            Ok(_) => Ok(true),
            Err(Failure::Refused(StorageError::Compacted { .. })) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// The oldest revision at which the store can be shown. etcd does not tell, so it is searched for.
    async fn oldest(&self) -> Result<u64, Failure> {
        let (mut unknown, mut known) = (0, self.current().await?.max(1));
        while known - unknown > 1 {
            let middle = unknown + (known - unknown) / 2;
            match self.knows(middle).await? {
                true => known = middle,
                false => unknown = middle,
            }
        }
        Ok(known)
    }

    /// A refusal with the numbers that etcd does not give.
    async fn explained(&self, failure: Failure, requested: u64) -> StorageError {
        match failure {
            Failure::Refused(StorageError::Compacted { .. }) => {
                let oldest = self.oldest().await.unwrap_or(requested + 1);
                StorageError::Compacted { requested, oldest }
            }
            Failure::Refused(StorageError::FutureRevision { .. }) => {
                let current = self.current().await.unwrap_or_default();
                StorageError::FutureRevision { requested, current }
            }
            other => other.into_error(),
        }
    }
}

#[async_trait]
impl Storage for EtcdStorage {
    async fn get(&self, key: &str) -> Result<Read, StorageError> {
        let request = RangeRequest { key: self.shared.encode(key), ..RangeRequest::default() };
        let answer = self.shared.range(request).await.map_err(Failure::into_error)?;
        let revision = u64::try_from(revision_of(answer.header.as_ref())).unwrap_or_default();
        let found = answer.kvs.into_iter().next().and_then(|found| self.shared.key_value(found));
        Ok(Read { found, revision })
    }

    async fn list(&self, prefix: &str, options: ListOptions<'_>) -> Result<List, StorageError> {
        let (first, range_end) = self.shared.range_of(prefix);
        let mut key = match options.after {
            Some(after) if after >= prefix => behind(self.shared.encode(after)),
            _ => first,
        };
        let mut list =
            List { items: Vec::new(), revision: options.revision.unwrap_or_default(), remaining: 0 };
        loop {
            let wanted = match options.limit {
                0 => PAGE,
                limit => (limit - list.items.len()).min(PAGE),
            };
            let request = RangeRequest {
                key: key.clone(),
                range_end: range_end.clone(),
                limit: i64::try_from(wanted).unwrap_or(i64::MAX),
                revision: i64::try_from(list.revision).unwrap_or(i64::MAX),
                ..RangeRequest::default()
            };
            let answer = match self.shared.range(request).await {
                Ok(answer) => answer,
                Err(failure) => return Err(self.shared.explained(failure, list.revision).await),
            };
            if list.revision == 0 {
                list.revision = u64::try_from(revision_of(answer.header.as_ref())).unwrap_or_default();
            }
            let count = usize::try_from(answer.count).unwrap_or(usize::MAX);
            list.remaining = count.saturating_sub(answer.kvs.len()) as u64;
            if let Some(last) = answer.kvs.last() {
                key = behind(last.key.clone());
            }
            list.items.extend(answer.kvs.into_iter().filter_map(|found| self.shared.key_value(found)));
            if list.remaining == 0 || (options.limit > 0 && list.items.len() >= options.limit) {
                return Ok(list);
            }
        }
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<u64, StorageError> {
        check_size(key, &value)?;
        Ok(self.shared.carry_out(key, &Write::Create { value }).await?.revision)
    }

    async fn update(&self, key: &str, expected: u64, value: Bytes) -> Result<u64, StorageError> {
        check_size(key, &value)?;
        Ok(self.shared.carry_out(key, &Write::Update { expected, value }).await?.revision)
    }

    async fn delete(&self, key: &str, expected: u64) -> Result<Deleted, StorageError> {
        let done = self.shared.carry_out(key, &Write::Delete { expected }).await?;
        match done.previous {
            Some(previous) => Ok(Deleted { revision: done.revision, previous }),
            None => Err(StorageError::NotFound { key: key.to_owned() }),
        }
    }

    async fn watch(&self, prefix: &str, from: u64) -> Result<Box<dyn Watch>, StorageError> {
        // A watch may begin one revision after what was compacted, but then does not deliver what others would.
        match self.shared.knows(from).await {
            Ok(true) => {}
            Ok(false) => {
                let compacted = StorageError::Compacted { requested: from, oldest: 0 };
                return Err(self.shared.explained(Failure::Refused(compacted), from).await);
            }
            // Nothing of it can have been delivered.
            Err(Failure::Refused(StorageError::FutureRevision { .. })) => {}
            Err(failure) => return Err(failure.into_error()),
        }
        Ok(Box::new(EtcdWatch::new(Arc::clone(&self.shared), prefix, from)))
    }

    async fn revision(&self) -> Result<u64, StorageError> {
        self.shared.current().await.map_err(Failure::into_error)
    }

    async fn oldest(&self) -> Result<u64, StorageError> {
        self.shared.oldest().await.map_err(Failure::into_error)
    }

    async fn progress(&self, prefix: &str) -> Result<Progress, StorageError> {
        let revision = self.shared.current().await.map_err(Failure::into_error)?;
        if let Some(wanted) = self.shared.wanted.lock().get(prefix) {
            wanted.send_if_modified(|wanted| {
                let is_more = *wanted < revision;
                *wanted = revision.max(*wanted);
                is_more
            });
        }
        Ok(Progress { revision, delivered: revision })
    }

    async fn compact(&self, revision: u64) -> Result<(), StorageError> {
        match compact(&self.shared.client, i64::try_from(revision).unwrap_or(i64::MAX)).await {
            Err(StorageError::FutureRevision { .. }) => {
                let current = self.shared.current().await.map_err(Failure::into_error)?;
                Err(StorageError::FutureRevision { requested: revision, current })
            }
            done => done,
        }
    }
}

/// Forgets the history up to a revision; that it was forgotten already is well.
async fn compact(client: &Client, revision: i64) -> Result<(), StorageError> {
    let answer: Result<CompactionResponse, Failure> =
        client.read(Operation::Compact, CompactionRequest { revision }).await;
    match answer {
        Ok(CompactionResponse {}) | Err(Failure::Refused(StorageError::Compacted { .. })) => Ok(()),
        Err(failure) => Err(failure.into_error()),
    }
}

fn revision_of(header: Option<&ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

/// The key right behind this one.
fn behind(key: Bytes) -> Bytes {
    let mut key = Vec::from(key);
    key.push(0);
    key.into()
}

/// The first key behind all that begin with this.
fn end_of(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end.into();
        }
    }
    // To the end of all keys.
    Bytes::from_static(&[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_right_behind_its_keys() {
        assert_eq!(end_of(b"/a/"), Bytes::from_static(b"/a0"));
        assert_eq!(end_of(&[b'a', 0xff]), Bytes::from_static(b"b"));
        assert_eq!(end_of(&[0xff]), Bytes::from_static(&[0]));
    }
}
