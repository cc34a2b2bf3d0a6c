//! `convoy shards`: who owns which shard, as an outside reader sees it.

mod print;
mod read;
mod view;

use std::process::ExitCode;

use anyhow::Context as _;
use convoy_runtime::Clock;
use convoy_shard::{Lease, ProcessKind};

use crate::arguments;
use crate::terminal::Display;
use crate::told::told;

/// The exit code when the command was used wrongly, the API server did not answer, or there are no leases.
const NOT_KNOWN: u8 = 2;

/// Prints the shards, and answers with 0 when each has a live owner, else with 1.
pub(crate) async fn run(arguments: &arguments::ShardsCommand, clock: &dyn Clock) -> ExitCode {
    match show(arguments, clock).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("convoy: {}", told(&error));
            ExitCode::from(NOT_KNOWN)
        }
    }
}

async fn show(arguments: &arguments::ShardsCommand, clock: &dyn Clock) -> anyhow::Result<bool> {
    let kinds = match arguments.process {
        Some(arguments::ShardedProcess::ControllerManager) => vec![ProcessKind::ControllerManager],
        Some(arguments::ShardedProcess::Observer) => vec![ProcessKind::Observer],
        None => vec![ProcessKind::ControllerManager, ProcessKind::Observer],
    };
    let source = read::Source::connect(arguments).await?;
    let objects = source.objects().await?;
    let counted = source.counted().await?;
    let found = source.leases().await?;
    // After the answers, so that what is printed as left is not more than it was.
    let now = std::time::Duration::try_from(clock.now().duration_since(jiff::Timestamp::UNIX_EPOCH))
        .context("the clock of this machine stands before 1970")?;
    let leases: Vec<(ProcessKind, Vec<Lease>)> =
        kinds.into_iter().map(|process| (process, read::leases_of(process, &found))).collect();
    if leases.iter().all(|(_, leases)| leases.is_empty()) {
        return Err(source.why_no_leases(&leases).await);
    }
    let views: Vec<view::View> = leases
        .into_iter()
        .map(|(process, leases)| view::View::new(process, &leases, &objects, counted, now))
        .collect();
    print!("{}", print::render(&views, arguments.output, Display::detect())?);
    for warning in views.iter().flat_map(|view| &view.warnings) {
        eprintln!("warning: {warning}");
    }
    Ok(views.iter().all(view::View::is_owned))
}
