//! A few replicas, one store of leases, and virtual time. Every step of every replica is followed by the
//! checks of [`super::checks`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::checks::Checks;
use super::clock::Clock;
use super::store::Store;
use crate::protocol::seen::Concluded;
use crate::{
    Action, ApiServerShards, Event, Lease, LeaseKey, Moment, Note, ProcessKind, Protocol, Settings, Standing,
    WriteError, WriteOp,
};

pub(super) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Up,
    Paused,
    Gone,
}

/// What the network does with the requests of one replica.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Network {
    /// Requests do not arrive.
    pub(super) is_cut: bool,
    /// Answers do not arrive.
    pub(super) loses_answers: bool,
    /// Added to each way.
    pub(super) delay: Duration,
    /// By how many versions a cached list is behind.
    pub(super) lag: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub(super) protocol: Protocol,
    pub(super) clock: Clock,
    pub(super) run: Run,
    pub(super) network: Network,
    /// What arrived while it was paused.
    inbox: VecDeque<Event>,
    /// Shards whose writes go on although it was told to drain them.
    pub(super) draining: BTreeMap<u32, u64>,
    pub(super) has_ended: bool,
}

impl Replica {
    pub(super) fn id(&self) -> &str {
        &self.protocol.settings().replica_id
    }

    /// Whether a write for the shard may start now.
    pub(super) fn may_start(&self, shard: u32, now: Duration) -> bool {
        let moment = self.clock.moment(now);
        self.protocol.held().get(&shard).is_some_and(|held| {
            !held.is_draining
                && held.acts_from.is_none_or(|from| from <= moment.monotonic)
                && moment.longest_since(&held.renewed) < self.protocol.write_until()
        }) && self.run != Run::Gone
    }

    /// Whether a write for the shard may be under way now.
    pub(super) fn may_hold(&self, shard: u32, now: Duration) -> bool {
        let moment = self.clock.moment(now);
        self.protocol.held().get(&shard).is_some_and(|held| {
            (!held.is_draining || self.draining.contains_key(&shard))
                && held.acts_from.is_none_or(|from| from <= moment.monotonic)
                && moment.longest_since(&held.renewed) < self.protocol.hold_until()
        }) && self.run != Run::Gone
    }
}

#[derive(Clone, Debug)]
enum Pending {
    Arrive { replica: usize, sent: Moment, sent_at: Duration, action: Box<Action> },
    Deliver { replica: usize, event: Event },
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Duration,
    pub(super) store: Store,
    pub(super) replicas: Vec<Replica>,
    queue: BTreeMap<(Duration, u64), Pending>,
    sequence: u64,
    /// Of each way of each request.
    pub(super) latency: Duration,
    /// How long the writes under way go on after a drain began.
    pub(super) drain: Duration,
    pub(super) notes: Vec<(Duration, usize, Note)>,
    /// What the API server says to those that ask it.
    pub(super) api_server: ApiServerShards,
    pub(super) checks: Checks,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            now: s(1000),
            store: Store::default(),
            replicas: Vec::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            latency: ms(5),
            drain: ms(100),
            notes: Vec::new(),
            api_server: ApiServerShards::Unsaid,
            checks: Checks::default(),
        }
    }

    pub(super) fn settings(id: &str, shards: u32) -> Settings {
        let mut settings = Settings::new(ProcessKind::ControllerManager, id, "");
        settings.shards = shards.try_into().unwrap();
        settings
    }

    /// Starts a process; its boot id is its index.
    pub(super) fn start(&mut self, settings: Settings) -> usize {
        self.start_with(settings, Clock::new(self.now, 1000))
    }

    pub(super) fn start_with(&mut self, mut settings: Settings, clock: Clock) -> usize {
        let index = self.replicas.len();
        settings.boot_id = format!("boot-{index}");
        settings.check().unwrap();
        self.replicas.push(Replica {
            protocol: Protocol::new(settings, clock.moment(self.now)),
            clock,
            run: Run::Up,
            network: Network::default(),
            inbox: VecDeque::new(),
            draining: BTreeMap::new(),
            has_ended: false,
        });
        self.step(index, Event::Tick);
        index
    }

    /// N replicas `r-0` … with the default settings, that have come to rest.
    pub(super) fn at_rest(replicas: usize, shards: u32) -> Self {
        let mut world = Self::new();
        for index in 0..replicas {
            world.start(Self::settings(&format!("r-{index}"), shards));
        }
        world.run_for(s(60));
        world.assert_covered();
        world
    }

    pub(super) fn kill(&mut self, replica: usize) {
        self.replicas[replica].run = Run::Gone;
        Checks::look(self);
    }

    pub(super) fn pause(&mut self, replica: usize) {
        if self.replicas[replica].run == Run::Up {
            self.replicas[replica].run = Run::Paused;
        }
    }

    pub(super) fn resume(&mut self, replica: usize) {
        if self.replicas[replica].run != Run::Paused {
            return;
        }
        self.replicas[replica].run = Run::Up;
        while let Some(event) = self.replicas[replica].inbox.pop_front() {
            self.step(replica, event);
        }
        self.step(replica, Event::Tick);
    }

    pub(super) fn stop(&mut self, replica: usize) {
        self.step(replica, Event::Stop);
    }

    pub(super) fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    pub(super) fn run_until(&mut self, end: Duration) {
        let mut steps = 0_u32;
        while let Some(at) = self.next_instant().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.one();
            steps += 1;
            assert!(steps < 2_000_000, "a busy loop at {:?}", self.now);
        }
        self.now = end;
        Checks::look(self);
    }

    /// Runs until the condition holds; how long that took. Ends the test when it does not within `most`.
    pub(super) fn run_until_that(&mut self, most: Duration, condition: impl Fn(&World) -> bool) -> Duration {
        let (start, end) = (self.now, self.now + most);
        while !condition(self) {
            let next = self.next_instant().unwrap_or(end).min(self.now + ms(500)).max(self.now);
            assert!(next <= end, "not within {most:?}: {:#?}", self.summary());
            self.now = next;
            if self.next_instant().is_some_and(|at| at <= self.now) {
                self.one();
            }
        }
        self.now - start
    }

    fn next_instant(&self) -> Option<Duration> {
        let queued = self.queue.keys().next().map(|(at, _)| *at);
        let woken = (0..self.replicas.len()).filter_map(|replica| self.wakeup(replica)).min();
        queued.into_iter().chain(woken).min()
    }

    fn wakeup(&self, replica: usize) -> Option<Duration> {
        let replica = &self.replicas[replica];
        (replica.run == Run::Up && !replica.has_ended)
            .then(|| replica.clock.when(replica.protocol.next_wakeup(), self.now))
            .flatten()
    }

    fn one(&mut self) {
        if let Some((key, _)) = self.queue.first_key_value()
            && key.0 <= self.now
        {
            let key = *key;
            let Some(pending) = self.queue.remove(&key) else { return };
            match pending {
                Pending::Arrive { replica, sent, sent_at, action } => {
                    self.arrive(replica, sent, sent_at, &action);
                }
                Pending::Deliver { replica, event } => self.step(replica, event),
            }
            return;
        }
        let due = (0..self.replicas.len()).find(|r| self.wakeup(*r).is_some_and(|at| at <= self.now));
        if let Some(replica) = due {
            self.step(replica, Event::Tick);
        }
    }

    pub(super) fn step(&mut self, index: usize, event: Event) {
        let replica = &mut self.replicas[index];
        match replica.run {
            Run::Gone => return,
            Run::Paused => return replica.inbox.push_back(event),
            Run::Up => {}
        }
        if let Event::Drained { shard, epoch } = &event
            && replica.draining.get(shard) == Some(epoch)
        {
            replica.draining.remove(shard);
        }
        let moment = replica.clock.moment(self.now);
        // What was concluded before must be what would be concluded now.
        let mut anew = replica.protocol.clone();
        anew.concluded = Concluded::default();
        let expected = anew.step(event.clone(), moment);
        anew.concluded = Concluded::default();
        let actions = replica.protocol.step(event, moment);
        assert_eq!((&actions, &replica.protocol), (&expected, &anew));
        assert_eq!(replica.protocol.next_wakeup(), anew.next_wakeup());
        let held = replica.protocol.held();
        // A lost shard's writes are given up at once.
        replica.draining.retain(|shard, epoch| held.get(shard).is_some_and(|held| held.epoch == *epoch));
        for action in actions {
            self.act(index, moment, action);
        }
        Checks::stepped(self, index, moment);
    }

    fn act(&mut self, index: usize, sent: Moment, action: Action) {
        match action {
            Action::Note(note) => {
                Checks::noted(self, index, &note);
                self.notes.push((self.now, index, note));
            }
            Action::End => self.replicas[index].has_ended = true,
            Action::Drain { shard, epoch } => {
                self.replicas[index].draining.insert(shard, epoch);
                self.push(
                    self.drain,
                    Pending::Deliver { replica: index, event: Event::Drained { shard, epoch } },
                );
            }
            Action::List { .. } | Action::Write { .. } | Action::AskApiServer => {
                if let Action::Write { op, lease } = &action {
                    Checks::written(self, index, *op, lease);
                }
                let network = self.replicas[index].network;
                let sent_at = self.now;
                if network.is_cut {
                    self.time_out(index, sent_at, &action, sent);
                } else {
                    let arrive = Pending::Arrive { replica: index, sent, sent_at, action: Box::new(action) };
                    self.push(self.latency + network.delay, arrive);
                }
            }
        }
    }

    fn push(&mut self, delay: Duration, pending: Pending) {
        self.sequence += 1;
        self.queue.insert((self.now + delay, self.sequence), pending);
    }

    fn time_out(&mut self, replica: usize, sent_at: Duration, action: &Action, sent: Moment) {
        let event = match action {
            Action::Write { lease, .. } => {
                Event::Written { key: lease.key.clone(), sent, outcome: Err(WriteError::Failed) }
            }
            Action::AskApiServer => Event::ApiServerCounts(ApiServerShards::NoAnswer),
            _ => Event::ListFailed,
        };
        let deadline = self.replicas[replica].protocol.settings().request_deadline();
        let at = (sent_at + deadline).max(self.now);
        self.sequence += 1;
        self.queue.insert((at, self.sequence), Pending::Deliver { replica, event });
    }

    /// A request arrives at the store, perhaps after its sender gave it up or died.
    fn arrive(&mut self, index: usize, sent: Moment, sent_at: Duration, action: &Action) {
        let network = self.replicas[index].network;
        let event = match action {
            Action::Write { op, lease } => {
                let outcome = self.store.write(*op, lease, self.now, &mut self.checks);
                Event::Written { key: lease.key.clone(), sent, outcome }
            }
            Action::List { is_consistent } => {
                let lag = if *is_consistent { 0 } else { network.lag };
                let (version, leases) = self.store.list(lag);
                Event::Listed { sent, is_consistent: *is_consistent, version, leases }
            }
            Action::AskApiServer => Event::ApiServerCounts(self.api_server),
            Action::Note(_) | Action::Drain { .. } | Action::End => return,
        };
        let back = self.latency + network.delay;
        let deadline = self.replicas[index].protocol.settings().request_deadline();
        if network.loses_answers || self.now + back > sent_at + deadline {
            self.time_out(index, sent_at, action, sent);
        } else {
            self.push(back, Pending::Deliver { replica: index, event });
        }
    }

    // What tests look at and do by hand.

    pub(super) fn shards_of(&self, replica: usize) -> Vec<u32> {
        let replica = &self.replicas[replica];
        replica.protocol.held().keys().copied().filter(|shard| replica.may_start(*shard, self.now)).collect()
    }

    /// Who may start writes for the shard.
    pub(super) fn owner(&self, shard: u32) -> Option<usize> {
        (0..self.replicas.len())
            .find(|r| self.replicas[*r].run == Run::Up && self.replicas[*r].may_start(shard, self.now))
    }

    pub(super) fn is_covered(&self) -> bool {
        let live = self.replicas.iter().find(|replica| replica.run == Run::Up && !replica.has_ended);
        live.is_some_and(|live| {
            (0..live.protocol.settings().shards.get()).all(|shard| self.owner(shard).is_some())
        })
    }

    #[track_caller]
    pub(super) fn assert_covered(&self) {
        assert!(self.is_covered(), "{:#?}", self.summary());
    }

    pub(super) fn standing(&self, replica: usize) -> Standing {
        let replica = &self.replicas[replica];
        replica.protocol.standing(replica.clock.moment(self.now))
    }

    pub(super) fn lease(&self, key: &LeaseKey) -> Option<Arc<Lease>> {
        self.store.leases.get(key).cloned()
    }

    pub(super) fn shard_lease(&self, shard: u32) -> Arc<Lease> {
        self.lease(&LeaseKey::Shard(shard)).unwrap()
    }

    pub(super) fn member(&self, id: &str) -> Option<Arc<Lease>> {
        self.lease(&LeaseKey::Member(id.to_owned()))
    }

    /// Changes or makes a lease as a person would.
    pub(super) fn edit(&mut self, key: &LeaseKey, change: impl FnOnce(&mut Lease)) {
        let Some(lease) = self.store.leases.get(key) else { return };
        let mut lease = Lease::clone(lease);
        change(&mut lease);
        self.store.write(WriteOp::Update, &lease, self.now, &mut self.checks).unwrap();
    }

    /// Makes a lease as a person, or a backup, would.
    pub(super) fn make(&mut self, lease: &Lease) {
        self.store.write(WriteOp::Create, lease, self.now, &mut self.checks).unwrap();
    }

    pub(super) fn delete_all(&mut self) {
        for key in self.store.leases.keys().cloned().collect::<Vec<_>>() {
            self.delete(&key);
        }
    }

    pub(super) fn delete(&mut self, key: &LeaseKey) {
        self.store.remove(key, self.now);
    }

    pub(super) fn notes_of(&self, replica: usize) -> Vec<&Note> {
        self.notes.iter().filter(|(_, index, _)| *index == replica).map(|(_, _, note)| note).collect()
    }

    pub(super) fn summary(&self) -> Vec<String> {
        let replicas = self.replicas.iter().enumerate().map(|(index, replica)| {
            let held: Vec<_> = replica
                .protocol
                .held()
                .iter()
                .map(|(s, h)| (s, h.epoch, h.is_draining, h.acts_from))
                .collect();
            format!(
                "{:?} {} {:?} {:?} held {held:?} acting {:?} wanted {:?}",
                self.now,
                replica.id(),
                replica.run,
                self.standing(index),
                self.shards_of(index),
                replica.protocol.wanted()
            )
        });
        let notes = self.notes.iter().rev().filter(|(_, _, n)| !matches!(n, Note::Renewed { .. })).take(30);
        let notes: Vec<_> = notes.map(|note| format!("{note:?}")).collect();
        let leases = self.store.leases.values().map(|l| {
            format!("{:?} {:?} {:?} e{} v{}", l.key, l.holder, l.boot_id, l.transitions, l.resource_version)
        });
        replicas.chain(leases).chain(notes.into_iter().rev()).collect()
    }
}
