//! The API server's part: leases with resourceVersions, and lists that may lag.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::checks::Checks;
use crate::{Lease, LeaseKey, WriteError, WriteOp, Written};

type Leases = BTreeMap<LeaseKey, Arc<Lease>>;

const HISTORY: usize = 200;

#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pub(super) leases: Leases,
    version: u64,
    uids: u64,
    /// Older states, if wanted: for lists that lag.
    pub(super) keeps_history: bool,
    history: VecDeque<(u64, Leases)>,
    /// When a lease was last written, in true time.
    pub(super) changed: BTreeMap<LeaseKey, Duration>,
}

impl Store {
    /// A store of these leases, its last version and the number of uids given out.
    pub(super) fn of(leases: Leases, (version, uids): (u64, u64)) -> Self {
        Self { leases, version, uids, ..Self::default() }
    }

    pub(super) fn parts(self) -> (Leases, (u64, u64)) {
        (self.leases, (self.version, self.uids))
    }

    pub(super) fn write(
        &mut self,
        op: WriteOp,
        lease: &Lease,
        now: Duration,
        checks: &mut Checks,
    ) -> Result<Written, WriteError> {
        let known = self.leases.get(&lease.key).cloned();
        let fits = known.as_ref().is_some_and(|known| {
            let is_free = |text: &str, known: &str| text.is_empty() || text == known;
            is_free(&lease.resource_version, &known.resource_version) && is_free(&lease.uid, &known.uid)
        });
        let accepted = match op {
            WriteOp::Create => known.is_none(),
            WriteOp::Update | WriteOp::Delete => fits,
        };
        if !accepted {
            checks.conflicts += 1;
            return Err(WriteError::Conflict);
        }
        checks.writes += 1;
        if op == WriteOp::Delete {
            let unchanged = self.changed.get(&lease.key).map(|changed| now - *changed);
            checks.deleted.push((now, lease.clone(), unchanged.unwrap_or_default()));
            self.remove(&lease.key, now);
            return Ok(Written::Deleted);
        }
        let mut stored = lease.clone();
        if op == WriteOp::Create {
            self.uids += 1;
            stored.uid = format!("uid-{}", self.uids);
        }
        self.remember();
        stored.resource_version = self.version.to_string();
        let stored = Arc::new(stored);
        self.leases.insert(lease.key.clone(), Arc::clone(&stored));
        self.changed.insert(lease.key.clone(), now);
        Ok(Written::Stored(stored))
    }

    pub(super) fn remove(&mut self, key: &LeaseKey, now: Duration) {
        if self.leases.contains_key(key) {
            self.remember();
            self.leases.remove(key);
            self.changed.insert(key.clone(), now);
        }
    }

    fn remember(&mut self) {
        if self.keeps_history {
            self.history.push_back((self.version, self.leases.clone()));
        }
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        self.version += 1;
    }

    /// All leases as they were so many versions ago.
    pub(super) fn list(&self, lag: usize) -> (u64, Vec<Arc<Lease>>) {
        let back = self.history.len().checked_sub(lag);
        match back.and_then(|index| self.history.get(index)).filter(|_| lag > 0) {
            Some((version, leases)) => (*version, leases.values().cloned().collect()),
            None => (self.version, self.leases.values().cloned().collect()),
        }
    }

    pub(super) fn snapshot(&self) -> (u64, Leases) {
        (self.version, self.leases.clone())
    }

    /// Brings a backup back: versions go back with it.
    pub(super) fn restore(&mut self, (version, leases): (u64, Leases), now: Duration) {
        self.version = version;
        self.leases = leases;
        self.history.clear();
        for key in self.leases.keys() {
            self.changed.insert(key.clone(), now);
        }
    }
}
