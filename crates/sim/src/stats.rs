//! What happened in runs, in numbers.

use crate::time::Nanos;

/// How many fault cases there are.
pub const CASES: usize = 34;

/// Counts of one run, or of many.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Faults by case; the first is not used.
    pub faults: [u64; CASES + 1],
    /// Shards taken over after their lease had ended.
    pub takeovers: u64,
    /// Shards gained in another way.
    pub gains: u64,
    /// Shards released as planned.
    pub releases: u64,
    /// Processes that ended because of a twin.
    pub twins: u64,
    /// Writes of leases that reached the API server.
    pub lease_writes: u64,
    /// Those that conflicted.
    pub conflicts: u64,
    /// Mutating requests to targets.
    pub target_writes: u64,
    /// Writes of statuses and inventories.
    pub host_writes: u64,
    /// Writes that were under way at a stopped process when another began.
    pub left_over_by_stopped: u64,
    /// The longest time that a shard had no owner, counted as I2 does.
    pub worst_counted_gap: Nanos,
    /// The longest time without an owner, in which the API server was never in trouble.
    pub worst_gap_without_trouble: Nanos,
    /// The longest time without an owner, whatever happened.
    pub worst_gap: Nanos,
    /// Simulated time.
    pub simulated: Nanos,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            faults: [0; CASES + 1],
            takeovers: 0,
            gains: 0,
            releases: 0,
            twins: 0,
            lease_writes: 0,
            conflicts: 0,
            target_writes: 0,
            host_writes: 0,
            left_over_by_stopped: 0,
            worst_counted_gap: 0,
            worst_gap_without_trouble: 0,
            worst_gap: 0,
            simulated: 0,
        }
    }
}

impl Stats {
    pub(crate) fn injected(&mut self, case: usize) {
        if let Some(count) = self.faults.get_mut(case) {
            *count += 1;
        }
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Stats) {
        for (count, more) in self.faults.iter_mut().zip(other.faults) {
            *count += more;
        }
        self.takeovers += other.takeovers;
        self.gains += other.gains;
        self.releases += other.releases;
        self.twins += other.twins;
        self.lease_writes += other.lease_writes;
        self.conflicts += other.conflicts;
        self.target_writes += other.target_writes;
        self.host_writes += other.host_writes;
        self.left_over_by_stopped += other.left_over_by_stopped;
        self.worst_counted_gap = self.worst_counted_gap.max(other.worst_counted_gap);
        self.worst_gap_without_trouble = self.worst_gap_without_trouble.max(other.worst_gap_without_trouble);
        self.worst_gap = self.worst_gap.max(other.worst_gap);
        self.simulated += other.simulated;
    }
}
