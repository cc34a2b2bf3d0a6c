//! When a target was looked at, and what came of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Cluster, annotation};
use convoy_apply::Ownership;
use convoy_runtime::{StoreKey, WorkQueue};
use parking_lot::Mutex;

use super::circuits::{Circuits, Silence};
use super::status::Outcome;

/// What a look at a Cluster depended on: with another one it is looked at anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    uid: Option<String>,
    generation: Option<i64>,
    asked: Option<String>,
}

impl Cause {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let annotations = cluster.metadata.annotations.as_ref();
        Self {
            uid: cluster.metadata.uid.clone(),
            generation: cluster.metadata.generation,
            asked: annotations.and_then(|all| all.get(annotation::RECONCILE_AT)).cloned(),
        }
    }
}

/// One look at a target.
#[derive(Clone, Debug)]
pub(crate) struct Contact {
    pub(crate) cause: Cause,
    pub(crate) outcome: Outcome,
    /// Until when it need not be looked at again, in monotonic time.
    pub(crate) until: Duration,
    /// Looks in a row that failed.
    pub(crate) failures: u32,
}

/// The last look at each target of this replica. Clones share them.
#[derive(Clone)]
pub(crate) struct Contacts {
    last: Arc<Mutex<HashMap<StoreKey, (Term, Contact)>>>,
    queue: Arc<WorkQueue<StoreKey>>,
    circuits: Circuits,
}

/// A shard and its epoch.
type Term = (u32, u64);

fn term(ownership: &dyn Ownership) -> Term {
    (ownership.shard(), ownership.epoch())
}

impl Contacts {
    /// No look yet; `queue` is that of Clusters.
    pub(crate) fn new(queue: Arc<WorkQueue<StoreKey>>, circuits: Circuits) -> Self {
        Self { last: Arc::default(), queue, circuits }
    }

    pub(crate) fn circuits(&self) -> &Circuits {
        &self.circuits
    }

    /// Why a target is not asked now; none when it is.
    pub(crate) fn silence(&self, cluster: &StoreKey) -> Option<Silence> {
        self.circuits.silence(cluster)
    }

    /// The last look at a target in this term.
    pub(crate) fn last(&self, cluster: &StoreKey, ownership: &dyn Ownership) -> Option<Contact> {
        let last = self.last.lock();
        last.get(cluster).filter(|(of, _)| *of == term(ownership)).map(|(_, contact)| contact.clone())
    }

    pub(crate) fn put(&self, cluster: &StoreKey, contact: Contact, ownership: &dyn Ownership) {
        let mut last = self.last.lock();
        // After the shard was lost nobody would take it away again.
        if ownership.check().is_ok() {
            last.insert(cluster.clone(), (term(ownership), contact));
        }
    }

    pub(crate) fn remove(&self, cluster: &StoreKey) {
        self.last.lock().remove(cluster);
        self.circuits.remove(cluster);
    }

    /// Lets go of the looks at clusters that do not pass.
    pub(crate) fn retain(&self, keep: impl Fn(&StoreKey) -> bool) {
        self.last.lock().retain(|cluster, _| keep(cluster));
        self.circuits.retain(keep);
    }

    /// Whether anything is kept of a cluster.
    #[cfg(test)]
    pub(crate) fn knows(&self, cluster: &StoreKey) -> bool {
        self.last.lock().contains_key(cluster)
    }

    /// Something says that a target is not as it was when it was looked at: it is looked at again soon. After
    /// a look that failed the next one comes in its own time.
    pub(crate) fn doubt(&self, cluster: StoreKey) {
        if let Some((_, contact)) = self.last.lock().get_mut(&cluster) {
            if contact.failures > 0 {
                return;
            }
            contact.until = Duration::ZERO;
        }
        self.queue.add(cluster);
    }
}

impl fmt::Debug for Contacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contacts").field("clusters", &self.last.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use convoy_apply::AlwaysOwn;
    use convoy_runtime::{Backoff, ManualClock, Metrics};
    use jiff::Timestamp;

    use super::*;
    use crate::duties::Unowned;

    fn contact(failures: u32) -> Contact {
        let outcome = Outcome::NoContact { reason: "ClusterUnreachable", message: "no route".to_owned() };
        let cause = Cause::of(&Cluster::default());
        Contact { cause, outcome, until: Duration::from_secs(60), failures }
    }

    #[test]
    fn a_doubt_brings_the_next_look_and_a_lost_shard_keeps_nothing() {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let circuits = Circuits::new(clock.clone(), &Metrics::default());
        let contacts = Contacts::new(WorkQueue::new(Backoff::default(), clock), circuits);
        let key = StoreKey::new("team", "prod");
        let until = |contacts: &Contacts| contacts.last(&key, &AlwaysOwn).unwrap().until;
        contacts.put(&key, contact(2), &AlwaysOwn);
        contacts.doubt(key.clone());
        assert_eq!((until(&contacts), contacts.queue.depth()), (Duration::from_secs(60), (0, 0)));
        contacts.put(&key, contact(0), &AlwaysOwn);
        contacts.doubt(key.clone());
        assert_eq!((until(&contacts), contacts.queue.depth()), (Duration::ZERO, (1, 0)));
        // Another term knows nothing of it, and does not keep what comes too late.
        assert!(contacts.last(&key, &Unowned { shard: 3 }).is_none());
        contacts.retain(|_| false);
        contacts.put(&key, contact(0), &Unowned { shard: 0 });
        assert!(contacts.last(&key, &AlwaysOwn).is_none());
    }
}
