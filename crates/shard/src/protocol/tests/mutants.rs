//! Faults that are put in on purpose are found by the checks of this world: the property that each breaks
//! fails, and holds without it.

use super::checks::Checks;
use super::world::{World, ms, s};
use crate::Mutant;

/// What the checks and `scenario` say, with and without the mutant.
fn finds(mutant: Mutant, scenario: impl Fn(&mut World, Option<Mutant>) -> Vec<String>) -> Vec<String> {
    let run = |mutant| {
        let mut world = World::new();
        world.checks.is_collecting = true;
        let mut found = scenario(&mut world, mutant);
        found.append(&mut world.checks.violations);
        found
    };
    assert_eq!(run(None), Vec::<String>::new());
    run(Some(mutant))
}

fn start(world: &mut World, id: &str, shards: u32, mutant: Option<Mutant>) -> usize {
    let mut settings = World::settings(id, shards);
    settings.mutant = mutant;
    world.start(settings)
}

fn has(found: &[String], invariant: &str) -> bool {
    found.iter().any(|what| what.starts_with(invariant))
}

#[test]
fn i1_expiry_by_the_wall_clock_is_found() {
    let found = finds(Mutant::WallClockExpiry, |world, mutant| {
        start(world, "r-0", 4, mutant);
        let other = start(world, "r-1", 4, mutant);
        world.run_for(s(60));
        let now = world.now;
        world.replicas[other].clock.set_wall(now, 3600);
        world.run_for(s(60));
        Vec::new()
    });
    assert!(has(&found, "i1"), "{found:?}");
}

#[test]
fn i7_a_release_before_the_drain_is_found() {
    let found = finds(Mutant::ReleaseBeforeDrain, |world, mutant| {
        start(world, "r-0", 4, mutant);
        world.run_for(s(60));
        start(world, "r-1", 4, mutant);
        world.run_for(s(10));
        Vec::new()
    });
    assert!(has(&found, "i7"), "{found:?}");
}

#[test]
fn i8_a_twin_that_is_accepted_is_found() {
    let found = finds(Mutant::SameIdAccepted, |world, mutant| {
        start(world, "r-0", 4, mutant);
        world.run_for(s(60));
        start(world, "r-0", 4, mutant);
        world.run_for(s(60));
        Vec::new()
    });
    assert!(has(&found, "i1") || has(&found, "i8"), "{found:?}");
}

#[test]
fn i9_another_shard_count_that_is_accepted_is_found() {
    let found = finds(Mutant::ShardCountUnchecked, |world, mutant| {
        start(world, "r-0", 4, mutant);
        world.run_for(s(60));
        start(world, "r-1", 8, mutant);
        world.run_for(s(60));
        Vec::new()
    });
    assert!(has(&found, "i9"), "{found:?}");
}

#[test]
fn i10_a_collection_without_precondition_is_found() {
    let found = finds(Mutant::CollectWithoutPrecondition, |world, mutant| {
        start(world, "r-0", 4, mutant);
        start(world, "r-1", 4, mutant);
        world.run_for(s(60));
        world.pause(1);
        world.run_for(s(60));
        Vec::new()
    });
    assert!(has(&found, "i10"), "{found:?}");
}

/// How long the shards of a dead replica had no owner, in the worst phase, when nothing else wakes the others.
fn worst_gap(world: &mut World, mutant: Option<Mutant>) -> Vec<String> {
    for id in ["r-0", "r-1", "r-2"] {
        let mut settings = World::settings(id, 6);
        settings.mutant = mutant;
        settings.observe_interval = settings.renew_interval;
        let replica = world.start(settings);
        world.replicas[replica].network.delay = ms(200);
        world.run_for(s(3));
    }
    world.run_for(s(90));
    world.checks.measures_gaps = true;
    world.checks.reset();
    let mut found = Vec::new();
    for phase in 0..20 {
        let mut world = world.clone();
        world.run_for(s(10) * phase / 20);
        world.checks.reset();
        world.kill(1);
        world.run_for(s(11));
        // Answers come earlier in the interval than the one that told of the last renewal.
        for replica in [0, 2] {
            world.replicas[replica].network.delay = s(0);
        }
        world.run_for(s(70));
        Checks::look(&mut world);
        if !world.is_covered() || world.checks.longest_gap > s(41) {
            found.push(format!("i2: {:?}", world.checks.longest_gap));
        }
    }
    found
}

#[test]
fn i2_a_missing_timer_is_found() {
    let found = finds(Mutant::TimerMissing, worst_gap);
    assert!(has(&found, "i2"), "{found:?}");
}

#[test]
fn i2_leases_that_are_not_observed_before_they_are_wanted_are_found() {
    let found = finds(Mutant::ObserveOnlyWanted, worst_gap);
    assert!(has(&found, "i2"), "{found:?}");
}
