//! One run: the executor, and what events do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use convoy_shard::{Assignment, Settings};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::check::{Checker, Known, Violation};
use crate::hub::Hub;
use crate::plan::{Options, Plan};
use crate::process::Process;
use crate::quiet::Quiet;
use crate::rng::Rng;
use crate::schedule::{Due, Schedule};
use crate::stats::Stats;
use crate::time::{MS, Nanos, NodeClock, Now, SEC};
use crate::world::{Event, Node, Sim, Trouble, Watching, World, boot_id};

/// How long a process that was told to stop may take.
const GRACE: Nanos = 30 * SEC;
const CHECK_INTERVAL: Nanos = 500 * MS;
/// More polls than this at one instant are a loop that never ends.
const MOST_POLLS: u64 = 200_000;

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What did not hold, as `I1: …`, and when.
    pub violation: Option<String>,
    /// The invariant's name.
    pub invariant: Option<&'static str>,
    /// What happened.
    pub stats: Stats,
    /// The last of what happened, when it was traced.
    pub trace: Vec<String>,
}

#[derive(Debug, Default)]
struct Ready(Mutex<Vec<usize>>);

struct TaskWaker {
    id: usize,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.0.lock().push(self.id);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.0.lock().push(self.id);
    }
}

struct Task {
    pid: u64,
    node: usize,
    /// Whether it shares the threads of the work, which may be blocked.
    is_worker: bool,
    future: BoxFuture<'static, ()>,
    waker: Waker,
}

pub(crate) struct Runner {
    pub(crate) sim: Arc<Sim>,
    /// In the order in which they began; none is where one has ended.
    tasks: Vec<Option<Task>>,
    ready: Arc<Ready>,
    quiet: Quiet,
}

/// Runs one seed.
pub fn run(options: &Options) -> Outcome {
    let mut runner = Runner::new(options);
    runner.go_on();
    runner.close()
}

impl Runner {
    fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let plan = Plan::draw(options, &mut rng);
        let now = Arc::new(Now::default());
        let schedule = Arc::new(Schedule::default());
        let releases = plan.releases(&mut rng);
        let mut hub = Hub::new(plan.shards, releases);
        #[cfg(feature = "mutants")]
        {
            hub.takes_older_epochs = plan.mutant == Some(convoy_shard::Mutant::StaleEpochAccepted);
        }
        hub.back_up();
        let nodes = plan
            .nodes
            .iter()
            .zip(&plan.wanted)
            .map(|((kind, rate), is_wanted)| Node {
                clock: Arc::new(NodeClock::new(
                    Arc::clone(&now),
                    Arc::clone(&schedule),
                    *rate,
                    rng.below(1_000_000 * SEC),
                )),
                kind: *kind,
                process: None,
                stops: 0,
                is_suspended: false,
                are_workers_blocked: false,
                hub_cut_out: false,
                hub_cut_in: false,
                targets_cut: false,
                is_token_expired: false,
                are_writes_late: false,
                is_wall_clock_wrong: false,
                list_lag: 500 * MS,
                watch_lag: 0,
                drops_watch: false,
                is_wanted: *is_wanted,
                is_start_due: *is_wanted,
                id: String::new(),
                other_shards: None,
                other_durations: false,
            })
            .collect();
        let clusters = vec![crate::target::Cluster::default(); plan.clusters];
        let spread = rng.weighted(&[(50, 0), (30, 3 * SEC), (20, 60 * SEC)], 0);
        for (node, is_wanted) in plan.wanted.iter().enumerate() {
            if *is_wanted {
                schedule.event_at(rng.below(spread), Event::Start { node });
            }
        }
        let first_fault = rng.between(20, 90) * SEC;
        for (at, event) in [
            (first_fault, Event::Fault),
            (20 * SEC, Event::Revise),
            (CHECK_INTERVAL, Event::Check),
            (60 * SEC, Event::BackUp),
            (plan.heal_at, Event::Heal),
            (plan.heal_at + 200 * SEC, Event::CalmChange),
            (plan.settled_at, Event::Settled),
            (plan.end, Event::End),
        ] {
            schedule.event_at(at, event);
        }
        let target_pace = plan.target_pace;
        let world = World {
            rng,
            plan,
            hub,
            clusters,
            nodes,
            watches: BTreeMap::new(),
            check: Checker::default(),
            stats: Stats::default(),
            hub_trouble: Trouble::default(),
            last_hub_trouble: 0,
            others_until: 0,
            no_start_until: 0,
            target_trouble: Trouble::default(),
            target_pace,
            hangs_until: 0,
            restored_at: 0,
            poisoned: None,
            is_healed: false,
            calm_pid: None,
            next_pid: 1,
            next_id: 0,
            lines: options.is_traced.then(VecDeque::new),
            to_resume: Vec::new(),
            to_kill: Vec::new(),
        };
        let sim = Arc::new(Sim { now, schedule, world: Mutex::new(world) });
        Self { sim, tasks: Vec::new(), ready: Arc::default(), quiet: Quiet::default() }
    }

    fn go_on(&mut self) {
        loop {
            self.poll_all();
            if self.sim.world.lock().check.violation.is_some() {
                return;
            }
            let Some((at, due)) = self.sim.schedule.pop() else { return };
            self.sim.now.set(at.max(self.sim.now.get()));
            match due {
                Due::Wake(waker) => waker.wake(),
                Due::Event(event) => {
                    if !self.handle(*event) {
                        return;
                    }
                }
            }
            self.follow_up();
        }
    }

    /// Polls what is ready, in the order of the tasks' numbers, until nothing is.
    fn poll_all(&mut self) {
        let mut polls = 0;
        let mut batch = Vec::new();
        loop {
            std::mem::swap(&mut batch, &mut *self.ready.0.lock());
            if batch.is_empty() {
                return;
            }
            batch.sort_unstable();
            batch.dedup();
            for id in batch.drain(..) {
                let Some(task) = &mut self.tasks[id] else { continue };
                let may_run = {
                    let world = self.sim.world.lock();
                    let node = &world.nodes[task.node];
                    !(node.is_stopped() || task.is_worker && node.are_workers_blocked)
                };
                // What stands still is polled again when its node goes on.
                if !may_run {
                    continue;
                }
                if task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready() {
                    self.tasks[id] = None;
                }
            }
            polls += 1;
            if polls > MOST_POLLS {
                let now = self.sim.now.get();
                self.sim.world.lock().check.fail(
                    now,
                    "loop",
                    "tasks go on for ever at one instant".to_owned(),
                );
                return;
            }
        }
    }

    /// What events asked the executor for.
    fn follow_up(&mut self) {
        let (resume, kill) = {
            let mut world = self.sim.world.lock();
            (std::mem::take(&mut world.to_resume), std::mem::take(&mut world.to_kill))
        };
        for node in resume {
            let is_there = |task: &Option<Task>| task.as_ref().is_some_and(|task| task.node == node);
            let tasks = self.tasks.iter().enumerate().filter(|(_, task)| is_there(task));
            self.ready.0.lock().extend(tasks.map(|(id, _)| id));
        }
        for pid in kill {
            self.kill(pid);
        }
    }

    fn handle(&mut self, event: Event) -> bool {
        let sim = Arc::clone(&self.sim);
        let now = sim.now.get();
        match event {
            Event::Arrive(flight) => sim.world.lock().arrive(&sim, flight),
            Event::Answer { slot, write, answer } => {
                if let Some(id) = write {
                    sim.world.lock().check.ended(id);
                }
                slot.fill(answer);
            }
            Event::Watch { pid, release } => {
                let world = sim.world.lock();
                if let Some(watching) = world.watches.get(&pid) {
                    watching.process.inbox.lock().push(release);
                    watching.process.inbox_filled.notify_one();
                }
            }
            Event::Exited { pid, is_twin } => {
                let node = self.kill(pid);
                if is_twin && let Some(node) = node {
                    // Whoever runs it sees the message, and gives it another id.
                    sim.world.lock().nodes[node].id = String::new();
                }
            }
            Event::Start { node } => self.start(node),
            Event::Kill { pid } => _ = self.kill(pid),
            Event::Terminate { pid } => {
                let mut world = sim.world.lock();
                if world.is_healed && world.calm_pid != Some(pid) {
                    // Of a fault that began before.
                    return true;
                }
                let found =
                    world.nodes.iter().filter_map(|node| node.process.clone()).find(|at| at.wire.pid == pid);
                if let Some(process) = found {
                    world.check.disrupted(process.kind(), now);
                    world.trace(now, Some(process.wire.node), || format!("pid {pid} is told to stop"));
                    drop(world);
                    process.stop.trigger();
                    sim.schedule.event_at(now + GRACE, Event::Kill { pid });
                }
            }
            Event::Resume { node, stop } => {
                let mut world = sim.world.lock();
                if world.nodes[node].stops == stop {
                    world.resume_node(node, now);
                }
            }
            Event::Undo(undo) => {
                let mut world = sim.world.lock();
                if !world.is_healed {
                    world.undo(&sim, undo);
                }
            }
            Event::Fault => sim.world.lock().fault(&sim),
            Event::Inject(case) => sim.world.lock().inject(&sim, case),
            Event::Revise => self.revise(),
            Event::Check => {
                sim.world.lock().check_states(now);
                sim.schedule.event_at(now + CHECK_INTERVAL, Event::Check);
            }
            Event::BackUp => {
                sim.world.lock().hub.back_up();
                sim.schedule.event_at(now + 60 * SEC, Event::BackUp);
            }
            Event::Heal => sim.world.lock().heal(&sim),
            Event::CalmChange => self.quiet.calm_change(&sim),
            Event::Settled => self.quiet.settled(&mut sim.world.lock(), now),
            Event::End => {
                self.quiet.ended(&mut sim.world.lock(), now);
                return false;
            }
        }
        true
    }

    fn revise(&self) {
        let sim = &self.sim;
        let now = sim.now.get();
        let mut world = sim.world.lock();
        if world.is_healed {
            return;
        }
        let keys: Vec<u32> = world.hub.releases.keys().copied().collect();
        if let Some(key) = world.rng.pick(&keys)
            && let Some(release) = world.hub.change(key, |release| release.revision += 1)
        {
            world.trace(now, None, || format!("release {key} wants revision {}", release.revision));
            world.tell_watchers(sim, &release, None);
        }
        let wait = 2 * world.plan.revise_interval;
        let wait = world.rng.between(SEC, wait);
        sim.schedule.event_at(now + wait, Event::Revise);
    }

    fn start(&mut self, node: usize) {
        let sim = Arc::clone(&self.sim);
        let now = sim.now.get();
        let mut world = sim.world.lock();
        if now < world.no_start_until {
            sim.schedule.event_at(world.no_start_until, Event::Start { node });
            return;
        }
        world.nodes[node].is_start_due = false;
        if world.nodes[node].process.is_some() || !world.nodes[node].is_wanted {
            return;
        }
        let pid = world.next_pid;
        world.next_pid += 1;
        let is_spare = !world.plan.wanted[node];
        if world.nodes[node].id.is_empty() || (!world.plan.has_stable_ids && !is_spare) {
            let id = world.next_id;
            world.next_id += 1;
            // Old and new ids come in any order.
            let letter = char::from(b'a' + u8::try_from(world.rng.below(26)).unwrap_or(0));
            world.nodes[node].id = format!("{letter}-{id}");
        }
        let at = &world.nodes[node];
        let mut settings = Settings::new(at.kind, at.id.clone(), boot_id(pid));
        settings.shards = at.other_shards.unwrap_or(world.plan.shards);
        settings.assignment = world.plan.assignment;
        settings.release_member_on_exit = world.plan.leaves_on_exit;
        if world.plan.leaves_on_exit {
            settings.observe_interval = convoy_shard::DEFAULT_OBSERVE_INTERVAL_WITH_RELEASE;
        }
        if let Some(seconds) = world.plan.observe_interval {
            settings.observe_interval = std::time::Duration::from_secs(seconds);
        }
        if at.other_durations {
            settings.lease_duration = std::time::Duration::from_secs(60);
            settings.renew_interval = std::time::Duration::from_secs(15);
        }
        if at.other_shards.is_some() && world.rng.chance(200) {
            settings.shards = world.plan.shards;
            settings.assignment = match world.plan.assignment {
                Assignment::Modulo => Assignment::Rendezvous,
                Assignment::Rendezvous => Assignment::Modulo,
            };
        }
        #[cfg(feature = "mutants")]
        {
            settings.mutant = world.plan.mutant;
        }
        let at = &world.nodes[node];
        let (kind, clock) = (at.kind, Arc::clone(&at.clock));
        let known = Known {
            kind,
            rate: clock.rate(),
            is_stopped: at.is_stopped(),
            is_blocked: at.are_workers_blocked,
            is_alive: true,
            hold_until: Nanos::try_from(settings.hold_until().as_nanos()).unwrap_or(Nanos::MAX),
            observe_interval: Nanos::try_from(settings.observe_interval.as_nanos()).unwrap_or(Nanos::MAX),
            woke: 0,
        };
        let line = format!("pid {pid} starts as {} with --shards {}", settings.replica_id, settings.shards);
        let process = Process::new(&sim, pid, node, clock, settings);
        world.check.processes.insert(pid, known);
        world.check.disrupted(kind, now);
        let watching =
            Watching { process: Arc::clone(&process), shards: BTreeSet::new(), broken: BTreeSet::new() };
        world.watches.insert(pid, watching);
        world.nodes[node].process = Some(Arc::clone(&process));
        world.trace(now, Some(node), || line);
        drop(world);
        for (index, future) in process.tasks().into_iter().enumerate() {
            let id = self.tasks.len();
            let waker = Waker::from(Arc::new(TaskWaker { id, ready: Arc::clone(&self.ready) }));
            self.tasks.push(Some(Task { pid, node, is_worker: index > 0, future, waker }));
            self.ready.0.lock().push(id);
        }
    }

    /// Ends a process at once. Answers with its node.
    fn kill(&mut self, pid: u64) -> Option<usize> {
        let is_of = |task: &mut Option<Task>| task.as_ref().is_some_and(|task| task.pid == pid);
        let places = self.tasks.iter_mut().filter_map(|task| is_of(task).then_some(task));
        let tasks: Vec<Task> = places.filter_map(Option::take).collect();
        let sim = Arc::clone(&self.sim);
        let now = sim.now.get();
        let mut world = sim.world.lock();
        // A suspended machine's process cannot be killed; it is when the machine goes on.
        let node =
            world.nodes.iter().position(|node| node.process.as_ref().is_some_and(|at| at.wire.pid == pid))?;
        if let Some(known) = world.check.processes.get_mut(&pid) {
            known.is_alive = false;
        }
        let watching = world.watches.remove(&pid);
        let process = world.nodes[node].process.take();
        if world.nodes[node].is_stopped() {
            world.resume_node(node, now);
        }
        world.nodes[node].are_workers_blocked = false;
        let kind = world.nodes[node].kind;
        world.check.disrupted(kind, now);
        world.trace(now, Some(node), || format!("pid {pid} is no more"));
        if world.nodes[node].is_wanted && !world.nodes[node].is_start_due {
            world.nodes[node].is_start_due = true;
            let wait = match world.rng.below(4) {
                0 => world.rng.between(10 * MS, SEC),
                1 | 2 => world.rng.between(SEC, 20 * SEC),
                _ => world.rng.between(20 * SEC, 90 * SEC),
            };
            sim.schedule.event_at(now + wait, Event::Start { node });
        }
        drop(world);
        // Futures and processes end outside of the lock, which they take.
        drop((tasks, watching, process));
        Some(node)
    }

    fn close(&mut self) -> Outcome {
        let tasks = std::mem::take(&mut self.tasks);
        drop(tasks);
        self.sim.schedule.clear();
        let mut world = self.sim.world.lock();
        let watches = std::mem::take(&mut world.watches);
        let processes: Vec<_> = world.nodes.iter_mut().map(|node| node.process.take()).collect();
        let mut stats = world.stats.clone();
        stats.target_writes = world.check.target_writes;
        stats.host_writes = world.check.host_writes;
        stats.left_over_by_stopped = world.check.left_over_by_stopped;
        stats.simulated = self.sim.now.get();
        let violation: Option<Violation> = world.check.violation.clone();
        let trace = world.lines.take().unwrap_or_default().into();
        drop(world);
        drop((watches, processes));
        Outcome {
            violation: violation.as_ref().map(|violation| {
                format!(
                    "{} at {:.3} s: {}",
                    violation.invariant,
                    violation.at as f64 / SEC as f64,
                    violation.message
                )
            }),
            invariant: violation.map(|violation| violation.invariant),
            stats,
            trace,
        }
    }
}
