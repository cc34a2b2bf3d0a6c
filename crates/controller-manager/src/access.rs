//! Whether a Release may use the Cluster of another namespace that it names.
//!
//! Who acts on a target asks here, at the beginning of each look, so that it does not matter whose shard what is, nor
//! how an object came to be stored. Namespaces are watched from the first such question on: where nobody names a
//! Cluster of another namespace, convoy needs no right to read namespaces.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use convoy_api::{Cluster, Release};
use convoy_prepare::{may_use, names_own_cluster};
use convoy_runtime::{
    Change, Clock, Sharded as _, Shutdown, Store, StoreKey, StoreOptions, WorkQueue, store_key, watch_into,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;

/// How long nothing is said while namespaces are being listed: a replica has just begun.
const SILENT: Duration = Duration::from_secs(30);

/// Whether a Release may use a Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// It is of the same namespace, or the Cluster lets the Release's.
    Yes,
    /// The Cluster does not let it, or is not there: which of the two is for nobody to know.
    No,
    /// The labels of namespaces are not known yet.
    NotYet,
    /// They should be by now.
    NotKnown,
}

/// Answers whether Releases may use Clusters.
pub(crate) struct Access {
    client: Client,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    releases: Store<Release>,
    queue: Arc<WorkQueue<StoreKey>>,
    /// With when they began to be listed.
    namespaces: OnceLock<(Store<Namespace>, Duration)>,
}

fn labels(namespace: &Namespace) -> BTreeMap<String, String> {
    namespace.metadata.labels.clone().unwrap_or_default()
}

impl Access {
    /// `queue` is that of Releases: those are woken whose namespace has changed.
    pub(crate) fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
        releases: Store<Release>,
        queue: Arc<WorkQueue<StoreKey>>,
    ) -> Self {
        Self { client, clock, shutdown, releases, queue, namespaces: OnceLock::new() }
    }

    /// The same with namespaces that are known.
    #[cfg(test)]
    pub(crate) fn knowing(self, namespaces: Store<Namespace>) -> Self {
        let _ = self.namespaces.set((namespaces, Duration::ZERO));
        self
    }

    /// Whether a Release may use the Cluster of a key.
    pub(crate) fn of(&self, release: &Release, cluster: &StoreKey, clusters: &Store<Cluster>) -> Allowed {
        if names_own_cluster(release) {
            return Allowed::Yes;
        }
        let (namespaces, since) = self.namespaces.get_or_init(|| self.watch());
        if !namespaces.is_synced() {
            let is_late = self.clock.monotonic().saturating_sub(*since) > SILENT;
            return if is_late { Allowed::NotKnown } else { Allowed::NotYet };
        }
        let own = release.metadata.namespace.as_deref().unwrap_or_default();
        let labels = namespaces.get(&StoreKey::new("", own)).map(|namespace| labels(&namespace));
        let is_allowed = may_use(release, clusters.get(cluster).as_deref(), labels.as_ref());
        if is_allowed { Allowed::Yes } else { Allowed::No }
    }

    fn watch(&self) -> (Store<Namespace>, Duration) {
        tracing::info!("a Release names a Cluster of another namespace: namespaces are watched from now on");
        let (releases, queue) = (self.releases.clone(), Arc::clone(&self.queue));
        let (store, feed) = watch_into::<Namespace>(
            self.client.clone(),
            StoreOptions::default(),
            Arc::clone(&self.clock),
            self.shutdown.clone(),
            move |change| wake(change, &releases, &queue),
        );
        tokio::spawn(feed);
        (store, self.clock.monotonic())
    }
}

/// Wakes the Releases of a namespace that name Clusters of others, when its labels have changed.
fn wake(change: &Change<Namespace>, releases: &Store<Release>, queue: &WorkQueue<StoreKey>) {
    let labels = |namespace: &Option<Arc<Namespace>>| namespace.as_deref().map(labels);
    if labels(&change.old) == labels(&change.new) {
        return;
    }
    let namespace = change.key.name.as_str();
    let is_concerned = |release: &Release| {
        release.metadata.namespace.as_deref() == Some(namespace) && release.shard_key().namespace != namespace
    };
    releases.filter(is_concerned).iter().for_each(|release| queue.add(store_key(&**release)));
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespaces = self.namespaces.get().map(|(store, _)| store);
        f.debug_struct("Access").field("namespaces", &namespaces).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use convoy_runtime::{Backoff, Cause, ManualClock};
    use http::{Request, Response};
    use jiff::Timestamp;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn namespace(name: &str, labels: &Value) -> Namespace {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    }

    fn cluster(name: &str, allowed: &Value) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": convoy_api::API_VERSION, "kind": "Cluster",
            "metadata": {"name": name, "namespace": "fleet"},
            "spec": {"inCluster": true, "allowedNamespaces": allowed},
        }))
        .unwrap()
    }

    fn release(namespace: &str, name: &str, cluster: &Value) -> Release {
        serde_json::from_value(json!({
            "apiVersion": convoy_api::API_VERSION, "kind": "Release",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterRef": cluster, "source": {}},
        }))
        .unwrap()
    }

    fn access(releases: Vec<Release>) -> (Access, Arc<WorkQueue<StoreKey>>, ManualClock) {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let queue = WorkQueue::new(Backoff::default(), Arc::new(clock.clone()));
        // Namespaces may not be listed.
        let service = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, std::io::Error>(Response::builder().status(403).body(Body::empty()).unwrap())
        });
        let client = Client::new(service, "default");
        let releases = Store::of(releases);
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        (Access::new(client, shared, Shutdown::new(), releases, Arc::clone(&queue)), queue, clock)
    }

    #[tokio::test]
    async fn i13_a_cluster_of_another_namespace_is_used_only_when_it_lets_the_releases_namespace() {
        let (access, ..) = access(Vec::new());
        let access = access.knowing(Store::of([
            namespace("web", &json!({"team": "web"})),
            namespace("db", &json!({})),
            namespace("fleet", &json!({})),
        ]));
        let clusters = Store::of([
            cluster("closed", &Value::Null),
            cluster("open", &json!({})),
            cluster("of-web", &json!({"matchLabels": {"team": "web"}})),
        ]);
        let of = |own: &str, cluster: &str| {
            let release = release(own, "r", &json!({"name": cluster, "namespace": "fleet"}));
            access.of(&release, &release.shard_key(), &clusters)
        };
        assert_eq!([of("web", "open"), of("web", "of-web"), of("db", "open")], [Allowed::Yes; 3]);
        // What is closed and what is not there look the same, and a namespace that is not there has no labels.
        let refused = [of("web", "closed"), of("web", "gone"), of("db", "of-web"), of("lost", "open")];
        assert_eq!(refused, [Allowed::No; 4]);
        assert_eq!([of("fleet", "closed"), of("fleet", "gone")], [Allowed::Yes; 2]);
    }

    #[tokio::test]
    async fn without_labels_of_namespaces_nothing_is_let_and_the_own_namespace_needs_none() {
        let (access, _, clock) = access(Vec::new());
        let clusters = Store::of([cluster("open", &json!({}))]);
        let own = release("fleet", "r", &json!({"name": "open"}));
        assert_eq!(access.of(&own, &own.shard_key(), &clusters), Allowed::Yes);
        assert!(access.namespaces.get().is_none(), "nobody asked for namespaces");
        let other = release("web", "r", &json!({"name": "open", "namespace": "fleet"}));
        assert_eq!(access.of(&other, &other.shard_key(), &clusters), Allowed::NotYet);
        clock.advance(SILENT + Duration::from_secs(1));
        assert_eq!(access.of(&other, &other.shard_key(), &clusters), Allowed::NotKnown);
    }

    #[test]
    fn labels_that_change_wake_who_names_clusters_of_other_namespaces() {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let queue = WorkQueue::new(Backoff::default(), clock);
        let releases = Store::of([
            release("web", "elsewhere", &json!({"name": "c", "namespace": "fleet"})),
            release("web", "own", &json!({"name": "c"})),
            release("web", "named", &json!({"name": "c", "namespace": "web"})),
            release("db", "elsewhere", &json!({"name": "c", "namespace": "fleet"})),
        ]);
        let change = |old: Option<Namespace>, new: Option<Namespace>| {
            let key = StoreKey::new("", "web");
            wake(
                &Change { key, old: old.map(Arc::new), new: new.map(Arc::new), cause: Cause::Object },
                &releases,
                &queue,
            );
            queue.depth().0
        };
        let web = |labels: Value| Some(namespace("web", &labels));
        assert_eq!(change(web(json!({"a": "1"})), web(json!({"a": "1"}))), 0);
        assert_eq!(change(web(json!({"a": "1"})), web(json!({"a": "2"}))), 1);
        queue.remove(&StoreKey::new("web", "elsewhere"));
        assert_eq!(change(web(json!({})), None), 1);
    }
}
