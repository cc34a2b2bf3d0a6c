//! The one thread that writes.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, Table};
use tokio::sync::{mpsc, oneshot};

use super::record::Record;
use super::{Device, INDEX, LOG, META, SCHEMA, Shared, error, read};
use crate::{Event, EventKind, HistoryLimits, KeyValue, StorageError};

/// Writes that share a commit at most, and bytes after which no more are taken into it.
const GROUP: usize = 1024;
const GROUP_BYTES: usize = 16 << 20;
/// Room that has to be free besides what is written. A write that fails half way closes the file until it
/// can be repaired, which takes room; one that is refused before costs nothing.
const RESERVE: u64 = 4 << 20;

#[derive(Debug)]
pub(super) enum Op {
    Create { key: Arc<str>, value: Bytes },
    Update { key: Arc<str>, expected: u64, value: Bytes },
    Delete { key: Arc<str>, expected: u64 },
    Compact { revision: u64 },
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) op: Op,
    pub(super) reply: oneshot::Sender<Result<Reply, StorageError>>,
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) revision: u64,
    pub(super) previous: Option<KeyValue>,
}

/// What the writer knows about the file.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) schema: u64,
    pub(super) revision: u64,
    compacted: u64,
    /// Sizes of the records after `compacted`.
    sizes: VecDeque<usize>,
    bytes: usize,
}

/// Makes the tables of a new file and reads the state of an old one.
pub(super) fn prepare(database: &Database) -> Result<State, redb::Error> {
    if database.begin_read()?.list_tables()?.next().is_none() {
        let transaction = database.begin_write()?;
        {
            transaction.open_table(LOG)?;
            transaction.open_table(INDEX)?;
            transaction.open_table(META)?.insert("schema", SCHEMA)?;
        }
        transaction.commit()?;
    }
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let number = |name| -> Result<u64, redb::Error> { Ok(meta.get(name)?.map_or(0, |v| v.value())) };
    let (schema, revision, compacted) = (number("schema")?, number("revision")?, number("compacted")?);
    let mut sizes = VecDeque::new();
    if schema == SCHEMA {
        for entry in transaction.open_table(LOG)?.range(compacted + 1..)? {
            sizes.push_back(entry?.1.value().len());
        }
    }
    let bytes = sizes.iter().sum();
    Ok(State { schema, revision, compacted, sizes, bytes })
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    limits: HistoryLimits,
    device: Device,
    state: State,
}

type Answers = Vec<(oneshot::Sender<Result<Reply, StorageError>>, Result<Reply, StorageError>)>;

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, limits: HistoryLimits, device: Device, state: State) -> Self {
        Self { shared, limits, device, state }
    }

    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Request>) {
        while let Some(first) = queue.blocking_recv() {
            let mut bytes = first.op.size();
            let mut group = vec![first];
            // While the last commit was being written, others queued: they share the next one.
            while group.len() < GROUP
                && bytes < GROUP_BYTES
                && let Ok(next) = queue.try_recv()
            {
                bytes += next.op.size();
                group.push(next);
            }
            self.commit(group);
        }
    }

    fn commit(&mut self, group: Vec<Request>) {
        let (ops, replies): (Vec<_>, Vec<_>) =
            group.into_iter().map(|request| (request.op, request.reply)).unzip();
        if let Err(error) = self.reopen_if_needed() {
            return refuse(replies, &error);
        }
        // Deletions and compactions are let through: they are how room is made.
        let size: usize = ops.iter().map(Op::size).sum();
        let needed = RESERVE + 4 * size as u64;
        if size > 0 && (self.device.free)().is_ok_and(|free| free < needed) {
            let path = self.shared.path.display().to_string();
            return refuse(replies, &StorageError::Full { path });
        }
        let mut state = self.state.clone_for_commit();
        let mut events = Vec::new();
        let result = {
            let database = self.shared.database.read();
            match database.as_ref() {
                Some(database) => apply(database, &mut state, &self.limits, &ops, &mut events),
                None => Err(redb::Error::DatabaseClosed),
            }
        };
        match result {
            Ok(results) => {
                self.state.finish(state);
                self.shared.history.push(events);
                let answers: Answers = replies.into_iter().zip(results).collect();
                for (reply, result) in answers {
                    // Nobody waits any more: the write stands all the same.
                    let _ = reply.send(result);
                }
            }
            Err(error) => {
                let error = error::failed(&self.shared.path, error);
                // The library refuses to go on after a failed write; opening again finds the last commit.
                *self.shared.database.write() = None;
                let landed = self.reopen_if_needed().is_ok() && self.state.revision == state.revision;
                if landed && !events.is_empty() {
                    self.shared.history.push(events);
                }
                refuse(replies, &error);
            }
        }
    }

    fn reopen_if_needed(&mut self) -> Result<(), StorageError> {
        let mut database = self.shared.database.write();
        if database.is_some() {
            return Ok(());
        }
        let path = &self.shared.path;
        let unavailable = |source: Arc<dyn std::error::Error + Send + Sync>| StorageError::Unavailable {
            reason: format!("{} could not be opened again after a failed write", path.display()),
            source: Some(source),
        };
        let opened = error::open(path, &self.device).map_err(|source| unavailable(Arc::new(source)))?;
        self.state = prepare(&opened).map_err(|source| unavailable(Arc::new(source)))?;
        *database = Some(opened);
        Ok(())
    }
}

fn refuse(replies: Vec<oneshot::Sender<Result<Reply, StorageError>>>, error: &StorageError) {
    for reply in replies {
        let _ = reply.send(Err(error.clone()));
    }
}

impl Op {
    fn size(&self) -> usize {
        match self {
            Self::Create { value, .. } | Self::Update { value, .. } => value.len(),
            Self::Delete { .. } | Self::Compact { .. } => 0,
        }
    }
}

impl State {
    /// The state that a commit changes; the sizes are only added to or dropped, so they are not copied.
    fn clone_for_commit(&self) -> Self {
        Self {
            schema: self.schema,
            revision: self.revision,
            compacted: self.compacted,
            sizes: VecDeque::new(),
            bytes: self.bytes,
        }
    }

    fn finish(&mut self, committed: Self) {
        self.sizes.extend(committed.sizes);
        let kept = usize::try_from(committed.revision - committed.compacted).unwrap_or(usize::MAX);
        self.sizes.drain(..self.sizes.len().saturating_sub(kept));
        self.bytes = self.sizes.iter().sum();
        self.revision = committed.revision;
        self.compacted = committed.compacted;
    }
}

type Log<'a> = Table<'a, u64, &'static [u8]>;

fn apply(
    database: &Database,
    state: &mut State,
    limits: &HistoryLimits,
    ops: &[Op],
    events: &mut Vec<Arc<Event>>,
) -> Result<Vec<Result<Reply, StorageError>>, redb::Error> {
    let transaction = database.begin_write()?;
    let mut results = Vec::with_capacity(ops.len());
    let before = (state.revision, state.compacted);
    {
        let mut log = transaction.open_table(LOG)?;
        let mut index = transaction.open_table(INDEX)?;
        for op in ops {
            let result = match op {
                Op::Compact { revision } if *revision > state.revision => {
                    Err(StorageError::FutureRevision { requested: *revision, current: state.revision })
                }
                Op::Compact { revision } => {
                    while state.compacted < *revision {
                        compact_one(&mut log, state)?;
                    }
                    Ok(Reply { revision: state.revision, previous: None })
                }
                Op::Create { key, value } => match current(&log, &index, key)? {
                    Some(current) => Err(StorageError::AlreadyExists { current }),
                    None => {
                        let record = Record {
                            kind: EventKind::Created,
                            replaces: 0,
                            key: Arc::clone(key),
                            value: value.clone(),
                        };
                        Ok(append(&mut log, &mut index, state, events, record, None)?)
                    }
                },
                Op::Update { key, expected, .. } | Op::Delete { key, expected } => {
                    match current(&log, &index, key)? {
                        None => Err(StorageError::NotFound { key: key.to_string() }),
                        Some(current) if current.revision != *expected => {
                            Err(StorageError::Conflict { expected: *expected, current })
                        }
                        Some(current) => {
                            let (kind, value) = match op {
                                Op::Update { value, .. } => (EventKind::Updated, value.clone()),
                                Op::Create { .. } | Op::Delete { .. } | Op::Compact { .. } => {
                                    (EventKind::Deleted, Bytes::new())
                                }
                            };
                            let record = Record { kind, replaces: *expected, key: Arc::clone(key), value };
                            Ok(append(&mut log, &mut index, state, events, record, Some(current))?)
                        }
                    }
                }
            };
            results.push(result);
        }
        while state.revision - state.compacted > limits.events.max(1) as u64
            || (state.bytes > limits.bytes && state.revision - state.compacted > 1)
        {
            compact_one(&mut log, state)?;
        }
        let mut meta = transaction.open_table(META)?;
        meta.insert("revision", state.revision)?;
        meta.insert("compacted", state.compacted)?;
    }
    if before == (state.revision, state.compacted) {
        transaction.abort()?;
    } else {
        transaction.commit()?;
    }
    Ok(results)
}

fn current(
    log: &Log<'_>,
    index: &Table<'_, &'static str, u64>,
    key: &str,
) -> Result<Option<KeyValue>, redb::Error> {
    let Some(revision) = index.get(key)?.map(|found| found.value()) else { return Ok(None) };
    let record = decode(log, revision)?;
    Ok(Some(KeyValue { key: record.key, value: record.value, revision }))
}

fn decode(log: &Log<'_>, revision: u64) -> Result<Record, redb::Error> {
    log.get(revision)?
        .and_then(|bytes| Record::decode(bytes.value()))
        .ok_or_else(|| redb::Error::Corrupted(format!("no record of revision {revision}")))
}

fn append(
    log: &mut Log<'_>,
    index: &mut Table<'_, &'static str, u64>,
    state: &mut State,
    events: &mut Vec<Arc<Event>>,
    record: Record,
    previous: Option<KeyValue>,
) -> Result<Reply, redb::Error> {
    let revision = state.revision + 1;
    let bytes = record.encode();
    log.insert(revision, bytes.as_slice())?;
    if record.kind == EventKind::Deleted {
        index.remove(&*record.key)?;
    } else {
        index.insert(&*record.key, revision)?;
    }
    state.revision = revision;
    state.sizes.push_back(bytes.len());
    state.bytes += bytes.len();
    events.push(Arc::new(read::event(record, revision, previous.clone())));
    Ok(Reply { revision, previous })
}

/// Moves the start of the history by one record and removes what that record replaced.
fn compact_one(log: &mut Log<'_>, state: &mut State) -> Result<(), redb::Error> {
    let revision = state.compacted + 1;
    let record = decode(log, revision)?;
    if record.replaces != 0 {
        log.remove(record.replaces)?;
    }
    if record.kind == EventKind::Deleted {
        log.remove(revision)?;
    }
    state.bytes = state.bytes.saturating_sub(record.size());
    state.compacted = revision;
    Ok(())
}
