//! Work follows ownership: what happens when shards come and go.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use convoy_api::{
    Cluster, GitRepository, HealthRuleSet, HelmRegistry, OCIRegistry, Release, ReleaseInventory,
};
use convoy_runtime::{
    LookedShards, OwnedShards, ShardNews, Sharded, Shutdown, Store, StoreKey, WorkQueue, store_key,
};

use crate::artifacts::Wanted;
use crate::cluster::Contacts;
use crate::duties::Duties;
use crate::git_repository::GitRepositories;
use crate::helm_registry::HelmRegistries;
use crate::release::Releases;
use crate::release::index::release_of;
use crate::targets::Targets;

/// The queues of the controllers.
#[derive(Clone)]
pub(crate) struct Queues {
    pub(crate) repositories: Arc<WorkQueue<StoreKey>>,
    pub(crate) helm_registries: Arc<WorkQueue<StoreKey>>,
    pub(crate) oci_registries: Arc<WorkQueue<StoreKey>>,
    pub(crate) wanted: Arc<WorkQueue<Wanted>>,
    pub(crate) clusters: Arc<WorkQueue<StoreKey>>,
    pub(crate) releases: Arc<WorkQueue<StoreKey>>,
}

/// The stores of the controllers.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) repositories: Store<GitRepository>,
    pub(crate) helm_registries: Store<HelmRegistry>,
    pub(crate) oci_registries: Store<OCIRegistry>,
    pub(crate) rule_sets: Store<HealthRuleSet>,
    pub(crate) clusters: Store<Cluster>,
    pub(crate) releases: Store<Release>,
    pub(crate) inventories: Store<ReleaseInventory>,
}

/// Opens shards that were gained, and takes away all that is kept for shards that were lost.
pub(crate) struct Follower {
    pub(crate) duties: Duties,
    pub(crate) stores: Stores,
    pub(crate) queues: Queues,
    pub(crate) targets: Targets,
    pub(crate) contacts: Contacts,
    pub(crate) repositories: Arc<GitRepositories>,
    pub(crate) helm_registries: Arc<HelmRegistries>,
    pub(crate) releases: Arc<Releases>,
}

impl Follower {
    /// Follows until shutdown.
    pub(crate) async fn run(self, looked: LookedShards, shutdown: Shutdown) {
        let mut reader = looked.news();
        loop {
            tokio::select! {
                () = shutdown.wait() => return,
                news = reader.next() => match news {
                    Some(news) => self.follow(&news),
                    None => return shutdown.wait().await,
                },
            }
        }
    }

    /// First what is lost goes, also of a shard that was gained again since: nothing of the old term is
    /// there when the new one begins.
    fn follow(&self, news: &ShardNews) {
        if !news.lost.is_empty() {
            tracing::info!(shards = ?news.lost.keys().collect::<Vec<_>>(), "no more work for these shards");
            self.duties.close(&news.lost);
            self.let_go();
        }
        if !news.ready.is_empty() {
            let ready = self.latest(&news.ready);
            tracing::info!(shards = ?ready.keys().collect::<Vec<_>>(), "work begins for these shards");
            self.duties.open(&ready);
            self.queue_all(&ready.keys().copied().collect());
        }
    }

    /// The terms that are the latest of which any object of their shards tells. A lease that was made anew counts from 0, and
    /// each object tells only of its own last writer: without this, work on one object would begin before another
    /// object was looked at that knows better.
    fn latest(&self, gained: &OwnedShards) -> OwnedShards {
        let releases = self.stores.releases.filter(|_| true).into_iter();
        let statuses = releases.filter_map(|release| release.status.as_ref()?.controller.clone());
        let inventories = self.stores.inventories.filter(|_| true).into_iter();
        let inventories = inventories.filter_map(|inventory| inventory.spec.writer.clone());
        self.duties.latest(gained, statuses.chain(inventories).map(|by| (by.shard, by.epoch)))
    }

    /// Takes away what is kept for shards that are not open.
    fn let_go(&self) {
        let is_ours = |key: &StoreKey| self.duties.is_open(self.duties.shard_of(key));
        self.queues.repositories.retain(is_ours);
        self.queues.helm_registries.retain(is_ours);
        self.queues.oci_registries.retain(is_ours);
        self.queues.clusters.retain(is_ours);
        let releases = self.releases_of(|shard| self.duties.is_open(shard));
        self.queues.releases.retain(|key| releases.contains(key));
        self.targets.retain(is_ours);
        self.contacts.retain(is_ours);
        self.repositories.forget();
        self.helm_registries.retain(is_ours);
        self.releases.sources.artifacts.retain_shards(|shard| self.duties.is_open(shard));
        self.releases.retain_shards(|shard| self.duties.is_open(shard));
    }

    /// Queues all objects of shards.
    fn queue_all(&self, shards: &BTreeSet<u32>) {
        let is_theirs = |key: &StoreKey| shards.contains(&self.duties.shard_of(key));
        for repository in self.stores.repositories.filter(|object| is_theirs(&store_key(object))) {
            self.queues.repositories.add(store_key(&*repository));
        }
        for registry in self.stores.helm_registries.filter(|object| is_theirs(&store_key(object))) {
            self.queues.helm_registries.add(store_key(&*registry));
        }
        for registry in self.stores.oci_registries.filter(|object| is_theirs(&store_key(object))) {
            self.queues.oci_registries.add(store_key(&*registry));
        }
        for cluster in self.stores.clusters.filter(|object| is_theirs(&store_key(object))) {
            self.queues.clusters.add(store_key(&*cluster));
        }
        for release in self.releases_of(|shard| shards.contains(&shard)) {
            self.queues.releases.add(release);
        }
    }

    /// The Releases that have to do with shards: that name a cluster of theirs, or have an inventory on one.
    fn releases_of(&self, is_meant: impl Fn(u32) -> bool) -> BTreeSet<StoreKey> {
        // Many objects have the same cluster.
        let mut known: HashMap<StoreKey, bool> = HashMap::new();
        let mut is_theirs = |cluster: StoreKey| {
            *known.entry(cluster).or_insert_with_key(|cluster| is_meant(self.duties.shard_of(cluster)))
        };
        let mut found = BTreeSet::new();
        for release in self.stores.releases.filter(|_| true) {
            if is_theirs(release.shard_key()) {
                found.insert(store_key(&*release));
            }
        }
        for inventory in self.stores.inventories.filter(|_| true) {
            if is_theirs(inventory.shard_key()) {
                found.insert(release_of(&inventory));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use convoy_api::WriterStatus;
    use convoy_apply::{Capabilities, Class, Ownership, RequestError, Target, Transport};
    use convoy_prepare::Preparer;
    use convoy_render::RenderStore;
    use convoy_runtime::{Backoff, Clock, ManualClock, Metrics, Pacer, Shards};
    use convoy_source::{Fetcher, FetcherOptions};
    use http::{Request, Response};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube::client::Body;

    use super::*;
    use crate::access::Access;
    use crate::artifacts::Artifacts;
    use crate::cluster::{Cause, Circuits, Contact, Outcome};
    use crate::duties::Unowned;
    use crate::host::Host;
    use crate::release::dependents::Dependents;
    use crate::release::index::InventoryIndex;
    use crate::release::{Look, Memory};
    use crate::sources::Sources;
    use crate::targets::Connected;

    const SHARDS: u32 = 4;

    struct Nowhere;

    impl Transport for Nowhere {
        fn send(
            &self,
            _: Request<Body>,
        ) -> std::pin::Pin<Box<dyn Future<Output = Result<Response<bytes::Bytes>, RequestError>> + Send + '_>>
        {
            let error = RequestError {
                class: Class::Unreachable,
                code: 0,
                message: "nowhere".to_owned(),
                fields: Vec::new(),
            };
            Box::pin(std::future::ready(Err(error)))
        }
    }

    /// The n-th name that a Cluster of the shard may have.
    fn cluster_of_shard(shard: u32) -> String {
        let count = NonZeroU32::new(SHARDS).unwrap();
        let mut names = (0..).map(|number| format!("c{number}"));
        names.find(|name| convoy_shard::shard_of("team", name, count) == shard).unwrap()
    }

    fn named<K: Default + convoy_api::Kind>(name: &str, metadata: impl Fn(&mut K) -> &mut ObjectMeta) -> K {
        let mut object = K::default();
        let metadata = metadata(&mut object);
        metadata.namespace = Some("team".to_owned());
        metadata.name = Some(name.to_owned());
        metadata.uid = Some(format!("uid of {name}"));
        object
    }

    fn release(name: &str, cluster: &str) -> Release {
        let mut release: Release = named(name, |object: &mut Release| &mut object.metadata);
        release.spec.cluster_ref.name = cluster.to_owned();
        release
    }

    /// A follower of four shards, with a Cluster and a Release in each, and a Release of shard 2 that left
    /// shard 1.
    fn follower() -> Follower {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let queue = || WorkQueue::new(Backoff::default(), Arc::clone(&clock));
        let queues = Queues {
            repositories: queue(),
            helm_registries: queue(),
            oci_registries: queue(),
            wanted: WorkQueue::new(Backoff::default(), Arc::clone(&clock)),
            clusters: queue(),
            releases: queue(),
        };
        let shards = Shards::all(NonZeroU32::new(SHARDS).unwrap(), Arc::clone(&clock));
        let clusters: Vec<String> = (0..SHARDS).map(cluster_of_shard).collect();
        let mut inventory: ReleaseInventory =
            named("moved.old", |object: &mut ReleaseInventory| &mut object.metadata);
        inventory.spec.release_ref.name = "moved".to_owned();
        inventory.spec.cluster_ref.name.clone_from(&clusters[1]);
        let releases = clusters.iter().map(|cluster| release(&format!("on-{cluster}"), cluster));
        let stores = Stores {
            repositories: Store::of([]),
            helm_registries: Store::of([]),
            oci_registries: Store::of([]),
            rule_sets: Store::of([]),
            clusters: Store::of(
                clusters.iter().map(|name| named(name, |object: &mut Cluster| &mut object.metadata)),
            ),
            releases: Store::of(releases.chain([release("moved", &clusters[2])])),
            inventories: Store::of([inventory]),
        };
        let service = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, std::io::Error>(Response::new(Body::empty()))
        });
        let client = kube::Client::new(service, "default");
        let access = Access::new(
            client.clone(),
            Arc::clone(&clock),
            Shutdown::new(),
            stores.releases.clone(),
            Arc::clone(&queues.releases),
        );
        let host = Host::new(client, "cm-0".to_owned(), shards.clone());
        let duties = Duties::new(shards);
        let targets = Targets::default();
        let circuits = Circuits::new(Arc::clone(&clock), &Metrics::default());
        let contacts = Contacts::new(Arc::clone(&queues.clusters), circuits);
        let store = RenderStore::in_memory();
        let repositories = Arc::new(GitRepositories {
            host: host.clone(),
            duties: duties.clone(),
            repositories: stores.repositories.clone(),
            fetcher: Fetcher::new(FetcherOptions::default()),
            store: store.clone(),
            clock: Arc::clone(&clock),
            stored: Default::default(),
        });
        let helm_registries = Arc::new(HelmRegistries {
            host: host.clone(),
            duties: duties.clone(),
            registries: stores.helm_registries.clone(),
            fetcher: Fetcher::new(FetcherOptions::default()),
            store: store.clone(),
            clock: Arc::clone(&clock),
            seen: Default::default(),
        });
        let artifacts = Arc::new(Artifacts::new(
            host.clone(),
            (stores.helm_registries.clone(), stores.oci_registries.clone()),
            Fetcher::new(FetcherOptions::default()),
            store.clone(),
            (Arc::clone(&queues.wanted), Arc::clone(&queues.releases)),
        ));
        let prepared = Preparer::new(host.reader.clone(), store.clone(), Arc::clone(&clock));
        let releases = Arc::new(Releases {
            host,
            duties: duties.clone(),
            releases: stores.releases.clone(),
            inventories: stores.inventories.clone(),
            index: Arc::new(InventoryIndex::default()),
            dependents: Arc::new(Dependents::new(Arc::clone(&queues.releases))),
            clusters: stores.clusters.clone(),
            access,
            sources: Sources { repositories: stores.repositories.clone(), artifacts },
            targets: targets.clone(),
            contacts: contacts.clone(),
            observers: None,
            health: Arc::default(),
            store,
            queue: Arc::clone(&queues.releases),
            clock,
            prepared,
            memory: Default::default(),
            late: Default::default(),
            claims: Default::default(),
        });
        Follower { duties, stores, queues, targets, contacts, repositories, helm_registries, releases }
    }

    fn news(ready: &[(u32, u64)], lost: &[(u32, u64)]) -> ShardNews {
        let owned = |shards: &[(u32, u64)]| shards.iter().copied().collect::<OwnedShards>();
        ShardNews { ready: owned(ready), lost: owned(lost) }
    }

    fn connected(ownership: &Arc<dyn Ownership>) -> Connected {
        let target = Target::over(Arc::new(Nowhere), Arc::clone(ownership));
        let capabilities = Arc::new(Capabilities::default());
        let made_of = (String::new(), String::new());
        let bare = target.clone();
        let pacer = Pacer::unlimited(Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH)));
        Connected { target, bare, pacer, capabilities, made_of }
    }

    impl Follower {
        fn depths(&self) -> (usize, usize) {
            (self.queues.clusters.depth().0, self.queues.releases.depth().0)
        }

        /// Something is remembered of each Cluster and Release of an open shard.
        fn work(&self) {
            for shard in 0..SHARDS {
                let Ok(ownership) = self.duties.begin(shard) else { continue };
                let name = cluster_of_shard(shard);
                let cluster = StoreKey::new("team", name.as_str());
                self.targets.put(cluster.clone(), &connected(&ownership), &ownership);
                let cause = Cause::of(&Cluster::default());
                let contact =
                    Contact { cause, outcome: Outcome::Suspended, until: Default::default(), failures: 0 };
                self.contacts.put(&cluster, contact, &*ownership);
                let key = StoreKey::new("team", format!("on-{name}"));
                let release = self.stores.releases.get(&key).unwrap();
                let look = Look { key: &key, release: &release, ownership: &ownership };
                self.releases.remember(look, |memory: &mut Memory| memory.status = Some(Default::default()));
            }
        }

        /// The shards of which something is kept: targets, looks at them, memory of Releases.
        fn kept(&self) -> [Vec<u32>; 3] {
            let unowned = |shard| -> Arc<dyn Ownership> { Arc::new(Unowned { shard }) };
            let key = |shard| StoreKey::new("team", cluster_of_shard(shard));
            let shards =
                |is_kept: &dyn Fn(u32) -> bool| (0..SHARDS).filter(|shard| is_kept(*shard)).collect();
            [
                shards(&|shard| self.targets.get(&key(shard), &unowned(shard)).is_some()),
                shards(&|shard| self.contacts.knows(&key(shard))),
                shards(&|shard| {
                    let release = StoreKey::new("team", format!("on-{}", key(shard).name));
                    self.releases.memory.lock().contains_key(&release)
                }),
            ]
        }
    }

    #[tokio::test]
    async fn sc21_a_gained_shard_queues_all_its_objects_and_those_that_left_one_of_its_clusters() {
        let follower = follower();
        follower.follow(&news(&[(1, 0)], &[]));
        assert_eq!(follower.depths(), (1, 2), "with the Release that has an inventory there");
        follower.follow(&news(&[(2, 0), (3, 0)], &[]));
        assert_eq!(follower.depths(), (3, 4), "the Release that moved is queued once");
    }

    #[tokio::test]
    async fn a_lost_shard_leaves_nothing_and_takes_nothing_from_the_others() {
        let follower = follower();
        follower.follow(&news(&[(0, 0), (1, 0), (2, 0)], &[]));
        follower.work();
        assert_eq!(follower.kept(), [vec![0, 1, 2], vec![0, 1, 2], vec![0, 1, 2]]);
        follower.follow(&news(&[], &[(1, 0)]));
        assert_eq!(follower.kept(), [vec![0, 2], vec![0, 2], vec![0, 2]]);
        assert_eq!(follower.depths(), (2, 3), "the Release that moved is shard 2's");
        follower.follow(&news(&[], &[(0, 0), (2, 0)]));
        assert!(follower.kept().iter().all(Vec::is_empty), "{:?}", follower.kept());
        assert_eq!(follower.depths(), (0, 0));
    }

    /// Lost, gained by another and gained again within one slow operation.
    #[tokio::test]
    async fn i1_nothing_of_an_old_term_is_there_in_a_new_one() {
        let follower = follower();
        follower.follow(&news(&[(1, 0)], &[]));
        follower.work();
        let slow = follower.duties.begin(1).unwrap();
        follower.follow(&news(&[(1, 5)], &[(1, 0)]));
        assert!(follower.kept().iter().all(Vec::is_empty), "{:?}", follower.kept());
        assert_eq!(follower.depths(), (1, 2), "all is looked at anew");
        assert!(
            follower.duties.begin(1).is_err() && slow.epoch() == 0,
            "the guard stays one of the old term"
        );
    }

    #[tokio::test]
    async fn what_targets_serve_is_kept_once_for_all_that_serve_the_same() {
        let follower = follower();
        follower.follow(&news(&[(0, 0)], &[]));
        let ownership = follower.duties.begin(0).unwrap();
        let kept = ["a", "b"].map(|name| {
            follower.targets.put(StoreKey::new("team", name), &connected(&ownership), &ownership)
        });
        assert!(Arc::ptr_eq(&kept[0], &kept[1]), "the controller of Clusters keeps what it is given");
    }

    #[tokio::test]
    async fn i5_no_work_begins_in_a_term_after_which_any_object_of_the_shard_was_written() {
        let mut follower = follower();
        let by = WriterStatus { shard: 1, epoch: 3, ..WriterStatus::default() };
        let mut written = ReleaseInventory::default();
        written.spec.writer = Some(by);
        follower.stores.inventories = Store::of([written]);
        follower.follow(&news(&[(0, 2), (1, 2)], &[]));
        assert!(follower.duties.is_open(0) && !follower.duties.is_open(1));
        follower.follow(&news(&[(1, 4)], &[(1, 2)]));
        assert!(follower.duties.is_open(1));
    }
}
