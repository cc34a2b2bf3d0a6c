//! Which shards this replica owns, for everything that works or writes.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoy_shard::{Held, Moment, NotOwner, Ownership, WritePermit, shard_of};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::Clock;

/// Acting shards and their epochs.
pub type OwnedShards = BTreeMap<u32, u64>;

/// How long the writes under way of a shard that is handed over may go on.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// Which shards this replica owns. Clones share it. The lease driver keeps it up to date; everything
/// else reads.
#[derive(Clone)]
pub struct Shards {
    inner: Arc<Inner>,
}

struct Inner {
    count: NonZeroU32,
    clock: Arc<dyn Clock>,
    terms: Mutex<BTreeMap<u32, Arc<Term>>>,
    /// Terms that are over, of which writes are under way: work that stands still cannot end them.
    left: Mutex<Vec<Arc<Term>>>,
    owned: watch::Sender<Arc<OwnedShards>>,
    refused: AtomicUsize,
    /// Epochs that others acted in and that are later than ours; the driver takes them.
    epochs_seen: Mutex<BTreeMap<u32, u64>>,
    pub(crate) changed: Notify,
}

/// One term of one shard.
struct Term {
    shard: u32,
    epoch: u64,
    state: Mutex<TermState>,
    /// Told when the state changes or the last write ends.
    changed: Notify,
    writes: AtomicUsize,
}

#[derive(Clone, Copy)]
struct TermState {
    /// Before the last successful renewal was sent; none when the term does not depend on a lease.
    renewed: Option<Moment>,
    write_until: Duration,
    hold_until: Duration,
    /// On the monotonic clock.
    acts_from: Option<Duration>,
    /// On the monotonic clock: since when no new write may start.
    draining_since: Option<Duration>,
    is_over: bool,
}

impl Term {
    fn may_start(&self, now: Moment) -> bool {
        let state = self.state.lock();
        !state.is_over
            && state.draining_since.is_none()
            && state.acts_from.is_none_or(|from| from <= now.monotonic)
            && state.renewed.is_none_or(|renewed| now.longest_since(&renewed) < state.write_until)
    }

    /// When what is under way must end, on the monotonic clock; none when it need not.
    fn must_end(&self, now: Moment) -> Option<Duration> {
        let state = self.state.lock();
        if state.is_over {
            return Some(Duration::ZERO);
        }
        let by_lease = state.renewed.map(|renewed| {
            let left = state.hold_until.saturating_sub(now.longest_since(&renewed));
            now.monotonic + left
        });
        let by_drain = state.draining_since.map(|since| since + DRAIN_GRACE);
        by_lease.into_iter().chain(by_drain).min()
    }
}

/// What the driver knows of one shard.
pub(crate) struct TermUpdate<'a> {
    pub(crate) held: &'a BTreeMap<u32, Held>,
    pub(crate) write_until: Duration,
    pub(crate) hold_until: Duration,
}

impl Shards {
    /// A table in which nothing is owned yet.
    pub fn new(count: NonZeroU32, clock: Arc<dyn Clock>) -> Self {
        let inner = Inner {
            count,
            clock,
            terms: Mutex::default(),
            left: Mutex::default(),
            owned: watch::channel(Arc::default()).0,
            refused: AtomicUsize::new(0),
            epochs_seen: Mutex::default(),
            changed: Notify::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// A table in which everything is owned for ever, in epoch 0: of a process that has no peers and no
    /// leases, such as one in a test.
    pub fn all(count: NonZeroU32, clock: Arc<dyn Clock>) -> Self {
        let shards = Self::new(count, clock);
        let state = TermState {
            renewed: None,
            write_until: Duration::MAX,
            hold_until: Duration::MAX,
            acts_from: None,
            draining_since: None,
            is_over: false,
        };
        let terms = (0..count.get()).map(|shard| (shard, Arc::new(Term::new(shard, 0, state))));
        *shards.inner.terms.lock() = terms.collect();
        shards.publish();
        shards
    }

    /// `--shards`.
    pub fn count(&self) -> NonZeroU32 {
        self.inner.count
    }

    /// The shard of an object by its namespace and name.
    pub fn shard_of(&self, namespace: &str, name: &str) -> u32 {
        shard_of(namespace, name, self.inner.count)
    }

    /// The ownership of a shard, taken when work begins. It ends with the term: work that goes on
    /// later takes a new one.
    ///
    /// # Errors
    /// [`NotOwner`] when the shard is not this replica's now.
    pub fn guard(&self, shard: u32) -> Result<Arc<dyn Ownership>, NotOwner> {
        let term = self.inner.terms.lock().get(&shard).cloned().ok_or(NotOwner { shard })?;
        let guard = Guard { term, inner: Arc::clone(&self.inner) };
        guard.check()?;
        Ok(Arc::new(guard))
    }

    /// Whether a shard is this replica's now.
    pub fn owns(&self, shard: u32) -> bool {
        let term = self.inner.terms.lock().get(&shard).cloned();
        term.is_some_and(|term| term.may_start(self.inner.clock.moment()))
    }

    /// The shards that this replica acts for, with their epochs, as last published.
    pub fn owned(&self) -> Arc<OwnedShards> {
        Arc::clone(&self.inner.owned.borrow())
    }

    /// Tells each change of [`Shards::owned`]. A shard that was lost and gained again between two looks
    /// has another epoch.
    pub fn changes(&self) -> watch::Receiver<Arc<OwnedShards>> {
        self.inner.owned.subscribe()
    }

    /// Says that somebody acted for a shard in a later epoch than ours, as an object's status or a
    /// refused write tells. The shard is given up and acquired anew in a later epoch.
    pub fn saw_epoch(&self, shard: u32, epoch: u64) {
        let mut seen = self.inner.epochs_seen.lock();
        let least = seen.entry(shard).or_default();
        *least = epoch.max(*least);
        drop(seen);
        self.inner.changed.notify_one();
    }

    /// How many writes were refused by guards so far.
    pub fn refused(&self) -> usize {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// For the driver: one of the epochs told by [`Shards::saw_epoch`] that it did not take yet.
    pub(crate) fn take_epoch_seen(&self) -> Option<(u32, u64)> {
        self.inner.epochs_seen.lock().pop_first()
    }

    /// For the driver: waits for [`Shards::saw_epoch`].
    pub(crate) async fn epoch_seen(&self) {
        self.inner.changed.notified().await;
    }

    /// For the driver: makes known what is held.
    pub(crate) fn update(&self, update: &TermUpdate<'_>, now: Moment) {
        let mut terms = self.inner.terms.lock();
        let mut left = self.inner.left.lock();
        terms.retain(|shard, term| {
            let stays = update.held.get(shard).is_some_and(|held| held.epoch == term.epoch);
            if !stays {
                term.change(|state| state.is_over = true);
                left.push(Arc::clone(term));
            }
            stays
        });
        left.retain(|term| term.writes.load(Ordering::Acquire) > 0);
        drop(left);
        for (shard, held) in update.held {
            let term = terms.entry(*shard).or_insert_with(|| {
                let state = TermState {
                    renewed: Some(held.renewed),
                    write_until: update.write_until,
                    hold_until: update.hold_until,
                    acts_from: held.acts_from,
                    draining_since: None,
                    is_over: false,
                };
                Arc::new(Term::new(*shard, held.epoch, state))
            });
            term.change(|state| {
                state.renewed = Some(held.renewed);
                (state.write_until, state.hold_until) = (update.write_until, update.hold_until);
                state.acts_from = held.acts_from;
                state.draining_since =
                    held.is_draining.then(|| state.draining_since.unwrap_or(now.monotonic));
            });
        }
        drop(terms);
        self.publish();
    }

    /// For the driver: waits until no write of the shard is under way in that epoch, nor in one before.
    pub(crate) fn drained(&self, shard: u32, epoch: u64) -> impl Future<Output = ()> + Send + 'static {
        let of_the_shard = |term: &&Arc<Term>| term.shard == shard && term.epoch <= epoch;
        let mut terms: Vec<_> = self.inner.terms.lock().values().filter(of_the_shard).cloned().collect();
        terms.extend(self.inner.left.lock().iter().filter(of_the_shard).cloned());
        async move {
            for term in terms {
                term.drained().await;
            }
        }
    }

    fn publish(&self) {
        let now = self.inner.clock.moment();
        let published = self.owned();
        let owned: OwnedShards = {
            let terms = self.inner.terms.lock();
            let owned = terms.iter().filter(|(_, term)| term.may_start(now));
            let owned = owned.map(|(shard, term)| (*shard, term.epoch));
            // Called at each step of the driver, and nearly always nothing changed.
            if owned.clone().eq(published.iter().map(|(shard, epoch)| (*shard, *epoch))) {
                return;
            }
            owned.collect()
        };
        self.inner.owned.send_if_modified(|published| {
            let is_news = **published != owned;
            if is_news {
                *published = Arc::new(owned);
            }
            is_news
        });
    }
}

impl Term {
    /// Waits until no write is under way.
    async fn drained(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.writes.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }

    fn new(shard: u32, epoch: u64, state: TermState) -> Self {
        Self { shard, epoch, state: Mutex::new(state), changed: Notify::new(), writes: AtomicUsize::new(0) }
    }

    fn change(&self, change: impl FnOnce(&mut TermState)) {
        change(&mut self.state.lock());
        // Also when nothing changed: clocks may have been set, and who waits looks at them anew.
        self.changed.notify_waiters();
    }
}

struct Guard {
    term: Arc<Term>,
    inner: Arc<Inner>,
}

/// Counts a write that is under way.
struct UnderWay(Arc<Term>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.writes.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

impl Ownership for Guard {
    fn shard(&self) -> u32 {
        self.term.shard
    }

    fn epoch(&self) -> u64 {
        self.term.epoch
    }

    fn check(&self) -> Result<(), NotOwner> {
        if self.term.may_start(self.inner.clock.moment()) {
            return Ok(());
        }
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
        Err(NotOwner { shard: self.term.shard })
    }

    fn begin(&self) -> Result<WritePermit, NotOwner> {
        // Counted before the look, so that a drain that begins in between waits for it.
        self.term.writes.fetch_add(1, Ordering::AcqRel);
        let permit = WritePermit::new(UnderWay(Arc::clone(&self.term)));
        self.check()?;
        Ok(permit)
    }

    fn lost<'a>(&'a self) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            loop {
                let changed = self.term.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let now = self.inner.clock.moment();
                match self.term.must_end(now) {
                    None => changed.await,
                    Some(end) if end <= now.monotonic => return,
                    Some(end) => {
                        tokio::select! {
                            biased;
                            () = changed => {}
                            () = self.inner.clock.sleep_until(end) => {}
                        }
                    }
                }
            }
        })
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("shard", &self.term.shard).field("epoch", &self.term.epoch).finish()
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards")
            .field("count", &self.inner.count)
            .field("owned", &*self.inner.owned.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use jiff::Timestamp;

    use super::*;
    use crate::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

    struct World {
        clock: ManualClock,
        shards: Shards,
    }

    impl World {
        fn new() -> Self {
            let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
            let shards = Shards::new(NonZeroU32::new(4).unwrap(), Arc::new(clock.clone()));
            Self { clock, shards }
        }

        /// What the driver does after a step, for a lease of 30 s.
        fn hold(&self, held: impl IntoIterator<Item = (u32, Held)>) {
            let held = held.into_iter().collect();
            let update = TermUpdate { held: &held, write_until: 20 * SECOND, hold_until: 25 * SECOND };
            self.shards.update(&update, self.clock.moment());
        }

        fn held(&self, epoch: u64) -> Held {
            Held::new(epoch, self.clock.moment())
        }
    }

    #[tokio::test]
    async fn i6_without_renewal_writes_stop_by_themselves_and_those_under_way_are_given_up_later() {
        let world = World::new();
        world.hold([(2, world.held(7))]);
        let guard = world.shards.guard(2).unwrap();
        assert_eq!((guard.shard(), guard.epoch()), (2, 7));
        let permit = guard.begin().unwrap();
        world.clock.advance(19 * SECOND);
        guard.check().unwrap();
        world.clock.advance(SECOND);
        assert_eq!(guard.check(), Err(NotOwner { shard: 2 }));
        assert!(guard.begin().is_err() && world.shards.guard(2).is_err() && !world.shards.owns(2));
        assert!(guard.lost().now_or_never().is_none(), "what is under way may still end");
        world.clock.advance(5 * SECOND);
        assert!(guard.lost().now_or_never().is_some());
        drop(permit);
        assert!(world.shards.refused() >= 3);
    }

    #[tokio::test]
    async fn i7_a_shard_that_is_handed_over_counts_the_writes_that_are_under_way() {
        let world = World::new();
        world.hold([(1, world.held(1))]);
        let guard = world.shards.guard(1).unwrap();
        let permit = guard.begin().unwrap();
        world.hold([(1, Held { is_draining: true, ..world.held(1) })]);
        assert!(guard.begin().is_err(), "no new write starts");
        assert!(world.shards.owned().is_empty());
        let drained = world.shards.drained(1, 1);
        tokio::pin!(drained);
        assert!(drained.as_mut().now_or_never().is_none());
        assert!(guard.lost().now_or_never().is_none());
        world.clock.advance(DRAIN_GRACE);
        assert!(guard.lost().now_or_never().is_some(), "the write is given up after the grace");
        drop(permit);
        assert!(drained.now_or_never().is_some());
    }

    #[tokio::test]
    async fn i7_a_write_of_an_earlier_term_that_never_ended_counts_too() {
        let world = World::new();
        world.hold([(1, world.held(1))]);
        let permit = world.shards.guard(1).unwrap().begin().unwrap();
        world.hold([]);
        world.hold([(1, world.held(2))]);
        world.hold([(1, Held { is_draining: true, ..world.held(2) })]);
        let drained = world.shards.drained(1, 2);
        tokio::pin!(drained);
        assert!(drained.as_mut().now_or_never().is_none());
        drop(permit);
        assert!(drained.now_or_never().is_some());
        world.hold([]);
        assert!(world.shards.inner.left.lock().is_empty());
    }

    #[tokio::test]
    async fn work_begun_in_an_old_term_does_not_write_in_the_new_one() {
        let world = World::new();
        world.hold([(3, world.held(4))]);
        let old = world.shards.guard(3).unwrap();
        let mut changes = world.shards.changes();
        world.hold([]);
        assert!(changes.has_changed().unwrap());
        assert_eq!(**changes.borrow_and_update(), OwnedShards::new());
        world.hold([(3, world.held(6))]);
        assert!(old.check().is_err() && old.lost().now_or_never().is_some());
        assert_eq!(world.shards.guard(3).unwrap().epoch(), 6);
        assert_eq!(*world.shards.owned(), OwnedShards::from([(3, 6)]));
    }

    #[test]
    fn a_shard_whose_lease_was_made_anew_is_not_acted_for_before_its_time() {
        let world = World::new();
        let held = Held { acts_from: Some(30 * SECOND), ..world.held(0) };
        world.hold([(0, held.clone())]);
        assert!(world.shards.guard(0).is_err());
        world.clock.advance(30 * SECOND);
        world.hold([(0, Held { renewed: world.clock.moment(), ..held })]);
        assert!(world.shards.guard(0).is_ok());
    }

    #[test]
    fn a_process_without_peers_owns_everything() {
        let world = World::new();
        let shards = Shards::all(NonZeroU32::new(3).unwrap(), Arc::new(world.clock.clone()));
        world.clock.advance(1_000_000 * SECOND);
        assert!((0..3).all(|shard| shards.owns(shard)));
    }
}
