//! Where the API server keeps objects.
//!
//! [`Storage`] is one trait over bytes: keys are paths such as
//! `/registry/convoy.kumodo.io/releases/default/web`, values are opaque, and **one** revision counter
//! counts the writes to all of them, so that resource versions of different kinds can be compared.
//! Writes are optimistic: the caller says which revision it read, and a lost race carries the current
//! value back. [`memory`] keeps everything in memory, [`embedded`] in one
//! file that survives a crash, [`etcd`] in an etcd that several servers share; every backend answers the same conformance suite. [`watch_cache`] serves lists
//! and watches of one resource from memory.

pub mod embedded;
mod error;
pub mod etcd;
mod history;
pub mod memory;
mod storage;
pub mod watch_cache;

pub use error::StorageError;
pub use history::HistoryLimits;
pub use storage::{
    Batch, Deleted, Event, EventKind, KeyValue, List, ListOptions, MAX_KEY, MAX_VALUE, Progress, Read,
    Storage, Watch,
};
