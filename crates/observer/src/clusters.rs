use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Cluster, HealthRuleSet, Release, ReleaseInventory};
use convoy_health::RuleSets;
use convoy_runtime::{
    Cause, Change, Clock, Next, OwnedShards, Pacer, Reach, Sharded as _, Shards, Shutdown, Store, StoreKey,
    WorkQueue, store_key,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::cluster_status::SETTLED;
use crate::model::{Model, WatchedKind};
use crate::seen::Rules;
use crate::watches::{KindWatch, LISTS, describe};

/// How long changes are gathered before a Release is judged: an inventory that names what was just applied
/// comes on another connection than the object itself.
pub(crate) const GATHER: Duration = Duration::from_millis(500);
/// Between clusters whose objects are listed anew for one reason.
const BETWEEN_RELISTS: Duration = Duration::from_millis(20);
/// How long after a watch failed the kubeconfig is read anew.
const LOOK_AT_KUBECONFIG: Duration = Duration::from_secs(15);

/// Clients, models and watches of the clusters whose shards this replica owns and has looked at.
pub(crate) struct Clusters {
    pub(crate) host: Client,
    pub(crate) reach: Reach,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) shutdown: Shutdown,
    pub(crate) shards: Shards,
    /// Clusters whose watches are to be looked at.
    pub(crate) queue: Arc<WorkQueue<StoreKey>>,
    /// Releases that are to be judged.
    pub(crate) releases: Arc<WorkQueue<StoreKey>>,
    /// Clusters whose condition is to be looked at.
    pub(crate) statuses: Arc<WorkQueue<StoreKey>>,
    /// What makes objects healthy.
    pub(crate) health: Arc<RuleSets>,
    pub(crate) state: Mutex<State>,
}

/// Where a lock of a model is taken beside this one, this one is taken first.
#[derive(Default)]
pub(crate) struct State {
    /// The shards that all below is of.
    held: OwnedShards,
    /// Those of them whose models have been built.
    built: HashSet<u32>,
    models: HashMap<StoreKey, Arc<Mutex<Model>>>,
    connections: HashMap<StoreKey, Connection>,
    /// What Releases leave alone; those that leave nothing alone are missing.
    rules: HashMap<StoreKey, Arc<Rules>>,
    /// Inventories by cluster and Release.
    inventories: HashMap<(StoreKey, StoreKey), BTreeMap<StoreKey, Arc<ReleaseInventory>>>,
}

impl State {
    /// Whether a model is the one that the cluster has, rather than one of a term that is over.
    fn is_current(&self, cluster: &StoreKey, model: &Arc<Mutex<Model>>) -> bool {
        self.models.get(cluster).is_some_and(|current| Arc::ptr_eq(current, model))
    }
}

/// The cluster and the Release that an inventory is of.
fn place(key: &StoreKey, inventory: &ReleaseInventory) -> (StoreKey, StoreKey) {
    let release = StoreKey::new(key.namespace.as_str(), inventory.spec.release_ref.name.as_str());
    (inventory.shard_key(), release)
}

struct Connection {
    client: Client,
    /// How often the client asks: the Cluster's `spec.limits`.
    pacer: Pacer,
    /// Turns of its lists.
    turns: Arc<Semaphore>,
    /// What the client was made of; another client is needed when it changes.
    made_of: Origin,
    watches: HashMap<WatchedKind, Watch>,
}

struct Watch {
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shutdown.trigger();
        self.task.abort();
    }
}

/// What a client is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    InCluster,
    Kubeconfig([u8; 32]),
}

/// Why a cluster has no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoClient {
    #[error("spec names neither a kubeconfig nor inCluster")]
    NotNamed,
    #[error("reading the Secret {0}")]
    Secret(String, #[source] kube::Error),
    #[error("the Secret {0} has no key {1:?}")]
    Key(String, String),
    #[error(transparent)]
    Connect(#[from] convoy_runtime::ConnectError),
}

/// The kubeconfig of a cluster as it is now; none for the cluster that convoy runs in.
async fn origin(
    host: &Client,
    key: &StoreKey,
    cluster: &Cluster,
) -> Result<(Option<Vec<u8>>, Origin), NoClient> {
    let source = match (&cluster.spec.kubeconfig, cluster.spec.in_cluster) {
        (Some(source), _) => source,
        (None, Some(true)) => return Ok((None, Origin::InCluster)),
        (None, _) => return Err(NoClient::NotNamed),
    };
    let (secret, data_key) = (source.secret_ref.name.as_str(), source.secret_ref.key());
    let secrets: Api<Secret> = Api::namespaced(host.clone(), &key.namespace);
    let found = secrets.get(secret).await.map_err(|error| NoClient::Secret(secret.to_owned(), error))?;
    let value = found.data.and_then(|mut data| data.remove(data_key));
    let bytes =
        value.map(|bytes| bytes.0).ok_or_else(|| NoClient::Key(secret.to_owned(), data_key.to_owned()))?;
    let made_of = Origin::Kubeconfig(Sha256::digest(&bytes).into());
    Ok((Some(bytes), made_of))
}

/// A client of a cluster that keeps to its limits, and what it is made of.
pub(crate) async fn client_of(
    host: &Client,
    reach: &Reach,
    clock: Arc<dyn Clock>,
    key: &StoreKey,
    cluster: &Cluster,
) -> Result<(Client, Origin), NoClient> {
    let (kubeconfig, made_of) = origin(host, key, cluster).await?;
    let pacer = Pacer::unlimited(clock);
    pacer.set(cluster.spec.rate());
    Ok((reach.client(kubeconfig.as_deref(), Some(pacer)).await?, made_of))
}

impl Clusters {
    /// The model of a cluster, if Releases have delivered to it.
    pub(crate) fn model(&self, cluster: &StoreKey) -> Option<Arc<Mutex<Model>>> {
        self.state.lock().models.get(cluster).cloned()
    }

    fn shard_of(&self, cluster: &StoreKey) -> u32 {
        self.shards.shard_of(&cluster.namespace, &cluster.name)
    }

    /// Takes on a shard whose objects were looked at: builds the models of its clusters, and has all clusters
    /// and Releases of the shard looked at.
    pub(crate) fn gained(
        &self,
        (shard, epoch): (u32, u64),
        inventories: &Store<ReleaseInventory>,
        releases: &Store<Release>,
    ) {
        self.state.lock().held.insert(shard, epoch);
        for release in releases.filter(|release| release.shard(&self.shards) == shard) {
            self.set_rules(&store_key(&*release), Some(&release));
        }
        for inventory in inventories.filter(|inventory| inventory.shard(&self.shards) == shard) {
            let key = store_key(&*inventory);
            let place = place(&key, &inventory);
            // As it is now: a change that came meanwhile was taken in, or comes after this.
            let current = || inventories.get(&key).filter(|now| self::place(&key, now) == place);
            self.set_part(&key, &place, current);
        }
        for release in releases.filter(|release| release.shard(&self.shards) == shard) {
            self.releases.add(store_key(&*release));
        }
        self.state.lock().built.insert(shard);
    }

    /// Whether all inventories of a shard were taken in.
    pub(crate) fn is_built(&self, shard: u32) -> bool {
        self.state.lock().built.contains(&shard)
    }

    /// Takes in what a Release leaves alone.
    pub(crate) fn set_rules(&self, key: &StoreKey, release: Option<&Release>) {
        let mut state = self.state.lock();
        let rules = release.and_then(Rules::of_release);
        if state.rules.get(key) == rules.as_ref() {
            return;
        }
        match &rules {
            Some(rules) => drop(state.rules.insert(key.clone(), Arc::clone(rules))),
            None => drop(state.rules.remove(key)),
        }
        for (cluster, model) in &state.models {
            if model.lock().set_rules(key, rules.as_ref()) {
                self.queue.add(cluster.clone());
            }
        }
    }

    /// Takes in a HealthRuleSet, and has the objects looked at anew whose rules changed: one cluster after the other,
    /// so that they are not all listed at once.
    pub(crate) fn rule_set_changed(&self, change: &Change<HealthRuleSet>) {
        let changed = self.health.set(&change.key.name, change.new.as_deref().map(|set| &set.spec));
        if changed.is_empty() {
            return;
        }
        let is_changed = |kind: &WatchedKind| {
            changed.iter().any(|(group, name)| *group == kind.group && *name == kind.kind)
        };
        let mut wait = Duration::ZERO;
        for (cluster, model) in &self.state.lock().models {
            if model.lock().relist(is_changed) {
                self.queue.add_after(cluster.clone(), wait);
                wait += BETWEEN_RELISTS;
            }
        }
    }

    /// Drops all that belongs to a shard: connections, watches, models, and work that waits.
    pub(crate) fn lost(&self, shard: u32) {
        let mut state = self.state.lock();
        state.held.remove(&shard);
        state.built.remove(&shard);
        state.connections.retain(|cluster, _| self.shard_of(cluster) != shard);
        state.inventories.retain(|(cluster, _), _| self.shard_of(cluster) != shard);
        let is_gone = |cluster: &StoreKey, _: &mut Arc<Mutex<Model>>| self.shard_of(cluster) == shard;
        let gone: Vec<_> = state.models.extract_if(is_gone).collect();
        for (_, model) in &gone {
            model.lock().releases().for_each(|release| drop(state.rules.remove(release)));
        }
        drop(state);
        for (cluster, model) in gone {
            self.queue.remove(&cluster);
            self.statuses.remove(&cluster);
            model.lock().releases().for_each(|release| self.releases.remove(release));
        }
    }

    /// Takes in a change of an inventory.
    pub(crate) fn inventory_changed(&self, change: &Change<ReleaseInventory>) {
        if change.cause == Cause::ShardLost {
            // The shard goes as a whole.
            return;
        }
        let place = |inventory: &ReleaseInventory| place(&change.key, inventory);
        let (old, new) = (change.old.as_deref().map(place), change.new.as_deref().map(place));
        let places: HashSet<_> = old.into_iter().chain(new.clone()).collect();
        for place in places {
            let is_here = new.as_ref() == Some(&place);
            self.set_part(&change.key, &place, || change.new.clone().filter(|_| is_here));
        }
    }

    /// Sets one part of a Release's inventory, or removes it. What is not of a held shard is left out.
    fn set_part(
        &self,
        key: &StoreKey,
        place: &(StoreKey, StoreKey),
        part: impl FnOnce() -> Option<Arc<ReleaseInventory>>,
    ) {
        let (cluster, release) = place;
        let mut state = self.state.lock();
        if !state.held.contains_key(&self.shard_of(cluster)) {
            return;
        }
        let parts = state.inventories.entry(place.clone()).or_default();
        match part() {
            Some(inventory) => parts.insert(key.clone(), inventory),
            None => parts.remove(key),
        };
        let parts: Vec<_> = parts.values().cloned().collect();
        if parts.is_empty() {
            state.inventories.remove(place);
        }
        let model = Arc::clone(state.models.entry(cluster.clone()).or_default());
        let parts: Vec<&ReleaseInventory> = parts.iter().map(Arc::as_ref).collect();
        let rules = state.rules.get(release).cloned();
        let mut model = model.lock();
        let is_changed = model.set_inventories(release, &parts, self.clock.monotonic());
        let has_other_kinds = model.set_rules(release, rules.as_ref()) || is_changed;
        if has_other_kinds || model.releases().next().is_none() {
            self.queue.add(cluster.clone());
        }
        self.releases.add_after(release.clone(), GATHER);
    }

    /// Sees to it that exactly the wanted kinds of one cluster are watched, with a client that works.
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey, clusters: Store<Cluster>) -> Next {
        let Some(model) = self.model(&key) else { return Next::Done };
        let (wanted, is_failing) = {
            let model = model.lock();
            (model.wanted_kinds().cloned().collect::<HashSet<_>>(), model.has_broken_watch())
        };
        let Some(cluster) = clusters.get(&key) else {
            self.drop_connection(&key);
            self.set_unreachable(&key, &model, Some("there is no such Cluster".to_owned()));
            return Next::Done;
        };
        if wanted.is_empty() {
            self.forget(&key);
            return Next::Done;
        }
        let has_client = self.state.lock().connections.contains_key(&key);
        if !has_client || is_failing || self.made_of_other_sort(&key, &cluster) {
            if let Err(error) = self.connect(&key, &model, &cluster).await {
                let why = describe(&error);
                tracing::warn!(cluster = %key, error = why, "a target cannot be watched");
                self.set_unreachable(&key, &model, Some(why));
                return Next::Retry;
            }
            self.set_unreachable(&key, &model, None);
        }
        if let Some(connection) = self.state.lock().connections.get(&key) {
            connection.pacer.set(cluster.spec.rate());
        }
        self.adjust_watches(&key, &model, &wanted);
        Next::Done
    }

    fn made_of_other_sort(&self, key: &StoreKey, cluster: &Cluster) -> bool {
        let state = self.state.lock();
        let is_in_cluster =
            state.connections.get(key).map(|connection| connection.made_of == Origin::InCluster);
        is_in_cluster.is_some_and(|is_in_cluster| is_in_cluster != cluster.spec.in_cluster.unwrap_or(false))
    }

    async fn connect(
        &self,
        key: &StoreKey,
        model: &Arc<Mutex<Model>>,
        cluster: &Cluster,
    ) -> Result<(), NoClient> {
        let (kubeconfig, made_of) = origin(&self.host, key, cluster).await?;
        if self.state.lock().connections.get(key).is_some_and(|connection| connection.made_of == made_of) {
            return Ok(());
        }
        let pacer = Pacer::unlimited(Arc::clone(&self.clock));
        let client = self.reach.client(kubeconfig.as_deref(), Some(pacer.clone())).await?;
        let turns = Arc::new(Semaphore::new(LISTS));
        let connection = Connection { client, pacer, turns, made_of, watches: HashMap::new() };
        let mut state = self.state.lock();
        // The shard may have been lost meanwhile.
        if state.is_current(key, model) {
            state.connections.insert(key.clone(), connection);
        }
        Ok(())
    }

    fn adjust_watches(
        self: &Arc<Self>,
        key: &StoreKey,
        model: &Arc<Mutex<Model>>,
        wanted: &HashSet<WatchedKind>,
    ) {
        let mut state = self.state.lock();
        if !state.is_current(key, model) {
            return;
        }
        let Some(connection) = state.connections.get_mut(key) else { return };
        let relists = model.lock().take_relists();
        // A new watch lists; what the old one said stays until then.
        connection.watches.retain(|kind, _| !relists.contains(kind));
        connection.watches.retain(|kind, watch| {
            let is_wanted = wanted.contains(kind);
            if !is_wanted {
                watch.shutdown.trigger();
                model.lock().watch_stopped(kind);
                self.statuses.add_after(key.clone(), SETTLED);
            }
            // One that ended by itself broke down; it is started again.
            is_wanted && !watch.task.is_finished()
        });
        for kind in wanted {
            if connection.watches.contains_key(kind) {
                continue;
            }
            let to_target = (connection.client.clone(), Arc::clone(&connection.turns));
            let watch = self.start_watch(key, kind, to_target, Arc::clone(model));
            connection.watches.insert(kind.clone(), watch);
        }
    }

    fn start_watch(
        self: &Arc<Self>,
        key: &StoreKey,
        kind: &WatchedKind,
        (client, turns): (Client, Arc<Semaphore>),
        model: Arc<Mutex<Model>>,
    ) -> Watch {
        let shutdown = self.shutdown.child();
        let (releases, clusters) = (Arc::clone(&self.releases), Arc::clone(&self.queue));
        let (statuses, of) = (Arc::clone(&self.statuses), key.clone());
        let (failed, ended) = (
            key.clone(),
            EndedWatch { queue: Arc::clone(&self.queue), cluster: key.clone(), shutdown: shutdown.clone() },
        );
        let watch = KindWatch {
            cluster: key.clone(),
            kind: kind.clone(),
            client,
            model,
            turns,
            health: Arc::clone(&self.health),
            clock: Arc::clone(&self.clock),
            on_change: Arc::new(move |release| releases.add_after(release, GATHER)),
            on_failure: Arc::new(move || clusters.add_after(failed.clone(), LOOK_AT_KUBECONFIG)),
            on_state: Arc::new(move || statuses.add_after(of.clone(), SETTLED)),
        };
        let until = shutdown.clone();
        let task = tokio::spawn(async move {
            let _ended = ended;
            watch.run(until).await;
        });
        Watch { shutdown, task }
    }

    fn set_unreachable(&self, key: &StoreKey, model: &Mutex<Model>, why: Option<String>) {
        let mut model = model.lock();
        if model.unreachable != why {
            self.statuses.add_after(key.clone(), SETTLED);
            model.unreachable = why;
            model.releases().for_each(|release| self.releases.add_after(release.clone(), GATHER));
        }
    }

    fn drop_connection(&self, key: &StoreKey) {
        self.state.lock().connections.remove(key);
    }

    fn forget(&self, key: &StoreKey) {
        self.statuses.add_after(key.clone(), SETTLED);
        let mut state = self.state.lock();
        state.connections.remove(key);
        if state.models.get(key).is_some_and(|model| model.lock().releases().next().is_none()) {
            state.models.remove(key);
        }
    }
}

/// Has the cluster looked at when one of its watches ends before it was told to, be it by a panic.
struct EndedWatch {
    queue: Arc<WorkQueue<StoreKey>>,
    cluster: StoreKey,
    shutdown: Shutdown,
}

impl Drop for EndedWatch {
    fn drop(&mut self) {
        if !self.shutdown.is_triggered() {
            tracing::error!(cluster = %self.cluster, "a watch of a target broke down; it is started again");
            self.queue.add_after(self.cluster.clone(), GATHER);
        }
    }
}
