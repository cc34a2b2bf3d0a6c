//! kubectl works against a sandbox cluster.

#![allow(clippy::disallowed_methods, reason = "tests run programs and live in real time")]
#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod cluster;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use cluster::OneCluster;
use convoy_testkit::{leave_out, program};

struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs kubectl, outside of the runtime's threads.
async fn kubectl(one: &OneCluster, arguments: &[&str], input: &str) -> Answer {
    let mut command = Command::new(program("kubectl").unwrap());
    command
        .args(arguments)
        .env("KUBECONFIG", one.sandbox.clusters()[0].kubeconfig())
        .env("HOME", one.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let input = input.to_owned();
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    let output = output.await.unwrap();
    Answer {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn succeed(one: &OneCluster, arguments: &[&str], input: &str) -> String {
    let answer = kubectl(one, arguments, input).await;
    assert_eq!(answer.code, 0, "kubectl {}: {}{}", arguments.join(" "), answer.stdout, answer.stderr);
    answer.stdout
}

const WEB: &str = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
  "replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
  "spec": {"containers": [{"name": "c", "image": "a:1"}]}}}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_applies_waits_compares_scales_explains_and_deletes() {
    if let Err(missing) = program("kubectl") {
        leave_out(&missing);
        return;
    }
    let one = cluster::start(Duration::from_millis(100)).await;
    succeed(&one, &["create", "namespace", "team"], "").await;
    succeed(&one, &["create", "configmap", "map", "--from-literal=a=b", "-n", "team"], "").await;
    succeed(&one, &["create", "secret", "generic", "secret", "--from-literal=a=b", "-n", "team"], "").await;
    let table = succeed(&one, &["get", "configmap,secret", "-n", "team", "--no-headers"], "").await;
    assert!(table.contains("configmap/map") && table.contains("Opaque"), "{table}");

    assert_eq!(succeed(&one, &["apply", "-f", "-"], WEB).await, "deployment.apps/web created\n");
    succeed(&one, &["wait", "--for=condition=Available", "deployment/web", "--timeout=20s"], "").await;
    succeed(&one, &["rollout", "status", "deployment/web", "--timeout=20s"], "").await;
    assert_eq!(succeed(&one, &["apply", "-f", "-"], WEB).await, "deployment.apps/web unchanged\n");
    let table = succeed(&one, &["get", "deployments"], "").await;
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(words, [["NAME", "READY", "UP-TO-DATE", "AVAILABLE"], ["web", "2/2", "2", "2"]]);

    let newer = WEB.replace("a:1", "a:2");
    for way in [&["diff", "-f", "-"][..], &["diff", "--server-side", "--force-conflicts", "-f", "-"]] {
        let difference = kubectl(&one, way, &newer).await;
        assert_eq!(difference.code, 1, "{}", difference.stderr);
        let changed: Vec<&str> =
            difference.stdout.lines().filter(|line| line.contains("image: a:")).collect();
        assert_eq!(changed, ["-      - image: a:1", "+      - image: a:2"], "{}", difference.stdout);
    }
    succeed(&one, &["apply", "--server-side", "--force-conflicts", "-f", "-"], &newer).await;
    succeed(&one, &["scale", "deployment/web", "--replicas=3"], "").await;
    let replicas = succeed(&one, &["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"], "").await;
    assert_eq!(replicas, "3");

    let wrong = kubectl(&one, &["apply", "-f", "-"], &newer.replace("\"replicas\"", "\"replica\"")).await;
    assert!(wrong.stderr.contains("unknown field \"spec.replica\""), "{}", wrong.stderr);
    let explained = succeed(&one, &["explain", "deployment.spec.strategy"], "").await;
    assert!(explained.contains("FIELD: strategy <DeploymentStrategy>"), "{explained}");
    assert!(succeed(&one, &["describe", "deployment", "web"], "").await.contains("NewReplicaSetAvailable"));
    assert_eq!(succeed(&one, &["auth", "can-i", "create", "pods"], "").await, "yes\n");
    succeed(&one, &["label", "deployment", "web", "x=y"], "").await;
    succeed(&one, &["delete", "deployment", "web"], "").await;
    succeed(&one, &["delete", "namespace", "team", "--timeout=20s"], "").await;
    one.sandbox.stop().await;
}
