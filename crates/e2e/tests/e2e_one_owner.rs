//! An object has one Release, also when two create it at the same moment, or another convoy takes it: on a real kube-apiserver and on
//! a sandbox.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "helpers of tests fail by panicking, and make objects as others do"
)]

#[path = "support/places.rs"]
mod places;
mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use convoy_testkit::{ControlPlane, Options};
use futures::StreamExt as _;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use places::{Place, here, map};
use support::{World, condition, until};

const LABEL: &str = "convoy.kumodo.io/release-uid";
/// Pairs of Releases of the same objects, and how many these are.
const PAIRS: usize = 5;
const OBJECTS: usize = 4;

/// Whose each ConfigMap has been, in turn.
type Owners = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

async fn owners(place: &Place) -> Owners {
    let owners = Owners::default();
    let (maps, seen) = (place.maps("web"), Arc::clone(&owners));
    let params = WatchParams::default().timeout(280);
    let mut events = maps.watch(&params, "0").await.unwrap().boxed();
    tokio::spawn(async move {
        while let Some(Ok(event)) = events.next().await {
            let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
            let owner = object.metadata.labels.unwrap_or_default().remove(LABEL);
            let (Some(owner), Some(name)) = (owner, object.metadata.name) else { continue };
            let mut all = seen.lock().unwrap();
            let of_this = all.entry(name).or_default();
            if of_this.last() != Some(&owner) {
                of_this.push(owner);
            }
        }
    });
    owners
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_releases_that_create_an_object_at_the_same_moment_one_does_and_the_other_says_so() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let files: Vec<(String, String)> = (0..PAIRS)
        .map(|pair| {
            let maps: Vec<String> =
                (0..OBJECTS).map(|object| map(&format!("map-{pair}-{object}"), "x")).collect();
            (format!("{pair}/maps.yaml"), maps.join("---\n"))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let mut world = World::start(plane, &files).await;
    world.start_observer();
    for place in [here(&world), world.sandbox().await] {
        let cluster = place.cluster;
        let namespace = serde_json::from_value(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}),
        );
        let namespaces = place.api("v1", "Namespace", "namespaces", None);
        namespaces.create(&Default::default(), &namespace.unwrap()).await.unwrap();
        let owners = owners(&place).await;
        let releases =
            (0..PAIRS).flat_map(|pair| ["a", "b"].map(|of| (format!("{cluster}-{pair}-{of}"), pair)));
        let created = releases.map(|(name, pair)| {
            let (world, spec) = (&world, place.release(json!({})));
            async move { world.release(&name, &pair.to_string(), spec).await }
        });
        futures::future::join_all(created).await;
        let status = |name: String| {
            let releases = world.releases();
            async move { releases.get(&name).await.unwrap().data["status"].clone() }
        };
        for pair in 0..PAIRS {
            let names = ["a", "b"].map(|of| format!("{cluster}-{pair}-{of}"));
            let both = || async { (status(names[0].clone()).await, status(names[1].clone()).await) };
            let is_done = |one: &Value, other: &Value| {
                condition(one, "Ready")["status"] == "True"
                    && condition(other, "Ready")["reason"] == "ApplyConflict"
            };
            until(&format!("one of {names:?} has it"), || async {
                let (a, b) = both().await;
                is_done(&a, &b) || is_done(&b, &a)
            })
            .await;
            // It stays so when both are looked at again.
            for name in &names {
                world.asked(name, "2026-01-01T00:00:00Z").await;
            }
            let (a, b) = both().await;
            let (first, second) = if is_done(&a, &b) { (&names[0], b) } else { (&names[1], a) };
            let said = condition(&second, "Ready")["message"].as_str().unwrap_or_default();
            assert!(said.contains(&format!("belongs to the Release team/{first}")), "{said}");
        }
        let owners = owners.lock().unwrap().clone();
        assert_eq!(owners.len(), PAIRS * OBJECTS, "{owners:?}");
        assert!(
            owners.values().all(|of_one| of_one.len() == 1),
            "{cluster}: an object went over: {owners:?}"
        );
    }
    world.stop().await;
}

/// Another installation of convoy, which knows nothing of this one.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_convoy_took_is_not_taken_back_and_a_label_that_a_person_wrote_is_put_right() {
    let Some(plane) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let mut world = World::start(plane, &[("web/map.yaml", &map("settings", "ours"))]).await;
    world.start_observer();
    for place in [here(&world), world.sandbox().await] {
        let name = place.cluster;
        world.release(name, "web", place.release(json!({}))).await;
        world.says(name, "True/Succeeded", "").await;
        let uid = world.releases().get(name).await.unwrap().metadata.uid.unwrap();
        let owner = || async {
            let map = place.maps("web").get("settings").await.unwrap();
            map.metadata.labels.unwrap_or_default().remove(LABEL).unwrap_or_default()
        };
        let by_hand = json!({"metadata": {"labels": {LABEL: "nobody"}}});
        place
            .maps("web")
            .patch("settings", &PatchParams::apply("hand"), &Patch::Merge(&by_hand))
            .await
            .unwrap();
        until("the label is put right", || async { owner().await == uid }).await;

        let theirs = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "theirs"},
            "metadata": {"name": "settings", "labels": {LABEL: "another"}},
        });
        let convoy = PatchParams::apply("convoy").force();
        place.maps("web").patch("settings", &convoy, &Patch::Apply(&theirs)).await.unwrap();
        let said = "ConfigMap web/settings belongs to the Release with the uid another";
        world.says(name, "False/ApplyConflict", said).await;
        world.asked(name, "2026-01-01T00:00:00Z").await;
        world.says(name, "False/ApplyConflict", said).await;
        assert_eq!(owner().await, "another", "{name}");
        assert_eq!(place.text("web", "settings").await, json!({"value": "theirs"}), "{name}");
    }
    world.stop().await;
}
