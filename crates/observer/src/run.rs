use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Cluster, Release, ReleaseInventory};
use convoy_runtime::{
    Backoff, Clock, Next, ProcessIdentity, Readiness, Shards, Shutdown, Store, StoreKey, StoreOptions,
    Supervisor, TaskError, WorkQueue, watch_into,
};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};

use crate::clusters::{Clusters, GATHER};
use crate::status::{self, Writer};
use crate::verdict::judge;
use crate::watches::describe;

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// Clusters that are connected to at the same time.
const CONCURRENT_CLUSTERS: usize = 16;
/// Status writes under way at the same time.
const CONCURRENT_WRITES: usize = 16;
/// The part's name in readiness.
const PART: &str = "observer";

/// What an observer needs.
#[derive(Clone)]
pub struct ObserverOptions {
    /// The API server that holds convoy's objects.
    pub client: Client,
    /// Who this replica is.
    pub identity: ProcessIdentity,
    /// Which shards this replica owns.
    pub shards: Shards,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Told when the first lists have ended.
    pub readiness: Readiness,
    /// Ends the observer.
    pub shutdown: Shutdown,
}

impl std::fmt::Debug for ObserverOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObserverOptions")
            .field("identity", &self.identity)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

/// Observes until shutdown.
///
/// # Errors
/// When one of its tasks ended early, which is a defect: what can fail from outside is tried again.
pub async fn run(options: ObserverOptions) -> Result<(), TaskError> {
    let ObserverOptions { client, identity, shards, clock, readiness, shutdown } = options;
    readiness.not_ready(PART, "the first lists have not ended");
    let clusters = Arc::new(Clusters {
        host: client.clone(),
        identity: identity.clone(),
        clock: Arc::clone(&clock),
        shutdown: shutdown.clone(),
        queue: WorkQueue::new(BACKOFF, Arc::clone(&clock)),
        releases: WorkQueue::new(BACKOFF, Arc::clone(&clock)),
        state: Default::default(),
    });

    let on_release = Arc::clone(&clusters);
    let (releases, feed_releases) = watch_into::<Release>(
        client.clone(),
        StoreOptions::default(),
        Arc::clone(&clock),
        shutdown.clone(),
        move |change| on_release.releases.add_after(change.key.clone(), GATHER),
    );
    let on_inventory = Arc::clone(&clusters);
    let (inventories, feed_inventories) = watch_into::<ReleaseInventory>(
        client.clone(),
        StoreOptions::default(),
        Arc::clone(&clock),
        shutdown.clone(),
        move |change| on_inventory.inventory_changed(change),
    );
    let on_cluster = Arc::clone(&clusters);
    let (targets, feed_targets) = watch_into::<Cluster>(
        client.clone(),
        StoreOptions::default(),
        Arc::clone(&clock),
        shutdown.clone(),
        move |change| on_cluster.queue.add(change.key.clone()),
    );

    let mut tasks = Supervisor::new(shutdown.clone());
    tasks.spawn("watch of Releases", unfailing(feed_releases));
    tasks.spawn("watch of ReleaseInventories", unfailing(feed_inventories));
    tasks.spawn("watch of Clusters", unfailing(feed_targets));

    let (watched, until) = (Arc::clone(&clusters), shutdown.clone());
    let queue = Arc::clone(&clusters.queue);
    let known = targets.clone();
    tasks.spawn(
        "clusters",
        unfailing(async move {
            // A Cluster that was not listed yet is not one that does not exist.
            known.synced().await;
            let work = move |key| Arc::clone(&watched).reconcile(key, known.clone());
            queue.run(CONCURRENT_CLUSTERS, until, work).await;
        }),
    );

    let judge = Arc::new(Judge {
        host: client,
        clusters: Arc::clone(&clusters),
        releases: releases.clone(),
        replica: identity.replica_id,
        shards,
        clock,
    });
    let (queue, until) = (Arc::clone(&clusters.releases), shutdown.clone());
    tasks.spawn(
        "verdicts",
        unfailing(async move {
            queue.run(CONCURRENT_WRITES, until, move |key| Arc::clone(&judge).reconcile(key)).await;
        }),
    );

    let until = shutdown.clone();
    tasks.spawn(
        "readiness",
        unfailing(async move {
            releases.synced().await;
            inventories.synced().await;
            targets.synced().await;
            readiness.ready(PART);
            until.wait().await;
        }),
    );
    tasks.join().await
}

async fn unfailing(task: impl Future<Output = ()>) -> Result<(), Infallible> {
    task.await;
    Ok(())
}

/// Judges Releases and writes what it finds.
struct Judge {
    host: Client,
    clusters: Arc<Clusters>,
    releases: Store<Release>,
    replica: String,
    shards: Shards,
    clock: Arc<dyn Clock>,
}

impl Judge {
    async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let Some(release) = self.releases.get(&key) else { return Next::Done };
        let cluster = StoreKey::new(key.namespace.as_str(), release.spec.cluster_ref.name.as_str());
        let Some(model) = self.clusters.model(&cluster) else { return Next::Done };
        let verdict = judge(&model.lock(), &key, self.clock.monotonic());
        let Some(verdict) = verdict else { return Next::Done };
        let look_again = verdict.look_again.map_or(Next::Done, Next::After);
        if verdict.is_premature {
            return look_again;
        }
        let shard = self.shards.shard_of(&cluster.namespace, &cluster.name);
        let writer = Writer { replica: self.replica.clone(), shard };
        let Some(patch) = status::patch(&release, &verdict, &writer, self.clock.now()) else {
            return look_again;
        };
        let resource = ApiResource::erase::<Release>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.host.clone(), &key.namespace, &resource);
        let parameters = PatchParams::apply(status::MANAGER).force();
        match api.patch_status(&key.name, &parameters, &Patch::Apply(&patch)).await {
            Ok(_) => look_again,
            // Deleted meanwhile, perhaps made again: then the new one has its own events.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Next::Done,
            Err(error) => {
                tracing::warn!(release = %key, error = describe(&error), "cannot write the status of a Release");
                Next::Retry
            }
        }
    }
}
