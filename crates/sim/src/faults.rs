//! The fault cases, by the numbers of the table in the crate's text.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use convoy_shard::{Lease, LeaseKey, MemberInfo, MemberState, ProcessKind};

use crate::hub::index_of;
use crate::stats::CASES;
use crate::target::Asker;
use crate::time::{MS, Nanos, SEC};
use crate::world::{Event, Sim, Trouble, World};

/// The longest lease that a replica of any run has, by the slowest clock.
const LONGEST_LEASE: Nanos = 76 * SEC;

/// A fault case, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Case(usize);

impl Case {
    pub(crate) fn new(number: usize) -> Option<Self> {
        (1..=CASES).contains(&number).then_some(Self(number))
    }
}

/// What is put right again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Undo {
    Hub,
    Targets,
    Pace,
    Cuts(usize),
    Token(usize),
    WallClock(usize),
    Lags(usize),
    Workers(usize),
    Poison,
    Labels,
    Settings(usize),
}

impl World {
    fn node_with_process(&mut self) -> Option<usize> {
        let running: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].process.is_some() && !self.nodes[*node].is_stopped())
            .collect();
        // Owners are the more interesting ones.
        let owners: Vec<usize> = running
            .iter()
            .copied()
            .filter(|node| {
                self.nodes[*node].process.as_ref().is_some_and(|process| !process.shards.owned().is_empty())
            })
            .collect();
        if !owners.is_empty() && self.rng.chance(800) {
            self.rng.pick(&owners)
        } else {
            self.rng.pick(&running)
        }
    }

    fn pid_on(&self, node: usize) -> Option<u64> {
        self.nodes[node].process.as_ref().map(|process| process.wire.pid)
    }

    fn kind(&mut self) -> ProcessKind {
        let kinds = self.kinds();
        self.rng.pick(&kinds).unwrap_or(ProcessKind::ControllerManager)
    }

    fn spare_node(&self, kind: ProcessKind) -> Option<usize> {
        (0..self.nodes.len()).find(|node| {
            let at = &self.nodes[*node];
            at.kind == kind && at.process.is_none() && !at.is_wanted && !at.is_start_due
        })
    }

    /// One of the run's fault cases, and the time of the next one.
    pub(crate) fn fault(&mut self, sim: &Arc<Sim>) {
        let now = sim.now.get();
        if self.is_healed {
            return;
        }
        let cases = self.plan.cases.clone();
        if let Some(case) = self.rng.pick(&cases) {
            self.inject(sim, case);
        }
        let wait = self.rng.between(SEC, 2 * self.plan.fault_interval);
        sim.schedule.event_at(now + wait, Event::Fault);
    }

    pub(crate) fn inject(&mut self, sim: &Arc<Sim>, case: Case) {
        let now = sim.now.get();
        if self.is_healed {
            return;
        }
        self.stats.injected(case.0);
        self.trace(now, None, || format!("fault case {}", case.0));
        match case.0 {
            1..=5 | 7 | 8 | 22 | 31 | 34 => self.inject_to_processes(sim, case.0, now),
            6 => {
                if self.rng.chance(500) {
                    self.hangs_until = now + self.rng.between(20, 120) * SEC;
                } else {
                    self.stop_one(sim, &[5, 19, 21, 29, 31, 45, 301], false);
                }
            }
            9 => self.change_wall_clock(sim, now),
            10..=13 | 23 | 24 | 26 | 29 | 30 | 32 => self.inject_to_network(sim, case.0, now),
            14..=18 => self.inject_to_leases(case.0, now),
            19 | 20 | 21 | 33 => self.inject_settings(sim, case.0, now),
            25 => {
                let minutes = usize::try_from(self.rng.between(1, 10)).unwrap_or(1);
                if self.hub.restore(minutes) {
                    self.check.restored(self.hub.epochs(), now);
                    self.restored_at = now + self.rng.between(3, 30) * SEC;
                    self.no_start_until = self.restored_at + LONGEST_LEASE;
                    // Who restores ends the replicas that could not hear of it.
                    let deaf = self.nodes.iter().filter(|node| {
                        node.is_stopped() || node.hub_cut_in || node.hub_cut_out || node.is_token_expired
                    });
                    for process in deaf.filter_map(|node| node.process.as_ref()) {
                        sim.schedule.event_at(now, Event::Kill { pid: process.wire.pid });
                    }
                    self.break_all_watches();
                    self.disrupt_all(now);
                    self.trace(now, None, || format!("the API server is as it was {minutes} minutes ago"));
                }
            }
            27 => self.change_labels(sim, now),
            28 => self.drift(now),
            _ => {}
        }
    }

    pub(crate) fn disrupt_all(&mut self, now: Nanos) {
        self.check.good_since = [now; 2];
    }

    fn stop_one(&mut self, sim: &Arc<Sim>, seconds: &[u64], is_suspend: bool) {
        if let Some(node) = self.node_with_process() {
            let span = self.rng.pick(seconds).unwrap_or(31) * SEC + self.rng.below(SEC);
            self.stop_node(sim, node, span, is_suspend);
        }
    }

    fn inject_to_processes(&mut self, sim: &Arc<Sim>, case: usize, now: Nanos) {
        let at = |wait: Nanos, event| sim.schedule.event_at(now + wait, event);
        match case {
            1 => {
                if let Some(pid) = self.node_with_process().and_then(|node| self.pid_on(node)) {
                    at(0, Event::Kill { pid });
                }
            }
            2 | 3 => {
                let Some(node) = self.node_with_process() else { return };
                if let Some(pid) = self.pid_on(node) {
                    if case == 3 {
                        self.nodes[node].hub_cut_out = true;
                        at(self.rng.between(20, 60) * SEC, Event::Undo(Undo::Cuts(node)));
                    }
                    at(0, Event::Terminate { pid });
                }
            }
            4 => {
                let mut wait = 0;
                for node in 0..self.nodes.len() {
                    if let Some(pid) = self.pid_on(node) {
                        at(wait, Event::Terminate { pid });
                        wait += self.rng.between(5, 40) * SEC;
                    }
                }
            }
            5 => {
                for node in 0..self.nodes.len() {
                    if let Some(pid) = self.pid_on(node) {
                        at(self.rng.below(2 * SEC), Event::Kill { pid });
                    }
                }
            }
            7 => self.stop_one(sim, &[310, 350, 420], false),
            8 => self.stop_one(sim, &[10, 25, 35, 60, 400], true),
            22 => {
                let Some(node) = self.node_with_process() else { return };
                let mut wait = 0;
                for _ in 0..self.rng.between(3, 20) {
                    wait += self.rng.between(25, 35) * SEC;
                    // Whatever runs there then.
                    at(wait, Event::Undo(Undo::Settings(node)));
                }
            }
            31 => {
                let keys: Vec<u32> = self.hub.releases.keys().copied().collect();
                self.poisoned = self.rng.pick(&keys);
                at(self.rng.between(60, 300) * SEC, Event::Undo(Undo::Poison));
            }
            _ => {
                // A to B and back to A: A hangs until B has the shard, then B does.
                self.target_pace = 700 * MS;
                at(120 * SEC, Event::Undo(Undo::Pace));
                self.stop_one(sim, &[31, 35, 45], false);
                if let Some(case) = Case::new(6) {
                    at(self.rng.between(33, 50) * SEC, Event::Inject(case));
                }
            }
        }
    }

    fn change_wall_clock(&mut self, sim: &Arc<Sim>, now: Nanos) {
        let Some(node) = self.node_with_process() else { return };
        let choice = self.rng.below(4);
        let at = &mut self.nodes[node];
        let kind = at.kind;
        match choice {
            0 => at.clock.step_wall(3600 * SEC, true),
            1 => at.clock.step_wall(3600 * SEC, false),
            2 => at.clock.step_wall(self.rng.between(1, 60) * SEC, true),
            _ => {
                let rate = if self.rng.chance(500) { 0 } else { 2000 };
                at.clock.set_wall_rate(rate);
                at.is_wall_clock_wrong = true;
                let span = self.rng.between(30, 300) * SEC;
                sim.schedule.event_at(now + span, Event::Undo(Undo::WallClock(node)));
            }
        }
        self.check.disrupted(kind, now);
    }

    fn inject_to_network(&mut self, sim: &Arc<Sim>, case: usize, now: Nanos) {
        let span = self.rng.span(10 * SEC, 200 * SEC);
        let undo = |undo| sim.schedule.event_at(now + span, Event::Undo(undo));
        if matches!(case, 13 | 26) {
            self.hub_trouble = match (case, self.rng.below(4)) {
                (13, 0) => Trouble { slow_permille: self.rng.between(50, 1000), ..Trouble::default() },
                (13, 1) => Trouble { errors_permille: self.rng.between(50, 700), ..Trouble::default() },
                (13, 2) => Trouble { lost_permille: self.rng.between(50, 700), ..Trouble::default() },
                (13, _) => Trouble {
                    slow_permille: 200,
                    errors_permille: 200,
                    lost_permille: 100,
                    ..Trouble::default()
                },
                (_, 0 | 1) => Trouble { refuses_writes: true, ..Trouble::default() },
                _ => Trouble { errors_permille: 1000, ..Trouble::default() },
            };
            undo(Undo::Hub);
            return;
        }
        if case == 29 {
            self.target_pace = self.rng.between(200, 2000) * MS;
            undo(Undo::Pace);
            return;
        }
        if case == 11 && self.rng.chance(400) {
            self.target_trouble = Trouble {
                slow_permille: 300,
                errors_permille: 200,
                lost_permille: 100,
                refuses_writes: false,
            };
            undo(Undo::Targets);
            return;
        }
        let Some(node) = self.node_with_process() else { return };
        let rng = &mut self.rng;
        let at = &mut self.nodes[node];
        let kind = at.kind;
        match case {
            10 => {
                at.hub_cut_in = true;
                at.hub_cut_out = true;
                undo(Undo::Cuts(node));
            }
            11 => {
                at.targets_cut = true;
                undo(Undo::Cuts(node));
            }
            12 => {
                match rng.below(4) {
                    0 | 1 => at.hub_cut_in = true,
                    2 => at.hub_cut_out = true,
                    _ => {
                        at.are_writes_late = true;
                        if let Some(pid) = at.process.as_ref().map(|process| process.wire.pid)
                            && rng.chance(600)
                        {
                            let wait = rng.between(1, 10) * SEC;
                            sim.schedule.event_at(now + wait, Event::Terminate { pid });
                        }
                    }
                }
                undo(Undo::Cuts(node));
            }
            23 => {
                at.watch_lag = rng.span(SEC, 120 * SEC);
                at.drops_watch = rng.chance(400);
                undo(Undo::Lags(node));
            }
            24 => {
                at.list_lag = rng.span(SEC, 120 * SEC);
                undo(Undo::Lags(node));
            }
            30 => {
                self.block_workers(node, true);
                undo(Undo::Workers(node));
            }
            _ => {
                at.is_token_expired = true;
                undo(Undo::Token(node));
            }
        }
        self.check.disrupted(kind, now);
    }

    fn some_lease(&mut self, kind: ProcessKind, of_shard: bool) -> Option<Arc<Lease>> {
        let leases: Vec<&Arc<Lease>> = self.hub.leases[index_of(kind)]
            .values()
            .map(|stored| &stored.lease)
            .filter(|lease| matches!(lease.key, LeaseKey::Shard(_)) == of_shard)
            .collect();
        self.rng.pick(&leases).cloned()
    }

    fn inject_to_leases(&mut self, case: usize, now: Nanos) {
        let kind = self.kind();
        match case {
            14 => {
                for _ in 0..self.rng.between(1, 8) {
                    let of_shard = self.rng.chance(700);
                    if let Some(lease) = self.some_lease(kind, of_shard) {
                        self.hub.put_lease(kind, Lease::clone(&lease), now);
                    }
                }
            }
            15 => {
                let of_shard = self.rng.chance(800);
                if let Some(lease) = self.some_lease(kind, of_shard) {
                    self.trace(now, None, || format!("{:?} is deleted by hand", lease.key));
                    self.hub.remove_lease(kind, &lease.key);
                }
            }
            16 => {
                let keys: Vec<LeaseKey> = self.hub.leases[index_of(kind)].keys().cloned().collect();
                let members_too = self.rng.chance(700);
                for key in keys {
                    if members_too || matches!(key, LeaseKey::Shard(_)) {
                        self.hub.remove_lease(kind, &key);
                    }
                }
            }
            17 => self.edit_lease(kind, now),
            _ => self.forge_members(kind, now),
        }
        self.check.disrupted(kind, now);
    }

    fn edit_lease(&mut self, kind: ProcessKind, now: Nanos) {
        let of_shard = self.rng.chance(800);
        let Some(lease) = self.some_lease(kind, of_shard) else { return };
        let mut lease = Lease::clone(&lease);
        match self.rng.below(9) {
            0 => lease.holder = None,
            1 => lease.duration_seconds = Some(0),
            2 => lease.duration_seconds = Some(1),
            3 => lease.duration_seconds = Some(1 << 31),
            4 => lease.renewed = Some(Duration::from_secs(253_370_764_800)),
            5 => lease.renewed = None,
            // A negative number is read as none at all.
            6 => lease.transitions = 0,
            7 => lease.boot_id = None,
            _ => lease.holder = Some("somebody-else".to_owned()),
        }
        self.trace(now, None, || {
            format!("by hand: {:?} holder {:?} epoch {}", lease.key, lease.holder, lease.transitions)
        });
        if let LeaseKey::Shard(shard) = lease.key
            && lease.transitions == 0
            && self.others_until > 0
        {
            self.check.counts_anew(kind, shard);
        }
        self.hub.put_lease(kind, lease, now);
    }

    fn forge_members(&mut self, kind: ProcessKind, now: Nanos) {
        for name in
            ["convoy-cm-member-", "convoy-cm-member-\u{fc}", "convoy-obs-member-a.b", "convoy-cm-shard-1x"]
        {
            debug_assert_eq!(LeaseKey::parse(kind, name), None);
        }
        let count = self.rng.weighted(&[(60, 1), (30, 10), (10, 300)], 1);
        let duration = self.rng.weighted(&[(60, 30_i64), (20, 300), (20, 1 << 31)], 30);
        for index in 0..count {
            let id = format!("{}forged-{index}", self.rng.pick(&["a", "z", ""]).unwrap_or(""));
            let has_annotations = self.rng.chance(800);
            let lease = Lease {
                key: LeaseKey::Member(id.clone()),
                uid: String::new(),
                resource_version: String::new(),
                holder: Some(id),
                boot_id: None,
                duration_seconds: Some(duration),
                transitions: 0,
                acquired: None,
                renewed: None,
                member: Some(MemberInfo {
                    shards: has_annotations.then_some(self.hub.shards),
                    assignment: has_annotations.then(|| self.plan.assignment.as_str().to_owned()),
                    renew_interval: Some(Duration::from_secs(10)),
                    state: MemberState::Acting,
                }),
            };
            self.hub.put_lease(kind, lease, now);
        }
    }

    /// Whether there are leases of members that do not exist. Shards fall to them for as long as they count
    /// as live; who can write leases can do that, and the rights on leases have to prevent it.
    pub(crate) fn has_forged_members(&self, kind: ProcessKind) -> bool {
        self.hub.leases[index_of(kind)].keys().any(is_forged)
    }

    /// Whether there is a lease that lasts longer than usual: it counts for as long as it says from when a
    /// replica sees it first. Whose name is on it matters for a shard's alone.
    pub(crate) fn has_long_leases(&self, kind: ProcessKind) -> bool {
        self.hub.leases[index_of(kind)].values().any(|stored| {
            let seconds = stored.lease.duration_seconds.unwrap_or(0);
            let counts = stored.lease.holder.is_some() || matches!(stored.lease.key, LeaseKey::Member(_));
            seconds > 30 && seconds <= 86_400 && counts
        })
    }

    fn inject_settings(&mut self, sim: &Arc<Sim>, case: usize, now: Nanos) {
        let kind = self.kind();
        match case {
            19 => {
                let running = (0..self.nodes.len())
                    .find(|node| self.nodes[*node].kind == kind && self.nodes[*node].process.is_some());
                if let (Some(twin), Some(of)) = (self.spare_node(kind), running)
                    && let Some(id) =
                        self.nodes[of].process.as_ref().map(|process| process.settings.replica_id.clone())
                {
                    self.nodes[twin].id = id;
                    self.start_for(sim, twin, now);
                }
            }
            20 => {
                let other = self.rng.pick(&[1, 2, 4, 8, 64, 3]).and_then(NonZeroU32::new);
                let is_roll = self.rng.chance(300);
                if is_roll {
                    self.change_shard_count(sim, other.unwrap_or(NonZeroU32::MIN), now);
                } else if let Some(node) = self.spare_node(kind) {
                    self.nodes[node].other_shards = other;
                    self.start_for(sim, node, now);
                }
            }
            21 => {
                if let Some(node) = self.spare_node(kind) {
                    self.start_for(sim, node, now);
                }
            }
            _ => {
                if let Some(node) = self.spare_node(kind) {
                    self.nodes[node].other_durations = true;
                    self.start_for(sim, node, now);
                }
            }
        }
    }

    /// Starts a process on a spare node for a while.
    fn start_for(&mut self, sim: &Arc<Sim>, node: usize, now: Nanos) {
        self.nodes[node].is_start_due = true;
        self.nodes[node].is_wanted = true;
        sim.schedule.event_at(now, Event::Start { node });
        let span = self.rng.between(20, 400) * SEC;
        sim.schedule.event_at(now + span, Event::Undo(Undo::Settings(node)));
    }

    /// All components get another `--shards`, one process after the other.
    fn change_shard_count(&mut self, sim: &Arc<Sim>, shards: NonZeroU32, now: Nanos) {
        self.plan.shards = shards;
        self.hub.shards = shards;
        self.relabel(sim);
        let mut wait = SEC;
        for node in 0..self.nodes.len() {
            if let Some(pid) = self.pid_on(node) {
                sim.schedule.event_at(now + wait, Event::Terminate { pid });
                wait += self.rng.between(1, 30) * SEC;
            }
        }
        self.trace(now, None, || format!("--shards {shards} from now on"));
    }

    /// The API server writes the labels that Releases should have.
    pub(crate) fn relabel(&mut self, sim: &Arc<Sim>) {
        let all: Vec<(u32, u32, Option<u32>)> = self
            .hub
            .releases
            .values()
            .map(|release| (release.key, self.hub.shard_of_cluster(release.cluster), release.label))
            .collect();
        for (key, shard, label) in all {
            if label != Some(shard)
                && let Some(release) = self.hub.change(key, |release| release.label = Some(shard))
            {
                self.tell_watchers(sim, &release, label);
            }
        }
    }

    fn change_labels(&mut self, sim: &Arc<Sim>, now: Nanos) {
        let keys: Vec<u32> = self.hub.releases.keys().copied().collect();
        let Some(key) = self.rng.pick(&keys) else { return };
        // A wrong number, one out of range, or none at all: "-1" and "03" are no shard's label.
        let label = self.rng.pick(&[None, Some(0), Some(self.hub.shards.get()), Some(1)]).flatten();
        let before = self.hub.releases.get(&key).and_then(|release| release.label);
        if let Some(release) = self.hub.change(key, |release| release.label = label) {
            self.tell_watchers(sim, &release, before);
            self.trace(now, None, || format!("release {key} gets the label {label:?}"));
            let shard = self.hub.shard_of_cluster(release.cluster);
            self.check.is_not_told(shard);
        }
        self.check.targets_good_since = now;
        let span = self.rng.between(5, 60) * SEC;
        sim.schedule.event_at(now + span, Event::Undo(Undo::Labels));
    }

    /// People change or delete what was delivered, or make it anew.
    fn drift(&mut self, now: Nanos) {
        let clusters: Vec<usize> = (0..self.clusters.len()).collect();
        let Some(cluster) = self.rng.pick(&clusters) else { return };
        let cluster = &mut self.clusters[cluster];
        let paths: Vec<String> = cluster.objects.keys().cloned().collect();
        for path in paths {
            match self.rng.below(6) {
                0 => _ = cluster.objects.remove(&path),
                1 => {
                    cluster.objects.remove(&path);
                    cluster.apply(&path, 999_999, Asker { pid: 0, epoch: 0, now });
                }
                2 => _ = cluster.apply(&path, 999_999, Asker { pid: 0, epoch: 0, now }),
                _ => {}
            }
        }
    }

    pub(crate) fn undo(&mut self, sim: &Arc<Sim>, undo: Undo) {
        let now = sim.now.get();
        self.trace(now, None, || format!("ends: {undo:?}"));
        match undo {
            Undo::Hub => {
                self.hub_trouble = Trouble::default();
                self.disrupt_all(now);
            }
            Undo::Targets => self.target_trouble = Trouble::default(),
            Undo::Pace => self.target_pace = self.plan.target_pace,
            Undo::Poison => self.poisoned = None,
            Undo::Labels => {
                self.relabel(sim);
                self.check.targets_good_since = now;
            }
            Undo::Settings(node) => {
                // Spare nodes get empty; others restart.
                let at = &mut self.nodes[node];
                at.other_shards = None;
                at.other_durations = false;
                if !self.plan.wanted[node] {
                    at.is_wanted = false;
                    at.id = String::new();
                }
                if let Some(pid) = self.pid_on(node) {
                    sim.schedule.event_at(now, Event::Kill { pid });
                }
            }
            Undo::Cuts(node) => {
                let at = &mut self.nodes[node];
                (at.hub_cut_in, at.hub_cut_out, at.targets_cut, at.are_writes_late) =
                    (false, false, false, false);
                self.node_is_well(node, now);
            }
            Undo::Token(node) => {
                self.nodes[node].is_token_expired = false;
                self.node_is_well(node, now);
            }
            Undo::WallClock(node) => {
                let clock = &self.nodes[node].clock;
                clock.set_wall_rate(clock.rate());
                self.nodes[node].is_wall_clock_wrong = false;
                self.node_is_well(node, now);
            }
            Undo::Lags(node) => {
                let at = &mut self.nodes[node];
                at.list_lag = 500 * MS;
                (at.watch_lag, at.drops_watch) = (0, false);
                self.node_is_well(node, now);
            }
            Undo::Workers(node) => {
                self.block_workers(node, false);
                self.to_resume.push(node);
                self.node_is_well(node, now);
            }
        }
    }

    fn block_workers(&mut self, node: usize, is_blocked: bool) {
        let at = &mut self.nodes[node];
        at.are_workers_blocked = is_blocked;
        if let Some(process) = &at.process
            && let Some(known) = self.check.processes.get_mut(&process.wire.pid)
        {
            known.is_blocked = is_blocked;
        }
    }

    fn node_is_well(&mut self, node: usize, now: Nanos) {
        let kind = self.nodes[node].kind;
        self.check.disrupted(kind, now);
        self.check.targets_good_since = now;
    }

    /// All faults end.
    pub(crate) fn heal(&mut self, sim: &Arc<Sim>) {
        let now = sim.now.get();
        self.is_healed = true;
        self.hangs_until = 0;
        for undo in [Undo::Hub, Undo::Targets, Undo::Pace, Undo::Poison, Undo::Labels] {
            self.undo(sim, undo);
        }
        for node in 0..self.nodes.len() {
            self.resume_node(node, now);
            for undo in [
                Undo::Cuts(node),
                Undo::Token(node),
                Undo::WallClock(node),
                Undo::Lags(node),
                Undo::Workers(node),
            ] {
                self.undo(sim, undo);
            }
            let has_other_settings = self.nodes[node].process.as_ref().is_some_and(|process| {
                process.settings.shards != self.plan.shards || process.settings.lease_duration.as_secs() != 30
            });
            if !self.plan.wanted[node] || has_other_settings {
                self.undo(sim, Undo::Settings(node));
            } else if self.nodes[node].process.is_none() && !self.nodes[node].is_start_due {
                self.nodes[node].is_start_due = true;
                self.nodes[node].is_wanted = true;
                sim.schedule.event_at(now, Event::Start { node });
            }
        }
        let forged: BTreeMap<usize, Vec<LeaseKey>> = self
            .kinds()
            .into_iter()
            .map(|kind| {
                let of_kind = self.hub.leases[index_of(kind)].keys();
                (index_of(kind), of_kind.filter(|key| is_forged(key)).cloned().collect())
            })
            .collect();
        for kind in self.kinds() {
            for key in forged.get(&index_of(kind)).into_iter().flatten() {
                self.hub.remove_lease(kind, key);
            }
        }
        self.disrupt_all(now);
        self.check.targets_good_since = now;
    }
}

fn is_forged(key: &LeaseKey) -> bool {
    let LeaseKey::Member(id) = key else { return false };
    id.strip_prefix(['a', 'z']).unwrap_or(id).starts_with("forged-")
}
