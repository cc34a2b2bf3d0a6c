//! SC-14, I9: a replica owns nothing while the API server counts other shards. The world checks after each step
//! that no two with different counts act together.

use super::world::{World, ms, s};
use crate::{ApiServerShards, MemberState, Note, Settings, Standing};

fn count(shards: u32) -> ApiServerShards {
    ApiServerShards::Count(shards.try_into().unwrap())
}

fn asking(id: &str, shards: u32) -> Settings {
    let mut settings = World::settings(id, shards);
    settings.asks_api_server = true;
    settings
}

/// The state that stands on the member lease.
fn said(world: &World, id: &str) -> MemberState {
    world.member(id).unwrap().member.as_ref().unwrap().state
}

#[test]
fn sc14_a_replica_that_counts_other_shards_than_the_api_server_never_owns_any_and_says_what_to_do() {
    let mut world = World::new();
    world.api_server = count(4);
    let wrong = world.start(asking("a", 8));
    world.run_for(s(120));
    assert_eq!(world.replicas[wrong].protocol.held().len(), 0);
    let message = "the API server counts 4 shards, this replica 8; start it with --shards 4";
    assert_eq!(world.standing(wrong), Standing::Waiting { message: message.to_owned() });
    assert_eq!(said(&world, "a"), MemberState::Waiting);
    let told: Vec<_> =
        world.notes_of(wrong).into_iter().filter(|n| matches!(n, Note::ApiServerCounts { .. })).collect();
    let note = Note::ApiServerCounts { shards: 4.try_into().ok(), disagreement: Some(message.to_owned()) };
    assert_eq!(told, [&note], "once");
    assert!(!world.notes.iter().any(|(_, _, note)| matches!(note, Note::Gained { .. })));
    // One with the right count does not wait for it.
    let right = world.start(asking("b", 4));
    world.run_for(s(35));
    assert_eq!(world.shards_of(right), [0, 1, 2, 3]);
    world.run_for(s(60));
    assert_eq!(world.replicas[wrong].protocol.held().len(), 0);
}

#[test]
fn sc14_i7_an_api_server_that_comes_back_with_another_count_ends_the_work_in_good_order() {
    let mut world = World::new();
    world.api_server = count(4);
    for id in ["a", "b"] {
        world.start(asking(id, 4));
    }
    world.run_for(s(60));
    world.assert_covered();
    world.api_server = count(8);
    world.drain = s(1);
    let took = world.run_until_that(s(15), |world| {
        (0..2).all(|replica| world.replicas[replica].protocol.held().is_empty())
    });
    assert!(took <= s(12), "within an interval and the drain: {took:?}");
    world.run_for(s(1));
    let released = |n: &&&Note| matches!(n, Note::Released { .. });
    assert_eq!((0..2).map(|r| world.notes_of(r).iter().filter(released).count()).sum::<usize>(), 4);
    assert!((0..4).all(|shard| world.shard_lease(shard).holder.is_none()));
    assert_eq!((said(&world, "a"), said(&world, "b")), (MemberState::Waiting, MemberState::Waiting));
    // Right ones act beside them.
    let right = world.start(asking("c", 8));
    world.run_for(s(35));
    assert_eq!(world.shards_of(right).len(), 8);
    // And when it was a mistake, the old ones act again.
    world.stop(right);
    world.api_server = count(4);
    world.run_for(s(60));
    world.assert_covered();
    assert_eq!(said(&world, "a"), MemberState::Acting);
}

#[test]
fn sc14_a_count_that_changes_at_any_moment_never_lets_two_counts_act_together() {
    for at in (0..120).map(|step| ms(step * 23)) {
        let mut world = World::new();
        world.api_server = count(4);
        world.start(asking("a", 4));
        world.start(asking("b", 8));
        world.run_for(at);
        world.api_server = count(8);
        // Leases that were just made are kept for a whole duration before they are released.
        world.run_for(s(80));
        assert_eq!(world.replicas[0].protocol.held().len(), 0, "{at:?}: {:#?}", world.summary());
        assert_eq!(world.shards_of(1).len(), 8, "{at:?}: {:#?}", world.summary());
    }
}

#[test]
fn sc14_nothing_is_announced_before_the_api_server_has_answered_and_what_it_said_stays_known() {
    let mut world = World::new();
    world.api_server = ApiServerShards::NoAnswer;
    let one = world.start(asking("a", 4));
    world.run_for(s(30));
    assert!(world.member("a").is_none());
    let Standing::Joining { message } = world.standing(one) else { panic!("{:?}", world.standing(one)) };
    assert!(message.contains("has not said yet how many shards"), "{message}");
    world.api_server = count(4);
    world.run_for(s(35));
    world.assert_covered();
    // An API server that is away, or one of before this question, ends nothing.
    for answer in [ApiServerShards::NoAnswer, ApiServerShards::Unsaid] {
        world.api_server = answer;
        world.run_for(s(60));
        world.assert_covered();
    }
    assert!(
        !world.notes.iter().any(|(_, _, note)| matches!(note, Note::Lost { .. } | Note::Released { .. }))
    );
}
