//! Reads of the file, each in one snapshot of it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use redb::{ReadOnlyTable, ReadTransaction, ReadableDatabase};

use super::record::Record;
use super::{INDEX, LOG, META, Shared, error};
use crate::{Batch, Event, EventKind, KeyValue, List, ListOptions, Read, StorageError};

/// How many events a watch that reads the file gets at once, and how many records are read for them.
const BATCH: usize = 512;
const SCAN: u64 = 4096;

struct Snapshot {
    log: ReadOnlyTable<u64, &'static [u8]>,
    transaction: ReadTransaction,
    revision: u64,
    compacted: u64,
}

impl Shared {
    fn snapshot(&self) -> Result<Snapshot, StorageError> {
        let database = self.database.read();
        let database = database.as_ref().ok_or_else(|| error::closed(&self.path))?;
        Snapshot::new(database).map_err(|source| error::failed(&self.path, source))
    }

    fn read<T>(&self, read: impl FnOnce(&Snapshot) -> Result<T, Failure>) -> Result<T, StorageError> {
        read(&self.snapshot()?).map_err(|failure| match failure {
            Failure::Redb(source) => error::failed(&self.path, source),
            Failure::Storage(error) => error,
        })
    }

    pub(super) fn oldest(&self) -> Result<u64, StorageError> {
        Ok(self.snapshot()?.compacted)
    }

    pub(super) fn get(&self, key: &str) -> Result<Read, StorageError> {
        self.read(|snapshot| {
            let index = snapshot.transaction.open_table(INDEX)?;
            let found = match index.get(key)? {
                Some(revision) => Some(snapshot.value(revision.value())?),
                None => None,
            };
            Ok(Read { found, revision: snapshot.revision })
        })
    }

    pub(super) fn list(&self, prefix: &str, options: ListOptions<'_>) -> Result<List, StorageError> {
        self.read(|snapshot| {
            let current = snapshot.revision;
            let revision = options.revision.unwrap_or(current);
            if revision > current {
                return Err(StorageError::FutureRevision { requested: revision, current }.into());
            }
            let before = snapshot.before(prefix, revision)?;
            let start = match options.after {
                Some(after) if after >= prefix => Bound::Excluded(after),
                _ => Bound::Included(prefix),
            };
            let mut changed =
                before.range::<str, _>((start, Bound::Unbounded)).filter(|(_, at)| **at != 0).peekable();
            let mut list = List { items: Vec::new(), revision, remaining: 0 };
            let take = |list: &mut List, at: u64| -> Result<(), Failure> {
                if options.limit == 0 || list.items.len() < options.limit {
                    list.items.push(snapshot.value(at)?);
                } else {
                    list.remaining += 1;
                }
                Ok(())
            };
            let index = snapshot.transaction.open_table(INDEX)?;
            for entry in index.range::<&str>((start, Bound::Unbounded))? {
                let (key, at) = entry?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                while let Some((_, at)) = changed.next_if(|(changed, _)| &***changed < key.value()) {
                    take(&mut list, *at)?;
                }
                if !before.contains_key(key.value()) {
                    take(&mut list, at.value())?;
                }
            }
            for (_, at) in changed {
                take(&mut list, *at)?;
            }
            Ok(list)
        })
    }

    /// The events of the prefix after `cursor`, a bounded number of them; the batch may be empty.
    pub(super) fn events(&self, prefix: &str, cursor: u64) -> Result<Batch, StorageError> {
        self.read(|snapshot| {
            if cursor < snapshot.compacted {
                let oldest = snapshot.compacted;
                return Err(StorageError::Compacted { requested: cursor, oldest }.into());
            }
            let end = snapshot.revision.min(cursor.saturating_add(SCAN)).max(cursor);
            let mut batch = Batch { events: Vec::new(), revision: end };
            for revision in cursor + 1..=end {
                let record = snapshot.record(revision)?;
                if !record.key.starts_with(prefix) {
                    continue;
                }
                let previous = match record.replaces {
                    0 => None,
                    replaced => Some(snapshot.value(replaced)?),
                };
                batch.events.push(Arc::new(event(record, revision, previous)));
                if batch.events.len() == BATCH {
                    batch.revision = revision;
                    break;
                }
            }
            Ok(batch)
        })
    }
}

pub(super) fn event(record: Record, revision: u64, previous: Option<KeyValue>) -> Event {
    let value = (record.kind != EventKind::Deleted).then_some(record.value);
    Event { kind: record.kind, key: record.key, revision, value, previous }
}

enum Failure {
    Redb(redb::Error),
    Storage(StorageError),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl Snapshot {
    fn new(database: &redb::Database) -> Result<Self, redb::Error> {
        let transaction = database.begin_read()?;
        let meta = transaction.open_table(META)?;
        let number = |name| -> Result<u64, redb::Error> { Ok(meta.get(name)?.map_or(0, |v| v.value())) };
        let (revision, compacted) = (number("revision")?, number("compacted")?);
        Ok(Self { log: transaction.open_table(LOG)?, transaction, revision, compacted })
    }

    fn record(&self, revision: u64) -> Result<Record, redb::Error> {
        let bytes = self.log.get(revision)?;
        bytes
            .and_then(|bytes| Record::decode(bytes.value()))
            .ok_or_else(|| redb::Error::Corrupted(format!("no record of revision {revision}")))
    }

    fn value(&self, revision: u64) -> Result<KeyValue, redb::Error> {
        let record = self.record(revision)?;
        Ok(KeyValue { key: record.key, value: record.value, revision })
    }

    /// For each key of the prefix written after `revision`, which record it had then; 0 for none.
    fn before(&self, prefix: &str, revision: u64) -> Result<BTreeMap<Arc<str>, u64>, Failure> {
        if revision < self.compacted {
            return Err(StorageError::Compacted { requested: revision, oldest: self.compacted }.into());
        }
        let mut before = BTreeMap::new();
        for later in revision + 1..=self.revision {
            let record = self.record(later)?;
            if record.key.starts_with(prefix) {
                before.entry(record.key).or_insert(record.replaces);
            }
        }
        Ok(before)
    }
}
