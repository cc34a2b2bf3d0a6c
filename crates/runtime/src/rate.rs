//! How often a server is asked: a token bucket, pure, and what waits for it.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tower::{Layer, Service};

use crate::Clock;

/// So many requests per second on average, and so many at once after a time without any. Times are monotonic, from
/// any start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    qps: u32,
    burst: u32,
    /// When it is full again, if no token is taken until then.
    full_at: Duration,
}

impl TokenBucket {
    /// A full bucket; both numbers count as at least one.
    pub fn new(qps: u32, burst: u32) -> Self {
        Self { qps: qps.max(1), burst: burst.max(1), full_at: Duration::ZERO }
    }

    /// The time in which one token comes.
    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.qps
    }

    /// Takes a token; with none there, says how long until the next one comes.
    ///
    /// # Errors
    /// The wait.
    pub fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let full_at = self.full_at.max(now);
        // With one token or more, the bucket lacks one less than all at most.
        let at_most = self.interval().saturating_mul(self.burst - 1);
        match (full_at - now).checked_sub(at_most) {
            None | Some(Duration::ZERO) => {
                self.full_at = full_at.saturating_add(self.interval());
                Ok(())
            }
            Some(wait) => Err(wait),
        }
    }

    /// The bucket with other numbers. What was taken stays taken: a change gives no new burst.
    #[must_use]
    pub fn with(&self, qps: u32, burst: u32, now: Duration) -> Self {
        let mut new = Self::new(qps, burst);
        let lacks = self.full_at.saturating_sub(now).as_nanos() * u128::from(self.qps) / 1_000_000_000;
        let lacks = u32::try_from(lacks).unwrap_or(u32::MAX).min(new.burst);
        new.full_at = now.saturating_add(new.interval().saturating_mul(lacks));
        new
    }
}

/// A [`TokenBucket`] that tasks share, or no limit. Clones share it. Who waits is served in turn; a change of the limit
/// holds for those, too.
#[derive(Clone)]
pub struct Pacer {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    bucket: Mutex<Option<TokenBucket>>,
    turn: tokio::sync::Mutex<()>,
    changed: Notify,
}

impl Pacer {
    /// Without a limit.
    pub fn unlimited(clock: Arc<dyn Clock>) -> Self {
        let turn = tokio::sync::Mutex::new(());
        Self { inner: Arc::new(Inner { clock, bucket: Mutex::new(None), turn, changed: Notify::new() }) }
    }

    /// From now on `rate` holds: requests per second and at once; none for no limit.
    pub fn set(&self, rate: Option<(u32, u32)>) {
        let now = self.inner.clock.monotonic();
        let mut bucket = self.inner.bucket.lock();
        let new = rate.map(|(qps, burst)| match &*bucket {
            Some(old) => old.with(qps, burst, now),
            None => TokenBucket::new(qps, burst),
        });
        let is_same = match (&*bucket, &new) {
            (Some(old), Some(new)) => (old.qps, old.burst) == (new.qps, new.burst),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            *bucket = new;
            drop(bucket);
            self.inner.changed.notify_waiters();
        }
    }

    /// Waits until one more request may be made, which then counts as made.
    pub async fn admitted(&self) {
        if self.inner.bucket.lock().is_none() {
            return;
        }
        let _turn = self.inner.turn.lock().await;
        loop {
            // Registered before the look at the bucket, so that no change in between is missed.
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let taken = match self.inner.bucket.lock().as_mut() {
                Some(bucket) => bucket.take(self.inner.clock.monotonic()),
                None => Ok(()),
            };
            let Err(wait) = taken else { return };
            tokio::select! {
                () = self.inner.clock.sleep(wait) => {}
                () = changed => {}
            }
        }
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").field("bucket", &*self.inner.bucket.lock()).finish_non_exhaustive()
    }
}

/// Has each request of a client wait for a [`Pacer`], before any deadline of the request begins.
#[derive(Clone, Debug)]
pub(crate) struct PaceLayer(pub(crate) Pacer);

/// A client's service behind a [`Pacer`]. It takes its token when it is asked whether it is ready, which a client does
/// when it has a request, one after another.
pub(crate) struct Paced<S> {
    inner: S,
    pacer: Pacer,
    state: State,
}

enum State {
    Idle,
    Waiting(BoxFuture<'static, ()>),
    Admitted,
}

impl<S> Layer<S> for PaceLayer {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Paced { inner, pacer: self.0.clone(), state: State::Idle }
    }
}

impl<R, S: Service<R>> Service<R> for Paced<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        loop {
            match &mut self.state {
                State::Idle => {
                    let pacer = self.pacer.clone();
                    self.state = State::Waiting(Box::pin(async move { pacer.admitted().await }));
                }
                State::Waiting(waiting) => {
                    std::task::ready!(waiting.as_mut().poll(context));
                    self.state = State::Admitted;
                }
                State::Admitted => return self.inner.poll_ready(context),
            }
        }
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.state = State::Idle;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::ManualClock;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_burst_goes_at_once_and_then_one_after_another() {
        let mut bucket = TokenBucket::new(10, 3);
        let now = millis(5_000);
        let taken: Vec<_> = (0..4).map(|_| bucket.take(now)).collect();
        assert_eq!(taken, [Ok(()), Ok(()), Ok(()), Err(millis(100))]);
        assert_eq!(bucket.take(now + millis(99)), Err(millis(1)));
        assert_eq!(bucket.take(now + millis(100)), Ok(()));
        assert_eq!(bucket.take(now + millis(100)), Err(millis(100)));
        // After a pause it is full, and no fuller.
        let later = now + millis(60_000);
        let taken: Vec<_> = (0..4).map(|_| bucket.take(later)).collect();
        assert_eq!(taken, [Ok(()), Ok(()), Ok(()), Err(millis(100))]);
    }

    #[test]
    fn other_numbers_give_no_new_burst() {
        let mut bucket = TokenBucket::new(10, 4);
        let now = millis(1_000);
        for _ in 0..4 {
            bucket.take(now).unwrap();
        }
        let mut slower = bucket.with(1, 2, now);
        assert_eq!(slower.take(now), Err(millis(1_000)));
        assert_eq!(slower.take(now + millis(1_000)), Ok(()));
        let mut larger = bucket.with(10, 6, now);
        assert_eq!([larger.take(now), larger.take(now)], [Ok(()), Ok(())]);
        assert_eq!(larger.take(now), Err(millis(100)));
    }

    proptest! {
        /// In any span no more is taken than the burst and what comes in the span.
        #[test]
        fn no_span_has_more_than_its_share(
            qps in 1_u32..50, burst in 1_u32..20, waits in prop::collection::vec(0_u64..200, 1..200),
        ) {
            let mut bucket = TokenBucket::new(qps, burst);
            let mut now = Duration::ZERO;
            let mut taken = Vec::new();
            for wait in waits {
                now += millis(wait);
                match bucket.take(now) {
                    Ok(()) => taken.push(now),
                    Err(wait) => {
                        prop_assert!(wait <= Duration::from_secs(1));
                        now += wait;
                        prop_assert_eq!(bucket.take(now), Ok(()), "the wait was too short");
                        taken.push(now);
                    }
                }
            }
            for (first, from) in taken.iter().enumerate() {
                for (last, to) in taken.iter().enumerate().skip(first) {
                    let come = (*to - *from).as_secs_f64() * f64::from(qps);
                    let most = f64::from(burst) + come + 0.001;
                    prop_assert!((last - first + 1) as f64 <= most, "{first}..{last}");
                }
            }
        }
    }

    fn pacer() -> (Pacer, ManualClock) {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        (Pacer::unlimited(Arc::new(clock.clone())), clock)
    }

    #[tokio::test]
    async fn who_waits_goes_on_at_the_new_rate_when_it_changes() {
        let (pacer, clock) = pacer();
        assert!(pacer.admitted().now_or_never().is_some(), "no limit");
        pacer.set(Some((1, 1)));
        pacer.admitted().await;
        let waiting = tokio::spawn({
            let pacer = pacer.clone();
            async move { pacer.admitted().await }
        });
        tokio::task::yield_now().await;
        clock.advance(millis(500));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        pacer.set(Some((1, 1)));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the same is no change");
        pacer.set(None);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn who_gives_up_takes_nothing() {
        let (pacer, clock) = pacer();
        pacer.set(Some((1, 1)));
        pacer.admitted().await;
        assert!(pacer.admitted().now_or_never().is_none());
        clock.advance(millis(1_000));
        assert!(pacer.admitted().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_client_behind_a_pacer_is_as_fast_as_that() {
        let (pacer, clock) = pacer();
        pacer.set(Some((10, 2)));
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let inner = tower::service_fn(move |(): ()| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, std::convert::Infallible>(()) }
        });
        let mut service = PaceLayer(pacer).layer(inner);
        for _ in 0..2 {
            std::future::poll_fn(|context| Service::<()>::poll_ready(&mut service, context)).await.unwrap();
            service.call(()).await.unwrap();
        }
        let ready = |service: &mut _| {
            std::future::poll_fn(|context| Service::<()>::poll_ready(service, context))
                .now_or_never()
                .is_some()
        };
        assert!(!ready(&mut service));
        clock.advance(millis(99));
        assert!(!ready(&mut service));
        clock.advance(millis(1));
        // Asked twice, it takes one token.
        assert!(ready(&mut service) && ready(&mut service));
        service.call(()).await.unwrap();
        assert!(!ready(&mut service));
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }
}
