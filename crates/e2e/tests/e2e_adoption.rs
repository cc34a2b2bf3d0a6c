//! Objects that kubectl or Helm made become a Release's, on a real kube-apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, and run helm"
)]

mod support;

use std::process::Command;

use convoy_e2e::Kubectl;
use convoy_testkit::{ControlPlane, Options, leave_out, program};
use serde_json::{Value, json};

use support::{World, condition, until};

const FULL: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {keep: a, drop: b}\n";
const LESS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {keep: a}\n";

fn into_web() -> Value {
    json!({"targetNamespace": "web", "createNamespace": true, "apply": {"wait": false}})
}

async fn managers(world: &World) -> Vec<String> {
    let api = world.api("v1", "ConfigMap", "configmaps", Some("web"));
    let fields = api.get("settings").await.unwrap().metadata.managed_fields.unwrap_or_default();
    fields.into_iter().filter_map(|entry| Some(format!("{} {}", entry.manager?, entry.operation?))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn case_104_what_kubectl_applied_leaves_nothing_behind() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let kubectl = program("kubectl").map(|program| Kubectl::new(&program, &plane.kubeconfig())).unwrap();
    kubectl.ok(&["create", "namespace", "web"]);
    kubectl.ok_with(&["apply", "--namespace=web", "--filename=-"], FULL);
    let extra = r#"{"data": {"extra": "c"}}"#;
    kubectl.ok(&["patch", "-n=web", "configmap/settings", "--field-manager=autoscaler", "--patch", extra]);
    let uid = kubectl.object(&["-n=web", "configmap/settings"]).unwrap()["metadata"]["uid"].clone();

    let mut world = World::start(plane, &[("web/a.yaml", FULL)]).await;
    let mut spec = into_web();
    // Not even a conflict: what kubectl wrote is handed over.
    spec["apply"]["conflicts"] = json!("Fail");
    world.release("web", "web", spec).await;
    let status = world.says("web", "True/Succeeded", "").await;
    assert_eq!(condition(&status, "Applied")["message"], "1 to adopt, 1 left alone");
    assert_eq!(managers(&world).await, ["convoy Apply", "autoscaler Update"]);

    world.commit(&[("web/a.yaml", LESS)]);
    until("the dropped field goes", || async {
        world.config_map("web", "settings").await == json!({"keep": "a", "extra": "c"})
    })
    .await;
    let after = kubectl.object(&["-n=web", "configmap/settings"]).unwrap();
    assert_eq!(after["metadata"]["uid"], uid);
    let annotations = &after["metadata"]["annotations"];
    assert!(annotations["kubectl.kubernetes.io/last-applied-configuration"].is_null(), "{annotations}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_120_a_helm_release_is_carried_on() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let helm = match program("helm") {
        Ok(helm) => helm,
        Err(missing) => return leave_out(&missing),
    };
    let template = |data: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: {{{{ .Release.Namespace }}}}}}\ndata: {data}\n"
        )
    };
    let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    let (full, less) = (template("{keep: a, drop: b}"), template("{keep: a}"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("templates")).unwrap();
    std::fs::write(folder.path().join("Chart.yaml"), chart).unwrap();
    std::fs::write(folder.path().join("templates/a.yaml"), &full).unwrap();
    let installed = Command::new(helm)
        .args(["install", "web", ".", "--namespace=web", "--create-namespace"])
        .current_dir(folder.path())
        .env("KUBECONFIG", plane.kubeconfig())
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));

    let files = [("web/Chart.yaml", chart), ("web/templates/a.yaml", full.as_str())];
    let mut world = World::start(plane, &files).await;
    // Another Release than the Helm release's is told whose it is.
    world.release("thief", "web", into_web()).await;
    let said = "ConfigMap web/settings belongs to the Helm release web in web";
    world.says("thief", "False/ApplyConflict", said).await;
    world.delete(&world.releases(), "thief").await;
    assert_eq!(world.config_map("web", "settings").await, json!({"keep": "a", "drop": "b"}));

    let mut spec = into_web();
    spec["apply"]["conflicts"] = json!("Fail");
    world.release("web", "web", spec).await;
    world.says("web", "True/Succeeded", "").await;
    assert_eq!(managers(&world).await, ["convoy Apply"]);
    world.commit(&[("web/Chart.yaml", chart), ("web/templates/a.yaml", &less)]);
    until("the dropped field goes", || async {
        world.config_map("web", "settings").await == json!({"keep": "a"})
    })
    .await;
    world.stop().await;
}
