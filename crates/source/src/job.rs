use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Failure;

/// How long one fetch may go on.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    timeout: Duration,
    deadline: Instant,
    cancelled: Arc<AtomicBool>,
    /// The same for what waits asynchronously.
    token: CancellationToken,
}

impl Job {
    pub(crate) fn start(timeout: Duration) -> Self {
        Self {
            timeout,
            deadline: Instant::now() + timeout,
            cancelled: Arc::default(),
            token: CancellationToken::new(),
        }
    }

    /// The time that is left, or why there is none.
    pub(crate) fn left(&self) -> Result<Duration, Failure> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Failure::Cancelled);
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.timed_out()) } else { Ok(left) }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn timed_out(&self) -> Failure {
        Failure::Timeout { seconds: self.timeout.as_secs() }
    }

    pub(crate) fn cancelled(&self) -> &AtomicBool {
        &self.cancelled
    }

    /// Comes when the time is over, or when the caller stops waiting; that is also when the fetch is done.
    pub(crate) fn over(&self) -> impl Future<Output = Failure> + Send + use<> {
        let (token, deadline, timed_out) = (self.token.clone(), self.deadline, self.timed_out());
        async move {
            tokio::select! {
                biased;
                () = token.cancelled_owned() => Failure::Cancelled,
                () = tokio::time::sleep_until(deadline) => timed_out,
            }
        }
    }

    /// Stops the job when the guard goes, that is, when the caller stops waiting.
    pub(crate) fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(Arc::clone(&self.cancelled), self.token.clone())
    }
}

pub(crate) struct CancelOnDrop(Arc<AtomicBool>, CancellationToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.cancel();
    }
}
