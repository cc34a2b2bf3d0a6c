//! Looks whose requests wait long for a target's answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use convoy_apply::Patience;
use convoy_runtime::{Clock, StoreKey, WorkQueue};
use futures::future::BoxFuture;

/// How long a request may wait for its answer until the look that makes it leaves its place to other Releases of the
/// Cluster.
const PATIENCE: Duration = Duration::from_secs(2);

/// One look at one Release.
pub(crate) struct SlowLook {
    queue: Arc<WorkQueue<StoreKey>>,
    key: StoreKey,
    clock: Arc<dyn Clock>,
    is_slow: AtomicBool,
}

impl SlowLook {
    pub(crate) fn new(queue: Arc<WorkQueue<StoreKey>>, key: StoreKey, clock: Arc<dyn Clock>) -> Self {
        let is_slow = AtomicBool::new(queue.is_slow(&key));
        Self { queue, key, clock, is_slow }
    }
}

impl Patience for SlowLook {
    fn exhausted(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.clock.sleep(PATIENCE).await;
            self.is_slow.store(true, Ordering::Relaxed);
            self.queue.slow(&self.key);
        })
    }

    fn is_exhausted(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use convoy_apply::{AlwaysOwn, RequestError, Target, Transport};
    use convoy_plan::{ObjectKey, ObjectRef};
    use convoy_runtime::{Backoff, ClassLimit, ManualClock, Next, Shutdown, SlowLane};
    use http::{Request, Response};
    use kube::client::Body;
    use tokio::sync::mpsc;

    use super::*;

    /// Answers only about the object `well`.
    struct Silent;

    impl Transport for Silent {
        fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Bytes>, RequestError>> {
            let is_well = request.uri().path().ends_with("/well");
            Box::pin(async move {
                if !is_well {
                    std::future::pending::<()>().await;
                }
                Ok(Response::new(Bytes::from_static(b"{}")))
            })
        }
    }

    #[tokio::test]
    async fn looks_that_a_target_lets_wait_hold_up_no_other_of_its_cluster() {
        let clock = ManualClock::at(jiff::Timestamp::UNIX_EPOCH);
        let time: Arc<dyn Clock> = Arc::new(clock.clone());
        let of_a_cluster = ClassLimit {
            slow: SlowLane { times: 3, in_total: 128 },
            ..ClassLimit::fixed(|_: &StoreKey| Some(StoreKey::new("", "cluster")), 2)
        };
        let queue = WorkQueue::limited(Backoff::default(), of_a_cluster, Arc::clone(&time));
        let target = Target::over(Arc::new(Silent), Arc::new(AlwaysOwn));
        let (ended, mut ends) = mpsc::unbounded_channel();
        let in_queue = Arc::clone(&queue);
        let work = move |key: StoreKey| {
            let patience = SlowLook::new(Arc::clone(&in_queue), key.clone(), Arc::clone(&time));
            let (target, ended) = (target.clone().with_patience(Arc::new(patience)), ended.clone());
            async move {
                let name = key.name.to_string();
                let key = ObjectKey {
                    group: String::new(),
                    kind: "ConfigMap".into(),
                    namespace: "web".into(),
                    name,
                };
                let at = ObjectRef { key, version: "v1".to_owned(), plural: "configmaps".to_owned() };
                let _ = target.metadata(&at).await;
                let _ = ended.send(at.key.name);
                Next::Done
            }
        };
        for name in ["hooked-0", "hooked-1", "hooked-2", "well"] {
            queue.add(StoreKey::new("team", name));
        }
        let runner = tokio::spawn(Arc::clone(&queue).run(8, Shutdown::new(), work));
        let mut turns = 0;
        while queue.depth() != (2, 2) {
            tokio::task::yield_now().await;
        }
        assert!(ends.try_recv().is_err(), "it waits for those that are not answered");
        let end = loop {
            clock.advance(Duration::from_millis(100));
            tokio::task::yield_now().await;
            turns += 1;
            match ends.try_recv() {
                Ok(end) => break end,
                Err(_) => assert!(turns < 10_000, "{:?}", queue.depth()),
            }
        };
        assert_eq!(end, "well");
        assert!(turns >= 20, "not before they had waited for two seconds");
        assert!(queue.is_slow(&StoreKey::new("team", "hooked-0")));
        runner.abort();
    }
}
