//! `cargo xtask cache-memory`: what a controller-manager that owns all shards and caches everything takes of
//! memory, and what one of three with shard-scoped caches does.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use convoy_e2e::fleet::{Fleet, FleetOptions, Part, SHARDS, Timing, condition, shard_of, wait};
use convoy_e2e::load::write_chart;
use convoy_e2e::memory_group::MemoryGroup;
use convoy_testkit::GitServer;
use serde_json::{Value, json};

use crate::ha_rounds::ProgramArguments;
use crate::workspace;

/// Of the memory, as Kubernetes counts it, of a replica that owns all shards, a replica that owns a third may take this
/// part.
const BUDGET_PERCENT: f64 = 45.0;
/// Clusters of each shard, over which the Releases are spread: what a third of the shards takes is asked for, and not how
/// evenly names fall into shards.
const CLUSTERS_OF_SHARD: usize = 3;
/// Between two looks at all Releases.
const LOOK: Duration = Duration::from_secs(3);
/// How long a replica is at rest before its memory is read: what the looks took is given back by then. What it has
/// right after them is told, too.
const REST: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many Releases.
    #[arg(long, default_value_t = 10_000)]
    releases: usize,
    /// How long the delivery of all, and each look at all, may take, in seconds.
    #[arg(long, default_value_t = 1200)]
    patience: u64,
    #[command(flatten)]
    program: ProgramArguments,
}

/// Delivers the Releases, then measures fresh replicas that have looked at all of their own.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = workspace::target_dir()?;
    let convoy = arguments.program.program(&target)?;
    let folder = target.join("cache-memory").join(std::process::id().to_string());
    let options = FleetOptions {
        convoy,
        beside: None,
        folder: folder.clone(),
        clusters: 4,
        timing: Timing::DEFAULT,
        flags: Vec::new(),
    };
    let mut fleet = Fleet::start(options)?;
    let root = folder.join("git");
    write_chart(&root.join("apps"))?;
    let server = GitServer::start(&root).context("serving Git")?;
    let spec = json!({"url": server.url("apps"), "interval": "1h"});
    fleet.create_convoy("gitrepositories", "GitRepository", "apps", &spec)?;
    let targets: Vec<String> = fleet.targets.iter().map(|target| target.name.clone()).collect();
    let clusters = clusters();
    for (cluster, target) in clusters.iter().zip(targets.iter().cycle()) {
        fleet.create_cluster(cluster, target)?;
    }
    for (number, cluster) in (0..arguments.releases).zip(clusters.iter().cycle()) {
        let spec = json!({
            "clusterRef": {"name": cluster},
            "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "chart"}},
            "render": {"helm": {"values": {"number": "0"}}},
            "interval": "6h",
        });
        fleet.create_convoy("releases", "Release", &format!("app-{number:05}"), &spec)?;
    }
    println!("{} Releases on {} Clusters are created", arguments.releases, clusters.len());
    let patience = Duration::from_secs(arguments.patience);

    fleet.add(Part::ControllerManager, "delivers")?;
    fleet.add(Part::Observer, "observes")?;
    await_looked(&fleet, patience, &["delivers"])?;
    println!("all are Ready");
    drop(fleet.remove("delivers"));

    let convoy = arguments.program.program(&target)?;
    let add = |fleet: &mut Fleet, id: &str| -> anyhow::Result<MemoryGroup> {
        let group = MemoryGroup::create(id).context(
            "making a control group for the memory of a replica, for which one has to be root as a rule",
        )?;
        let wrapped = folder.join(format!("{id}.sh"));
        group.wrap(&convoy, &wrapped)?;
        fleet.set_program(wrapped);
        fleet.add(Part::ControllerManager, id)?;
        Ok(group)
    };

    let group = add(&mut fleet, "all")?;
    await_looked(&fleet, patience, &["all"])?;
    let all = memory(&fleet, &[("all", &group)])?[0];
    drop(fleet.remove("all"));
    drop(group);

    fleet.set_flags(vec!["--shard-scoped-cache".to_owned()]);
    let ids = ["third-0", "third-1", "third-2"];
    let groups = ids.iter().map(|id| add(&mut fleet, id)).collect::<anyhow::Result<Vec<_>>>()?;
    await_looked(&fleet, patience, &ids)?;
    let thirds: Vec<(&str, &MemoryGroup)> = ids.into_iter().zip(&groups).collect();
    println!(
        "\n| replica | shards | working set at rest (MiB) | of the one that owns all | of which anonymous (MiB) | of the \
         one that owns all | resident, with the program's pages (MiB) | of the one that owns all | working set right \
         after the looks (MiB) |\n|---|---|---|---|---|---|---|---|---|"
    );
    let row = |name: &str, shards: usize, own: Memory| {
        println!(
            "| {name} | {shards} | {:.1} | {:.1} % | {:.1} | {:.1} % | {:.1} | {:.1} % | {:.1} |",
            mebibytes(own.working_set),
            percent(own.working_set, all.working_set),
            mebibytes(own.anonymous),
            percent(own.anonymous, all.anonymous),
            mebibytes(own.resident),
            percent(own.resident, all.resident),
            mebibytes(own.after_looks),
        );
        percent(own.working_set, all.working_set)
    };
    row("caches everything", 32, all);
    let mut most: f64 = 0.0;
    for (id, own) in ids.iter().zip(memory(&fleet, &thirds)?) {
        let shards = fleet.leases(Part::ControllerManager, |leases| leases.held_by(id).len());
        most = most.max(row("scoped", shards, own));
    }
    drop(fleet);
    ensure!(most <= BUDGET_PERCENT, "a third takes {most:.2} %, more than {BUDGET_PERCENT} %");
    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}

/// Names of Clusters, as many of each shard, in an order in which no shard comes again before all others did.
fn clusters() -> Vec<String> {
    let mut of_shards: BTreeMap<u32, Vec<String>> = (0..SHARDS).map(|shard| (shard, Vec::new())).collect();
    for name in (0..).map(|number| format!("many-{number}")) {
        if let Some(names) =
            of_shards.get_mut(&shard_of(&name)).filter(|names| names.len() < CLUSTERS_OF_SHARD)
        {
            names.push(name);
        }
        if of_shards.values().all(|names| names.len() == CLUSTERS_OF_SHARD) {
            break;
        }
    }
    (0..CLUSTERS_OF_SHARD)
        .flat_map(|turn| of_shards.values().map(move |names| names[turn].clone()).collect::<Vec<_>>())
        .collect()
}

/// Waits until one of these replicas has looked at each Release, and all are Ready.
fn await_looked(fleet: &Fleet, patience: Duration, replicas: &[&str]) -> anyhow::Result<()> {
    let mut missing = usize::MAX;
    let looked = wait(patience, || {
        let releases = fleet.list_convoy("releases").ok()?;
        missing = releases.iter().filter(|release| !is_looked_at(release, replicas)).count();
        if missing == 0 {
            return Some(());
        }
        std::thread::park_timeout(LOOK);
        None
    });
    looked.with_context(|| format!("{missing} Releases were not looked at by {replicas:?} or are not Ready"))
}

fn is_looked_at(release: &Value, replicas: &[&str]) -> bool {
    let by = release["status"]["controller"]["replica"].as_str().unwrap_or_default();
    condition(release, "Ready").0 == "True" && replicas.contains(&by)
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// What Kubernetes calls its memory.
    working_set: u64,
    /// What of its address space is in memory, also such pages of the program as nobody used for long.
    resident: u64,
    /// The part of it that is in no file.
    anonymous: u64,
    /// The working set before the process had rested.
    after_looks: u64,
}

/// The memory of replicas, right after their looks and after a rest that they have together.
fn memory(fleet: &Fleet, replicas: &[(&str, &MemoryGroup)]) -> anyhow::Result<Vec<Memory>> {
    let replicas = replicas
        .iter()
        .map(|(id, group)| Some((fleet.replicas.iter().find(|replica| replica.id == *id)?, *group)))
        .collect::<Option<Vec<_>>>()
        .context("a replica has ended")?;
    let read = || -> std::io::Result<Vec<Memory>> {
        let after_looks =
            replicas.iter().map(|(_, group)| group.working_set()).collect::<std::io::Result<Vec<_>>>()?;
        std::thread::park_timeout(REST);
        let at_rest = replicas.iter().zip(after_looks).map(|((replica, group), after_looks)| {
            Ok(Memory {
                working_set: group.working_set()?,
                resident: replica.process.resident_bytes()?,
                anonymous: replica.process.anonymous_bytes()?,
                after_looks,
            })
        });
        at_rest.collect()
    };
    read().context("reading the memory of replicas")
}

#[allow(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
fn percent(own: u64, all: u64) -> f64 {
    own as f64 * 100.0 / all.max(1) as f64
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
