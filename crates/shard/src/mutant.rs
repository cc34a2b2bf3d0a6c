//! Faults that the simulation must find. Only in builds with the feature `mutants`.

/// A fault that is put in on purpose. Those that do not concern the protocol are acted on by the
/// simulation's own parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mutant {
    /// Another's lease is judged by its `renewTime` and the own wall clock.
    WallClockExpiry,
    /// Ownership is checked when a reconcile starts, and not before each write.
    CheckOnlyAtStart,
    /// A shard is released while its writes are still under way.
    ReleaseBeforeDrain,
    /// Only the leases of wanted shards are observed.
    ObserveOnlyWanted,
    /// Member leases are collected without preconditions, as soon as they have ended.
    CollectWithoutPrecondition,
    /// A member lease of another process with the same id is taken for the own one.
    SameIdAccepted,
    /// Peers with another shard count are taken for members.
    ShardCountUnchecked,
    /// The API server takes status and inventories of an older epoch.
    StaleEpochAccepted,
    /// A replica wakes at its ticks only, not when a lease ends.
    TimerMissing,
    /// A gained shard's objects are not queued.
    QueueNotFilledOnGain,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 10] = [
        Mutant::WallClockExpiry,
        Mutant::CheckOnlyAtStart,
        Mutant::ReleaseBeforeDrain,
        Mutant::ObserveOnlyWanted,
        Mutant::CollectWithoutPrecondition,
        Mutant::SameIdAccepted,
        Mutant::ShardCountUnchecked,
        Mutant::StaleEpochAccepted,
        Mutant::TimerMissing,
        Mutant::QueueNotFilledOnGain,
    ];
}
