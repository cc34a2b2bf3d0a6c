//! Looks at Releases one by one, without queues and watches: what a benchmark of the controller needs of it.

use std::fmt;
use std::sync::Arc;

use convoy_api::{Cluster, GitRepository, Release, ReleaseInventory};
use convoy_apply::{AlwaysOwn, Capabilities, Target};
use convoy_prepare::Preparer;
use convoy_render::RenderStore;
use convoy_runtime::{
    Backoff, Cause, Change, Clock, Metrics, Next, Pacer, Shards, Shutdown, Store, StoreKey, WorkQueue,
    store_key,
};
use convoy_source::{Fetcher, FetcherOptions};
use kube::Client;

use crate::access::Access;
use crate::artifacts::Artifacts;
use crate::cluster::{Circuits, Contacts};
use crate::duties::Duties;
use crate::host::Host;
use crate::release::dependents::Dependents;
use crate::release::index::InventoryIndex;
use crate::release::{Memory, Releases};
use crate::sources::Sources;
use crate::targets::{Connected, Targets};

/// What there is to look at. All Clusters are one target.
pub struct Given {
    /// convoy's own API server.
    pub host: Client,
    /// The target, which is in contact.
    pub target: Target,
    /// What it serves.
    pub capabilities: Arc<Capabilities>,
    /// Artifacts and bundles.
    pub store: RenderStore,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// What the caches hold.
    pub releases: Vec<Release>,
    /// What the caches hold.
    pub inventories: Vec<ReleaseInventory>,
    /// What the caches hold.
    pub clusters: Vec<Cluster>,
    /// What the caches hold.
    pub repositories: Vec<GitRepository>,
}

/// The controller of Releases, of a process that has just begun.
pub struct Looks {
    releases: Arc<Releases>,
}

impl Looks {
    /// The controller over what there is.
    pub fn at(given: Given) -> Self {
        let Given { host, target, capabilities, store, clock, .. } = given;
        let queue = || WorkQueue::new(Backoff::default(), Arc::clone(&clock));
        let (queue_of_releases, clusters) = (queue(), Store::of(given.clusters));
        let shards = Shards::all(convoy_shard::DEFAULT_SHARD_COUNT, Arc::clone(&clock));
        let duties = Duties::new(shards.clone());
        duties.open(&shards.owned());
        let index = InventoryIndex::default();
        for inventory in &given.inventories {
            let new = Some(Arc::new(inventory.clone()));
            index.follow(&Change { key: store_key(inventory), old: None, new, cause: Cause::Object });
        }
        let targets = Targets::default();
        let made_of = (String::new(), String::new());
        let connected = Connected {
            bare: target.clone(),
            target,
            pacer: Pacer::unlimited(Arc::clone(&clock)),
            capabilities,
            made_of,
        };
        for cluster in clusters.filter(|_| true) {
            targets.put(store_key(&*cluster), &connected, &(Arc::new(AlwaysOwn) as _));
        }
        let releases = Store::of(given.releases);
        let access = Access::new(
            host.clone(),
            Arc::clone(&clock),
            Shutdown::new(),
            releases.clone(),
            Arc::clone(&queue_of_releases),
        );
        let host = Host::new(host, "looks".to_owned(), shards);
        let artifacts = Artifacts::new(
            host.clone(),
            (Store::of([]), Store::of([])),
            Fetcher::new(FetcherOptions::default()),
            store.clone(),
            (WorkQueue::new(Backoff::default(), Arc::clone(&clock)), Arc::clone(&queue_of_releases)),
        );
        let circuits = Circuits::new(Arc::clone(&clock), &Metrics::default());
        let prepared = Preparer::new(host.reader.clone(), store.clone(), Arc::clone(&clock));
        let releases = Releases {
            host,
            duties,
            releases,
            inventories: Store::of(given.inventories),
            index: Arc::new(index),
            dependents: Arc::new(Dependents::new(Arc::clone(&queue_of_releases))),
            clusters,
            access,
            sources: Sources { repositories: Store::of(given.repositories), artifacts: Arc::new(artifacts) },
            targets,
            contacts: Contacts::new(queue(), circuits),
            observers: None,
            health: Arc::default(),
            store,
            queue: queue_of_releases,
            clock,
            prepared,
            memory: Default::default(),
            late: Default::default(),
            claims: Default::default(),
        };
        Self { releases: Arc::new(releases) }
    }

    /// The same process when there is something else to look at: it knows what it knew.
    pub fn go_on(&self, given: Given) -> Self {
        let next = Self::at(given);
        *next.releases.memory.lock() = self.releases.memory.lock().clone();
        next
    }

    /// Lets go of what the last looks went by, so that the next ones are whole.
    pub fn forget_rest(&self) {
        self.releases.memory.lock().values_mut().for_each(Memory::forget_rest);
    }

    /// One look, as the queue of Releases begins it.
    pub async fn look(&self, release: &StoreKey) -> Next {
        Arc::clone(&self.releases).reconcile(release.clone()).await
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("releases", &self.releases.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Looks").finish_non_exhaustive()
    }
}
