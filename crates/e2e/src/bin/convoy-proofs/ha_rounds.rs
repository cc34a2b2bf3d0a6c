//! `cargo xtask ha-rounds`: three controller-managers and three observers as processes, under a load of
//! changing Releases; faults, round by round; and what the leases and the audit logs say of each.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use convoy_e2e::fleet::Timing;
use convoy_e2e::load::Pace;
use convoy_e2e::rounds::{self, Fault, Options, Round};

use crate::workspace;

/// How many violations of a round are printed.
const SHOWN: usize = 12;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds of each fault.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Which faults, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Name::Kill, Name::Stop, Name::Term, Name::Rolling])]
    faults: Vec<Name>,
    /// Short lease times, a small load and two rounds of each fault.
    #[arg(long)]
    short: bool,
    /// Give the replicas this flag: then a planned stop has to hand over within two seconds.
    #[arg(long)]
    release_member_on_exit: bool,
    /// `--lease-duration` of the replicas, in seconds.
    #[arg(long, value_name = "SECONDS")]
    lease_duration: Option<u64>,
    /// `--lease-renew-interval` of the replicas, in milliseconds.
    #[arg(long, value_name = "MS")]
    lease_renew_interval: Option<u64>,
    /// `--lease-observe-interval` of the replicas, in milliseconds.
    #[arg(long, value_name = "MS")]
    lease_observe_interval: Option<u64>,
    /// Ask for preview, diff, health and history of all Releases all the while, of an API server with
    /// --observer-routing=owner: each has to be answered, or refused with the time to ask again while there is no owner.
    #[arg(long)]
    ask: bool,
    /// Another flag for all replicas, for example --flag=--shard-scoped-cache.
    #[arg(long = "flag", value_name = "FLAG", allow_hyphen_values = true)]
    flags: Vec<String>,
    /// How many target clusters.
    #[arg(long)]
    clusters: Option<u16>,
    /// How many Releases.
    #[arg(long)]
    releases: Option<usize>,
    /// The pause between two changes of the load, in milliseconds.
    #[arg(long, value_name = "MS")]
    pause: Option<u64>,
    /// Chooses who is hit, and when.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let every second replica of each part be this program, for example convoy of another version. The API server is the
    /// other one.
    #[arg(long, value_name = "FILE")]
    beside: Option<PathBuf>,
    #[command(flatten)]
    program: ProgramArguments,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Name {
    Kill,
    Stop,
    Term,
    Rolling,
}

impl From<Name> for Fault {
    fn from(name: Name) -> Self {
        match name {
            Name::Kill => Self::Kill,
            Name::Stop => Self::Stop,
            Name::Term => Self::Term,
            Name::Rolling => Self::Rolling,
        }
    }
}

/// Runs the rounds; a violation of what has to hold is a failure, and leaves all logs where they are.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = workspace::target_dir()?;
    let convoy = arguments.program.program(&target)?;
    let folder = target.join("ha-rounds").join(std::process::id().to_string());
    let options = options(arguments, convoy, folder.clone());
    let faults: Vec<&str> = options.faults.iter().map(|fault| fault.as_str()).collect();
    println!(
        "{} rounds of each of {}: lease duration {} s, renew interval {:.1} s, seed {}, logs in {}",
        options.rounds,
        faults.join(", "),
        options.timing.duration.as_secs(),
        options.timing.interval.as_secs_f64(),
        options.seed,
        folder.display()
    );
    let rounds = rounds::run(options, &mut show)?;
    summary(&rounds);
    let violations: usize = rounds.iter().map(|round| round.violations.len()).sum();
    ensure!(violations == 0, "{violations} violation(s); the logs are in {}", folder.display());
    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}

/// The convoy program that a proof runs.
#[derive(Debug, clap::Args)]
pub(crate) struct ProgramArguments {
    /// The convoy program. Default: built for this.
    #[arg(long, value_name = "FILE")]
    convoy: Option<PathBuf>,
    /// Build it with optimisation.
    #[arg(long)]
    release: bool,
}

impl ProgramArguments {
    /// The one that was named, else the one that is built now.
    pub(crate) fn program(&self, target: &Path) -> anyhow::Result<PathBuf> {
        self.convoy.clone().map_or_else(|| build(target, self.release), Ok)
    }
}

fn build(target: &Path, is_optimised: bool) -> anyhow::Result<PathBuf> {
    let mut command = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"));
    command.args(["build", "--quiet", "--package", "convoy", "--bins"]).current_dir(workspace::root());
    if is_optimised {
        command.arg("--release");
    }
    ensure!(command.status().context("running cargo build")?.success(), "convoy does not build");
    Ok(target.join(if is_optimised { "release" } else { "debug" }).join("convoy"))
}

fn options(arguments: &Arguments, convoy: PathBuf, folder: PathBuf) -> Options {
    let mut options = if arguments.short {
        Options::short(convoy, folder)
    } else {
        Options { rounds: arguments.rounds, ..Options::new(convoy, folder) }
    };
    options.faults = arguments.faults.iter().copied().map(Fault::from).collect();
    options.release_member_on_exit = arguments.release_member_on_exit;
    options.is_asking = arguments.ask;
    options.flags.clone_from(&arguments.flags);
    options.seed = arguments.seed;
    options.beside.clone_from(&arguments.beside);
    options.clusters = arguments.clusters.unwrap_or(options.clusters);
    options.releases = arguments.releases.unwrap_or(options.releases);
    let Timing { duration, interval, observe } = options.timing;
    let millis = |given: Option<u64>| given.map(Duration::from_millis);
    options.timing = Timing {
        duration: arguments.lease_duration.map_or(duration, Duration::from_secs),
        interval: millis(arguments.lease_renew_interval).unwrap_or(interval),
        observe: millis(arguments.lease_observe_interval).or(observe),
    };
    options.pace = Pace { pause: millis(arguments.pause).unwrap_or(options.pace.pause), ..options.pace };
    options
}

fn show(round: &Round) {
    let takeovers: Vec<String> = round.takeovers.iter().map(|time| seconds(*time)).collect();
    println!(
        "{:<7} {:>3}  {}: owned again after {} s, written to after {} s, {} overlaps, {} late, {} writes afterwards{}{}",
        round.fault.as_str(),
        round.number,
        round.what,
        takeovers.join("/"),
        round.first_write.map_or("-".to_owned(), seconds),
        round.overlaps,
        round.late,
        round.writes_after,
        match round.answers {
            0 => String::new(),
            answers => format!(", {answers} answers and {} refusals", round.refusals),
        },
        if round.violations.is_empty() { "" } else { "  VIOLATIONS" },
    );
    for violation in round.violations.iter().take(SHOWN) {
        println!("        {violation}");
    }
    if let Some(more) = round.violations.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        println!("        and {more} more");
    }
    // A run takes long: what was seen is shown at once, also through a pipe.
    let _ = std::io::stdout().flush();
}

fn summary(rounds: &[Round]) {
    println!(
        "\n| fault | rounds | takeover p50 (s) | worst (s) | first write worst (s) | longest gap (s) | overlaps | late Releases | writes afterwards |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for fault in Fault::ALL {
        let of: Vec<&Round> = rounds.iter().filter(|round| round.fault == fault).collect();
        if of.is_empty() {
            continue;
        }
        let mut takeovers: Vec<Duration> = of.iter().flat_map(|round| round.takeovers.clone()).collect();
        takeovers.sort_unstable();
        let median = takeovers.get(takeovers.len() / 2).copied().unwrap_or_default();
        let worst = takeovers.last().copied().unwrap_or_default();
        let first = of.iter().filter_map(|round| round.first_write).max();
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            fault.as_str(),
            of.len(),
            seconds(median),
            seconds(worst),
            first.map_or("-".to_owned(), seconds),
            seconds(of.iter().map(|round| round.longest_gap).max().unwrap_or_default()),
            of.iter().map(|round| round.overlaps).sum::<usize>(),
            of.iter().map(|round| round.late).sum::<usize>(),
            of.iter().map(|round| round.writes_after).sum::<usize>(),
        );
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}
