//! Single faults, by name. The numbers of cases are those of the list of fault cases in the simulation.

use std::collections::BTreeMap;

use super::checks::Checks;
use super::world::{World, ms, s};
use crate::{Acquired, Event, LAST_EPOCH, LeaseKey, LostBecause, MemberInfo, MemberState, Note, Standing};

/// Two replicas, four shards; `r-0` holds 0 and 2.
fn two() -> World {
    World::at_rest(2, 4)
}

fn lost(world: &World, replica: usize) -> Vec<&LostBecause> {
    let notes = world.notes_of(replica).into_iter();
    notes
        .filter_map(|note| match note {
            Note::Lost { because, .. } => Some(because),
            _ => None,
        })
        .collect()
}

#[test]
fn sc29_i8_a_second_process_with_the_same_id_ends_and_the_first_goes_on() {
    let mut world = two();
    let twin = world.start(World::settings("r-0", 4));
    world.run_for(s(15));
    assert_eq!(world.standing(twin), Standing::Ended { has_twin: true });
    assert!(
        world.notes_of(twin).iter().any(|n| matches!(n, Note::Twin { message } if message.contains("r-0")))
    );
    assert_eq!(world.shards_of(0), [0, 2]);
    assert!(lost(&world, 0).is_empty());
}

#[test]
fn sc29_i8_two_processes_with_one_id_that_start_together_never_both_act() {
    let mut world = World::new();
    let (one, other) = (world.start(World::settings("a", 4)), world.start(World::settings("a", 4)));
    world.run_for(s(90));
    let ended = [one, other].iter().filter(|r| world.replicas[**r].has_ended).count();
    assert_eq!(ended, 1, "{:#?}", world.summary());
    assert!(world.is_covered());
}

#[test]
fn sc29_i8_a_restarted_process_with_the_same_id_waits_for_the_lease_of_the_first_to_end() {
    let mut world = two();
    world.kill(0);
    let restarted = world.start(World::settings("r-0", 4));
    world.run_for(s(15));
    assert!(
        matches!(world.standing(restarted), Standing::Joining { message } if message.contains("earlier process"))
    );
    world.run_for(s(30));
    assert_eq!(world.shards_of(restarted), [0, 2]);
    Checks::assert_balanced(&world);
}

#[test]
fn sc29_i8_a_process_that_hung_and_was_replaced_under_its_id_ends_when_it_wakes() {
    for hung in [29, 31, 45, 80, 301] {
        let mut world = two();
        world.pause(0);
        world.run_for(s(1));
        let replacement = world.start(World::settings("r-0", 4));
        world.run_for(s(hung));
        world.resume(0);
        world.run_for(s(60));
        let ended = [0, replacement].map(|r| world.replicas[r].has_ended);
        assert_eq!(ended.iter().filter(|ended| **ended).count(), 1, "{hung}: {:#?}", world.summary());
        world.assert_covered();
    }
}

#[test]
fn i1_i6_a_paused_replica_does_nothing_after_its_deadline_and_takes_its_part_again() {
    for paused in [5, 19, 21, 29, 31, 45, 301] {
        for phase in 0..10 {
            let mut world = two();
            world.run_for(s(phase));
            world.pause(0);
            world.run_for(s(paused));
            if paused > 20 {
                assert!(world.shards_of(0).is_empty());
            }
            world.resume(0);
            world.run_for(s(40));
            world.assert_covered();
            Checks::assert_balanced(&world);
        }
    }
}

#[test]
fn i6_the_own_deadline_goes_by_the_clock_that_moved_most() {
    // Cut off, at the true rate.
    let mut world = two();
    world.replicas[0].network.is_cut = true;
    world.run_for(s(20));
    assert!(world.shards_of(0).is_empty());
    world.run_for(s(6));
    assert!(world.replicas[0].protocol.held().is_empty(), "writes under way are given up");
    assert!(lost(&world, 0).iter().all(|because| **because == LostBecause::Deadline));
    assert!(matches!(world.standing(0), Standing::CutOff { .. }));
    // Suspended: only boot time and wall clock go on.
    let mut world = two();
    let now = world.now;
    world.replicas[0].clock.suspend(now, true);
    world.run_for(s(21));
    assert!(world.shards_of(0).is_empty());
    // The wall clock is set forward: everything is doubted, then taken up again.
    let mut world = two();
    let now = world.now;
    world.replicas[0].clock.set_wall(now, 3600);
    assert!(world.shards_of(0).is_empty());
    world.run_for(s(15));
    assert_eq!(world.shards_of(0), [0, 2]);
    // It is set back: nothing happens.
    let now = world.now;
    world.notes.clear();
    world.replicas[0].clock.set_wall(now, -3600);
    world.run_for(s(60));
    assert!(lost(&world, 0).is_empty());
}

#[test]
fn i1_a_wall_clock_that_is_an_hour_off_takes_nothing_from_others() {
    for by in [3600, -3600] {
        let mut world = World::new();
        let mut clock = super::clock::Clock::new(world.now, 1000);
        clock.set_wall(world.now, by);
        world.start(World::settings("r-0", 4));
        world.start_with(World::settings("r-1", 4), clock);
        world.run_for(s(120));
        assert!(lost(&world, 0).is_empty() && lost(&world, 1).is_empty());
        world.assert_covered();
    }
}

#[test]
fn i1_clock_rates_within_a_fifth_never_let_two_act() {
    for (one, other) in [(1000, 1200), (1200, 1000), (910, 1090), (1090, 910)] {
        for cut in 0..12 {
            let mut world = World::new();
            for (index, rate) in [one, other].into_iter().enumerate() {
                let clock = super::clock::Clock::new(world.now, rate);
                world.start_with(World::settings(&format!("r-{index}"), 4), clock);
            }
            world.run_for(s(60 + cut));
            world.replicas[0].network.is_cut = true;
            world.run_for(s(60));
            assert_eq!(world.shards_of(1).len(), 4);
        }
    }
}

#[test]
fn i5_epochs_rise_with_each_acquisition_and_above_what_somebody_acted_in() {
    let mut world = two();
    let before = world.shard_lease(0).transitions;
    world.kill(0);
    world.run_for(s(40));
    assert_eq!(world.shard_lease(0).transitions, before + 1);
    world.step(1, Event::EpochSeen { shard: 0, epoch: 40 });
    assert_eq!(lost(&world, 1), [&LostBecause::OlderEpoch]);
    world.run_for(s(1));
    assert_eq!(world.shard_lease(0).transitions, 41);
    assert_eq!(world.owner(0), Some(1));
    // A lease that was deleted.
    world.delete(&LeaseKey::Shard(0));
    world.run_for(s(40));
    assert_eq!(world.shard_lease(0).transitions, 42);
    // A number that leaves no room is not the end.
    world.checks.may_forget_epochs = true;
    world.step(1, Event::EpochSeen { shard: 0, epoch: u64::MAX });
    world.run_for(s(1));
    assert_eq!(world.shard_lease(0).transitions, 2_147_483_647);
    assert_eq!(world.owner(0), Some(1));
}

#[test]
fn i5_case25_a_store_that_was_restored_is_not_believed_as_to_who_may_act() {
    let mut world = two();
    let (_, early) = world.store.snapshot();
    let snapshot = world.store.snapshot();
    assert_eq!(early.len(), 6);
    world.run_for(s(5));
    world.kill(0);
    world.run_for(s(120));
    assert_eq!(world.owner(0), Some(1));
    let at = world.now;
    world.store.restore(snapshot, at);
    world.run_for(s(12));
    assert_ne!(world.owner(0), Some(1), "the lease says another");
    world.run_for(s(40));
    world.assert_covered();
}

/// The backup is so young that it lacks little more than one acquisition: nobody but who acquired has seen a later
/// version.
#[test]
fn i1_case25_who_acquired_after_the_backup_hears_of_the_restore_before_others_acquire() {
    // When the others last read the leases makes the difference.
    for phase in 0..20 {
        let mut world = two();
        world.run_for(ms(100 * phase));
        let third = restored_to_before_an_acquisition(&mut world);
        world.run_for(s(6));
        // It hears of it last, but within an observe interval.
        for replica in [0, 1, third] {
            world.replicas[replica].network.is_cut = false;
            world.run_for(ms(900));
        }
        world.run_for(s(90));
        world.assert_covered();
    }
}

/// Answers with the replica that acquired; all are cut off.
fn restored_to_before_an_acquisition(world: &mut World) -> usize {
    let third = world.start(World::settings("s", 4));
    world.run_until_that(s(60), |world| {
        world.store.leases.iter().any(|(key, lease)| {
            matches!(key, LeaseKey::Shard(_)) && lease.holder.is_none() && lease.boot_id.is_none()
        })
    });
    let mut backup = world.store.snapshot();
    let free: Vec<u32> = (0..4)
        .filter(|shard| backup.1.get(&LeaseKey::Shard(*shard)).is_some_and(|lease| lease.holder.is_none()))
        .collect();
    // Nor does it know of the one that acquires: others want its shards at once.
    backup.1.remove(&LeaseKey::Member("s".into()));
    world.run_until_that(s(60), |world| free.iter().any(|shard| world.shards_of(third).contains(shard)));
    let now = world.now;
    world.store.restore(backup, now);
    for replica in &mut world.replicas {
        replica.network.is_cut = true;
    }
    third
}

/// The backup lacks only a renewal, of which nobody but the holder knows, and the holder hears of the restore last.
#[test]
fn i1_case25_who_renewed_after_the_backup_does_not_count_as_silent() {
    for phase in 0..10 {
        let mut world = two();
        world.run_for(ms(1000 * phase));
        let renewals = |world: &World| world.shard_lease(0).resource_version.clone();
        let (before, mut backup) = (renewals(&world), world.store.snapshot());
        while renewals(&world) == before {
            backup = world.store.snapshot();
            world.run_for(ms(1));
        }
        let now = world.now;
        world.store.restore(backup, now);
        world.replicas.iter_mut().for_each(|replica| replica.network.is_cut = true);
        world.run_for(s(17));
        world.replicas[1].network.is_cut = false;
        world.run_for(s(15));
        world.replicas[0].network.is_cut = false;
        world.run_for(s(60));
        world.assert_covered();
    }
}

/// As for who renewed, but the lease was free, and its new holder takes seconds to hear of the restore.
#[test]
fn i1_case25_who_acquired_after_the_backup_may_be_slow_to_hear_of_the_restore() {
    for phase in 0..10 {
        let mut world = two();
        world.run_for(ms(200 * phase));
        let third = restored_to_before_an_acquisition(&mut world);
        world.run_for(s(6));
        for replica in [0, 1] {
            world.replicas[replica].network.is_cut = false;
        }
        world.run_for(s(12));
        world.replicas[third].network.is_cut = false;
        world.run_for(s(90));
        world.assert_covered();
    }
}

#[test]
fn i1_case15_a_shard_lease_that_was_deleted_is_acted_on_only_after_a_whole_duration() {
    let mut world = two();
    // Its holder does not notice.
    world.replicas[0].network.is_cut = true;
    world.delete(&LeaseKey::Shard(0));
    world.delete(&LeaseKey::Member("r-0".into()));
    world.run_for(s(10));
    assert_eq!(world.shard_lease(0).holder.as_deref(), Some("r-1"));
    assert!(world.replicas[1].protocol.held().contains_key(&0) && world.owner(0) != Some(1));
    world.run_for(s(30));
    assert_eq!(world.owner(0), Some(1));
}

#[test]
fn i1_case15_a_creation_whose_answer_was_lost_waits_as_long() {
    let mut world = two();
    world.replicas[0].network.is_cut = true;
    world.delete(&LeaseKey::Shard(0));
    world.delete(&LeaseKey::Member("r-0".into()));
    world.run_until_that(s(10), |world| world.replicas[1].protocol.writing.contains_key(&LeaseKey::Shard(0)));
    world.replicas[1].network.loses_answers = true;
    world.run_for(ms(50));
    world.replicas[1].network.loses_answers = false;
    world.run_for(s(18));
    assert_eq!(world.shard_lease(0).holder.as_deref(), Some("r-1"));
    assert!(world.replicas[1].protocol.held().contains_key(&0) && world.owner(0) != Some(1));
    assert!(
        world.notes_of(1).iter().any(|n| matches!(n, Note::Gained { shard: 0, how: Acquired::Resumed, .. }))
    );
    world.run_for(s(40));
    assert_eq!(world.shards_of(1), [0, 1, 2, 3]);
}

#[test]
fn i1_case15_a_lease_in_quarantine_is_not_handed_to_one_that_would_not_wait() {
    let mut world = World::at_rest(1, 2);
    world.replicas[0].network.is_cut = true;
    world.store.restore((500, BTreeMap::new()), world.now);
    world.checks.may_forget_epochs = true;
    world.run_for(s(1));
    let second = world.start(World::settings("s", 2));
    world.run_for(s(3));
    world.start(World::settings("a", 2));
    world.run_for(s(1));
    world.stop(second);
    world.run_for(s(100));
    world.assert_covered();
}

#[test]
fn i1_case16_all_leases_deleted() {
    let mut world = two();
    let keys: Vec<LeaseKey> = world.store.leases.keys().cloned().collect();
    for key in &keys {
        world.delete(key);
    }
    world.run_for(s(4));
    assert!(lost(&world, 0).contains(&&LostBecause::Deleted));
    world.run_for(s(36));
    world.assert_covered();
    Checks::assert_balanced(&world);
}

#[test]
fn i1_i5_case17_edited_shard_leases_never_let_two_act_and_mend() {
    for case in 0..9 {
        let mut world = two();
        let key = LeaseKey::Shard(0);
        world.replicas[0].network.is_cut = case % 2 == 0;
        world.edit(&key, |lease| match case {
            0 | 1 => lease.holder = None,
            2 => lease.holder = Some("r-1".into()),
            3 => lease.duration_seconds = Some(0),
            4 => lease.duration_seconds = Some(1),
            5 => lease.duration_seconds = Some(i64::from(i32::MAX)),
            6 => lease.renewed = Some(s(253_402_300_799)),
            7 => lease.transitions = 0,
            _ => (lease.renewed, lease.duration_seconds) = (None, None),
        });
        world.run_for(s(90));
        assert!(world.owner(0).is_some(), "{case}: {:#?}", world.summary());
        world.replicas[0].network.is_cut = false;
        world.run_for(s(60));
        world.assert_covered();
        Checks::assert_balanced(&world);
    }
}

#[test]
fn case17_edited_member_leases_are_written_again() {
    for case in 0..4 {
        let mut world = two();
        world.edit(&LeaseKey::Member("r-0".into()), |lease| match case {
            0 => lease.holder = None,
            1 => lease.boot_id = None,
            2 => lease.holder = Some("somebody".into()),
            _ => lease.member = None,
        });
        world.run_for(s(40));
        assert!(!world.replicas[0].has_ended, "{case}");
        world.assert_covered();
        Checks::assert_balanced(&world);
    }
}

#[test]
fn case18_member_leases_that_no_replica_writes_take_no_part() {
    let mut world = two();
    let template = world.member("r-1").unwrap();
    let info = template.member.clone().unwrap();
    let hostile = [
        ("x-0", Some("other"), Some(info.clone())),
        ("x-1", Some("x-1"), None),
        ("x-2", Some("x-2"), Some(MemberInfo { shards: None, ..info.clone() })),
        ("x-3", Some("x-3"), Some(MemberInfo { state: MemberState::Waiting, ..info })),
    ];
    for (id, holder, member) in hostile {
        let mut lease = crate::Lease::clone(&template);
        lease.key = LeaseKey::Member(id.to_owned());
        lease.holder = holder.map(str::to_owned);
        lease.member = member;
        let at = world.now;
        world.store.write(crate::WriteOp::Create, &lease, at, &mut world.checks).unwrap();
    }
    world.run_for(s(20));
    assert_eq!((world.shards_of(0), world.shards_of(1)), (vec![0, 2], vec![1, 3]));
    world.run_for(s(400));
    assert!(world.member("x-0").is_none(), "they are collected as the dead are");
}

#[test]
fn case22_a_member_that_flaps_harms_nobody_else() {
    let mut world = World::at_rest(3, 8);
    for round in 0..120_u64 {
        world.pause(2);
        world.run_for(s(25 + round % 11));
        world.resume(2);
        world.run_for(s(3 + round % 7));
    }
    world.run_for(s(60));
    world.assert_covered();
    Checks::assert_balanced(&world);
    assert!(!world.replicas.iter().any(|replica| replica.has_ended));
}

#[test]
fn sc26_a_stop_while_the_api_server_is_down_ends_within_the_deadline() {
    for phase in 0..10 {
        let mut world = two();
        world.run_for(s(phase));
        world.replicas[0].network.is_cut = true;
        world.stop(0);
        world.run_for(s(30));
        assert!(world.replicas[0].has_ended, "{:#?}", world.summary());
        world.run_for(s(20));
        world.assert_covered();
    }
}

#[test]
fn case3_i1_a_release_whose_answer_was_lost_is_not_taken_back() {
    for after in [100, 500, 2000, 5100, 7100] {
        let mut world = World::at_rest(1, 2);
        let newcomer = world.start(World::settings("r-1", 2));
        world.run_until_that(s(5), |world| !world.replicas[0].draining.is_empty());
        world.replicas[0].network.loses_answers = true;
        world.run_for(ms(after));
        // The newcomer's member lease goes, so that the shard would be the first one's again.
        world.delete(&LeaseKey::Member("r-1".into()));
        world.replicas[newcomer].network.is_cut = after % 1000 == 0;
        world.run_for(s(2));
        world.replicas[0].network.loses_answers = false;
        world.replicas[newcomer].network.is_cut = false;
        world.run_for(s(60));
        world.assert_covered();
        Checks::assert_balanced(&world);
    }
}

/// Found by seed 4948 of the simulation: the work of the old owner stands still, and its lease driver does not.
#[test]
fn case30_i2_a_shard_whose_writes_never_end_is_taken_over_all_the_same() {
    let mut world = World::at_rest(1, 2);
    world.drain = s(3600);
    let next = world.start(World::settings("r-1", 2));
    world.run_until_that(s(10), |world| !world.replicas[0].draining.is_empty());
    world.run_until_that(s(40), |world| world.shards_of(next) == [1]);
    assert_eq!(world.shards_of(0), [0]);
    world.run_for(s(60));
    assert!(lost(&world, next).is_empty(), "{:#?}", world.summary());
}

/// Found by seed 208 of the simulation.
#[test]
fn case12_i1_a_release_whose_answer_was_lost_is_not_written_again_over_the_next_holders_lease() {
    let mut world = World::at_rest(1, 2);
    let next = world.start(World::settings("r-1", 2));
    world.run_until_that(s(10), |world| !world.replicas[0].draining.is_empty());
    world.replicas[0].network.loses_answers = true;
    world.run_until_that(s(10), |world| world.shards_of(next) == [1]);
    // The first one sees the next holder's lease while it still waits for the answer to its release.
    let (version, leases) = world.store.list(0);
    let sent = world.replicas[0].clock.moment(world.now);
    world.step(0, Event::Listed { sent, is_consistent: true, version, leases });
    world.replicas[0].network.loses_answers = false;
    world.run_for(s(20));
    assert_eq!(world.shard_lease(1).holder.as_deref(), Some("r-1"));
    assert!(lost(&world, next).is_empty(), "{:#?}", world.summary());
    assert!(lost(&world, 0).is_empty(), "it released its shard, and lost none");
    Checks::assert_balanced(&world);
}

#[test]
fn case24_lists_that_lag_lose_nothing_and_bring_nothing_back() {
    for lag in [1, 3, 10, 40] {
        let mut world = World::at_rest(3, 8);
        world.store.keeps_history = true;
        world.replicas[0].network.lag = lag;
        world.run_for(s(60));
        assert!((0..3).all(|replica| lost(&world, replica).is_empty()));
        // A member that left, and one that was collected, stay gone.
        world.kill(2);
        world.run_for(s(340));
        assert!(world.member("r-2").is_none());
        for _ in 0..200 {
            world.run_for(ms(300));
            let key = LeaseKey::Member("r-2".into());
            assert!(!world.replicas[0].protocol.seen.contains_key(&key));
            world.assert_covered();
        }
    }
}

#[test]
fn case12_lost_answers_of_renewals_cost_no_shard() {
    let mut world = two();
    for _ in 0..10 {
        world.replicas[0].network.loses_answers = true;
        world.run_for(s(4));
        world.replicas[0].network.loses_answers = false;
        world.run_for(s(27));
    }
    assert!(lost(&world, 0).is_empty(), "{:#?}", world.summary());
}

#[test]
fn i5_epochs_that_were_used_up_by_hand_are_told_and_begin_anew_once_the_lease_and_the_objects_are_cleared() {
    let told = |world: &World, replica: usize| {
        world.notes_of(replica).iter().filter(|n| matches!(n, Note::EpochsUsedUp { shard: 1 })).count()
    };
    let mut world = World::at_rest(1, 4);
    world.edit(&LeaseKey::Shard(1), |lease| lease.transitions = LAST_EPOCH);
    world.run_for(s(20));
    assert_eq!(told(&world, 0), 1, "by who holds it, once");
    world.kill(0);
    let next = world.start(World::settings("r-1", 4));
    world.run_for(s(60));
    assert_eq!((world.shards_of(next).len(), told(&world, next)), (4, 1));
    assert_eq!(world.replicas[next].protocol.held()[&1].epoch, LAST_EPOCH);
    // As the documentation has it: all are stopped, the lease is deleted, and no object tells of an epoch.
    world.stop(next);
    world.run_for(s(10));
    world.checks.may_forget_epochs = true;
    world.delete(&LeaseKey::Shard(1));
    let fresh = world.start(World::settings("r-2", 4));
    world.run_for(s(90));
    assert_eq!((world.shards_of(fresh).len(), told(&world, fresh)), (4, 0));
    assert_eq!(world.replicas[fresh].protocol.held()[&1].epoch, 0);
    // With an object that was forgotten nothing is gained, and that is told too.
    world.step(fresh, Event::EpochSeen { shard: 1, epoch: LAST_EPOCH });
    world.run_for(s(10));
    assert_eq!((world.replicas[fresh].protocol.held()[&1].epoch, told(&world, fresh)), (LAST_EPOCH, 1));
}
