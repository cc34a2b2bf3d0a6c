//! A sandbox cluster behaves as a cluster.

#![allow(clippy::disallowed_methods, reason = "tests live in real time")]
#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod cluster;

use std::time::Duration;

use cluster::{OneCluster, eventually};
use serde_json::{Value, json};

async fn send(
    one: &OneCluster,
    method: &'static str,
    path: &str,
    content_type: &'static str,
    body: Value,
) -> (u16, Value) {
    let (client, path) = (one.client.clone(), path.to_owned());
    let answer =
        tokio::task::spawn_blocking(move || client.send(method, &path, content_type, &body).unwrap());
    let answer = answer.await.unwrap();
    (answer.status, answer.json())
}

async fn apply(one: &OneCluster, path: &str, body: Value) -> (u16, Value) {
    send(one, "PATCH", &format!("{path}?fieldManager=test&force=true"), "application/apply-patch+yaml", body)
        .await
}

fn deployment(annotations: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "annotations": annotations},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "a:1"}]}}}})
}

const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|it| it["type"] == kind).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn applied_deployment_becomes_available() {
    let one = cluster::start(Duration::from_millis(50)).await;
    let (code, created) = apply(&one, WEB, deployment(&json!({}))).await;
    assert_eq!(code, 201, "{created}");
    let ready = eventually(&one.client, WEB, |_, it| it["status"]["availableReplicas"] == 2).await;
    assert_eq!(condition(&ready, "Available")["status"], "True");
    assert_eq!(ready["status"]["observedGeneration"], ready["metadata"]["generation"]);
    one.sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotated_deployment_fails_with_its_message() {
    let one = cluster::start(Duration::ZERO).await;
    apply(&one, WEB, deployment(&json!({convoy_sandbox::workload::FAIL: "no such image"}))).await;
    let failed =
        eventually(&one.client, WEB, |_, it| condition(it, "Progressing")["status"] == "False").await;
    assert_eq!(condition(&failed, "Progressing")["message"], "no such image");
    one.sandbox.stop().await;
}

fn widgets() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "minimum": 1, "default": 3}}}}}}}]}})
}

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGET: &str = "/apis/example.com/v1/namespaces/default/widgets/one";

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_served_once_established_and_go_with_their_definition() {
    let one = cluster::start(Duration::ZERO).await;
    let (code, _) = apply(&one, DEFINITION, widgets()).await;
    assert_eq!(code, 201);
    eventually(&one.client, DEFINITION, |_, it| condition(it, "Established")["status"] == "True").await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {}});
    let (code, stored) = apply(&one, WIDGET, widget.clone()).await;
    assert_eq!((code, &stored["spec"]["size"]), (201, &json!(3)), "{stored}");

    let mut small = widget;
    small["spec"]["size"] = json!(0);
    let (code, refused) = apply(&one, WIDGET, small).await;
    assert_eq!(code, 422);
    let message = "Widget.example.com \"one\" is invalid: spec.size: Invalid value: 0: spec.size in body should be \
         greater than or equal to 1";
    assert_eq!(refused["message"], message);
    let document = eventually(&one.client, "/openapi/v3/apis/example.com/v1", |code, _| code == 200).await;
    assert!(document["components"]["schemas"]["com.example.v1.Widget"].is_object());

    let (code, _) = send(&one, "DELETE", DEFINITION, "application/json", json!({})).await;
    assert_eq!(code, 200);
    eventually(&one.client, DEFINITION, |code, _| code == 404).await;
    eventually(&one.client, WIDGET, |code, _| code == 404).await;
    let (code, _) = apply(&one, DEFINITION, widgets()).await;
    assert_eq!(code, 201);
    eventually(&one.client, "/apis/example.com/v1/widgets", |code, it| {
        code == 200 && it["items"].as_array().is_some_and(Vec::is_empty)
    })
    .await;
    one.sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_namespace_takes_its_content_along() {
    let one = cluster::start(Duration::ZERO).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let path = "/api/v1/namespaces/team/configmaps/a";
    let (code, missing) = apply(&one, path, map.clone()).await;
    assert_eq!((code, &missing["message"]), (404, &json!("namespaces \"team\" not found")));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    apply(&one, "/api/v1/namespaces/team", namespace).await;
    let (code, _) = apply(&one, path, map).await;
    assert_eq!(code, 201);
    send(&one, "DELETE", "/api/v1/namespaces/team", "application/json", json!({})).await;
    eventually(&one.client, "/api/v1/namespaces/team", |code, _| code == 404).await;
    eventually(&one.client, path, |code, _| code == 404).await;
    one.sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_go_with_their_owner() {
    let one = cluster::start(Duration::ZERO).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    let (_, owner) = send(&one, "POST", maps, "application/json", owner).await;
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    let child = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "child", "ownerReferences": reference}});
    let (code, _) = send(&one, "POST", maps, "application/json", child).await;
    assert_eq!(code, 201);
    send(&one, "DELETE", &format!("{maps}/owner"), "application/json", json!({})).await;
    eventually(&one.client, &format!("{maps}/child"), |code, _| code == 404).await;
    one.sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_in_the_audit_log() {
    let one = cluster::start(Duration::ZERO).await;
    apply(&one, WEB, deployment(&json!({}))).await;
    let log = std::fs::read_to_string(one.folder.path().join("audit.log")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let patch = events.iter().find(|it| it["verb"] == "patch").unwrap();
    assert_eq!(
        (&patch["apiVersion"], &patch["objectRef"]["resource"]),
        (&json!("audit.k8s.io/v1"), &json!("deployments"))
    );
    assert_eq!(patch["annotations"][convoy_sandbox::CLUSTER_ANNOTATION], "one");
    one.sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_impersonated_may_what_roles_allow_and_the_log_names_both() {
    let one = cluster::start(Duration::ZERO).await;
    let ask = |method: &'static str, path: &'static str, user: &'static str, body: Value| {
        let client = one.client.clone();
        let headers = [("Impersonate-User", user), ("Content-Type", "application/json")];
        async move {
            let body = body.to_string();
            let ask = move || client.request(method, path, &headers, body.as_bytes()).unwrap();
            let answer = tokio::task::spawn_blocking(ask).await.unwrap();
            (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
        }
    };
    let (maps, deployer) = ("/api/v1/namespaces/default/configmaps", "system:serviceaccount:team:deployer");
    let map = || json!({"metadata": {"name": "a"}});
    let (code, message) = ask("POST", maps, deployer, map()).await;
    let refused = format!(
        "configmaps is forbidden: User {deployer:?} cannot create resource \"configmaps\" in API group \"\" in the namespace \
         \"default\""
    );
    assert_eq!((code, message), (403, refused));
    assert_eq!(ask("GET", "/apis", deployer, Value::Null).await.0, 200);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({
        "metadata": {"name": "deployer"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}],
    });
    let binding = json!({
        "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "team", "name": "deployer"}],
    });
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let (code, answer) =
            send(&one, "POST", &format!("{rbac}/{plural}"), "application/json", object).await;
        assert_eq!(code, 201, "{answer}");
    }
    // Roles are read from a cache, as kube-apiserver reads them, which follows a moment later.
    let allowed = async { while ask("POST", maps, deployer, map()).await.0 != 201 {} };
    tokio::time::timeout(Duration::from_secs(30), allowed).await.unwrap();
    assert_eq!(ask("GET", maps, deployer, Value::Null).await.0, 403);
    assert_eq!(ask("GET", maps, "jane", Value::Null).await.0, 403);
    let log = std::fs::read_to_string(one.folder.path().join("audit.log")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let made = events
        .iter()
        .find(|it| it["responseStatus"]["code"] == 201 && it["objectRef"]["resource"] == "configmaps")
        .unwrap();
    assert_eq!(
        (&made["user"]["username"], &made["impersonatedUser"]["username"]),
        (&json!("admin"), &json!(deployer))
    );
    one.sandbox.stop().await;
}
