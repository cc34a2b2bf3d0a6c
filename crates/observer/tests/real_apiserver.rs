//! The observer against a real kube-apiserver, which is host and target at once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod support;

use std::time::Duration;

use convoy_testkit::{ControlPlane, Options};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use support::{World, account, api, create, resource, until};

#[tokio::test(flavor = "multi_thread")]
async fn health_and_drift_on_a_real_apiserver() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let world = World::start(&plane).await;
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    world.cluster("here", &kubeconfig).await;
    world.new_release("web", "here").await;
    until("ready", || async { world.readiness.missing().is_empty() }).await;

    let maps = api(&world.client, "v1", "ConfigMap", "configmaps");
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": value}});
    let settings = world.apply(&maps, "", map("1")).await;
    world.inventory("web", "here", "sha256:b1", vec![settings.clone()]).await;
    let status = world.says("web", "True/Healthy False/InSync").await;
    assert_eq!(
        (&status["observedBundleDigest"], &status["healthyObjects"]),
        (&json!("sha256:b1"), &json!(1))
    );
    assert_eq!(status["observer"]["replica"], "obs-0");

    // Somebody else's own field is no drift, a change of convoy's field is.
    let theirs = json!({"data": {"b": "theirs"}});
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(&theirs)).await.unwrap();
    let by_hand = json!({"data": {"a": "by hand"}});
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(&by_hand)).await.unwrap();
    let status = world.says("web", "True/Healthy True/ChangedOnTarget").await;
    assert!(status.to_string().contains("ConfigMap default/settings was changed"), "{status}");
    let settings = world.apply(&maps, "", map("1")).await;
    world.inventory("web", "here", "sha256:b1", vec![settings.clone()]).await;
    world.says("web", "True/Healthy False/InSync").await;

    // A workload that nobody runs here, then with a status written by hand.
    let deployments = api(&world.client, "apps/v1", "Deployment", "deployments");
    let pods =
        json!({"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"x": "y"}}, "template": pods},
    });
    let web = world.apply(&deployments, "apps", deployment).await;
    world.inventory("web", "here", "sha256:b2", vec![settings.clone(), web.clone()]).await;
    let status = world.says("web", "False/Progressing False/InSync").await;
    assert_eq!(status["observedBundleDigest"], "sha256:b2");
    let ready = json!({"status": {
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}],
    }});
    deployments.patch_status("web", &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    world.says("web", "True/Healthy False/InSync").await;

    // An object that is deleted by hand.
    maps.delete("settings", &Default::default()).await.unwrap();
    let status = world.says("web", "False/Missing True/ChangedOnTarget").await;
    assert!(status.to_string().contains("ConfigMap default/settings was deleted"), "{status}");
    let settings = world.apply(&maps, "", map("1")).await;
    world.inventory("web", "here", "sha256:b2", vec![settings, web]).await;
    world.says("web", "True/Healthy False/InSync").await;

    // Nothing is written when nothing is new.
    let before = world.release("web").await["metadata"]["resourceVersion"].clone();
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(&json!({"data": {"c": "theirs"}})))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.release("web").await["metadata"]["resourceVersion"], before);

    world.shutdown.trigger();
    world.observer.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_is_said_and_touches_nothing_else() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let world = World::start(&plane).await;
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    world.cluster("here", &kubeconfig).await;
    let with_exec = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                     users: [{name: u, user: {exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}}}]\n\
                     contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
    world.cluster("exec", with_exec).await;
    let nobody = kubeconfig.replace(&plane.url(), "https://127.0.0.1:1");
    assert_ne!(nobody, kubeconfig);
    world.cluster("nobody", &nobody).await;

    let maps = api(&world.client, "v1", "ConfigMap", "configmaps");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}});
    let settings = world.apply(&maps, "", map).await;
    let unknown = json!({"group": "example.org", "version": "v1", "kind": "Widget", "name": "w", "uid": "u", "digest": "sha256:d", "resourceVersion": "1"});
    for (release, cluster) in
        [("good", "here"), ("mixed", "here"), ("a", "exec"), ("b", "nobody"), ("c", "gone")]
    {
        world.new_release(release, cluster).await;
        let mut entries = vec![settings.clone()];
        if release == "mixed" {
            entries.push(unknown.clone());
        }
        world.inventory(release, cluster, "sha256:b1", entries).await;
    }
    world.says("good", "True/Healthy False/InSync").await;
    let message = |status: &Value| status["conditions"].to_string();
    let status = world.says("mixed", "Unknown/KindNotServed Unknown/KindNotServed").await;
    until("the missing kind is named", || async {
        message(&world.release("mixed").await["status"]).contains("Widget (example.org/v1) cannot be watched")
    })
    .await;
    assert!(status["observedBundleDigest"].is_null());
    let status = world.says("a", "Unknown/ClusterUnreachable Unknown/ClusterUnreachable").await;
    assert!(message(&status).contains("exec"), "{status}");
    let status = world.says("c", "Unknown/ClusterUnreachable Unknown/ClusterUnreachable").await;
    assert!(message(&status).contains("there is no such Cluster"), "{status}");
    world.says("b", "Unknown/ClusterUnreachable Unknown/ClusterUnreachable").await;
    until("the refused connection is named", || async {
        message(&world.release("b").await["status"]).contains("cannot be watched")
    })
    .await;
    world.says("good", "True/Healthy False/InSync").await;

    // The kubeconfig is mended: the observer finds out by itself.
    let secrets = api(&world.client, "v1", "Secret", "secrets");
    let mended = json!({"stringData": {"kubeconfig": kubeconfig}});
    secrets.patch("nobody", &PatchParams::default(), &Patch::Merge(&mended)).await.unwrap();
    world.says("b", "True/Healthy False/InSync").await;
    secrets.patch("exec", &PatchParams::default(), &Patch::Merge(&mended)).await.unwrap();
    world.says("a", "True/Healthy False/InSync").await;

    world.shutdown.trigger();
    world.observer.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_health_rule_set_is_in_force_at_once_for_what_is_there_already() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let world = World::start(&plane).await;
    world.cluster("here", &std::fs::read_to_string(plane.kubeconfig()).unwrap()).await;
    world.new_release("web", "here").await;
    let maps = api(&world.client, "v1", "ConfigMap", "configmaps");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"mode": "slow"}});
    let settings = world.apply(&maps, "", map).await;
    world.inventory("web", "here", "sha256:b1", vec![settings]).await;
    world.says("web", "True/Healthy False/InSync").await;

    let sets: Api<DynamicObject> = Api::all_with(
        world.client.clone(),
        &resource(convoy_api::API_VERSION, "HealthRuleSet", "healthrulesets"),
    );
    let rule = json!({
        "kind": "ConfigMap", "degraded": "object.data.mode == 'slow'", "message": "'its mode is ' + object.data.mode",
    });
    let set = json!({
        "apiVersion": convoy_api::API_VERSION, "kind": "HealthRuleSet", "metadata": {"name": "own"},
        "spec": {"rules": [rule]},
    });
    create(&sets, set).await;
    let status = world.says("web", "False/Degraded False/InSync").await;
    assert!(
        status.to_string().contains("ConfigMap default/settings is Degraded: its mode is slow"),
        "{status}"
    );
    until("its rules are said to be in force", || async {
        let set = serde_json::to_value(sets.get("own").await.unwrap()).unwrap();
        set["status"]["conditions"][0]["status"] == "True" && set["status"]["observedGeneration"] == 1
    })
    .await;
    let other =
        json!({"spec": {"rules": [{"kind": "ConfigMap", "suspended": "object.data.mode == 'slow'"}]}});
    sets.patch("own", &PatchParams::default(), &Patch::Merge(&other)).await.unwrap();
    let status = world.says("web", "True/Healthy False/InSync").await;
    assert_eq!(status["healthyObjects"], 0);
    sets.delete("own", &Default::default()).await.unwrap();
    until("it is judged by the built-in rules", || async {
        world.release("web").await["status"]["healthyObjects"] == 1
    })
    .await;
    world.shutdown.trigger();
    world.observer.await.unwrap().unwrap();
}

/// Lets the account `limited` of the namespace default read ConfigMaps of a namespace.
async fn let_read(world: &World, namespace: &str) {
    let in_namespace = |kind: &str, plural: &str| -> Api<DynamicObject> {
        let resource = resource("rbac.authorization.k8s.io/v1", kind, plural);
        Api::namespaced_with(world.client.clone(), namespace, &resource)
    };
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "limited"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
    });
    create(&in_namespace("Role", "roles"), role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limited"},
        "subjects": [{"kind": "ServiceAccount", "name": "limited", "namespace": "default"}],
    });
    create(&in_namespace("RoleBinding", "rolebindings"), binding).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_may_not_be_watched_everywhere_is_watched_in_the_namespaces_with_objects() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let world = World::start(&plane).await;
    let limited = account(&world, &plane, "limited").await;
    world.cluster("here", &limited).await;
    let_read(&world, "default").await;
    let namespaces: Api<DynamicObject> =
        Api::all_with(world.client.clone(), &resource("v1", "Namespace", "namespaces"));
    create(&namespaces, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}))
        .await;
    let maps_of = |namespace: &str| -> Api<DynamicObject> {
        Api::namespaced_with(world.client.clone(), namespace, &resource("v1", "ConfigMap", "configmaps"))
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}});
    let deliver = async |release: &str, namespace: &str| {
        world.new_release(release, "here").await;
        let mut entry = world.apply(&maps_of(namespace), "", map.clone()).await;
        entry["namespace"] = json!(namespace);
        world.inventory(release, "here", "sha256:b1", vec![entry]).await;
    };
    deliver("allowed", "default").await;
    world.says("allowed", "True/Healthy False/InSync").await;
    // It comes while the other is watched already.
    deliver("refused", "other").await;
    let status = world.says("refused", "Unknown/WatchForbidden Unknown/WatchForbidden").await;
    let message = status["conditions"].to_string();
    assert!(message.contains("cannot be watched") && message.contains("forbidden"), "{message}");
    world.says("allowed", "True/Healthy False/InSync").await;

    let_read(&world, "other").await;
    world.says("refused", "True/Healthy False/InSync").await;
    let by_hand = json!({"data": {"a": "2"}});
    for (release, namespace) in [("allowed", "default"), ("refused", "other")] {
        maps_of(namespace).patch("m", &PatchParams::default(), &Patch::Merge(&by_hand)).await.unwrap();
        world.says(release, "True/Healthy True/ChangedOnTarget").await;
    }
    maps_of("other").delete("m", &kube::api::DeleteParams::default()).await.unwrap();
    world.says("refused", "False/Missing True/ChangedOnTarget").await;

    world.shutdown.trigger();
    world.observer.await.unwrap().unwrap();
}
