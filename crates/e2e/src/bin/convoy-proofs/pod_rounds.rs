//! `cargo xtask pod-rounds`: an overlay on a real kube-apiserver, each of its pods killed in turn, and the host's own parts
//! restarted.

use std::io::Write as _;
use std::time::Duration;

use anyhow::ensure;
use convoy_e2e::deployment::{Installed, Workload, rounds};

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which overlay of deploy/.
    #[arg(long, default_value = "multi-replica")]
    overlay: String,
    /// How many target clusters.
    #[arg(long, default_value_t = 3)]
    clusters: u16,
    /// How many Releases.
    #[arg(long, default_value_t = 30)]
    releases: usize,
    /// Within how many seconds the shards of a pod that was killed have to be owned again.
    #[arg(long, value_name = "SECONDS", default_value_t = 40)]
    within: u64,
}

/// Runs it. A takeover that takes too long is a failure, and so is anything that a pod was not allowed to do.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut installed = Installed::start().map_err(anyhow::Error::msg)?;
    installed.install(&arguments.overlay);
    let workload = Workload::start(&installed, arguments.clusters, arguments.releases);
    let mut takeovers = Vec::new();
    rounds::run(&mut installed, &workload, &mut |round| {
        takeovers.extend(round.takeover);
        let takeover =
            round.takeover.map_or("-".to_owned(), |takeover| format!("{:.1} s", takeover.as_secs_f64()));
        println!(
            "{}: {} shards, owned again after {takeover}; a change delivered after {:.1} s",
            round.what,
            round.shards,
            round.delivered.as_secs_f64()
        );
        let _ = std::io::stdout().flush();
    });
    let forbidden = installed.forbidden();
    ensure!(forbidden.is_empty(), "not allowed: {}", forbidden.join("\n"));
    let worst = takeovers.iter().max().copied().unwrap_or_default();
    // The looks see a takeover a little later.
    let bound = Duration::from_secs(arguments.within) + Duration::from_millis(500);
    ensure!(worst <= bound, "a takeover took {:.1} s", worst.as_secs_f64());
    println!("{} takeovers, the worst {:.1} s; nothing was forbidden", takeovers.len(), worst.as_secs_f64());
    Ok(())
}
