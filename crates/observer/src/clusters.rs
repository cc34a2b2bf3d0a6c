use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Cluster, ReleaseInventory};
use convoy_runtime::{
    Change, Clock, Next, ProcessIdentity, Shutdown, Store, StoreKey, WorkQueue, in_cluster_client,
    target_client,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use crate::model::{Model, WatchedKind};
use crate::watches::{KindWatch, describe};

/// How long changes are gathered before a Release is judged: an inventory that names what was just applied
/// comes on another connection than the object itself.
pub(crate) const GATHER: Duration = Duration::from_millis(500);
/// How long after a watch failed the kubeconfig is read anew.
const LOOK_AT_KUBECONFIG: Duration = Duration::from_secs(15);

/// Clients, models and watches of all clusters.
pub(crate) struct Clusters {
    pub(crate) host: Client,
    pub(crate) identity: ProcessIdentity,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) shutdown: Shutdown,
    /// Clusters whose watches are to be looked at.
    pub(crate) queue: Arc<WorkQueue<StoreKey>>,
    /// Releases that are to be judged.
    pub(crate) releases: Arc<WorkQueue<StoreKey>>,
    pub(crate) state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    models: HashMap<StoreKey, Arc<Mutex<Model>>>,
    connections: HashMap<StoreKey, Connection>,
    /// Inventories by cluster and Release.
    inventories: HashMap<(StoreKey, StoreKey), BTreeMap<StoreKey, Arc<ReleaseInventory>>>,
}

struct Connection {
    client: Client,
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
enum Origin {
    InCluster,
    Kubeconfig([u8; 32]),
}

/// Why a cluster has no client.
#[derive(Debug, thiserror::Error)]
enum NoClient {
    #[error("spec names neither a kubeconfig nor inCluster")]
    NotNamed,
    #[error("reading the Secret {0}")]
    Secret(String, #[source] kube::Error),
    #[error("the Secret {0} has no key {1:?}")]
    Key(String, String),
    #[error(transparent)]
    Connect(#[from] convoy_runtime::ConnectError),
}

impl Clusters {
    /// The model of a cluster, if Releases have delivered to it.
    pub(crate) fn model(&self, cluster: &StoreKey) -> Option<Arc<Mutex<Model>>> {
        self.state.lock().models.get(cluster).cloned()
    }

    /// Takes in a change of an inventory.
    pub(crate) fn inventory_changed(&self, change: &Change<ReleaseInventory>) {
        let place = |inventory: &ReleaseInventory| {
            let namespace = &change.key.namespace;
            let cluster = StoreKey::new(namespace.as_str(), inventory.spec.cluster_ref.name.as_str());
            (cluster, StoreKey::new(namespace.as_str(), inventory.spec.release_ref.name.as_str()))
        };
        let now = self.clock.monotonic();
        let (old, new) = (change.old.as_deref().map(place), change.new.as_deref().map(place));
        let places: HashSet<_> = old.into_iter().chain(new.clone()).collect();
        for (cluster, release) in places {
            let is_here = new.as_ref() == Some(&(cluster.clone(), release.clone()));
            let mut state = self.state.lock();
            let parts = state.inventories.entry((cluster.clone(), release.clone())).or_default();
            match change.new.as_ref().filter(|_| is_here) {
                Some(inventory) => parts.insert(change.key.clone(), Arc::clone(inventory)),
                None => parts.remove(&change.key),
            };
            let parts: Vec<_> = parts.values().cloned().collect();
            if parts.is_empty() {
                state.inventories.remove(&(cluster.clone(), release.clone()));
            }
            let model = Arc::clone(state.models.entry(cluster.clone()).or_default());
            drop(state);
            let parts: Vec<&ReleaseInventory> = parts.iter().map(Arc::as_ref).collect();
            let mut model = model.lock();
            let has_other_kinds = model.set_inventories(&release, &parts, now);
            if has_other_kinds || model.releases().next().is_none() {
                self.queue.add(cluster);
            }
            self.releases.add_after(release, GATHER);
        }
    }

    /// Sees to it that exactly the wanted kinds of one cluster are watched, with a client that works.
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey, clusters: Store<Cluster>) -> Next {
        let Some(model) = self.model(&key) else { return Next::Done };
        let (wanted, is_failing) = {
            let model = model.lock();
            (
                model.wanted_kinds().cloned().collect::<HashSet<_>>(),
                model.has_broken_watch(self.clock.monotonic()),
            )
        };
        let Some(cluster) = clusters.get(&key) else {
            self.drop_connection(&key);
            self.set_unreachable(&model, Some("there is no such Cluster".to_owned()));
            return Next::Done;
        };
        if wanted.is_empty() {
            self.forget(&key);
            return Next::Done;
        }
        let has_client = self.state.lock().connections.contains_key(&key);
        if !has_client || is_failing || self.made_of_other_sort(&key, &cluster) {
            if let Err(error) = self.connect(&key, &cluster).await {
                let why = describe(&error);
                tracing::warn!(cluster = %key, error = why, "a target cannot be watched");
                self.set_unreachable(&model, Some(why));
                return Next::Retry;
            }
            self.set_unreachable(&model, None);
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

    async fn connect(&self, key: &StoreKey, cluster: &Cluster) -> Result<(), NoClient> {
        let kubeconfig = match (&cluster.spec.kubeconfig, cluster.spec.in_cluster) {
            (Some(source), _) => {
                Some(self.kubeconfig(key, source.secret_ref.name.as_str(), source.secret_ref.key()).await?)
            }
            (None, Some(true)) => None,
            (None, _) => return Err(NoClient::NotNamed),
        };
        let made_of = kubeconfig
            .as_ref()
            .map_or(Origin::InCluster, |bytes| Origin::Kubeconfig(Sha256::digest(bytes).into()));
        if self.state.lock().connections.get(key).is_some_and(|connection| connection.made_of == made_of) {
            return Ok(());
        }
        let client = match &kubeconfig {
            Some(bytes) => target_client(bytes, &self.identity).await?,
            None => in_cluster_client(&self.identity)?,
        };
        let connection = Connection { client, made_of, watches: HashMap::new() };
        self.state.lock().connections.insert(key.clone(), connection);
        Ok(())
    }

    async fn kubeconfig(&self, key: &StoreKey, secret: &str, data_key: &str) -> Result<Vec<u8>, NoClient> {
        let secrets: Api<Secret> = Api::namespaced(self.host.clone(), &key.namespace);
        let found = secrets.get(secret).await.map_err(|error| NoClient::Secret(secret.to_owned(), error))?;
        let value = found.data.and_then(|mut data| data.remove(data_key));
        value.map(|bytes| bytes.0).ok_or_else(|| NoClient::Key(secret.to_owned(), data_key.to_owned()))
    }

    fn adjust_watches(
        self: &Arc<Self>,
        key: &StoreKey,
        model: &Arc<Mutex<Model>>,
        wanted: &HashSet<WatchedKind>,
    ) {
        let mut state = self.state.lock();
        let Some(connection) = state.connections.get_mut(key) else { return };
        connection.watches.retain(|kind, watch| {
            let is_wanted = wanted.contains(kind);
            if !is_wanted {
                watch.shutdown.trigger();
                model.lock().watch_stopped(kind);
            }
            // One that ended by itself broke down; it is started again.
            is_wanted && !watch.task.is_finished()
        });
        for kind in wanted {
            if connection.watches.contains_key(kind) {
                continue;
            }
            let watch = self.start_watch(key, kind, connection.client.clone(), Arc::clone(model));
            connection.watches.insert(kind.clone(), watch);
        }
    }

    fn start_watch(
        self: &Arc<Self>,
        key: &StoreKey,
        kind: &WatchedKind,
        client: Client,
        model: Arc<Mutex<Model>>,
    ) -> Watch {
        let shutdown = self.shutdown.child();
        let (releases, clusters) = (Arc::clone(&self.releases), Arc::clone(&self.queue));
        let (failed, ended) = (
            key.clone(),
            EndedWatch { queue: Arc::clone(&self.queue), cluster: key.clone(), shutdown: shutdown.clone() },
        );
        let watch = KindWatch {
            kind: kind.clone(),
            client,
            model,
            clock: Arc::clone(&self.clock),
            on_change: Arc::new(move |release| releases.add_after(release, GATHER)),
            on_failure: Arc::new(move || clusters.add_after(failed.clone(), LOOK_AT_KUBECONFIG)),
        };
        let until = shutdown.clone();
        let task = tokio::spawn(async move {
            let _ended = ended;
            watch.run(until).await;
        });
        Watch { shutdown, task }
    }

    fn set_unreachable(&self, model: &Mutex<Model>, why: Option<String>) {
        let mut model = model.lock();
        if model.unreachable != why {
            model.unreachable = why;
            model.releases().for_each(|release| self.releases.add_after(release.clone(), GATHER));
        }
    }

    fn drop_connection(&self, key: &StoreKey) {
        self.state.lock().connections.remove(key);
    }

    fn forget(&self, key: &StoreKey) {
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
