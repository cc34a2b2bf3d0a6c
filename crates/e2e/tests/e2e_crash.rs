//! The short form of `cargo xtask crash-matrix`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use convoy_e2e::crash::matrix::{STAGES, cells, sample};
use convoy_e2e::crash::script::{Fault, Step};
use convoy_e2e::crash::world::{Cell, Made, Outcome, World};

/// What once did not come to an end: a refusal of these statuses ended the looks at the source and at the cluster, and a
/// damaged artifact was not fetched again.
const FOUND_BEFORE: &[(&str, Fault)] = &[
    ("host patch gitrepositories/status", Fault::Conflict),
    ("host patch clusters/status", Fault::Conflict),
    ("store put artifacts", Fault::Damaged),
];
/// Of all cells so many, spread over them: each fault and each stage is among them.
const CELLS: usize = 36;

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_interrupted_at_any_step_comes_to_its_end_without_help() {
    let mut world = World::start(&[3], Made::OfServers).await.unwrap();
    let (mut all, mut chosen) = (Vec::new(), Vec::new());
    for &stage in STAGES {
        let undisturbed = Cell::undisturbed(3, stage);
        let outcome = world.run(undisturbed).await.unwrap_or_else(|error| panic!("undisturbed: {error:#}"));
        assert!(!outcome.steps.is_empty(), "{stage:?} does nothing");
        let of_stage = cells(3, stage, &outcome.steps, 1);
        chosen.extend(of_stage.iter().copied().filter(|cell| {
            let kind = outcome.steps.get(cell.at).map(Step::kind).unwrap_or_default();
            cell.fault.is_some_and(|fault| FOUND_BEFORE.contains(&(kind.as_str(), fault)))
        }));
        all.extend(of_stage);
    }
    let mut met = 0;
    chosen.extend(sample(all, CELLS));
    for cell in chosen {
        let outcome = world.run(cell).await.unwrap_or_else(|error| panic!("{cell:?}: {error:#}"));
        met += usize::from(outcome.is_met);
    }
    // A stage may once have a step less than it had when they were counted.
    assert!(met >= CELLS * 3 / 4, "only {met} of {CELLS} faults were met");
}

/// As it is for thousands of cells: requests and news take moments of their own, and what a dead process had asked for may
/// still arrive.
#[test]
fn the_same_holds_on_a_clock_that_needs_no_waiting_for_more_sizes_and_seeds() {
    const SIZES: [usize; 3] = [1, 3, 20];
    const CELLS: usize = 45;
    let cell = |cell: Cell, outcome: anyhow::Result<Outcome>| {
        outcome.unwrap_or_else(|error| panic!("{cell:?}: {error:#}"))
    };
    Made::Inside.runtime().unwrap().block_on(async {
        let mut world = World::start(&SIZES, Made::Inside).await.unwrap();
        let mut all = Vec::new();
        for size in SIZES {
            for &stage in STAGES {
                let undisturbed = Cell::undisturbed(size, stage);
                let outcome = cell(undisturbed, world.run(undisturbed).await);
                all.extend(cells(size, stage, &outcome.steps, 3));
            }
        }
        let mut met = 0;
        for chosen in sample(all, CELLS) {
            met += usize::from(cell(chosen, world.run(chosen).await).is_met);
        }
        assert!(met >= CELLS * 3 / 4, "only {met} of {CELLS} faults were met");
    });
}
