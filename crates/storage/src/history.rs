//! The recent events of a backend that is the only writer of its store, and cursors over them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::{Batch, Event, KeyValue, Progress, StorageError};

/// How many events a watch gets at once at most.
const BATCH: usize = 512;

/// How much history a store keeps for watches and for lists of the past. The newest event is always
/// kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// At most this many events.
    pub events: usize,
    /// At most this many bytes of values.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { events: 10_000, bytes: 32 << 20 }
    }
}

#[derive(Debug)]
pub(crate) struct History {
    limits: HistoryLimits,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    /// Events after `start`, all of them, oldest first.
    events: VecDeque<Arc<Event>>,
    start: u64,
    revision: u64,
    bytes: usize,
    subscribers: Vec<Weak<Subscriber>>,
    closed: bool,
}

/// All watches of one prefix.
#[derive(Debug)]
pub(crate) struct Subscriber {
    prefix: Box<str>,
    wake: Notify,
    /// Revision of the last event of the prefix.
    last: AtomicU64,
    /// Revision of the last event of the prefix that is not in memory any more.
    evicted: AtomicU64,
}

/// What a cursor found.
pub(crate) enum Step {
    Events(Batch),
    /// Nothing new up to this revision.
    Idle(u64),
    /// The events after the cursor are not in memory any more.
    Behind,
}

impl History {
    pub(crate) fn new(limits: HistoryLimits, revision: u64) -> Self {
        Self {
            limits,
            state: RwLock::new(State {
                events: VecDeque::new(),
                start: revision,
                revision,
                bytes: 0,
                subscribers: Vec::new(),
                closed: false,
            }),
        }
    }

    /// Publishes committed events, which follow the ones before without a gap.
    pub(crate) fn push(&self, events: Vec<Arc<Event>>) {
        let mut state = self.state.write();
        let state = &mut *state;
        state.subscribers.retain(|subscriber| subscriber.strong_count() > 0);
        let subscribers: Vec<_> = state.subscribers.iter().filter_map(Weak::upgrade).collect();
        let mut woken = vec![false; subscribers.len()];
        for event in events {
            for (subscriber, woken) in subscribers.iter().zip(&mut woken) {
                if event.key.starts_with(&*subscriber.prefix) {
                    subscriber.last.store(event.revision, Ordering::Release);
                    *woken = true;
                }
            }
            state.revision = event.revision;
            state.bytes += weight(&event);
            state.events.push_back(event);
        }
        while state.events.len() > self.limits.events.max(1)
            || (state.bytes > self.limits.bytes && state.events.len() > 1)
        {
            state.evict(&subscribers);
        }
        for (subscriber, woken) in subscribers.iter().zip(woken) {
            if woken {
                subscriber.wake.notify_waiters();
            }
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.state.read().revision
    }

    /// The revision after which all events are here.
    pub(crate) fn start(&self) -> u64 {
        self.state.read().start
    }

    pub(crate) fn compact(&self, revision: u64) {
        let mut state = self.state.write();
        let subscribers: Vec<_> = state.subscribers.iter().filter_map(Weak::upgrade).collect();
        while state.events.front().is_some_and(|event| event.revision <= revision) {
            state.evict(&subscribers);
        }
        state.start = state.start.max(revision.min(state.revision));
    }

    /// Ends every watch.
    pub(crate) fn close(&self) {
        let mut state = self.state.write();
        state.closed = true;
        for subscriber in state.subscribers.iter().filter_map(Weak::upgrade) {
            subscriber.wake.notify_waiters();
        }
    }

    pub(crate) fn subscribe(&self, prefix: &str) -> Arc<Subscriber> {
        let mut state = self.state.write();
        if let Some(subscriber) = state
            .subscribers
            .iter()
            .filter_map(Weak::upgrade)
            .find(|subscriber| &*subscriber.prefix == prefix)
        {
            return subscriber;
        }
        let last = state.events.iter().rev().find(|event| event.key.starts_with(prefix));
        let last = last.map_or(state.start, |event| event.revision);
        let subscriber = Arc::new(Subscriber {
            prefix: prefix.into(),
            wake: Notify::new(),
            // Not the revision of now: a watch from before an event of another prefix would be waited for
            // to deliver what it never will.
            last: AtomicU64::new(last),
            evicted: AtomicU64::new(state.start),
        });
        state.subscribers.push(Arc::downgrade(&subscriber));
        subscriber
    }

    pub(crate) fn progress(&self, prefix: &str) -> Progress {
        let state = self.state.read();
        let delivered = state
            .subscribers
            .iter()
            .filter_map(Weak::upgrade)
            .find(|subscriber| &*subscriber.prefix == prefix)
            .map_or(state.revision, |subscriber| subscriber.last.load(Ordering::Acquire));
        Progress { revision: state.revision, delivered }
    }

    /// Looks for events of the subscriber's prefix after `cursor`.
    pub(crate) fn step(&self, subscriber: &Subscriber, cursor: u64) -> Result<Step, StorageError> {
        let state = self.state.read();
        if state.closed {
            return Err(StorageError::closed());
        }
        if subscriber.last.load(Ordering::Acquire) <= cursor {
            return Ok(Step::Idle(state.revision.max(cursor)));
        }
        if subscriber.evicted.load(Ordering::Acquire) > cursor {
            return Ok(Step::Behind);
        }
        let from = state.events.partition_point(|event| event.revision <= cursor);
        let mut events = Vec::new();
        for event in state.events.range(from..) {
            if event.key.starts_with(&*subscriber.prefix) {
                events.push(Arc::clone(event));
                if events.len() == BATCH {
                    let revision = event.revision;
                    return Ok(Step::Events(Batch { events, revision }));
                }
            }
        }
        if events.is_empty() {
            return Ok(Step::Idle(state.revision));
        }
        Ok(Step::Events(Batch { events, revision: state.revision }))
    }

    /// For each key of the prefix written after `revision`, what it was at `revision`.
    pub(crate) fn before(
        &self,
        prefix: &str,
        revision: u64,
    ) -> Result<BTreeMap<Arc<str>, Option<KeyValue>>, StorageError> {
        let state = self.state.read();
        if revision < state.start {
            return Err(StorageError::Compacted { requested: revision, oldest: state.start });
        }
        let from = state.events.partition_point(|event| event.revision <= revision);
        let mut before = BTreeMap::new();
        for event in state.events.range(from..).filter(|event| event.key.starts_with(prefix)) {
            before.entry(Arc::clone(&event.key)).or_insert_with(|| event.previous.clone());
        }
        Ok(before)
    }
}

impl State {
    fn evict(&mut self, subscribers: &[Arc<Subscriber>]) {
        if let Some(event) = self.events.pop_front() {
            for subscriber in subscribers.iter().filter(|s| event.key.starts_with(&*s.prefix)) {
                subscriber.evicted.store(event.revision, Ordering::Release);
            }
            self.bytes = self.bytes.saturating_sub(weight(&event));
            self.start = event.revision;
        }
    }
}

impl Subscriber {
    /// Waits for the next event of the prefix; take it before looking, so that none is missed.
    pub(crate) fn woken(&self) -> tokio::sync::futures::Notified<'_> {
        self.wake.notified()
    }
}

fn weight(event: &Event) -> usize {
    // The previous value is the value of an earlier event or of the store; half of all is shared.
    event.key.len() + event.value.as_ref().map_or(0, bytes::Bytes::len) + 128
}
