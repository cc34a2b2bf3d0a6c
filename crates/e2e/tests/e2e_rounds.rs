//! Faults on real processes in small. `cargo xtask ha-rounds` is the long form, with default lease times.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use std::time::Duration;

use convoy_e2e::convoy_program;
use convoy_e2e::fleet::Timing;
use convoy_e2e::rounds::{Options, run};
use convoy_testkit::{GitServer, leave_out};

#[test]
fn i1_i2_i11_killed_stopped_and_restarted_replicas_leave_no_gap_and_no_overlap() {
    let folder = tempfile::tempdir().unwrap();
    // convoy fetches from no loopback address.
    if let Err(error) = GitServer::start(folder.path()) {
        return leave_out(&error);
    }
    // Longer leases than by hand with `--short`: tests run beside others, on machines that stall.
    let timing = Timing {
        duration: Duration::from_secs(9),
        interval: Duration::from_secs(3),
        observe: Some(Duration::from_millis(500)),
    };
    let short = Options::short(convoy_program(), folder.path().join("fleet"));
    let options = Options {
        timing,
        rounds: 1,
        stops: (Duration::from_secs(2), Duration::from_secs(15)),
        // Each Release has one observer that answers for it.
        is_asking: true,
        flags: vec!["--shard-scoped-cache".to_owned()],
        ..short
    };
    let mut violations = Vec::new();
    let rounds = run(options, &mut |round| {
        println!(
            "{} {} {}: {:?}, {} answers, {} refusals",
            round.fault.as_str(),
            round.number,
            round.what,
            round.takeovers,
            round.answers,
            round.refusals
        );
        violations.extend(round.violations.clone());
    })
    .unwrap();
    if !violations.is_empty() {
        panic!("{}\nlogs in {}", violations.join("\n"), folder.keep().display());
    }
    assert_eq!(rounds.len(), 4);
    assert!(rounds.iter().all(|round| !round.takeovers.is_empty()), "each fault hit somebody");
    assert!(rounds.iter().any(|round| round.refusals > 0), "in no gap anybody asked");
}
