//! Rounds of faults on real processes, and what has to hold in each: every shard owned again in time, no two
//! writers of one cluster, every Release at its last revision afterwards, and then no more writes.

mod asking;
mod evidence;
mod fault;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;

use self::asking::Asking;
pub use self::evidence::Evidence;
pub use self::fault::Fault;
use self::fault::Hit;
use crate::fleet::{Fleet, FleetOptions, Part, Timing, wait};
use crate::load::{Load, Pace};

/// The looks at the leases see a takeover this much after it at most.
const LOOK_ALLOWANCE: Duration = Duration::from_millis(500);
/// A planned stop with `--release-member-on-exit` hands over within this time.
const PLANNED: Duration = Duration::from_secs(2);

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The convoy program.
    pub convoy: PathBuf,
    /// Another one, that every second replica of a part is: one of another version, say.
    pub beside: Option<PathBuf>,
    /// An empty folder for everything.
    pub folder: PathBuf,
    /// Rounds of each fault.
    pub rounds: usize,
    /// Which faults.
    pub faults: Vec<Fault>,
    /// The lease flags.
    pub timing: Timing,
    /// Give the replicas `--release-member-on-exit`.
    pub release_member_on_exit: bool,
    /// How many target clusters.
    pub clusters: u16,
    /// How many Releases.
    pub releases: usize,
    /// How fast they change.
    pub pace: Pace,
    /// Ask for the subresources of all Releases all the while, of an API server that asks their owners.
    pub is_asking: bool,
    /// More flags for the replicas.
    pub flags: Vec<String>,
    /// Chooses who is hit, and when.
    pub seed: u64,
    /// How long no target may be written to at the end of a round.
    pub quiet: Duration,
    /// The shortest and the longest time that a process is stopped for.
    pub stops: (Duration, Duration),
}

impl Options {
    /// The real thing: default lease flags, 20 rounds of each fault, processes stopped for 5 to 60 s.
    pub fn new(convoy: PathBuf, folder: PathBuf) -> Self {
        Self {
            convoy,
            beside: None,
            folder,
            rounds: 20,
            faults: Fault::ALL.to_vec(),
            timing: Timing::DEFAULT,
            release_member_on_exit: false,
            clusters: 8,
            releases: 24,
            pace: Pace { pause: Duration::from_millis(200), changes_for_a_commit: 100, git_interval: 5 },
            is_asking: false,
            flags: Vec::new(),
            seed: 1,
            quiet: Duration::from_secs(5),
            stops: (Duration::from_secs(5), Duration::from_secs(60)),
        }
    }

    /// The same in small, with short lease times, for each run of all tests.
    pub fn short(convoy: PathBuf, folder: PathBuf) -> Self {
        Self {
            rounds: 2,
            timing: Timing::SHORT,
            clusters: 4,
            releases: 8,
            pace: Pace { pause: Duration::from_millis(100), changes_for_a_commit: 20, git_interval: 1 },
            quiet: Duration::from_secs(1),
            stops: (Duration::from_secs(1), Duration::from_secs(5)),
            ..Self::new(convoy, folder)
        }
    }
}

/// What one round showed.
#[derive(Debug, Clone)]
pub struct Round {
    /// What was done.
    pub fault: Fault,
    /// Which round of this fault, from 1.
    pub number: usize,
    /// To whom.
    pub what: String,
    /// From the fault until the last shard of the replica that it hit was owned again, one for each replica.
    pub takeovers: Vec<Duration>,
    /// From the fault until the last of the hit controller-manager's clusters was written to by its new owner.
    pub first_write: Option<Duration>,
    /// The longest time between two renewals of one shard.
    pub longest_gap: Duration,
    /// Pairs of replicas that wrote to one cluster at once, and writes without the lease.
    pub overlaps: usize,
    /// Releases that were not as they should be at the end.
    pub late: usize,
    /// Writes to targets while nothing changed.
    pub writes_after: usize,
    /// Questions about Releases that were answered.
    pub answers: usize,
    /// Questions that were not answered, since the Release had no owner.
    pub refusals: usize,
    /// All that should not be.
    pub violations: Vec<String>,
}

/// Everything of a run.
pub(crate) struct Run {
    options: Options,
    fleet: Fleet,
    load: Load,
    evidence: Evidence,
    asking: Option<Asking>,
    /// Those of this round.
    hits: Vec<Hit>,
    random: Random,
    names: u32,
}

/// Runs all rounds. `tell` gets each as it ends; rounds go on after a violation.
///
/// # Errors
/// When the processes cannot be started or do not answer any more.
pub fn run(options: Options, tell: &mut dyn FnMut(&Round)) -> anyhow::Result<Vec<Round>> {
    let mut run = Run::start(options)?;
    let mut rounds = Vec::new();
    for fault in run.options.faults.clone() {
        for number in 1..=run.options.rounds {
            let round = run.round(fault, number)?;
            tell(&round);
            rounds.push(round);
        }
    }
    Ok(rounds)
}

impl Run {
    fn start(options: Options) -> anyhow::Result<Self> {
        let mut flags = options.flags.clone();
        if options.release_member_on_exit {
            flags.push("--release-member-on-exit".to_owned());
        }
        let start = if options.is_asking { Fleet::start_answering } else { Fleet::start };
        let mut fleet = start(FleetOptions {
            convoy: options.convoy.clone(),
            beside: options.beside.clone(),
            folder: options.folder.clone(),
            clusters: options.clusters,
            timing: options.timing,
            flags,
        })?;
        fleet.create_clusters()?;
        for number in 0..3 {
            for part in Part::ALL {
                fleet.add(part, &format!("{}-{number}", short(part)))?;
            }
        }
        let load = Load::start(&fleet, options.releases, options.pace)?;
        let evidence = Evidence::of(fleet.folder());
        let random = Random(options.seed | 1);
        let asking = options.is_asking.then(|| Asking::start(&fleet)).transpose()?;
        Ok(Self { options, fleet, load, evidence, asking, hits: Vec::new(), random, names: 2 })
    }

    fn round(&mut self, fault: Fault, number: usize) -> anyhow::Result<Round> {
        let mut round = Round {
            fault,
            number,
            what: String::new(),
            takeovers: Vec::new(),
            first_write: None,
            longest_gap: Duration::ZERO,
            overlaps: 0,
            late: 0,
            writes_after: 0,
            answers: 0,
            refusals: 0,
            violations: Vec::new(),
        };
        // A new lease is acted on only after one duration; then the shares have to be found.
        let patience = self.fleet.timing().bound() * 2 + Duration::from_secs(15);
        self.fleet.await_balance(patience).context("before the round")?;
        let began = Timestamp::now();
        self.hits.clear();
        self.load.resume();
        // The fault comes at another moment of the renew interval each time.
        let share = self.random.below(1000);
        let moment = self.options.timing.interval * share / 1000;
        self.await_moment(moment);
        self.carry_out(fault, &mut round)?;
        if let Err(error) = self.fleet.await_balance(patience) {
            round.violations.push(format!("{error:#}"));
        }
        self.settle(&mut round)?;
        self.evidence.judge(&self.fleet, began, &mut round)?;
        if let Some(asking) = &self.asking {
            asking.judge(&self.fleet, &self.hits, &mut round);
        }
        Ok(round)
    }

    /// Lets the load work for about so long.
    fn await_moment(&self, moment: Duration) {
        wait(moment, || None::<()>);
    }

    /// Pauses the load, waits until every Release is at its last revision, and then counts writes.
    fn settle(&mut self, round: &mut Round) -> anyhow::Result<()> {
        let changes = self.load.changes();
        wait(Duration::from_secs(120), || (self.load.changes() > changes + 5).then_some(()))
            .context("the load does not go on")?;
        if let Err(error) = self.load.pause() {
            round.violations.push(format!("{error:#}"));
        }
        let mut late = Vec::new();
        let mut failed = None;
        wait(Duration::from_secs(90), || match self.load.late(&self.fleet) {
            Ok(found) => {
                late = found;
                late.is_empty().then_some(())
            }
            Err(error) => {
                failed = Some(error);
                Some(())
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        round.late = late.len();
        round.violations.extend(late);
        let quiet_from = Timestamp::now();
        wait(self.options.quiet, || None::<()>);
        self.evidence.read()?;
        round.writes_after = self.evidence.target_writes_since(quiet_from);
        if round.writes_after > 0 {
            round.violations.push(format!("{} writes to targets while nothing changed", round.writes_after));
        }
        Ok(())
    }
}

fn short(part: Part) -> &'static str {
    match part {
        Part::ControllerManager => "cm",
        Part::Observer => "obs",
    }
}

/// Numbers from a seed (xorshift).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 11) % u64::from(bound.max(1))).unwrap_or(0)
    }
}
