//! Observers that share the work, as processes of their own.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoy_e2e::{Convoy, until};
use convoy_runtime::{ProcessIdentity, host_client};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const SHARDS: u32 = 8;
/// `--lease-duration` and `--lease-renew-interval` together.
const TAKEOVER: Duration = Duration::from_secs(4);
/// What connecting, listing and writing may take on a machine that is busy with other tests.
const SLACK: Duration = Duration::from_secs(8);
const QUICK: [&str; 8] = [
    "--shards",
    "8",
    "--lease-renew-interval",
    "1s",
    "--lease-duration",
    "3s",
    "--lease-observe-interval",
    "200ms",
];

/// An API server and one target.
struct World {
    _apiserver: Convoy,
    _sandbox: Convoy,
    folder: tempfile::TempDir,
    runtime: Runtime,
    host: Client,
    target: Client,
}

/// Two Clusters with an even shard and two with an odd one: of two replicas each owns two.
fn clusters() -> Vec<String> {
    let shards = std::num::NonZeroU32::new(SHARDS).unwrap();
    let of = |rest: u32| {
        let names = (0..).map(|n| format!("cluster-{n}"));
        names.filter(move |name| convoy_shard::shard_of("default", name, shards) % 2 == rest).take(2)
    };
    of(0).chain(of(1)).collect()
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn connect(runtime: &Runtime, kubeconfig: &Path) -> Client {
    let identity = ProcessIdentity { process: "test", replica_id: "test".to_owned() };
    runtime.block_on(host_client(Some(kubeconfig), &identity)).unwrap()
}

impl World {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (data, targets) = (path("convoy"), path("targets"));
        let apiserver = Convoy::start(&[
            "standalone",
            "--only",
            "apiserver",
            "--port",
            "0",
            "--shards",
            "8",
            "--data-dir",
            &data,
            "--audit-log-path",
            &path("host.log"),
        ])
        .unwrap();
        let sandbox =
            Convoy::start(&["sandbox", "--dir", &targets, "--audit-log-path", &path("target.log")]).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let host = connect(&runtime, &folder.path().join("convoy/admin.kubeconfig"));
        let target = connect(&runtime, &folder.path().join("targets/cluster-1.kubeconfig"));
        Self { _apiserver: apiserver, _sandbox: sandbox, folder, runtime, host, target }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("convoy/admin.kubeconfig")
    }

    fn replica(&self, process: &str, id: &str, more: &[&str]) -> Convoy {
        let kubeconfig = self.kubeconfig();
        let mut all = vec![process, "--kubeconfig", kubeconfig.to_str().unwrap(), "--replica-id", id];
        all.extend(["--health-bind-address", "127.0.0.1:0"]);
        all.extend(QUICK);
        all.extend(more);
        Convoy::start(&all).unwrap()
    }

    fn convoys(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.host.clone(), "default", &resource("convoy.kumodo.io", "v1alpha1", kind))
    }

    fn create(&self, api: &Api<DynamicObject>, object: Value) -> DynamicObject {
        let object = serde_json::from_value(object).unwrap();
        self.runtime.block_on(api.create(&PostParams::default(), &object)).unwrap()
    }

    /// A Cluster, whose name is also that of its Release and of a ConfigMap on the target.
    fn cluster(&self, name: &str) {
        let kubeconfig = self.folder.path().join("targets/cluster-1.kubeconfig");
        let secrets = Api::namespaced_with(self.host.clone(), "default", &resource("", "v1", "Secret"));
        self.create(
            &secrets,
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                "stringData": {"kubeconfig": std::fs::read_to_string(kubeconfig).unwrap()},
            }),
        );
        self.create(
            &self.convoys("Cluster"),
            json!({
                "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
                "spec": {"kubeconfig": {"secretRef": {"name": name}}},
            }),
        );
    }

    fn release(&self, name: &str) -> Value {
        let created = self.create(
            &self.convoys("Release"),
            json!({
                "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release", "metadata": {"name": name},
                "spec": {"clusterRef": {"name": name}, "source": {"git": {"repositoryRef": {"name": "none"}}}},
            }),
        );
        json!({"name": name, "uid": created.metadata.uid})
    }

    /// Delivers a ConfigMap as a controller-manager does: on the target, and in an inventory.
    fn deliver(&self, name: &str) {
        let release = self.release(name);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "convoy"}},
            "data": {"a": "1"},
        });
        let parameters = PatchParams::apply("convoy").force();
        let request = self.maps();
        let applied = self.runtime.block_on(request.patch(name, &parameters, &Patch::Apply(&map))).unwrap();
        self.create(
            &self.convoys("ReleaseInventory"),
            json!({
                "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "ReleaseInventory",
                "metadata": {"name": format!("{name}.{name}")},
                "spec": {
                    "releaseRef": release, "clusterRef": {"name": name}, "bundleDigest": "sha256:b",
                    "entries": [{
                        "version": "v1", "kind": "ConfigMap", "namespace": "default", "name": name,
                        "uid": applied.metadata.uid, "resourceVersion": applied.metadata.resource_version,
                        "digest": "sha256:d",
                    }],
                },
            }),
        );
    }

    fn maps(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.target.clone(), "default", &resource("", "v1", "ConfigMap"))
    }

    /// Changes the ConfigMap on the target by hand.
    fn set(&self, name: &str, value: &str) {
        let patch = json!({"data": {"a": value}});
        let maps = self.maps();
        self.runtime.block_on(maps.patch(name, &PatchParams::default(), &Patch::Merge(&patch))).unwrap();
    }

    fn status(&self, name: &str) -> Value {
        let release = self.runtime.block_on(self.convoys("Release").get(name)).unwrap();
        release.data["status"].clone()
    }

    /// Waits until a condition of a Release has this status and reason, as `status/reason`, and answers with
    /// the Release's status.
    fn says(&self, name: &str, type_: &str, want: &str) -> Value {
        let last = Last(std::cell::RefCell::default());
        until(&format!("{type_} of {name} is {want}"), || {
            let status = self.status(name);
            *last.0.borrow_mut() = status.clone();
            (condition(&status, type_)? == want).then_some(status)
        })
    }

    /// The replicas of the observer that sent a request: those whose line in an audit log passes `is_meant`.
    fn senders(&self, log: &str, is_meant: impl Fn(&Value) -> bool) -> BTreeSet<String> {
        let text = std::fs::read_to_string(self.folder.path().join(log)).unwrap();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let agents =
            events.filter(is_meant).map(|event| event["userAgent"].as_str().unwrap_or("").to_owned());
        agents.filter(|agent| agent.starts_with("convoy-observer/")).collect()
    }
}

/// What was seen last, which is told when the test fails.
struct Last(std::cell::RefCell<Value>);

impl Drop for Last {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the last status was {}", self.0.borrow());
        }
    }
}

fn condition(status: &Value, type_: &str) -> Option<String> {
    let found = status["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)?;
    Some(format!("{}/{}", found["status"].as_str()?, found["reason"].as_str()?))
}

fn observer_of(status: &Value) -> &str {
    status["observer"]["replica"].as_str().unwrap()
}

/// Two observers, of which one is killed.
fn share_and_take_over(more: &[&str]) {
    let world = World::start();
    let one = world.replica("observer", "obs-0", more);
    let two = world.replica("observer", "obs-1", more);
    let clusters = clusters();
    let owner = |at: usize| if at < 2 { "obs-0" } else { "obs-1" };
    for name in &clusters {
        world.cluster(name);
        world.deliver(name);
    }
    for (at, name) in clusters.iter().enumerate() {
        let status = world.says(name, "Drifted", "False/InSync");
        // The two may have started one after the other.
        until(&format!("{} observes {name}", owner(at)), || {
            (observer_of(&world.status(name)) == owner(at)).then_some(())
        });
        assert!(status["observer"]["epoch"].is_u64(), "{status}");
    }
    let writers = |name: &str, since: usize| {
        let is_status = |event: &Value| {
            event["verb"] == "patch"
                && event["objectRef"]["resource"] == "releases"
                && event["objectRef"]["name"] == name
                && event["objectRef"]["subresource"] == "status"
                && event["stage"] == "ResponseComplete"
        };
        let text = std::fs::read_to_string(world.folder.path().join("host.log")).unwrap();
        let events = text.lines().skip(since).filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let agents = events.filter(is_status).map(|event| event["userAgent"].to_string());
        agents.collect::<BTreeSet<String>>()
    };
    let lines = || std::fs::read_to_string(world.folder.path().join("host.log")).unwrap().lines().count();

    // Drift is seen by the owner alone.
    let before = lines();
    for name in &clusters[1..] {
        world.set(name, "by hand");
    }
    for (at, name) in clusters.iter().enumerate().skip(1) {
        let status = world.says(name, "Drifted", "True/ChangedOnTarget");
        assert_eq!(observer_of(&status), owner(at), "{status}");
        let writers = writers(name, before);
        assert!(writers.len() == 1 && writers.first().unwrap().contains(owner(at)), "{name}: {writers:?}");
    }
    let watches = world.senders("target.log", |event| event["verb"] == "watch");
    assert_eq!(watches.len(), 2, "{watches:?}");

    // The survivor reports what happens to the other's clusters.
    let epochs: Vec<u64> =
        clusters.iter().map(|name| world.status(name)["observer"]["epoch"].as_u64().unwrap()).collect();
    one.kill();
    let killed = Instant::now();
    world.set(&clusters[0], "by hand");
    let status = world.says(&clusters[0], "Drifted", "True/ChangedOnTarget");
    let took = killed.elapsed();
    println!("takeover of the observer's shards {more:?}: {took:?}");
    assert!(took < TAKEOVER + SLACK, "{took:?}");
    assert_eq!(observer_of(&status), "obs-1");
    assert!(status["observer"]["epoch"].as_u64().unwrap() > epochs[0], "{status}");
    // What did not change is looked at too, and what was said stays.
    until("the other shard is taken", || (observer_of(&world.status(&clusters[1])) == "obs-1").then_some(()));
    assert_eq!(condition(&world.status(&clusters[1]), "Drifted").unwrap(), "True/ChangedOnTarget");
    for at in [2, 3] {
        let status = world.status(&clusters[at]);
        assert_eq!((observer_of(&status), status["observer"]["epoch"].as_u64()), ("obs-1", Some(epochs[at])));
    }
    assert_eq!(two.terminate(), Some(0));
}

#[test]
fn sc11_sc25_sc42_each_cluster_is_observed_by_one_replica_and_by_another_when_it_is_killed() {
    share_and_take_over(&[]);
}

#[test]
fn sc25_sc43_the_same_with_caches_of_own_shards_alone() {
    share_and_take_over(&["--shard-scoped-cache"]);
}

/// Case 401, step 4.
#[test]
fn i12_without_controller_managers_releases_say_so_with_their_age_until_one_is_back() {
    let world = World::start();
    let store = format!("file://{}", world.folder.path().join("store").display());
    let start = |id: &str| world.replica("controller-manager", id, &["--render-store-url", &store]);
    let manager = start("cm-0");
    let _observer = world.replica("observer", "obs-0", &["--shard-scoped-cache"]);
    let name = &clusters()[0];
    world.cluster(name);
    world.release(name);
    // There is no such repository.
    let status = world.says(name, "Ready", "False/DependencyNotFound");
    assert_eq!(status["controller"]["replica"], "cm-0");

    manager.kill();
    let killed = Instant::now();
    let status = world.says(name, "Ready", "Unknown/ControllerMissing");
    let took = killed.elapsed();
    println!("the missing controller-manager is said after {took:?}");
    // A live lease is never taken for a dead one: it was renewed at most an interval before the kill.
    assert!(
        took + Duration::from_secs(1) >= TAKEOVER + Duration::from_secs(2) && took < 2 * TAKEOVER + SLACK
    );
    let message = status["conditions"].to_string();
    assert!(
        message.contains("no controller-manager has held shard") && message.contains(" since 20"),
        "{message}"
    );
    assert!(message.contains("Ready was False (DependencyNotFound)"), "{message}");

    // It is said once.
    let version = |world: &World| {
        let release = world.runtime.block_on(world.convoys("Release").get(name)).unwrap();
        release.metadata.resource_version
    };
    let said = version(&world);
    let quiet = Instant::now();
    until("a while passes", || (quiet.elapsed() > 2 * TAKEOVER).then_some(()));
    assert_eq!(version(&world), said);

    // A new Release is one that nobody works on, too.
    let other = &clusters()[1];
    world.release(other);
    world.says(other, "Ready", "Unknown/ControllerMissing");

    let _manager = start("cm-1");
    for name in [name, other] {
        let status = world.says(name, "Ready", "False/DependencyNotFound");
        assert_eq!(status["controller"]["replica"], "cm-1");
    }
}
