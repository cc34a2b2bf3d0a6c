//! `cargo xtask isolation`: Releases in trouble, and how long a change of one that is well takes to be live.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use convoy_e2e::dead::show;
use convoy_e2e::isolation::{Options, run as measure};

use crate::ha_rounds::ProgramArguments;
use crate::workspace;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many targets are well.
    #[arg(long, default_value_t = 9)]
    clusters: u16,
    /// How many Releases, spread over all targets.
    #[arg(long, default_value_t = 300)]
    releases: usize,
    /// How many of them wait for health that never comes.
    #[arg(long, default_value_t = 30)]
    unhealthy: usize,
    /// How many of them do not render: endless, huge, deep or broken ones, in turn.
    #[arg(long, default_value_t = 0)]
    poisoned: usize,
    /// One target more, which refuses connections for three seconds of each six.
    #[arg(long)]
    flapping: bool,
    /// How many changes are measured.
    #[arg(long, default_value_t = 500)]
    changes: usize,
    /// Within how many milliseconds each has to be live.
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    within: u64,
    #[command(flatten)]
    program: ProgramArguments,
}

/// Runs it; a change that takes too long is a failure, and leaves all logs where they are.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = workspace::target_dir()?;
    let convoy = arguments.program.program(&target)?;
    let folder = target.join("isolation").join(std::process::id().to_string());
    println!(
        "{} Releases, {} of them never healthy, {} do not render; {} targets are well, one never answers{}; logs in {}",
        arguments.releases,
        arguments.unhealthy,
        arguments.poisoned,
        arguments.clusters,
        if arguments.flapping { ", one comes and goes" } else { "" },
        folder.display()
    );
    let options = Options {
        convoy,
        folder: folder.clone(),
        clusters: arguments.clusters,
        releases: arguments.releases,
        unhealthy: arguments.unhealthy,
        poisoned: arguments.poisoned,
        has_silent: true,
        has_flapping: arguments.flapping,
        changes: arguments.changes,
        patience: Duration::from_secs(120),
    };
    let report = measure(&options, &mut |line| {
        println!("{line}");
        let _ = std::io::stdout().flush();
    })?;
    println!("{}, while {} changes were made of what is in trouble", show(&report.times), report.troubles);
    let [before, after] = report.memory.map(|bytes| bytes >> 20);
    println!("memory of the controller-manager: {before} MiB before, {after} MiB after");
    let (worst, bound) = (report.times.percentile(100), Duration::from_millis(arguments.within));
    ensure!(
        worst <= bound,
        "one change took {:.2} s, more than {:.2} s",
        worst.as_secs_f64(),
        bound.as_secs_f64()
    );
    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}
