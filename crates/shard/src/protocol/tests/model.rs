//! An exhaustive search over [`Protocol::step`] itself.
//!
//! Three processes, three shards, leases of 6 s renewed and read every 2 s, time in steps of 1 s. The search
//! starts where the first processes are at rest and covers, up to its horizon, *every* placement of at most
//! so many faults, on any message and in any order:
//!
//! - a request is lost; or stored with its answer lost; or stored only after its sender gave it up, later
//!   than a whole lease; or served after all others of its instant;
//! - the writes of a shard that is handed over go on for longer;
//! - one process crashes, between any two messages.
//!
//! In each reachable state: at most one process may have writes of a shard under way (I1), a shard is released
//! only after its writes ended (I7), epochs rise with each gain (I5), no two processes with one id (I8) or with
//! different `--shards` (I9) act, and no member lease is deleted within ten durations (I10). Without faults
//! messages of one instant are served in the order of the processes. Not covered: faults beyond the number,
//! times beyond the horizon, clocks that differ (see `machine` for those).
//!
//! Every test run places one fault and a crash within 12 s, `CONVOY_MODEL=large` two faults and a crash within 11 s.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use stateright::{Checker, Model, Property};

use super::checks::Checks;
use super::store::Store;
use crate::{
    Action, Event, Lease, LeaseKey, Moment, Note, ProcessKind, Protocol, Settings, WriteError, WriteOp,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    Request(Box<Action>, Moment),
    Answer(Event),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    due: u64,
    order: u64,
    process: usize,
    what: What,
}

impl Message {
    /// The lease that it writes, if it is a request to write one.
    fn write(&self) -> Option<&Lease> {
        match &self.what {
            What::Request(action, _) => match &**action {
                Action::Write { lease, .. } => Some(lease),
                _ => None,
            },
            What::Answer(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u64,
    processes: Vec<Option<Protocol>>,
    /// Shards whose writes are under way although they are handed over.
    draining: Vec<BTreeMap<u32, u64>>,
    leases: BTreeMap<LeaseKey, Arc<Lease>>,
    versions: (u64, u64),
    messages: Vec<Message>,
    order: u64,
    epochs: BTreeMap<u32, u64>,
    faults: u8,
    crashes: u8,
    takeovers: u8,
    broken: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Tick,
    Serve,
    Lose,
    LoseAnswer,
    Late,
    Last,
    Crash(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Third {
    Peer,
    Twin,
    OtherShards,
}

struct Replicas {
    third: Third,
    faults: u8,
    horizon: u64,
}

fn settings(id: &str, boot: usize, shards: u32) -> Settings {
    let mut settings = Settings::new(ProcessKind::ControllerManager, id, format!("boot-{boot}"));
    settings.shards = NonZeroU32::new(shards).unwrap();
    settings.lease_duration = Duration::from_secs(6);
    settings.renew_interval = Duration::from_secs(2);
    settings.observe_interval = Duration::from_secs(2);
    settings.check().unwrap();
    settings
}

impl State {
    fn moment(&self) -> Moment {
        Moment::at(Duration::from_secs(self.now))
    }

    fn start(&mut self, settings: Settings) {
        let moment = self.moment();
        self.processes.push(Some(Protocol::new(settings, moment)));
        self.draining.push(BTreeMap::new());
        self.step(self.processes.len() - 1, Event::Tick);
    }

    fn step(&mut self, index: usize, event: Event) {
        let moment = self.moment();
        let Some(protocol) = &mut self.processes[index] else { return };
        if let Event::Drained { shard, epoch } = &event
            && self.draining[index].get(shard) == Some(epoch)
        {
            self.draining[index].remove(shard);
        }
        let actions = protocol.step(event, moment);
        let held = protocol.held();
        self.draining[index].retain(|shard, epoch| held.get(shard).is_some_and(|held| held.epoch == *epoch));
        let is_over = actions.contains(&Action::End);
        if !is_over && protocol.next_wakeup() <= moment.monotonic {
            self.broken = Some("a wake-up that is past".to_owned());
        }
        for action in actions {
            match action {
                Action::Note(Note::Gained { shard, epoch, how }) => {
                    if self.epochs.insert(shard, epoch).is_some_and(|last| last >= epoch) {
                        self.broken = Some(format!("i5: {shard} in {epoch}"));
                    }
                    if matches!(how, crate::Acquired::TakenOver { .. }) {
                        self.takeovers = 1;
                    }
                }
                // The model's replicas ask nothing.
                Action::Note(_) | Action::End | Action::AskApiServer => {}
                Action::Drain { shard, epoch } => {
                    self.draining[index].insert(shard, epoch);
                    self.send(0, index, What::Answer(Event::Drained { shard, epoch }));
                }
                Action::List { .. } | Action::Write { .. } => {
                    if let Action::Write { op, lease } = &action {
                        match (&lease.key, op) {
                            (LeaseKey::Shard(shard), _)
                                if lease.holder.is_none() && self.draining[index].contains_key(shard) =>
                            {
                                self.broken = Some(format!("i7: {shard}"));
                            }
                            (_, WriteOp::Delete) => self.broken = Some(format!("i10: {:?}", lease.key)),
                            _ => {}
                        }
                    }
                    self.send(0, index, What::Request(Box::new(action), moment));
                }
            }
        }
        if is_over {
            self.processes[index] = None;
        }
        self.look();
    }

    fn look(&mut self) {
        let moment = self.moment();
        let mut acting = Vec::new();
        for (index, protocol) in self.processes.iter().enumerate() {
            let Some(protocol) = protocol else { continue };
            for (shard, held) in protocol.held() {
                let is_under_way = (!held.is_draining || self.draining[index].contains_key(shard))
                    && held.acts_from.is_none_or(|from| from <= moment.monotonic)
                    && moment.longest_since(&held.renewed) < protocol.settings().hold_until();
                if is_under_way {
                    acting.push((index, *shard, protocol.settings()));
                }
            }
        }
        let pairs = acting.iter().flat_map(|one| acting.iter().map(move |other| (one, other)));
        for ((one, shard, a), (other, same, b)) in pairs.filter(|(one, other)| one.0 < other.0) {
            let what = if shard == same {
                "i1"
            } else if a.replica_id == b.replica_id {
                "i8"
            } else if a.shards != b.shards {
                "i9"
            } else {
                continue;
            };
            self.broken = Some(format!("{what}: {one} and {other}, shards {shard} and {same}"));
        }
    }

    fn send(&mut self, after: u64, process: usize, what: What) {
        self.order += 1;
        self.messages.push(Message { due: self.now + after, order: self.order, process, what });
        self.messages.sort_by_key(|message| (message.due, message.order));
    }

    fn head(&self) -> Option<&Message> {
        self.messages.first().filter(|message| message.due <= self.now)
    }

    fn answer_of_failure(&mut self, message: &Message) {
        let event = match (message.write(), &message.what) {
            (Some(lease), What::Request(_, sent)) => {
                Event::Written { key: lease.key.clone(), sent: *sent, outcome: Err(WriteError::Failed) }
            }
            _ => Event::ListFailed,
        };
        self.send(1, message.process, What::Answer(event));
    }

    fn store(&mut self, action: &Action, sent: Moment) -> Event {
        match action {
            Action::Write { op, lease } => {
                let mut store = Store::of(self.leases.clone(), self.versions);
                let outcome = store.write(*op, lease, Duration::ZERO, &mut Checks::default());
                (self.leases, self.versions) = store.parts();
                Event::Written { key: lease.key.clone(), sent, outcome }
            }
            _ => Event::Listed {
                sent,
                is_consistent: true,
                version: self.versions.0,
                leases: self.leases.values().cloned().collect(),
            },
        }
    }

    fn serve(&mut self, step: Step) {
        let mut message = self.messages.remove(0);
        match (step, message.what.clone()) {
            (Step::Last, _) => {
                self.order += 1;
                message.order = self.order;
                self.messages.push(message);
                self.messages.sort_by_key(|message| (message.due, message.order));
            }
            (Step::Late, What::Answer(_)) => {
                message.due = self.now + 2;
                self.messages.push(message);
                self.messages.sort_by_key(|message| (message.due, message.order));
            }
            (_, What::Answer(event)) => self.step(message.process, event),
            (Step::Lose, What::Request(..)) => self.answer_of_failure(&message),
            (Step::Late, What::Request(..)) => {
                self.answer_of_failure(&message);
                // Its sender is told nothing more.
                self.send(7, usize::MAX, message.what);
            }
            (step, What::Request(action, sent)) => {
                let event = self.store(&action, sent);
                if message.process == usize::MAX {
                    return;
                }
                if step == Step::LoseAnswer {
                    self.answer_of_failure(&message);
                } else {
                    self.step(message.process, event);
                }
            }
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        let moment = self.moment();
        self.look();
        for index in 0..self.processes.len() {
            let is_due = |protocol: &Protocol| protocol.next_wakeup() <= moment.monotonic;
            if self.processes[index].as_ref().is_some_and(is_due) {
                self.step(index, Event::Tick);
            }
        }
    }
}

impl Model for Replicas {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            now: 100,
            processes: Vec::new(),
            draining: Vec::new(),
            leases: BTreeMap::new(),
            versions: (0, 0),
            messages: Vec::new(),
            order: 0,
            epochs: BTreeMap::new(),
            faults: self.faults,
            crashes: 1,
            takeovers: 0,
            broken: None,
        };
        let run = |state: &mut State, until: u64| {
            while state.now < until {
                match state.head() {
                    Some(_) => state.serve(Step::Serve),
                    None => state.tick(),
                }
            }
        };
        state.start(settings("r-0", 0, 3));
        state.start(settings("r-1", 1, 3));
        if self.third == Third::Peer {
            state.start(settings("r-2", 2, 3));
        }
        run(&mut state, 113);
        match self.third {
            Third::Peer => {}
            Third::Twin => state.start(settings("r-0", 2, 3)),
            Third::OtherShards => state.start(settings("r-2", 2, 4)),
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.broken.is_some() {
            return;
        }
        let live = (0..state.processes.len()).filter(|index| state.processes[*index].is_some());
        match state.head() {
            None => steps.push(Step::Tick),
            Some(message) => {
                steps.push(Step::Serve);
                if state.faults > 0 && message.process != usize::MAX {
                    match &message.what {
                        What::Request(..) if message.write().is_some() => {
                            steps.extend([Step::Lose, Step::LoseAnswer, Step::Late, Step::Last]);
                        }
                        What::Request(..) => steps.extend([Step::Lose, Step::Last]),
                        What::Answer(Event::Drained { .. }) => steps.push(Step::Late),
                        What::Answer(_) => {}
                    }
                }
            }
        }
        if state.crashes > 0 {
            steps.extend(live.map(Step::Crash));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Tick => state.tick(),
            Step::Crash(process) => {
                state.processes[process] = None;
                state.draining[process].clear();
                state.crashes -= 1;
            }
            Step::Serve => state.serve(step),
            Step::Lose | Step::LoseAnswer | Step::Late | Step::Last => {
                state.faults -= 1;
                state.serve(step);
            }
        }
        Some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.now <= 113 + self.horizon
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("i1, i5, i7, i8, i9, i10", |_, state: &State| state.broken.is_none()),
            Property::sometimes("a shard is taken over", |_, state: &State| state.takeovers > 0),
        ]
    }
}

fn explore(third: Third) {
    let is_large = std::env::var("CONVOY_MODEL").is_ok_and(|size| size == "large");
    let (faults, horizon) = if is_large { (2, 11) } else { (1, 12) };
    let model = Replicas { third, faults, horizon };
    let checker = model.checker().threads(2).spawn_dfs().join();
    if let Some(path) = checker.discovery("i1, i5, i7, i8, i9, i10") {
        let steps: Vec<String> = path
            .into_vec()
            .into_iter()
            .map(|(state, step)| format!("{} {step:?} of {:?} {:?}", state.now, state.head(), state.broken))
            .collect();
        panic!("{}", steps.join("\n"));
    }
    checker.assert_properties();
    println!(
        "{third:?}: {} states, {} of them different, depth {}, {faults} faults and a crash within {horizon} s",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth()
    );
}

#[test]
fn i1_i5_i7_i10_no_placement_of_faults_among_three_replicas_lets_two_act() {
    explore(Third::Peer);
}

#[test]
fn i8_no_placement_of_faults_lets_two_processes_with_one_id_act() {
    explore(Third::Twin);
}

#[test]
fn i9_no_placement_of_faults_lets_replicas_with_different_shards_act_together() {
    explore(Third::OtherShards);
}
