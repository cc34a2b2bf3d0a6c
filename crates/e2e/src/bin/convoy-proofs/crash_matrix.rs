//! `cargo xtask crash-matrix`: a delivery is interrupted at each of its writes, in each way.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use convoy_e2e::crash::matrix::{STAGES, cells, sample};
use convoy_e2e::crash::world::{Cell, World};

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run only so many cells, spread over all.
    #[arg(long, value_name = "N")]
    cells: Option<usize>,
    /// How many objects the Releases have.
    #[arg(long, value_delimiter = ',', default_value = "1,3,50,1000")]
    sizes: Vec<usize>,
    /// Kill real processes, and deliver to a real kube-apiserver instead of a simulated target.
    #[arg(long)]
    real: bool,
    /// Begin with the cell of this number, of those that are chosen.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: usize,
    /// Print each cell.
    #[arg(long)]
    verbose: bool,
}

/// What was found of one fault.
#[derive(Debug, Default)]
struct Row {
    cells: usize,
    met: usize,
    failed: usize,
    longest: Duration,
}

/// Counts the writes of undisturbed deliveries, then spoils them one by one.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(go(arguments))
}

async fn go(arguments: &Arguments) -> anyhow::Result<()> {
    let start = || World::start(&arguments.sizes, arguments.real);
    let mut world = start().await?;
    let mut all = Vec::new();
    for &size in &arguments.sizes {
        for &stage in STAGES {
            let undisturbed = Cell { size, stage, at: 0, fault: None, is_shared: false, is_overtaken: false };
            let outcome = world.run(undisturbed).await;
            let outcome = outcome.with_context(|| format!("{size} objects, undisturbed"))?;
            let of_stage = cells(size, stage, &outcome.writes);
            println!("{size} objects, {stage:?}: {} writes, {} cells", outcome.writes.len(), of_stage.len());
            all.extend(of_stage);
        }
    }
    let chosen = sample(all, arguments.cells.unwrap_or(usize::MAX));
    println!("{} cells", chosen.len());
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (number, cell) in chosen.iter().enumerate().skip(arguments.from) {
        let Some(fault) = cell.fault else { continue };
        let row = rows.entry(format!("{fault:?}")).or_default();
        row.cells += 1;
        match world.run(*cell).await {
            Ok(outcome) => {
                row.met += usize::from(outcome.is_met);
                row.longest = row.longest.max(outcome.waited);
                if arguments.verbose {
                    println!("{number}: {cell:?}: held, met {}, waited {:?}", outcome.is_met, outcome.waited);
                }
            }
            Err(error) => {
                row.failed += 1;
                println!("{number}: {cell:?}: {error:#}");
                // The next cell begins anew.
                world = start().await?;
            }
        }
    }
    println!("\n| fault | cells | met | failed | longest wait |\n|---|---|---|---|---|");
    for (fault, row) in &rows {
        println!("| {fault} | {} | {} | {} | {:?} |", row.cells, row.met, row.failed, row.longest);
    }
    let failed: usize = rows.values().map(|row| row.failed).sum();
    ensure!(failed == 0, "{failed} of {} cells failed", chosen.len());
    println!("no orphan, no wrong deletion, nothing made twice, no write at rest");
    Ok(())
}
