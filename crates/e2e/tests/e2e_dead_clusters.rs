//! Targets that do not answer harm no Release of another.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use convoy_e2e::convoy_program;
use convoy_e2e::dead::{Options, run, show};

/// Generous, so that a busy machine makes no noise: without a limit per cluster and a breaker, changes wait
/// for deadlines of 30 s.
const FACTOR: u32 = 2;
const SLACK: Duration = Duration::from_millis(500);
const WORST: Duration = Duration::from_secs(20);

#[test]
fn targets_that_hang_refuse_drip_or_fail_delay_no_release_of_the_others_and_their_deletion_ends() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        convoy: convoy_program(),
        folder: folder.path().join("world"),
        clusters: 8,
        dead: 4,
        // Nine on each: the dead ones would fill a queue of sixteen slots.
        releases: 108,
        changes: 32,
        // Longer than a request may take.
        hold: Duration::from_secs(40),
        patience: Duration::from_secs(120),
    };
    let mut told = Vec::new();
    let report = run(&options, &mut |line| told.push(line.to_owned()))
        .unwrap_or_else(|error| panic!("{error:#}, after {told:?}"));
    assert_eq!(report.violations, Vec::<String>::new());
    let usual = report.before.percentile(50).max(report.after.percentile(50));
    let (median, worst) = (report.with_dead.percentile(50), report.with_dead.percentile(100));
    assert!(
        median <= usual * FACTOR + SLACK && worst <= WORST,
        "before: {}; with dead: {}; after: {}",
        show(&report.before),
        show(&report.with_dead),
        show(&report.after)
    );
}
