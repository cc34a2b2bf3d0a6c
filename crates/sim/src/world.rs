//! All that is simulated in one run, apart from the processes' own memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use convoy_shard::{Acquired, Lease, LeaseKey, Note, Ownership, ProcessKind, WriteError, WriteOp, Written};
use parking_lot::Mutex;

use crate::check::{Checker, Write};
use crate::faults::{Case, Undo};
use crate::hub::{Hub, Release, index_of};
use crate::net::{Answer, Flight, Slot, Wire};
use crate::plan::Plan;
use crate::process::Process;
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::stats::Stats;
use crate::target::Cluster;
use crate::time::{MS, Nanos, NodeClock, Now, SEC};

/// The boot id of a process.
pub(crate) fn boot_id(pid: u64) -> String {
    format!("boot-{pid}")
}

/// What happens at a time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request reaches its server.
    Arrive(Box<Flight>),
    /// An answer reaches its process.
    Answer { slot: Arc<Slot>, write: Option<u64>, answer: Answer },
    /// A change of a Release reaches a process that watches.
    Watch { pid: u64, release: Arc<Release> },
    /// A process ended by itself.
    Exited { pid: u64, is_twin: bool },
    /// A process is started on a node.
    Start { node: usize },
    /// A process is killed, if it still runs.
    Kill { pid: u64 },
    /// A process is told to stop; it is killed when it takes too long.
    Terminate { pid: u64 },
    /// A node goes on, if it is still in that stop.
    Resume { node: usize, stop: u64 },
    /// A fault ends.
    Undo(Undo),
    /// A fault begins.
    Fault,
    /// A fault of that kind begins.
    Inject(Case),
    /// Somebody wants another revision.
    Revise,
    /// Invariants that are about states are checked.
    Check,
    /// The API server is backed up.
    BackUp,
    /// Faults end.
    Heal,
    /// A replica comes or goes while all else is calm.
    CalmChange,
    /// All has to be as it should.
    Settled,
    /// The run is over.
    End,
}

/// What goes on in one run.
pub(crate) struct Sim {
    pub(crate) now: Arc<Now>,
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) world: Mutex<World>,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim").field("now", &self.now).finish_non_exhaustive()
    }
}

/// A server's trouble.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    pub(crate) slow_permille: u64,
    pub(crate) errors_permille: u64,
    pub(crate) lost_permille: u64,
    pub(crate) refuses_writes: bool,
}

impl Trouble {
    pub(crate) fn is_any(&self) -> bool {
        self.slow_permille + self.errors_permille + self.lost_permille > 0 || self.refuses_writes
    }
}

/// A machine and the process on it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) kind: ProcessKind,
    pub(crate) process: Option<Arc<Process>>,
    /// Counts how often the node was stopped; odd while it is.
    pub(crate) stops: u64,
    pub(crate) is_suspended: bool,
    pub(crate) are_workers_blocked: bool,
    pub(crate) hub_cut_out: bool,
    pub(crate) hub_cut_in: bool,
    pub(crate) targets_cut: bool,
    pub(crate) is_token_expired: bool,
    /// Whether writes that need ownership are often under way for long; leases go another way.
    pub(crate) are_writes_late: bool,
    pub(crate) is_wall_clock_wrong: bool,
    /// How far cached lists lag, at most.
    pub(crate) list_lag: Nanos,
    pub(crate) watch_lag: Nanos,
    pub(crate) drops_watch: bool,
    /// Whether the node should have a process.
    pub(crate) is_wanted: bool,
    pub(crate) is_start_due: bool,
    /// The id of the next process, when not a new one.
    pub(crate) id: String,
    /// Other settings than the others'.
    pub(crate) other_shards: Option<NonZeroU32>,
    pub(crate) other_durations: bool,
}

impl Node {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stops % 2 == 1
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.process.is_some()
            && !self.is_stopped()
            && !self.hub_cut_in
            && !self.hub_cut_out
            && !self.is_token_expired
            && !self.is_wall_clock_wrong
    }
}

/// A process's watch.
#[derive(Debug)]
pub(crate) struct Watching {
    pub(crate) process: Arc<Process>,
    pub(crate) shards: BTreeSet<u32>,
    pub(crate) broken: BTreeSet<u32>,
}

pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) plan: Plan,
    pub(crate) hub: Hub,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) watches: BTreeMap<u64, Watching>,
    pub(crate) check: Checker,
    pub(crate) stats: Stats,
    pub(crate) hub_trouble: Trouble,
    pub(crate) last_hub_trouble: Nanos,
    /// Until when leases of processes with other settings may count.
    pub(crate) others_until: Nanos,
    pub(crate) target_trouble: Trouble,
    /// Nobody starts replicas before this: see `docs/src/guarantees.md` on restores.
    pub(crate) no_start_until: Nanos,
    /// The usual time that a target takes.
    pub(crate) target_pace: Nanos,
    pub(crate) hangs_until: Nanos,
    /// Until when the API server is being restored, and answers nobody.
    pub(crate) restored_at: Nanos,
    pub(crate) poisoned: Option<u32>,
    pub(crate) is_healed: bool,
    /// The process that is told to stop while all else is calm.
    pub(crate) calm_pid: Option<u64>,
    pub(crate) next_pid: u64,
    pub(crate) next_id: u64,
    pub(crate) lines: Option<VecDeque<String>>,
    /// Nodes that stopped by themselves, for the executor to take notice of.
    pub(crate) to_resume: Vec<usize>,
    pub(crate) to_kill: Vec<u64>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    /// Says what happens, when somebody wants to read it.
    pub(crate) fn trace(&mut self, now: Nanos, node: Option<usize>, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let who = node.map_or_else(|| "world".to_owned(), |node| format!("node {node}"));
            lines.push_back(format!("{:>12.3} {who:>8}  {}", now as f64 / SEC as f64, line()));
            if lines.len() > 4000 {
                lines.pop_front();
            }
        }
    }

    pub(crate) fn sent(&mut self, write: Write, wire: &Wire, now: Nanos) -> u64 {
        let had_failed = self.check.violation.is_some();
        let id = self.check.sent(write, now);
        if !had_failed && self.check.violation.is_some() {
            self.trace(now, Some(wire.node), || {
                format!("sends a write of {:?} for cluster {}", write.term, write.cluster)
            });
        }
        id
    }

    pub(crate) fn write_lease(
        &mut self,
        wire: &Wire,
        op: WriteOp,
        lease: &Lease,
        is_waited_for: bool,
        now: Nanos,
    ) -> Result<Written, WriteError> {
        let stored = self.hub.leases[index_of(wire.kind)].get(&lease.key).cloned();
        let outcome = self.hub.write_lease(wire.kind, op, lease, now);
        // Deletions of dead members' leases come on top: one for each, ever.
        self.stats.lease_writes += u64::from(op != WriteOp::Delete);
        self.stats.conflicts += u64::from(outcome.is_err());
        self.trace(now, Some(wire.node), || {
            let outcome = if outcome.is_ok() { "stored" } else { "conflict" };
            format!(
                "pid {} {op:?} {:?} holder {:?} epoch {}: {outcome}",
                wire.pid, lease.key, lease.holder, lease.transitions
            )
        });
        outcome.as_ref().map_err(|error| *error)?;
        let is_member = matches!(lease.key, LeaseKey::Member(_));
        let node = &self.nodes[wire.node];
        if !is_waited_for || node.is_stopped() || node.hub_cut_in && is_member {
            self.check.disrupted(wire.kind, now);
        }
        if let LeaseKey::Shard(shard) = lease.key {
            if op == WriteOp::Create {
                self.check.created[index_of(wire.kind)].insert(shard, now);
                if self.others_until > 0 {
                    self.check.counts_anew(wire.kind, shard);
                }
            }
            if lease.holder.is_some() {
                self.check.lease_stored(wire.pid, shard, lease.transitions, now);
            } else {
                self.check.released(wire.pid, shard, now);
            }
        } else if op == WriteOp::Delete {
            self.check_collection(wire, lease, stored.map_or(0, |stored| stored.changed), now);
        }
        outcome
    }

    /// I10.
    fn check_collection(&mut self, wire: &Wire, lease: &Lease, changed: Nanos, now: Nanos) {
        // Also when the process is gone by now: its last request was under way for long.
        let is_own = lease.boot_id.as_ref().is_some_and(|boot| *boot == boot_id(wire.pid));
        let silent = now - changed;
        let rate = self.nodes[wire.node].clock.rate();
        let least = 300 * SEC * 1000 / rate;
        if lease.uid.is_empty() || lease.resource_version.is_empty() {
            self.check.fail(now, "I10", format!("{:?} was deleted without preconditions", lease.key));
        } else if !is_own && silent + SEC < least {
            self.check.fail(
                now,
                "I10",
                format!("{:?} was deleted {} s after it was stored", lease.key, silent / SEC),
            );
        }
    }

    pub(crate) fn noted(&mut self, pid: u64, node: usize, note: &Note, now: Nanos) {
        match note {
            Note::Gained { how: Acquired::TakenOver { .. }, .. } => self.stats.takeovers += 1,
            Note::Gained { .. } => self.stats.gains += 1,
            Note::Released { .. } => self.stats.releases += 1,
            Note::Twin { .. } => self.stats.twins += 1,
            _ => {}
        }
        if let Note::Gained { shard, .. } = note {
            self.owned_briefly(node, *shard, now);
        }
        if !matches!(note, Note::Renewed { .. }) {
            self.trace(now, Some(node), || format!("pid {pid} {note:?}"));
        }
    }

    /// What is handed on at once may be over before the next check.
    fn owned_briefly(&mut self, node: usize, shard: u32, now: Nanos) {
        let node = &self.nodes[node];
        if node.process.as_ref().is_some_and(|process| process.shards.owns(shard)) {
            self.check.last_owned[index_of(node.kind)].insert(shard, now);
        }
    }

    /// Whether the process stops right between its check and the request that it sends now.
    pub(crate) fn hangs_at_the_wire(&mut self, sim: &Arc<Sim>, node: usize) -> bool {
        let now = sim.now.get();
        if now >= self.hangs_until || self.nodes[node].is_stopped() || !self.rng.chance(30) {
            return false;
        }
        let span = self.rng.pick(&[5, 19, 21, 29, 31, 45, 301]).unwrap_or(31) * SEC;
        self.stats.injected(6);
        self.stop_node(sim, node, span, false);
        true
    }

    /// Stops a node for a while.
    pub(crate) fn stop_node(&mut self, sim: &Arc<Sim>, node: usize, span: Nanos, is_suspend: bool) {
        let now = sim.now.get();
        if self.nodes[node].is_stopped() {
            return;
        }
        let at = &mut self.nodes[node];
        at.stops += 1;
        at.is_suspended = is_suspend;
        if is_suspend {
            at.clock.suspend(true);
        }
        let (kind, stop) = (at.kind, at.stops);
        if let Some(process) = &at.process
            && let Some(known) = self.check.processes.get_mut(&process.wire.pid)
        {
            known.is_stopped = true;
        }
        self.check.disrupted(kind, now);
        self.trace(now, Some(node), || format!("stopped for {} s (suspended: {is_suspend})", span / SEC));
        sim.schedule.event_at(now + span, Event::Resume { node, stop });
    }

    /// The node goes on; its tasks have to be looked at.
    pub(crate) fn resume_node(&mut self, node: usize, now: Nanos) {
        let at = &mut self.nodes[node];
        if !at.is_stopped() {
            return;
        }
        at.stops += 1;
        let was_suspended = std::mem::take(&mut at.is_suspended);
        if was_suspended {
            at.clock.suspend(false);
        }
        let kind = at.kind;
        if let Some(process) = &at.process
            && let Some(known) = self.check.processes.get_mut(&process.wire.pid)
        {
            known.is_stopped = false;
            known.woke = if was_suspended { now } else { known.woke };
        }
        self.check.disrupted(kind, now);
        self.to_resume.push(node);
        self.trace(now, Some(node), || "goes on".to_owned());
    }

    /// The mutant that asks for ownership at the start of the work only.
    #[cfg(feature = "mutants")]
    pub(crate) fn guard_of_mutant(&self, ownership: Arc<dyn Ownership>) -> Arc<dyn Ownership> {
        if self.plan.mutant == Some(convoy_shard::Mutant::CheckOnlyAtStart) {
            return Arc::new(convoy_shard::AlwaysOwn);
        }
        ownership
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) fn guard_of_mutant(&self, ownership: Arc<dyn Ownership>) -> Arc<dyn Ownership> {
        ownership
    }

    /// The mutant that does not queue what was gained.
    #[cfg(feature = "mutants")]
    pub(crate) fn leaves_gained_work_out(&self) -> bool {
        self.plan.mutant == Some(convoy_shard::Mutant::QueueNotFilledOnGain)
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) fn leaves_gained_work_out(&self) -> bool {
        false
    }

    /// Whether work on that Release kills the process.
    pub(crate) fn dies_of(&mut self, sim: &Arc<Sim>, key: u32, node: usize, pid: u64) -> bool {
        if self.poisoned != Some(key) {
            return false;
        }
        self.trace(sim.now.get(), Some(node), || format!("release {key} kills pid {pid}"));
        sim.schedule.event_at(sim.now.get() + 50 * MS, Event::Kill { pid });
        true
    }

    // Watches.

    pub(crate) fn watch(&mut self, pid: u64, shard: u32) {
        if let Some(watching) = self.watches.get_mut(&pid) {
            watching.shards.insert(shard);
            watching.broken.remove(&shard);
        }
    }

    pub(crate) fn unwatch(&mut self, pid: u64, shard: u32) {
        if let Some(watching) = self.watches.get_mut(&pid) {
            watching.shards.remove(&shard);
            watching.broken.remove(&shard);
        }
    }

    pub(crate) fn is_watched(&self, pid: u64, shard: u32) -> bool {
        self.watches.get(&pid).is_some_and(|watching| watching.shards.contains(&shard))
    }

    pub(crate) fn break_watch(&mut self, pid: u64, shard: u32) {
        if let Some(watching) = self.watches.get_mut(&pid)
            && watching.shards.contains(&shard)
        {
            watching.broken.insert(shard);
        }
    }

    pub(crate) fn take_broken_watches(&mut self, pid: u64) -> BTreeSet<u32> {
        self.watches.get_mut(&pid).map(|watching| std::mem::take(&mut watching.broken)).unwrap_or_default()
    }

    pub(crate) fn break_all_watches(&mut self) {
        for watching in self.watches.values_mut() {
            watching.broken = watching.shards.clone();
        }
    }

    /// A Release changed; `before` is its label before, when that changed.
    pub(crate) fn tell_watchers(&mut self, sim: &Arc<Sim>, release: &Arc<Release>, before: Option<u32>) {
        let now = sim.now.get();
        for (pid, watching) in &mut self.watches {
            let sees = release.label.into_iter().chain(before).find(|shard| watching.shards.contains(shard));
            let Some(shard) = sees else { continue };
            let node = &self.nodes[watching.process.wire.node];
            if node.drops_watch || node.hub_cut_in {
                watching.broken.insert(shard);
                continue;
            }
            let lag = self.rng.between(MS, 60 * MS) + self.rng.below(node.watch_lag);
            sim.schedule.event_at(now + lag, Event::Watch { pid: *pid, release: Arc::clone(release) });
        }
    }

    /// The process kinds that the run has.
    pub(crate) fn kinds(&self) -> Vec<ProcessKind> {
        crate::hub::KINDS
            .into_iter()
            .filter(|kind| self.nodes.iter().any(|node| node.kind == *kind))
            .collect()
    }
}
