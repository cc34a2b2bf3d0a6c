//! The overlays of `deploy/`, run: pods are processes beside a real kube-apiserver and kube-controller-manager.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests, with the machine's clock"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use convoy_e2e::deployment::{HOME, Installed, Workload};
use convoy_e2e::{Cli, until};
use convoy_testkit::leave_out;

fn installed() -> Option<Installed> {
    Installed::start().inspect_err(|why| leave_out(why)).ok()
}

/// What etcd answers at its Service to a call of its JSON gateway.
fn etcd(world: &Installed, call: &str, body: &str) -> Option<String> {
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
    let Some(world) = installed() else { return };
    world.apply("single-replica");
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

#[test]
fn sc37_sc51_the_multi_replica_overlay_delivers_through_the_aggregator_and_goes_on_when_its_pods_are_killed()
{
    let Some(world) = installed() else { return };
    world.install("multi-replica");
    let workload = Workload::start(&world, 3, 30);
    let kubectl = &world.kubectl;
    world.await_long("all Releases are delivered", || workload.delivered(&world, 0));

    // One of the two observers behind the Service answers, by turns.
    for (subresource, expected) in [
        ("preview", r#""kind":"ReleasePreview""#),
        ("diff", r#""kind":"ReleaseDiff""#),
        ("health", r#""state":"Healthy""#),
        ("history", r#""outcome":"Succeeded""#),
    ] {
        let path = format!("/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releases/app-00/{subresource}");
        world.await_long(subresource, || {
            let output = kubectl.command(&["get", "--raw", &path], "");
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            if said.contains(expected) { Ok(()) } else { Err(said) }
        });
    }

    for (number, component) in ["controller-manager", "observer", "apiserver"].into_iter().enumerate() {
        let pods = world.runner.pods(&format!("convoy-{component}"));
        world.runner.kill(pods.first().unwrap());
        workload.commit(number + 1);
        let what = format!("a change while the {component} was killed");
        world.await_long(&what, || workload.delivered(&world, number + 1));
    }
    let pod = world.runner.pods("convoy-controller-manager").pop().unwrap();
    kubectl.ok(&["delete", "pod", "-n", HOME, &pod, "--wait=false"]);
    workload.commit(4);
    world.await_long("a change while a pod was deleted", || workload.delivered(&world, 4));

    let convoy = Cli::new(&world.plane.kubeconfig());
    let (code, said, why) = convoy.run("rollback app-00 -n team --to 1");
    assert_eq!(code, Some(0), "{said}{why}");
    let history = "jsonpath={.status.history}";
    world.await_long("a rollback", || {
        let said = kubectl.ok(&["get", "release", "app-00", "-n", "team", "-o", history]);
        let is_back = workload.have(1, 0) == 1;
        if is_back { Ok(()) } else { Err(said) }
    });
    assert_eq!(world.forbidden(), Vec::<String>::new());
}
