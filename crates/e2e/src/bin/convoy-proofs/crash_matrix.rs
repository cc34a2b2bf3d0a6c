//! `cargo xtask crash-matrix`: a delivery is interrupted at each of its steps, in each way.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use convoy_e2e::crash::matrix::{STAGES, cells, sample};
use convoy_e2e::crash::world::{Cell, Made, Outcome, World};

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run only so many cells, spread over all.
    #[arg(long, value_name = "N")]
    cells: Option<usize>,
    /// How many objects the Releases have.
    #[arg(long, value_delimiter = ',', default_value = "1,3,50,1000")]
    sizes: Vec<usize>,
    /// Run each cell so many times, with the fault a little later and for more or fewer requests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// How many cells are run at a time: they mostly wait.
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_a_time: usize,
    /// Kill real processes, and deliver to a real kube-apiserver instead of a simulated target.
    #[arg(long, conflicts_with = "inside")]
    real: bool,
    /// All in one thread, without sockets and Git, on a clock that goes on as soon as nobody has anything to do.
    #[arg(long)]
    inside: bool,
    /// Begin with the cell of this number, of those that are chosen.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: usize,
    /// Print each cell.
    #[arg(long)]
    verbose: bool,
}

/// What was found of one fault, or of one kind of step.
#[derive(Debug, Default)]
struct Row {
    cells: usize,
    met: usize,
    failed: usize,
    longest: Duration,
}

/// After how many cells it is told how it goes.
const TOLD_EVERY: usize = 20;

/// A cell with its number and the kind of its step.
type Numbered = (usize, String, Cell);

#[derive(Debug, Default)]
struct Found {
    faults: BTreeMap<String, Row>,
    kinds: BTreeMap<String, Row>,
}

impl Found {
    /// Counts a cell; answers now and then with how it goes.
    fn note(&mut self, kind: &str, cell: &Cell, outcome: Option<&Outcome>) -> Option<String> {
        let fault = cell.fault.map(|fault| format!("{fault:?}")).unwrap_or_default();
        for row in [self.faults.entry(fault).or_default(), self.kinds.entry(kind.to_owned()).or_default()] {
            row.cells += 1;
            row.failed += usize::from(outcome.is_none());
            row.met += usize::from(outcome.is_some_and(|outcome| outcome.is_met));
            row.longest = row.longest.max(outcome.map(|outcome| outcome.waited).unwrap_or_default());
        }
        let sum = |of: fn(&Row) -> usize| self.faults.values().map(of).sum::<usize>();
        let (cells, met, failed) = (sum(|row| row.cells), sum(|row| row.met), sum(|row| row.failed));
        cells.is_multiple_of(TOLD_EVERY).then(|| format!("{cells} cells: {met} met, {failed} failed"))
    }
}

/// What all that run cells share.
#[derive(Clone)]
struct Shared {
    sizes: Vec<usize>,
    made: Made,
    verbose: bool,
    left: Arc<Mutex<VecDeque<Numbered>>>,
    found: Arc<Mutex<Found>>,
}

/// Counts the steps of undisturbed deliveries, then spoils them one by one.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let made = match (arguments.real, arguments.inside) {
        (true, _) => Made::OfProcesses,
        (_, true) => Made::Inside,
        _ => Made::OfServers,
    };
    let all = made.runtime()?.block_on(count(arguments, made))?;
    let chosen = sample(all, arguments.cells.unwrap_or(usize::MAX));
    let count = chosen.len();
    say(&format!("{count} cells"));
    let numbered = chosen.into_iter().enumerate().map(|(number, (kind, cell))| (number, kind, cell));
    let shared = Shared {
        sizes: arguments.sizes.clone(),
        made,
        verbose: arguments.verbose,
        left: Arc::new(Mutex::new(numbered.skip(arguments.from).collect())),
        found: Arc::default(),
    };
    let runs: Vec<_> = (0..arguments.at_a_time.max(1))
        .map(|_| {
            let shared = shared.clone();
            std::thread::spawn(move || made.runtime()?.block_on(work(&shared)))
        })
        .collect();
    for run in runs {
        run.join().map_err(|_| anyhow!("a run broke down"))??;
    }
    let found = lock(&shared.found);
    show("fault", &found.faults);
    show("step", &found.kinds);
    let failed: usize = found.faults.values().map(|row| row.failed).sum();
    ensure!(failed == 0, "{failed} of {count} cells failed");
    println!("no orphan, no wrong deletion, nothing made twice, no write at rest");
    Ok(())
}

/// All cells with the kinds of their steps.
async fn count(arguments: &Arguments, made: Made) -> anyhow::Result<Vec<(String, Cell)>> {
    let mut world = World::start(&arguments.sizes, made).await?;
    let mut all = Vec::new();
    for &size in &arguments.sizes {
        for &stage in STAGES {
            let outcome = world.run(Cell::undisturbed(size, stage)).await;
            let outcome = outcome.with_context(|| format!("{size} objects, undisturbed"))?;
            let of_stage = cells(size, stage, &outcome.steps, arguments.seeds);
            let (steps, count) = (outcome.steps.len(), of_stage.len());
            say(&format!("{size} objects, {stage:?}: {steps} steps, {count} cells"));
            let kind = |cell: &Cell| outcome.steps.get(cell.at).map(convoy_e2e::crash::script::Step::kind);
            all.extend(of_stage.into_iter().map(|cell| (kind(&cell).unwrap_or_default(), cell)));
        }
    }
    Ok(all)
}

async fn work(shared: &Shared) -> anyhow::Result<()> {
    let mut world = World::start(&shared.sizes, shared.made).await?;
    loop {
        let next = lock(&shared.left).pop_front();
        let Some((number, kind, cell)) = next else { return Ok(()) };
        let outcome = world.run(cell).await;
        if let Some(so_far) = lock(&shared.found).note(&kind, &cell, outcome.as_ref().ok()) {
            say(&so_far);
        }
        match outcome {
            Ok(Outcome { is_met, waited, .. }) if shared.verbose => {
                say(&format!("{number}: {kind}: {cell:?}: held, met {is_met}, waited {waited:?}"));
            }
            Ok(_) => {}
            Err(error) => {
                say(&format!("{number}: {kind}: {cell:?}: {error:#}\n{}", world.last_words()));
                // The next cell begins anew.
                world = World::start(&shared.sizes, shared.made).await?;
            }
        }
    }
}

fn show(what: &str, rows: &BTreeMap<String, Row>) {
    println!("\n| {what} | cells | met | failed | longest wait |\n|---|---|---|---|---|");
    for (name, row) in rows {
        println!("| {name} | {} | {} | {} | {:?} |", row.cells, row.met, row.failed, row.longest);
    }
}

/// A run takes long: what was seen is shown at once, also through a pipe.
fn say(line: &str) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
