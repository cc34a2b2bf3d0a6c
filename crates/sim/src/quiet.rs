//! The end of a run: all is well again, and everything has to be as it should.
//!
//! - **I3** Each shard is owned by exactly one process; **I4** counts differ by at most one.
//! - **I11** Each Release is at its last revision, on the target and in its statuses, no object is too many
//!   or too few, and from then on nothing is written but leases. After the API server was restored from a
//!   backup, objects may be left over that were delivered since and that the backup does not know.
//! - **I14** From some time after the last fault on, leases are written no more often than (members +
//!   shards) in each interval of the fastest clock, and conflicts are no more than hand-offs; one replica
//!   may come or go in that time.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::hub::cluster_name;
use crate::target::Cluster;
use crate::time::{Nanos, SEC};
use crate::world::{Event, Sim, World};

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    at: Nanos,
    lease_writes: u64,
    conflicts: u64,
    hand_offs: u64,
    writes: u64,
    changes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Quiet {
    calm: Counts,
    settled: Counts,
}

impl World {
    fn counts(&self, now: Nanos) -> Counts {
        Counts {
            at: now,
            lease_writes: self.stats.lease_writes,
            conflicts: self.stats.conflicts,
            hand_offs: self.stats.takeovers + self.stats.gains,
            writes: self.check.writes(),
            changes: self.clusters.iter().map(|cluster| cluster.changes).sum(),
        }
    }
}

impl Quiet {
    /// One replica may come or go, as planned.
    pub(crate) fn calm_change(&mut self, sim: &Arc<Sim>) {
        let now = sim.now.get();
        let mut world = sim.world.lock();
        self.calm = world.counts(now);
        if world.rng.chance(400) {
            return;
        }
        let nodes: Vec<usize> = (0..world.nodes.len()).filter(|node| world.plan.wanted[*node]).collect();
        let Some(node) = world.rng.pick(&nodes) else { return };
        let spare = (0..world.nodes.len()).find(|at| {
            !world.plan.wanted[*at]
                && world.nodes[*at].process.is_none()
                && world.nodes[*at].kind == world.nodes[node].kind
        });
        let pid = world.nodes[node].process.as_ref().map(|process| process.wire.pid);
        match (world.rng.chance(500), spare, pid) {
            (true, Some(spare), _) => {
                world.nodes[spare].is_wanted = true;
                world.nodes[spare].is_start_due = true;
                sim.schedule.event_at(now, Event::Start { node: spare });
            }
            (_, _, Some(pid)) => {
                world.calm_pid = Some(pid);
                sim.schedule.event_at(now, Event::Terminate { pid });
            }
            _ => {}
        }
    }

    pub(crate) fn settled(&mut self, world: &mut World, now: Nanos) {
        self.settled = world.counts(now);
        world.check_division(now);
        world.check_delivery(now);
    }

    pub(crate) fn ended(&mut self, world: &mut World, now: Nanos) {
        world.check_division(now);
        world.check_delivery(now);
        let end = world.counts(now);
        let writes = end.writes - self.settled.writes;
        if writes > 0 || end.changes != self.settled.changes {
            world.check.fail(now, "I11", format!("{writes} writes were made although all was as it should"));
        }
        let fastest = world.nodes.iter().map(|node| node.clock.rate()).max().unwrap_or(1000);
        let intervals = (now - self.settled.at) * fastest / 1000 / (10 * SEC) + 2;
        let kinds = world.kinds();
        let processes = world.nodes.iter().filter(|node| node.process.is_some()).count() as u64;
        let most = (processes + kinds.len() as u64 * u64::from(world.plan.shards.get())) * intervals;
        let lease_writes = end.lease_writes - self.settled.lease_writes;
        if lease_writes > most {
            world.check.fail(now, "I14", format!("{lease_writes} writes of leases, {most} are allowed"));
        }
        let (conflicts, hand_offs) =
            (end.conflicts - self.calm.conflicts, end.hand_offs - self.calm.hand_offs);
        if conflicts > hand_offs {
            world.check.fail(now, "I14", format!("{conflicts} conflicts for {hand_offs} hand-offs"));
        }
    }
}

impl World {
    /// I3, I4.
    fn check_division(&mut self, now: Nanos) {
        for kind in self.kinds() {
            let counts: Vec<(u64, Vec<u32>)> = self
                .nodes
                .iter()
                .filter(|node| node.kind == kind)
                .filter_map(|node| node.process.as_ref())
                .map(|process| {
                    let owned = process.shards.owned();
                    (
                        process.wire.pid,
                        owned.keys().copied().filter(|shard| process.shards.owns(*shard)).collect(),
                    )
                })
                .collect();
            let all: Vec<u32> = counts.iter().flat_map(|(_, owned)| owned).copied().collect();
            let distinct: BTreeSet<u32> = all.iter().copied().collect();
            let shards = self.plan.shards.get() as usize;
            if all.len() != shards || distinct.len() != shards {
                let standing: Vec<String> = self
                    .nodes
                    .iter()
                    .filter_map(|node| node.process.as_ref())
                    .map(|process| format!("pid {}: {:?}", process.wire.pid, process.standing.lock()))
                    .collect();
                let message =
                    format!("{} of {shards} shards are owned, by {counts:?}; {standing:?}", distinct.len());
                self.check.fail(now, "I3", message);
            }
            let least = counts.iter().map(|(_, owned)| owned.len()).min().unwrap_or(0);
            let most = counts.iter().map(|(_, owned)| owned.len()).max().unwrap_or(0);
            if most > least + 1 {
                self.check.fail(now, "I4", format!("owned counts differ by more than one: {counts:?}"));
            }
        }
    }

    /// I11.
    fn check_delivery(&mut self, now: Nanos) {
        let has = |wanted| self.kinds().contains(&wanted);
        let delivers = has(convoy_shard::ProcessKind::ControllerManager);
        let observes = has(convoy_shard::ProcessKind::Observer);
        let mut failures = Vec::new();
        for release in self.hub.releases.values() {
            if delivers && release.delivered != release.revision {
                failures.push(format!(
                    "release {} is at revision {}, {} is wanted",
                    release.key, release.delivered, release.revision
                ));
            }
            let seen = if delivers { release.delivered } else { 0 };
            if observes && release.observed != seen {
                failures.push(format!(
                    "release {} was observed at {}, not {seen}",
                    release.key, release.observed
                ));
            }
            if delivers {
                failures.extend(wrong_objects(
                    release,
                    &self.clusters[release.cluster],
                    self.hub.restores > 0,
                ));
            }
        }
        failures.into_iter().for_each(|message| self.check.fail(now, "I11", message));
    }
}

fn wrong_objects(
    release: &crate::hub::Release,
    cluster: &Cluster,
    may_have_left_overs: bool,
) -> Option<String> {
    let prefix = format!("/api/v1/namespaces/web/configmaps/r{}-", release.key);
    let there: BTreeSet<(String, u64)> = cluster
        .objects
        .iter()
        .filter(|(path, _)| path.starts_with(&prefix))
        .map(|(path, object)| (path.clone(), object.revision))
        .collect();
    let wanted: BTreeSet<(String, u64)> = release
        .objects_of(release.revision)
        .into_iter()
        .map(|object| (format!("{prefix}{object}"), release.revision))
        .collect();
    let wanted_paths: BTreeSet<&String> = wanted.iter().map(|(path, _)| path).collect();
    let differing: Vec<_> = there
        .symmetric_difference(&wanted)
        .filter(|(path, _)| !may_have_left_overs || wanted_paths.contains(path))
        .map(|(path, _)| {
            let found = cluster.objects.get(path).map_or_else(|| "missing".to_owned(), ToString::to_string);
            format!("{path}: {found}")
        })
        .collect();
    let name = cluster_name(release.cluster);
    (!differing.is_empty()).then(|| format!("release {} on {name}: {differing:?}", release.key))
}
