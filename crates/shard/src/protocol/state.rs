use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::seen::{Concluded, SeenLeases, Span};
use super::{Action, ApiServerShards, Event, LostBecause, Note, Standing};
use crate::settings::{hold_until, write_until};
use crate::{Lease, LeaseKey, Moment, Settings};

/// Member leases are collected after so many durations without a change.
pub(super) const COLLECT_AFTER_DURATIONS: u32 = 10;
/// `spec.leaseTransitions` is an `int32`: an epoch that somebody wrote there by hand can be so high that
/// none is higher.
pub const LAST_EPOCH: u64 = i32::MAX as u64;

/// A lease as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) lease: Arc<Lease>,
    /// When this version was first seen here.
    pub(super) changed: Moment,
    /// Whether the store went back to this version: who holds the lease now may know a later one.
    pub(super) is_doubtful: bool,
    /// Whether it had ended before others' silence was counted anew, and has not changed since.
    pub(super) had_ended: bool,
}

/// A lease that is known to have been deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Deleted {
    pub(super) uid: String,
    pub(super) at: Moment,
}

/// A shard that this replica holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The term.
    pub epoch: u64,
    /// Before the last successful renewal was sent: of the shard's lease or of the member lease, what is
    /// earlier.
    pub renewed: Moment,
    /// On the monotonic clock: before this nothing is done for the shard, because a holder may not know
    /// yet that its lease was deleted.
    pub acts_from: Option<Duration>,
    /// On the monotonic clock: before this it is not handed over to balance. Who takes over from one that died acts
    /// at once; handed on unused, the shard would have no owner for an observe interval more.
    pub kept_until: Duration,
    /// Whether no new write may start, because the shard is handed over.
    pub is_draining: bool,
    /// Whether the writes have ended.
    pub is_drained: bool,
}

impl Held {
    /// A shard that is acted for from now on.
    pub fn new(epoch: u64, renewed: Moment) -> Self {
        Self {
            epoch,
            renewed,
            acts_from: None,
            kept_until: Duration::ZERO,
            is_draining: false,
            is_drained: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Announces itself.
    Joining,
    /// Takes its part.
    Acting,
    /// Gives up its shards.
    Stopping,
    /// Over.
    Ended,
}

/// After so many observe intervals everybody has noticed that the API server was restored from a backup.
///
/// While it was being restored it answered nobody. Who acquired a lease after the backup finds it free, or another's,
/// with the first reads afterwards. Who sees it so cannot know that somebody had acquired it, and leaves it for so long.
pub(super) const RESTORE_IS_NOTICED: u32 = 2;

/// What a write that is under way is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Announce,
    Renew,
    Acquire(super::Acquired),
    Release,
    Leave,
    Collect,
}

/// The state of one replica. See the module's text for the rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    pub(super) settings: Settings,
    pub(super) phase: Phase,
    /// On the monotonic clock: the last step.
    pub(super) stepped: Duration,
    pub(super) own_key: LeaseKey,
    pub(super) seen: SeenLeases,
    pub(super) concluded: Concluded,
    /// On the monotonic clock: when the last answer to a read came.
    pub(super) heard: Option<Duration>,
    pub(super) is_listing: bool,
    pub(super) has_failed_to_list: bool,
    /// On the monotonic clock: from when on leases are acquired; see [`RESTORE_IS_NOTICED`].
    pub(super) acquires_from: Duration,
    /// A read that is wanted at once; whether a cache's answer will not do.
    pub(super) wants_list: Option<bool>,
    pub(super) next_list: Duration,
    pub(super) next_renew: Duration,
    /// Renewals of this interval that have not succeeded yet.
    pub(super) owed: BTreeSet<LeaseKey>,
    pub(super) writing: BTreeMap<LeaseKey, Purpose>,
    pub(super) retry_at: BTreeMap<LeaseKey, Duration>,
    pub(super) held: BTreeMap<u32, Held>,
    /// Of held shards: before the last successful renewal of the shard's own lease was sent.
    pub(super) shards_renewed: BTreeMap<u32, Moment>,
    /// Of leases that this process created: on the monotonic clock, when they may be acted on.
    pub(super) quarantine: BTreeMap<u32, Duration>,
    /// Leases that this process deleted, until a read confirms it.
    pub(super) deleted: BTreeMap<LeaseKey, Deleted>,
    /// The resourceVersion of the newest list.
    pub(super) list_version: u64,
    pub(super) wanted: BTreeSet<u32>,
    /// The latest epochs that were seen on a lease or that somebody is known to have acted in.
    pub(super) least_epochs: BTreeMap<u32, u64>,
    /// Before the last successful write of the member lease was sent.
    pub(super) member_renewed: Option<Moment>,
    /// When the announcement was known to be stored; a consistent read sent after it decides whether to act.
    pub(super) announced: Option<Moment>,
    /// A foreign process's writing of the own member lease, and since when it is unchanged.
    pub(super) foreign: Option<(Option<String>, Option<Duration>, Moment)>,
    /// Why this replica does not act.
    pub(super) disagreement: Option<String>,
    /// On the monotonic clock: when the announcement is tried again after a disagreement.
    pub(super) announce_at: Duration,
    /// How often this replica announced itself and then met a peer that disagrees.
    pub(super) withdrawals: u32,
    /// For how long a lease of this replica is acted on: see [`Protocol::hold_until`].
    pub(super) lasts: Duration,
    /// Whether this process ever wrote its member lease.
    pub(super) was_member: bool,
    pub(super) warned_of: BTreeSet<String>,
    /// What the API server said last; [`ApiServerShards::NoAnswer`] until it did.
    pub(super) api_server: ApiServerShards,
    pub(super) is_asking: bool,
    /// On the monotonic clock: when it is asked.
    pub(super) next_ask: Option<Duration>,
    pub(super) has_left: bool,
    /// How often the member lease could not be deleted because it had changed.
    pub(super) conflicts_on_leaving: u32,
    pub(super) has_twin: bool,
}

impl Protocol {
    /// A replica that has just started.
    pub fn new(settings: Settings, now: Moment) -> Self {
        let asks = settings.asks_api_server;
        let lasts = settings.lease_duration;
        Self {
            own_key: LeaseKey::Member(settings.replica_id.clone()),
            settings,
            phase: Phase::Joining,
            stepped: now.monotonic,
            seen: SeenLeases::default(),
            concluded: Concluded::default(),
            heard: None,
            is_listing: false,
            has_failed_to_list: false,
            acquires_from: Duration::ZERO,
            wants_list: Some(true),
            next_list: now.monotonic,
            next_renew: now.monotonic,
            owed: BTreeSet::new(),
            writing: BTreeMap::new(),
            retry_at: BTreeMap::new(),
            held: BTreeMap::new(),
            shards_renewed: BTreeMap::new(),
            quarantine: BTreeMap::new(),
            deleted: BTreeMap::new(),
            list_version: 0,
            wanted: BTreeSet::new(),
            least_epochs: BTreeMap::new(),
            member_renewed: None,
            announced: None,
            foreign: None,
            disagreement: None,
            announce_at: now.monotonic,
            withdrawals: 0,
            lasts,
            was_member: false,
            warned_of: BTreeSet::new(),
            api_server: if asks { ApiServerShards::NoAnswer } else { ApiServerShards::Unsaid },
            is_asking: false,
            next_ask: asks.then_some(now.monotonic),
            has_left: false,
            conflicts_on_leaving: 0,
            has_twin: false,
        }
    }

    /// What this replica goes by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes in what happened, and answers with what to do. The driver first makes [`Protocol::held`]
    /// known to the guards, then acts.
    pub fn step(&mut self, event: Event, now: Moment) -> Vec<Action> {
        let mut actions = Vec::new();
        self.stepped = now.monotonic;
        if self.phase == Phase::Ended {
            return actions;
        }
        match event {
            Event::Tick => {}
            Event::Listed { sent, is_consistent, version, leases } => {
                self.is_listing = false;
                if self.has_failed_to_list && !self.settings.is_sole {
                    self.acquires_from = now.monotonic + self.settings.observe_interval * RESTORE_IS_NOTICED;
                }
                self.has_failed_to_list = false;
                let heard = self.heard.replace(now.monotonic);
                let is_after_outage =
                    heard.is_some_and(|heard| sent.monotonic.saturating_sub(heard) >= self.settings.outage());
                self.take_in_list(sent, is_consistent, version, &leases, now, &mut actions);
                if is_after_outage {
                    self.doubt_others(now);
                }
                self.decide_to_act(sent, is_consistent, now, &mut actions);
            }
            Event::ListFailed => {
                self.is_listing = false;
                self.has_failed_to_list = true;
                // A consistent answer may have been waited for.
                self.wants_list = Some(true);
                self.next_list = now.monotonic + self.settings.retry_interval();
            }
            Event::Written { key, sent, outcome } => {
                self.take_in_write(key, sent, outcome, now, &mut actions);
            }
            Event::Drained { shard, epoch } => {
                if let Some(held) = self.held.get_mut(&shard).filter(|held| held.epoch == epoch) {
                    held.is_drained = held.is_draining;
                }
            }
            Event::EpochSeen { shard, epoch } => {
                let epoch = epoch.min(LAST_EPOCH);
                self.note_epoch(shard, epoch);
                if self.held.get(&shard).is_some_and(|held| held.epoch < epoch) {
                    if self.phase == Phase::Acting && !self.wanted.contains(&shard) {
                        // It would not be acquired anew, and its lease would have to end.
                        self.give_up(shard, now, &mut actions);
                    } else {
                        self.lose(shard, LostBecause::OlderEpoch, &mut actions);
                    }
                }
            }
            Event::ApiServerCounts(answer) => self.take_in_count(answer, now, &mut actions),
            Event::Stop => {
                if matches!(self.phase, Phase::Joining | Phase::Acting) {
                    self.phase = Phase::Stopping;
                }
            }
        }
        self.advance(now, &mut actions);
        actions
    }

    /// The shards that this replica holds. Whether a write may start follows from it and the clocks
    /// alone: see [`Protocol::write_until`] and [`Protocol::hold_until`].
    pub fn held(&self) -> &BTreeMap<u32, Held> {
        &self.held
    }

    /// From before the last successful renewal was sent until new writes stop: as [`Settings::write_until`], but by the
    /// duration of a peer whose is shorter.
    pub fn write_until(&self) -> Duration {
        write_until(self.lasts)
    }

    /// From before the last successful renewal was sent until writes under way are given up: as
    /// [`Settings::hold_until`], but by the duration of a peer whose is shorter.
    pub fn hold_until(&self) -> Duration {
        hold_until(self.lasts)
    }

    /// The shards that are this replica's by the division.
    pub fn wanted(&self) -> &BTreeSet<u32> {
        &self.wanted
    }

    /// All leases as last seen, and for how long each has not changed.
    pub fn seen(&self, now: Moment) -> impl Iterator<Item = (&Arc<Lease>, Duration)> {
        self.seen.values().map(move |seen| (&seen.lease, now.shortest_since(&seen.changed)))
    }

    /// How this replica stands.
    pub fn standing(&self, now: Moment) -> Standing {
        if matches!(self.phase, Phase::Joining | Phase::Acting)
            && let Some(message) = self.disagreement_with_api_server()
        {
            return Standing::Waiting { message };
        }
        match self.phase {
            Phase::Joining | Phase::Acting
                if self.was_member && self.disagreement.is_none() && !self.is_live(now) =>
            {
                Standing::CutOff {
                    message:
                        "the API server has not taken this replica's renewals for as long as its leases last"
                            .to_owned(),
                }
            }
            Phase::Joining => match (&self.disagreement, &self.foreign) {
                (Some(message), _) => Standing::Waiting { message: message.clone() },
                (None, Some(_)) => Standing::Joining {
                    message: format!(
                        "the lease of an earlier process with --replica-id {} has not ended yet",
                        self.settings.replica_id
                    ),
                },
                (None, None) if self.heard.is_some() && !self.has_api_server_answered() => {
                    Standing::Joining {
                        message: "the API server has not said yet how many shards it counts".to_owned(),
                    }
                }
                (None, None) => {
                    Standing::Joining { message: "the leases were not read and written yet".to_owned() }
                }
            },
            Phase::Acting => {
                let acts = |shard: &&u32| {
                    self.held.get(shard).is_some_and(|held| {
                        !held.is_draining
                            && held.acts_from.is_none_or(|from| from <= now.monotonic)
                            && now.longest_since(&held.renewed) < self.write_until()
                    })
                };
                Standing::Acting { wanted: self.wanted.len(), owned: self.wanted.iter().filter(acts).count() }
            }
            Phase::Stopping => Standing::Stopping,
            Phase::Ended => Standing::Ended { has_twin: self.has_twin },
        }
    }

    /// Does what time and state ask for.
    fn advance(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.settle_deadlines();
        self.drop_what_ended(now, actions);
        if now.monotonic >= self.next_renew {
            self.begin_interval(now, actions);
        }
        match self.phase {
            Phase::Joining => self.join(now, actions),
            Phase::Acting => {
                self.renew_member(now, actions);
                if self.phase == Phase::Acting && self.disagreement_with_api_server().is_some() {
                    self.warn_of_peers(now, actions);
                    self.withdraw(now, actions);
                } else if self.phase == Phase::Acting {
                    self.look_at_peers(now, actions);
                    self.tend_shards(now, actions);
                }
            }
            Phase::Stopping => self.stop(now, actions),
            Phase::Ended => {}
        }
        if self.phase != Phase::Ended {
            self.ask_when_due(now, actions);
            self.list_when_due(now, actions);
        }
        if self.ends_of_members().is_none() {
            self.concluded.ends = Some(Span::new(&self.seen, self.stepped, self.member_ends()));
        }
    }

    fn begin_interval(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.next_renew += self.settings.renew_interval;
        if self.next_renew <= now.monotonic {
            // The process hung: the missed intervals are not made up for.
            self.next_renew = now.monotonic + self.settings.renew_interval;
        }
        if self.phase != Phase::Joining {
            self.owed.insert(self.own_key.clone());
        }
        self.owed.extend(self.held.keys().map(|shard| LeaseKey::Shard(*shard)));
        self.wants_list = Some(true);
        if self.settings.asks_api_server {
            self.next_ask = Some(now.monotonic);
        }
        self.collect_dead_members(now, actions);
    }

    fn list_when_due(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.is_listing || (self.wants_list.is_none() && now.monotonic < self.next_list) {
            return;
        }
        if self.has_failed_to_list && now.monotonic < self.next_list {
            return;
        }
        let is_consistent = self.wants_list.take().unwrap_or(false) || self.heard.is_none();
        self.is_listing = true;
        self.next_list = now.monotonic + self.settings.observe_interval;
        actions.push(Action::List { is_consistent });
    }

    pub(super) fn lose(&mut self, shard: u32, because: LostBecause, actions: &mut Vec<Action>) {
        let Some(held) = self.held.remove(&shard) else { return };
        self.shards_renewed.remove(&shard);
        self.owed.remove(&LeaseKey::Shard(shard));
        actions.push(Action::Note(Note::Lost { shard, epoch: held.epoch, because }));
    }

    pub(super) fn lose_all(&mut self, because: &LostBecause, actions: &mut Vec<Action>) {
        let shards: Vec<u32> = self.held.keys().copied().collect();
        for shard in shards {
            self.lose(shard, because.clone(), actions);
        }
    }

    /// A shard is held no longer than the member lease: see [`Held::renewed`].
    fn settle_deadlines(&mut self) {
        for (shard, held) in &mut self.held {
            if let (Some(own), Some(member)) = (self.shards_renewed.get(shard), self.member_renewed) {
                held.renewed = own.earlier(&member);
            }
        }
    }

    pub(super) fn note_epoch(&mut self, shard: u32, epoch: u64) {
        let least = self.least_epochs.entry(shard).or_default();
        *least = epoch.max(*least);
    }

    /// Starts anew with the announcement, because peers may have acted as if this replica were not there.
    pub(super) fn rejoin(&mut self) {
        self.phase = Phase::Joining;
        self.announced = None;
        self.want_none();
        self.owed.remove(&self.own_key);
        self.wants_list = Some(true);
    }

    fn drop_what_ended(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let hold_until = self.hold_until();
        self.quarantine.retain(|_, until| *until > now.monotonic);
        let ended: Vec<u32> = self
            .held
            .iter()
            .filter(|(_, held)| now.longest_since(&held.renewed) >= hold_until)
            .map(|(shard, _)| *shard)
            .collect();
        for shard in ended {
            self.lose(shard, LostBecause::Deadline, actions);
        }
        if self.phase == Phase::Acting && !self.is_live(now) {
            self.rejoin();
        }
    }

    /// Whether a write may be sent for the lease now.
    pub(super) fn may_write(&self, key: &LeaseKey, now: Moment) -> bool {
        !self.writing.contains_key(key) && self.retry_at.get(key).is_none_or(|at| *at <= now.monotonic)
    }

    pub(super) fn want_none(&mut self) {
        self.wanted.clear();
        (self.concluded.division, self.concluded.members) = (None, None);
    }

    /// When [`Event::Tick`] is due, on the monotonic clock.
    pub fn next_wakeup(&self) -> Duration {
        let mut next = self.next_renew;
        // What was due at the last step was acted on then.
        let last = self.stepped;
        let mut consider = |at: Duration| {
            if at > last {
                next = next.min(at);
            }
        };
        if !self.is_listing {
            consider(self.next_list);
        }
        if !self.is_asking {
            self.next_ask.into_iter().for_each(&mut consider);
        }
        for (key, at) in &self.retry_at {
            if !self.writing.contains_key(key) {
                consider(*at);
            }
        }
        let hold_until = self.hold_until();
        for held in self.held.values() {
            consider(held.renewed.monotonic + hold_until);
            held.acts_from.into_iter().for_each(&mut consider);
            consider(held.kept_until);
        }
        if let (Phase::Acting, Some(sent)) = (self.phase, self.member_renewed) {
            consider(sent.monotonic + hold_until);
        }
        consider(self.acquires_from);
        if self.disagreement.is_some() {
            consider(self.announce_at);
        }
        if let (Some((_, _, since)), Some(seen)) = (&self.foreign, self.seen.get(&self.own_key)) {
            consider(since.monotonic + self.duration_of(&seen.lease));
        }
        self.consider_ends(&mut consider);
        next
    }

    /// The instants at which others' leases end, as far as that would make this replica act.
    fn consider_ends(&self, consider: &mut impl FnMut(Duration)) {
        #[cfg(feature = "mutants")]
        if self.settings.has(crate::Mutant::TimerMissing) {
            return;
        }
        match self.ends_of_members() {
            Some(ends) => ends.until.into_iter().for_each(&mut *consider),
            None => self.member_ends().for_each(&mut *consider),
        }
        if self.phase == Phase::Joining && self.announced.is_none() {
            self.leases_of_unannounced().for_each(|seen| consider(self.end_of(seen)));
        }
        for shard in self.wanted.iter().filter(|shard| !self.held.contains_key(shard)) {
            if let Some(seen) = self.seen.get(&LeaseKey::Shard(*shard)) {
                consider(self.end_of(seen));
            }
        }
    }

    /// On the monotonic clock: when a lease ends if it is not seen to change.
    pub(super) fn end_of(&self, seen: &Seen) -> Duration {
        seen.changed.monotonic + self.duration_of(&seen.lease)
    }

    /// When the leases of other members end.
    fn member_ends(&self) -> impl Iterator<Item = Duration> {
        self.seen.iter().filter_map(|(key, seen)| {
            let is_others = matches!(key, LeaseKey::Member(id) if *id != self.settings.replica_id);
            (is_others && seen.lease.holder.is_some()).then(|| self.end_of(seen))
        })
    }

    /// The next of [`Protocol::member_ends`] after the last step, when that is known.
    fn ends_of_members(&self) -> Option<Span> {
        self.concluded.ends.filter(|ends| ends.contains(&self.seen, self.stepped))
    }
}
