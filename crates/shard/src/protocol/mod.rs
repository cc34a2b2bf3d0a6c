//! The lease protocol: what a replica does, given what it saw and what time it is.
//!
//! One [`Protocol`] is one process of one kind. At each renew interval it renews its member lease and
//! the leases of its shards, and reads all leases; between those it reads them at the observe interval.
//! From the live members it computes which shards are its own, acquires those whose lease is free or has
//! ended, and releases those that went to others, after their writes have ended.
//!
//! Rules that hold for any clocks, delays and losses (see DESIGN for the invariants' numbers):
//!
//! - Another's lease has ended when this replica has not seen it change for its whole duration (I1). One
//!   that was not released as replicas do it (blanked by hand, brought back from a backup) counts as held.
//! - The own deadlines count from before the last successful renewal was sent, by the clock that moved
//!   most (I1, I6). A shard's deadline is no later than the member lease's: peers that take this
//!   replica for dead are right.
//! - A shard lease that was not there is created, and acted on only after it stood for a whole duration:
//!   a holder that does not know yet that its lease was deleted has stopped by then. Until then it is
//!   not released either, or the next holder would not know that it has to wait.
//! - A shard that is being handed over is handed over: the release may have been stored although its answer
//!   was lost. When the shard is wanted again it is acquired anew (I1, I7).
//! - A shard is acquired only by who has just heard from the API server: else the shard would be blocked for a
//!   whole duration for somebody who does not learn that it has it (I2).
//! - Every acquisition raises `leaseTransitions`, above all that was seen there before: the epoch (I5).
//! - Every update and deletion names the version that was read (I10).
//! - A process whose member lease is written by another process with the same id ends (I8).
//! - A replica that starts announces itself, then reads the leases, and acts only if no replica with
//!   other settings acts: of two that start together at least one sees the other (I9). One whose member
//!   lease had ended or was deleted starts anew in this.
//! - A replica acts only for shards as the API server counts them, because that writes them on the objects. One
//!   that learns that it counts others hands its shards over and waits.

mod members;
mod observe;
mod seen;
mod server;
mod shards;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use server::ApiServerShards;
pub use state::{Held, LAST_EPOCH, Protocol};

use crate::{Lease, LeaseKey, Moment};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Time passed. The driver sends it when [`Protocol::next_wakeup`] has come, and once at the start.
    Tick,
    /// All leases of the process kind were read.
    Listed {
        /// Before the request was sent.
        sent: Moment,
        /// Whether the answer is at least as new as the request, and no cache's.
        is_consistent: bool,
        /// The list's resourceVersion; 0 when it is no number.
        version: u64,
        /// The leases.
        leases: Vec<Arc<Lease>>,
    },
    /// The leases could not be read.
    ListFailed,
    /// A write has ended.
    Written {
        /// Which lease.
        key: LeaseKey,
        /// Before the request was sent.
        sent: Moment,
        /// How.
        outcome: Result<Written, WriteError>,
    },
    /// All writes of a draining shard have ended.
    Drained {
        /// The shard.
        shard: u32,
        /// The epoch in which it was drained.
        epoch: u64,
    },
    /// Somebody acted in this epoch, which may be newer than the lease says: the lease may have been
    /// deleted, or brought back from a backup.
    EpochSeen {
        /// The shard.
        shard: u32,
        /// The epoch.
        epoch: u64,
    },
    /// The API server said how many shards it counts, or did not.
    ApiServerCounts(ApiServerShards),
    /// The process is to end.
    Stop,
}

/// A write that succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// The lease as it is stored now.
    Stored(Arc<Lease>),
    /// The lease is gone.
    Deleted,
}

/// A write that did not succeed, or of which that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteError {
    /// The lease is not what was read: changed (409), made by another (409), or gone (404).
    Conflict,
    /// Anything else, also no answer: the write may have happened.
    Failed,
}

/// How a lease is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteOp {
    /// It is not there.
    Create,
    /// With the resourceVersion that was read.
    Update,
    /// With uid and resourceVersion as preconditions.
    Delete,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read all leases of the process kind, then send [`Event::Listed`] or [`Event::ListFailed`].
    List {
        /// Whether a cache's answer will not do.
        is_consistent: bool,
    },
    /// Ask the API server how many shards it counts, then send [`Event::ApiServerCounts`].
    AskApiServer,
    /// Write a lease, then send [`Event::Written`]. At most one is under way for a lease.
    Write {
        /// How.
        op: WriteOp,
        /// What.
        lease: Lease,
    },
    /// Send [`Event::Drained`] when no write of the shard is under way any more, at once if none is.
    Drain {
        /// The shard.
        shard: u32,
        /// Its epoch.
        epoch: u64,
    },
    /// Tell people and metrics.
    Note(Note),
    /// It is over: all that could be released is. The driver ends.
    End,
}

/// How a shard was acquired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Acquired {
    /// Its lease was not there.
    Created,
    /// Its lease had no holder: a planned hand-off, or the first time.
    Free,
    /// Its lease had ended under another holder, or under an earlier process of the same id.
    TakenOver {
        /// The holder whose lease had ended.
        from: String,
        /// For how long it had not changed.
        silent: std::time::Duration,
    },
    /// The own lease, given up for lack of renewal and taken up again.
    Resumed,
}

/// Why a shard was lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LostBecause {
    /// The lease could not be renewed in time.
    Deadline,
    /// The lease is another's.
    Taken {
        /// Its holder now.
        by: String,
    },
    /// The lease is not there any more.
    Deleted,
    /// Somebody acted in a later epoch than the lease says; it is acquired anew in a later one still.
    OlderEpoch,
    /// The process has a twin with the same id.
    Twin,
    /// A peer with other settings acts.
    Disagreement,
    /// The process ends before the time came to act on a lease that it had created.
    Stopped,
}

/// What people and metrics are told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A shard is this replica's.
    Gained {
        /// The shard.
        shard: u32,
        /// Its epoch.
        epoch: u64,
        /// How.
        how: Acquired,
    },
    /// The lease of a shard of this replica has the last epoch there is: from now on epochs do not tell an older
    /// holder from a newer one.
    EpochsUsedUp {
        /// The shard.
        shard: u32,
    },
    /// A shard was lost.
    Lost {
        /// The shard.
        shard: u32,
        /// Its epoch.
        epoch: u64,
        /// Why.
        because: LostBecause,
    },
    /// A shard was released, as planned.
    Released {
        /// The shard.
        shard: u32,
        /// Its epoch.
        epoch: u64,
    },
    /// The leases were renewed; how long the write took is known to the driver.
    Renewed {
        /// Which.
        key: LeaseKey,
    },
    /// A write met a lease that had changed.
    Conflicted {
        /// Which.
        key: LeaseKey,
    },
    /// A peer runs with settings that do not fit, and one of the two must not act.
    Disagreement {
        /// The peer.
        replica: String,
        /// A sentence.
        message: String,
        /// Whether it is this replica that does not act.
        is_waiting: bool,
    },
    /// No peer disagrees any more.
    Agreement,
    /// The API server says something new about the number of shards.
    ApiServerCounts {
        /// So many; none when it does not say.
        shards: Option<std::num::NonZeroU32>,
        /// Why this replica owns nothing, when it counts others.
        disagreement: Option<String>,
    },
    /// A dead replica's member lease was deleted.
    Collected {
        /// The replica.
        replica: String,
    },
    /// Another process runs with this replica's id.
    Twin {
        /// A sentence that says what to do.
        message: String,
    },
}

/// How a replica stands, for readiness and people.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It has not announced itself yet.
    Joining {
        /// What it waits for.
        message: String,
    },
    /// A peer with other settings acts, or the API server counts other shards; this replica does nothing.
    Waiting {
        /// A sentence.
        message: String,
    },
    /// It takes its part.
    Acting {
        /// How many shards are its own by the division.
        wanted: usize,
        /// How many of those it holds and acts for.
        owned: usize,
    },
    /// It would take its part, but its renewals do not reach the API server: peers take it for dead.
    CutOff {
        /// A sentence.
        message: String,
    },
    /// It gives up its shards.
    Stopping,
    /// It is over.
    Ended {
        /// Whether another process runs with this replica's id.
        has_twin: bool,
    },
}
