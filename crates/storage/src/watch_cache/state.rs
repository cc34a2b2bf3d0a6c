//! What the cache knows: the objects, their history, and who waits for what.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::Duration;

use imbl::OrdMap;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

use super::event::Change;
use super::{At, CacheError, CacheLimits, CachedList, Entry, EntryFormat, Selector};
use crate::{Event, KeyValue, ListOptions, Storage, Watch};

/// How long a reader waits for a revision that the cache has not seen yet.
const FRESH_TIMEOUT: Duration = Duration::from_secs(3);
/// Objects that are read from the storage at once.
const PAGE: usize = 500;

/// Objects by key; cloning takes a snapshot.
pub(super) type Entries = OrdMap<Arc<str>, Arc<Entry>>;

pub(super) struct Inner {
    pub(super) format: Arc<EntryFormat>,
    storage: Arc<dyn Storage>,
    limits: CacheLimits,
    state: RwLock<State>,
    /// The revision that the cache shows.
    applied: watch::Sender<u64>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("prefix", &self.format.prefix).finish_non_exhaustive()
    }
}

struct State {
    revision: u64,
    entries: Entries,
    /// Changes after `start`, all of them, oldest first.
    history: VecDeque<Arc<Change>>,
    start: u64,
    bytes: usize,
    scopes: HashMap<Scope, Weak<ScopeState>>,
    /// Counts how often the cache was filled; a watcher of an earlier filling ends.
    filling: u64,
    closed: bool,
}

/// Which events can concern a watcher at all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    All,
    Namespace(String),
    Object(String, String),
}

#[derive(Debug, Default)]
pub(super) struct ScopeState {
    wake: Notify,
    /// Revisions of the last event of the scope, and of the last that has left the history.
    seen: parking_lot::Mutex<(u64, u64)>,
}

impl ScopeState {
    pub(super) fn woken(&self) -> tokio::sync::futures::Notified<'_> {
        self.wake.notified()
    }
}

pub(super) enum Step {
    Changes(Vec<Arc<Change>>, u64),
    Idle(u64),
}

impl Inner {
    pub(super) fn new(storage: Arc<dyn Storage>, format: EntryFormat, limits: CacheLimits) -> Self {
        Self {
            format: Arc::new(format),
            storage,
            limits,
            state: RwLock::new(State {
                revision: 0,
                entries: OrdMap::new(),
                history: VecDeque::new(),
                start: 0,
                bytes: 0,
                scopes: HashMap::new(),
                filling: 0,
                closed: false,
            }),
            applied: watch::Sender::new(0),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.state.read().entries.get(key).cloned()
    }

    /// The objects of this moment and its revision.
    pub(super) fn now(&self) -> (Entries, u64) {
        let state = self.state.read();
        (state.entries.clone(), state.revision)
    }

    /// Ends all watchers.
    pub(super) fn close(&self) {
        let mut state = self.state.write();
        state.closed = true;
        for scope in state.scopes.values().filter_map(Weak::upgrade) {
            scope.wake.notify_waiters();
        }
    }

    /// Reads everything; watchers of the state before end.
    pub(super) async fn fill(&self) -> Result<Box<dyn Watch>, CacheError> {
        let prefix = &self.format.prefix;
        let mut entries = OrdMap::new();
        let mut options = ListOptions { limit: PAGE, ..ListOptions::default() };
        let mut last: Arc<str>;
        let revision = loop {
            let page = self.storage.list(prefix, options).await?;
            for item in &page.items {
                let entry = self.read(&item.key, item.revision, &item.value);
                entries.insert(Arc::clone(&item.key), entry);
            }
            match page.items.last() {
                Some(item) if page.remaining > 0 => last = Arc::clone(&item.key),
                _ => break page.revision,
            }
            options = ListOptions { revision: Some(page.revision), after: Some(&last), limit: PAGE };
        };
        let stream = self.storage.watch(prefix, revision).await?;
        let mut state = self.state.write();
        state.revision = revision;
        state.entries = entries;
        state.history.clear();
        state.start = revision;
        state.bytes = 0;
        state.filling += 1;
        for scope in state.scopes.drain().filter_map(|(_, scope)| scope.upgrade()) {
            scope.wake.notify_waiters();
        }
        drop(state);
        self.applied.send_replace(revision);
        Ok(stream)
    }

    fn read(&self, key: &Arc<str>, revision: u64, value: &bytes::Bytes) -> Arc<Entry> {
        let entry = Entry::read(&self.format, key, revision, value);
        if let Some(fault) = entry.fault() {
            tracing::warn!(key = %entry.key(), revision, fault, "an object in the storage cannot be read");
        }
        Arc::new(entry)
    }

    pub(super) fn apply(&self, events: &[Arc<Event>], revision: u64) {
        let read = |event: &Arc<Event>| {
            let value = event.value.as_ref()?;
            Some(self.read(&event.key, event.revision, value))
        };
        let read: Vec<_> = events.iter().map(|event| (event, read(event))).collect();
        let mut guard = self.state.write();
        let state = &mut *guard;
        state.scopes.retain(|_, scope| scope.strong_count() > 0);
        let mut wake = HashSet::new();
        for (event, current) in read {
            let previous = match &current {
                Some(entry) => state.entries.insert(Arc::clone(&event.key), Arc::clone(entry)),
                None => state.entries.remove(&event.key),
            };
            let change = Arc::new(Change::new(event.revision, current, previous));
            for scope in scopes_of(&change) {
                if let Some(concerned) = state.scopes.get(&scope).and_then(Weak::upgrade) {
                    concerned.seen.lock().0 = event.revision;
                    wake.insert(scope);
                }
            }
            state.bytes += change.weight();
            state.history.push_back(change);
        }
        state.revision = state.revision.max(revision);
        while state.history.len() > self.limits.events.max(1)
            || (state.bytes > self.limits.bytes && state.history.len() > 1)
        {
            let Some(change) = state.history.pop_front() else { break };
            state.bytes = state.bytes.saturating_sub(change.weight());
            state.start = change.revision;
            for scope in scopes_of(&change) {
                if let Some(concerned) = state.scopes.get(&scope).and_then(Weak::upgrade) {
                    concerned.seen.lock().1 = change.revision;
                }
            }
        }
        let revision = state.revision;
        let woken: Vec<_> = wake.iter().filter_map(|scope| state.scopes.get(scope)?.upgrade()).collect();
        drop(guard);
        self.applied.send_replace(revision);
        for scope in woken {
            scope.wake.notify_waiters();
        }
    }

    /// Waits until the cache can show what is asked for.
    pub(super) async fn reach(&self, at: At) -> Result<(), CacheError> {
        match at {
            At::Any => Ok(()),
            At::Latest => self.catch_up().await,
            At::NotOlderThan(revision) | At::Exact(revision) => {
                if self.state.read().revision >= revision {
                    return Ok(());
                }
                self.catch_up().await?;
                match self.wait(revision).await {
                    true => Ok(()),
                    false => {
                        Err(CacheError::TooLarge { requested: revision, current: self.state.read().revision })
                    }
                }
            }
        }
    }

    /// Makes the cache show every write that was acknowledged before.
    pub(super) async fn catch_up(&self) -> Result<(), CacheError> {
        let progress = self.storage.progress(&self.format.prefix).await?;
        if !self.wait(progress.delivered).await {
            return Err(CacheError::Behind);
        }
        let mut state = self.state.write();
        if state.revision < progress.revision {
            // Nothing of the resource was written in between.
            state.revision = progress.revision;
            drop(state);
            self.applied.send_if_modified(|applied| {
                let newer = *applied < progress.revision;
                *applied = progress.revision.max(*applied);
                newer
            });
        }
        Ok(())
    }

    async fn wait(&self, revision: u64) -> bool {
        let mut applied = self.applied.subscribe();
        let reached = applied.wait_for(|applied| *applied >= revision);
        matches!(tokio::time::timeout(FRESH_TIMEOUT, reached).await, Ok(Ok(_)))
    }

    /// The objects as they were at a revision that the cache has reached.
    pub(super) async fn snapshot(&self, revision: u64) -> Result<Entries, CacheError> {
        {
            let state = self.state.read();
            if revision >= state.start {
                let mut entries = state.entries.clone();
                for change in state.history.iter().rev().take_while(|change| change.revision > revision) {
                    match (&change.previous, change.subject()) {
                        (Some(previous), _) => {
                            entries.insert(Arc::clone(previous.key()), Arc::clone(previous));
                        }
                        (None, Some(subject)) => {
                            entries.remove(subject.key());
                        }
                        (None, None) => {}
                    }
                }
                return Ok(entries);
            }
        }
        let options = ListOptions { revision: Some(revision), ..ListOptions::default() };
        let list = self.storage.list(&self.format.prefix, options).await?;
        let read = |item: KeyValue| {
            let entry = Entry::read(&self.format, &item.key, item.revision, &item.value);
            (item.key, Arc::new(entry))
        };
        Ok(list.items.into_iter().map(read).collect())
    }

    pub(super) fn select(
        &self,
        entries: &Entries,
        revision: u64,
        selector: &Selector,
        limit: usize,
        after: Option<&str>,
    ) -> CachedList {
        let mut list = CachedList { entries: Vec::new(), revision, more_after: None, remaining: None };
        let resource = &self.format.prefix;
        let prefix = match &selector.namespace {
            Some(namespace) => format!("{resource}{namespace}/"),
            None => resource.clone(),
        };
        if let (true, Some(name)) =
            (selector.namespace.is_some() == self.format.namespaced, selector.fields.exact("metadata.name"))
        {
            // One object: no need to look at the others.
            let found = entries.get(&*format!("{prefix}{name}")).filter(|entry| selector.matches(entry));
            list.entries.extend(found.cloned());
            return list;
        }
        let after = after.map(|after| format!("{resource}{after}"));
        let start = match &after {
            Some(after) if *after >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix.as_str()),
        };
        let mut range = entries
            .range::<_, str>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(&prefix));
        for (_, entry) in range.by_ref() {
            if !selector.matches(entry) {
                continue;
            }
            if limit > 0 && list.entries.len() == limit {
                let last = list.entries.last().map(|last| last.key());
                list.more_after = last.and_then(|key| key.strip_prefix(resource.as_str())).map(str::to_owned);
                if !selector.filters() {
                    list.remaining = Some(1 + range.count() as u64);
                }
                break;
            }
            list.entries.push(Arc::clone(entry));
        }
        list
    }

    /// Registers interest in the events of a scope, and says which filling of the cache it is about.
    pub(super) fn subscribe(&self, scope: Scope) -> (Arc<ScopeState>, u64) {
        let mut state = self.state.write();
        if let Some(found) = state.scopes.get(&scope).and_then(Weak::upgrade) {
            return (found, state.filling);
        }
        let made = Arc::new(ScopeState::default());
        *made.seen.lock() = (state.revision, state.start);
        state.scopes.insert(scope, Arc::downgrade(&made));
        (made, state.filling)
    }

    /// All objects at once, with their revision.
    pub(super) fn all(&self, selector: &Selector) -> CachedList {
        let (entries, revision) = self.now();
        self.select(&entries, revision, selector, 0, None)
    }

    pub(super) fn revision(&self) -> u64 {
        self.state.read().revision
    }

    pub(super) fn oldest(&self) -> u64 {
        self.state.read().start
    }

    /// Looks for changes after `cursor`.
    pub(super) fn step(
        &self,
        scope: &ScopeState,
        filling: u64,
        cursor: u64,
        limit: usize,
    ) -> Result<Step, CacheError> {
        let state = self.state.read();
        if state.closed || state.filling != filling {
            return Err(CacheError::Ended);
        }
        let (last, evicted) = *scope.seen.lock();
        if evicted > cursor {
            return Err(CacheError::TooOld { requested: cursor, oldest: state.start });
        }
        if last <= cursor {
            return Ok(Step::Idle(state.revision.max(cursor)));
        }
        let from = state.history.partition_point(|change| change.revision <= cursor);
        let changes: Vec<_> = state.history.range(from..).take(limit).cloned().collect();
        let reached = match changes.last() {
            Some(change) if changes.len() == limit => change.revision,
            _ => state.revision,
        };
        Ok(Step::Changes(changes, reached))
    }
}

fn scopes_of(change: &Change) -> impl Iterator<Item = Scope> {
    let subject = change.subject().cloned();
    let namespace = subject.as_ref().map(|entry| Scope::Namespace(entry.namespace().to_owned()));
    let object =
        subject.as_ref().map(|entry| Scope::Object(entry.namespace().to_owned(), entry.name().to_owned()));
    [Some(Scope::All), namespace, object].into_iter().flatten()
}
