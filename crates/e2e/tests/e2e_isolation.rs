//! Releases in trouble delay no other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use convoy_e2e::convoy_program;
use convoy_e2e::dead::show;
use convoy_e2e::isolation::{Options, run};

/// Generous, so that a busy machine makes no noise: who waited in a queue behind those in trouble would wait for a
/// health that never comes, or for a request that takes 30 s.
const WORST: Duration = Duration::from_secs(15);

#[test]
fn what_is_never_healthy_never_answers_comes_and_goes_or_does_not_render_delays_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        convoy: convoy_program(),
        folder: folder.path().join("world"),
        clusters: 2,
        // Twelve on each target: more than work on one of them at a time.
        releases: 48,
        unhealthy: 10,
        poisoned: 4,
        has_silent: true,
        has_flapping: true,
        changes: 40,
        patience: Duration::from_secs(60),
    };
    let report = run(&options, &mut |_| {}).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(report.times.len(), 40);
    assert!(report.troubles > 0);
    assert!(report.times.percentile(100) <= WORST, "{}", show(&report.times));
}
