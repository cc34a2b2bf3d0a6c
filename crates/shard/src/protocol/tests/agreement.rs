//! I9: replicas with different `--shards` never act together. The world checks it after each step.

use super::world::{World, ms, s};
use crate::{Assignment, LeaseKey, MemberState, Note, Standing};

fn acts(world: &World, replica: usize) -> bool {
    !world.shards_of(replica).is_empty()
}

#[test]
fn sc14_sc40_i9_a_newcomer_with_other_settings_waits_until_the_others_are_gone() {
    let mut other = World::settings("b", 4);
    other.assignment = Assignment::Rendezvous;
    for newcomer in [World::settings("b", 8), World::settings("b", 2), other] {
        let mut world = World::at_rest(1, 4);
        let newcomer = world.start(newcomer);
        world.run_for(s(120));
        assert!(
            matches!(world.standing(newcomer), Standing::Waiting { .. }),
            "{:?}",
            world.standing(newcomer)
        );
        assert!(world.shards_of(0).len() == 4 && !acts(&world, newcomer));
        let told = |note: &&Note| {
            matches!(note, Note::Disagreement { is_waiting: true, replica, message } if replica == "r-0"
            && message.starts_with("replica r-0 runs with --shards 4 --shard-assignment modulo, this one (b) with --shards "))
        };
        assert!(world.notes_of(newcomer).iter().any(told));
        world.stop(0);
        world.run_for(s(120));
        assert!(acts(&world, newcomer), "{:#?}", world.summary());
        assert!(world.notes_of(newcomer).contains(&&Note::Agreement));
    }
}

#[test]
fn i9_those_that_start_together_never_both_act_and_one_kind_wins() {
    for apart in [0, 1, 4, 5, 6, 9, 10, 11, 19, 20, 30, 500, 2000] {
        let mut world = World::new();
        let one = world.start(World::settings("a", 4));
        world.run_for(ms(apart));
        let other = world.start(World::settings("b", 8));
        world.run_for(s(150));
        assert!(acts(&world, one) != acts(&world, other), "{apart}: {:#?}", world.summary());
    }
}

#[test]
fn i9_a_mixed_start_ends_with_all_of_one_kind_acting() {
    for apart in [0, 3, 7, 12, 400] {
        let mut world = World::new();
        for (id, shards) in [("a", 4), ("b", 8), ("c", 4), ("d", 8)] {
            world.start(World::settings(id, shards));
            world.run_for(ms(apart));
        }
        world.run_for(s(200));
        let acting: Vec<bool> = (0..4).map(|replica| acts(&world, replica)).collect();
        assert!(
            acting == [true, false, true, false] || acting == [false, true, false, true],
            "{apart}: {acting:?} {:#?}",
            world.summary()
        );
    }
}

#[test]
fn i9_one_that_was_away_looks_again_before_it_acts() {
    for away in [26, 31, 35, 60, 90] {
        // Cut off, or hung.
        for is_cut in [true, false] {
            let mut world = World::at_rest(1, 4);
            let newcomer = world.start(World::settings("b", 2));
            world.run_for(s(20));
            if is_cut {
                world.replicas[0].network.is_cut = true;
            } else {
                world.pause(0);
            }
            world.run_for(s(away));
            world.replicas[0].network.is_cut = false;
            world.resume(0);
            world.run_for(s(200));
            assert!(acts(&world, 0) != acts(&world, newcomer), "{away}: {:#?}", world.summary());
        }
    }
}

#[test]
fn i9_a_member_lease_that_was_deleted_lets_no_other_in() {
    for cut in [0, 10, 40] {
        let mut world = World::at_rest(1, 4);
        let newcomer = world.start(World::settings("b", 8));
        world.run_for(s(20));
        world.replicas[0].network.is_cut = cut > 0;
        world.delete(&LeaseKey::Member("r-0".into()));
        world.run_for(s(cut));
        world.replicas[0].network.is_cut = false;
        world.run_for(s(200));
        assert!(acts(&world, 0) != acts(&world, newcomer), "{cut}: {:#?}", world.summary());
    }
}

#[test]
fn i9_a_member_lease_that_was_edited_lets_no_other_in() {
    for edit in 0..4 {
        for after in 0..12 {
            let mut world = World::at_rest(1, 4);
            let newcomer = world.start(World::settings("b", 8));
            world.run_for(s(20) + ms(after * 1000));
            world.edit(&LeaseKey::Member("r-0".into()), |lease| match edit {
                0 => lease.holder = None,
                1 => lease.holder = Some("somebody".into()),
                2 => lease.member = None,
                // As a restore would, from when it waited.
                _ => lease.member.as_mut().unwrap().state = MemberState::Waiting,
            });
            for _ in 0..200 {
                world.run_for(ms(500));
                let both = !world.shards_of(0).is_empty() && !world.shards_of(newcomer).is_empty();
                assert!(!both, "{edit} after {after} s: {:#?}", world.summary());
            }
            assert!(acts(&world, 0) != acts(&world, newcomer), "{edit}: {:#?}", world.summary());
        }
    }
}

#[test]
fn sc28_sc40_other_durations_are_warned_about_and_never_let_two_act() {
    for (duration, interval) in [(300, 10), (2, 0), (60, 20)] {
        let mut world = World::at_rest(1, 4);
        let mut other = World::settings("b", 4);
        other.lease_duration = s(duration);
        other.renew_interval = if interval == 0 { ms(500) } else { s(interval) };
        let other = world.start(other);
        world.run_for(s(100));
        world.replicas[0].network.is_cut = true;
        world.run_for(s(60));
        world.replicas[0].network.is_cut = false;
        world.run_for(s(60));
        world.replicas[other].network.is_cut = true;
        world.run_for(s(400));
        assert_eq!(world.shards_of(0).len(), 4);
        let told = |note: &&Note| {
            matches!(note, Note::Disagreement { is_waiting: false, replica, message } if replica == "b"
            && message.starts_with(&format!("replica b runs with --lease-duration {duration}s --lease-renew-interval "))
            && message.contains(", this one (r-0) with --lease-duration 30s --lease-renew-interval 10s: "))
        };
        assert!(world.notes_of(0).iter().any(told));
    }
}

/// All leases are deleted while one that runs with a longer duration hears nothing; who makes its lease anew waits for its own.
#[test]
fn sc40_i1_one_with_a_longer_duration_acts_no_longer_than_a_peer_that_does_not_know_of_it_waits() {
    for longer in [40, 60, 300] {
        let mut world = World::at_rest(2, 4);
        let mut settings = World::settings("long", 4);
        settings.lease_duration = s(longer);
        let long = world.start(settings);
        // Nobody has read yet that it has a shard.
        world.run_until_that(s(60), |world| !world.shards_of(long).is_empty());
        let its = world.shards_of(long)[0];
        world.replicas[long].network.is_cut = true;
        world.delete_all();
        world.checks.may_forget_epochs = true;
        // The world checks I1 all the time.
        world.run_for(s(400));
        assert!(world.owner(its).is_some_and(|owner| owner != long), "{longer} s");
    }
}
