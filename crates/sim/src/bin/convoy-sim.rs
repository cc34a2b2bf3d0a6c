//! Runs seeds of the simulation on all cores; `cargo xtask sim` calls it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use convoy_runtime::{Clock as _, RealClock};
use convoy_sim::{CASES, Options, Stats, run};

/// How many lines of a failing run are shown.
const TRACE_LINES: usize = 300;

const USAGE: &str = "usage: convoy-sim [--seeds N] [--first-seed S] [--hours H] [--threads T] [--keep-going]
                  [--failed-seeds FOLDER] [--trace LINES] [--mutants] [--each]";

#[derive(Debug)]
struct Arguments {
    seeds: u64,
    first: u64,
    minutes: u64,
    threads: usize,
    keep_going: bool,
    trace_lines: usize,
    failed_seeds: Option<PathBuf>,
    mutants: bool,
    each: bool,
}

fn parse() -> Option<Arguments> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let mut parsed = Arguments {
        seeds: 2000,
        first: 1,
        minutes: 60,
        threads,
        keep_going: false,
        trace_lines: TRACE_LINES,
        failed_seeds: None,
        mutants: false,
        each: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => parsed.seeds = words.next()?.parse().ok()?,
            "--first-seed" => parsed.first = words.next()?.parse().ok()?,
            "--hours" => parsed.minutes = words.next()?.parse::<u64>().ok()?.max(1) * 60,
            "--threads" => parsed.threads = words.next()?.parse::<usize>().ok()?.max(1),
            "--trace" => parsed.trace_lines = words.next()?.parse().ok()?,
            "--failed-seeds" => parsed.failed_seeds = Some(words.next()?.into()),
            "--keep-going" => parsed.keep_going = true,
            "--mutants" => parsed.mutants = true,
            "--each" => parsed.each = true,
            _ => return None,
        }
    }
    Some(parsed)
}

// Not in tokio's context: its budget of polls would stop tasks of the simulation's own executor.
fn main() -> ExitCode {
    let Some(arguments) = parse() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let clock = RealClock::new();
    if arguments.mutants {
        return mutants(&arguments);
    }
    let (stats, failed, ran) = run_seeds(&arguments);
    let seconds = clock.monotonic().as_secs_f64();
    report(&stats, ran, seconds);
    println!("{} seeds failed", failed.len());
    let Some((seed, _)) = failed.first() else {
        println!("no invariant was violated");
        return ExitCode::SUCCESS;
    };
    show(*seed, &arguments);
    ExitCode::FAILURE
}

fn run_seeds(arguments: &Arguments) -> (Stats, Vec<(u64, String)>, u64) {
    let next = AtomicU64::new(arguments.first);
    let end = arguments.first + arguments.seeds;
    let is_over = AtomicBool::new(false);
    let results = Mutex::new((Stats::default(), Vec::new(), 0));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let outcome = run(&Options { minutes: arguments.minutes, ..Options::new(seed) });
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    if arguments.each {
                        let violation = outcome.violation.as_deref().unwrap_or("holds");
                        println!("run {seed}: {violation}; {:?}", outcome.stats);
                    }
                    results.0.add(&outcome.stats);
                    results.2 += 1;
                    if let Some(violation) = outcome.violation {
                        if arguments.keep_going {
                            println!("seed {seed}: {violation}");
                        }
                        results.1.push((seed, violation));
                        is_over.store(!arguments.keep_going, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (stats, mut failed, ran) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort();
    (stats, failed, ran)
}

/// Runs a failing seed again, and shows what happened before it failed.
fn show(seed: u64, arguments: &Arguments) {
    let outcome = run(&Options { minutes: arguments.minutes, is_traced: true, ..Options::new(seed) });
    let from = outcome.trace.len().saturating_sub(arguments.trace_lines);
    println!("\nseed {seed}, the last {} of what happened (seconds, who, what):", outcome.trace.len() - from);
    for line in &outcome.trace[from..] {
        println!("{line}");
    }
    let violation =
        outcome.violation.unwrap_or_else(|| "it did not fail again: the run is not deterministic".into());
    println!("seed {seed}: {violation}\nagain: cargo xtask sim --seeds 1 --first-seed {seed}");
    if let Some(folder) = &arguments.failed_seeds {
        let file = folder.join(format!("{seed}.seed"));
        let written = std::fs::create_dir_all(folder).and_then(|()| {
            std::fs::write(&file, format!("seed {seed}\nminutes {}\n# {violation}\n", arguments.minutes))
        });
        match written {
            Ok(()) => println!("kept in {}", file.display()),
            Err(error) => eprintln!("{} was not written: {error}", file.display()),
        }
    }
}

fn report(stats: &Stats, ran: u64, seconds: f64) {
    let as_seconds = |nanos: u64| nanos as f64 / 1e9;
    let hours = as_seconds(stats.simulated) / 3600.0;
    println!(
        "{ran} seeds, {hours:.0} simulated hours in {seconds:.1} s ({:.1} seeds/s)",
        ran as f64 / seconds
    );
    let faults: Vec<String> = (1..=CASES).map(|case| format!("{case}:{}", stats.faults[case])).collect();
    println!("faults by case: {}", faults.join(" "));
    println!(
        "shards: {} taken over, {} gained otherwise, {} released; {} processes ended as twins",
        stats.takeovers, stats.gains, stats.releases, stats.twins
    );
    println!(
        "writes: {} to targets, {} of statuses and inventories, {} of leases ({} conflicts); {} were left over at stopped processes",
        stats.target_writes,
        stats.host_writes,
        stats.lease_writes,
        stats.conflicts,
        stats.left_over_by_stopped
    );
    println!(
        "longest time without an owner: {:.1} s undisturbed (bound 40 s, by the slowest clock); {:.1} s with disturbances but a healthy API server; {:.1} s with every fault",
        as_seconds(stats.worst_counted_gap),
        as_seconds(stats.worst_gap_without_trouble),
        as_seconds(stats.worst_gap)
    );
}

#[cfg(not(feature = "mutants"))]
fn mutants(_: &Arguments) -> ExitCode {
    eprintln!("built without the feature mutants");
    ExitCode::from(2)
}

/// Each mutant has to be found.
#[cfg(feature = "mutants")]
fn mutants(arguments: &Arguments) -> ExitCode {
    let mut has_survivor = false;
    for mutant in convoy_shard::Mutant::ALL {
        let next = AtomicU64::new(arguments.first);
        let end = arguments.first + arguments.seeds.min(500);
        let first: Mutex<Option<(u64, String)>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..arguments.threads {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        let is_found = first.lock().unwrap_or_else(PoisonError::into_inner).is_some();
                        if seed >= end || is_found {
                            return;
                        }
                        let options = Options {
                            minutes: arguments.minutes,
                            mutant: Some(mutant),
                            ..Options::new(seed)
                        };
                        if let Some(violation) = run(&options).violation {
                            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                            if first.as_ref().is_none_or(|(earlier, _)| seed < *earlier) {
                                *first = Some((seed, violation));
                            }
                        }
                    }
                });
            }
        });
        match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((seed, violation)) => println!("{mutant:?}: found by seed {seed}: {violation}"),
            None => {
                has_survivor = true;
                println!("{mutant:?}: not found in {} seeds", end - arguments.first);
            }
        }
    }
    if has_survivor { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
