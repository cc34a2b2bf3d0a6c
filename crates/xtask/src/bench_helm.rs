//! `cargo xtask bench helm DIR`: helm and convoy on the same charts, in one go. The program is an example of convoy-helm, built for
//! release.

use std::path::PathBuf;

use anyhow::Context;

use crate::{helm_example, kubernetes, workspace};

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Below it are podinfo, ingress-nginx, cert-manager and kube-prometheus-stack with their dependencies.
    folder: PathBuf,
    /// The convoy to measure. Default: one that is built for release first.
    #[arg(long)]
    convoy: Option<PathBuf>,
    /// How often each is run.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
}

/// Builds what is missing, runs it, and answers with whether the budgets are kept.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    kubernetes::build_named(&["helm"])?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let convoy = match &arguments.convoy {
        Some(convoy) => std::path::absolute(convoy)?,
        None => {
            let mut build = workspace::program(&cargo);
            build.args(["build", "--quiet", "--release", "--package", "convoy"]);
            let status = build.current_dir(workspace::root()).status().context("could not run cargo")?;
            anyhow::ensure!(status.success(), "convoy does not build");
            workspace::target_dir()?.join("release").join("convoy")
        }
    };
    let mut command = helm_example::command("bench_helm");
    command.arg(kubernetes::bin_dir()?.join("helm")).arg(convoy);
    command.arg(std::path::absolute(&arguments.folder)?).arg(arguments.rounds.to_string());
    let status = command.status().context("could not run cargo")?;
    Ok(status.success())
}
