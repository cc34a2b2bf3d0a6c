//! One watch of the cache.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::state::{Inner, Scope, ScopeState, Step};
use super::{At, CacheError, Delivery, Entry, Selector};

/// Events that a watcher gets at once at most.
const BATCH: usize = 256;

/// Where a watch starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    pub from: From,
    /// How often a watcher without events gets a bookmark; `None` for never.
    pub bookmark_every: Option<Duration>,
}

/// What a watcher gets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The objects there are, as added, in a state as asked; `end_bookmark` marks their end.
    Initial { at: At, end_bookmark: bool },
    /// Only what follows this revision.
    Revision(u64),
    /// Only what follows the present.
    Now,
}

/// A running watch. It ends with an error when the cache cannot serve it any more.
#[derive(Debug)]
pub struct Watcher {
    inner: Arc<Inner>,
    selector: Selector,
    scope: Arc<ScopeState>,
    filling: u64,
    cursor: u64,
    initial: VecDeque<Arc<Entry>>,
    end_bookmark: bool,
    bookmark_every: Option<Duration>,
    next_bookmark: Instant,
}

impl Watcher {
    pub(super) async fn start(
        inner: Arc<Inner>,
        start: Start,
        selector: Selector,
    ) -> Result<Self, CacheError> {
        let name = selector.fields.exact("metadata.name").map(str::to_owned);
        let scope = match (&selector.namespace, name) {
            (Some(namespace), Some(name)) => Scope::Object(namespace.clone(), name),
            (None, Some(name)) if !inner.format.namespaced => Scope::Object(String::new(), name),
            (Some(namespace), None) => Scope::Namespace(namespace.clone()),
            (None, _) => Scope::All,
        };
        match start.from {
            From::Initial { at, .. } => inner.reach(at).await?,
            From::Revision(revision) => {
                inner.catch_up().await?;
                let oldest = inner.oldest();
                // Given out by a store that is gone: the client has to list again.
                if inner.revision() < revision {
                    return Err(CacheError::TooOld { requested: revision, oldest });
                }
            }
            From::Now => inner.reach(At::Latest).await?,
        }
        // First the subscription, then the snapshot: what comes between is in both, and the cursor
        // leaves out what the snapshot has.
        let (scope, filling) = inner.subscribe(scope);
        let mut watcher = Self {
            selector,
            scope,
            filling,
            cursor: 0,
            initial: VecDeque::new(),
            end_bookmark: false,
            bookmark_every: start.bookmark_every,
            next_bookmark: Instant::now(),
            inner,
        };
        match start.from {
            From::Initial { end_bookmark, .. } => {
                let list = watcher.inner.all(&watcher.selector);
                watcher.cursor = list.revision;
                watcher.initial = list.entries.into();
                watcher.end_bookmark = end_bookmark;
            }
            From::Revision(revision) => {
                let oldest = watcher.inner.oldest();
                if revision < oldest {
                    return Err(CacheError::TooOld { requested: revision, oldest });
                }
                watcher.cursor = revision;
            }
            From::Now => watcher.cursor = watcher.inner.all(&watcher.selector).revision,
        }
        watcher.defer_bookmark();
        Ok(watcher)
    }

    /// Waits for the next events. Cancelling the future loses nothing.
    ///
    /// # Errors
    /// [`CacheError::TooOld`] for a watcher that was too slow, [`CacheError::Ended`] when the cache was
    /// filled anew: the client lists and watches again.
    pub async fn next(&mut self) -> Result<Vec<Delivery>, CacheError> {
        if !self.initial.is_empty() || self.end_bookmark {
            return Ok(self.initial_events());
        }
        loop {
            let scope = Arc::clone(&self.scope);
            let mut woken = std::pin::pin!(scope.woken());
            woken.as_mut().enable();
            match self.inner.step(&self.scope, self.filling, self.cursor, BATCH)? {
                Step::Changes(changes, reached) => {
                    self.cursor = reached;
                    let deliveries: Vec<_> =
                        changes.iter().filter_map(|change| change.seen_by(&self.selector)).collect();
                    if !deliveries.is_empty() {
                        self.defer_bookmark();
                        return Ok(deliveries);
                    }
                    continue;
                }
                Step::Idle(revision) => self.cursor = revision,
            }
            if self.bookmark_every.is_none() {
                woken.await;
                continue;
            }
            tokio::select! {
                () = woken => {}
                () = sleep_until(self.next_bookmark) => {
                    self.defer_bookmark();
                    // A quiet resource: let the bookmark carry the revision of the whole store.
                    if self.inner.catch_up().await.is_ok()
                        && let Step::Idle(revision) =
                            self.inner.step(&self.scope, self.filling, self.cursor, BATCH)?
                    {
                        self.cursor = revision;
                        return Ok(vec![self.bookmark()]);
                    }
                }
            }
        }
    }

    /// A bookmark of what this watcher has got so far: for the end of the watch.
    pub fn bookmark(&self) -> Delivery {
        Delivery::bookmark(Arc::clone(&self.inner.format), self.cursor, false)
    }

    /// Whether all initial events were handed out.
    pub fn is_past_initial_events(&self) -> bool {
        self.initial.is_empty() && !self.end_bookmark
    }

    fn initial_events(&mut self) -> Vec<Delivery> {
        let count = self.initial.len().min(BATCH);
        let mut deliveries: Vec<_> = self.initial.drain(..count).map(Delivery::initial).collect();
        if self.initial.is_empty() && std::mem::take(&mut self.end_bookmark) {
            deliveries.push(Delivery::bookmark(Arc::clone(&self.inner.format), self.cursor, true));
            self.defer_bookmark();
        }
        deliveries
    }

    fn defer_bookmark(&mut self) {
        if let Some(every) = self.bookmark_every {
            self.next_bookmark = Instant::now() + every;
        }
    }
}
