//! Time as an argument.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use convoy_shard::Moment;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// What time it is, and how to wait. Drivers take one; pure code takes the values.
#[async_trait]
pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    /// The wall clock; it may jump.
    fn now(&self) -> Timestamp;

    /// Time since an arbitrary start; it never goes back.
    fn monotonic(&self) -> Duration;

    /// All clocks at once, for leases.
    fn moment(&self) -> Moment {
        let monotonic = self.monotonic();
        Moment { monotonic, boottime: monotonic, wall: since_epoch(self.now()) }
    }

    /// Waits until [`Clock::monotonic`] is at least `deadline`.
    async fn sleep_until(&self, deadline: Duration);

    /// Waits for a span.
    async fn sleep(&self, span: Duration) {
        self.sleep_until(self.monotonic().saturating_add(span)).await;
    }
}

fn since_epoch(now: Timestamp) -> Duration {
    u64::try_from(now.as_millisecond()).map_or(Duration::ZERO, Duration::from_millis)
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct RealClock {
    start: tokio::time::Instant,
}

impl RealClock {
    /// A clock whose monotonic time starts now.
    #[allow(clippy::new_without_default, reason = "reading the clock is no default")]
    pub fn new() -> Self {
        Self { start: tokio::time::Instant::now() }
    }
}

#[async_trait]
impl Clock for RealClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that asks the machine")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn moment(&self) -> Moment {
        let boottime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let boottime = Duration::new(
            u64::try_from(boottime.tv_sec).unwrap_or(0),
            u32::try_from(boottime.tv_nsec).unwrap_or(0),
        );
        Moment { monotonic: self.monotonic(), boottime, wall: since_epoch(self.now()) }
    }

    async fn sleep_until(&self, deadline: Duration) {
        tokio::time::sleep_until(self.start + deadline).await;
    }
}

/// A clock that moves only when told to.
#[derive(Clone, Debug)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<(Timestamp, Duration)>,
    moved: Notify,
}

impl ManualClock {
    /// A clock that stands at this wall time, with monotonic time zero.
    pub fn at(now: Timestamp) -> Self {
        Self { inner: Arc::new(Inner { state: Mutex::new((now, Duration::ZERO)), moved: Notify::new() }) }
    }

    /// Moves both times forward and wakes who waits for a time that has come.
    pub fn advance(&self, span: Duration) {
        {
            let mut state = self.inner.state.lock();
            state.0 = state
                .0
                .saturating_add(SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX))
                .unwrap_or(Timestamp::MAX);
            state.1 = state.1.saturating_add(span);
        }
        self.inner.moved.notify_waiters();
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.inner.state.lock().0
    }

    fn monotonic(&self) -> Duration {
        self.inner.state.lock().1
    }

    async fn sleep_until(&self, deadline: Duration) {
        loop {
            // Registered before the look at the time, so that no move in between is missed.
            let moved = self.inner.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.monotonic() >= deadline {
                return;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_who_waits_for_the_time_that_came() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep_until(Duration::from_secs(10)).await;
                clock.monotonic()
            }
        });
        for _ in 0..12 {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_secs(1));
        }
        assert!(sleeper.await.unwrap() >= Duration::from_secs(10));
        assert_eq!(clock.now().as_second(), 12);
    }
}
