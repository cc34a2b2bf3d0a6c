//! What must hold after every step.

use std::collections::BTreeMap;
use std::time::Duration;

use super::world::{Run, World, s};
use crate::{Lease, LeaseKey, Moment, Note, WriteOp};

#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    pub(super) writes: u64,
    pub(super) conflicts: u64,
    /// Deletions: when, what, and for how long it had not changed, in true time.
    pub(super) deleted: Vec<(Duration, Lease, Duration)>,
    /// The last epoch of each shard, whoever gained it.
    epochs: BTreeMap<u32, u64>,
    /// Since when a shard has had no process that acts for it.
    unowned: BTreeMap<u32, Duration>,
    /// The longest time a shard had none, since it was last reset.
    pub(super) longest_gap: Duration,
    /// Whether gaps are measured, which takes a while.
    pub(super) measures_gaps: bool,
    /// Whether leases were deleted or brought back, so that epochs may start anew.
    pub(super) may_forget_epochs: bool,
    /// Whether somebody deleted or blanked member leases, and shard leases: of a process that lost both by
    /// hand nobody can know.
    pub(super) member_edited: bool,
    pub(super) shard_edited: bool,
    /// Releases since it was last reset.
    pub(super) hand_offs: u64,
    /// Whether a violation is collected, and not told at once.
    pub(super) is_collecting: bool,
    pub(super) violations: Vec<String>,
}

impl Checks {
    fn broken(world: &mut World, what: String) {
        assert!(world.checks.is_collecting, "{what} at {:?}: {:#?}", world.now, world.summary());
        world.checks.violations.push(what);
    }

    pub(super) fn reset(&mut self) {
        self.writes = 0;
        self.conflicts = 0;
        self.hand_offs = 0;
        self.longest_gap = Duration::ZERO;
        self.unowned.clear();
    }

    /// Before a write is sent.
    pub(super) fn written(world: &mut World, index: usize, op: WriteOp, lease: &Lease) {
        let replica = &world.replicas[index];
        match (&lease.key, op) {
            (LeaseKey::Shard(shard), WriteOp::Update) if lease.holder.is_none() => {
                world.checks.hand_offs += 1;
                if replica.draining.contains_key(shard) {
                    Self::broken(world, format!("i7: shard {shard} is released while its writes go on"));
                }
            }
            (LeaseKey::Shard(shard), WriteOp::Delete) => {
                Self::broken(world, format!("sc35: the lease of shard {shard} is deleted"));
            }
            (_, WriteOp::Update | WriteOp::Delete)
                if lease.uid.is_empty() || lease.resource_version.is_empty() =>
            {
                Self::broken(world, format!("i10: {:?} {:?} has no precondition", op, lease.key));
            }
            _ => {}
        }
    }

    pub(super) fn noted(world: &mut World, index: usize, note: &Note) {
        if let Note::Gained { shard, epoch, .. } = note {
            let last = world.checks.epochs.get(shard).copied();
            if last.is_some_and(|last| last >= *epoch) && !world.checks.may_forget_epochs {
                Self::broken(world, format!("i5: shard {shard} gained in {epoch} by {index} after {last:?}"));
            }
            world.checks.epochs.insert(*shard, *epoch);
        }
    }

    /// After a step of a replica.
    pub(super) fn stepped(world: &mut World, index: usize, moment: Moment) {
        let replica = &world.replicas[index];
        if !replica.has_ended && replica.protocol.next_wakeup() <= moment.monotonic {
            let (next, seconds) = (replica.protocol.next_wakeup(), moment.monotonic);
            Self::broken(world, format!("{index} wakes at {next:?}, which is past at {seconds:?}"));
        }
        Self::look(world);
    }

    /// At any time.
    pub(super) fn look(world: &mut World) {
        let now = world.now;
        // Shard, then process.
        let mut holders: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, replica) in world.replicas.iter().enumerate() {
            for shard in replica.protocol.held().keys().filter(|shard| replica.may_hold(**shard, now)) {
                holders.entry(*shard).or_default().push(index);
            }
        }
        let mut broken = Vec::new();
        for (shard, processes) in holders.iter().filter(|(_, processes)| processes.len() > 1) {
            broken.push(format!("i1: shard {shard} has writes under way at {processes:?}"));
        }
        let mut acting: Vec<usize> = holders.into_values().flatten().collect();
        acting.sort_unstable();
        acting.dedup();
        for (one, other) in acting.iter().zip(acting.iter().skip(1)) {
            let (a, b) =
                (&world.replicas[*one].protocol.settings(), &world.replicas[*other].protocol.settings());
            if a.shards != b.shards || a.assignment != b.assignment {
                broken.push(format!("i9: {one} and {other} act with different settings"));
            }
        }
        for one in &acting {
            for other in acting.iter().filter(|other| *other > one) {
                if world.replicas[*one].id() == world.replicas[*other].id() {
                    broken.push(format!("i8: {one} and {other} act with the same id"));
                }
            }
        }
        let has_traces = !(world.checks.member_edited && world.checks.shard_edited);
        for what in broken.into_iter().filter(|what| has_traces || what.starts_with("i1:")) {
            Self::broken(world, what);
        }
        Self::measure_gaps(world);
    }

    fn measure_gaps(world: &mut World) {
        if !world.checks.measures_gaps {
            return;
        }
        let count = world.replicas.iter().map(|r| r.protocol.settings().shards.get()).min().unwrap_or(0);
        for shard in 0..count {
            if world.owner(shard).is_some() {
                if let Some(since) = world.checks.unowned.remove(&shard) {
                    world.checks.longest_gap = world.checks.longest_gap.max(world.now - since);
                }
            } else {
                world.checks.unowned.entry(shard).or_insert(world.now);
            }
        }
    }

    /// I10: only what did not change for ten durations was deleted, or what its own process deleted.
    pub(super) fn assert_collections_were_safe(world: &World) {
        for (at, lease, unchanged) in &world.checks.deleted {
            let LeaseKey::Member(id) = &lease.key else { panic!("{lease:?}") };
            let is_leaving = world
                .replicas
                .iter()
                .any(|replica| replica.id() == id && replica.protocol.settings().release_member_on_exit);
            // A clock that is fast by a fifth sees ten durations in 8.3.
            assert!(is_leaving || *unchanged >= s(250), "i10: {id} at {at:?} after {unchanged:?}");
        }
    }

    /// I4: the live ones own equal parts.
    pub(super) fn assert_balanced(world: &World) {
        let live: Vec<usize> = (0..world.replicas.len())
            .filter(|r| world.replicas[*r].run == Run::Up && !world.replicas[*r].has_ended)
            .collect();
        let counts: Vec<usize> = live.iter().map(|r| world.shards_of(*r).len()).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 1, "i4: {counts:?} {:#?}", world.summary());
    }
}
