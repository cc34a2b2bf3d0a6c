//! The contract's statements about the lease loop, one replica group at rest and in change.

use super::checks::Checks;
use super::world::{World, ms, s};
use crate::{Acquired, Action, Event, LeaseKey, Moment, Note, Protocol, Standing, WriteOp};

#[test]
fn sc15_sc16_sc17_each_interval_renews_the_member_lease_then_reads_then_renews_shards_once() {
    let mut world = World::at_rest(1, 4);
    world.checks.reset();
    world.run_for(s(100));
    assert_eq!(world.checks.writes, 10 * 5, "member and four shards in each of ten intervals");
    // The order within one step.
    let settings = World::settings("a", 4);
    let mut protocol = Protocol::new(settings, Moment::at(s(1)));
    let first = protocol.step(Event::Tick, Moment::at(s(1)));
    assert_eq!(first, [Action::List { is_consistent: true }]);
    world.run_for(s(3));
    let mut replica = world.replicas[0].protocol.clone();
    let moment = Moment { monotonic: replica.next_renew, ..world.replicas[0].clock.moment(world.now) };
    let actions = replica.step(Event::Tick, moment);
    assert!(
        matches!(&actions[0], Action::Write { op: WriteOp::Update, lease } if lease.key == LeaseKey::Member("r-0".into())),
        "{actions:?}"
    );
    assert!(matches!(actions.last(), Some(Action::List { is_consistent: true })), "{actions:?}");
}

#[test]
fn sc18_sc19_i3_i4_replica_k_of_n_holds_each_shard_i_with_i_mod_n_equal_to_k() {
    let world = World::at_rest(3, 8);
    for (replica, want) in [(0, vec![0, 3, 6]), (1, vec![1, 4, 7]), (2, vec![2, 5])] {
        assert_eq!(world.shards_of(replica), want);
        for shard in want {
            assert_eq!(world.shard_lease(shard).holder, Some(format!("r-{replica}")));
        }
        assert!(world.member(&format!("r-{replica}")).is_some());
    }
}

#[test]
fn sc09_sc39_more_replicas_than_shards_leave_some_idle_that_take_over() {
    let mut world = World::at_rest(4, 2);
    assert_eq!(world.standing(3), Standing::Acting { wanted: 0, owned: 0 });
    world.kill(0);
    world.kill(1);
    world.run_for(s(40));
    assert_eq!((world.shards_of(2), world.shards_of(3)), (vec![0], vec![1]));
}

#[test]
fn sc20_i7_a_shard_that_goes_to_another_is_released_after_its_writes_ended_and_only_then_taken() {
    let mut world = World::at_rest(1, 4);
    world.drain = s(7);
    world.start(World::settings("r-1", 4));
    world.run_for(s(6));
    assert_eq!(world.shard_lease(1).holder.as_deref(), Some("r-0"), "its writes go on");
    assert_eq!(world.shards_of(0), [0, 2], "no new ones begin");
    world.run_for(s(5));
    assert_eq!(world.shards_of(1), [1, 3]);
    let released = world.notes_of(0).iter().filter(|n| matches!(n, Note::Released { .. })).count();
    assert_eq!(released, 2);
    assert!(world.notes_of(1).iter().any(|n| matches!(n, Note::Gained { how: Acquired::Free, .. })));
}

#[test]
fn sc26_a_planned_stop_releases_the_shards_and_the_member_lease_stays() {
    let mut world = World::at_rest(2, 4);
    world.stop(0);
    world.run_for(ms(500));
    assert!(world.replicas[0].has_ended);
    assert_eq!(world.standing(0), Standing::Ended { has_twin: false });
    assert_eq!(world.shard_lease(0).holder, None);
    assert!(world.member("r-0").is_some());
    world.run_for(s(15));
    assert_eq!(world.shards_of(1), [1, 3], "the member is live until it expires");
    world.run_for(s(20));
    assert_eq!(world.shards_of(1), [0, 1, 2, 3]);
}

#[test]
fn sc26_with_release_member_on_exit_the_hand_over_takes_at_most_two_seconds() {
    let mut worst = s(0);
    for phase in 0..100 {
        let mut world = World::new();
        for index in 0..3 {
            let mut settings = World::settings(&format!("r-{index}"), 8);
            settings.release_member_on_exit = true;
            settings.observe_interval = crate::DEFAULT_OBSERVE_INTERVAL_WITH_RELEASE;
            world.start(settings);
            world.run_for(ms(330));
        }
        world.run_for(s(60) + ms(100) * phase);
        world.stop(1);
        worst =
            worst.max(world.run_until_that(s(10), |world| world.is_covered() && world.replicas[1].has_ended));
        assert!(world.member("r-1").is_none());
    }
    assert!(worst <= s(2), "{worst:?}");
}

#[test]
fn sc27_i10_the_member_lease_of_a_dead_replica_is_deleted_after_ten_durations_by_one() {
    let mut world = World::at_rest(3, 4);
    world.kill(2);
    world.run_for(s(295));
    assert!(world.member("r-2").is_some());
    world.run_for(s(30));
    assert!(world.member("r-2").is_none());
    assert_eq!(world.checks.deleted.len(), 1);
    Checks::assert_collections_were_safe(&world);
    assert_eq!(world.notes_of(0).iter().filter(|n| matches!(n, Note::Collected { .. })).count(), 1);
}

#[test]
fn sc27_i10_a_lease_that_changed_after_it_was_read_is_not_deleted() {
    let mut world = World::at_rest(2, 4);
    world.pause(1);
    world.run_for(s(301));
    world.replicas[0].network.delay = s(2);
    // It wakes while the deletion is on its way.
    let key = LeaseKey::Member("r-1".into());
    world.run_until_that(s(30), |world| world.replicas[0].protocol.writing.contains_key(&key));
    world.resume(1);
    world.run_for(s(1));
    assert!(world.checks.deleted.is_empty());
    world.replicas[0].network.delay = s(0);
    world.run_for(s(60));
    assert!(world.member("r-1").is_some());
    world.assert_covered();
    Checks::assert_balanced(&world);
}

#[test]
fn i14_sc34_lease_writes_per_interval_are_at_most_members_plus_shards() {
    for (replicas, shards) in [(1, 32), (3, 32), (5, 7), (40, 32)] {
        let mut world = World::at_rest(replicas, shards);
        world.checks.reset();
        world.run_for(s(100));
        let most = 10 * (replicas as u64 + u64::from(shards));
        assert!(world.checks.writes <= most, "{} of {most}", world.checks.writes);
        assert_eq!(world.checks.conflicts, 0);
    }
}

#[test]
fn i14_at_most_one_conflict_per_hand_off() {
    let mut world = World::at_rest(3, 32);
    world.checks.reset();
    world.start(World::settings("r-3", 32));
    world.run_for(s(60));
    world.kill(0);
    world.run_for(s(60));
    world.start(World::settings("r-0", 32));
    world.run_for(s(60));
    world.assert_covered();
    Checks::assert_balanced(&world);
    let moved =
        world.notes.iter().filter(|(at, _, n)| *at > s(1060) && matches!(n, Note::Gained { .. })).count();
    assert!(moved > 40);
    assert!(
        world.checks.conflicts <= moved as u64,
        "{} conflicts, {moved} hand-offs",
        world.checks.conflicts
    );
}
