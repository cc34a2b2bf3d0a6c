//! Repository chores: `cargo xtask <command>`. One module per command.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]

mod kubernetes;
mod workspace;

use clap::{Parser, Subcommand};

/// Repository chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build etcd, kube-apiserver, kube-controller-manager, kubectl, kwok and helm from their Go modules.
    Kubernetes(kubernetes::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Kubernetes(arguments) => kubernetes::run(&arguments),
    }
}
