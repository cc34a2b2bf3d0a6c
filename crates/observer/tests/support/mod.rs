//! An observer beside a real kube-apiserver, which is host and target at once.
#![allow(dead_code, reason = "each test binary uses its own part of it")]

use std::sync::Arc;
use std::time::Duration;

use convoy_observer::{ObserverOptions, run};
use convoy_runtime::{
    CacheScope, Metrics, ProcessIdentity, Readiness, RealClock, Shards, Shutdown, host_client,
};
use convoy_testkit::ControlPlane;
use kube::Client;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

/// An observer that does not say what is awaited within this time is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) shutdown: Shutdown,
    pub(crate) observer: tokio::task::JoinHandle<Result<(), convoy_runtime::TaskError>>,
    pub(crate) readiness: Readiness,
}

pub(crate) fn identity() -> ProcessIdentity {
    ProcessIdentity { process: "observer", replica_id: "obs-0".to_owned() }
}

pub(crate) fn resource(api_version: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

pub(crate) fn api(client: &Client, api_version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), "default", &resource(api_version, kind, plural))
}

pub(crate) async fn create(api: &Api<DynamicObject>, object: Value) -> DynamicObject {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

/// Makes convoy's kinds known to a kube-apiserver.
pub(crate) async fn install_kinds(client: &Client) {
    let definitions: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    );
    for kind in convoy_api::kinds() {
        create(&definitions, kind.custom_resource_definition()).await;
    }
    for kind in convoy_api::kinds() {
        let objects: Api<DynamicObject> =
            Api::all_with(client.clone(), &resource(convoy_api::API_VERSION, kind.kind, kind.plural));
        until(&format!("{} are served", kind.plural), || async {
            objects.list(&ListParams::default()).await.is_ok()
        })
        .await;
    }
}

pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_true: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !is_true().await {
        assert!(tokio::time::Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl World {
    pub(crate) async fn start(plane: &ControlPlane) -> Self {
        let client = host_client(Some(&plane.kubeconfig()), &identity()).await.unwrap();
        install_kinds(&client).await;
        let (shutdown, readiness) = (Shutdown::new(), Readiness::default());
        let observer = tokio::spawn(run(ObserverOptions {
            serving: None,
            client: client.clone(),
            identity: identity(),
            shards: Shards::all(convoy_shard::DEFAULT_SHARD_COUNT, Arc::new(RealClock::new())),
            cache_scope: CacheScope::Everything,
            controllers: None,
            targets: None,
            metrics: Metrics::default(),
            clock: Arc::new(RealClock::new()),
            readiness: readiness.clone(),
            shutdown: shutdown.clone(),
        }));
        Self { client, shutdown, observer, readiness }
    }

    pub(crate) fn convoys(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        api(&self.client, convoy_api::API_VERSION, kind, plural)
    }

    pub(crate) async fn release(&self, name: &str) -> Value {
        serde_json::to_value(self.convoys("Release", "releases").get(name).await.unwrap()).unwrap()
    }

    /// Waits until the two conditions of a Release read `<Healthy> <Drifted>`, each `status/reason`.
    pub(crate) async fn says(&self, name: &str, want: &str) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let release = self.release(name).await;
            let conditions = release["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let shown = |type_: &str| {
                let found = conditions.iter().find(|condition| condition["type"] == type_);
                found.map_or("-".to_owned(), |c| {
                    format!("{}/{}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap())
                })
            };
            let got = format!("{} {}", shown("Healthy"), shown("Drifted"));
            if got == want {
                return release["status"].clone();
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "{name}: wanted {want}, is {got}: {conditions:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Applies an object as the controller-manager does; returns its entry in an inventory.
    pub(crate) async fn apply(&self, api: &Api<DynamicObject>, group: &str, mut object: Value) -> Value {
        object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "convoy"});
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let version = object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let applied =
            api.patch(&name, &PatchParams::apply("convoy").force(), &Patch::Apply(&object)).await.unwrap();
        json!({
            "group": group, "version": version, "kind": object["kind"], "namespace": "default", "name": name,
            "uid": applied.metadata.uid, "resourceVersion": applied.metadata.resource_version, "digest": "sha256:d",
        })
    }

    pub(crate) async fn inventory(&self, release: &str, cluster: &str, bundle: &str, entries: Vec<Value>) {
        let uid = self.release(release).await["metadata"]["uid"].clone();
        let inventory = json!({
            "apiVersion": convoy_api::API_VERSION, "kind": "ReleaseInventory",
            "metadata": {"name": format!("{release}.{cluster}")},
            "spec": {
                "releaseRef": {"name": release, "uid": uid}, "clusterRef": {"name": cluster},
                "bundleDigest": bundle, "entries": entries,
            },
        });
        let api = self.convoys("ReleaseInventory", "releaseinventories");
        let name = format!("{release}.{cluster}");
        api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&inventory)).await.unwrap();
    }

    pub(crate) async fn cluster(&self, name: &str, kubeconfig: &str) {
        let secrets = api(&self.client, "v1", "Secret", "secrets");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"kubeconfig": kubeconfig}});
        create(&secrets, secret).await;
        let cluster = json!({
            "apiVersion": convoy_api::API_VERSION, "kind": "Cluster", "metadata": {"name": name},
            "spec": {"kubeconfig": {"secretRef": {"name": name}}},
        });
        create(&self.convoys("Cluster", "clusters"), cluster).await;
    }

    pub(crate) async fn new_release(&self, name: &str, cluster: &str) {
        let release = json!({
            "apiVersion": convoy_api::API_VERSION, "kind": "Release", "metadata": {"name": name},
            "spec": {"clusterRef": {"name": cluster}, "source": {"git": {"repositoryRef": {"name": "apps"}}}},
        });
        create(&self.convoys("Release", "releases"), release).await;
    }
}

/// A kubeconfig of a new service account.
pub(crate) async fn account(world: &World, plane: &ControlPlane, name: &str) -> String {
    let accounts = api(&world.client, "v1", "ServiceAccount", "serviceaccounts");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    create(&accounts, account).await;
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token: Value =
        accounts.create_subresource("token", name, &PostParams::default(), &ask).await.unwrap();
    let token = token["status"]["token"].as_str().unwrap();
    let authority = k8s_openapi::ByteString(plane.authority().as_bytes().to_vec());
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": plane.url(), "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    config.to_string()
}
