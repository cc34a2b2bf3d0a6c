//! Releases that move, are renamed, or prune much or what others have a part in, on a real kube-apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, and make objects as others do"
)]

mod support;

use convoy_testkit::{ControlPlane, Options};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use support::{NAMESPACE, World, condition, until};

fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{value: {value:?}}}\n")
}

impl World {
    async fn uid_of(&self, namespace: &str, name: &str) -> Option<String> {
        let api = self.api("v1", "ConfigMap", "configmaps", Some(namespace));
        api.get_opt(name).await.unwrap().and_then(|object| object.metadata.uid)
    }

    async fn is_ending(&self, namespace: &str) -> bool {
        let found = self.api("v1", "Namespace", "namespaces", None).get_opt(namespace).await.unwrap();
        found.is_none_or(|found| found.metadata.deletion_timestamp.is_some())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_moves_to_another_namespace_and_another_name() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let text = map("a", "1");
    let mut world = World::start(plane, &[("m/a.yaml", &text)]).await;
    let spec = |namespace: &str| json!({"targetNamespace": namespace, "createNamespace": true, "apply": {"wait": false}});
    world.release("old", "m", spec("one")).await;
    world.says("old", "True/Succeeded", "2 objects").await;

    world.patch(&world.releases(), "old", json!({"spec": {"targetNamespace": "two"}})).await;
    let status = world.says("old", "True/Succeeded", "2 objects").await;
    assert_eq!(status["history"][0]["targetNamespace"], "two", "{status:#}");
    assert_eq!(world.config_map("two", "a").await, json!({"value": "1"}));
    assert!(world.config_map("one", "a").await.is_null());
    // Without a controller manager nothing ends its deletion.
    assert!(world.is_ending("one").await);

    // Under its new name it takes its objects along, when it says so.
    let uid = world.uid_of("two", "a").await;
    world.release("new", "m", spec("two")).await;
    world.says("new", "False/ApplyConflict", "the Release team/old").await;
    let adopt = json!({"metadata": {"annotations": {"convoy.kumodo.io/adopt": "true"}}});
    world.patch(&world.releases(), "old", json!({"spec": {"suspend": true}})).await;
    world.says("old", "False/Suspended", "").await;
    world.patch(&world.releases(), "new", adopt).await;
    // The namespace stays the old one's, and with it: it is not empty.
    world.says("new", "True/Succeeded", "1 object").await;
    world.delete(&world.releases(), "old").await;
    until("the old one is gone", || async { world.releases().get_opt("old").await.unwrap().is_none() }).await;
    assert_eq!(world.uid_of("two", "a").await, uid);
    assert!(!world.is_ending("two").await);
    let inventories = world.inventories().list(&Default::default()).await.unwrap().items;
    let names: Vec<_> = inventories.into_iter().filter_map(|inventory| inventory.metadata.name).collect();
    assert_eq!(names, ["new.here"]);

    // It is its own: it is pruned with it.
    world.delete(&world.releases(), "new").await;
    until("the new one is gone", || async { world.releases().get_opt("new").await.unwrap().is_none() }).await;
    assert!(world.config_map("two", "a").await.is_null());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_prune_waits_for_leave_and_an_empty_source_prunes_nothing() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let texts: Vec<(String, String)> =
        (0..30).map(|number| (format!("m/{number}.yaml"), map(&format!("m{number}"), "1"))).collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let mut world = World::start(plane, &files).await;
    let spec = json!({"targetNamespace": "web", "createNamespace": true, "apply": {"wait": false}});
    world.release("m", "m", spec).await;
    world.says("m", "True/Succeeded", "31 objects").await;

    world.commit(&files[..5]);
    let status = world.says("m", "False/PlanFailed", "would prune 25 of 31 objects").await;
    let message = condition(&status, "Ready")["message"].as_str().unwrap();
    assert!(message.contains("convoy.kumodo.io/allow-prune"), "{message}");
    assert_eq!(condition(&status, "Stalled")["status"], "True");
    let maps = world.api("v1", "ConfigMap", "configmaps", Some("web"));
    assert_eq!(maps.list(&Default::default()).await.unwrap().items.len(), 30);

    // No object at all is taken for a fault of the source.
    world.commit(&[("m/README", "nothing")]);
    world.says("m", "False/EmptyBundle", "nothing is pruned").await;
    assert_eq!(maps.list(&Default::default()).await.unwrap().items.len(), 30);
    world.commit(&files[..5]);
    world.says("m", "False/PlanFailed", "would prune 25 of 31 objects").await;
    let allow = json!({"metadata": {"annotations": {
        "convoy.kumodo.io/allow-prune": "true", "convoy.kumodo.io/reconcile-at": "now",
    }}});
    world.patch(&world.releases(), "m", allow).await;
    world.says("m", "True/Succeeded", "6 objects").await;
    assert_eq!(maps.list(&Default::default()).await.unwrap().items.len(), 5);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_others_objects_or_data_goes_only_when_convoy_made_it_and_nothing_else_is_in_it() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let namespace = |name: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
    let claim = |name: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}, namespace: theirs}}\nspec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}\n"
        )
    };
    let volume = |name: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {name}}}\nspec: {{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], hostPath: {{path: /nowhere}}}}\n"
        )
    };
    let definition = |plural: &str, kind: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.example.com}}\nspec:\n  group: example.com\n  scope: Cluster\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n  - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}\n"
        )
    };
    let (made, filled, theirs) = (namespace("made"), namespace("filled"), namespace("theirs"));
    let (new_claim, old_claim) = (claim("new"), claim("old"));
    let (new_volume, old_volume) = (volume("new"), volume("old"));
    let (empty_kind, full_kind) = (definition("boxes", "Box"), definition("crates", "Crate"));
    let stays = map("stays", "1");
    let all = [
        ("m/1.yaml", made.as_str()),
        ("m/2.yaml", &filled),
        ("m/3.yaml", &theirs),
        ("m/4.yaml", &new_claim),
        ("m/5.yaml", &old_claim),
        ("m/6.yaml", &new_volume),
        ("m/7.yaml", &old_volume),
        ("m/8.yaml", &empty_kind),
        ("m/9.yaml", &full_kind),
        ("m/stays.yaml", &stays),
    ];
    let mut world = World::start(plane, &all).await;
    let namespaces = world.api("v1", "Namespace", "namespaces", None);
    let claims = world.api("v1", "PersistentVolumeClaim", "persistentvolumeclaims", Some("theirs"));
    let volumes = world.api("v1", "PersistentVolume", "persistentvolumes", None);
    let old = |kind: &str, spec: Value| {
        serde_json::from_value(
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "old"}, "spec": spec}),
        )
        .unwrap()
    };
    world.create("v1", "Namespace", "namespaces", json!({"metadata": {"name": "theirs"}})).await;
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    claims.create(&Default::default(), &old("PersistentVolumeClaim", spec)).await.unwrap();
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"}});
    volumes.create(&Default::default(), &old("PersistentVolume", spec)).await.unwrap();

    world.release("m", "m", json!({"targetNamespace": NAMESPACE, "apply": {"wait": false}})).await;
    world.says("m", "True/Succeeded", "10 objects").await;
    // Others put things there.
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign"}});
    let maps = world.api("v1", "ConfigMap", "configmaps", Some("filled"));
    maps.create(&Default::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
    let crates = world.api("example.com/v1", "Crate", "crates", None);
    let foreign = json!({"apiVersion": "example.com/v1", "kind": "Crate", "metadata": {"name": "foreign"}});
    crates.create(&Default::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();

    world.commit(&[("m/stays.yaml", &stays)]);
    let status = world.says("m", "True/Succeeded", "1 object").await;
    let applied = condition(&status, "Applied")["message"].as_str().unwrap().to_owned();
    assert!(applied.contains("deleting it could delete what is not the Release's"), "{applied}");
    let definitions =
        world.api("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", None);
    // What kube-apiserver protects by a finalizer is going.
    let going = |found: Option<kube::api::DynamicObject>| {
        found.is_none_or(|found| found.metadata.deletion_timestamp.is_some())
    };
    assert!(going(namespaces.get_opt("made").await.unwrap()));
    assert!(going(claims.get_opt("new").await.unwrap()));
    assert!(going(volumes.get_opt("new").await.unwrap()));
    assert!(going(definitions.get_opt("boxes.example.com").await.unwrap()));
    for (what, found) in [
        ("Namespace filled", namespaces.get_opt("filled").await.unwrap()),
        ("Namespace theirs", namespaces.get_opt("theirs").await.unwrap()),
        ("PersistentVolumeClaim theirs/old", claims.get_opt("old").await.unwrap()),
        ("PersistentVolume old", volumes.get_opt("old").await.unwrap()),
        ("crates.example.com", definitions.get_opt("crates.example.com").await.unwrap()),
    ] {
        assert!(!going(found), "{what} went");
        assert!(applied.contains(what), "{what}: {applied}");
    }
    assert!(crates.get_opt("foreign").await.unwrap().is_some());
    let _ = crates.delete("foreign", &DeleteParams::default()).await;
    world.stop().await;
}
