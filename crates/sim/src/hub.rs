//! The simulated API server that holds leases, Releases, statuses and inventories.
//!
//! One revision counter stands for etcd's. Each object has its revision as resourceVersion; writes name
//! the version they replace. Lists come from now, or from a cache that lags behind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use convoy_shard::{Lease, LeaseKey, ProcessKind, WriteError, WriteOp, Written, shard_of};

use crate::time::{Nanos, SEC};

/// Lists older than this are forgotten.
const HISTORY: Nanos = 130 * SEC;

pub(crate) const KINDS: [ProcessKind; 2] = [ProcessKind::ControllerManager, ProcessKind::Observer];

pub(crate) fn index_of(kind: ProcessKind) -> usize {
    usize::from(kind == ProcessKind::Observer)
}

pub(crate) const NAMESPACE: &str = "fleet";

pub(crate) fn cluster_name(cluster: usize) -> String {
    format!("cluster-{cluster}")
}

/// An entry of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) resource_version: String,
    pub(crate) revision: u64,
}

/// What an inventory knows of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// As it was when it was last applied with an answer.
    pub(crate) applied: Option<Entry>,
    /// Whether a request that creates it may still be under way: it was sent, or was about to be sent, and
    /// there was no answer.
    pub(crate) is_doubtful: bool,
}

/// What a writer says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) shard: u32,
    pub(crate) epoch: u64,
}

/// How often the server was restored, and the revision.
pub(crate) type Version = (u64, u64);

/// A Release with its statuses and its inventory.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) key: u32,
    pub(crate) cluster: usize,
    /// The label of its shard; none when somebody took it off.
    pub(crate) label: Option<u32>,
    pub(crate) version: Version,
    /// What is wanted.
    pub(crate) revision: u64,
    pub(crate) most_objects: u32,
    pub(crate) delivered: u64,
    pub(crate) controller: Option<Writer>,
    pub(crate) observed: u64,
    pub(crate) observer: Option<Writer>,
    pub(crate) inventory: BTreeMap<u32, Tracked>,
    pub(crate) inventory_version: u64,
    pub(crate) inventory_writer: Option<Writer>,
}

impl Release {
    /// The objects of a revision: all but one, another one each time, so that there is something to prune.
    pub(crate) fn objects_of(&self, revision: u64) -> BTreeSet<u32> {
        let most = u64::from(self.most_objects);
        (0..self.most_objects).filter(|object| most == 1 || u64::from(*object) != revision % most).collect()
    }

    /// The latest epoch that is known to have written for the shard.
    pub(crate) fn latest_epoch(&self, kind: ProcessKind, shard: u32) -> Option<u64> {
        let writers = match kind {
            ProcessKind::ControllerManager => [self.controller, self.inventory_writer],
            ProcessKind::Observer => [self.observer, None],
        };
        writers.into_iter().flatten().filter(|writer| writer.shard == shard).map(|writer| writer.epoch).max()
    }
}

/// What a replica writes about a Release.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Inventory { replaces: u64, entries: BTreeMap<u32, Tracked> },
    Delivered(u64),
    Observed(u64),
}

/// Why a report was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Conflict,
    OlderEpoch(u64),
    NotFound,
}

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) lease: Arc<Lease>,
    pub(crate) changed: Nanos,
}

pub(crate) type LeaseList = Arc<Vec<Arc<Lease>>>;

#[derive(Clone, Debug)]
struct Snapshot {
    at: Nanos,
    version: u64,
    leases: LeaseList,
}

#[derive(Clone, Debug)]
struct Backup {
    revision: u64,
    leases: [BTreeMap<LeaseKey, Stored>; 2],
    releases: BTreeMap<u32, Arc<Release>>,
}

#[derive(Debug)]
pub(crate) struct Hub {
    /// The shard count of the API server, which writes the labels.
    pub(crate) shards: NonZeroU32,
    revision: u64,
    /// How often [`Hub::restore`] was called.
    pub(crate) restores: u64,
    uids: u64,
    pub(crate) leases: [BTreeMap<LeaseKey, Stored>; 2],
    lists: [VecDeque<Snapshot>; 2],
    is_list_current: [bool; 2],
    pub(crate) releases: BTreeMap<u32, Arc<Release>>,
    backups: VecDeque<Backup>,
    /// The mutant that takes writes of older epochs.
    pub(crate) takes_older_epochs: bool,
}

impl Hub {
    pub(crate) fn new(shards: NonZeroU32, releases: BTreeMap<u32, Arc<Release>>) -> Self {
        Self {
            shards,
            revision: 1000,
            restores: 0,
            uids: 0,
            leases: Default::default(),
            lists: Default::default(),
            is_list_current: [false; 2],
            releases,
            backups: VecDeque::new(),
            takes_older_epochs: false,
        }
    }

    pub(crate) fn shard_of_cluster(&self, cluster: usize) -> u32 {
        shard_of(NAMESPACE, &cluster_name(cluster), self.shards)
    }

    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// All leases of a kind and the list's version, as they were `lag` ago.
    pub(crate) fn list(&mut self, kind: ProcessKind, lag: Nanos, now: Nanos) -> (u64, LeaseList) {
        let index = index_of(kind);
        if !self.is_list_current[index] {
            let leases: Vec<Arc<Lease>> =
                self.leases[index].values().map(|stored| Arc::clone(&stored.lease)).collect();
            let snapshot = Snapshot { at: now, version: self.revision, leases: Arc::new(leases) };
            self.lists[index].push_back(snapshot);
            self.is_list_current[index] = true;
            while self.lists[index].front().is_some_and(|oldest| oldest.at + HISTORY < now) {
                self.lists[index].pop_front();
            }
        }
        let lists = &self.lists[index];
        let then = now.saturating_sub(lag);
        let after = lists.partition_point(|list| lag == 0 || list.at <= then);
        lists
            .get(after.saturating_sub(1))
            .map_or_else(|| (self.revision, Arc::default()), |list| (list.version, Arc::clone(&list.leases)))
    }

    /// Stores a lease, whatever was there.
    pub(crate) fn put_lease(&mut self, kind: ProcessKind, mut lease: Lease, now: Nanos) -> Arc<Lease> {
        let index = index_of(kind);
        lease.resource_version = self.next_revision().to_string();
        if lease.uid.is_empty() {
            self.uids += 1;
            lease.uid = format!("uid-{}", self.uids);
        }
        let lease = Arc::new(lease);
        self.leases[index].insert(lease.key.clone(), Stored { lease: Arc::clone(&lease), changed: now });
        self.is_list_current[index] = false;
        lease
    }

    pub(crate) fn remove_lease(&mut self, kind: ProcessKind, key: &LeaseKey) {
        self.leases[index_of(kind)].remove(key);
        self.next_revision();
        self.is_list_current[index_of(kind)] = false;
    }

    pub(crate) fn write_lease(
        &mut self,
        kind: ProcessKind,
        op: WriteOp,
        lease: &Lease,
        now: Nanos,
    ) -> Result<Written, WriteError> {
        let known = self.leases[index_of(kind)].get(&lease.key).map(|stored| &stored.lease);
        match (op, known) {
            (WriteOp::Create, None) => {
                Ok(Written::Stored(self.put_lease(kind, Lease { uid: String::new(), ..lease.clone() }, now)))
            }
            (WriteOp::Update, Some(known))
                if known.resource_version == lease.resource_version && known.uid == lease.uid =>
            {
                Ok(Written::Stored(self.put_lease(kind, lease.clone(), now)))
            }
            (WriteOp::Delete, Some(known))
                if (lease.uid.is_empty() || known.uid == lease.uid)
                    && (lease.resource_version.is_empty()
                        || known.resource_version == lease.resource_version) =>
            {
                self.remove_lease(kind, &lease.key);
                Ok(Written::Deleted)
            }
            _ => Err(WriteError::Conflict),
        }
    }

    /// The epochs that the shards' leases have, by kind and shard.
    pub(crate) fn epochs(&self) -> [BTreeMap<u32, u64>; 2] {
        [0, 1].map(|index: usize| {
            let leases = self.leases[index].iter();
            let of_shards = leases.filter_map(|(key, stored)| match key {
                LeaseKey::Shard(shard) => Some((*shard, stored.lease.transitions)),
                LeaseKey::Member(_) => None,
            });
            of_shards.collect()
        })
    }

    /// The Releases that carry the label of a shard.
    pub(crate) fn list_shard(&self, shard: u32) -> Vec<Arc<Release>> {
        self.releases.values().filter(|release| release.label == Some(shard)).cloned().collect()
    }

    /// Changes a Release, whatever it is.
    pub(crate) fn change(&mut self, key: u32, change: impl FnOnce(&mut Release)) -> Option<Arc<Release>> {
        let version = (self.restores, self.next_revision());
        let release = self.releases.get_mut(&key)?;
        let release_now = Arc::make_mut(release);
        change(release_now);
        release_now.version = version;
        Some(Arc::clone(release))
    }

    pub(crate) fn report(
        &mut self,
        kind: ProcessKind,
        key: u32,
        writer: Writer,
        report: Report,
    ) -> Result<Arc<Release>, Refused> {
        let release = self.releases.get(&key).ok_or(Refused::NotFound)?;
        let stored = match &report {
            Report::Inventory { .. } => release.inventory_writer,
            Report::Delivered(_) => release.controller,
            Report::Observed(_) => release.observer,
        };
        if let Some(stored) = stored
            && stored.shard == writer.shard
            && stored.epoch > writer.epoch
            && !self.takes_older_epochs
        {
            return Err(Refused::OlderEpoch(stored.epoch));
        }
        debug_assert_eq!(kind == ProcessKind::Observer, matches!(report, Report::Observed(_)));
        if let Report::Inventory { replaces, .. } = &report
            && *replaces != release.inventory_version
        {
            return Err(Refused::Conflict);
        }
        let revision = self.revision + 1;
        self.change(key, |release| match report {
            Report::Inventory { entries, .. } => {
                release.inventory = entries;
                release.inventory_version = revision;
                release.inventory_writer = Some(writer);
            }
            Report::Delivered(delivered) => {
                release.delivered = delivered;
                release.controller = Some(writer);
            }
            Report::Observed(observed) => {
                release.observed = observed;
                release.observer = Some(writer);
            }
        })
        .ok_or(Refused::NotFound)
    }

    /// Keeps what is there, for [`Hub::restore`]; called once a minute.
    pub(crate) fn back_up(&mut self) {
        self.backups.push_back(Backup {
            revision: self.revision,
            leases: self.leases.clone(),
            releases: self.releases.clone(),
        });
        if self.backups.len() > 11 {
            self.backups.pop_front();
        }
    }

    /// All is as it was up to ten minutes ago, revisions too.
    pub(crate) fn restore(&mut self, minutes_ago: usize) -> bool {
        let index = self.backups.len().saturating_sub(minutes_ago.max(1));
        let Some(backup) = self.backups.get(index).cloned() else { return false };
        self.revision = backup.revision;
        self.restores += 1;
        // A version that comes back is as old as it was: a replica that did not look meanwhile sees no change.
        self.leases = backup.leases;
        let wanted: BTreeMap<u32, (u64, Option<u32>)> =
            self.releases.values().map(|release| (release.key, (release.revision, release.label))).collect();
        self.releases = backup.releases;
        // What people wanted meanwhile they want again.
        for (key, (revision, label)) in wanted {
            self.change(key, |release| {
                release.revision = revision;
                release.label = label;
            });
        }
        self.is_list_current = [false; 2];
        self.lists.iter_mut().for_each(VecDeque::clear);
        self.backups.truncate(index + 1);
        true
    }
}
