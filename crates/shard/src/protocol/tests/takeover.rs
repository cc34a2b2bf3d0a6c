//! How long a shard has no owner after its owner died, in all phases of the poll.

use std::time::Duration;

use super::checks::Checks;
use super::world::{World, ms, s};
use crate::{Acquired, Event, LeaseKey, Note, Settings};

/// Over deaths in each phase of an interval, in steps of 170 ms, and starts of the replicas at various
/// distances: the longest time that a shard had no owner, its mean, and the longest time until all shards,
/// also those that only changed hands because there was one replica less, had their owner.
fn worst(observe: Duration) -> (Duration, Duration, Duration) {
    let (mut worst, mut sum, mut count, mut at_rest) = (Duration::ZERO, Duration::ZERO, 0, Duration::ZERO);
    for apart in [ms(0), ms(1), ms(15), ms(700), ms(3300), ms(4990)] {
        let mut start = World::new();
        start.latency = ms(10);
        for index in 0..3 {
            let mut settings = World::settings(&format!("r-{index}"), 6);
            settings.observe_interval = observe;
            start.start(settings);
            start.run_for(apart);
        }
        start.run_for(s(90));
        start.assert_covered();
        start.checks.measures_gaps = true;
        for step in 0..59 {
            let mut world = start.clone();
            world.run_for(ms(170) * step);
            world.checks.reset();
            world.kill(1);
            at_rest = at_rest.max(world.run_until_that(s(60), World::is_covered));
            let gap = world.checks.longest_gap;
            (worst, sum, count) = (worst.max(gap), sum + gap, count + 1);
        }
    }
    (worst, sum / count, at_rest)
}

#[test]
fn sc24_sc25_i2_takeover_takes_at_most_duration_plus_interval_in_the_worst_phase() {
    let (default, mean, at_rest) = worst(crate::DEFAULT_OBSERVE_INTERVAL);
    println!("takeover, default flags: worst {default:?}, mean {mean:?}; all at rest after {at_rest:?}");
    assert!(default <= s(33) && at_rest <= s(40), "{default:?} {at_rest:?}");
    let (tick, mean, _) = worst(crate::DEFAULT_RENEW_INTERVAL);
    println!("takeover, --lease-observe-interval 10s: worst {tick:?}, mean {mean:?}");
    // The bound of the contract, and the time of two requests.
    assert!(tick <= s(40) + ms(40), "{tick:?}");
}

/// The member lease of who died is there for ten durations. After a pause, or an outage of the API server, others' silence
/// is counted anew; but nobody waits for the dead one's part again, or gives a part of its own away for it.
#[test]
fn i2_an_outage_raises_nobody_from_the_dead() {
    let died = || {
        let mut world = World::at_rest(4, 12);
        world.kill(1);
        world.run_for(s(60));
        world.assert_covered();
        world
    };
    let owned = |world: &World| [0, 2, 3].map(|replica| world.shards_of(replica));
    for length in [6, 9] {
        let mut world = died();
        let before = owned(&world);
        world.pause(0);
        world.run_for(s(length));
        world.resume(0);
        for _ in 0..60 {
            world.run_for(s(1));
            assert_eq!(owned(&world), before, "after a pause of {length} s");
        }
        let mut world = died();
        world.replicas.iter_mut().for_each(|replica| replica.network.is_cut = true);
        world.run_for(s(length));
        world.replicas.iter_mut().for_each(|replica| replica.network.is_cut = false);
        // Writes that were under way when the network went are given up after their deadline.
        world.run_for(s(6));
        for _ in 0..60 {
            world.run_for(s(1));
            assert_eq!(owned(&world), before, "after an outage of {length} s");
        }
    }
}

/// It is only taken for dead: who is seen to renew is given its part again.
#[test]
fn i2_who_comes_back_after_an_outage_takes_part_again() {
    let mut world = World::at_rest(3, 6);
    world.pause(1);
    world.run_for(s(60));
    world.assert_covered();
    world.replicas[0].network.is_cut = true;
    world.run_for(s(10));
    world.replicas[0].network.is_cut = false;
    world.run_for(s(5));
    assert_eq!(world.shards_of(1), [0_u32; 0]);
    world.resume(1);
    world.run_for(s(60));
    world.assert_covered();
    assert_eq!(world.shards_of(1).len(), 2);
}

/// `i2`: the replica wakes when the lease ends, not at its next tick.
#[test]
fn i2_a_lease_that_ends_is_taken_at_that_instant() {
    for phase in 0..20 {
        let mut world = World::at_rest(2, 2);
        for replica in &mut world.replicas {
            // Nothing but the timer wakes them between ticks.
            assert_eq!(replica.protocol.settings().observe_interval, s(2));
        }
        world.run_for(ms(500) * phase);
        world.kill(0);
        world.run_until_that(s(60), World::is_covered);
        let silent = world.notes_of(1).into_iter().find_map(|note| match note {
            Note::Gained { how: Acquired::TakenOver { silent, from }, .. } if from == "r-0" => Some(*silent),
            _ => None,
        });
        let silent = silent.unwrap();
        assert!(silent >= s(30) && silent <= s(30) + ms(10), "{silent:?}");
    }
}

#[test]
fn i2_no_shard_is_without_an_owner_for_longer_than_forty_seconds_through_a_rolling_restart() {
    let mut world = World::at_rest(3, 8);
    world.checks.measures_gaps = true;
    world.checks.reset();
    for (old, id) in [(0, "s-0"), (1, "s-1"), (2, "s-2")] {
        world.start(World::settings(id, 8));
        world.run_for(s(12));
        world.stop(old);
        world.run_for(s(47));
    }
    world.run_for(s(60));
    world.assert_covered();
    println!("longest gap in a rolling restart: {:?}", world.checks.longest_gap);
    assert!(world.checks.longest_gap <= s(34), "{:?}", world.checks.longest_gap);
}

/// `i2`: whoever hears no answers would block a shard for a whole duration without learning that it has it.
#[test]
fn i2_a_replica_whose_answers_are_lost_acquires_nothing() {
    for phase in 0..20 {
        let mut world = World::at_rest(3, 6);
        world.run_for(ms(500) * phase);
        world.kill(2);
        world.run_for(s(17));
        world.replicas[1].network.loses_answers = true;
        let lost_from = world.now;
        world.run_for(s(12));
        let held: Vec<u32> = world.replicas[1].protocol.held().keys().copied().collect();
        world.run_for(s(9));
        for shard in 0..6 {
            let holder = world.shard_lease(shard).holder.clone();
            assert!(
                holder.as_deref() != Some("r-1") || held.contains(&shard),
                "{phase}: shard {shard} was acquired {:#?}",
                world.summary()
            );
        }
        // Its member lease may be renewed once more, and ends a duration after a peer saw that.
        world.run_until_that(lost_from + s(43) - world.now, World::is_covered);
    }
}

/// `i2`: a backup brings back the leases of replicas with other settings that are long gone.
#[test]
fn i2_leases_of_the_dead_with_other_settings_delay_no_longer_than_a_takeover() {
    for dead in 0..12 {
        let mut world = World::new();
        for _ in 0..dead {
            // What is started next has another boot id, and so another time to wait.
            let index = world.start(World::settings("a", 2));
            world.kill(index);
        }
        world.run_for(s(1));
        let mut settings = World::settings("a", 2);
        settings.observe_interval = s(5);
        let index = world.start(settings);
        let other = world.start(World::settings("b", 8));
        world.kill(other);
        let backup = {
            let mut other_world = World::new();
            other_world.start(World::settings("b", 8));
            other_world.run_for(s(20));
            other_world.member("b").unwrap()
        };
        world.run_for(s(90));
        assert_eq!(world.shards_of(index), [0, 1]);
        world.delete(&LeaseKey::Member("a".into()));
        for shard in 0..2 {
            world.edit(&LeaseKey::Shard(shard), |lease| {
                (lease.holder, lease.boot_id) = (Some("b".to_owned()), backup.boot_id.clone());
            });
        }
        world.make(&backup);
        let noticed = world.run_until_that(s(10), |world| world.shards_of(index).is_empty());
        let took = world.run_until_that(s(40) - noticed, |world| world.shards_of(index) == [0, 1]);
        assert!(took > s(20), "the leases of the dead count: {took:?}");
    }
}

/// Lists every seven seconds and at each renewal; leases end between them.
fn settings_that_end_between_lists(id: &str, shards: u32) -> Settings {
    Settings { observe_interval: s(7), lease_duration: s(33), ..World::settings(id, shards) }
}

#[test]
fn i2_a_restarted_process_acts_at_the_instant_at_which_the_lease_of_its_id_ends() {
    let mut world = World::new();
    let first = world.start(settings_that_end_between_lists("a", 1));
    world.run_for(s(60));
    world.kill(first);
    let restarted = world.start(settings_that_end_between_lists("a", 1));
    world.run_for(s(18));
    // A person's write that changes nothing: nobody can tell that it was not the holder's.
    world.edit(&LeaseKey::Shard(0), |_| ());
    // It is read two seconds later.
    let took = world.run_until_that(s(60), |world| world.owner(0) == Some(restarted));
    assert!(took > s(33) && took <= s(2 + 33) + ms(100), "{took:?}");
}

/// One of two replicas dies, and another joins after a while; with the one that stays.
fn one_joins_after_a_death(after: Duration) -> (World, usize) {
    let mut world = World::new();
    let stays = world.start(settings_that_end_between_lists("stays", 4));
    let dies = world.start(settings_that_end_between_lists("dies", 4));
    world.run_for(s(60));
    world.kill(dies);
    world.run_for(after);
    world.start(settings_that_end_between_lists("new", 4));
    (world, stays)
}

#[test]
fn i2_who_takes_over_acts_before_it_hands_on_to_one_that_joined_meanwhile() {
    let mut handed_on = 0;
    for phase in 30..40 {
        let (mut world, stays) = one_joins_after_a_death(s(20) + ms(500) * phase);
        let since = world.now;
        world.run_for(s(90));
        let notes: Vec<_> = world.notes.iter().filter(|(at, who, _)| *at > since && *who == stays).collect();
        for (gained_at, _, note) in &notes {
            let Note::Gained { shard: gained, .. } = note else { continue };
            let released = notes.iter().find(|(at, _, note)| {
                at > gained_at && matches!(note, Note::Released { shard, .. } if shard == gained)
            });
            let Some((released_at, ..)) = released else { continue };
            handed_on += 1;
            let kept = *released_at - *gained_at;
            assert!(kept >= s(7), "shard {gained} was handed on after {kept:?}");
        }
        Checks::assert_balanced(&world);
    }
    assert!(handed_on > 0, "nothing was tried");
}

#[test]
fn i2_what_is_to_be_handed_on_and_has_an_older_epoch_is_handed_on_at_once() {
    let (mut world, stays) = one_joins_after_a_death(s(38));
    world.run_for(s(3));
    assert_eq!(world.shards_of(stays), [0, 1, 2, 3], "taken over, and to be handed on later");
    world.step(stays, Event::EpochSeen { shard: 0, epoch: 40 });
    // Its lease would end 30 s later. (The new replica counts the dead one as a member for as long.)
    let took = world.run_until_that(s(60), |world| world.shard_lease(0).holder.is_none());
    assert!(took <= s(1), "{took:?}");
}

#[test]
fn i2_a_restarted_process_that_knows_of_one_with_other_settings_waits_for_its_end_and_no_longer() {
    for edited_after in 1..15 {
        let mut world = World::new();
        let other = world.start(World::settings("other", 8));
        world.run_for(s(40));
        let first = world.start(World::settings("a", 4));
        world.run_for(s(20));
        world.kill(first);
        world.kill(other);
        let restarted = world.start(World::settings("a", 4));
        world.run_for(s(edited_after));
        world.edit(&LeaseKey::Member("other".into()), |_| ());
        let took = world.run_until_that(s(90), |world| world.owner(0) == Some(restarted));
        assert!(took <= s(30 + 2) + ms(200), "{took:?}, edited after {edited_after} s");
    }
}
