//! `cargo xtask dead-clusters`: targets that stop to answer, and what the Releases of the others notice.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use convoy_e2e::dead::{Options, run as measure, show};

use crate::ha_rounds::ProgramArguments;
use crate::workspace;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many targets live.
    #[arg(long, default_value_t = 40)]
    clusters: u16,
    /// How many die: they hang, refuse, answer one byte a second, or answer 500, in turn.
    #[arg(long, default_value_t = 10)]
    dead: u16,
    /// How many Releases, spread over all.
    #[arg(long, default_value_t = 500)]
    releases: usize,
    /// How long the dead are there, in minutes.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// How many changes each measurement takes.
    #[arg(long, default_value_t = 400)]
    changes: usize,
    /// By how many percent the 99th percentile may grow.
    #[arg(long, default_value_t = 20)]
    percent: u32,
    #[command(flatten)]
    program: ProgramArguments,
}

/// Runs it; what does not hold is a failure, and leaves all logs where they are.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = workspace::target_dir()?;
    let convoy = arguments.program.program(&target)?;
    let folder = target.join("dead-clusters").join(std::process::id().to_string());
    println!(
        "{} targets live, {} die, {} Releases, logs in {}",
        arguments.clusters,
        arguments.dead,
        arguments.releases,
        folder.display()
    );
    let options = Options {
        convoy,
        folder: folder.clone(),
        clusters: arguments.clusters,
        dead: arguments.dead,
        releases: arguments.releases,
        changes: arguments.changes,
        hold: Duration::from_secs(arguments.minutes * 60),
        patience: Duration::from_secs(180),
    };
    let report = measure(&options, &mut |line| {
        println!("{line}");
        // A run takes long: what was seen is shown at once, also through a pipe.
        let _ = std::io::stdout().flush();
    })?;
    println!("before:    {}", show(&report.before));
    println!("with dead: {}", show(&report.with_dead));
    println!("after:     {}", show(&report.after));
    let [before, with_dead, after] = report.memory.map(|bytes| bytes >> 20);
    println!(
        "memory of the controller-manager: {before} MiB, {with_dead} MiB with the dead, {after} MiB after"
    );
    let bound = report.before.percentile(99) * (100 + arguments.percent) / 100;
    let p99 = report.with_dead.percentile(99);
    for violation in &report.violations {
        println!("VIOLATION {violation}");
    }
    ensure!(report.violations.is_empty(), "{} violation(s)", report.violations.len());
    ensure!(p99 <= bound, "p99 is {:.2} s, more than {:.2} s", p99.as_secs_f64(), bound.as_secs_f64());
    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}
