//! The overlays of `deploy/`, run: pods are processes beside a real kube-apiserver and kube-controller-manager.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests, with the machine's clock"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use convoy_e2e::deployment::{Network, Objects, PodRunner, folder, kustomize};
use convoy_e2e::repository::Repository;
use convoy_e2e::{Convoy, Kubectl, convoy_program, until};
use convoy_testkit::{ControlPlane, GitServer, leave_out, program};
use serde_json::{Value, json};

const HOME: &str = "convoy-system";

struct World {
    runner: PodRunner,
    kubectl: Kubectl,
    _plane: ControlPlane,
}

impl World {
    fn start_or_leave_out() -> Option<Self> {
        let network = Network::find().inspect_err(|why| leave_out(why)).ok()?;
        let kubectl = program("kubectl").inspect_err(|missing| leave_out(missing)).ok()?;
        let etcd = program("etcd").inspect_err(|missing| leave_out(missing)).ok()?;
        let plane = ControlPlane::start_or_leave_out(&network.options())?;
        let convoy = convoy_program();
        let programs = [("convoy", convoy.as_path()), ("registry.k8s.io/etcd", etcd.as_path())];
        let runner = PodRunner::start(&plane, network, &programs);
        let kubectl = Kubectl::new(&kubectl, &plane.kubeconfig());
        Some(Self { runner, kubectl, _plane: plane })
    }

    fn apply(&self, objects: &Objects) {
        self.kubectl.ok(&["create", "namespace", HOME]);
        let secrets = convoy_e2e::run(&["certificates", "-n", HOME]);
        self.kubectl.ok_with(&["apply", "-f", "-"], &String::from_utf8(secrets.stdout).unwrap());
        self.kubectl.ok_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &objects.list());
    }

    /// Waits until a Deployment is Available, and tells the pods' last words when it does not become so.
    fn available(&self, deployment: &str) {
        let name = format!("deployment/{deployment}");
        let wait = ["wait", "-n", HOME, "--for=condition=Available", &name, "--timeout=120s"];
        let output = self.kubectl.command(&wait, "");
        let pods = || self.kubectl.ok(&["get", "pods", "-n", HOME, "-o", "wide"]);
        assert!(output.status.success(), "{deployment}:\n{}{}", pods(), self.runner.last_lines());
    }
}

/// What etcd answers at its Service to a call of its JSON gateway.
fn etcd(world: &World, call: &str, body: &str) -> Option<String> {
    let ip =
        world.kubectl.ok(&["get", "service", "-n", HOME, "convoy-etcd", "-o", "jsonpath={.spec.clusterIP}"]);
    let mut stream = TcpStream::connect((ip.as_str(), 2379)).ok()?;
    let length = body.len();
    write!(stream, "POST /v3/kv/{call} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.0 200").then_some(answer)
}

#[test]
fn sc58_the_dev_etcd_runs_as_its_pod_says_behind_its_service_and_forgets_with_it() {
    let Some(world) = World::start_or_leave_out() else { return };
    let objects = kustomize(&program("kubectl").unwrap(), &folder().join("overlays/single-replica"));
    world.apply(&objects);
    world.available("convoy-etcd");
    // "a" and "b" in base64.
    let key = r#"{"key": "YQ=="}"#;
    until("etcd keeps what it is told", || etcd(&world, "put", r#"{"key": "YQ==", "value": "Yg=="}"#));
    assert!(etcd(&world, "range", key).unwrap().contains(r#""value":"Yg==""#));
    let pods = || world.runner.pods("convoy-etcd");
    let first = until("one etcd", || pods().pop());
    world.kubectl.ok(&["delete", "pod", "-n", HOME, &first]);
    // Another pod has its place, with nothing of the former.
    until("another etcd", || pods().into_iter().find(|pod| *pod != first));
    let answer = until("the Service leads to it", || etcd(&world, "range", key));
    assert!(!answer.contains("Yg=="), "{answer}");
}

const TARGETS: u16 = 3;
const RELEASES: usize = 30;
/// For a takeover, on a machine that does other things, too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for it for longer than usual; tells the pods' last words when it does not come.
fn await_long(world: &World, what: &str, mut look: impl FnMut() -> Result<(), String>) {
    let began = Instant::now();
    while let Err(found) = look() {
        let pods = || world.kubectl.ok(&["get", "pods", "-n", HOME, "-o", "wide"]);
        assert!(began.elapsed() < PATIENCE, "{what}: {found}\n{}{}", pods(), world.runner.last_lines());
        // The pause of a poll with a deadline.
        std::thread::park_timeout(Duration::from_millis(500));
    }
}

/// Clusters with their Secrets, a GitRepository, and the Releases, in the namespace `team`.
fn fleet(sandboxes: &Path, url: &str) -> String {
    let kind = |kind: &str, name: &str, spec: &Value| {
        json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind,
               "metadata": {"name": name, "namespace": "team"}, "spec": spec})
    };
    let mut items = vec![kind("GitRepository", "apps", &json!({"url": url, "interval": "2s"}))];
    for number in 1..=TARGETS {
        let name = format!("cluster-{number}");
        let kubeconfig = std::fs::read_to_string(sandboxes.join(format!("{name}.kubeconfig"))).unwrap();
        items.push(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "team"},
                          "stringData": {"kubeconfig": kubeconfig}}),
        );
        items.push(kind("Cluster", &name, &json!({"kubeconfig": {"secretRef": {"name": name}}})));
    }
    for number in 0..RELEASES {
        let cluster = format!("cluster-{}", number % usize::from(TARGETS) + 1);
        let name = format!("app-{number:02}");
        let spec = json!({
            "clusterRef": {"name": cluster}, "targetNamespace": name, "createNamespace": true,
            "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "map"}},
        });
        items.push(kind("Release", &name, &spec));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn sc37_sc51_the_multi_replica_overlay_delivers_through_the_aggregator_and_goes_on_when_its_pods_are_killed()
{
    let Some(world) = World::start_or_leave_out() else { return };
    world.apply(&kustomize(&program("kubectl").unwrap(), &folder().join("overlays/multi-replica")));
    for deployment in ["etcd", "apiserver", "controller-manager", "observer"] {
        world.available(&format!("convoy-{deployment}"));
    }
    let kubectl = &world.kubectl;
    kubectl.ok(&[
        "wait",
        "--for=condition=Available",
        "apiservice/v1alpha1.convoy.kumodo.io",
        "--timeout=60s",
    ]);

    let work = tempfile::tempdir().unwrap();
    let sandboxes = work.path().join("sandboxes");
    let count = TARGETS.to_string();
    let _targets =
        Convoy::start(&["sandbox", "--clusters", &count, "--dir", sandboxes.to_str().unwrap()]).unwrap();
    let repository = Repository::at(&work.path().join("git/apps"));
    repository.init();
    let commit = |number: usize| {
        let map =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{number: '{number}'}}\n");
        repository.commit(&[("map/all.yaml", map)]);
    };
    commit(0);
    let git = GitServer::start(&work.path().join("git")).unwrap();
    kubectl.ok(&["create", "namespace", "team"]);
    kubectl.ok_with(&["apply", "--server-side", "-f", "-"], &fleet(&sandboxes, &git.url("apps")));

    // What the targets have, and what the Releases say.
    let program = program("kubectl").unwrap();
    let delivered = |number: usize| {
        let have: usize = (1..=TARGETS)
            .map(|target| {
                let target = Kubectl::new(&program, &sandboxes.join(format!("cluster-{target}.kubeconfig")));
                let maps = target.ok(&[
                    "get",
                    "configmaps",
                    "-A",
                    "-o",
                    "jsonpath={range .items[*]}{.metadata.name}={.data.number} {end}",
                ]);
                maps.split(' ').filter(|map| *map == format!("m={number}")).count()
            })
            .sum();
        let ready = r#"jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}"#;
        let output = kubectl.command(&["get", "releases", "-n", "team", "-o", ready], "");
        let ready = String::from_utf8_lossy(&output.stdout);
        let ready = ready.split_whitespace().filter(|status| *status == "True").count();
        if (have, ready) == (RELEASES, RELEASES) {
            return Ok(());
        }
        Err(format!("{have} delivered, {ready} ready {}", String::from_utf8_lossy(&output.stderr)))
    };
    await_long(&world, "all Releases are delivered", || delivered(0));

    // One of the two observers behind the Service answers, by turns.
    let preview = "/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releases/app-00/preview";
    await_long(&world, "a preview", || {
        let output = kubectl.command(&["get", "--raw", preview], "");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    });

    for (number, component) in ["controller-manager", "observer", "apiserver"].into_iter().enumerate() {
        let pods = world.runner.pods(&format!("convoy-{component}"));
        world.runner.kill(pods.first().unwrap());
        commit(number + 1);
        await_long(&world, &format!("a change while the {component} was killed"), || delivered(number + 1));
    }
    let pod = world.runner.pods("convoy-controller-manager").pop().unwrap();
    kubectl.ok(&["delete", "pod", "-n", HOME, &pod, "--wait=false"]);
    commit(4);
    await_long(&world, "a change while a pod was deleted", || delivered(4));

    for (name, log) in world.runner.logs() {
        let refused = log.lines().find(|line| line.contains("forbidden") || line.contains("Forbidden"));
        assert!(refused.is_none(), "{name}: {}", refused.unwrap_or_default());
    }
}
