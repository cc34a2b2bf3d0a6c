//! `cargo xtask hostile-charts`: charts that want to hurt, rendered until a limit ends them. The program is an example of
//! convoy-helm, built for release: it measures time and the memory of its own process.

use anyhow::Context;

use crate::helm_example;

/// What to render.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many renders.
    #[arg(long, default_value_t = 1_000)]
    renders: usize,
    /// Only the charts whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

/// Builds the program, runs it, and answers with whether each render ended as it has to.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let mut command = helm_example::command("hostile_charts");
    command.arg(arguments.renders.to_string()).args(&arguments.only);
    let status = command.status().context("could not run cargo")?;
    Ok(status.success())
}
