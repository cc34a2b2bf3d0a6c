//! A Release at rest costs no request, neither to its target nor to convoy's API server, and no plan.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod rest;

use std::sync::Arc;

use convoy_api::ReleaseStatus;
use convoy_apply::Capabilities;
use convoy_controller_manager::looks::Looks;
use convoy_render::RenderStore;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

use self::rest::World;

#[tokio::test]
async fn a_look_at_a_release_at_rest_makes_no_request() {
    for objects in [1, 50] {
        let (mut looks, world) = rest::at_rest(objects).await;
        assert!(world.asked().len() > objects, "it was delivered");
        for is_whole in [true, false, false] {
            let (after, asked, _) = world.look(Some(&looks), is_whole).await;
            assert_eq!(asked, [""; 0]);
            looks = after;
        }
    }
}

/// Without a bundle nothing can be planned.
#[tokio::test]
async fn a_look_at_rest_needs_no_bundle_and_the_first_one_of_a_process_is_whole() {
    let (looks, mut world) = rest::at_rest(3).await;
    world.store = RenderStore::in_memory();
    let (_, asked, _) = world.look(Some(&looks), false).await;
    assert_eq!(asked, [""; 0], "it knows what the last look went by");
    let (_, asked, _) = world.look(None, false).await;
    assert!(!asked.is_empty(), "a process that begins does not");
}

/// It says once in each interval that it looked. What is asked for while it writes that is not taken for what it has seen.
#[tokio::test]
async fn what_is_asked_for_while_a_look_tells_of_itself_is_done() {
    let (looks, world) = rest::at_rest(3).await;
    world.advance(601);
    world.meanwhile(|release| {
        release["metadata"]["annotations"]["convoy.kumodo.io/reconcile-at"] = "now".into();
    });
    let (looks, asked, _) = world.look(Some(&looks), false).await;
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(world.release()["status"]["lastHandledReconcileAt"].is_null());
    world.look(Some(&looks), false).await;
    assert_eq!(world.release()["status"]["lastHandledReconcileAt"], "now");
}

/// What may happen between two looks.
#[derive(Clone, Debug)]
enum Event {
    Nothing,
    Time(u64),
    Commit(usize, usize),
    Annotation(&'static str, u8),
    Spec(u8),
    Suspended(bool),
    Drift(bool),
    SourceFails(bool),
    InventoryTouched,
    EntryLost,
    EntryUnanswered,
    ServesAnew(bool),
    FailureNoted,
    AskedMeanwhile,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => Just(Event::Nothing),
        3 => prop_oneof![1u64..20, 30u64..700].prop_map(Event::Time),
        2 => (0usize..3, 1usize..4).prop_map(|(revision, objects)| Event::Commit(revision, objects)),
        1 => (prop_oneof![Just("reconcile-at"), Just("force-at")], 0u8..3)
            .prop_map(|(name, value)| Event::Annotation(name, value)),
        1 => (1u8..4).prop_map(Event::Spec),
        1 => any::<bool>().prop_map(Event::Suspended),
        2 => any::<bool>().prop_map(Event::Drift),
        1 => any::<bool>().prop_map(Event::SourceFails),
        1 => Just(Event::InventoryTouched),
        1 => Just(Event::EntryLost),
        1 => Just(Event::EntryUnanswered),
        1 => any::<bool>().prop_map(Event::ServesAnew),
        1 => Just(Event::FailureNoted),
        2 => Just(Event::AskedMeanwhile),
    ];
    proptest::collection::vec(event, 1..24)
}

async fn happens(world: &mut World, event: &Event) {
    let spec = |release: &mut Value, name: &str, value: Value| {
        release["spec"][name] = value;
        let generation = release["metadata"]["generation"].as_i64().unwrap();
        release["metadata"]["generation"] = (generation + 1).into();
    };
    match event {
        Event::Nothing => {}
        Event::Time(seconds) => world.advance(*seconds),
        Event::Commit(revision, objects) => world.commit(&format!("main@sha1:{revision}"), *objects).await,
        Event::Annotation(name, value) => world.change_release(|release| {
            release["metadata"]["annotations"][format!("convoy.kumodo.io/{name}")] = value.to_string().into();
        }),
        Event::Spec(limit) => world.change_release(|release| spec(release, "historyLimit", (*limit).into())),
        Event::Suspended(is) => world.change_release(|release| spec(release, "suspend", (*is).into())),
        Event::Drift(is) => world.change_release(|release| {
            let (status, reason) = if *is { ("True", "ChangedOnTarget") } else { ("False", "InSync") };
            let drifted = json!({"type": "Drifted", "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-11-01T00:00:00Z"});
            if let Some(all) = release.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                all.retain(|condition| condition["type"] != "Drifted");
                all.push(drifted);
            }
        }),
        Event::AskedMeanwhile => world.meanwhile(|release| {
            let version = release["metadata"]["resourceVersion"].clone();
            release["metadata"]["annotations"]["convoy.kumodo.io/reconcile-at"] = version;
        }),
        Event::SourceFails(fails) => world.source_fails(*fails),
        Event::InventoryTouched => world.change_inventory(|_| {}),
        Event::EntryLost => world.change_inventory(|inventory| {
            inventory.pointer_mut("/spec/entries").and_then(Value::as_array_mut).and_then(Vec::pop);
        }),
        Event::EntryUnanswered => world.change_inventory(|inventory| {
            if let Some(entry) = inventory.pointer_mut("/spec/entries/0") {
                entry["unanswered"] = true.into();
            }
        }),
        Event::ServesAnew(is_other) => {
            let version = if *is_other { "v1.37.0" } else { "v1.36.0" }.to_owned();
            world.capabilities = Arc::new(Capabilities { version, ..(*world.capabilities).clone() });
        }
        Event::FailureNoted => world.change_release(|release| {
            let failure = json!({"revision": 1, "bundleDigest": "sha256:0", "count": 1});
            if let Some(status) = release.get_mut("status") {
                status["failure"] = failure;
            }
        }),
    }
}

/// What was written, but for events, whose names are drawn.
fn said(world: &World) -> Value {
    let mut objects = world.objects();
    objects.retain(|path, _| !path.contains("/events/"));
    json!(objects)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/at_rest.regressions.txt"))),
        ..ProptestConfig::default()
    })]

    /// Whatever happens: a look that goes by what the last one went by asks for, writes and waits for just what a whole one
    /// does.
    #[test]
    fn a_look_at_rest_is_as_a_whole_one(events in events()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(2).await;
            let mut looks: Option<Looks> = None;
            for event in events.iter().flat_map(|event| [Some(event), None]) {
                if let Some(event) = event {
                    happens(&mut world, event).await;
                }
                let other = world.clone();
                let (_, whole, next_of_whole) = other.look(looks.as_ref(), true).await;
                let (after, asked, next) = world.look(looks.as_ref(), false).await;
                assert_eq!(asked, whole, "{event:?}");
                assert_eq!(next, next_of_whole, "{event:?}");
                assert_eq!(said(&world), said(&other), "{event:?}");
                let status: Result<ReleaseStatus, _> = serde_json::from_value(world.release()["status"].clone());
                assert!(status.is_ok());
                looks = Some(after);
            }
        });
    }
}
