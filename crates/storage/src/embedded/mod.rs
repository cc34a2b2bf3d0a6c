//! A store in one file, for a control plane on one machine.
//!
//! Writes go through one thread that takes all that wait and commits them together, so that many
//! writers share one `fsync`; a write is acknowledged after it. The file is copy-on-write: whatever
//! moment the process is killed at, the next start finds the last commit. A second process on the
//! same file is refused.
//!
//! Three tables: `log` (revision → record, never changed once written), `index` (key → revision of
//! its record) and `meta`. Compaction removes the records that a later one replaced.

mod error;
mod read;
mod record;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use redb::{Database, TableDefinition};
use tokio::sync::{mpsc, oneshot};

pub use error::OpenError;

use crate::history::{History, Step, Subscriber};
use crate::storage::check_size;
use crate::{Batch, Deleted, HistoryLimits, List, ListOptions, Progress, Read, Storage, StorageError, Watch};
use writer::{Op, Reply, Request, Writer};

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const INDEX: TableDefinition<'_, &str, u64> = TableDefinition::new("index");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Version of the tables and records in the file.
const SCHEMA: u64 = 1;

/// Writes that may wait for the writer.
const QUEUE: usize = 4096;

/// Events kept in memory for watches; older ones are read from the file.
const RECENT: HistoryLimits = HistoryLimits { events: 512, bytes: 2 << 20 };

/// How to open an embedded store.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedOptions {
    /// How much history the file keeps.
    pub history: HistoryLimits,
    /// Memory for pages of the file, in bytes.
    pub page_cache: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { history: HistoryLimits::default(), page_cache: 8 << 20 }
    }
}

/// The embedded backend.
#[derive(Debug)]
pub struct EmbeddedStorage {
    shared: Arc<Shared>,
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
}

/// What the writer and the readers share.
struct Shared {
    path: PathBuf,
    /// `None` while the file is opened again after a failed write.
    database: RwLock<Option<Database>>,
    history: History,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The file and its device.
struct Device {
    /// Opens the file; called again after a failed write.
    open: Box<dyn Fn() -> Result<Database, redb::DatabaseError> + Send>,
    /// How many bytes are free on it.
    free: Box<dyn Fn() -> std::io::Result<u64> + Send>,
}

impl EmbeddedStorage {
    /// Opens the store in the file at `path`, which is made if it does not exist. The whole file is
    /// verified, so a damaged one is reported here and not later. Blocks.
    ///
    /// # Errors
    /// See [`OpenError`]; each names the file and what to do.
    pub fn open(path: &Path, options: EmbeddedOptions) -> Result<Self, OpenError> {
        let (file, same_file) = (path.to_owned(), path.to_owned());
        let open = Box::new(move || {
            redb::Builder::new()
                .set_cache_size(options.page_cache)
                .set_check_integrity_on_open(true)
                .create(&file)
        });
        let free = Box::new(move || {
            let device = rustix::fs::statvfs(&same_file)?;
            Ok(device.f_bavail.saturating_mul(device.f_frsize))
        });
        Self::open_with(path, options.history, Device { open, free })
    }

    fn open_with(path: &Path, limits: HistoryLimits, device: Device) -> Result<Self, OpenError> {
        let database = error::open(path, &device)?;
        let state = writer::prepare(&database).map_err(|source| OpenError::from_redb(path, source))?;
        if state.schema != SCHEMA {
            return Err(OpenError::Schema { path: path.to_owned(), found: state.schema, known: SCHEMA });
        }
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            database: RwLock::new(Some(database)),
            history: History::new(
                HistoryLimits {
                    events: RECENT.events.min(limits.events),
                    bytes: RECENT.bytes.min(limits.bytes),
                },
                state.revision,
            ),
        });
        let (requests, queue) = mpsc::channel(QUEUE);
        let writer = Writer::new(Arc::clone(&shared), limits, device, state);
        let writer = std::thread::Builder::new()
            .name("convoy-store".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Self { shared, requests: Some(requests), writer: Some(writer) })
    }

    async fn write(&self, op: Op) -> Result<Reply, StorageError> {
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or_else(StorageError::closed)?;
        requests.send(Request { op, reply }).await.map_err(|_| StorageError::closed())?;
        answer.await.map_err(|_| StorageError::closed())?
    }

    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        blocking(&self.shared, read).await
    }
}

async fn blocking<T: Send + 'static>(
    shared: &Arc<Shared>,
    read: impl FnOnce(&Shared) -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    let shared = Arc::clone(shared);
    tokio::task::spawn_blocking(move || read(&shared)).await.map_err(|error| StorageError::Unavailable {
        reason: "a read did not finish".to_owned(),
        source: Some(Arc::new(error)),
    })?
}

impl Drop for EmbeddedStorage {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            // Waits for the commit that is under way, so that the file is free when this returns.
            let _ = writer.join();
        }
        self.shared.history.close();
        *self.shared.database.write() = None;
    }
}

#[async_trait]
impl Storage for EmbeddedStorage {
    async fn get(&self, key: &str) -> Result<Read, StorageError> {
        self.shared.get(key)
    }

    async fn list(&self, prefix: &str, options: ListOptions<'_>) -> Result<List, StorageError> {
        let (prefix, after) = (prefix.to_owned(), options.after.map(str::to_owned));
        let ListOptions { revision, limit, .. } = options;
        self.blocking(move |shared| {
            shared.list(&prefix, ListOptions { revision, after: after.as_deref(), limit })
        })
        .await
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<u64, StorageError> {
        check_size(key, &value)?;
        Ok(self.write(Op::Create { key: key.into(), value }).await?.revision)
    }

    async fn update(&self, key: &str, expected: u64, value: Bytes) -> Result<u64, StorageError> {
        check_size(key, &value)?;
        Ok(self.write(Op::Update { key: key.into(), expected, value }).await?.revision)
    }

    async fn delete(&self, key: &str, expected: u64) -> Result<Deleted, StorageError> {
        let reply = self.write(Op::Delete { key: key.into(), expected }).await?;
        match reply.previous {
            Some(previous) => Ok(Deleted { revision: reply.revision, previous }),
            None => Err(StorageError::NotFound { key: key.to_owned() }),
        }
    }

    async fn watch(&self, prefix: &str, from: u64) -> Result<Box<dyn Watch>, StorageError> {
        let subscriber = self.shared.history.subscribe(prefix);
        let oldest = self.shared.oldest()?;
        if from < oldest {
            return Err(StorageError::Compacted { requested: from, oldest });
        }
        let catching_up = from < self.shared.history.start();
        Ok(Box::new(EmbeddedWatch {
            shared: Arc::clone(&self.shared),
            subscriber,
            prefix: prefix.into(),
            cursor: from,
            catching_up,
        }))
    }

    async fn revision(&self) -> Result<u64, StorageError> {
        Ok(self.shared.history.revision())
    }

    async fn oldest(&self) -> Result<u64, StorageError> {
        self.shared.oldest()
    }

    async fn progress(&self, prefix: &str) -> Result<Progress, StorageError> {
        Ok(self.shared.history.progress(prefix))
    }

    async fn compact(&self, revision: u64) -> Result<(), StorageError> {
        self.write(Op::Compact { revision }).await.map(drop)
    }
}

#[derive(Debug)]
struct EmbeddedWatch {
    shared: Arc<Shared>,
    subscriber: Arc<Subscriber>,
    prefix: Arc<str>,
    cursor: u64,
    /// The next events are in the file, not in memory.
    catching_up: bool,
}

#[async_trait]
impl Watch for EmbeddedWatch {
    async fn next(&mut self) -> Result<Batch, StorageError> {
        loop {
            if self.catching_up {
                let (prefix, cursor) = (Arc::clone(&self.prefix), self.cursor);
                let batch = blocking(&self.shared, move |shared| shared.events(&prefix, cursor)).await?;
                self.cursor = batch.revision;
                self.catching_up = batch.revision < self.shared.history.start();
                // When it has caught up it says so: progress may be waited for.
                if !batch.events.is_empty() || !self.catching_up {
                    return Ok(batch);
                }
                continue;
            }
            let mut woken = std::pin::pin!(self.subscriber.woken());
            woken.as_mut().enable();
            match self.shared.history.step(&self.subscriber, self.cursor)? {
                Step::Events(batch) => {
                    self.cursor = batch.revision;
                    return Ok(batch);
                }
                Step::Idle(revision) => self.cursor = revision,
                Step::Behind => {
                    self.catching_up = true;
                    continue;
                }
            }
            woken.await;
        }
    }
}

#[cfg(test)]
mod tests;
