//! True time, and what the clocks of one machine make of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use convoy_runtime::Clock;
use convoy_shard::Moment;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::schedule::Schedule;

/// True time, which no machine knows.
pub(crate) type Nanos = u64;

pub(crate) const MS: Nanos = 1_000_000;
pub(crate) const SEC: Nanos = 1_000 * MS;

/// Wall clocks start here: a time in 2026.
const WALL_START: Nanos = 1_795_000_000 * SEC;

/// The true time of a run.
#[derive(Debug, Default)]
pub(crate) struct Now(AtomicU64);

impl Now {
    pub(crate) fn get(&self) -> Nanos {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, now: Nanos) {
        self.0.store(now, Ordering::Relaxed);
    }
}

/// The three clocks of a machine. Rates are in thousandths of the true rate.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    since: Nanos,
    monotonic: Nanos,
    boottime: Nanos,
    wall: Nanos,
    rate: u64,
    wall_rate: u64,
    is_suspended: bool,
}

impl Clocks {
    fn at(&self, now: Nanos) -> Clocks {
        let passed = now - self.since;
        let scaled = passed / 1000 * self.rate + passed % 1000 * self.rate / 1000;
        Clocks {
            since: now,
            monotonic: self.monotonic + if self.is_suspended { 0 } else { scaled },
            boottime: self.boottime + scaled,
            wall: self.wall + passed / 1000 * self.wall_rate,
            ..*self
        }
    }
}

/// The clocks of one machine.
pub(crate) struct NodeClock {
    now: Arc<Now>,
    schedule: Arc<Schedule>,
    clocks: Mutex<Clocks>,
}

impl std::fmt::Debug for NodeClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeClock").field("clocks", &*self.clocks.lock()).finish_non_exhaustive()
    }
}

impl NodeClock {
    pub(crate) fn new(now: Arc<Now>, schedule: Arc<Schedule>, rate: u64, offset: Nanos) -> Self {
        let clocks = Clocks {
            since: now.get(),
            monotonic: offset,
            boottime: offset,
            wall: WALL_START + now.get() + offset,
            rate,
            wall_rate: rate,
            is_suspended: false,
        };
        Self { now, schedule, clocks: Mutex::new(clocks) }
    }

    pub(crate) fn rate(&self) -> u64 {
        self.clocks.lock().rate
    }

    fn change(&self, change: impl FnOnce(&mut Clocks)) {
        let mut clocks = self.clocks.lock();
        *clocks = clocks.at(self.now.get());
        change(&mut clocks);
    }

    /// The monotonic clock stands; the others go on. Whoever sleeps has to be woken afterwards.
    pub(crate) fn suspend(&self, is_suspended: bool) {
        self.change(|clocks| clocks.is_suspended = is_suspended);
    }

    /// People or NTP move the wall clock.
    pub(crate) fn step_wall(&self, by: Nanos, forward: bool) {
        self.change(|clocks| {
            clocks.wall = if forward { clocks.wall + by } else { clocks.wall.saturating_sub(by) };
        });
    }

    pub(crate) fn set_wall_rate(&self, rate: u64) {
        self.change(|clocks| clocks.wall_rate = rate);
    }

    fn monotonic_nanos(&self) -> Nanos {
        self.clocks.lock().at(self.now.get()).monotonic
    }

    /// The true time at which the monotonic clock says `deadline`, if nothing happens to it.
    fn true_time_of(&self, deadline: Nanos) -> Option<Nanos> {
        let clocks = self.clocks.lock();
        let at = clocks.at(self.now.get());
        (!clocks.is_suspended).then(|| {
            let left = deadline.saturating_sub(at.monotonic);
            at.since.saturating_add(left.saturating_mul(1000).div_ceil(clocks.rate)).saturating_add(1000)
        })
    }

    fn poll_sleep(
        &self,
        deadline: Nanos,
        registered: &mut Option<(Nanos, Waker)>,
        cx: &Context<'_>,
    ) -> Poll<()> {
        if self.monotonic_nanos() >= deadline {
            return Poll::Ready(());
        }
        if let Some(at) = self.true_time_of(deadline)
            && !registered.as_ref().is_some_and(|(known, waker)| *known == at && waker.will_wake(cx.waker()))
        {
            *registered = Some((at, cx.waker().clone()));
            self.schedule.wake_at(at, cx.waker().clone());
        }
        Poll::Pending
    }
}

#[async_trait]
impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        let wall = self.clocks.lock().at(self.now.get()).wall;
        Timestamp::from_nanosecond(i128::from(wall)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.monotonic_nanos())
    }

    fn moment(&self) -> Moment {
        let at = self.clocks.lock().at(self.now.get());
        Moment {
            monotonic: Duration::from_nanos(at.monotonic),
            boottime: Duration::from_nanos(at.boottime),
            wall: Duration::from_nanos(at.wall),
        }
    }

    async fn sleep_until(&self, deadline: Duration) {
        let deadline = Nanos::try_from(deadline.as_nanos()).unwrap_or(Nanos::MAX);
        let mut registered = None;
        std::future::poll_fn(|cx| self.poll_sleep(deadline, &mut registered, cx)).await;
    }
}
