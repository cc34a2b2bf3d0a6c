//! What lists show of the shard leases of one process kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_shard::{Lease, LeaseKey, Moment};
use parking_lot::Mutex;

/// The shard leases of one process kind, as lists show them: which shards have a live holder, and since
/// when others have none. Clones share it.
///
/// Times are told as of the last list: a process that cannot read the leases does not take everybody for
/// dead.
#[derive(Clone, Debug, Default)]
pub struct PeerLeases {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    first: Option<Moment>,
    last: Moment,
    /// The first list after a time without one, in which nobody could renew either.
    resumed: Moment,
    seen: BTreeMap<u32, Seen>,
}

#[derive(Debug)]
struct Seen {
    uid: String,
    version: u64,
    holder: Option<String>,
    duration: Duration,
    changed: Moment,
}

impl Seen {
    fn unowned_for(&self, now: Moment) -> Duration {
        let still = now.shortest_since(&self.changed);
        if self.holder.is_some() { still.saturating_sub(self.duration) } else { still }
    }
}

impl Inner {
    fn unowned_for(&self, shard: u32) -> Option<Duration> {
        let first = self.first?;
        let gap = self.seen.get(&shard).map(|seen| seen.unowned_for(self.last));
        Some(gap.unwrap_or_else(|| self.last.shortest_since(&first)))
    }
}

impl PeerLeases {
    /// What a list would show in which one shard has a live holder; for tests.
    pub fn of(shard: u32, holder: &str) -> Self {
        let seen = Seen {
            uid: String::new(),
            version: 1,
            holder: Some(holder.to_owned()),
            duration: Duration::MAX,
            changed: Moment::default(),
        };
        let inner =
            Inner { first: Some(Moment::default()), seen: [(shard, seen)].into(), ..Inner::default() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// For how long the shard's lease has had no live holder; zero when it has one, none when no list was
    /// read yet. What was not there before this process looked counts from its first look.
    pub fn unowned_for(&self, shard: u32) -> Option<Duration> {
        self.inner.lock().unowned_for(shard)
    }

    /// Like [`PeerLeases::unowned_for`], without the time in which the API server could not be read, and
    /// before: then a holder could not renew either, and has yet to be given the time to.
    pub fn missing_for(&self, shard: u32) -> Option<Duration> {
        let inner = self.inner.lock();
        Some(inner.unowned_for(shard)?.min(inner.last.shortest_since(&inner.resumed)))
    }

    /// The live holder of the shard's lease.
    pub fn holder(&self, shard: u32) -> Option<String> {
        let inner = self.inner.lock();
        let seen = inner.seen.get(&shard)?;
        seen.unowned_for(inner.last).is_zero().then(|| seen.holder.clone())?
    }

    /// How many shards have no live holder, and for how long the worst of them has not.
    pub fn unowned(&self, shards: u32) -> (usize, Duration) {
        let inner = self.inner.lock();
        let gaps = (0..shards).filter_map(|shard| inner.unowned_for(shard)).filter(|gap| !gap.is_zero());
        gaps.fold((0, Duration::ZERO), |(count, worst), gap| (count + 1, worst.max(gap)))
    }

    /// Takes in a list. `least` is how long a lease lasts at least.
    pub(super) fn take_in<'a>(
        &self,
        leases: impl Iterator<Item = &'a Lease>,
        version: u64,
        is_consistent: bool,
        least: Duration,
        now: Moment,
    ) {
        let mut inner = self.inner.lock();
        if inner.first.is_none() || now.shortest_since(&inner.last) > least {
            inner.resumed = now;
        }
        inner.first.get_or_insert(now);
        inner.last = now;
        let mut listed = std::collections::BTreeSet::new();
        for lease in leases {
            let LeaseKey::Shard(shard) = lease.key else { continue };
            listed.insert(shard);
            let known = inner.seen.get(&shard);
            let is_same = known.is_some_and(|seen| seen.uid == lease.uid && seen.version == lease.version());
            let is_old = known.is_some_and(|seen| !is_consistent && lease.version() < seen.version);
            if is_same || is_old {
                continue;
            }
            let written = lease.duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
            // A peer of the other kind may have a longer duration; one that nobody would write is not believed.
            let duration = Duration::from_secs(written);
            let duration = if duration <= least * 10 { duration.max(least) } else { least };
            let is_still_free = lease.holder.is_none() && known.is_some_and(|seen| seen.holder.is_none());
            let changed = known.filter(|_| is_still_free).map_or(now, |seen| seen.changed);
            let seen = Seen {
                uid: lease.uid.clone(),
                version: lease.version(),
                holder: lease.holder.clone(),
                duration,
                changed,
            };
            inner.seen.insert(shard, seen);
        }
        for (shard, seen) in &mut inner.seen {
            if !listed.contains(shard) && seen.holder.is_some() && (is_consistent || version >= seen.version)
            {
                seen.holder = None;
                seen.changed = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(shard: u32, version: u64, holder: Option<&str>) -> Lease {
        Lease {
            key: LeaseKey::Shard(shard),
            uid: "u".into(),
            resource_version: version.to_string(),
            holder: holder.map(str::to_owned),
            boot_id: None,
            duration_seconds: Some(30),
            transitions: 0,
            acquired: None,
            renewed: None,
            member: None,
        }
    }

    #[test]
    fn a_gap_counts_from_the_end_of_the_lease_its_release_or_the_first_look() {
        let peers = PeerLeases::default();
        let look = |leases: &[Lease], second: u64| {
            let (least, now) = (Duration::from_secs(30), Moment::at(Duration::from_secs(second)));
            peers.take_in(leases.iter(), 100, true, least, now);
        };
        assert_eq!(peers.unowned_for(0), None);
        look(&[lease(0, 1, Some("cm-0")), lease(1, 2, None)], 100);
        assert_eq!(peers.unowned_for(0), Some(Duration::ZERO));
        look(&[lease(0, 1, Some("cm-0")), lease(1, 2, None)], 129);
        assert_eq!(peers.holder(0).as_deref(), Some("cm-0"));
        let gaps = |shard| peers.unowned_for(shard).unwrap().as_secs();
        assert_eq!((gaps(0), gaps(1), gaps(2)), (0, 29, 29));
        look(&[lease(0, 1, Some("cm-0")), lease(1, 2, None)], 135);
        assert_eq!((gaps(0), peers.holder(0)), (5, None));
        look(&[lease(0, 3, Some("cm-1")), lease(1, 2, None)], 136);
        assert_eq!((gaps(0), gaps(1)), (0, 36));
        assert_eq!(peers.unowned(3), (2, Duration::from_secs(36)));
        // Deleted: free from now on.
        look(&[lease(1, 2, None)], 140);
        look(&[lease(1, 2, None)], 143);
        assert_eq!(gaps(0), 3);
        // An API server that could not be read for longer than leases last: nobody could renew.
        let missing = |shard| peers.missing_for(shard).unwrap().as_secs();
        assert_eq!((missing(0), missing(1)), (3, 43));
        look(&[lease(1, 2, None)], 143 + 31);
        assert_eq!((gaps(1), missing(0), missing(1)), (74, 0, 0));
        look(&[lease(1, 2, None)], 143 + 33);
        assert_eq!((gaps(1), missing(0), missing(1)), (76, 2, 2));
        // A cache that is behind says nothing new.
        let now = Moment::at(Duration::from_secs(190));
        look(&[lease(0, 9, Some("cm-1")), lease(1, 2, None)], 180);
        peers.take_in([lease(0, 3, Some("cm-0"))].iter(), 4, false, Duration::from_secs(30), now);
        assert_eq!(peers.holder(0).as_deref(), Some("cm-1"));
    }
}
