//! The leases as last seen, and what was already concluded from them.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::time::Duration;

use super::state::Seen;
use crate::LeaseKey;

/// The leases as last seen. Readable as a map; each change of a member lease is counted.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenLeases {
    leases: BTreeMap<LeaseKey, Seen>,
    member_changes: u64,
}

impl SeenLeases {
    pub(super) fn insert(&mut self, seen: Seen) {
        self.count(&seen.lease.key);
        match self.leases.get_mut(&seen.lease.key) {
            Some(known) => *known = seen,
            None => _ = self.leases.insert(seen.lease.key.clone(), seen),
        }
    }

    pub(super) fn remove(&mut self, key: &LeaseKey) -> Option<Seen> {
        self.count(key);
        self.leases.remove(key)
    }

    fn count(&mut self, key: &LeaseKey) {
        self.member_changes += u64::from(matches!(key, LeaseKey::Member(_)));
    }
}

impl Deref for SeenLeases {
    type Target = BTreeMap<LeaseKey, Seen>;

    fn deref(&self) -> &Self::Target {
        &self.leases
    }
}

impl PartialEq for SeenLeases {
    fn eq(&self, other: &Self) -> bool {
        self.leases == other.leases
    }
}

impl Eq for SeenLeases {}

impl Hash for SeenLeases {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.leases.hash(state);
    }
}

/// A conclusion from the member leases, which holds while none of them changes and none of them ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    member_changes: u64,
    /// On the monotonic clock.
    from: Duration,
    /// The first end of a member lease after `from`; none when there is none.
    pub(super) until: Option<Duration>,
}

impl Span {
    /// From `from` to the first of the ends after it.
    pub(super) fn new(seen: &SeenLeases, from: Duration, ends: impl Iterator<Item = Duration>) -> Self {
        let until = ends.filter(|end| *end > from).min();
        Self { member_changes: seen.member_changes, from, until }
    }

    pub(super) fn contains(&self, seen: &SeenLeases, at: Duration) -> bool {
        self.member_changes == seen.member_changes
            && self.from <= at
            && self.until.is_none_or(|until| at < until)
    }
}

/// Conclusions that would be the same if they were drawn anew. They are no part of a replica's state: two
/// replicas that differ in nothing else are equal.
#[derive(Clone, Debug, Default)]
pub(super) struct Concluded {
    /// While what peers are told of, and which shards are wanted, is as it is.
    pub(super) division: Option<Span>,
    /// The members that the shards that are wanted were divided between.
    pub(super) members: Option<Vec<String>>,
    /// Until when no other member's lease ends.
    pub(super) ends: Option<Span>,
}

impl PartialEq for Concluded {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Concluded {}

impl Hash for Concluded {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
