//! What the API server does by itself for convoy's kinds.
//!
//! - [`ShardLabels`] gives objects that were stored without the shard label, or with one of another number
//!   of shards, the right one.
//! - [`OverdueLooks`] takes the word back of Releases that no controller-manager, or no observer, looks at any more.
//!
//! Several API servers may do both at once: each write is made only if the object still is as it was read.

mod looks;
mod overdue;
mod shard_labels;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use convoy_runtime::Clock;

pub use looks::{Look, Looker, Looks, SLACK};
pub use overdue::OverdueLooks;
pub use shard_labels::ShardLabels;

/// The user, and the field manager, of these writes.
pub(crate) const USER: &str = "convoy-apiserver";

/// How long to wait before a task that broke down is started again.
const RESTART: Duration = Duration::from_secs(1);

/// Runs a task for ever: when it panics, or ends, that is logged and it starts anew.
pub async fn keep_running<F>(name: &'static str, clock: Arc<dyn Clock>, task: impl Fn() -> F + Send)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let mut running = tokio::task::JoinSet::new();
        running.spawn(task());
        // Dropping the set, as when the server stops, ends the task.
        if let Some(Err(error)) = running.join_next().await {
            tracing::error!(%error, task = name, "a task of the API server broke down and starts anew");
        }
        clock.sleep(RESTART).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use convoy_runtime::ManualClock;

    use super::*;

    #[tokio::test]
    #[allow(clippy::panic, reason = "what is tested")]
    async fn a_task_that_panics_starts_anew() {
        let clock = ManualClock::at(jiff::Timestamp::UNIX_EPOCH);
        let starts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&starts);
        let running = tokio::spawn(keep_running("broken", Arc::new(clock.clone()), move || {
            let counted = Arc::clone(&counted);
            async move {
                if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                    panic!("for once");
                }
                std::future::pending::<()>().await;
            }
        }));
        while starts.load(Ordering::SeqCst) < 2 {
            clock.advance(RESTART);
            tokio::task::yield_now().await;
        }
        running.abort();
    }
}
