use std::sync::Arc;

use crate::KeyValue;

/// Why a storage operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StorageError {
    /// The key exists already; `current` is what is there.
    #[error("key {} exists already", current.key)]
    AlreadyExists { current: KeyValue },
    /// There is nothing at the key.
    #[error("key {key} not found")]
    NotFound { key: String },
    /// The key was written since the caller read it; `current` is what is there now.
    #[error("key {} is at revision {}, not at the expected {expected}", current.key, current.revision)]
    Conflict { expected: u64, current: KeyValue },
    /// The history that was asked for is gone.
    #[error("revision {requested} has been compacted, the oldest kept is {oldest}")]
    Compacted { requested: u64, oldest: u64 },
    /// The revision has not been reached yet.
    #[error("revision {requested} is in the future, the current one is {current}")]
    FutureRevision { requested: u64, current: u64 },
    /// Key or value is larger than the backend takes.
    #[error("{what} of {size} bytes is larger than the limit of {limit} bytes")]
    TooLarge { what: &'static str, size: usize, limit: usize },
    /// The device has no room for the write, which was not made.
    #[error("no space left for {path}: free some and retry")]
    Full { path: String },
    /// A write was sent and not answered: it may have been made, or may be made later.
    #[error("nothing is known about the write: {reason}")]
    Unknown { reason: String },
    /// The store is shutting down or lost its backend.
    #[error("storage is not available: {reason}")]
    Unavailable {
        reason: String,
        #[source]
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
}

impl StorageError {
    pub(crate) fn closed() -> Self {
        Self::Unavailable { reason: "it has been closed".to_owned(), source: None }
    }
}
