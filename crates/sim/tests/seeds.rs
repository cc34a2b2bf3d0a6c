//! A short form of `cargo xtask sim`, and the seeds that failed once.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use convoy_sim::{Options, run};

/// Runs seeds on two threads; answers with what failed.
fn failures(seeds: &[Options]) -> Vec<String> {
    let next = AtomicU64::new(0);
    let failed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(options) =
                    seeds.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap())
                {
                    if let Some(violation) = run(options).violation {
                        failed.lock().unwrap().push(format!("seed {}: {violation}", options.seed));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

#[test]
fn i1_to_i14_hold_for_the_first_seeds() {
    let seeds: Vec<Options> = (1..=SEEDS).map(|seed| Options { minutes: 40, ..Options::new(seed) }).collect();
    assert_eq!(failures(&seeds), Vec::<String>::new());
}

/// Without optimisation a run takes ten times as long; `cargo xtask sim` runs thousands.
const SEEDS: u64 = if cfg!(debug_assertions) { 8 } else { 300 };

/// A file per seed: `seed N` and `minutes N`, a line each; what follows a `#` is for people.
#[test]
fn seeds_that_failed_once_do_not_fail_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "seed") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let number = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        let seed = number("seed ").unwrap_or_else(|| panic!("{} names no seed", path.display()));
        seeds.push(Options { minutes: number("minutes ").unwrap_or(60), ..Options::new(seed) });
    }
    assert!(!seeds.is_empty());
    assert_eq!(failures(&seeds), Vec::<String>::new());
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in [3, 11] {
        let options = Options { minutes: 30, is_traced: true, ..Options::new(seed) };
        let (one, other) = (run(&options), run(&options));
        assert!(!one.trace.is_empty());
        assert_eq!(one.trace, other.trace);
        assert_eq!(format!("{:?}", one.stats), format!("{:?}", other.stats));
    }
}
