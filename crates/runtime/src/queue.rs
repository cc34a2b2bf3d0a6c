//! Which object is worked on next, as a pure state machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests_of_classes;

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
        let percent = 90 + u32::try_from(spread % 21).unwrap_or(10);
        self.doubled(failures).saturating_mul(percent) / 100
    }

    /// The wait after `failures` failures in a row, not spread yet.
    pub fn doubled(&self, failures: u32) -> Duration {
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(20)));
        doubled.min(self.longest)
    }
}

/// Names the class of a key; none for a key that no limit holds for.
type ClassOf<K> = Arc<dyn Fn(&K) -> Option<K> + Send + Sync>;
/// Says how many keys of a class are given out at a time.
type RoomOf<K> = Arc<dyn Fn(&K) -> usize + Send + Sync>;

/// At most so many keys of one class at a time.
pub struct ClassLimit<K> {
    /// The class of a key, named by a value of the keys' type; none for a key that no limit holds for. It is
    /// asked when a key is about to be given out, under the queue's lock: it must be quick and never touch
    /// the queue.
    pub class_of: ClassOf<K>,
    /// How many keys of a class are given out at a time, at least one. It is asked as `class_of` is; what changes its
    /// answer calls [`Queue::room_changed`].
    pub at_a_time: RoomOf<K>,
    /// How many keys are worked on beside these because they turned out to be slow.
    pub slow: SlowLane,
}

/// The room for keys whose work turned out to be slow: see [`Queue::slow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowLane {
    /// So many times the room of their class.
    pub times: usize,
    /// How many of all classes together.
    pub in_total: usize,
}

impl<K: 'static> ClassLimit<K> {
    /// The same limit for each class.
    pub fn fixed(class_of: impl Fn(&K) -> Option<K> + Send + Sync + 'static, at_a_time: usize) -> Self {
        Self {
            class_of: Arc::new(class_of),
            at_a_time: Arc::new(move |_| at_a_time),
            slow: SlowLane::default(),
        }
    }
}

impl<K> ClassLimit<K> {
    fn room(&self, lane: &Lane<K>) -> usize {
        let room = (self.at_a_time)(&lane.class).max(1);
        if lane.is_slow { room.saturating_mul(self.slow.times).min(self.slow.in_total) } else { room }
    }
}

impl<K> Clone for ClassLimit<K> {
    fn clone(&self) -> Self {
        Self { class_of: Arc::clone(&self.class_of), at_a_time: Arc::clone(&self.at_a_time), slow: self.slow }
    }
}

impl<K> fmt::Debug for ClassLimit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassLimit").finish_non_exhaustive()
    }
}

/// A queue of keys. A key is in it at most once, and is given out to one at a time: what is added
/// while it is worked on comes again when that has ended. Times are monotonic, from any start.
///
/// Keys come in the order in which they became ready. With a [`ClassLimit`] a key whose class has its number
/// of keys given out is passed over; it keeps its place before all that became ready later. It is set aside
/// when it is met, and not met again before its class has room.
///
/// A key whose work turns out to be slow can leave its place to another of its class: see [`Queue::slow`].
///
/// Its size is bounded by the number of distinct keys, which is the number of objects.
pub struct Queue<K> {
    keys: HashMap<K, State<K>>,
    // By the turn in which they became ready.
    ready: BTreeMap<u64, K>,
    next_turn: u64,
    classes: HashMap<Lane<K>, Class<K>>,
    // Classes that have room and keys set aside, by the turn of the first of these.
    open: BTreeMap<u64, Lane<K>>,
    set_aside: usize,
    limit: Option<ClassLimit<K>>,
    // Deadlines in order; the number keeps keys with equal deadlines apart.
    delayed: BTreeSet<(Duration, u64)>,
    delayed_keys: HashMap<u64, K>,
    next_ticket: u64,
    running: usize,
    running_slow: usize,
    backoff: Backoff,
}

/// A class, or the slow ones of it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Lane<K> {
    class: K,
    is_slow: bool,
}

/// The keys of one lane.
struct Class<K> {
    running: usize,
    aside: BTreeMap<u64, K>,
    /// Its entry in `open`.
    opened: Option<u64>,
}

impl<K> Default for Class<K> {
    fn default() -> Self {
        Self { running: 0, aside: BTreeMap::new(), opened: None }
    }
}

/// Where a ready key is.
#[derive(Clone)]
enum Place<K> {
    InLine,
    Aside(Lane<K>),
}

struct State<K> {
    ready: Option<(u64, Place<K>)>,
    is_running: bool,
    /// Where it runs, when a limit holds for it.
    lane: Option<Lane<K>>,
    /// Its work turned out to be slow, this time or the last.
    is_slow: bool,
    was_slow: bool,
    /// Added while it was running.
    again: bool,
    delayed: Option<(Duration, u64)>,
    failures: u32,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            ready: None,
            is_running: false,
            lane: None,
            is_slow: false,
            was_slow: false,
            again: false,
            delayed: None,
            failures: 0,
        }
    }
}

impl<K> State<K> {
    fn is_idle(&self) -> bool {
        self.ready.is_none() && !self.is_running && self.delayed.is_none() && self.failures == 0
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            keys: HashMap::new(),
            ready: BTreeMap::new(),
            next_turn: 0,
            classes: HashMap::new(),
            open: BTreeMap::new(),
            set_aside: 0,
            limit: None,
            delayed: BTreeSet::new(),
            delayed_keys: HashMap::new(),
            next_ticket: 0,
            running: 0,
            running_slow: 0,
            backoff,
        }
    }

    /// The queue with a limit for each class of keys. Call it before the first key is added.
    #[must_use]
    pub fn with_limit(mut self, limit: ClassLimit<K>) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Puts a key at the end of the line.
    fn line_up(&mut self, key: K) {
        let turn = self.next_turn;
        self.next_turn += 1;
        if let Some(state) = self.keys.get_mut(&key) {
            state.ready = Some((turn, Place::InLine));
            self.ready.insert(turn, key);
        }
    }

    /// Takes a ready key out of the line, or from where it was set aside.
    fn step_out(&mut self, key: &K) {
        match self.keys.get_mut(key).and_then(|state| state.ready.take()) {
            None => {}
            Some((turn, Place::InLine)) => {
                self.ready.remove(&turn);
            }
            Some((turn, Place::Aside(lane))) => {
                if let Some(class) = self.classes.get_mut(&lane)
                    && class.aside.remove(&turn).is_some()
                {
                    self.set_aside -= 1;
                }
                self.reopen(&lane);
            }
        }
    }

    /// Puts a class among those that have room and keys set aside, or takes it out, as it is now.
    fn reopen(&mut self, lane: &Lane<K>) {
        let Some(class) = self.classes.get_mut(lane) else { return };
        if let Some(turn) = class.opened.take() {
            self.open.remove(&turn);
        }
        let room = self.limit.as_ref().map_or(1, |limit| limit.room(lane));
        match class.aside.first_key_value() {
            Some((turn, _)) if class.running < room => {
                class.opened = Some(*turn);
                self.open.insert(*turn, lane.clone());
            }
            Some(_) => {}
            None if class.running == 0 => {
                self.classes.remove(lane);
            }
            None => {}
        }
    }

    /// The key whose turn is next, taken out of the line, with its lane. Keys whose lane has no room are
    /// set aside on the way.
    fn take_next(&mut self) -> Option<(K, Option<Lane<K>>)> {
        loop {
            let in_line = self.ready.first_key_value().map(|(turn, _)| *turn);
            let aside = self.open.first_key_value().map(|(turn, class)| (*turn, class.clone()));
            let (turn, key) = match (in_line, aside) {
                (None, None) => return None,
                (in_line, Some((turn, lane))) if in_line.is_none_or(|in_line| turn < in_line) => {
                    let key = self.classes.get_mut(&lane).and_then(|class| class.aside.remove(&turn));
                    self.set_aside -= usize::from(key.is_some());
                    self.reopen(&lane);
                    (turn, key)
                }
                _ => self.ready.pop_first().map(|(turn, key)| (turn, Some(key)))?,
            };
            let Some(key) = key else { continue };
            let Some(limit) = &self.limit else { return Some((key, None)) };
            let Some(class) = (limit.class_of)(&key) else { return Some((key, None)) };
            // What was slow is begun where it will be, if it is so again: it takes no other's place until that shows.
            let was_slow = self.keys.get(&key).is_some_and(|state| state.was_slow);
            let lane = Lane { class, is_slow: was_slow && self.running_slow < limit.slow.in_total };
            let room = limit.room(&lane);
            let class = self.classes.entry(lane.clone()).or_default();
            if class.running < room {
                class.running += 1;
                self.running_slow += usize::from(lane.is_slow);
                self.reopen(&lane);
                return Some((key, Some(lane)));
            }
            class.aside.insert(turn, key.clone());
            self.set_aside += 1;
            if let Some(state) = self.keys.get_mut(&key) {
                state.ready = Some((turn, Place::Aside(lane)));
            }
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
        } else if state.ready.is_none() {
            self.line_up(key);
        }
    }

    /// Adds a key to be worked on after a while. When it is to come earlier anyway, nothing changes.
    pub fn add_after(&mut self, key: K, delay: Duration, now: Duration) {
        let due = now.saturating_add(delay);
        let state = self.keys.entry(key.clone()).or_default();
        if state.ready.is_some() || state.again || state.delayed.is_some_and(|(earlier, _)| earlier <= due) {
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
        let is_running = state.is_running;
        self.step_out(key);
        if !is_running {
            self.keys.remove(key);
        }
    }

    /// Drops the keys that do not pass `keep`, as [`Queue::remove`] does.
    pub fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        let dropped: Vec<K> = self.keys.keys().filter(|key| !keep(key)).cloned().collect();
        for key in dropped {
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
                } else if state.ready.is_none() {
                    self.line_up(key);
                }
            }
        }
        let (key, lane) = self.take_next()?;
        let state = self.keys.entry(key.clone()).or_default();
        state.ready = None;
        state.is_running = true;
        state.lane = lane;
        self.running += 1;
        Some(key)
    }

    /// The work on a key has ended. When it was added meanwhile it is ready again.
    pub fn done(&mut self, key: &K) {
        let Some(state) = self.keys.get_mut(key).filter(|state| state.is_running) else { return };
        state.is_running = false;
        self.running -= 1;
        let lane = state.lane.take();
        state.was_slow = std::mem::take(&mut state.is_slow);
        if std::mem::take(&mut state.again) {
            self.line_up(key.clone());
        } else if state.is_idle() {
            self.keys.remove(key);
        }
        if let Some(lane) = lane {
            self.leave(&lane);
        }
    }

    fn leave(&mut self, lane: &Lane<K>) {
        if let Some(class) = self.classes.get_mut(lane) {
            class.running -= 1;
            self.running_slow -= usize::from(lane.is_slow);
        }
        self.reopen(lane);
    }

    /// The work on a key takes long: it leaves its place among those of its class to another, as far as there is
    /// room for slow ones, and does not take one the next time either. A key that is in nobody's way changes nothing.
    pub fn slow(&mut self, key: &K) {
        let Some(limit) = self.limit.clone() else { return };
        let Some(state) = self.keys.get_mut(key).filter(|state| state.is_running) else { return };
        let Some(from) = state.lane.clone() else { return };
        state.is_slow = true;
        let to = Lane { class: from.class.clone(), is_slow: true };
        if from.is_slow || self.running_slow >= limit.slow.in_total {
            return;
        }
        let class = self.classes.entry(to.clone()).or_default();
        if class.running < limit.room(&to) {
            class.running += 1;
            self.running_slow += 1;
            state.lane = Some(to.clone());
            self.leave(&from);
        }
        self.reopen(&to);
    }

    /// Whether the work on a key that runs is known to be slow, or was the last time.
    pub fn is_slow(&self, key: &K) -> bool {
        self.keys.get(key).is_some_and(|state| state.is_slow || state.was_slow)
    }

    /// Another number of keys of a class is given out at a time from now on. What is given out already stays so.
    pub fn room_changed(&mut self, class: &K) {
        for is_slow in [false, true] {
            self.reopen(&Lane { class: class.clone(), is_slow });
        }
    }

    /// When the earliest delayed key is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// How many keys wait to be given out, those with a delay left out.
    pub fn ready_len(&self) -> usize {
        self.ready.len() + self.set_aside
    }

    /// How many keys are worked on.
    pub fn running_len(&self) -> usize {
        self.running
    }

    /// How many of these are among the slow ones.
    pub fn running_slow_len(&self) -> usize {
        self.running_slow
    }

    /// Whether nothing is ready, running or delayed.
    pub fn is_idle(&self) -> bool {
        self.ready_len() == 0 && self.running == 0 && self.delayed.is_empty()
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
            .field("ready", &(self.ready.len() + self.set_aside))
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
