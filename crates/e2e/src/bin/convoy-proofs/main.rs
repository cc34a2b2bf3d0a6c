//! The chores of `cargo xtask` that run real programs, beside the library that runs them: whoever only tidies does
//! not compile these.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]

mod cache_memory;
mod crash_matrix;
mod dead_clusters;
mod ha_rounds;
mod isolation;
mod pod_rounds;
mod schemas;
#[path = "../../../../xtask/src/workspace.rs"]
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores that run real programs.
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
    /// Interrupt deliveries at each of their steps, in each way, and check what comes of it.
    CrashMatrix(crash_matrix::Arguments),
    /// Measure what targets that do not answer cost the Releases of the others.
    DeadClusters(dead_clusters::Arguments),
    /// Do harm to replicas that run as processes, and check that each shard has one owner, and soon.
    HaRounds(ha_rounds::Arguments),
    /// Measure what Releases in trouble cost the others.
    Isolation(isolation::Arguments),
    /// Kill each pod of an overlay in turn, beside a real kube-apiserver, and restart that and its etcd.
    PodRounds(pod_rounds::Arguments),
    /// Write the catalogue of built-in kinds from a running kube-apiserver.
    Schemas(schemas::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::CacheMemory(arguments) => cache_memory::run(&arguments),
        Command::CrashMatrix(arguments) => crash_matrix::run(&arguments),
        Command::DeadClusters(arguments) => dead_clusters::run(&arguments),
        Command::HaRounds(arguments) => ha_rounds::run(&arguments),
        Command::Isolation(arguments) => isolation::run(&arguments),
        Command::PodRounds(arguments) => pod_rounds::run(&arguments),
        Command::Schemas(arguments) => schemas::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
