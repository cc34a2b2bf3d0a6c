//! Repository chores: `cargo xtask <command>`. One module per command.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]

mod cache_memory;
mod dead_clusters;
mod ha_rounds;
mod kubernetes;
mod protobuf;
mod schemas;
mod sim;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

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
    /// Compare the memory of controller-managers with whole and with shard-scoped caches.
    CacheMemory(cache_memory::Arguments),
    /// Measure what targets that do not answer cost the Releases of the others.
    DeadClusters(dead_clusters::Arguments),
    /// Do harm to replicas that run as processes, and check that each shard has one owner, and soon.
    HaRounds(ha_rounds::Arguments),
    /// Build etcd, kube-apiserver, kube-controller-manager, kubectl, kwok and helm from their Go modules.
    Kubernetes(kubernetes::Arguments),
    /// Write the table of Kubernetes' protobuf messages from its Go modules.
    Protobuf(protobuf::Arguments),
    /// Write the catalogue of built-in kinds from a running kube-apiserver.
    Schemas(schemas::Arguments),
    /// Run the deterministic simulation of replicas and faults.
    Sim(sim::Arguments),
    /// Check format, lints, layering and licences, then run all tests.
    Test(test::Arguments),
    /// Check the repository's shape: crate arrows, orphan modules, long files, docs of pure crates.
    Tidy,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::CacheMemory(arguments) => cache_memory::run(&arguments),
        Command::DeadClusters(arguments) => dead_clusters::run(&arguments),
        Command::HaRounds(arguments) => ha_rounds::run(&arguments),
        Command::Kubernetes(arguments) => kubernetes::run(&arguments),
        Command::Protobuf(arguments) => protobuf::run(&arguments),
        Command::Schemas(arguments) => schemas::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Tidy => tidy::run(),
    }
}
