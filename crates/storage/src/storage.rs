use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::StorageError;

/// Longest key a backend has to take, in bytes.
pub const MAX_KEY: usize = 2048;
/// Largest value a backend has to take, in bytes. The API server's request limit is below it.
pub const MAX_VALUE: usize = 4 * 1024 * 1024;

/// A stored value and where in the history it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Arc<str>,
    pub value: Bytes,
    /// Revision of the write that made this value.
    pub revision: u64,
}

/// What a read of one key found, and the revision of the whole store at which it looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub found: Option<KeyValue>,
    pub revision: u64,
}

/// Which keys of a prefix to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListOptions<'a> {
    /// The store as it was at this revision; the current one if absent.
    pub revision: Option<u64>,
    /// Only keys that sort after this one.
    pub after: Option<&'a str>,
    /// At most this many; 0 for all.
    pub limit: usize,
}

/// Keys in byte order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    pub items: Vec<KeyValue>,
    /// The revision this list shows.
    pub revision: u64,
    /// How many more keys there are behind the limit.
    pub remaining: u64,
}

/// What a delete removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// Revision of the deletion.
    pub revision: u64,
    pub previous: KeyValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Created,
    Updated,
    Deleted,
}

/// One committed write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    pub key: Arc<str>,
    /// Revision of the write; for a deletion, of the deletion.
    pub revision: u64,
    /// The new value; `None` for a deletion.
    pub value: Option<Bytes>,
    /// The value before; `None` for a creation.
    pub previous: Option<KeyValue>,
}

/// Events of one watch, in the order of their revisions.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub events: Vec<Arc<Event>>,
    /// Every event of the prefix up to and including this revision has now been delivered.
    pub revision: u64,
}

/// The answer to "is a watch up to date?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The revision of the store when it was asked.
    pub revision: u64,
    /// A watch of the prefix that has delivered up to this revision shows the store at `revision`.
    pub delivered: u64,
}

/// A store of bytes with one revision counter.
///
/// A write is acknowledged only when it is as durable as the backend makes it. Reads see every
/// acknowledged write. Dropping a future of a write leaves open whether it was made.
#[async_trait]
pub trait Storage: Send + Sync + std::fmt::Debug + 'static {
    /// Reads one key, now.
    async fn get(&self, key: &str) -> Result<Read, StorageError>;

    /// Lists the keys that start with `prefix`, in byte order.
    ///
    /// # Errors
    /// [`StorageError::Compacted`] or [`StorageError::FutureRevision`] for a revision that cannot be shown.
    async fn list(&self, prefix: &str, options: ListOptions<'_>) -> Result<List, StorageError>;

    /// Writes a key that does not exist and returns the revision of the write.
    ///
    /// # Errors
    /// [`StorageError::AlreadyExists`] with what is there.
    async fn create(&self, key: &str, value: Bytes) -> Result<u64, StorageError>;

    /// Replaces the value of a key whose last write was at revision `expected`.
    ///
    /// # Errors
    /// [`StorageError::NotFound`], or [`StorageError::Conflict`] with what is there.
    async fn update(&self, key: &str, expected: u64, value: Bytes) -> Result<u64, StorageError>;

    /// Deletes a key whose last write was at revision `expected`.
    ///
    /// # Errors
    /// [`StorageError::NotFound`], or [`StorageError::Conflict`] with what is there.
    async fn delete(&self, key: &str, expected: u64) -> Result<Deleted, StorageError>;

    /// Watches a prefix: every event after revision `from`, which may be 0 on a store that was never
    /// compacted.
    ///
    /// # Errors
    /// [`StorageError::Compacted`] if events after `from` are gone.
    async fn watch(&self, prefix: &str, from: u64) -> Result<Box<dyn Watch>, StorageError>;

    /// The revision of the last acknowledged write.
    async fn revision(&self) -> Result<u64, StorageError>;

    /// The oldest revision from which a watch or a list can start.
    async fn oldest(&self) -> Result<u64, StorageError>;

    /// Says up to where a watch of `prefix` has to have delivered to be up to date; a backend whose
    /// watches report progress only when asked asks for it here.
    async fn progress(&self, prefix: &str) -> Result<Progress, StorageError>;

    /// Forgets the history up to `revision`, which itself can still be listed.
    async fn compact(&self, revision: u64) -> Result<(), StorageError>;
}

/// A running watch.
///
/// It is a cursor over the history: it holds no events of its own, so that one which is not read costs
/// nothing and blocks nobody; when the history it needs is gone it ends with
/// [`StorageError::Compacted`].
#[async_trait]
pub trait Watch: Send + std::fmt::Debug {
    /// Waits for events. A batch is bounded and never empty, unless the backend reports progress only.
    /// Cancelling the future loses nothing.
    async fn next(&mut self) -> Result<Batch, StorageError>;
}

pub(crate) fn check_size(key: &str, value: &[u8]) -> Result<(), StorageError> {
    if key.len() > MAX_KEY {
        return Err(StorageError::TooLarge { what: "a key", size: key.len(), limit: MAX_KEY });
    }
    if value.len() > MAX_VALUE {
        return Err(StorageError::TooLarge { what: "a value", size: value.len(), limit: MAX_VALUE });
    }
    Ok(())
}
