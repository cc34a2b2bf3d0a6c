//! One replica: the real lease driver, the real table of owned shards, the real queue, and work that
//! writes through the real `convoy_apply::Target`.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use convoy_runtime::leases::{Ended, LeaseApi, LeaseReport, ListFailed, Listed, drive};
use convoy_runtime::{Backoff, Clock, Queue, Shards, Shutdown};
use convoy_shard::{
    Lease, Moment, Note, ProcessKind, Protocol, Settings, Standing, WriteError, WriteOp, Written,
};
use futures::future::{BoxFuture, select};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::hub::Release;
use crate::net::{Answer, Op, Wire};
use crate::time::NodeClock;
use crate::world::{Event, Sim};

/// How often everything is looked at anew.
pub(crate) const RESYNC_SECONDS: u64 = 120;

pub(crate) struct Process {
    pub(crate) wire: Wire,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) shards: Shards,
    pub(crate) stop: Shutdown,
    /// The Releases of owned shards, fed by lists and watches.
    pub(crate) view: Mutex<BTreeMap<u32, Arc<Release>>>,
    pub(crate) inbox: Mutex<Vec<Arc<Release>>>,
    pub(crate) inbox_filled: Notify,
    pub(crate) queue: Mutex<Queue<u32>>,
    pub(crate) queue_changed: Notify,
    pub(crate) standing: Mutex<Standing>,
    /// The shards that are worked for, and their terms: owned, and listed.
    pub(crate) open: Mutex<BTreeMap<u32, u64>>,
    /// By Release and object: when this process first knew, by its monotonic clock, that a request that
    /// creates the object may be under way.
    pub(crate) doubts: Mutex<BTreeMap<(u32, u32), std::time::Duration>>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("pid", &self.wire.pid).finish_non_exhaustive()
    }
}

impl Process {
    pub(crate) fn new(
        sim: &Arc<Sim>,
        pid: u64,
        node: usize,
        clock: Arc<NodeClock>,
        settings: Settings,
    ) -> Arc<Self> {
        let kind = settings.process;
        let backoff =
            Backoff { first: std::time::Duration::from_secs(1), longest: std::time::Duration::from_secs(60) };
        Arc::new(Self {
            wire: Wire { sim: Arc::clone(sim), clock: Arc::clone(&clock), pid, node, kind },
            shards: Shards::new(settings.shards, Arc::clone(&clock) as Arc<dyn Clock>),
            clock,
            settings,
            stop: Shutdown::new(),
            view: Mutex::default(),
            inbox: Mutex::default(),
            inbox_filled: Notify::new(),
            queue: Mutex::new(Queue::new(backoff)),
            queue_changed: Notify::new(),
            standing: Mutex::new(Standing::Joining { message: String::new() }),
            open: Mutex::default(),
            doubts: Mutex::default(),
        })
    }

    pub(crate) fn kind(&self) -> ProcessKind {
        self.settings.process
    }

    pub(crate) fn add(&self, key: u32) {
        self.queue.lock().add(key);
        self.queue_changed.notify_one();
    }

    /// What the process runs. The first is the thread of the lease driver; the others share the threads
    /// of the work.
    pub(crate) fn tasks(self: &Arc<Self>) -> [BoxFuture<'static, ()>; 4] {
        let [a, b, c, d] = [(); 4].map(|()| Arc::clone(self));
        [
            Box::pin(a.keep_leases()),
            Box::pin(b.follow_ownership()),
            Box::pin(c.follow_watch()),
            Box::pin(d.work()),
        ]
    }

    async fn keep_leases(self: Arc<Self>) {
        let api = Leases { wire: self.wire.clone() };
        let mut report = Reporter { process: Arc::clone(&self) };
        let ended =
            drive(&api, self.settings.clone(), &self.shards, &*self.clock, &mut report, &self.stop).await;
        let sim = &self.wire.sim;
        let event = Event::Exited { pid: self.wire.pid, is_twin: matches!(ended, Ended::Twin { .. }) };
        sim.schedule.event_at(sim.now.get(), event);
    }

    /// Work follows ownership: lists and queues what was gained, drops what was lost.
    async fn follow_ownership(self: Arc<Self>) {
        let mut changes = self.shards.changes();
        loop {
            let owned = Arc::clone(&changes.borrow_and_update());
            let known = self.open.lock().clone();
            for (shard, _) in known.iter().filter(|(shard, epoch)| owned.get(shard) != Some(epoch)) {
                self.open.lock().remove(shard);
                self.drop_shard(*shard);
            }
            let known = self.open.lock().clone();
            let gained: Vec<(u32, u64)> =
                owned.iter().filter(|(shard, _)| !known.contains_key(shard)).map(|(a, b)| (*a, *b)).collect();
            let mut has_failed = false;
            for (shard, epoch) in gained {
                if !self.list_shard(shard, true).await {
                    has_failed = true;
                } else if let Some(later) = self.later_epoch(shard, epoch) {
                    self.drop_shard(shard);
                    self.shards.saw_epoch(shard, later);
                } else {
                    self.open.lock().insert(shard, epoch);
                }
            }
            let changed = changes.changed();
            if has_failed {
                let again = self.clock.sleep(std::time::Duration::from_secs(1));
                futures::pin_mut!(changed);
                select(changed, again).await;
            } else if changed.await.is_err() {
                return;
            }
        }
    }

    /// The epoch after this one in which an object of the shard was written, as `convoy-controller-manager`'s `Follower`
    /// looks for it.
    fn later_epoch(&self, shard: u32, epoch: u64) -> Option<u64> {
        let view = self.view.lock();
        let written = view.values().filter_map(|release| release.latest_epoch(self.kind(), shard));
        written.max().filter(|written| *written > epoch)
    }

    fn drop_shard(&self, shard: u32) {
        self.wire.sim.world.lock().unwatch(self.wire.pid, shard);
        let mut view = self.view.lock();
        let mut queue = self.queue.lock();
        view.retain(|key, release| {
            let stays = release.label != Some(shard);
            if !stays {
                queue.remove(key);
            }
            stays
        });
    }

    async fn list_shard(&self, shard: u32, is_gain: bool) -> bool {
        let before: BTreeMap<u32, _> =
            self.view.lock().iter().map(|(key, release)| (*key, release.version)).collect();
        let Answer::Releases(releases) = self.wire.call(Op::ListShard { shard }, None).await else {
            return false;
        };
        {
            // What the watch told meanwhile is newer than the list.
            let mut view = self.view.lock();
            let listed: BTreeMap<u32, Arc<Release>> =
                releases.iter().map(|release| (release.key, Arc::clone(release))).collect();
            view.retain(|key, release| {
                let is_news = before.get(key) != Some(&release.version);
                release.label != Some(shard) || is_news || listed.contains_key(key)
            });
            for (key, release) in listed {
                let is_older = view.get(&key).is_some_and(|known| known.version > release.version);
                if !is_older {
                    view.insert(key, release);
                }
            }
        }
        let is_left_out = is_gain && self.wire.sim.world.lock().leaves_gained_work_out();
        if !is_left_out {
            releases.iter().for_each(|release| self.add(release.key));
        }
        true
    }

    /// Takes in what the watch tells, and lists anew when it broke.
    async fn follow_watch(self: Arc<Self>) {
        loop {
            for release in std::mem::take(&mut *self.inbox.lock()) {
                self.take_in(release);
            }
            let broken = self.wire.sim.world.lock().take_broken_watches(self.wire.pid);
            for shard in broken {
                if !self.list_shard(shard, false).await {
                    self.wire.sim.world.lock().break_watch(self.wire.pid, shard);
                }
            }
            let filled = self.inbox_filled.notified();
            let later = self.clock.sleep(std::time::Duration::from_secs(10));
            futures::pin_mut!(filled);
            select(filled, later).await;
        }
    }

    fn take_in(&self, release: Arc<Release>) {
        let key = release.key;
        let mut view = self.view.lock();
        // What a former watch told late: the list that began the present one was newer.
        if view.get(&key).is_some_and(|known| known.version > release.version) {
            return;
        }
        let is_watched =
            release.label.is_some_and(|label| self.wire.sim.world.lock().is_watched(self.wire.pid, label));
        if !is_watched {
            // The label went to another shard: for this watch the object is deleted.
            view.remove(&key);
            self.queue.lock().remove(&key);
            return;
        }
        let is_news = view.get(&key).is_none_or(|known| known.version < release.version);
        if is_news {
            view.insert(key, release);
            drop(view);
            self.add(key);
        }
    }
}

/// Leases over the simulated network.
struct Leases {
    wire: Wire,
}

#[async_trait]
impl LeaseApi for Leases {
    async fn list(&self, is_consistent: bool) -> Result<Listed, ListFailed> {
        match self.wire.call(Op::ListLeases { is_consistent }, None).await {
            Answer::Leases(version, leases) => Ok(Listed { version, leases: Vec::clone(&leases) }),
            _ => Err(ListFailed),
        }
    }

    async fn write(&self, op: WriteOp, lease: &Lease) -> Result<Written, WriteError> {
        match self.wire.call(Op::WriteLease { op, lease: lease.clone() }, None).await {
            Answer::Lease(outcome) => outcome,
            _ => Err(WriteError::Failed),
        }
    }
}

struct Reporter {
    process: Arc<Process>,
}

impl LeaseReport for Reporter {
    fn note(&mut self, note: &Note, _now: Moment) {
        let wire = &self.process.wire;
        wire.sim.world.lock().noted(wire.pid, wire.node, note, wire.sim.now.get());
    }

    fn stepped(&mut self, protocol: &Protocol, now: Moment) {
        *self.process.standing.lock() = protocol.standing(now);
    }
}
