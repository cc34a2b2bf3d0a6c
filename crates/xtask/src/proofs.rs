//! Chores that run real programs. They are a program of convoy-e2e, which cargo builds only when one is asked for.

use anyhow::Context;

use crate::workspace;

/// Passed on as they are; `--help` too.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and runs the program with a command, and answers with whether it succeeded; it says why not itself.
pub(crate) fn run(command: &str, arguments: &Arguments) -> anyhow::Result<bool> {
    let status = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"))
        .args(["run", "--quiet", "--package", "convoy-e2e", "--bin", "convoy-proofs", "--", command])
        .args(&arguments.arguments)
        .current_dir(workspace::root())
        .status()
        .context("could not run cargo")?;
    Ok(status.success())
}
