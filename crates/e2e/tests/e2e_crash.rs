//! The short form of `cargo xtask crash-matrix`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use convoy_e2e::crash::matrix::{STAGES, cells, sample};
use convoy_e2e::crash::world::{Cell, World};

/// Of all cells so many, spread over them: each fault and each stage is among them.
const CELLS: usize = 36;

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_interrupted_at_any_step_comes_to_its_end_without_help() {
    let mut world = World::start(&[3], false).await.unwrap();
    let mut all = Vec::new();
    for &stage in STAGES {
        let undisturbed = Cell::undisturbed(3, stage);
        let outcome = world.run(undisturbed).await.unwrap_or_else(|error| panic!("undisturbed: {error:#}"));
        assert!(!outcome.steps.is_empty(), "{stage:?} does nothing");
        all.extend(cells(3, stage, &outcome.steps, 1));
    }
    let mut met = 0;
    for cell in sample(all, CELLS) {
        let outcome = world.run(cell).await.unwrap_or_else(|error| panic!("{cell:?}: {error:#}"));
        met += usize::from(outcome.is_met);
    }
    // A stage may once have a step less than it had when they were counted.
    assert!(met >= CELLS * 3 / 4, "only {met} of {CELLS} faults were met");
}
