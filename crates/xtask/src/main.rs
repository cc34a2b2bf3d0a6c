//! Repository chores: `cargo xtask <command>`. One module per command.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]

mod bench_helm;
mod book;
mod dist;
mod fuzz;
mod helm_diff;
mod helm_example;
mod hostile_charts;
mod image;
mod kubernetes;
mod proofs;
mod protobuf;
mod sim;
mod test;
mod tidy;
mod tools;
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
    /// Measure convoy beside other programs.
    #[command(subcommand)]
    Bench(Bench),
    /// Make the book of docs/ with mdBook, and check the links of its pages.
    Book,
    /// The former name of `bench helm`.
    #[command(hide = true)]
    BenchHelm(bench_helm::Arguments),
    /// Compare the memory of controller-managers with whole and with shard-scoped caches.
    CacheMemory(proofs::Arguments),
    /// Interrupt deliveries at each of their steps, in each way, and check what comes of it.
    CrashMatrix(proofs::Arguments),
    /// Measure what targets that do not answer cost the Releases of the others.
    DeadClusters(proofs::Arguments),
    /// Make archives of convoy: the program, completions, manual pages, licence and SBOM.
    Dist(dist::Arguments),
    /// Look for inputs that a fuzz target cannot stand.
    Fuzz(fuzz::Arguments),
    /// Do harm to replicas that run as processes, and check that each shard has one owner, and soon.
    HaRounds(proofs::Arguments),
    /// Measure what Releases in trouble cost the others.
    Isolation(proofs::Arguments),
    /// Kill each pod of an overlay in turn, beside a real kube-apiserver, and restart that and its etcd.
    PodRounds(proofs::Arguments),
    /// Render every chart under a folder with the real helm and with convoy, and compare.
    HelmDiff(helm_diff::Arguments),
    /// Render charts that want to hurt, and check that limits end them in time and memory.
    HostileCharts(hostile_charts::Arguments),
    /// Make an image of convoy as an OCI layout, without a container engine.
    Image(image::Arguments),
    /// Build etcd, kube-apiserver, kube-controller-manager, kubectl, kwok, helm, helm 3, a registry and an S3 server from Go modules.
    Kubernetes(kubernetes::Arguments),
    /// Write the table of Kubernetes' protobuf messages from its Go modules.
    Protobuf(protobuf::Arguments),
    /// Write the catalogue of built-in kinds from a running kube-apiserver.
    Schemas(proofs::Arguments),
    /// Run the deterministic simulation of replicas and faults.
    Sim(sim::Arguments),
    /// Check format, lints, layering and licences, then run all tests.
    Test(test::Arguments),
    /// Check the repository's shape: crate arrows, orphan modules, long files, docs of pure crates.
    Tidy,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Measure helm and convoy on the same charts: as commands, and in process.
    Helm(bench_helm::Arguments),
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Answers with false when a program that was run has said itself what is wrong.
fn run() -> anyhow::Result<bool> {
    match Arguments::parse().command {
        Command::Bench(Bench::Helm(arguments)) | Command::BenchHelm(arguments) => {
            return bench_helm::run(&arguments);
        }
        Command::Book => book::run(),
        Command::CacheMemory(arguments) => return proofs::run("cache-memory", &arguments),
        Command::CrashMatrix(arguments) => return proofs::run("crash-matrix", &arguments),
        Command::DeadClusters(arguments) => return proofs::run("dead-clusters", &arguments),
        Command::Dist(arguments) => dist::run(&arguments),
        Command::Fuzz(arguments) => return fuzz::run(&arguments),
        Command::HaRounds(arguments) => return proofs::run("ha-rounds", &arguments),
        Command::Isolation(arguments) => return proofs::run("isolation", &arguments),
        Command::PodRounds(arguments) => return proofs::run("pod-rounds", &arguments),
        Command::HelmDiff(arguments) => return helm_diff::run(&arguments),
        Command::HostileCharts(arguments) => return hostile_charts::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Kubernetes(arguments) => kubernetes::run(&arguments),
        Command::Protobuf(arguments) => protobuf::run(&arguments),
        Command::Schemas(arguments) => return proofs::run("schemas", &arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Tidy => tidy::run(),
    }
    .map(|()| true)
}
