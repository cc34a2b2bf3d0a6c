//! Stores, queues and tasks.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Cluster, GitRepository, Kind, Release, ReleaseInventory, annotation};
use convoy_apply::{AlwaysOwn, Ownership};
use convoy_render::{OpenStoreError, RenderStore};
use convoy_runtime::{
    Backoff, Change, Clock, ProcessIdentity, Readiness, Shards, Shutdown, Store, StoreKey, StoreOptions,
    Supervisor, TaskError, WorkQueue, store_key, watch_into,
};
use convoy_source::{Fetcher, FetcherOptions};
use kube::Client;

use crate::cluster::Clusters;
use crate::git_repository::GitRepositories;
use crate::host::Host;
use crate::release::Releases;
use crate::targets::Targets;

/// The part's name in readiness.
const PART: &str = "controller-manager";
/// How many objects of a kind are worked on at a time.
const CONCURRENT_FETCHES: usize = 8;
const CONCURRENT_CLUSTERS: usize = 16;
const CONCURRENT_RELEASES: usize = 16;

/// What a controller-manager needs.
#[derive(Clone)]
pub struct Options {
    /// The API server that holds convoy's objects.
    pub client: Client,
    /// Who this replica is.
    pub identity: ProcessIdentity,
    /// Which shards this replica owns.
    pub shards: Shards,
    /// `--render-store-url`.
    pub render_store_url: String,
    /// A folder for downloads.
    pub scratch_dir: PathBuf,
    /// Whether GitRepositories may name `file://` URLs: in standalone only.
    pub allow_file_urls: bool,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Told when the first lists have ended.
    pub readiness: Readiness,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("identity", &self.identity)
            .field("shards", &self.shards)
            .field("render_store_url", &self.render_store_url)
            .finish_non_exhaustive()
    }
}

/// Why a controller-manager ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The render store cannot be opened.
    #[error("opening the render store {url}")]
    RenderStore {
        /// Its URL.
        url: String,
        /// Why.
        #[source]
        source: OpenStoreError,
    },
    /// One of its tasks ended early, which is a defect.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// Runs all controllers until shutdown.
///
/// # Errors
/// See [`RunError`]; what can fail from outside is tried again and is no error.
pub async fn run(options: Options, shutdown: Shutdown) -> Result<(), RunError> {
    let store = RenderStore::open(&options.render_store_url)
        .map_err(|source| RunError::RenderStore { url: options.render_store_url.clone(), source })?;
    options.readiness.not_ready(PART, "the first lists have not ended");
    let mut tasks = Supervisor::new(shutdown.clone());
    let queues = Queues::new(&options.clock);
    let stores = Stores::watch(&options, &shutdown, &queues, &mut tasks);
    let targets = Targets::default();
    let host = Host::new(options.client.clone(), options.identity.replica_id.clone());
    let ownership: Arc<dyn Ownership> = Arc::new(AlwaysOwn);

    let repositories = Arc::new(GitRepositories {
        host: host.clone(),
        repositories: stores.repositories.clone(),
        fetcher: Fetcher::new(FetcherOptions {
            scratch_dir: options.scratch_dir.clone(),
            allow_file_urls: options.allow_file_urls,
            user_agent: options.identity.user_agent(),
            ..FetcherOptions::default()
        }),
        store: store.clone(),
        clock: Arc::clone(&options.clock),
        stored: Default::default(),
    });
    let clusters = Arc::new(Clusters {
        host: host.clone(),
        identity: options.identity.clone(),
        clusters: stores.clusters.clone(),
        releases: stores.releases.clone(),
        targets: targets.clone(),
        ownership,
        release_queue: Arc::clone(&queues.releases),
        clock: Arc::clone(&options.clock),
    });
    let releases = Arc::new(Releases {
        host,
        releases: stores.releases.clone(),
        inventories: stores.inventories.clone(),
        clusters: stores.clusters.clone(),
        repositories: stores.repositories.clone(),
        targets,
        cluster_queue: Arc::clone(&queues.clusters),
        store,
        clock: Arc::clone(&options.clock),
        shards: options.shards,
        prepared: Default::default(),
        memory: Default::default(),
    });

    let synced = stores.clone();
    let (queue, until) = (Arc::clone(&queues.repositories), shutdown.clone());
    tasks.spawn(
        "GitRepositories",
        unfailing(async move {
            synced.synced().await;
            queue.run(CONCURRENT_FETCHES, until, move |key| Arc::clone(&repositories).reconcile(key)).await;
        }),
    );
    let synced = stores.clone();
    let (queue, until) = (Arc::clone(&queues.clusters), shutdown.clone());
    tasks.spawn(
        "Clusters",
        unfailing(async move {
            synced.synced().await;
            queue.run(CONCURRENT_CLUSTERS, until, move |key| Arc::clone(&clusters).reconcile(key)).await;
        }),
    );
    let synced = stores.clone();
    let (queue, until) = (Arc::clone(&queues.releases), shutdown.clone());
    tasks.spawn(
        "Releases",
        unfailing(async move {
            synced.synced().await;
            queue.run(CONCURRENT_RELEASES, until, move |key| Arc::clone(&releases).reconcile(key)).await;
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

async fn unfailing(task: impl Future<Output = ()>) -> Result<(), Infallible> {
    task.await;
    Ok(())
}

#[derive(Clone)]
struct Queues {
    repositories: Arc<WorkQueue<StoreKey>>,
    clusters: Arc<WorkQueue<StoreKey>>,
    releases: Arc<WorkQueue<StoreKey>>,
}

impl Queues {
    fn new(clock: &Arc<dyn Clock>) -> Self {
        let queue = |longest| {
            let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(longest) };
            WorkQueue::new(backoff, Arc::clone(clock))
        };
        Self { repositories: queue(300), clusters: queue(60), releases: queue(120) }
    }
}

#[derive(Clone)]
struct Stores {
    repositories: Store<GitRepository>,
    clusters: Store<Cluster>,
    releases: Store<Release>,
    inventories: Store<ReleaseInventory>,
}

impl Stores {
    /// Watches all kinds; each change wakes who has to do with it.
    fn watch(options: &Options, shutdown: &Shutdown, queues: &Queues, tasks: &mut Supervisor) -> Self {
        let watch = Watch { options, shutdown };
        let queue = Arc::clone(&queues.releases);
        let (clusters_queue, queue_of_clusters) =
            (Arc::clone(&queues.clusters), Arc::clone(&queues.clusters));
        let (releases, feed) = watch.kind::<Release, _>(move |change| {
            queue.add(change.key.clone());
            // A Cluster says how many Releases name it.
            if change.old.is_none() || change.new.is_none() {
                let release = change.new.as_ref().or(change.old.as_ref());
                if let Some(release) = release {
                    let name = release.spec.cluster_ref.name.as_str();
                    clusters_queue.add_after(
                        StoreKey::new(change.key.namespace.as_str(), name),
                        Duration::from_secs(5),
                    );
                }
            }
        });
        tasks.spawn("watch of Releases", unfailing(feed));

        let queue = Arc::clone(&queues.repositories);
        let (release_queue, known) = (Arc::clone(&queues.releases), releases.clone());
        let (repositories, feed) = watch.kind::<GitRepository, _>(move |change| {
            if has_news(change, |new| &new.spec) {
                queue.add(change.key.clone());
            }
            let status =
                |object: &Option<Arc<GitRepository>>| object.as_ref().map(|object| object.status.clone());
            if status(&change.old) != status(&change.new) {
                wake(&release_queue, &known, &change.key, |release| {
                    release
                        .spec
                        .source
                        .git
                        .as_ref()
                        .is_some_and(|git| git.repository_ref.name == change.key.name)
                });
            }
        });
        tasks.spawn("watch of GitRepositories", unfailing(feed));

        let (release_queue, known) = (Arc::clone(&queues.releases), releases.clone());
        let (clusters, feed) = watch.kind::<Cluster, _>(move |change| {
            if has_news(change, |new| &new.spec) {
                queue_of_clusters.add(change.key.clone());
            }
            let conditions = |object: &Option<Arc<Cluster>>| {
                object
                    .as_ref()
                    .and_then(|object| object.status.as_ref())
                    .map(|status| status.conditions.clone())
            };
            if change.old.is_none() || conditions(&change.old) != conditions(&change.new) {
                wake(&release_queue, &known, &change.key, |release| {
                    release.spec.cluster_ref.name == change.key.name
                });
            }
        });
        tasks.spawn("watch of Clusters", unfailing(feed));

        let queue = Arc::clone(&queues.releases);
        let (inventories, feed) = watch.kind::<ReleaseInventory, _>(move |change| {
            // A look at the Release on an older inventory may have seen nothing to do.
            if let Some(part) = change.new.as_ref().or(change.old.as_ref()) {
                queue.add(StoreKey::new(change.key.namespace.as_str(), part.spec.release_ref.name.as_str()));
            }
        });
        tasks.spawn("watch of ReleaseInventories", unfailing(feed));
        Self { repositories, clusters, releases, inventories }
    }

    async fn synced(&self) {
        self.repositories.synced().await;
        self.clusters.synced().await;
        self.releases.synced().await;
        self.inventories.synced().await;
    }
}

struct Watch<'a> {
    options: &'a Options,
    shutdown: &'a Shutdown,
}

impl Watch<'_> {
    fn kind<K, F>(&self, on_change: F) -> (Store<K>, impl Future<Output = ()> + Send + use<K, F>)
    where
        K: Kind + Clone + std::fmt::Debug + Send + Sync + 'static,
        F: Fn(&Change<K>) + Send + 'static,
    {
        watch_into(
            self.options.client.clone(),
            StoreOptions::default(),
            Arc::clone(&self.options.clock),
            self.shutdown.clone(),
            on_change,
        )
    }
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
