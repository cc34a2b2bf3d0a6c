//! An apply that reaches a real kube-apiserver when nobody waits for it any more.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail by panicking, and run git"
)]

mod support;

use std::time::Duration;

use convoy_testkit::{ControlPlane, Options};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use support::{World, condition, until};

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n";

/// The inventory's entry of a name; null when there is none.
async fn entry(world: &World, name: &str) -> Value {
    let inventory = world.inventories().get("web.here").await.unwrap();
    let entries = inventory.data["spec"]["entries"].as_array().unwrap().clone();
    entries.into_iter().find(|entry| entry["name"] == name).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_of_a_predecessor_that_arrives_late_is_found_and_removed() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let mut world = World::start(plane, &[("web/one.yaml", MAP)]).await;
    let spec = json!({"targetNamespace": "web", "createNamespace": true, "apply": {"wait": false}});
    world.release("web", "web", spec).await;
    world.says("web", "True/Succeeded", "2 objects").await;
    let uid = world.releases().get("web").await.unwrap().metadata.uid.unwrap();

    // A replica that wrote ahead, sent its apply and died; the next revision does not want the object.
    world.stop().await;
    let inventory = world.inventories().get("web.here").await.unwrap();
    let mut entries = inventory.data["spec"]["entries"].as_array().unwrap().clone();
    entries.push(json!({"version": "v1", "kind": "ConfigMap", "namespace": "web", "name": "ghost", "unanswered": true}));
    world.patch(&world.inventories(), "web.here", json!({"spec": {"entries": entries}})).await;
    world.start_manager();
    until("its absence was seen", || async { entry(&world, "ghost").await["gone"] == true }).await;
    world.says("web", "True/Succeeded", "2 objects").await;

    let maps = world.api("v1", "ConfigMap", "configmaps", Some("web"));
    let ghost = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "ghost", "labels": {"convoy.kumodo.io/release-uid": uid}}});
    maps.patch("ghost", &PatchParams::apply("convoy").force(), &Patch::Apply(&ghost)).await.unwrap();
    world.clock.jump(Duration::from_secs(20));
    until("it is found", || async { maps.get_opt("ghost").await.unwrap().is_none() }).await;
    assert_eq!(entry(&world, "ghost").await["gone"], true, "there may be another");

    // A deletion waits as long, and no longer.
    world.delete(&world.releases(), "web").await;
    until("the deletion says what it waits for", || async {
        let release = serde_json::to_value(world.releases().get("web").await.unwrap()).unwrap();
        let ready = condition(&release["status"], "Ready");
        ready["message"].as_str().unwrap_or_default().contains("requests that were not answered")
    })
    .await;
    assert!(maps.get_opt("one").await.unwrap().is_none());
    world.clock.jump(Duration::from_secs(16 * 60));
    until("the Release is gone", || async { world.releases().get_opt("web").await.unwrap().is_none() }).await;
    assert!(world.inventories().list(&Default::default()).await.unwrap().items.is_empty());
    world.stop().await;
}
