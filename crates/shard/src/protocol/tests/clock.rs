//! The clocks of one simulated machine.

use std::time::Duration;

use crate::Moment;

#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// In thousandths of the true rate.
    rate: u32,
    /// The true time at which the clocks said `told`.
    mark: Duration,
    told: Moment,
    is_suspended: bool,
}

impl Clock {
    /// Each machine's clocks start at values of their own.
    pub(super) fn new(now: Duration, rate: u32) -> Self {
        let wall = Duration::from_secs(1_700_000_000) + now;
        let told = Moment { monotonic: now / 3, boottime: now / 2, wall };
        Self { rate, mark: now, told, is_suspended: false }
    }

    pub(super) fn moment(&self, now: Duration) -> Moment {
        let passed = now.saturating_sub(self.mark) * self.rate / 1000;
        let monotonic = if self.is_suspended { Duration::ZERO } else { passed };
        Moment {
            monotonic: self.told.monotonic + monotonic,
            boottime: self.told.boottime + passed,
            wall: self.told.wall + passed,
        }
    }

    /// The true time at which the monotonic clock says `monotonic`; none while it stands still.
    pub(super) fn when(&self, monotonic: Duration, now: Duration) -> Option<Duration> {
        if self.is_suspended {
            return None;
        }
        let left = monotonic.saturating_sub(self.told.monotonic);
        let mut at = self.mark + left * 1000 / self.rate;
        while self.moment(at).monotonic < monotonic {
            at += Duration::from_nanos(1);
        }
        Some(at.max(now))
    }

    fn set_mark(&mut self, now: Duration) {
        self.told = self.moment(now);
        self.mark = now;
    }

    pub(super) fn suspend(&mut self, now: Duration, is_suspended: bool) {
        self.set_mark(now);
        self.is_suspended = is_suspended;
    }

    pub(super) fn set_wall(&mut self, now: Duration, by: i64) {
        self.set_mark(now);
        let span = Duration::from_secs(by.unsigned_abs());
        self.told.wall = if by < 0 { self.told.wall - span } else { self.told.wall + span };
    }
}
