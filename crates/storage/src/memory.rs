//! A store in memory: for tests, sandboxes and benchmarks. It ends with the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;

use crate::history::{History, Step, Subscriber};
use crate::storage::check_size;
use crate::{
    Batch, Deleted, Event, EventKind, HistoryLimits, KeyValue, List, ListOptions, Progress, Read, Storage,
    StorageError, Watch,
};

/// The memory backend.
#[derive(Debug)]
pub struct MemoryStorage {
    objects: RwLock<BTreeMap<Arc<str>, KeyValue>>,
    history: Arc<History>,
}

impl MemoryStorage {
    pub fn new(limits: HistoryLimits) -> Self {
        Self { objects: RwLock::default(), history: Arc::new(History::new(limits, 0)) }
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new(HistoryLimits::default())
    }
}

impl Drop for MemoryStorage {
    fn drop(&mut self) {
        self.history.close();
    }
}

#[async_trait]
impl Storage for MemoryStorage {
    async fn get(&self, key: &str) -> Result<Read, StorageError> {
        let objects = self.objects.read();
        Ok(Read { found: objects.get(key).cloned(), revision: self.history.revision() })
    }

    async fn list(&self, prefix: &str, options: ListOptions<'_>) -> Result<List, StorageError> {
        let objects = self.objects.read();
        let current = self.history.revision();
        let revision = options.revision.unwrap_or(current);
        if revision > current {
            return Err(StorageError::FutureRevision { requested: revision, current });
        }
        let before =
            if revision < current { self.history.before(prefix, revision)? } else { BTreeMap::new() };
        let start = match options.after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let unchanged = objects
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| !before.contains_key(*key))
            .map(|(_, found)| found);
        let changed =
            before.range::<str, _>((start, Bound::Unbounded)).filter_map(|(_, found)| found.as_ref());
        Ok(page(merge(unchanged, changed), options.limit, revision))
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<u64, StorageError> {
        check_size(key, &value)?;
        let mut objects = self.objects.write();
        if let Some(current) = objects.get(key) {
            return Err(StorageError::AlreadyExists { current: current.clone() });
        }
        Ok(self.put(&mut objects, key.into(), value, None))
    }

    async fn update(&self, key: &str, expected: u64, value: Bytes) -> Result<u64, StorageError> {
        check_size(key, &value)?;
        let mut objects = self.objects.write();
        let current = expect(&objects, key, expected)?;
        Ok(self.put(&mut objects, Arc::clone(&current.key), value, Some(current)))
    }

    async fn delete(&self, key: &str, expected: u64) -> Result<Deleted, StorageError> {
        let mut objects = self.objects.write();
        let previous = expect(&objects, key, expected)?;
        objects.remove(key);
        let revision = self.history.revision() + 1;
        self.history.push(vec![Arc::new(Event {
            kind: EventKind::Deleted,
            key: Arc::clone(&previous.key),
            revision,
            value: None,
            previous: Some(previous.clone()),
        })]);
        Ok(Deleted { revision, previous })
    }

    async fn watch(&self, prefix: &str, from: u64) -> Result<Box<dyn Watch>, StorageError> {
        let oldest = self.history.start();
        if from < oldest {
            return Err(StorageError::Compacted { requested: from, oldest });
        }
        let subscriber = self.history.subscribe(prefix);
        Ok(Box::new(MemoryWatch { history: Arc::clone(&self.history), subscriber, cursor: from }))
    }

    async fn revision(&self) -> Result<u64, StorageError> {
        Ok(self.history.revision())
    }

    async fn oldest(&self) -> Result<u64, StorageError> {
        Ok(self.history.start())
    }

    async fn progress(&self, prefix: &str) -> Result<Progress, StorageError> {
        Ok(self.history.progress(prefix))
    }

    async fn compact(&self, revision: u64) -> Result<(), StorageError> {
        let current = self.history.revision();
        if revision > current {
            return Err(StorageError::FutureRevision { requested: revision, current });
        }
        self.history.compact(revision);
        Ok(())
    }
}

impl MemoryStorage {
    fn put(
        &self,
        objects: &mut BTreeMap<Arc<str>, KeyValue>,
        key: Arc<str>,
        value: Bytes,
        previous: Option<KeyValue>,
    ) -> u64 {
        let revision = self.history.revision() + 1;
        objects.insert(Arc::clone(&key), KeyValue { key: Arc::clone(&key), value: value.clone(), revision });
        let kind = if previous.is_some() { EventKind::Updated } else { EventKind::Created };
        self.history.push(vec![Arc::new(Event { kind, key, revision, value: Some(value), previous })]);
        revision
    }
}

fn expect(
    objects: &BTreeMap<Arc<str>, KeyValue>,
    key: &str,
    expected: u64,
) -> Result<KeyValue, StorageError> {
    match objects.get(key) {
        None => Err(StorageError::NotFound { key: key.to_owned() }),
        Some(current) if current.revision != expected => {
            Err(StorageError::Conflict { expected, current: current.clone() })
        }
        Some(current) => Ok(current.clone()),
    }
}

/// Merges two lists that are in key order and have no key in common.
fn merge<'a>(
    left: impl Iterator<Item = &'a KeyValue>,
    right: impl Iterator<Item = &'a KeyValue>,
) -> impl Iterator<Item = &'a KeyValue> {
    let mut left = left.peekable();
    let mut right = right.peekable();
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(a), Some(b)) if b.key < a.key => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    })
}

fn page<'a>(found: impl Iterator<Item = &'a KeyValue>, limit: usize, revision: u64) -> List {
    let mut list = List { items: Vec::new(), revision, remaining: 0 };
    for item in found {
        if limit == 0 || list.items.len() < limit {
            list.items.push(item.clone());
        } else {
            list.remaining += 1;
        }
    }
    list
}

#[derive(Debug)]
struct MemoryWatch {
    history: Arc<History>,
    subscriber: Arc<Subscriber>,
    cursor: u64,
}

#[async_trait]
impl Watch for MemoryWatch {
    async fn next(&mut self) -> Result<Batch, StorageError> {
        loop {
            let mut woken = std::pin::pin!(self.subscriber.woken());
            woken.as_mut().enable();
            match self.history.step(&self.subscriber, self.cursor)? {
                Step::Events(batch) => {
                    self.cursor = batch.revision;
                    return Ok(batch);
                }
                Step::Idle(revision) => self.cursor = revision,
                Step::Behind => {
                    return Err(StorageError::Compacted {
                        requested: self.cursor,
                        oldest: self.history.start(),
                    });
                }
            }
            woken.await;
        }
    }
}
