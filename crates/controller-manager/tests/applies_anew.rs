//! What is applied anew, because it failed or because somebody asks for it, is applied once, and all of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod rest;

use convoy_controller_manager::looks::Looks;
use serde_json::{Value, json};

use self::rest::World;

const FRONT: &str = "/apis/apps/v1/namespaces/team/deployments/front";
const LATER: &str = "/api/v1/namespaces/team/configmaps/later";

/// A Deployment, and a ConfigMap that comes when it is healthy.
async fn of_two_waves() -> World {
    let mut world = World::new(0).await;
    world.change_release(|release| release["spec"]["apply"] = json!({"wait": true}));
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: front, generation: 1}\nspec: {replicas: 1}\n\
                ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: later, annotations: {convoy.kumodo.io/wave: '1'}}\n";
    world.commit_text("main@sha1:2", text.to_owned()).await;
    world
}

/// Looks until one asks for nothing; answers with how often each object was written.
async fn until_it_rests(world: &World, looks: &mut Option<Looks>) -> [usize; 2] {
    let count = |world: &World| [FRONT, LATER].map(|at| world.writers().get(at).map_or(0, Vec::len));
    let before = count(world);
    for _ in 0..12 {
        let (after, asked, _) = world.look(looks.as_ref(), false).await;
        *looks = Some(after);
        // It may look at what it waits for.
        if asked.iter().all(|request| request.starts_with("GET ")) {
            let after = count(world);
            return [after[0] - before[0], after[1] - before[1]];
        }
    }
    panic!("it never comes to rest: {:#?}", world.asked());
}

fn well(object: &mut Value) {
    object["status"] = json!({
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}],
    });
}

#[tokio::test]
async fn a_delivery_that_failed_and_waits_in_its_next_try_applies_nothing_twice() {
    let world = of_two_waves().await;
    world.refuse(1);
    let mut looks = None;
    assert_eq!(until_it_rests(&world, &mut looks).await, [0, 0]);
    world.advance(3600);
    assert_eq!(until_it_rests(&world, &mut looks).await, [1, 0]);
    world.change_on_target(FRONT, well);
    world.advance(60);
    assert_eq!(until_it_rests(&world, &mut looks).await, [0, 1]);
}

#[tokio::test]
async fn what_is_applied_anew_on_request_is_applied_in_all_waves_and_once() {
    let world = of_two_waves().await;
    let mut looks = None;
    assert_eq!(until_it_rests(&world, &mut looks).await, [1, 0]);
    world.change_on_target(FRONT, well);
    world.advance(60);
    assert_eq!(until_it_rests(&world, &mut looks).await, [0, 1]);
    world.change_release(|release| {
        release["metadata"]["annotations"]["convoy.kumodo.io/force-at"] = "now".into();
    });
    assert_eq!(until_it_rests(&world, &mut looks).await, [1, 1]);
}
