//! Limits by class, held against a model that goes through everything each time.

use proptest::prelude::*;

use super::*;

const AT_A_TIME: usize = 2;

/// Keys of class 0 have no class, as far as the limit goes.
fn class_of(key: u8) -> Option<u8> {
    Some(key % 4).filter(|class| *class != 0)
}

fn queue() -> Queue<u8> {
    let limit = ClassLimit::fixed(|key: &u8| class_of(*key), AT_A_TIME);
    Queue::new(Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(4) }).with_limit(limit)
}

#[test]
fn a_class_without_room_holds_up_no_other_and_keeps_its_order() {
    let mut queue = queue();
    let now = Duration::ZERO;
    for key in [1, 5, 9, 13, 17, 2] {
        queue.add(key);
    }
    assert_eq!([queue.next(now), queue.next(now), queue.next(now)], [Some(1), Some(5), Some(2)]);
    assert_eq!((queue.next(now), queue.ready_len()), (None, 3));
    queue.add(6);
    // The one that was first keeps its place before what came later.
    queue.done(&5);
    assert_eq!([queue.next(now), queue.next(now), queue.next(now)], [Some(9), Some(6), None]);
    queue.done(&1);
    queue.done(&9);
    assert_eq!([queue.next(now), queue.next(now)], [Some(13), Some(17)]);
    for key in [13, 17, 2, 6] {
        queue.done(&key);
    }
    assert!(queue.is_idle() && queue.classes.is_empty() && queue.open.is_empty());
}

#[test]
fn a_key_whose_class_changed_while_it_was_set_aside_leaves_the_others_their_turn() {
    let moved = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let now_moved = Arc::clone(&moved);
    let class_of = move |key: &u8| {
        let is_moved = *key == 3 && now_moved.load(std::sync::atomic::Ordering::Relaxed);
        Some(if is_moved { 200 } else { 100 })
    };
    let mut queue: Queue<u8> = Queue::new(Backoff::default()).with_limit(ClassLimit::fixed(class_of, 1));
    for key in [1, 2, 3, 4] {
        queue.add(key);
    }
    let now = Duration::ZERO;
    assert_eq!([queue.next(now), queue.next(now)], [Some(1), None]);
    queue.remove(&2);
    moved.store(true, std::sync::atomic::Ordering::Relaxed);
    queue.done(&1);
    assert_eq!([queue.next(now), queue.next(now), queue.next(now)], [Some(3), Some(4), None]);
}

/// How often a key is looked at must not depend on how many are set aside.
#[test]
fn keys_that_are_set_aside_are_not_gone_through_again_and_again() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let class_of = move |key: &u32| {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Some(u32::from(*key >= 10_000))
    };
    let mut queue: Queue<u32> = Queue::new(Backoff::default()).with_limit(ClassLimit::fixed(class_of, 4));
    (0..10_000).for_each(|key| queue.add(key));
    let now = Duration::ZERO;
    while queue.next(now).is_some() {}
    for turn in 0..1_000 {
        let key = 10_000 + turn;
        queue.add(key);
        assert_eq!(queue.next(now), Some(key));
        assert_eq!(queue.next(now), None);
        queue.done(&key);
    }
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 11_000);
}

/// What the queue is to do, without any structure: all ready keys in their order.
#[derive(Default)]
struct Model {
    ready: Vec<u8>,
    running: Vec<u8>,
    again: BTreeSet<u8>,
}

impl Model {
    fn add(&mut self, key: u8) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if !self.ready.contains(&key) {
            self.ready.push(key);
        }
    }

    fn next(&mut self) -> Option<u8> {
        let has_room = |key: u8| {
            let same = self.running.iter().filter(|running| class_of(**running) == class_of(key)).count();
            class_of(key).is_none() || same < AT_A_TIME
        };
        let position = self.ready.iter().position(|key| has_room(*key))?;
        let key = self.ready.remove(position);
        self.running.push(key);
        Some(key)
    }

    fn done(&mut self, key: u8) {
        if !self.running.contains(&key) {
            return;
        }
        self.running.retain(|running| *running != key);
        if self.again.remove(&key) {
            self.ready.push(key);
        }
    }

    fn remove(&mut self, key: u8) {
        self.ready.retain(|ready| *ready != key);
        self.again.remove(&key);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    Remove(u8),
    Retain(u8),
    Next,
    Done(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..24).prop_map(Step::Add),
        1 => (0_u8..24).prop_map(Step::Remove),
        1 => (2_u8..9).prop_map(Step::Retain),
        5 => Just(Step::Next),
        3 => (0_usize..32).prop_map(Step::Done),
    ]
}

proptest! {
    #[test]
    fn keys_come_as_a_model_without_structure_says(steps in prop::collection::vec(step(), 0..300)) {
        let mut queue = queue();
        let mut model = Model::default();
        let now = Duration::ZERO;
        for step in steps {
            match step {
                Step::Add(key) => {
                    queue.add(key);
                    model.add(key);
                }
                Step::Remove(key) => {
                    queue.remove(&key);
                    model.remove(key);
                }
                Step::Retain(number) => {
                    queue.retain(|key| key % number != 0);
                    (0..24).filter(|key| key % number == 0).for_each(|key| model.remove(key));
                }
                Step::Next => prop_assert_eq!(queue.next(now), model.next()),
                Step::Done(index) => {
                    let Some(key) = model.running.get(index % model.running.len().max(1)).copied() else {
                        continue;
                    };
                    queue.done(&key);
                    model.done(key);
                }
            }
            prop_assert_eq!(queue.ready_len(), model.ready.len());
            prop_assert_eq!(queue.running_len(), model.running.len());
        }
        for key in model.running.clone() {
            queue.done(&key);
            model.done(key);
        }
        while let Some(key) = queue.next(now) {
            prop_assert_eq!(Some(key), model.next());
            queue.done(&key);
            model.done(key);
        }
        prop_assert!(model.ready.is_empty() && queue.is_idle());
        prop_assert!(queue.classes.is_empty() && queue.open.is_empty() && queue.keys.is_empty());
    }
}

#[test]
fn the_room_of_a_class_can_change() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let room = Arc::new(AtomicUsize::new(1));
    let asked = Arc::clone(&room);
    let limit = ClassLimit {
        class_of: Arc::new(|key: &u8| Some(100 + key % 2)),
        at_a_time: Arc::new(move |class| if *class == 100 { asked.load(Ordering::Relaxed) } else { 1 }),
        slow: SlowLane::default(),
    };
    let mut queue: Queue<u8> = Queue::new(Backoff::default()).with_limit(limit);
    for key in [2, 4, 6, 8, 10, 1, 3] {
        queue.add(key);
    }
    let now = Duration::ZERO;
    assert_eq!([queue.next(now), queue.next(now), queue.next(now)], [Some(2), Some(1), None]);
    room.store(3, Ordering::Relaxed);
    queue.room_changed(&100);
    assert_eq!([queue.next(now), queue.next(now), queue.next(now)], [Some(4), Some(6), None]);
    room.store(1, Ordering::Relaxed);
    queue.room_changed(&100);
    queue.done(&2);
    queue.done(&4);
    assert_eq!(queue.next(now), None, "what runs already fills it");
    queue.done(&6);
    assert_eq!([queue.next(now), queue.next(now)], [Some(8), None]);
    // Nobody said that it changed: the next end shows it.
    room.store(2, Ordering::Relaxed);
    queue.done(&8);
    assert_eq!([queue.next(now), queue.next(now)], [Some(10), None]);
    for key in [10, 1] {
        queue.done(&key);
    }
    assert_eq!(queue.next(now), Some(3));
    queue.done(&3);
    assert!(queue.is_idle() && queue.classes.is_empty() && queue.open.is_empty());
}

fn with_slow_lane(in_total: usize) -> Queue<u8> {
    let slow = SlowLane { times: 2, in_total };
    let limit = ClassLimit { slow, ..ClassLimit::fixed(|key: &u8| class_of(*key), AT_A_TIME) };
    Queue::new(Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(4) }).with_limit(limit)
}

#[test]
fn slow_keys_leave_their_places_to_others_of_their_class_and_take_none_the_next_time() {
    let mut queue = with_slow_lane(9);
    let now = Duration::ZERO;
    let next = |queue: &mut Queue<u8>, count: usize| (0..count).map(|_| queue.next(now)).collect::<Vec<_>>();
    // All of one class.
    for key in [1, 5, 9, 13, 17, 21, 25] {
        queue.add(key);
    }
    assert_eq!(next(&mut queue, 3), [Some(1), Some(5), None]);
    queue.slow(&1);
    queue.slow(&1);
    assert_eq!(next(&mut queue, 2), [Some(9), None]);
    for key in [5, 9] {
        queue.slow(&key);
    }
    assert_eq!(next(&mut queue, 3), [Some(13), Some(17), None]);
    // There is room for four slow ones: the fifth stays where it is.
    for key in [13, 17] {
        queue.slow(&key);
    }
    assert_eq!((next(&mut queue, 2), queue.running_slow_len()), (vec![Some(21), None], 4));
    // They come again, and are begun among the slow ones, as far as these have room.
    for key in [1, 5, 17] {
        queue.add(key);
        queue.done(&key);
    }
    assert!(queue.is_slow(&1) && !queue.is_slow(&25));
    assert_eq!((next(&mut queue, 4), queue.running_slow_len()), (vec![Some(25), Some(1), Some(5), None], 4));
    // One that was quick this time is as all others the time after.
    queue.add(1);
    queue.done(&1);
    assert_eq!(next(&mut queue, 2), [Some(17), None]);
    queue.done(&25);
    assert_eq!(next(&mut queue, 1), [Some(1)]);
    for key in [1, 5, 9, 13, 17, 21] {
        queue.done(&key);
    }
    assert!(queue.is_idle() && queue.classes.is_empty() && queue.open.is_empty());
}

proptest! {
    #[test]
    fn slow_keys_keep_to_their_room_and_none_is_lost(
        steps in prop::collection::vec((step(), any::<bool>()), 0..300), in_total in 0_usize..6,
    ) {
        let mut queue = with_slow_lane(in_total);
        let now = Duration::ZERO;
        let (mut running, mut wanted) = (Vec::new(), BTreeSet::new());
        for (step, is_slow) in steps {
            match step {
                Step::Add(key) => {
                    queue.add(key);
                    wanted.insert(key);
                }
                Step::Remove(key) => {
                    queue.remove(&key);
                    wanted.remove(&key);
                }
                Step::Retain(number) => {
                    queue.retain(|key| key % number != 0);
                    wanted.retain(|key| key % number != 0);
                }
                Step::Next => {
                    if let Some(key) = queue.next(now) {
                        prop_assert!(!running.contains(&key));
                        running.push(key);
                        wanted.remove(&key);
                    }
                }
                Step::Done(_) if running.is_empty() => {}
                Step::Done(index) => {
                    let at = index % running.len();
                    if is_slow {
                        queue.slow(&running[at]);
                    } else {
                        queue.done(&running.remove(at));
                    }
                }
            }
            for class in 1..4 {
                let of = |is_slow| queue.classes.get(&Lane { class, is_slow }).map_or(0, |class| class.running);
                prop_assert!(of(false) <= AT_A_TIME && of(true) <= 2 * AT_A_TIME);
                let all = running.iter().filter(|key| class_of(**key) == Some(class)).count();
                prop_assert_eq!(of(false) + of(true), all);
            }
            prop_assert!(queue.running_slow_len() <= in_total);
        }
        for key in running {
            queue.done(&key);
        }
        while let Some(key) = queue.next(now) {
            wanted.remove(&key);
            queue.done(&key);
        }
        prop_assert!(wanted.is_empty(), "lost: {wanted:?}");
        prop_assert!(queue.is_idle() && queue.classes.is_empty() && queue.open.is_empty());
        prop_assert_eq!(queue.running_slow_len(), 0);
    }
}
