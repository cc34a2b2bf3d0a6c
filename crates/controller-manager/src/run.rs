//! Stores, queues and tasks.

use std::convert::Infallible;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use convoy_api::{
    Cluster, ClusterSpec, GitRepository, HealthRuleSet, HelmRegistry, Kind, OCIRegistry, Release,
    ReleaseInventory, annotation,
};
use convoy_health::RuleSets;
use convoy_prepare::Preparer;
use convoy_render::RenderStore;
use convoy_runtime::traces::{TRACES, traced};
use convoy_runtime::{
    Backoff, CacheScope, Cause, Change, ClassLimit, Clock, LookedShards, MakeClient, Metrics, Next,
    ProcessIdentity, Reach, Readiness, ShardCaches, Sharded as _, Shards, Shutdown, SlowLane, Store,
    StoreKey, StoreOptions, Supervisor, TaskError, WorkQueue, store_key, watch_into,
};
use convoy_source::{Fetcher, FetcherOptions};
use kube::Client;
use tracing::field::Empty;

use crate::access::Access;
use crate::artifacts::{Artifacts, Wanted};
use crate::cluster::{Circuits, Clusters, Contacts};
use crate::collection::{Collector, StoreCollection};
use crate::duties::Duties;
use crate::follow::{Follower, Queues, Stores};
use crate::git_repository::GitRepositories;
use crate::helm_registry::HelmRegistries;
use crate::host::Host;
use crate::observers::ObserverLeases;
use crate::oci_registry::OciRegistries;
use crate::release::Releases;
use crate::release::dependents::Dependents;
use crate::release::index::{InventoryIndex, release_of};
use crate::sources::Sources;
use crate::targets::Targets;

/// The part's name in readiness.
const PART: &str = "controller-manager";
/// How many objects of a kind are worked on at a time.
const CONCURRENT_FETCHES: usize = 8;
/// How much is fetched for Releases from registries at a time, and how much of one registry.
const CONCURRENT_ARTIFACTS: usize = 16;
const CONCURRENT_ARTIFACTS_OF_A_REGISTRY: usize = 2;
const CONCURRENT_CLUSTERS: usize = 64;
/// How many Clusters that did not answer last are looked at at a time: the other slots are for those that do.
const CONCURRENT_SILENT_CLUSTERS: usize = 16;
/// Looks at Releases mostly wait for targets; what takes the processor has a limit of its own.
const CONCURRENT_RELEASES: usize = 128;
/// Looks at Releases whose target takes long to answer a request have slots of their own, so that they hold up nobody who
/// has nothing to do with what makes it slow: a webhook that is silent, say.
const SLOW_RELEASES: SlowLane = SlowLane { times: 3, in_total: 128 };
/// When Releases come or go, their Cluster counts them after a while: then it counts once for many.
const COUNT_AFTER: Duration = Duration::from_secs(5);

/// What a controller-manager needs.
#[derive(Clone)]
pub struct Options {
    /// The API server that holds convoy's objects.
    pub client: Client,
    /// Who this replica is.
    pub identity: ProcessIdentity,
    /// Which shards this replica owns.
    pub shards: Shards,
    /// Which Releases, ReleaseInventories and Clusters are cached: `--shard-scoped-cache`.
    pub cache_scope: CacheScope,
    /// The leases of the observers; none when they cannot be missing, in standalone.
    pub observers: Option<ObserverLeases>,
    /// The store of `--render-store-url`.
    pub store: RenderStore,
    /// When and how it is collected; none when it is not.
    pub collection: Option<StoreCollection>,
    /// A folder for downloads.
    pub scratch_dir: PathBuf,
    /// How targets are reached that are in this process; none when they are over the network.
    pub targets: Option<MakeClient>,
    /// Whether GitRepositories may name `file://` URLs: in standalone only.
    pub allow_file_urls: bool,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Told when the first lists have ended.
    pub readiness: Readiness,
    /// Where the process's metrics are.
    pub metrics: Metrics,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("identity", &self.identity)
            .field("shards", &self.shards)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// Why a controller-manager ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// One of its tasks ended early, which is a defect.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// Runs all controllers until shutdown.
///
/// # Errors
/// See [`RunError`]; what can fail from outside is tried again and is no error.
pub async fn run(options: Options, shutdown: Shutdown) -> Result<(), RunError> {
    let store = options.store.clone();
    options.readiness.not_ready(PART, "the first lists have not ended");
    let mut tasks = Supervisor::new(shutdown.clone());
    let circuits = Circuits::new(Arc::clone(&options.clock), &options.metrics);
    let (queues, known) = queues(&options.clock, &circuits);
    let index = Arc::new(InventoryIndex::default());
    let known_artifacts: Arc<OnceLock<Arc<Artifacts>>> = Arc::default();
    let mut dependents = Dependents::new(Arc::clone(&queues.releases));
    if options.cache_scope == CacheScope::OwnShards {
        dependents =
            dependents.watching(options.client.clone(), Arc::clone(&options.clock), shutdown.clone());
    }
    let dependents = Arc::new(dependents);
    let health = Arc::new(RuleSets::default());
    let watched = Watched {
        queues: &queues,
        index: &index,
        dependents: &dependents,
        artifacts: &known_artifacts,
        health: &health,
    };
    let (stores, looked) = watch(&options, &shutdown, watched, &mut tasks);
    // Set once.
    let _ = known.set((stores.releases.clone(), stores.clusters.clone()));
    let targets = Targets::default();
    let contacts = Contacts::new(Arc::clone(&queues.clusters), circuits);
    let duties = Duties::new(options.shards.clone());
    let host = Host::new(options.client.clone(), options.identity.replica_id.clone(), options.shards.clone());

    let fetching = FetcherOptions {
        scratch_dir: options.scratch_dir.clone(),
        allow_file_urls: options.allow_file_urls,
        user_agent: options.identity.user_agent(),
        ..FetcherOptions::default()
    };
    let repositories = Arc::new(GitRepositories {
        host: host.clone(),
        duties: duties.clone(),
        repositories: stores.repositories.clone(),
        fetcher: Fetcher::new(fetching.clone()),
        store: store.clone(),
        clock: Arc::clone(&options.clock),
        stored: Default::default(),
    });
    let helm_registries = Arc::new(HelmRegistries {
        host: host.clone(),
        duties: duties.clone(),
        registries: stores.helm_registries.clone(),
        fetcher: Fetcher::new(fetching.clone()),
        store: store.clone(),
        clock: Arc::clone(&options.clock),
        seen: Default::default(),
    });
    let oci_registries = Arc::new(OciRegistries {
        host: host.clone(),
        duties: duties.clone(),
        registries: stores.oci_registries.clone(),
        fetcher: Fetcher::new(fetching.clone()),
        clock: Arc::clone(&options.clock),
    });
    let artifacts = Arc::new(Artifacts::new(
        host.clone(),
        (stores.helm_registries.clone(), stores.oci_registries.clone()),
        // Registries have limits of their own in the queue.
        Fetcher::new(FetcherOptions { concurrent_fetches: CONCURRENT_ARTIFACTS, ..fetching }),
        store.clone(),
        (Arc::clone(&queues.wanted), Arc::clone(&queues.releases)),
    ));
    // Set once.
    let _ = known_artifacts.set(Arc::clone(&artifacts));
    let clusters = Arc::new(Clusters {
        host: host.clone(),
        duties: duties.clone(),
        reach: Reach::new(options.identity.clone(), options.targets.clone()),
        clusters: stores.clusters.clone(),
        releases: stores.releases.clone(),
        inventories: stores.inventories.clone(),
        targets: targets.clone(),
        contacts: contacts.clone(),
        release_queue: Arc::clone(&queues.releases),
        clock: Arc::clone(&options.clock),
    });
    if let Some(settings) = options.collection {
        let (store, clock) = (store.clone(), Arc::clone(&options.clock));
        let collector =
            Collector::new(host.clone(), duties.clone(), store, clock, settings, &options.metrics);
        tasks.spawn("garbage collection", unfailing(collector.run(shutdown.clone())));
    }
    let prepared = Preparer::new(host.reader.clone(), store.clone(), Arc::clone(&options.clock));
    let releases = Arc::new(Releases {
        host,
        duties: duties.clone(),
        releases: stores.releases.clone(),
        inventories: stores.inventories.clone(),
        index,
        dependents,
        clusters: stores.clusters.clone(),
        access: Access::new(
            options.client.clone(),
            Arc::clone(&options.clock),
            shutdown.clone(),
            stores.releases.clone(),
            Arc::clone(&queues.releases),
        ),
        sources: Sources { repositories: stores.repositories.clone(), artifacts: Arc::clone(&artifacts) },
        targets: targets.clone(),
        contacts: contacts.clone(),
        observers: options.observers.clone(),
        store,
        health,
        queue: Arc::clone(&queues.releases),
        clock: Arc::clone(&options.clock),
        prepared,
        memory: Default::default(),
        late: Default::default(),
        claims: Default::default(),
    });
    let follower = Follower {
        duties,
        stores: stores.clone(),
        queues: queues.clone(),
        targets,
        contacts,
        repositories: Arc::clone(&repositories),
        helm_registries: Arc::clone(&helm_registries),
        releases: Arc::clone(&releases),
    };

    let until = &shutdown;
    work(&mut tasks, "GitRepositories", &queues.repositories, CONCURRENT_FETCHES, until, move |key| {
        Arc::clone(&repositories).reconcile(key)
    });
    work(&mut tasks, "HelmRegistries", &queues.helm_registries, CONCURRENT_FETCHES, until, move |key| {
        Arc::clone(&helm_registries).reconcile(key)
    });
    work(&mut tasks, "OCIRegistries", &queues.oci_registries, CONCURRENT_FETCHES, until, move |key| {
        Arc::clone(&oci_registries).reconcile(key)
    });
    work(&mut tasks, "artifacts", &queues.wanted, CONCURRENT_ARTIFACTS, until, move |wanted| {
        Arc::clone(&artifacts).reconcile(wanted)
    });
    work(&mut tasks, "Clusters", &queues.clusters, CONCURRENT_CLUSTERS, until, move |key| {
        Arc::clone(&clusters).reconcile(key)
    });
    work(&mut tasks, "Releases", &queues.releases, CONCURRENT_RELEASES, until, move |key| {
        Arc::clone(&releases).reconcile(key)
    });
    if let Some(observers) = options.observers.clone() {
        let (shards, queue) = (options.shards.clone(), Arc::clone(&queues.releases));
        let clock = Arc::clone(&options.clock);
        let followed = observers.follow(shards, stores.releases.clone(), queue, clock, shutdown.clone());
        tasks.spawn("observers", unfailing(followed));
    }
    let (synced, until) = (stores.clone(), shutdown.clone());
    tasks.spawn(
        "shards",
        unfailing(async move {
            // Work begins when a shard is opened: nothing that is missing then does not exist.
            synced.synced().await;
            follower.run(looked, until).await;
        }),
    );
    let (readiness, until) = (options.readiness.clone(), shutdown.clone());
    tasks.spawn(
        "readiness",
        unfailing(async move {
            stores.synced().await;
            readiness.ready(PART);
            until.wait().await;
        }),
    );
    tasks.join().await?;
    Ok(())
}

/// Works on what a queue gives out, `at_a_time` pieces at once, until shutdown.
fn work<K, F, W>(
    tasks: &mut Supervisor,
    name: &'static str,
    queue: &Arc<WorkQueue<K>>,
    at_a_time: usize,
    until: &Shutdown,
    reconcile: F,
) where
    K: Clone + Eq + Hash + std::fmt::Display + Send + 'static,
    F: Fn(K) -> W + Send + Sync + 'static,
    W: Future<Output = Next> + Send + 'static,
{
    let (queue, until) = (Arc::clone(queue), until.clone());
    let look = move |key: K| {
        let span = tracing::info_span!(target: TRACES, "reconcile", convoy.kind = name, convoy.object = %key, otel.status_code = Empty);
        traced(span, reconcile(key), |next| *next == Next::Retry)
    };
    tasks.spawn(name, unfailing(queue.run(at_a_time, until, look)));
}

async fn unfailing(task: impl Future<Output = ()>) -> Result<(), Infallible> {
    task.await;
    Ok(())
}

/// The stores that tell the Cluster of each Release, and what that says of its limits.
type Known = (Store<Release>, Store<Cluster>);

/// The queues, and where the stores go that the limit of Releases needs.
fn queues(clock: &Arc<dyn Clock>, circuits: &Circuits) -> (Queues, Arc<OnceLock<Known>>) {
    let backoff = |longest| Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(longest) };
    let repositories = WorkQueue::new(backoff(300), Arc::clone(clock));
    let helm_registries = WorkQueue::new(backoff(300), Arc::clone(clock));
    let oci_registries = WorkQueue::new(backoff(300), Arc::clone(clock));
    let of_a_registry =
        ClassLimit::fixed(|wanted: &Wanted| Some(wanted.class()), CONCURRENT_ARTIFACTS_OF_A_REGISTRY);
    let wanted = WorkQueue::limited(backoff(300), of_a_registry, Arc::clone(clock));
    let circuits = circuits.clone();
    let silent = ClassLimit::fixed(
        move |cluster: &StoreKey| circuits.silence(cluster).map(|_| StoreKey::new("", "silent")),
        CONCURRENT_SILENT_CLUSTERS,
    );
    let clusters = WorkQueue::limited(backoff(60), silent, Arc::clone(clock));
    let known: Arc<OnceLock<Known>> = Arc::default();
    let (of_release, of_cluster) = (Arc::clone(&known), Arc::clone(&known));
    let of_a_cluster = ClassLimit {
        class_of: Arc::new(move |key: &StoreKey| Some(of_release.get()?.0.get(key)?.shard_key())),
        // A target that hangs holds no more slots than this.
        at_a_time: Arc::new(move |cluster: &StoreKey| {
            let cluster = of_cluster.get().and_then(|known| known.1.get(cluster));
            cluster.map_or_else(
                || ClusterSpec::default().max_concurrent_applies(),
                |cluster| cluster.spec.max_concurrent_applies(),
            )
        }),
        slow: SLOW_RELEASES,
    };
    let releases = WorkQueue::limited(backoff(120), of_a_cluster, Arc::clone(clock));
    (Queues { repositories, helm_registries, oci_registries, wanted, clusters, releases }, known)
}

impl Stores {
    async fn synced(&self) {
        self.repositories.synced().await;
        self.helm_registries.synced().await;
        self.oci_registries.synced().await;
        self.rule_sets.synced().await;
        self.clusters.synced().await;
        self.releases.synced().await;
        self.inventories.synced().await;
    }
}

/// Who is told of changes.
#[derive(Clone, Copy)]
struct Watched<'a> {
    queues: &'a Queues,
    index: &'a Arc<InventoryIndex>,
    dependents: &'a Arc<Dependents>,
    /// Set before any shard is opened.
    artifacts: &'a Arc<OnceLock<Arc<Artifacts>>>,
    health: &'a Arc<RuleSets>,
}

/// Watches all kinds; each change wakes who has to do with it. What went because its shard was lost wakes
/// nobody.
fn watch(
    options: &Options,
    shutdown: &Shutdown,
    Watched { queues, index, dependents, artifacts, health }: Watched<'_>,
    tasks: &mut Supervisor,
) -> (Stores, LookedShards) {
    let caches = ShardCaches::new(
        options.client.clone(),
        options.shards.clone(),
        options.cache_scope,
        Arc::clone(&options.clock),
        shutdown.clone(),
        &options.metrics,
    );
    let (queue, of_clusters) = (Arc::clone(&queues.releases), Arc::clone(&queues.clusters));
    let dependents = Arc::clone(dependents);
    let (releases, feed) = caches.watch::<Release, _>(move |change| {
        dependents.follow(change);
        if change.cause == Cause::ShardLost {
            return;
        }
        queue.add(change.key.clone());
        // A Cluster says how many Releases name it.
        let named = |release: &Arc<Release>| release.shard_key();
        let (old, new) = (change.old.as_ref().map(named), change.new.as_ref().map(named));
        if old != new {
            for cluster in old.into_iter().chain(new) {
                of_clusters.add_after(cluster, COUNT_AFTER);
            }
        }
    });
    tasks.spawn("watch of Releases", unfailing(feed));

    let queue = Arc::clone(&queues.repositories);
    let (release_queue, known) = (Arc::clone(&queues.releases), releases.clone());
    let (repositories, feed) = watch_into::<GitRepository>(
        options.client.clone(),
        StoreOptions::default(),
        Arc::clone(&options.clock),
        shutdown.clone(),
        move |change| {
            if has_news(change, |new| &new.spec) {
                queue.add(change.key.clone());
            }
            let status =
                |object: &Option<Arc<GitRepository>>| object.as_ref().map(|object| object.status.clone());
            if status(&change.old) != status(&change.new) {
                wake(&release_queue, &known, &change.key, |release| {
                    let git = release.spec.source.git.as_ref();
                    git.is_some_and(|git| git.repository_ref.name == change.key.name)
                });
            }
        },
    );
    tasks.spawn("watch of GitRepositories", unfailing(feed));

    let (queue, known_artifacts) = (Arc::clone(&queues.helm_registries), Arc::clone(artifacts));
    let (helm_registries, feed) = watch_into::<HelmRegistry>(
        options.client.clone(),
        StoreOptions::default(),
        Arc::clone(&options.clock),
        shutdown.clone(),
        move |change| {
            let has_news = has_news(change, |new| &new.spec);
            if has_news {
                queue.add(change.key.clone());
            }
            let status =
                |object: &Option<Arc<HelmRegistry>>| object.as_ref().map(|object| object.status.clone());
            if (has_news || status(&change.old) != status(&change.new))
                && let Some(artifacts) = known_artifacts.get()
            {
                artifacts.registry_changed(&Wanted::AnyChart { registry: change.key.clone() });
            }
        },
    );
    tasks.spawn("watch of HelmRegistries", unfailing(feed));

    let (queue, artifacts) = (Arc::clone(&queues.oci_registries), Arc::clone(artifacts));
    let (oci_registries, feed) = watch_into::<OCIRegistry>(
        options.client.clone(),
        StoreOptions::default(),
        Arc::clone(&options.clock),
        shutdown.clone(),
        move |change| {
            if has_news(change, |new| &new.spec) {
                queue.add(change.key.clone());
                if let Some(artifacts) = artifacts.get() {
                    artifacts.registry_changed(&Wanted::AnyArtifact { registry: change.key.clone() });
                }
            }
        },
    );
    tasks.spawn("watch of OCIRegistries", unfailing(feed));

    let health = Arc::clone(health);
    let (rule_sets, feed) = watch_into::<HealthRuleSet>(
        options.client.clone(),
        StoreOptions::default(),
        Arc::clone(&options.clock),
        shutdown.clone(),
        move |change| {
            health.set(&change.key.name, change.new.as_deref().map(|set| &set.spec));
        },
    );
    tasks.spawn("watch of HealthRuleSets", unfailing(feed));

    let queue = Arc::clone(&queues.clusters);
    let (release_queue, known) = (Arc::clone(&queues.releases), releases.clone());
    let (clusters, feed) = caches.watch::<Cluster, _>(move |change| {
        if change.cause == Cause::ShardLost {
            return;
        }
        if has_news(change, |new| &new.spec) {
            queue.add(change.key.clone());
        }
        let room = |object: &Option<Arc<Cluster>>| {
            object.as_ref().map(|cluster| cluster.spec.max_concurrent_applies())
        };
        if room(&change.old) != room(&change.new) {
            release_queue.room_changed(&change.key);
        }
        let conditions = |object: &Option<Arc<Cluster>>| {
            let status = object.as_ref().and_then(|object| object.status.as_ref());
            status.map(|status| status.conditions.clone())
        };
        let allowed = |object: &Option<Arc<Cluster>>| {
            object.as_ref().and_then(|cluster| cluster.spec.allowed_namespaces.clone())
        };
        let came_or_went = change.old.is_none() || change.new.is_none();
        if came_or_went
            || conditions(&change.old) != conditions(&change.new)
            || allowed(&change.old) != allowed(&change.new)
        {
            let woken = known.filter(|release| release.shard_key() == change.key);
            woken.iter().for_each(|release| release_queue.add(store_key(&**release)));
        }
    });
    tasks.spawn("watch of Clusters", unfailing(feed));

    let (queue, index) = (Arc::clone(&queues.releases), Arc::clone(index));
    let (inventories, feed) = caches.watch::<ReleaseInventory, _>(move |change| {
        index.follow(change);
        if change.cause == Cause::ShardLost {
            return;
        }
        // A look at the Release on an older inventory may have seen nothing to do.
        if let Some(part) = change.new.as_ref().or(change.old.as_ref()) {
            queue.add(release_of(part));
        }
    });
    tasks.spawn("watch of ReleaseInventories", unfailing(feed));
    (
        Stores { repositories, helm_registries, oci_registries, rule_sets, clusters, releases, inventories },
        caches.looked(),
    )
}

/// Whether a change is one that the kind's own controller has to look at: it came, went, has another
/// spec, or is asked to be reconciled. Changes of status are the controller's own.
fn has_news<K: Kind, S: PartialEq>(change: &Change<K>, spec: impl Fn(&K) -> &S) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let asked = |object: &K| {
        object.metadata().annotations.as_ref().and_then(|all| all.get(annotation::RECONCILE_AT)).cloned()
    };
    spec(old) != spec(new)
        || asked(old) != asked(new)
        || old.metadata().uid != new.metadata().uid
        || old.metadata().deletion_timestamp != new.metadata().deletion_timestamp
}

fn wake(
    queue: &WorkQueue<StoreKey>,
    releases: &Store<Release>,
    of: &StoreKey,
    is_meant: impl Fn(&Release) -> bool,
) {
    let woken = releases.filter(|release| {
        release.metadata.namespace.as_deref() == Some(of.namespace.as_str()) && is_meant(release)
    });
    for release in woken {
        queue.add(store_key(&*release));
    }
}
