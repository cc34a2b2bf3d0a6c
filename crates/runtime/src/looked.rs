//! Which gained shards were looked at.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::OwnedShards;

/// The shards whose objects were listed, all sharded kinds of them, since the shard was gained. Clones share
/// it. Whoever works on a shard's objects waits for this first, so that it acts on what its predecessor
/// left rather than on what an old watch said.
#[derive(Clone)]
pub struct LookedShards {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// The shards that all kinds have looked at.
    looked: watch::Sender<Arc<OwnedShards>>,
}

#[derive(Default)]
struct State {
    /// What each kind has looked at.
    kinds: Vec<OwnedShards>,
    /// No more kinds come.
    is_complete: bool,
}

impl LookedShards {
    /// One in which nothing was looked at, and to which kinds are still added.
    pub(crate) fn new() -> Self {
        let inner = Inner { state: Mutex::default(), looked: watch::channel(Arc::default()).0 };
        Self { inner: Arc::new(inner) }
    }

    /// One in which these shards were looked at, for ever; for tests.
    pub fn of(shards: OwnedShards) -> Self {
        let looked = Self::new();
        let kind = looked.add_kind();
        *looked.inner.state.lock() = State { kinds: vec![shards], is_complete: true };
        looked.change(kind, |_| {});
        looked
    }

    /// Adds a kind that has to look. Answers with its number.
    pub(crate) fn add_kind(&self) -> usize {
        let mut state = self.inner.state.lock();
        state.kinds.push(OwnedShards::new());
        state.kinds.len() - 1
    }

    /// Says that all kinds were added.
    pub(crate) fn complete(&self) {
        self.inner.state.lock().is_complete = true;
        self.change(0, |_| {});
    }

    /// A kind has looked at a shard.
    pub(crate) fn looked(&self, kind: usize, shard: u32, epoch: u64) {
        self.change(kind, |looked| {
            looked.insert(shard, epoch);
        });
    }

    /// What a kind has looked at is only what is owned still.
    pub(crate) fn retain(&self, kind: usize, owned: &OwnedShards) {
        self.change(kind, |looked| looked.retain(|shard, epoch| owned.get(shard) == Some(epoch)));
    }

    /// Whether a kind has looked at a shard.
    pub(crate) fn has_kind_looked(&self, kind: usize, shard: u32, epoch: u64) -> bool {
        self.inner.state.lock().kinds.get(kind).is_some_and(|looked| looked.get(&shard) == Some(&epoch))
    }

    fn change(&self, kind: usize, change: impl FnOnce(&mut OwnedShards)) {
        let mut state = self.inner.state.lock();
        if let Some(looked) = state.kinds.get_mut(kind) {
            change(looked);
        }
        let mut all = match (state.is_complete, state.kinds.first()) {
            (true, Some(first)) => first.clone(),
            _ => BTreeMap::new(),
        };
        all.retain(|shard, epoch| state.kinds.iter().all(|looked| looked.get(shard) == Some(epoch)));
        // Published under the lock, so that two changes are told in their order.
        self.inner.looked.send_if_modified(|published| {
            let is_news = **published != all;
            if is_news {
                *published = Arc::new(all);
            }
            is_news
        });
    }

    /// Whether a shard was looked at since it was gained in this epoch.
    pub fn has_looked(&self, shard: u32, epoch: u64) -> bool {
        self.inner.looked.borrow().get(&shard) == Some(&epoch)
    }

    /// The shards that were looked at, with their epochs.
    pub fn shards(&self) -> Arc<OwnedShards> {
        Arc::clone(&self.inner.looked.borrow())
    }

    /// Tells which shards are ready for work and which were lost.
    pub fn news(&self) -> ShardNewsReader {
        ShardNewsReader { looked: self.inner.looked.subscribe(), known: Arc::default() }
    }
}

impl fmt::Debug for LookedShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookedShards").field("shards", &self.shards()).finish()
    }
}

/// What [`ShardNewsReader::next`] tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardNews {
    /// Shards that are ready for work: all their objects are to be queued.
    pub ready: OwnedShards,
    /// Shards that are not this replica's any more, in the epoch they were held in. A shard that was gained
    /// again stands in both.
    pub lost: OwnedShards,
}

/// Reads changes of [`LookedShards`]. It never falls behind: what happened meanwhile is told in one.
#[derive(Debug)]
pub struct ShardNewsReader {
    looked: watch::Receiver<Arc<OwnedShards>>,
    known: Arc<OwnedShards>,
}

impl ShardNewsReader {
    /// Waits for the next change; the first call tells what is ready already. Nothing when there will be
    /// none, because all that could tell has ended.
    pub async fn next(&mut self) -> Option<ShardNews> {
        loop {
            let now = Arc::clone(&self.looked.borrow_and_update());
            let without = |these: &OwnedShards, those: &OwnedShards| -> OwnedShards {
                let differs = |&(shard, epoch): &(&u32, &u64)| those.get(shard) != Some(epoch);
                these.iter().filter(differs).map(|(shard, epoch)| (*shard, *epoch)).collect()
            };
            let news = ShardNews { ready: without(&now, &self.known), lost: without(&self.known, &now) };
            self.known = now;
            if news != ShardNews::default() {
                return Some(news);
            }
            self.looked.changed().await.ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_shard_is_ready_when_all_kinds_have_looked_in_its_epoch() {
        let looked = LookedShards::new();
        let (releases, clusters) = (looked.add_kind(), looked.add_kind());
        looked.looked(releases, 3, 7);
        looked.looked(clusters, 3, 7);
        assert!(!looked.has_looked(3, 7), "kinds may still be added");
        looked.complete();
        assert!(looked.has_looked(3, 7) && !looked.has_looked(3, 8));
        let mut news = looked.news();
        let one = |shard, epoch| OwnedShards::from([(shard, epoch)]);
        let first = news.next().await.unwrap();
        assert_eq!(first, ShardNews { ready: one(3, 7), lost: OwnedShards::new() });

        // Lost and gained again between two looks.
        looked.retain(releases, &one(3, 8));
        looked.retain(clusters, &one(3, 8));
        looked.looked(releases, 3, 8);
        assert!(!looked.has_looked(3, 8));
        looked.looked(clusters, 3, 8);
        assert_eq!(news.next().await.unwrap(), ShardNews { ready: one(3, 8), lost: one(3, 7) });
    }
}
