//! `cargo xtask helm-diff DIR`: charts rendered by the real helm and by convoy-helm, compared byte for byte. The
//! program that compares is an example of convoy-helm, which cargo builds only when it is asked for.

use std::path::PathBuf;

use anyhow::Context;

use crate::{helm_example, kubernetes};

/// What to compare.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Every folder below it that has a Chart.yaml is a chart.
    folder: PathBuf,
    /// How many charts to render at a time, each beside a helm of its own.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Take so many of the charts, evenly spread.
    #[arg(long)]
    charts: Option<usize>,
    /// Take the charts whose path contains this; may be given several times.
    #[arg(long)]
    only: Vec<String>,
    /// What to render them with: nothing, their own ci/*-values.yaml, each boolean flipped, each key null, an upgrade.
    #[arg(long, value_delimiter = ',', default_values = ["default", "ci", "booleans", "nulls", "upgrade"])]
    variants: Vec<String>,
    /// At most so many booleans and so many nulls for each chart, evenly spread; without it, all.
    #[arg(long)]
    per_chart: Option<usize>,
    /// The version of Helm: 3 or 4. Version 3 is started anew for each render, which takes several times as long.
    #[arg(long, default_value = "4", value_parser = ["3", "4"])]
    helm_version: String,
    /// Show lines and errors that differ whole.
    #[arg(long)]
    verbose: bool,
}

/// Builds helm and the program, runs it, and answers with whether all outputs are equal.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let program = if arguments.helm_version == "3" { "helm3" } else { "helm-resident" };
    kubernetes::build_named(&[program])?;
    let mut command = helm_example::command("helm_diff");
    command.arg(format!("--helm={}", kubernetes::bin_dir()?.join(program).display()));
    command.arg(format!("--helm-version={}", arguments.helm_version));
    command.arg(format!("--jobs={}", arguments.jobs));
    command.arg(format!("--variants={}", arguments.variants.join(",")));
    for (flag, value) in [("--charts", arguments.charts), ("--per-chart", arguments.per_chart)] {
        command.args(value.map(|value| format!("{flag}={value}")));
    }
    command.args(arguments.only.iter().map(|only| format!("--only={only}")));
    if arguments.verbose {
        command.arg("--verbose");
    }
    let folder = std::path::absolute(&arguments.folder)?;
    let status = command.arg(folder).status().context("could not run cargo")?;
    Ok(status.success())
}
