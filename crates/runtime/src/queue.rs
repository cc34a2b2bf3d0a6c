//! Which object is worked on next, as a pure state machine.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// How long failed keys wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(300) }
    }
}

impl Backoff {
    /// The wait after `failures` failures in a row: doubled each time, then moved by up to a tenth up
    /// or down by `spread` (any number), so that what failed together does not come back together.
    pub fn wait(&self, failures: u32, spread: u64) -> Duration {
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(20)));
        let wait = doubled.min(self.longest);
        let percent = 90 + u32::try_from(spread % 21).unwrap_or(10);
        wait.saturating_mul(percent) / 100
    }
}

/// A queue of keys. A key is in it at most once, and is given out to one at a time: what is added
/// while it is worked on comes again when that has ended. Times are monotonic, from any start.
///
/// Its size is bounded by the number of distinct keys, which is the number of objects.
pub struct Queue<K> {
    keys: HashMap<K, State>,
    ready: VecDeque<K>,
    // Deadlines in order; the number keeps keys with equal deadlines apart.
    delayed: BTreeSet<(Duration, u64)>,
    delayed_keys: HashMap<u64, K>,
    next_ticket: u64,
    running: usize,
    backoff: Backoff,
}

#[derive(Default)]
struct State {
    is_ready: bool,
    is_running: bool,
    /// Added while it was running.
    again: bool,
    delayed: Option<(Duration, u64)>,
    failures: u32,
}

impl State {
    fn is_idle(&self) -> bool {
        !self.is_ready && !self.is_running && self.delayed.is_none() && self.failures == 0
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            keys: HashMap::new(),
            ready: VecDeque::new(),
            delayed: BTreeSet::new(),
            delayed_keys: HashMap::new(),
            next_ticket: 0,
            running: 0,
            backoff,
        }
    }

    /// Adds a key to be worked on as soon as possible. A delay it had is over.
    pub fn add(&mut self, key: K) {
        let state = self.keys.entry(key.clone()).or_default();
        if let Some(ticket) = state.delayed.take() {
            self.delayed.remove(&ticket);
            self.delayed_keys.remove(&ticket.1);
        }
        if state.is_running {
            state.again = true;
        } else if !state.is_ready {
            state.is_ready = true;
            self.ready.push_back(key);
        }
    }

    /// Adds a key to be worked on after a while. When it is to come earlier anyway, nothing changes.
    pub fn add_after(&mut self, key: K, delay: Duration, now: Duration) {
        let due = now.saturating_add(delay);
        let state = self.keys.entry(key.clone()).or_default();
        if state.is_ready || state.again || state.delayed.is_some_and(|(earlier, _)| earlier <= due) {
            return;
        }
        if let Some(ticket) = state.delayed.take() {
            self.delayed.remove(&ticket);
            self.delayed_keys.remove(&ticket.1);
        }
        let ticket = (due, self.next_ticket);
        self.next_ticket += 1;
        state.delayed = Some(ticket);
        self.delayed.insert(ticket);
        self.delayed_keys.insert(ticket.1, key);
    }

    /// Adds a key that failed, to be worked on after its back-off. Answers with the wait.
    pub fn add_failed(&mut self, key: K, now: Duration) -> Duration {
        let state = self.keys.entry(key.clone()).or_default();
        state.failures = state.failures.saturating_add(1);
        let wait = self.backoff.wait(state.failures, spread(&key, state.failures));
        self.add_after(key, wait, now);
        wait
    }

    /// Forgets the failures of a key: its next back-off is the shortest again.
    pub fn forget_failures(&mut self, key: &K) {
        if let Some(state) = self.keys.get_mut(key) {
            state.failures = 0;
            if state.is_idle() {
                self.keys.remove(key);
            }
        }
    }

    /// Drops a key that is not wanted any more. When it is running it may end, but does not come again.
    pub fn remove(&mut self, key: &K) {
        let Some(state) = self.keys.get_mut(key) else { return };
        if let Some(ticket) = state.delayed.take() {
            self.delayed.remove(&ticket);
            self.delayed_keys.remove(&ticket.1);
        }
        state.again = false;
        state.failures = 0;
        if state.is_ready {
            state.is_ready = false;
            self.ready.retain(|ready| ready != key);
        }
        if !state.is_running {
            self.keys.remove(key);
        }
    }

    /// Drops the keys that do not pass `keep`, as [`Queue::remove`] does.
    pub fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        let dropped: Vec<K> = self.keys.keys().filter(|key| !keep(key)).cloned().collect();
        if dropped.is_empty() {
            return;
        }
        self.ready.retain(|key| keep(key));
        for key in dropped {
            if let Some(state) = self.keys.get_mut(&key) {
                // It is out of `ready` already, which would else be gone through for each key.
                state.is_ready = false;
            }
            self.remove(&key);
        }
    }

    /// The next key to work on; it is running until [`Queue::done`].
    pub fn next(&mut self, now: Duration) -> Option<K> {
        while let Some(&ticket) = self.delayed.first().filter(|(due, _)| *due <= now) {
            self.delayed.remove(&ticket);
            let Some(key) = self.delayed_keys.remove(&ticket.1) else { continue };
            if let Some(state) = self.keys.get_mut(&key) {
                state.delayed = None;
                if state.is_running {
                    state.again = true;
                } else if !state.is_ready {
                    state.is_ready = true;
                    self.ready.push_back(key);
                }
            }
        }
        let key = self.ready.pop_front()?;
        let state = self.keys.entry(key.clone()).or_default();
        state.is_ready = false;
        state.is_running = true;
        self.running += 1;
        Some(key)
    }

    /// The work on a key has ended. When it was added meanwhile it is ready again.
    pub fn done(&mut self, key: &K) {
        let Some(state) = self.keys.get_mut(key).filter(|state| state.is_running) else { return };
        state.is_running = false;
        self.running -= 1;
        if std::mem::take(&mut state.again) {
            state.is_ready = true;
            self.ready.push_back(key.clone());
        } else if state.is_idle() {
            self.keys.remove(key);
        }
    }

    /// When the earliest delayed key is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// How many keys wait to be given out, those with a delay left out.
    pub fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// How many keys are worked on.
    pub fn running_len(&self) -> usize {
        self.running
    }

    /// Whether nothing is ready, running or delayed.
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.running == 0 && self.delayed.is_empty()
    }
}

fn spread<K: Hash>(key: &K, failures: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, failures).hash(&mut hasher);
    hasher.finish()
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("ready", &self.ready.len())
            .field("running", &self.running)
            .field("delayed", &self.delayed.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn queue() -> Queue<&'static str> {
        Queue::new(Backoff { first: seconds(1), longest: seconds(60) })
    }

    #[test]
    fn a_key_is_given_out_once_however_often_it_is_added() {
        let mut queue = queue();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(
            [queue.next(seconds(0)), queue.next(seconds(0)), queue.next(seconds(0))],
            [Some("a"), Some("b"), None]
        );
    }

    #[test]
    fn what_is_added_while_it_runs_comes_again_after_it_ended_and_never_beside() {
        let mut queue = queue();
        queue.add("a");
        assert_eq!(queue.next(seconds(0)), Some("a"));
        queue.add("a");
        assert_eq!(queue.next(seconds(0)), None);
        queue.done(&"a");
        assert_eq!(queue.next(seconds(0)), Some("a"));
        queue.done(&"a");
        assert!(queue.is_idle());
    }

    #[test]
    fn a_delayed_key_comes_when_due_and_the_earlier_of_two_delays_counts() {
        let mut queue = queue();
        queue.add_after("a", seconds(10), seconds(0));
        queue.add_after("a", seconds(20), seconds(0));
        assert_eq!((queue.next(seconds(9)), queue.next_due()), (None, Some(seconds(10))));
        queue.add_after("a", seconds(1), seconds(2));
        assert_eq!(queue.next_due(), Some(seconds(3)));
        assert_eq!(queue.next(seconds(3)), Some("a"));
        queue.done(&"a");
        assert_eq!((queue.next(seconds(100)), queue.is_idle()), (None, true));
    }

    #[test]
    fn adding_at_once_ends_a_delay() {
        let mut queue = queue();
        queue.add_after("a", seconds(10), seconds(0));
        queue.add("a");
        assert_eq!(queue.next(seconds(0)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.next(seconds(11)), None);
    }

    #[test]
    fn failures_wait_longer_and_longer_until_forgotten() {
        let mut queue = queue();
        let mut now = seconds(0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            queue.add("a");
            assert_eq!(queue.next(now), Some("a"));
            waits.push(queue.add_failed("a", now));
            queue.done(&"a");
            now += seconds(1000);
        }
        assert!(waits[..6].windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= seconds(66)), "{waits:?}");
        queue.forget_failures(&"a");
        assert!(queue.add_failed("a", now) <= seconds(2));
    }

    #[test]
    fn a_removed_key_does_not_come_again() {
        let mut queue = queue();
        queue.add("a");
        queue.add_after("b", seconds(1), seconds(0));
        queue.add("c");
        queue.remove(&"a");
        queue.remove(&"b");
        assert_eq!(queue.next(seconds(5)), Some("c"));
        queue.add("c");
        queue.remove(&"c");
        queue.done(&"c");
        assert_eq!((queue.next(seconds(9)), queue.is_idle()), (None, true));
    }

    #[test]
    fn keys_that_are_not_kept_leave_and_running_ones_do_not_come_again() {
        let mut queue = queue();
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
        assert_eq!(queue.next(seconds(0)), Some("a"));
        queue.add("a");
        queue.add_after("d", seconds(1), seconds(0));
        queue.add_failed("e", seconds(0));
        queue.retain(|key| *key == "b");
        queue.done(&"a");
        assert_eq!((queue.next(seconds(9)), queue.ready_len()), (Some("b"), 0));
        queue.done(&"b");
        assert!(queue.is_idle());
        assert_eq!(queue.add_failed("e", seconds(9)), Backoff::wait(&queue.backoff, 1, spread(&"e", 1)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8),
        AddAfter(u8, u64),
        Fail(u8),
        Remove(u8),
        Next,
        Done(u8),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = 0_u8..4;
        prop_oneof![
            key.clone().prop_map(Step::Add),
            (key.clone(), 0_u64..9).prop_map(|(key, delay)| Step::AddAfter(key, delay)),
            key.clone().prop_map(Step::Fail),
            key.clone().prop_map(Step::Remove),
            Just(Step::Next),
            key.prop_map(Step::Done),
            (0_u64..5).prop_map(Step::Pass),
        ]
    }

    proptest! {
        #[test]
        fn no_key_runs_twice_and_none_that_was_added_is_lost(steps in prop::collection::vec(step(), 0..200)) {
            let mut queue: Queue<u8> = Queue::new(Backoff { first: seconds(1), longest: seconds(4) });
            let mut now = seconds(0);
            let mut running = BTreeSet::new();
            let mut wanted = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Add(key) => {
                        queue.add(key);
                        wanted.insert(key);
                    }
                    Step::AddAfter(key, delay) => {
                        queue.add_after(key, seconds(delay), now);
                        wanted.insert(key);
                    }
                    Step::Fail(key) => {
                        queue.add_failed(key, now);
                        wanted.insert(key);
                    }
                    Step::Remove(key) => {
                        queue.remove(&key);
                        wanted.remove(&key);
                    }
                    Step::Next => {
                        if let Some(key) = queue.next(now) {
                            prop_assert!(running.insert(key), "{key} runs twice");
                            wanted.remove(&key);
                        }
                    }
                    Step::Done(key) => {
                        queue.done(&key);
                        running.remove(&key);
                    }
                    Step::Pass(time) => now += seconds(time),
                }
            }
            for key in std::mem::take(&mut running) {
                queue.done(&key);
            }
            now += seconds(1000);
            while let Some(key) = queue.next(now) {
                wanted.remove(&key);
                queue.done(&key);
            }
            prop_assert!(wanted.is_empty(), "lost: {wanted:?}");
            prop_assert!(queue.is_idle());
        }
    }
}
