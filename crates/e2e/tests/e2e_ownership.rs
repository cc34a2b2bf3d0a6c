//! Several controller-managers share the work: who writes what is read from the targets' audit log.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use convoy_controller_manager::{Options, run};
use convoy_e2e::repository::Repository;
use convoy_e2e::{Convoy, PATIENCE};
use convoy_runtime::leases::{KubeLeases, PeerLeases, drive};
use convoy_runtime::{
    CacheScope, Clock, Metrics, ProcessIdentity, Readiness, RealClock, Shards, Shutdown, host_client,
};
use convoy_shard::{ProcessKind, Settings, shard_of};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";
/// Few, so that two replicas and their leases ask little of a busy machine.
const SHARDS: NonZeroU32 = NonZeroU32::new(4).unwrap();
const SECOND: Duration = Duration::from_secs(1);

/// An API server of convoy, two simulated targets and a Git repository.
struct Stage {
    folder: tempfile::TempDir,
    client: Client,
    _apiserver: Convoy,
    _sandbox: Convoy,
}

fn identity(replica: &str) -> ProcessIdentity {
    ProcessIdentity { process: "controller-manager", replica_id: replica.to_owned() }
}

/// The n-th Cluster name whose shard is even, or odd: with two replicas each has those of one parity.
fn cluster_name(is_odd: bool) -> String {
    (0..)
        .map(|number| format!("edge-{number}"))
        .find(|name| (shard_of(NAMESPACE, name, SHARDS) % 2 == 1) == is_odd)
        .unwrap()
}

impl Stage {
    /// Two Clusters, of the two replicas' halves, and a repository with one ConfigMap.
    async fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let apiserver = Convoy::start(&[
            "standalone",
            "--only",
            "apiserver",
            "--data-dir",
            &at("convoy"),
            "--port",
            "0",
            "--shards",
            &SHARDS.to_string(),
        ]);
        let sandbox = Convoy::start(&[
            "sandbox",
            "--clusters",
            "2",
            "--dir",
            &at("targets"),
            "--audit-log-path",
            &at("audit.log"),
        ]);
        let kubeconfig = folder.path().join("convoy/admin.kubeconfig");
        let user = ProcessIdentity { process: "test", replica_id: "user".to_owned() };
        let client = host_client(Some(&kubeconfig), &user).await.unwrap();
        let stage = Self { folder, client, _apiserver: apiserver.unwrap(), _sandbox: sandbox.unwrap() };
        stage.repository().init();
        stage.commit("one");
        for (number, is_odd) in [(1, false), (2, true)] {
            let name = cluster_name(is_odd);
            let file = stage.folder.path().join(format!("targets/cluster-{number}.kubeconfig"));
            let kubeconfig = std::fs::read_to_string(file).unwrap();
            let secret = json!({"metadata": {"name": name}, "stringData": {"kubeconfig": kubeconfig}});
            stage.create("v1", "Secret", "secrets", secret).await;
            let spec = json!({"kubeconfig": {"secretRef": {"name": name}}});
            stage.convoy("Cluster", "clusters", json!({"metadata": {"name": name}, "spec": spec})).await;
        }
        let url = stage.repository().url();
        let repository = json!({"metadata": {"name": "apps"}, "spec": {"url": url, "interval": "1s"}});
        stage.convoy("GitRepository", "gitrepositories", repository).await;
        stage
    }

    fn repository(&self) -> Repository {
        Repository::at(&self.folder.path().join("apps"))
    }

    /// Makes the repository hold a ConfigMap with this text.
    fn commit(&self, text: &str) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"text": text},
        });
        self.repository().commit(&[("map.yaml", map.to_string())]);
    }

    fn api(&self, api_version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    fn releases(&self) -> Api<DynamicObject> {
        self.api(convoy_api::API_VERSION, "Release", "releases")
    }

    async fn create(&self, api_version: &str, kind: &str, plural: &str, mut object: Value) {
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        let object = serde_json::from_value(object).unwrap();
        self.api(api_version, kind, plural).create(&PostParams::default(), &object).await.unwrap();
    }

    async fn convoy(&self, kind: &str, plural: &str, object: Value) {
        self.create(convoy_api::API_VERSION, kind, plural, object).await;
    }

    async fn release(&self, name: &str, cluster: &str) {
        let spec = json!({
            "clusterRef": {"name": cluster}, "targetNamespace": name, "createNamespace": true,
            "source": {"git": {"repositoryRef": {"name": "apps"}}}, "apply": {"wait": false},
        });
        self.convoy("Release", "releases", json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    /// Waits until `is_so` says so of a Release; answers with it.
    async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let release = self.releases().get_opt(name).await.unwrap();
            let release = release.map_or(Value::Null, |release| serde_json::to_value(release).unwrap());
            if is_so(&release) {
                return release;
            }
            assert!(tokio::time::Instant::now() < deadline, "{name} {what}: {release:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The writes of replicas to the targets so far, as `replica verb cluster resource`.
    fn writes(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap_or_default();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let written = events.filter(|event| {
            event["stage"] == "ResponseComplete"
                && matches!(event["verb"].as_str(), Some("create" | "update" | "patch" | "delete"))
        });
        written
            .filter_map(|event| {
                let agent = event["userAgent"].as_str()?.strip_prefix("convoy-controller-manager/")?;
                let replica = agent.split_once('(')?.1.strip_suffix(')')?;
                let cluster = event["annotations"]["sandbox.convoy.kumodo.io/cluster"].as_str()?;
                let resource = event["objectRef"]["resource"].as_str()?;
                Some(format!("{replica} {} {cluster} {resource}", event["verb"].as_str()?))
            })
            .collect()
    }
}

/// A controller-manager with its lease loop, on a runtime of its own, so that it can be cut off.
struct Replica {
    runtime: Option<tokio::runtime::Runtime>,
    shards: Shards,
    shutdown: Shutdown,
}

impl Replica {
    fn start(stage: &Stage, replica: &'static str, scope: CacheScope) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let shards = Shards::new(SHARDS, Arc::clone(&clock));
        let shutdown = Shutdown::new();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let folder = stage.folder.path().to_owned();
        let (table, until) = (shards.clone(), shutdown.clone());
        runtime.spawn(async move { serve(&folder, replica, scope, table, clock, until).await });
        Self { runtime: Some(runtime), shards, shutdown }
    }

    /// Ends it as `kill -9` does: nothing is released, nothing is told.
    fn kill(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }

    async fn owns(&self, count: usize) {
        let mut owned = self.shards.changes();
        let enough = owned.wait_for(|owned| owned.len() == count);
        let got = tokio::time::timeout(PATIENCE, enough).await;
        assert!(got.is_ok(), "not {count} shards but {:?}", self.shards.owned());
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.shutdown.trigger();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(
    folder: &Path,
    replica: &str,
    scope: CacheScope,
    shards: Shards,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
) {
    let kubeconfig = folder.join("convoy/admin.kubeconfig");
    let client = host_client(Some(&kubeconfig), &identity(replica)).await.unwrap();
    let settings = Settings {
        shards: SHARDS,
        renew_interval: 2 * SECOND,
        lease_duration: 7 * SECOND,
        observe_interval: Duration::from_millis(250),
        ..Settings::new(ProcessKind::ControllerManager, replica, format!("boot-{replica}"))
    };
    settings.check().unwrap();
    let leases = KubeLeases::new(
        client.clone(),
        NAMESPACE,
        settings.clone(),
        Arc::clone(&clock),
        PeerLeases::default(),
        PeerLeases::default(),
    );
    let options = Options {
        client,
        identity: identity(replica),
        shards: shards.clone(),
        cache_scope: scope,
        observers: None,
        store: convoy_render::RenderStore::in_folder(&folder.join("store")).unwrap(),
        scratch_dir: folder.to_owned(),
        collection: None,
        allow_file_urls: true,
        targets: None,
        clock: Arc::clone(&clock),
        readiness: Readiness::default(),
        metrics: Metrics::default(),
    };
    let controllers = tokio::spawn(run(options, shutdown.clone()));
    drive(&leases, settings, &shards, &*clock, &mut (), &shutdown).await;
    controllers.await.unwrap().unwrap();
}

fn is_ready(release: &Value) -> bool {
    ready(release)["status"] == "True"
        && release["status"]["observedGeneration"] == release["metadata"]["generation"]
}

fn ready(release: &Value) -> &Value {
    let conditions = release["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().find(|condition| condition["type"] == "Ready").unwrap_or(&Value::Null)
}

fn owner(release: &Value) -> &str {
    release["status"]["controller"]["replica"].as_str().unwrap_or_default()
}

fn epoch(release: &Value) -> i64 {
    release["status"]["controller"]["epoch"].as_i64().unwrap_or_default()
}

/// Two replicas that have divided the shards, with a Release on a Cluster of each.
async fn divided(stage: &Stage, scope: CacheScope) -> (Replica, Replica) {
    let (a, b) = (Replica::start(stage, "cm-a", scope), Replica::start(stage, "cm-b", scope));
    tokio::join!(a.owns(2), b.owns(2));
    stage.release("even", &cluster_name(false)).await;
    stage.release("odd", &cluster_name(true)).await;
    (a, b)
}

async fn a_survivor_takes_over(scope: CacheScope) {
    let stage = Stage::set().await;
    let (a, b) = divided(&stage, scope).await;
    let even = stage.until("even", "is delivered by cm-a", |r| is_ready(r) && owner(r) == "cm-a").await;
    let odd = stage.until("odd", "is delivered by cm-b", |r| is_ready(r) && owner(r) == "cm-b").await;
    let before = stage.writes();
    assert!(before.iter().any(|write| write.starts_with("cm-a")), "{before:?}");
    for write in &before {
        let is_own = write.starts_with("cm-a ") == write.contains(" cluster-1 ");
        assert!(is_own, "a write to another replica's cluster: {write}");
    }

    a.kill();
    b.owns(4).await;
    let taken = stage.until("even", "is taken over by cm-b", |r| owner(r) == "cm-b").await;
    assert!(is_ready(&taken) && epoch(&taken) > epoch(&even), "{taken:#}");
    assert_eq!(ready(&taken)["lastTransitionTime"], ready(&even)["lastTransitionTime"], "Ready did not flip");
    assert_eq!(stage.writes(), before, "what is as it should be is not written again");

    stage.commit("two");
    let revision = |release: &Value| release["status"]["sourceRevision"].clone();
    let is_newer = |old: &Value, new: &Value| is_ready(new) && revision(new) != revision(old);
    stage.until("even", "gets the new revision", |r| is_newer(&even, r)).await;
    stage.until("odd", "gets the new revision", |r| is_newer(&odd, r)).await;
    let after = stage.writes();
    assert!(after[before.len()..].iter().all(|write| write.starts_with("cm-b ")), "{after:?}");
}

#[tokio::test]
async fn sc03_sc05_sc21_i1_each_cluster_has_one_writer_and_a_survivor_takes_over_without_writing_again() {
    a_survivor_takes_over(CacheScope::Everything).await;
}

#[tokio::test]
async fn sc43_i1_the_same_with_shard_scoped_caches() {
    a_survivor_takes_over(CacheScope::OwnShards).await;
}

async fn a_release_moves(scope: CacheScope) {
    let stage = Stage::set().await;
    let (_a, _b) = divided(&stage, scope).await;
    stage.until("even", "is delivered by cm-a", |r| is_ready(r) && owner(r) == "cm-a").await;
    let before = stage.writes().len();
    let moved = json!({"spec": {"clusterRef": {"name": cluster_name(true)}}});
    stage.releases().patch("even", &PatchParams::default(), &Patch::Merge(&moved)).await.unwrap();
    stage.until("even", "is delivered by cm-b", |r| is_ready(r) && owner(r) == "cm-b").await;
    let inventories = stage.api(convoy_api::API_VERSION, "ReleaseInventory", "releaseinventories");
    let left = format!("even.{}", cluster_name(false));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while inventories.get_opt(&left).await.unwrap().is_some() {
        assert!(tokio::time::Instant::now() < deadline, "the old inventory stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let writes = stage.writes().split_off(before);
    let of = |replica: &str, what: &str| {
        writes.iter().any(|write| write.starts_with(&format!("{replica} {what}")))
    };
    assert!(
        of("cm-a", "delete cluster-1 configmaps") && of("cm-b", "patch cluster-2 configmaps"),
        "{writes:?}"
    );
    for write in &writes {
        let is_own = write.starts_with("cm-a ") == write.contains(" cluster-1 ");
        assert!(is_own, "a write to another replica's cluster: {write}");
    }

    stage.releases().delete("even", &DeleteParams::default()).await.unwrap();
    stage.until("even", "is gone", Value::is_null).await;
    let names: Vec<String> = inventories
        .list(&Default::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|object| object.metadata.name)
        .collect();
    assert_eq!(names, [format!("odd.{}", cluster_name(true))]);
}

#[tokio::test]
async fn sc05_a_release_that_moves_is_removed_by_one_owner_and_applied_by_the_other() {
    a_release_moves(CacheScope::Everything).await;
}

#[tokio::test]
async fn sc05_sc43_the_same_move_with_shard_scoped_caches() {
    a_release_moves(CacheScope::OwnShards).await;
}
