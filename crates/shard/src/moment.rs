//! One instant, as three clocks tell it.

use std::time::Duration;

/// What the clocks of one machine say at one instant.
///
/// No single clock is right for both questions that a lease asks. Whether the own lease is still good
/// must be answered with "no" too early rather than too late, so the clock that moved most decides.
/// Whether another's lease has ended must be answered with "yes" too late rather than too early, and
/// the wall clock, which people set, has no part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment {
    /// Since any start; stands still while the machine is suspended (`CLOCK_MONOTONIC`).
    pub monotonic: Duration,
    /// Since any start; goes on while the machine is suspended (`CLOCK_BOOTTIME`).
    pub boottime: Duration,
    /// Since 1970; may jump either way (`CLOCK_REALTIME`).
    pub wall: Duration,
}

impl Moment {
    /// A moment at which all clocks say the same; for tests and models.
    pub fn at(since_start: Duration) -> Self {
        Self { monotonic: since_start, boottime: since_start, wall: since_start }
    }

    /// The time since `earlier` by the clock that moved most: what an own deadline is judged by.
    pub fn longest_since(&self, earlier: &Moment) -> Duration {
        self.monotonic
            .saturating_sub(earlier.monotonic)
            .max(self.boottime.saturating_sub(earlier.boottime))
            .max(self.wall.saturating_sub(earlier.wall))
    }

    /// A moment since which at least as much time passed as since each of the two, by each clock.
    pub fn earlier(&self, other: &Moment) -> Moment {
        Moment {
            monotonic: self.monotonic.min(other.monotonic),
            boottime: self.boottime.min(other.boottime),
            wall: self.wall.min(other.wall),
        }
    }

    /// The time since `earlier` by the monotonic clock, which never runs ahead of the true time that
    /// passed: what another's lease is judged by.
    pub fn shortest_since(&self, earlier: &Moment) -> Duration {
        self.monotonic.saturating_sub(earlier.monotonic)
    }
}
