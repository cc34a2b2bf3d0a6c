//! What cannot be watched is named where it is told, and touches nothing else: on a real kube-apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod support;

use std::time::Duration;

use convoy_testkit::{ControlPlane, FaultyLink, LinkMode, Options};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use support::{PATIENCE, World, account, api, create, resource, until};

fn definition(plural: &str, kind: &str) -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.org")},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

/// What a Cluster says cannot be watched: reason and message; none when it says nothing.
async fn observed(world: &World, cluster: &str) -> Option<(String, String)> {
    let cluster = world.convoys("Cluster", "clusters").get(cluster).await.unwrap();
    let cluster = serde_json::to_value(cluster).unwrap();
    let found = cluster["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == "Observed")?;
    assert_eq!(found["status"], "False", "{found}");
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    Some((text("reason"), text("message")))
}

async fn until_observed(world: &World, cluster: &str, reason: &str, parts: &[&str]) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let said = observed(world, cluster).await;
        let is_said = |(is, message): &(String, String)| {
            is == reason && parts.iter().all(|part| message.contains(part))
        };
        if said.as_ref().is_some_and(is_said) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{cluster}: wanted {reason}, {parts:?}: {said:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_named_by_its_cluster_and_its_releases_and_touches_nothing_else() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let world = World::start(&plane).await;
    let admin = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    let server = plane.url().strip_prefix("https://").unwrap().parse().unwrap();
    let link = FaultyLink::to(server).unwrap();
    let limited = account(&world, &plane, "limited").await;
    world.cluster("here", &limited).await;
    world.cluster("calm", &admin).await;
    world.cluster("far", &admin.replace(&plane.url(), &format!("https://{}", link.address()))).await;

    let everywhere = |api_version: &str, kind: &str, plural: &str| -> Api<DynamicObject> {
        Api::all_with(world.client.clone(), &resource(api_version, kind, plural))
    };
    let definitions =
        everywhere("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions");
    for (plural, kind) in [("boats", "Boat"), ("widgets", "Widget")] {
        create(&definitions, definition(plural, kind)).await;
        let objects = api(&world.client, "example.org/v2", kind, plural);
        until(&format!("{plural} are served"), || async { objects.list(&Default::default()).await.is_ok() })
            .await;
    }
    let rbac = "rbac.authorization.k8s.io/v1";
    let rule = |group: &str, kinds: &[&str]| json!({"apiGroups": [group], "resources": kinds, "verbs": ["list", "watch"]});
    let roles = everywhere(rbac, "ClusterRole", "clusterroles");
    let role = json!({
        "apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "limited"},
        "rules": [rule("", &["configmaps", "serviceaccounts"]), rule("example.org", &["*"])],
    });
    create(&roles, role).await;
    let binding = json!({
        "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"kind": "ServiceAccount", "name": "limited", "namespace": "default"}],
    });
    create(&everywhere(rbac, "ClusterRoleBinding", "clusterrolebindings"), binding).await;

    let deliveries = [
        ("well", "here", "v1", "ConfigMap", "configmaps"),
        ("boats", "here", "example.org/v2", "Boat", "boats"),
        ("widgets", "here", "example.org/v1", "Widget", "widgets"),
        ("accounts", "here", "v1", "ServiceAccount", "serviceaccounts"),
        ("calm", "calm", "v1", "ConfigMap", "configmaps"),
        ("far", "far", "v1", "ConfigMap", "configmaps"),
    ];
    for (release, cluster, version, kind, plural) in deliveries {
        world.new_release(release, cluster).await;
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": release}});
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let objects = api(&world.client, version, kind, plural);
        let mut entry = world.apply(&objects, group, object).await;
        entry["version"] = json!(version.rsplit('/').next());
        world.inventory(release, cluster, "sha256:b1", vec![entry]).await;
    }
    let well = "True/Healthy False/InSync";
    for (release, ..) in deliveries {
        world.says(release, well).await;
    }
    assert_eq!(observed(&world, "here").await, None);

    // The conversion: it is asked when an object changes that is stored in another version.
    let broken = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "conversionReviewVersions": ["v1"],
    }}}});
    definitions.patch("boats.example.org", &PatchParams::default(), &Patch::Merge(&broken)).await.unwrap();
    let stored = api(&world.client, "example.org/v1", "Boat", "boats");
    let calls_it = || async {
        let change = json!({"metadata": {"annotations": {"at": jiff::Timestamp::now().to_string()}}});
        stored.patch("boats", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        observed(&world, "here").await.is_some()
    };
    until("the conversion is called", calls_it).await;
    let of_boats = "Boat (example.org/v2) cannot be watched (WatchFailed: ";
    until_observed(&world, "here", "WatchFailed", &[of_boats, "conversion webhook of "]).await;
    let status = world.says("boats", "Unknown/WatchFailed Unknown/WatchFailed").await;
    assert!(status["conditions"].to_string().contains(of_boats), "{status}");

    // The definition of a kind that is watched goes.
    definitions.delete("widgets.example.org", &DeleteParams::default()).await.unwrap();
    let of_widgets = "Widget (example.org/v1) cannot be watched (KindNotServed: ";
    until_observed(&world, "here", "WatchFailed", &[of_boats, of_widgets]).await;
    world.says("widgets", "Unknown/KindNotServed Unknown/KindNotServed").await;

    // A right is lost, and is missed by the next list.
    let less = json!({"rules": [rule("", &["configmaps"]), rule("example.org", &["*"])]});
    roles.patch("limited", &PatchParams::default(), &Patch::Merge(&less)).await.unwrap();
    let sets = everywhere(convoy_api::API_VERSION, "HealthRuleSet", "healthrulesets");
    let set = json!({
        "apiVersion": convoy_api::API_VERSION, "kind": "HealthRuleSet", "metadata": {"name": "own"},
        "spec": {"rules": [{"kind": "ServiceAccount", "degraded": "false"}]},
    });
    create(&sets, set).await;
    let of_accounts = "ServiceAccount (v1) in the namespace default cannot be watched (WatchForbidden: ";
    until_observed(&world, "here", "WatchForbidden", &[of_boats, of_widgets, of_accounts]).await;
    world.says("accounts", "Unknown/WatchForbidden Unknown/WatchForbidden").await;

    // A cluster is cut off.
    link.set(LinkMode::Refuse);
    until_observed(&world, "far", "ClusterUnreachable", &["ConfigMap (v1) cannot be watched"]).await;
    let looked = world.says("far", "Unknown/ClusterUnreachable Unknown/ClusterUnreachable").await;

    // All else is as it was, and sees what happens.
    assert_eq!(observed(&world, "calm").await, None);
    let maps = api(&world.client, "v1", "ConfigMap", "configmaps");
    for name in ["well", "calm"] {
        world.says(name, well).await;
        maps.delete(name, &DeleteParams::default()).await.unwrap();
        world.says(name, "False/Missing True/ChangedOnTarget").await;
    }
    let before = world.convoys("Cluster", "clusters").get("far").await.unwrap().metadata.resource_version;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = world.convoys("Cluster", "clusters").get("far").await.unwrap().metadata.resource_version;
    assert_eq!(before, after, "it is said once");
    let release = world.release("far").await;
    assert_eq!(release["status"]["observer"]["lastLookTime"], looked["observer"]["lastLookTime"]);

    // What is mended is taken back.
    create(&definitions, definition("widgets", "Widget")).await;
    let mended = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    definitions.patch("boats.example.org", &PatchParams::default(), &Patch::Merge(&mended)).await.unwrap();
    let again = json!({"rules": [rule("", &["configmaps", "serviceaccounts"]), rule("example.org", &["*"])]});
    roles.patch("limited", &PatchParams::default(), &Patch::Merge(&again)).await.unwrap();
    // Each is tried within 30 s, and the API server's own cache comes back when it likes.
    let deadline = tokio::time::Instant::now() + 3 * PATIENCE;
    while let Some(said) = observed(&world, "here").await {
        assert!(tokio::time::Instant::now() < deadline, "it is not taken back: {said:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.says("accounts", well).await;
    // The API server has forgotten whose its fields are, as it could not convert them: they are to be applied anew.
    world.says("boats", "True/Healthy True/ChangedOnTarget").await;

    world.shutdown.trigger();
    world.observer.await.unwrap().unwrap();
}
