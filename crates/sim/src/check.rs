//! The invariants, checked while a run goes on.
//!
//! What is checked, precisely:
//!
//! - **I1** For each process kind and cluster: once a term (process, shard, epoch) has sent a mutating request,
//!   no other term that sent before sends again, and no other process that runs has one under way that is
//!   neither answered nor given up. A process that is stopped (SIGSTOP, suspend), or whose work stands still,
//!   cannot give up; what it sent before counts as ended, since no process can bound what a server does with a
//!   request that it already has. That is the assumption of the guarantees: such a write is convergent, or
//!   carries preconditions. Nor can a process that was suspended, until its next tick, an observe interval after
//!   it goes on at most: its timers stood still. Pairs of processes whose clock rates differ by more than 1.2 are left out.
//! - **I2** No shard is without an owner for longer than duration + interval (by the slowest clock) counted
//!   from the later of: its loss; the last *disruption*. Disruptions are what a lease cannot see through
//!   faster: a process that starts, stops, dies, hangs or wakes, is cut off or connected again, a clock that
//!   is set, a lease changed by hand. (A replica that joins while another's lease runs out has to see that
//!   lease unchanged for a whole duration itself.) A lease that was deleted adds one duration: whoever makes
//!   it anew waits for a holder that may not know yet. A lease that is stored although nobody waits for the
//!   answer any more (the request was under way for long, and its sender gave it up, stands still or is dead), and the
//!   member lease of a replica whose requests arrive but whose answers are lost, are disruptions too, at
//!   the time when they are stored: until then nobody can see that something is wrong. A shard's lease that
//!   such a replica acquires is none. Nothing is counted while the API server is in trouble;
//!   while no replica is healthy (runs, is connected, has a token, and clocks within the rates); while
//!   replicas run with other `--shards` or `--lease-duration`, and 70 s after (their leases have to end, and
//!   who waited for that announces itself anew); and while there are forged member leases, or
//!   leases that were given a longer duration: they count as live for as long as they say.
//! - **I5** The API server takes no status of an older epoch than a status that it took before for the same
//!   shard, and so for inventories (they are objects of their own: a status that was under way for long may
//!   come after the successor's first inventory, and before its first status). A report for another shard,
//!   as by replicas that were started with another `--shards`, begins a new comparison. In runs that have
//!   such replicas, a shard's lease that was deleted by hand and is made anew, or whose epoch was lowered by hand, counts
//!   from the start: those who knew its epoch, and the statuses that told it, may be of the other settings. And
//!   terms that write to a target come in the order of their epochs, but for pairs of processes as in I1, and counted from the last
//!   time when a Release of the shard lost its label (its status may have been all that told the epoch when the
//!   leases were deleted and all others are dead; its own status is still refused); both from the last
//!   restore on, which takes epochs back, too. Targets were not restored, and a term that began before the
//!   restore in an epoch that the restored lease does not have goes on until it hears of it (or ends by
//!   I6): its epoch counts for nothing, because the restored leases count up to it, and past it, once more.
//!   That its writes have ended before others begin is I1's matter, which goes on across a restore.
//! - **I6** No mutating request is sent later than `hold_until` (by the sender's clocks, which is tested in
//!   true time with its rate) after the sender's lease was last stored. None begins after `write_until`; one
//!   that began before and then hung (its process was stopped) may go out until `hold_until`.
//! - **I7** When the release of a shard is stored, no write of the releasing process is under way for it.
//! - **I8**, **I9** Processes with one id, and processes with other settings, never own anything together.
//! - **I10** A member lease is deleted with uid and resourceVersion, and only when it was not stored anew for
//!   10 durations (by a clock that may be fast by the rate), or by its own process.
//! - **I12** As I2, for looks: a Release's owner has looked at it within the resync interval + 40 s, counted
//!   from the last disruption, trouble of targets included.
//!   A back-off of up to a minute and the work itself come on top.
//! - **I3, I4, I11, I14** at the end of a run: see `quiet.rs`.

use std::collections::{BTreeMap, BTreeSet};

use convoy_shard::ProcessKind;

use crate::hub::{Writer, index_of};
use crate::time::{Nanos, SEC};

/// A process's term of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term {
    pub(crate) pid: u64,
    pub(crate) shard: u32,
    pub(crate) epoch: u64,
}

/// A write that needs ownership.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) term: Term,
    pub(crate) cluster: usize,
    pub(crate) is_to_target: bool,
}

/// What did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) at: Nanos,
    pub(crate) invariant: &'static str,
    pub(crate) message: String,
}

/// What the checks know of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) kind: ProcessKind,
    pub(crate) rate: u64,
    pub(crate) is_stopped: bool,
    /// Whether its work stands still, while its lease driver does not.
    pub(crate) is_blocked: bool,
    pub(crate) is_alive: bool,
    pub(crate) hold_until: Nanos,
    pub(crate) observe_interval: Nanos,
    /// When its machine last went on after it had been suspended; 0 when it never was.
    pub(crate) woke: Nanos,
}

impl Known {
    /// Whether its timers may stand where they stood when its machine was suspended, with what it sent before that.
    fn is_waking(&self, sent: Nanos, now: Nanos) -> bool {
        sent < self.woke && now <= self.woke + self.observe_interval * 1000 / self.rate + SEC / 100
    }
}

#[derive(Clone, Debug, Default)]
struct Line {
    current: Option<Term>,
    closed: BTreeSet<Term>,
    /// By shard, the term of the highest epoch that was in a write to the target.
    highest: BTreeMap<u32, Term>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    write: Write,
    sent: Nanos,
    kind: ProcessKind,
}

#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) violation: Option<Violation>,
    pub(crate) processes: BTreeMap<u64, Known>,
    open: BTreeMap<u64, Open>,
    next_open: u64,
    lines: [BTreeMap<usize, Line>; 2],
    /// The last writer by kind, Release, and whether it is the inventory.
    reported: BTreeMap<(usize, u32, bool), Writer>,
    /// When the lease that a term stands on was first stored.
    began: BTreeMap<Term, Nanos>,
    /// When the last restore was, and what epochs the leases had after it, by kind and shard.
    restored: Option<(Nanos, [BTreeMap<u32, u64>; 2])>,
    /// When the lease of a process's shard was last stored by it.
    pub(crate) stored: BTreeMap<(u64, u32), Nanos>,
    /// When each shard was last owned, by kind and shard.
    pub(crate) last_owned: [BTreeMap<u32, Nanos>; 2],
    /// When the lease of a shard was last created, by kind and shard.
    pub(crate) created: [BTreeMap<u32, Nanos>; 2],
    pub(crate) looked: [BTreeMap<u32, Nanos>; 2],
    /// Since when nothing disturbs, by kind.
    pub(crate) good_since: [Nanos; 2],
    pub(crate) targets_good_since: Nanos,
    /// Writes that were under way at a process that was stopped or stood still when another began.
    pub(crate) left_over_by_stopped: u64,
    pub(crate) target_writes: u64,
    pub(crate) host_writes: u64,
}

impl Checker {
    pub(crate) fn fail(&mut self, at: Nanos, invariant: &'static str, message: String) {
        self.violation.get_or_insert(Violation { at, invariant, message });
    }

    /// A mutating request is sent. Answers with a number for [`Checker::ended`].
    pub(crate) fn sent(&mut self, write: Write, now: Nanos) -> u64 {
        let id = self.next_open;
        self.next_open += 1;
        let Some(sender) = self.processes.get(&write.term.pid).copied() else { return id };
        *if write.is_to_target { &mut self.target_writes } else { &mut self.host_writes } += 1;
        self.check_deadline(&write, &sender, now);
        self.check_line(&write, &sender, now);
        self.open.insert(id, Open { write, sent: now, kind: sender.kind });
        id
    }

    fn check_deadline(&mut self, write: &Write, sender: &Known, now: Nanos) {
        let Term { pid, shard, .. } = write.term;
        let stored = self.stored.get(&(pid, shard)).copied().unwrap_or(0);
        let most = sender.hold_until * 1000 / sender.rate + SEC / 100;
        if now > stored + most {
            let late = (now - stored) / 1_000_000;
            self.fail(
                now,
                "I6",
                format!("pid {pid} writes for shard {shard} {late} ms after its lease was last stored"),
            );
        }
    }

    fn check_line(&mut self, write: &Write, sender: &Known, now: Nanos) {
        let term = write.term;
        let kind = index_of(sender.kind);
        let was_taken_back = self.was_taken_back(term, kind);
        let line = self.lines[kind].entry(write.cluster).or_default();
        let mut failures = Vec::new();
        if write.is_to_target && !was_taken_back {
            let highest = line.highest.entry(term.shard).or_insert(term);
            let is_within =
                self.processes.get(&highest.pid).is_none_or(|other| is_within_rates(other, sender));
            if highest.epoch > term.epoch && is_within {
                let message =
                    format!("{term:?} writes to cluster {} after epoch {}", write.cluster, highest.epoch);
                failures.push(("I5", message));
            }
            if highest.epoch < term.epoch {
                *highest = term;
            }
        }
        if line.current == Some(term) {
            failures.into_iter().for_each(|(name, message)| self.fail(now, name, message));
            return;
        }
        if line.closed.contains(&term) {
            let message = format!(
                "{term:?} writes for cluster {} although {:?} has begun",
                write.cluster, line.current
            );
            let is_within = line
                .current
                .and_then(|current| self.processes.get(&current.pid))
                .is_none_or(|other| is_within_rates(other, sender));
            if is_within {
                failures.push(("I1", message));
            }
        }
        if let Some(before) = line.current.replace(term) {
            line.closed.insert(before);
        }
        for open in self.open.values().filter(|open| open.kind == sender.kind) {
            if open.write.cluster != write.cluster || open.write.term.pid == term.pid {
                continue;
            }
            let Some(other) = self.processes.get(&open.write.term.pid) else { continue };
            if !other.is_alive || !is_within_rates(other, sender) {
                continue;
            }
            if other.is_stopped || other.is_blocked || other.is_waking(open.sent, now) {
                self.left_over_by_stopped += 1;
                continue;
            }
            failures.push((
                "I1",
                format!(
                    "{term:?} writes for cluster {} while a write of {:?} is under way",
                    write.cluster, open.write.term
                ),
            ));
        }
        failures.into_iter().for_each(|(name, message)| self.fail(now, name, message));
    }

    /// A write was answered, or given up, or its process is dead.
    pub(crate) fn ended(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// The release of a shard was stored.
    pub(crate) fn released(&mut self, pid: u64, shard: u32, now: Nanos) {
        let open =
            self.open.values().find(|open| open.write.term.pid == pid && open.write.term.shard == shard);
        if let Some(open) = open {
            let message = format!(
                "pid {pid} released shard {shard} while a write of {:?} is under way",
                open.write.term
            );
            self.fail(now, "I7", message);
        }
    }

    /// The API server took a status or an inventory.
    pub(crate) fn report_taken(
        &mut self,
        kind: ProcessKind,
        key: u32,
        is_inventory: bool,
        writer: Writer,
        now: Nanos,
    ) {
        let last = self.reported.insert((index_of(kind), key, is_inventory), writer);
        if let Some(last) = last.filter(|last| last.shard == writer.shard && last.epoch > writer.epoch) {
            let message =
                format!("release {key}: a report of {writer:?} was taken after one of epoch {}", last.epoch);
            self.fail(now, "I5", message);
        }
    }

    /// A lease with a holder was stored.
    pub(crate) fn lease_stored(&mut self, pid: u64, shard: u32, epoch: u64, now: Nanos) {
        self.stored.insert((pid, shard), now);
        self.began.entry(Term { pid, shard, epoch }).or_insert(now);
    }

    /// Everybody who knew the epochs of a shard may be gone.
    pub(crate) fn counts_anew(&mut self, kind: ProcessKind, shard: u32) {
        self.reported.retain(|(of_kind, ..), writer| *of_kind != index_of(kind) || writer.shard != shard);
        for line in self.lines[index_of(kind)].values_mut() {
            line.highest.remove(&shard);
        }
    }

    /// A Release lost its label: who gains its shard does not see the epoch that stands in its status.
    pub(crate) fn is_not_told(&mut self, shard: u32) {
        for line in self.lines.iter_mut().flat_map(BTreeMap::values_mut) {
            line.highest.remove(&shard);
        }
    }

    /// Whether a term began before the last restore, in an epoch that the restored leases do not know.
    fn was_taken_back(&self, term: Term, kind: usize) -> bool {
        self.restored.as_ref().is_some_and(|(at, epochs)| {
            self.began.get(&term).is_some_and(|began| began <= at)
                && epochs[kind].get(&term.shard).is_none_or(|epoch| *epoch < term.epoch)
        })
    }

    /// The API server was brought back to an earlier state: epochs count from what it has now.
    pub(crate) fn restored(&mut self, epochs: [BTreeMap<u32, u64>; 2], now: Nanos) {
        self.restored = Some((now, epochs));
        self.reported.clear();
        for line in self.lines.iter_mut().flat_map(BTreeMap::values_mut) {
            line.highest.clear();
        }
    }

    /// Something happened that replicas cannot see through at once.
    pub(crate) fn disrupted(&mut self, kind: ProcessKind, now: Nanos) {
        self.good_since[index_of(kind)] = now;
    }

    pub(crate) fn looked(&mut self, kind: ProcessKind, key: u32, now: Nanos) {
        self.looked[index_of(kind)].insert(key, now);
    }

    pub(crate) fn writes(&self) -> u64 {
        self.target_writes + self.host_writes
    }
}

/// Whether two clocks' rates differ by no more than 1.2.
fn is_within_rates(one: &Known, other: &Known) -> bool {
    one.rate.max(other.rate) * 1000 <= one.rate.min(other.rate) * 1200
}
