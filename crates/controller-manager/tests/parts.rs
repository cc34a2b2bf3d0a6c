//! An inventory in several parts.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod rest;

use self::rest::World;

/// Parts are found one after the other: nobody would look behind one that is gone, were the removal cut off there.
#[tokio::test]
async fn parts_that_are_not_needed_any_more_go_from_the_last_one_on() {
    let mut world = World::new(2100).await;
    let mut looks = None;
    for objects in [None, Some(1)] {
        if let Some(objects) = objects {
            world.change_release(|release| {
                release["metadata"]["annotations"]["convoy.kumodo.io/allow-prune"] = "true".into();
            });
            world.commit("main@sha1:2", objects).await;
        }
        for _ in 0..5 {
            looks = Some(world.look(looks.as_ref(), false).await.0);
        }
    }
    let asked = world.asked();
    let removed = asked
        .iter()
        .filter(|request| request.starts_with("DELETE ") && request.contains("/releaseinventories/"));
    let removed: Vec<&str> = removed.filter_map(|request| request.rsplit('/').next()).collect();
    assert_eq!(removed, ["web.prod.2", "web.prod.1"], "{}", world.release());
}
