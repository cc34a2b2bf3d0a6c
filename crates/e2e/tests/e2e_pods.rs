//! The overlays of `deploy/`, run: pods are processes beside a real kube-apiserver and kube-controller-manager.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use convoy_e2e::deployment::{Network, Objects, PodRunner, folder, kustomize};
use convoy_e2e::{Kubectl, convoy_program, until};
use convoy_testkit::{ControlPlane, leave_out, program};

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
