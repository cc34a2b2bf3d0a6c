//! The driver of a [`Queue`].

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::{Backoff, ClassLimit, Clock, Queue, Shutdown};

/// What is to happen with a key after it was worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until it is added again.
    Done,
    /// It went well; look again after a while.
    After(Duration),
    /// It failed; try again after its back-off.
    Retry,
    /// It cannot go on now, for a reason that is no failure of its own; look again after a while and
    /// keep the count of failures.
    Wait(Duration),
}

/// A [`Queue`] that tasks share.
pub struct WorkQueue<K> {
    queue: Mutex<Queue<K>>,
    changed: Notify,
    clock: Arc<dyn Clock>,
}

impl<K: Clone + Eq + Hash + Send + 'static> WorkQueue<K> {
    /// An empty queue.
    pub fn new(backoff: Backoff, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { queue: Mutex::new(Queue::new(backoff)), changed: Notify::new(), clock })
    }

    /// An empty queue with a limit for each class of keys.
    pub fn limited(backoff: Backoff, limit: ClassLimit<K>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let queue = Queue::new(backoff).with_limit(limit);
        Arc::new(Self { queue: Mutex::new(queue), changed: Notify::new(), clock })
    }

    /// See [`Queue::add`].
    pub fn add(&self, key: K) {
        self.queue.lock().add(key);
        self.changed.notify_one();
    }

    /// See [`Queue::add_after`].
    pub fn add_after(&self, key: K, delay: Duration) {
        self.queue.lock().add_after(key, delay, self.clock.monotonic());
        self.changed.notify_one();
    }

    /// See [`Queue::room_changed`].
    pub fn room_changed(&self, class: &K) {
        self.queue.lock().room_changed(class);
        self.changed.notify_one();
    }

    /// See [`Queue::slow`].
    pub fn slow(&self, key: &K) {
        self.queue.lock().slow(key);
        self.changed.notify_one();
    }

    /// See [`Queue::is_slow`].
    pub fn is_slow(&self, key: &K) -> bool {
        self.queue.lock().is_slow(key)
    }

    /// See [`Queue::remove`].
    pub fn remove(&self, key: &K) {
        self.queue.lock().remove(key);
    }

    /// See [`Queue::retain`].
    pub fn retain(&self, keep: impl Fn(&K) -> bool) {
        self.queue.lock().retain(keep);
    }

    /// How many keys are ready and how many running.
    pub fn depth(&self) -> (usize, usize) {
        let queue = self.queue.lock();
        (queue.ready_len(), queue.running_len())
    }

    /// Works on keys, at most `concurrency` at a time and the slow ones, until shutdown; then waits for what is running.
    /// A panic of `work` ends only the work on that key, which counts as failed.
    pub async fn run<F, W>(self: Arc<Self>, concurrency: usize, shutdown: Shutdown, work: F)
    where
        F: Fn(K) -> W + Send + Sync + 'static,
        W: Future<Output = Next> + Send + 'static,
    {
        let mut tasks: JoinSet<()> = JoinSet::new();
        loop {
            while self.has_room(concurrency) {
                let Some(key) = self.queue.lock().next(self.clock.monotonic()) else { break };
                let running = Running { queue: Arc::clone(&self), key, next: Next::Retry };
                let future = work(running.key.clone());
                tasks.spawn(async move {
                    let mut running = running;
                    running.next = future.await;
                });
            }
            let due = self.queue.lock().next_due();
            let has_room = self.has_room(concurrency);
            let until_due = async {
                match due.filter(|_| has_room) {
                    Some(due) => self.clock.sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.wait() => break,
                () = self.changed.notified() => {}
                () = until_due => {}
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                    if let Err(error) = ended.map_err(|error| error.is_panic())
                        && error {
                            tracing::error!("a reconcile panicked; it will be tried again");
                        }
                }
            }
        }
        while tasks.join_next().await.is_some() {}
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> WorkQueue<K> {
    fn has_room(&self, concurrency: usize) -> bool {
        let queue = self.queue.lock();
        queue.running_len() - queue.running_slow_len() < concurrency
    }
}

/// Gives the key back to the queue when the work on it ended, in whatever way.
struct Running<K: Clone + Eq + Hash + Send + 'static> {
    queue: Arc<WorkQueue<K>>,
    key: K,
    next: Next,
}

impl<K: Clone + Eq + Hash + Send + 'static> Drop for Running<K> {
    fn drop(&mut self) {
        let now = self.queue.clock.monotonic();
        let mut queue = self.queue.queue.lock();
        match self.next {
            Next::Done => queue.forget_failures(&self.key),
            Next::After(delay) => {
                queue.forget_failures(&self.key);
                queue.add_after(self.key.clone(), delay, now);
            }
            Next::Retry => {
                queue.add_failed(self.key.clone(), now);
            }
            Next::Wait(delay) => queue.add_after(self.key.clone(), delay, now),
        }
        queue.done(&self.key);
        drop(queue);
        self.queue.changed.notify_one();
    }
}

impl<K> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio::sync::mpsc;

    use super::*;
    use crate::ManualClock;

    #[tokio::test]
    async fn keys_are_worked_on_again_after_a_delay_and_a_panic_harms_no_other() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let queue = WorkQueue::new(Backoff::default(), Arc::new(clock.clone()));
        let shutdown = Shutdown::new();
        let (seen, mut worked_on) = mpsc::unbounded_channel();
        let runner = tokio::spawn(Arc::clone(&queue).run(2, shutdown.clone(), move |key: u32| {
            let seen = seen.clone();
            async move {
                seen.send(key).unwrap();
                assert_ne!(key, 13, "unlucky");
                Next::After(Duration::from_secs(60))
            }
        }));
        queue.add(13);
        queue.add(7);
        assert_eq!((worked_on.recv().await, worked_on.recv().await), (Some(13), Some(7)));
        while queue.depth().1 > 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(2));
        assert_eq!(worked_on.recv().await, Some(13), "a panic counts as a failure");
        while queue.depth().1 > 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(59));
        let mut rest = [worked_on.recv().await, worked_on.recv().await];
        rest.sort_unstable();
        assert_eq!(rest, [Some(7), Some(13)]);
        shutdown.trigger();
        runner.await.unwrap();
    }
}
