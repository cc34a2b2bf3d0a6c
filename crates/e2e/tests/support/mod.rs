//! A controller-manager (and an observer) on a real kube-apiserver, which is host and target at once.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use convoy_controller_manager::{Options, RunError, run};
use convoy_e2e::clock::JumpingClock;
use convoy_observer::ObserverOptions;
use convoy_render::RenderStore;
use convoy_runtime::{
    CacheScope, Clock, Metrics, ProcessIdentity, Readiness, RealClock, Shards, Shutdown, TaskError,
    host_client,
};
use convoy_testkit::ControlPlane;
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// What is not true after this time will not become true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) const NAMESPACE: &str = "team";

/// One running world.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) plane: ControlPlane,
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<JumpingClock>,
    shutdown: Shutdown,
    manager: Option<JoinHandle<Result<(), RunError>>>,
    observer: Option<JoinHandle<Result<(), TaskError>>>,
}

fn identity(process: &'static str) -> ProcessIdentity {
    ProcessIdentity { process, replica_id: format!("{process}-0") }
}

impl World {
    /// Starts everything, with a Git repository of these files, a Cluster `here` and a GitRepository
    /// `apps`.
    pub(crate) async fn start(plane: ControlPlane, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let client = host_client(Some(&plane.kubeconfig()), &identity("test")).await.unwrap();
        let mut world = Self {
            client,
            plane,
            folder,
            clock: Arc::default(),
            shutdown: Shutdown::new(),
            manager: None,
            observer: None,
        };
        world.install_kinds().await;
        world.create("v1", "Namespace", "namespaces", json!({"metadata": {"name": NAMESPACE}})).await;
        world.git(&["init", "--quiet", "--initial-branch=main", "."]);
        world.commit(files);
        let kubeconfig = std::fs::read_to_string(world.plane.kubeconfig()).unwrap();
        world
            .create(
                "v1",
                "Secret",
                "secrets",
                json!({"metadata": {"name": "here"}, "stringData": {"kubeconfig": kubeconfig}}),
            )
            .await;
        world
            .convoy("Cluster", json!({"metadata": {"name": "here"}, "spec": {"kubeconfig": {"secretRef": {"name": "here"}}}}))
            .await;
        let url = format!("file://{}", world.repository().display());
        world
            .convoy(
                "GitRepository",
                json!({"metadata": {"name": "apps"}, "spec": {"url": url, "interval": "1s"}}),
            )
            .await;
        world.start_manager();
        world
    }

    pub(crate) fn start_manager(&mut self) {
        self.shutdown = Shutdown::new();
        let options = Options {
            client: self.client.clone(),
            identity: identity("controller-manager"),
            shards: Shards::all(convoy_shard::DEFAULT_SHARD_COUNT, Arc::new(RealClock::new())),
            store: RenderStore::in_folder(&self.folder.path().join("store")).unwrap(),
            scratch_dir: self.folder.path().to_owned(),
            collection: None,
            allow_file_urls: true,
            targets: None,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            readiness: Readiness::default(),
            metrics: Metrics::default(),
            cache_scope: CacheScope::Everything,
            observers: None,
        };
        self.manager = Some(tokio::spawn(run(options, self.shutdown.clone())));
    }

    pub(crate) fn start_observer(&mut self) {
        self.observer = Some(tokio::spawn(convoy_observer::run(ObserverOptions {
            serving: None,
            client: self.client.clone(),
            identity: identity("observer"),
            shards: Shards::all(convoy_shard::DEFAULT_SHARD_COUNT, Arc::new(RealClock::new())),
            cache_scope: CacheScope::Everything,
            controllers: None,
            targets: None,
            metrics: Metrics::default(),
            clock: Arc::new(RealClock::new()),
            readiness: Readiness::default(),
            shutdown: self.shutdown.clone(),
        })));
    }

    /// Ends both as a signal would.
    pub(crate) async fn stop(&mut self) {
        self.shutdown.trigger();
        if let Some(manager) = self.manager.take() {
            manager.await.unwrap().unwrap();
        }
        if let Some(observer) = self.observer.take() {
            observer.await.unwrap().unwrap();
        }
    }

    async fn install_kinds(&self) {
        for kind in convoy_api::kinds() {
            self.create(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
                kind.custom_resource_definition(),
            )
            .await;
        }
        for kind in convoy_api::kinds() {
            let namespace = (kind.scope == convoy_api::Scope::Namespaced).then_some(NAMESPACE);
            let api = self.api(convoy_api::API_VERSION, kind.kind, kind.plural, namespace);
            until(&format!("{} are served", kind.plural), || async {
                api.list(&ListParams::default()).await.is_ok()
            })
            .await;
        }
    }

    pub(crate) fn repository(&self) -> std::path::PathBuf {
        self.folder.path().join("apps")
    }

    pub(crate) fn git(&self, arguments: &[&str]) {
        std::fs::create_dir_all(self.repository()).unwrap();
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(arguments)
            .current_dir(self.repository())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .status()
            .unwrap();
        assert!(status.success(), "git {arguments:?}");
    }

    /// Makes the repository hold exactly these files.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) {
        for entry in std::fs::read_dir(self.repository()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() == ".git" {
                continue;
            }
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) }.unwrap();
        }
        for (path, text) in files {
            let path = self.repository().join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", "change"]);
    }

    pub(crate) fn api(
        &self,
        api_version: &str,
        kind: &str,
        plural: &str,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        api_of(&self.client, (api_version, kind, plural), namespace)
    }

    pub(crate) async fn create(&self, api_version: &str, kind: &str, plural: &str, mut object: Value) {
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        let is_cluster_scoped = matches!(kind, "Namespace" | "CustomResourceDefinition");
        let api = self.api(api_version, kind, plural, Some(NAMESPACE).filter(|_| !is_cluster_scoped));
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// Creates one of convoy's objects.
    pub(crate) async fn convoy(&self, kind: &str, object: Value) {
        let info = convoy_api::kinds().into_iter().find(|info| info.kind == kind).unwrap();
        self.create(convoy_api::API_VERSION, kind, info.plural, object).await;
    }

    /// Creates a Release of a folder of the repository, with more of its spec.
    pub(crate) async fn release(&self, name: &str, path: &str, more: Value) {
        let mut spec = json!({
            "clusterRef": {"name": "here"},
            "source": {"git": {"repositoryRef": {"name": "apps"}, "path": path}},
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        self.convoy("Release", json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    pub(crate) fn releases(&self) -> Api<DynamicObject> {
        self.api(convoy_api::API_VERSION, "Release", "releases", Some(NAMESPACE))
    }

    pub(crate) fn inventories(&self) -> Api<DynamicObject> {
        self.api(convoy_api::API_VERSION, "ReleaseInventory", "releaseinventories", Some(NAMESPACE))
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn patch(&self, api: &Api<DynamicObject>, name: &str, patch: Value) {
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self, api: &Api<DynamicObject>, name: &str) {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until Ready of a Release reads `status/reason`, and says something of the text; answers
    /// with its status.
    pub(crate) async fn says(&self, name: &str, want: &str, text: &str) -> Value {
        let releases = self.releases();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let release = serde_json::to_value(releases.get(name).await.unwrap()).unwrap();
            let status = &release["status"];
            let ready = condition(status, "Ready");
            let is_current = status["observedGeneration"] == release["metadata"]["generation"];
            let got = format!(
                "{}/{}",
                ready["status"].as_str().unwrap_or("-"),
                ready["reason"].as_str().unwrap_or("-")
            );
            if is_current
                && got == want
                && ready["message"].as_str().is_some_and(|message| message.contains(text))
            {
                return status.clone();
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "{name}: wanted {want} with {text:?}, is {status:#}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a revision has been delivered whole, with its hooks. (Ready may still be true from the
    /// revision before while one is applied.)
    pub(crate) async fn delivered(&self, name: &str, revision: i64) {
        until(&format!("revision {revision} of {name} is delivered"), || async {
            let status = self.releases().get(name).await.unwrap().data["status"].clone();
            let newest = &status["history"][0];
            newest["revision"] == revision && newest["outcome"] == "Succeeded"
        })
        .await;
    }

    /// A ConfigMap's data; null when it does not exist.
    pub(crate) async fn config_map(&self, namespace: &str, name: &str) -> Value {
        let api = self.api("v1", "ConfigMap", "configmaps", Some(namespace));
        api.get_opt(name).await.unwrap().map_or(Value::Null, |object| object.data["data"].clone())
    }

    /// Waits until a look that was asked for has taken place.
    pub(crate) async fn asked(&self, name: &str, at: &str) {
        let ask = json!({"metadata": {"annotations": {"convoy.kumodo.io/reconcile-at": at}}});
        self.patch(&self.releases(), name, ask).await;
        until("the request is echoed", || async {
            self.releases().get(name).await.unwrap().data["status"]["lastHandledReconcileAt"] == at
        })
        .await;
    }

    /// The requests of the controller-manager that kube-apiserver's audit log has, leaving out convoy's
    /// own kinds, their definitions and what it reads and writes as a host.
    pub(crate) fn target_requests(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.plane.audit_log()).unwrap_or_default();
        log.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| event["stage"] == "ResponseComplete")
            .filter(|event| {
                event["userAgent"]
                    .as_str()
                    .is_some_and(|agent| agent.starts_with("convoy-controller-manager"))
            })
            .map(|event| {
                format!("{} {}", event["verb"].as_str().unwrap(), event["requestURI"].as_str().unwrap())
            })
            .filter(|request| !request.contains("convoy.kumodo.io/v1alpha1") && !request.contains("/events"))
            .filter(|request| !request.contains(&format!("/namespaces/{NAMESPACE}/secrets/")))
            .collect()
    }
}

/// A resource by its apiVersion, kind and plural.
pub(crate) fn api_of(
    client: &Client,
    (api_version, kind, plural): (&str, &str, &str),
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

pub(crate) fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_true: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !is_true().await {
        assert!(tokio::time::Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
