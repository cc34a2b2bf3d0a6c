use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{
    Cluster, DriftMode, GitRepository, HealthRuleSet, HelmRegistry, Kind, OCIRegistry, Release,
    ReleaseInventory, field_manager,
};
use convoy_apply::Ownership;
use convoy_runtime::{
    Backoff, CacheScope, Cause, Clock, HostWriter, LookedShards, MakeClient, Metrics, Next, ProcessIdentity,
    Reach, Readiness, ShardCaches, Sharded as _, Shards, Shutdown, Store, StoreKey, StoreOptions, Supervisor,
    TaskError, WorkQueue, serve_proxied, store_key, watch_into,
};
use kube::Client;

use crate::answers::{Answering, Owned, Serving, Stores};
use crate::cluster_status::{self, ClusterStatuses, SETTLED};
use crate::clusters::{Clusters, GATHER};
use crate::missing::{self, ControllerLeases};
use crate::rule_sets::RuleSetStatuses;
use crate::seen::Rules;
use crate::status::{self, Writer};
use crate::verdict::{judge, suspects};
use crate::watches::describe;

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// Clusters that are connected to at the same time.
const CONCURRENT_CLUSTERS: usize = 16;
/// Status writes under way at the same time.
const CONCURRENT_WRITES: usize = 16;
/// Until the next look when a status was refused.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(1);
/// How often the leases of controller-managers are looked at.
const LOOK_AT_LEASES: Duration = Duration::from_secs(1);
/// How often Releases are looked for that do not say yet that their controller-manager is missing.
const LOOK_FOR_UNSAID: Duration = Duration::from_secs(5);
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
    /// Which objects are cached.
    pub cache_scope: CacheScope,
    /// The leases of the controller-managers; none when there are none to see.
    pub controllers: Option<ControllerLeases>,
    /// What the apiserver is answered with; none when it does not ask.
    pub serving: Option<Serving>,
    /// How targets are reached that are in this process; none when they are over the network.
    pub targets: Option<MakeClient>,
    /// Where metrics are registered.
    pub metrics: Metrics,
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
    let ObserverOptions {
        client,
        identity,
        shards,
        cache_scope,
        controllers,
        serving,
        targets,
        metrics,
        clock,
        readiness,
        shutdown,
    } = options;
    readiness.not_ready(PART, "the first lists have not ended");
    let reach = Reach::new(identity.clone(), targets);
    let clusters = Arc::new(Clusters {
        host: client.clone(),
        reach: reach.clone(),
        clock: Arc::clone(&clock),
        shutdown: shutdown.clone(),
        shards: shards.clone(),
        queue: WorkQueue::new(BACKOFF, Arc::clone(&clock)),
        releases: WorkQueue::new(BACKOFF, Arc::clone(&clock)),
        statuses: WorkQueue::new(BACKOFF, Arc::clone(&clock)),
        health: Default::default(),
        state: Default::default(),
    });

    let caches = ShardCaches::new(
        client.clone(),
        shards.clone(),
        cache_scope,
        Arc::clone(&clock),
        shutdown.clone(),
        &metrics,
    );
    let on_release = Arc::clone(&clusters);
    let (releases, feed_releases) = caches.watch::<Release, _>(move |change| {
        if change.cause == Cause::Object {
            on_release.set_rules(&change.key, change.new.as_deref());
            on_release.releases.add_after(change.key.clone(), GATHER);
        }
    });
    let on_inventory = Arc::clone(&clusters);
    let (inventories, feed_inventories) =
        caches.watch::<ReleaseInventory, _>(move |change| on_inventory.inventory_changed(change));
    let on_cluster = Arc::clone(&clusters);
    let (targets, feed_targets) = caches.watch::<Cluster, _>(move |change| {
        if change.cause == Cause::Object {
            on_cluster.queue.add(change.key.clone());
            if change.new.as_deref().is_some_and(cluster_status::is_said) {
                on_cluster.statuses.add_after(change.key.clone(), SETTLED);
            }
        }
    });
    let looked = caches.looked();
    let statuses = WorkQueue::<StoreKey>::new(BACKOFF, Arc::clone(&clock));
    let (on_rules, to_say) = (Arc::clone(&clusters), Arc::clone(&statuses));
    let (rule_sets, feed_rule_sets) = watch_into::<HealthRuleSet>(
        client.clone(),
        StoreOptions::default(),
        Arc::clone(&clock),
        shutdown.clone(),
        move |change| {
            on_rules.rule_set_changed(change);
            to_say.add(change.key.clone());
        },
    );

    let mut tasks = Supervisor::new(shutdown.clone());
    tasks.spawn("watch of Releases", unfailing(feed_releases));
    tasks.spawn("watch of ReleaseInventories", unfailing(feed_inventories));
    tasks.spawn("watch of Clusters", unfailing(feed_targets));
    tasks.spawn("watch of HealthRuleSets", unfailing(feed_rule_sets));

    let (watched, until) = (Arc::clone(&clusters), shutdown.clone());
    let queue = Arc::clone(&clusters.queue);
    let (known, known_rules) = (targets.clone(), rule_sets.clone());
    tasks.spawn(
        "clusters",
        unfailing(async move {
            // A Cluster that was not listed yet is not one that does not exist, and objects are not judged by the
            // built-in rules first and by others a moment later.
            known.synced().await;
            known_rules.synced().await;
            let work = move |key| Arc::clone(&watched).reconcile(key, known.clone());
            queue.run(CONCURRENT_CLUSTERS, until, work).await;
        }),
    );

    let answering = match serving {
        Some(Serving { listener, tls, own, store }) => {
            let stores = Stores {
                releases: releases.clone(),
                inventories: inventories.clone(),
                clusters: targets.clone(),
                repositories: source_store::<GitRepository>(&client, &clock, &shutdown, &mut tasks),
                helm_registries: source_store::<HelmRegistry>(&client, &clock, &shutdown, &mut tasks),
                oci_registries: source_store::<OCIRegistry>(&client, &clock, &shutdown, &mut tasks),
            };
            let owned = Owned { shards: shards.clone(), looked: looked.clone(), own, scope: cache_scope };
            let answering = Arc::new(Answering::new(
                client.clone(),
                identity.clone(),
                stores,
                store,
                owned,
                Arc::clone(&clusters),
                Arc::clone(&clock),
            ));
            let server = serve_proxied(listener, tls, Arc::clone(&answering) as _, shutdown.clone());
            tasks.spawn("answers for the apiserver", server);
            Some(answering)
        }
        None => None,
    };

    let asking = answering.clone();
    let mut news = looked.news();
    let (held, until) = (Arc::clone(&clusters), shutdown.clone());
    let (known_inventories, known_releases) = (inventories.clone(), releases.clone());
    let (known_rules, of_gained, unsaid) = (rule_sets.clone(), shards.clone(), Arc::clone(&statuses));
    let known_clusters = targets.clone();
    tasks.spawn(
        "shards",
        unfailing(async move {
            loop {
                let news = tokio::select! {
                    () = until.wait() => return,
                    news = news.next() => news,
                };
                let Some(news) = news else { return };
                if let Some(answering) = &answering {
                    answering.retain_shards(|shard| !news.lost.contains_key(&shard));
                }
                news.lost.keys().for_each(|shard| held.lost(*shard));
                for shard in news.ready {
                    held.gained(shard, &known_inventories, &known_releases);
                    let of_shard = known_rules.filter(|set| set.shard(&of_gained) == shard.0);
                    of_shard.iter().for_each(|set| unsaid.add(store_key(&**set)));
                    // What an earlier owner said may not hold any more.
                    let is_said = |cluster: &Cluster| {
                        cluster.shard(&of_gained) == shard.0 && cluster_status::is_said(cluster)
                    };
                    let said = known_clusters.filter(is_said);
                    said.iter().for_each(|cluster| held.statuses.add_after(store_key(&**cluster), SETTLED));
                }
            }
        }),
    );

    if let Some(controllers) = controllers.clone() {
        let (queue, known) = (Arc::clone(&clusters.releases), releases.clone());
        let (looked, shards, clock) = (looked.clone(), shards.clone(), Arc::clone(&clock));
        let until = shutdown.clone();
        let watch = WatchControllers { controllers, queue, releases: known, looked, shards, clock };
        tasks.spawn("leases of controller-managers", unfailing(watch.run(until)));
    }

    let host = HostWriter::new(client, field_manager::OBSERVER, identity.replica_id, shards.clone());
    let (statuses, until) = (Arc::clone(&statuses), shutdown.clone());
    let say = Arc::new(RuleSetStatuses {
        host: host.clone(),
        sets: rule_sets.clone(),
        shards: shards.clone(),
        clock: Arc::clone(&clock),
    });
    tasks.spawn(
        "statuses of HealthRuleSets",
        unfailing(async move {
            statuses.run(CONCURRENT_CLUSTERS, until, move |key| Arc::clone(&say).reconcile(key)).await;
        }),
    );

    let say = Arc::new(ClusterStatuses {
        host: host.clone(),
        clusters: Arc::clone(&clusters),
        known: targets.clone(),
        looked: looked.clone(),
        shards: shards.clone(),
        clock: Arc::clone(&clock),
    });
    let (queue, until) = (Arc::clone(&clusters.statuses), shutdown.clone());
    tasks.spawn(
        "statuses of Clusters",
        unfailing(async move {
            queue.run(CONCURRENT_CLUSTERS, until, move |key| Arc::clone(&say).reconcile(key)).await;
        }),
    );

    let judge = Arc::new(Judge {
        host,
        clusters: Arc::clone(&clusters),
        releases: releases.clone(),
        shards,
        looked,
        controllers,
        answering: asking,
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
            rule_sets.synced().await;
            readiness.ready(PART);
            until.wait().await;
        }),
    );
    tasks.join().await
}

/// A store of all objects of a kind of source.
fn source_store<K>(
    client: &Client,
    clock: &Arc<dyn Clock>,
    shutdown: &Shutdown,
    tasks: &mut Supervisor,
) -> Store<K>
where
    K: Kind + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let (store, feed) =
        watch_into::<K>(client.clone(), StoreOptions::default(), Arc::clone(clock), shutdown.clone(), |_| {});
    tasks.spawn("watch of sources", unfailing(feed));
    store
}

async fn unfailing(task: impl Future<Output = ()>) -> Result<(), Infallible> {
    task.await;
    Ok(())
}

/// Has the Releases judged whose shards have lost their controller-manager.
struct WatchControllers {
    controllers: ControllerLeases,
    queue: Arc<WorkQueue<StoreKey>>,
    releases: Store<Release>,
    looked: LookedShards,
    shards: Shards,
    clock: Arc<dyn Clock>,
}

impl WatchControllers {
    async fn run(self, shutdown: Shutdown) {
        let mut missing: Vec<u32> = Vec::new();
        while !shutdown.is_triggered() {
            let held = self.looked.shards();
            let now: Vec<u32> =
                held.keys().copied().filter(|shard| self.controllers.is_missing(*shard)).collect();
            if now != missing && now.is_empty() {
                tracing::info!("a controller-manager holds each shard of this observer again");
            } else if now != missing {
                tracing::warn!(shards = ?now, "shards of this observer that no controller-manager holds");
            }
            let is_unsaid =
                |release: &Release| now.contains(&release.shard(&self.shards)) && !missing::is_said(release);
            if !now.is_empty() {
                self.releases
                    .filter(is_unsaid)
                    .iter()
                    .for_each(|release| self.queue.add(store_key(&**release)));
            }
            let wait = if now.is_empty() { LOOK_AT_LEASES } else { LOOK_FOR_UNSAID };
            missing = now;
            tokio::select! {
                () = shutdown.wait() => {}
                () = self.clock.sleep(wait) => {}
            }
        }
    }
}

/// Judges Releases and writes what it finds.
struct Judge {
    host: HostWriter,
    clusters: Arc<Clusters>,
    releases: Store<Release>,
    shards: Shards,
    looked: LookedShards,
    controllers: Option<ControllerLeases>,
    /// Asks targets; none when it has nothing to ask with.
    answering: Option<Arc<Answering>>,
    clock: Arc<dyn Clock>,
}

impl Judge {
    /// Has what seems to have drifted tried out, so that only what an apply would change is said.
    async fn confirm(&self, key: &StoreKey, release: &Release, ownership: &Arc<dyn Ownership>) {
        let (Some(answering), true) = (&self.answering, release.spec.drift_mode() != DriftMode::Ignore)
        else {
            return;
        };
        let Some(model) = self.clusters.model(&release.shard_key()) else { return };
        let suspected = {
            let model = model.lock();
            if model.unreachable.is_some() {
                return;
            }
            suspects(&model, key, self.clock.monotonic())
        };
        if suspected.is_empty() {
            return;
        }
        let rules = Rules::of_release(release);
        let said = answering.confirm((key, release), ownership, &suspected, rules.as_deref()).await;
        let mut model = model.lock();
        said.into_iter().for_each(|(id, tested)| model.tested(key, &id, tested));
    }

    async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let Some(release) = self.releases.get(&key) else { return Next::Done };
        let shard = release.shard(&self.shards);
        let Ok(ownership) = self.shards.guard(shard) else { return Next::Done };
        if !self.looked.has_looked(shard, ownership.epoch()) {
            // All of the shard is queued when it was.
            return Next::Done;
        }
        Box::pin(self.confirm(&key, &release, &ownership)).await;
        let verdict = self
            .clusters
            .model(&release.shard_key())
            .and_then(|model| judge(&model.lock(), &key, release.spec.drift_mode(), self.clock.monotonic()));
        let look_again = verdict.as_ref().and_then(|verdict| verdict.look_again);
        let verdict = verdict.filter(|verdict| !verdict.is_premature);
        let now = self.clock.now();
        let next_look = status::next_look(&release, verdict.as_ref(), now);
        let look_again = look_again.into_iter().chain(next_look).min().map_or(Next::Done, Next::After);
        let missing =
            self.controllers.as_ref().and_then(|controllers| controllers.finding(&release, shard, now));
        let writer = Writer { replica: self.host.replica().to_owned(), shard, epoch: ownership.epoch() };
        let patch = status::patch(&release, verdict.as_ref(), missing.as_ref(), &writer, now);
        let Some(patch) = patch else { return look_again };
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        match self.host.apply_status::<Release>(&*ownership, &key, uid, &patch).await {
            Ok(_) => look_again,
            // Another replica's by now.
            Err(error) if error.is_not_owner() => Next::Done,
            // Deleted meanwhile, perhaps made again: then it has its own events. But one refusal must not end the looks.
            Err(error) if error.is_stale() => Next::Wait(AFTER_A_REFUSAL),
            Err(error) => {
                tracing::warn!(release = %key, error = describe(&error), "cannot write the status of a Release");
                Next::Retry
            }
        }
    }
}
