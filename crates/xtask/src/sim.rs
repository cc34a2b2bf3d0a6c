//! `cargo xtask sim`: the deterministic simulation, in release mode, on all cores.

use anyhow::{Context, ensure};

use crate::workspace;

/// What to simulate.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 2000)]
    seeds: u64,
    /// The first seed; the others follow it.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// How many simulated hours each run lasts.
    #[arg(long, default_value_t = 1)]
    hours: u64,
    /// How many threads to use; all cores when it is not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Run all seeds, also when one fails.
    #[arg(long)]
    keep_going: bool,
    /// How many lines of a failing run to show.
    #[arg(long)]
    trace: Option<usize>,
    /// Put in each of the faults that the simulation has to find, instead; fails when one is not found within
    /// 500 seeds.
    #[arg(long)]
    mutants: bool,
}

impl Arguments {
    /// So many seeds of one hour, on all cores.
    pub(crate) fn seeds(seeds: u64) -> Self {
        let (threads, trace) = (None, None);
        Self { seeds, first_seed: 1, hours: 1, threads, keep_going: false, trace, mutants: false }
    }
}

/// Builds and runs the simulation.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut command = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"));
    command.args(["run", "--quiet", "--release", "--package", "convoy-sim"]).current_dir(workspace::root());
    if arguments.mutants {
        command.args(["--features", "mutants"]);
    }
    command.args(["--bin", "convoy-sim", "--"]);
    for (flag, value) in [
        ("--seeds", Some(arguments.seeds)),
        ("--first-seed", Some(arguments.first_seed)),
        ("--hours", Some(arguments.hours)),
        ("--threads", arguments.threads.map(|threads| threads as u64)),
        ("--trace", arguments.trace.map(|lines| lines as u64)),
    ] {
        if let Some(value) = value {
            command.args([flag, &value.to_string()]);
        }
    }
    for (flag, is_set) in [("--mutants", arguments.mutants), ("--keep-going", arguments.keep_going)] {
        if is_set {
            command.arg(flag);
        }
    }
    // A failing seed becomes a file, which tests run again from then on.
    command.args(["--failed-seeds", "crates/sim/seeds"]);
    let status = command.status().context("could not run cargo")?;
    ensure!(status.success(), "the simulation found a fault, or not all of those that were put in");
    Ok(())
}
