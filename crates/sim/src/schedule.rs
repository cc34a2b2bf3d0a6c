//! What is to happen when: a heap of events in the order of true time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use parking_lot::Mutex;

use crate::time::Nanos;
use crate::world::Event;

/// Events and wake-ups to come. Equal times come in the order in which they were put in.
#[derive(Default)]
pub(crate) struct Schedule {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    heap: BinaryHeap<Reverse<Entry>>,
    next: u64,
}

pub(crate) enum Due {
    Wake(Waker),
    Event(Box<Event>),
}

struct Entry {
    at: Nanos,
    number: u64,
    due: Due,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Schedule {
    fn push(&self, at: Nanos, due: Due) {
        let mut inner = self.inner.lock();
        let number = inner.next;
        inner.next += 1;
        inner.heap.push(Reverse(Entry { at, number, due }));
    }

    pub(crate) fn wake_at(&self, at: Nanos, waker: Waker) {
        self.push(at, Due::Wake(waker));
    }

    pub(crate) fn event_at(&self, at: Nanos, event: Event) {
        self.push(at, Due::Event(Box::new(event)));
    }

    /// The next one, and its time.
    pub(crate) fn pop(&self) -> Option<(Nanos, Due)> {
        self.inner.lock().heap.pop().map(|Reverse(entry)| (entry.at, entry.due))
    }

    /// Drops all, so that nothing keeps tasks alive.
    pub(crate) fn clear(&self) {
        let heap = std::mem::take(&mut self.inner.lock().heap);
        drop(heap);
    }
}
