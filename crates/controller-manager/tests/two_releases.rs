//! Two Releases of the same objects.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod rest;

use convoy_runtime::StoreKey;
use serde_json::Value;

use self::rest::World;

fn ready(release: &Value) -> &Value {
    let conditions = release["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().find(|condition| condition["type"] == "Ready").unwrap_or(&Value::Null)
}

/// Each of their looks finds that nothing is there, before the other one has written.
#[tokio::test]
async fn two_releases_that_create_an_object_at_the_same_moment_do_not_take_it_from_each_other() {
    let world = World::of(&["a", "b"], 3).await;
    let mut looks = None;
    for _ in 0..6 {
        let controller = world.controller(looks.as_ref(), false);
        let (a, b) = (StoreKey::new("team", "a"), StoreKey::new("team", "b"));
        tokio::join!(controller.look(&a), controller.look(&b));
        looks = Some(controller);
        // Past whatever back-off.
        world.advance(3600);
    }
    for (object, writers) in world.writers() {
        assert!(writers.windows(2).all(|two| two[0] == two[1]), "{object} went over: {writers:?}");
    }
    let (a, b) = (world.release_of("a"), world.release_of("b"));
    let (first, second, name) = if ready(&a)["status"] == "True" { (&a, &b, "a") } else { (&b, &a, "b") };
    assert_eq!(ready(first)["status"], "True", "{first:#}");
    assert_eq!(ready(second)["reason"], "ApplyConflict", "{second:#}");
    let said = ready(second)["message"].as_str().unwrap();
    assert_eq!(said.matches(&format!("belongs to the Release team/{name}")).count(), 3, "{said}");
    assert_eq!(second["status"]["objects"], 0, "what it never made is not in its inventory");
}
