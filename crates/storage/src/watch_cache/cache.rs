//! The cache itself, and the task that keeps it up to date.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::state::Inner;
use super::{Entry, EntryFormat, Selector, Start, Watcher};
use crate::{Storage, StorageError, Watch};

/// How long the cache waits before it tries a storage again that failed.
const RETRY: Duration = Duration::from_millis(200);

/// How much the cache remembers for watchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// At most this many events.
    pub events: usize,
    /// At most this many bytes of replaced objects.
    pub bytes: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { events: 4096, bytes: 4 << 20 }
    }
}

/// Which state of the resource a reader wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// With every write that was acknowledged before.
    Latest,
    /// Any: what the cache has.
    Any,
    /// This revision or a later one.
    NotOlderThan(u64),
    /// Exactly this revision.
    Exact(u64),
}

/// Why the cache could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CacheError {
    /// The revision is not known (any more).
    #[error("revision {requested} is too old, the oldest known is {oldest}")]
    TooOld { requested: u64, oldest: u64 },
    /// The revision has not been reached in time.
    #[error("revision {requested} is too large, the current one is {current}")]
    TooLarge { requested: u64, current: u64 },
    /// The cache did not catch up with the storage in time.
    #[error("the cache did not catch up with the storage in time")]
    Behind,
    /// The watch was ended: the cache was filled anew or dropped.
    #[error("the watch was ended, list and watch again")]
    Ended,
    /// The storage failed.
    #[error("the storage failed")]
    Storage(#[source] StorageError),
}

impl From<StorageError> for CacheError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Compacted { requested, oldest } => Self::TooOld { requested, oldest },
            StorageError::FutureRevision { requested, current } => Self::TooLarge { requested, current },
            other => Self::Storage(other),
        }
    }
}

/// One list, in the order of keys.
#[derive(Debug, Clone)]
pub struct CachedList {
    pub entries: Vec<Arc<Entry>>,
    /// The revision that the list shows.
    pub revision: u64,
    /// The last key looked at, relative to the resource's prefix, if there are objects behind it.
    pub more_after: Option<String>,
    /// How many objects there are behind it; only known without selectors.
    pub remaining: Option<u64>,
}

/// The cache of one resource. Dropping it ends its watchers.
#[derive(Debug)]
pub struct WatchCache {
    pub(super) inner: Arc<Inner>,
    pump: AbortHandle,
}

impl WatchCache {
    /// Fills a cache from the storage and keeps it up to date until it is dropped.
    ///
    /// # Errors
    /// [`CacheError::Storage`] if the storage cannot be read.
    pub async fn start(
        storage: Arc<dyn Storage>,
        format: EntryFormat,
        limits: CacheLimits,
    ) -> Result<Self, CacheError> {
        let inner = Arc::new(Inner::new(storage, format, limits));
        let stream = inner.fill().await?;
        let pump = tokio::spawn(pump(Arc::downgrade(&inner), stream)).abort_handle();
        Ok(Self { inner, pump })
    }

    /// One object.
    pub async fn get(&self, key: &str, at: At) -> Result<Option<Arc<Entry>>, CacheError> {
        self.inner.reach(at).await?;
        Ok(self.inner.get(key))
    }

    /// The object as the cache has it now, for callers that compare its revision themselves.
    pub fn peek(&self, key: &str) -> Option<Arc<Entry>> {
        self.inner.get(key)
    }

    /// Lists the objects that a selector selects, in the order of keys.
    ///
    /// `after` is the `more_after` of the page before, `limit` 0 takes all.
    ///
    /// # Errors
    /// See [`CacheError`].
    pub async fn list(
        &self,
        at: At,
        selector: &Selector,
        limit: usize,
        after: Option<&str>,
    ) -> Result<CachedList, CacheError> {
        self.inner.reach(at).await?;
        let (entries, revision) = match at {
            At::Exact(revision) => (self.inner.snapshot(revision).await?, revision),
            At::Latest | At::Any | At::NotOlderThan(_) => self.inner.now(),
        };
        Ok(self.inner.select(&entries, revision, selector, limit, after))
    }

    /// Starts a watch; its events come from [`Watcher::next`].
    ///
    /// # Errors
    /// See [`CacheError`].
    pub async fn watch(&self, start: Start, selector: Selector) -> Result<Watcher, CacheError> {
        Watcher::start(Arc::clone(&self.inner), start, selector).await
    }

    /// The revision that the cache shows now.
    pub fn revision(&self) -> u64 {
        self.inner.revision()
    }

    /// How many objects there are, and how many of them have a fault.
    pub fn count(&self) -> (usize, usize) {
        let (entries, _) = self.inner.now();
        (entries.len(), entries.values().filter(|entry| entry.fault().is_some()).count())
    }
}

impl WatchCache {
    /// Ends all watchers, now and to come, and stops following the storage.
    pub fn close(&self) {
        self.pump.abort();
        self.inner.close();
    }
}

impl Drop for WatchCache {
    fn drop(&mut self) {
        self.close();
    }
}

/// Follows the storage; fills the cache anew when the stream breaks.
async fn pump(inner: Weak<Inner>, mut stream: Box<dyn Watch>) {
    loop {
        match stream.next().await {
            Ok(batch) => {
                let Some(inner) = inner.upgrade() else { return };
                inner.apply(&batch.events, batch.revision);
            }
            Err(error) => {
                tracing::debug!(%error, "the cache lost its watch of the storage and is filled anew");
                stream = loop {
                    let Some(inner) = inner.upgrade() else { return };
                    match inner.fill().await {
                        Ok(stream) => break stream,
                        Err(error) => tracing::warn!(%error, "the cache cannot be filled, trying again"),
                    }
                    drop(inner);
                    tokio::time::sleep(RETRY).await;
                };
            }
        }
    }
}
