//! A clock that can be put forward.

use std::pin::Pin;
use std::time::Duration;

use convoy_runtime::{Clock, RealClock};
use jiff::Timestamp;
use tokio::sync::watch;

/// The machine's clocks, which a test can put forward.
#[derive(Debug)]
pub struct JumpingClock {
    real: RealClock,
    /// What time it was at first, where the runtime's clock is not the machine's.
    began: Option<Timestamp>,
    ahead: watch::Sender<Duration>,
}

impl Default for JumpingClock {
    fn default() -> Self {
        Self { real: RealClock::new(), began: None, ahead: watch::Sender::new(Duration::ZERO) }
    }
}

impl JumpingClock {
    /// The clock of a runtime whose time goes on by itself, at which it is `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { began: Some(now), ..Self::default() }
    }

    /// Puts both clocks forward and wakes who waits for a time that came.
    pub fn jump(&self, span: Duration) {
        self.ahead.send_modify(|ahead| *ahead += span);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        let now = self.began.map_or_else(|| self.real.now(), |began| began + self.real.monotonic());
        now + *self.ahead.borrow()
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic() + *self.ahead.borrow()
    }

    fn sleep_until<'a, 'b>(&'a self, deadline: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let mut ahead = self.ahead.subscribe();
            while self.monotonic() < deadline {
                let rest = deadline.saturating_sub(self.monotonic());
                tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    _ = ahead.changed() => {}
                }
            }
        })
    }
}
