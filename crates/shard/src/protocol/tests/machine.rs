//! Random faults in random order, shrunk to a short run when something breaks.
//!
//! `PROPTEST_CASES` asks for more runs than the few that every test run makes.

use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use super::checks::Checks;
use super::clock::Clock;
use super::world::{Run, World, ms, s};
use crate::{Event, LeaseKey};

const SHARDS: u32 = 5;
const MOST_LIVE: usize = 4;
const MOST_PROCESSES: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Run(u64),
    /// An id, the rate of the clocks, and whether with other settings.
    Start(u8, u32, bool, bool),
    Kill(usize),
    Stop(usize),
    Pause(usize),
    Resume(usize),
    Suspend(usize, bool),
    Wall(usize, i64),
    Cut(usize, bool),
    LoseAnswers(usize, bool),
    Delay(usize, u64),
    Lag(usize, usize),
    DrainsFor(u64),
    DeleteShard(u32),
    DeleteMember(u8),
    BlankShard(u32),
    BlankMember(u8),
    Transitions(u32, u64),
    Duration(u32, i64),
    EpochSeen(usize, u32, u64),
}

/// What is needed to choose faults that can happen: how many processes were started.
#[derive(Clone, Debug)]
struct Plan {
    processes: usize,
}

impl ReferenceStateMachine for Plan {
    type State = Plan;
    type Transition = Fault;

    fn init_state() -> BoxedStrategy<Plan> {
        Just(Plan { processes: 0 }).boxed()
    }

    fn transitions(plan: &Plan) -> BoxedStrategy<Fault> {
        let start = (
            0..4_u8,
            prop_oneof![3 => Just(1000), 1 => 913..1095_u32],
            prop::bool::weighted(0.15),
            any::<bool>(),
        )
            .prop_map(|(id, rate, is_odd, leaves)| Fault::Start(id, rate, is_odd, leaves));
        if plan.processes == 0 {
            return start.boxed();
        }
        let one = 0..plan.processes;
        let span = prop_oneof![0..300_u64, 300..6_000_u64, 6_000..45_000_u64];
        let epoch = prop_oneof![0..20_u64, Just(u64::MAX)];
        prop_oneof![
            12 => span.prop_map(Fault::Run),
            4 => start,
            1 => one.clone().prop_map(Fault::Kill),
            2 => one.clone().prop_map(Fault::Stop),
            2 => one.clone().prop_map(Fault::Pause),
            3 => one.clone().prop_map(Fault::Resume),
            1 => (one.clone(), any::<bool>()).prop_map(|(r, on)| Fault::Suspend(r, on)),
            1 => (one.clone(), -4000..4000_i64).prop_map(|(r, by)| Fault::Wall(r, by)),
            3 => (one.clone(), any::<bool>()).prop_map(|(r, on)| Fault::Cut(r, on)),
            3 => (one.clone(), any::<bool>()).prop_map(|(r, on)| Fault::LoseAnswers(r, on)),
            2 => (one.clone(), 0..9_000_u64).prop_map(|(r, delay)| Fault::Delay(r, delay)),
            1 => (one.clone(), 0..30_usize).prop_map(|(r, lag)| Fault::Lag(r, lag)),
            1 => (0..8_000_u64).prop_map(Fault::DrainsFor),
            1 => (0..SHARDS).prop_map(Fault::DeleteShard),
            1 => (0..4_u8).prop_map(Fault::DeleteMember),
            1 => (0..SHARDS).prop_map(Fault::BlankShard),
            1 => (0..4_u8).prop_map(Fault::BlankMember),
            1 => (0..SHARDS, 0..30_u64).prop_map(|(shard, epoch)| Fault::Transitions(shard, epoch)),
            1 => (0..SHARDS, prop_oneof![Just(-1_i64), Just(0), Just(1), Just(1 << 31)]).prop_map(|(shard, d)| Fault::Duration(shard, d)),
            1 => (one, 0..SHARDS, epoch).prop_map(|(r, shard, epoch)| Fault::EpochSeen(r, shard, epoch)),
        ]
        .boxed()
    }

    fn apply(mut plan: Plan, fault: &Fault) -> Plan {
        if matches!(fault, Fault::Start(..)) {
            plan.processes = (plan.processes + 1).min(MOST_PROCESSES);
        }
        plan
    }
}

fn is_live(world: &World, replica: usize) -> bool {
    let replica = &world.replicas[replica];
    replica.run != Run::Gone && !replica.has_ended
}

fn apply(world: &mut World, fault: Fault) {
    let count = world.replicas.len();
    let network = |world: &mut World, replica: usize, change: &dyn Fn(&mut super::world::Network)| {
        change(&mut world.replicas[replica % count.max(1)].network);
    };
    let checks = &mut world.checks;
    checks.member_edited |= matches!(fault, Fault::DeleteMember(_) | Fault::BlankMember(_));
    checks.shard_edited |= matches!(fault, Fault::DeleteShard(_) | Fault::BlankShard(_));
    match fault {
        Fault::Run(millis) => world.run_for(ms(millis)),
        Fault::Start(id, rate, is_odd, leaves) => {
            let live = (0..count).filter(|r| is_live(world, *r)).count();
            if live >= MOST_LIVE || count >= MOST_PROCESSES {
                return;
            }
            let mut settings = World::settings(&format!("r-{id}"), SHARDS);
            settings.release_member_on_exit = leaves;
            if is_odd {
                settings.shards = NonZeroU32::new(SHARDS + 2).unwrap();
            }
            world.start_with(settings, Clock::new(world.now, rate));
        }
        Fault::Kill(replica) => world.kill(replica % count),
        Fault::Stop(replica) => world.stop(replica % count),
        Fault::Pause(replica) => world.pause(replica % count),
        Fault::Resume(replica) => world.resume(replica % count),
        Fault::Suspend(replica, on) => {
            let now = world.now;
            world.replicas[replica % count].clock.suspend(now, on);
        }
        Fault::Wall(replica, by) => {
            let now = world.now;
            world.replicas[replica % count].clock.set_wall(now, by);
        }
        Fault::Cut(replica, on) => network(world, replica, &|network| network.is_cut = on),
        Fault::LoseAnswers(replica, on) => network(world, replica, &|network| network.loses_answers = on),
        Fault::Delay(replica, delay) => network(world, replica, &|network| network.delay = ms(delay)),
        Fault::Lag(replica, lag) => network(world, replica, &|network| network.lag = lag),
        Fault::DrainsFor(millis) => world.drain = ms(millis),
        Fault::DeleteShard(shard) => {
            world.checks.may_forget_epochs = true;
            world.delete(&LeaseKey::Shard(shard));
        }
        Fault::DeleteMember(id) => world.delete(&LeaseKey::Member(format!("r-{id}"))),
        Fault::BlankShard(shard) => world.edit(&LeaseKey::Shard(shard), |lease| lease.holder = None),
        Fault::BlankMember(id) => {
            world.edit(&LeaseKey::Member(format!("r-{id}")), |lease| lease.holder = None);
        }
        Fault::Transitions(shard, epoch) => {
            world.checks.may_forget_epochs = true;
            world.edit(&LeaseKey::Shard(shard), |lease| lease.transitions = epoch);
        }
        Fault::Duration(shard, seconds) => {
            world.edit(&LeaseKey::Shard(shard), |lease| lease.duration_seconds = Some(seconds));
        }
        Fault::EpochSeen(replica, shard, epoch) => {
            // The epochs that follow may have no room to rise.
            world.checks.may_forget_epochs |= epoch > 1000;
            world.step(replica % count, Event::EpochSeen { shard, epoch });
        }
    }
}

/// After faults: what remains comes to rest, with everything owned once and in equal parts.
fn assert_converges(mut world: World) {
    world.drain = ms(50);
    for replica in 0..world.replicas.len() {
        let now = world.now;
        world.replicas[replica].network = Default::default();
        world.replicas[replica].clock.suspend(now, false);
        if world.replicas[replica].protocol.settings().shards.get() != SHARDS {
            world.kill(replica);
        }
        world.resume(replica);
    }
    world.start(World::settings("fresh", SHARDS));
    world.run_for(s(150));
    world.assert_covered();
    Checks::assert_balanced(&world);
    world.checks.measures_gaps = true;
    world.checks.reset();
    world.run_for(s(50));
    assert_eq!(world.checks.longest_gap, s(0));
    let live = (0..world.replicas.len()).filter(|r| is_live(&world, *r)).count() as u64;
    // One collection of a dead member's lease each.
    let most = 6 * (live + u64::from(SHARDS)) + MOST_PROCESSES as u64;
    assert!(world.checks.writes <= most, "i14: {} of {most} {:#?}", world.checks.writes, world.summary());
    assert_eq!(world.checks.conflicts, 0);
    Checks::assert_collections_were_safe(&world);
}

struct Replicas;

impl StateMachineTest for Replicas {
    type SystemUnderTest = World;
    type Reference = Plan;

    fn init_test(_: &Plan) -> World {
        let mut world = World::new();
        world.store.keeps_history = true;
        world
    }

    fn apply(mut world: World, _: &Plan, fault: Fault) -> World {
        apply(&mut world, fault);
        world
    }

    fn teardown(world: World, _: Plan) {
        if !world.replicas.is_empty() {
            assert_converges(world);
        }
    }
}

fn config() -> Config {
    let mut config = Config { max_shrink_iters: 4000, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 40;
    }
    config
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    fn i1_i3_i4_i5_i7_i8_i9_i10_i14_hold_through_random_faults(sequential 1..40 => Replicas);
}
