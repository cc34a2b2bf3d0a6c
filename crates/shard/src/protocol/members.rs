//! The own member lease, the peers, and the division of the shards.

use std::sync::Arc;
use std::time::Duration;

use super::seen::Span;
use super::state::{COLLECT_AFTER_DURATIONS, Phase, Protocol, Purpose, Seen};
use super::{Action, LostBecause, Note, WriteOp};
use crate::settings::{LONGEST_LEASE_DURATION, write_until};
use crate::{Lease, LeaseKey, MemberInfo, MemberState, Moment};

impl Protocol {
    /// For how long a lease counts after its last change: its own duration, when that is one that a
    /// replica may have written, and never less than ours.
    pub(super) fn duration_of(&self, lease: &Lease) -> Duration {
        let own = self.settings.lease_duration;
        let seconds = lease.duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
        let written = Duration::from_secs(seconds);
        if written <= LONGEST_LEASE_DURATION { written.max(own) } else { own }
    }

    pub(super) fn has_ended(&self, seen: &Seen, now: Moment) -> bool {
        #[cfg(feature = "mutants")]
        if self.settings.has(crate::Mutant::WallClockExpiry) {
            let renewed = seen.lease.renewed.unwrap_or_default();
            return renewed + self.duration_of(&seen.lease) <= now.wall;
        }
        self.settings.is_sole || now.shortest_since(&seen.changed) >= self.duration_of(&seen.lease)
    }

    /// Whether the lease was written by this very process.
    pub(super) fn is_mine(&self, lease: &Lease) -> bool {
        #[cfg(feature = "mutants")]
        if self.settings.has(crate::Mutant::SameIdAccepted) {
            return lease.holder.as_deref() == Some(&self.settings.replica_id);
        }
        lease.holder.as_deref() == Some(&self.settings.replica_id)
            && lease.boot_id.as_deref() == Some(&self.settings.boot_id)
    }

    /// Whether the own member lease was written by another process with the same id.
    fn is_anothers(&self, lease: &Lease) -> bool {
        let is_other = |boot_id: &String| *boot_id != self.settings.boot_id;
        lease.holder.is_some() && !self.is_mine(lease) && lease.boot_id.as_ref().is_some_and(is_other)
    }

    fn own_lease(&self, state: MemberState, now: Moment) -> Lease {
        let settings = &self.settings;
        let key = self.own_key.clone();
        let known = self.seen.get(&key).map(|seen| &seen.lease);
        let is_mine = known.is_some_and(|known| self.is_mine(known));
        Lease {
            uid: known.map(|known| known.uid.clone()).unwrap_or_default(),
            resource_version: known.map(|known| known.resource_version.clone()).unwrap_or_default(),
            holder: Some(settings.replica_id.clone()),
            boot_id: Some(settings.boot_id.clone()),
            duration_seconds: i64::try_from(settings.lease_duration.as_secs()).ok(),
            transitions: known.map_or(0, |known| known.transitions + u64::from(!is_mine)),
            acquired: known.filter(|_| is_mine).and_then(|known| known.acquired).or(Some(now.wall)),
            renewed: Some(now.wall),
            member: Some(MemberInfo {
                shards: Some(settings.shards),
                assignment: Some(settings.assignment.as_str().to_owned()),
                renew_interval: Some(settings.renew_interval),
                state,
            }),
            key,
        }
    }

    pub(super) fn write_own(
        &mut self,
        state: MemberState,
        purpose: Purpose,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let lease = self.own_lease(state, now);
        let op = if lease.uid.is_empty() { WriteOp::Create } else { WriteOp::Update };
        self.writing.insert(lease.key.clone(), purpose);
        actions.push(Action::Write { op, lease });
    }

    /// Announces this replica, then decides by a read that was sent after it whether to act.
    pub(super) fn join(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.heard.is_none() || self.meets_foreign(now, actions) {
            return;
        }
        if !self.was_member && self.has_unannounced_holder(now) {
            return;
        }
        if self.disagreement_with_api_server().is_some() {
            self.withdraw(now, actions);
            return;
        }
        // Held still, if only the member lease was deleted.
        self.keep_what_is_held(now, actions);
        if !self.has_api_server_answered() {
            return;
        }
        if !self.may_write(&self.own_key, now) {
            return;
        }
        let is_announced = self.announced.is_some();
        if !is_announced && self.disagreement.is_none() && self.waits_for_one_that_disagrees(now, actions) {
            return;
        }
        if self.disagreement.is_some() && !is_announced {
            // The member lease says that it waits; it is renewed, so that people see it.
            let still = self.acting_peer_that_disagrees(now);
            if still.is_none() && !self.has_unannounced_holder(now) && now.monotonic >= self.announce_at {
                self.disagreement = None;
                actions.push(Action::Note(Note::Agreement));
                self.write_own(MemberState::Acting, Purpose::Announce, now, actions);
            } else if now.monotonic >= self.renewal_of_waiting_due() {
                self.write_own(MemberState::Waiting, Purpose::Announce, now, actions);
            }
            return;
        }
        if !is_announced {
            self.write_own(MemberState::Acting, Purpose::Announce, now, actions);
        }
    }

    /// Who knows already of one that acts with other settings need not announce itself, withdraw and pause.
    fn waits_for_one_that_disagrees(&mut self, now: Moment, actions: &mut Vec<Action>) -> bool {
        let Some((replica, message)) = self.acting_peer_that_disagrees(now) else { return false };
        self.disagreement = Some(message.clone());
        self.announce_at = now.monotonic;
        self.lose_all(&LostBecause::Disagreement, actions);
        actions.push(Action::Note(Note::Disagreement { replica, message, is_waiting: true }));
        self.write_own(MemberState::Waiting, Purpose::Announce, now, actions);
        true
    }

    /// Whether a shard is held by a process whose settings nobody can tell, and that does not know yet that it has to
    /// announce itself anew.
    fn has_unannounced_holder(&self, now: Moment) -> bool {
        self.leases_of_unannounced().any(|seen| !self.has_ended(seen, now))
    }

    /// The leases of shards whose holder's member lease is not there or says nothing, because it was deleted or
    /// edited by hand, or by another process with this one's id.
    pub(super) fn leases_of_unannounced(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter_map(|(key, seen)| {
            let (LeaseKey::Shard(_), Some(holder)) = (key, &seen.lease.holder) else { return None };
            let member = self.seen.get(&LeaseKey::Member(holder.clone()));
            let is_unannounced = *holder == self.settings.replica_id
                || member.is_none_or(|member| member.lease.member.is_none());
            (is_unannounced && !self.is_mine(&seen.lease)).then_some(seen)
        })
    }

    pub(super) fn renewal_of_waiting_due(&self) -> Duration {
        self.member_renewed.map_or(Duration::ZERO, |sent| sent.monotonic + self.settings.renew_interval)
    }

    /// Whether the own member lease is another process's, or was a moment ago, and has not ended. Ends
    /// this process when the other one is alive.
    fn meets_foreign(&mut self, now: Moment, actions: &mut Vec<Action>) -> bool {
        let Some(seen) = self.seen.get(&self.own_key) else {
            self.foreign = None;
            return false;
        };
        let is_free = seen.lease.holder.is_none() || self.settings.is_sole;
        let is_ours = seen.lease.boot_id.as_ref() == Some(&self.settings.boot_id);
        if is_free || is_ours || self.was_member && !self.is_anothers(&seen.lease) {
            self.foreign = None;
            return false;
        }
        if self.was_member {
            // Another process took this one for dead, or the lease was deleted before it wrote it.
            self.end_as_twin(actions);
            return true;
        }
        #[cfg(feature = "mutants")]
        if self.settings.has(crate::Mutant::SameIdAccepted) {
            return false;
        }
        let writing = (seen.lease.boot_id.clone(), seen.lease.renewed);
        let (changed, duration) = (seen.changed, self.duration_of(&seen.lease));
        match &self.foreign {
            None => {
                self.foreign = Some((writing.0, writing.1, changed));
                true
            }
            Some((boot_id, renewed, since)) if (boot_id, renewed) == (&writing.0, &writing.1) => {
                now.shortest_since(since) < duration
            }
            Some(_) => {
                self.end_as_twin(actions);
                true
            }
        }
    }

    pub(super) fn end_as_twin(&mut self, actions: &mut Vec<Action>) {
        let message = format!(
            "another {} runs with --replica-id {}: this one ends. Give each replica an id of its own, for example the pod's name",
            self.settings.process.as_str(),
            self.settings.replica_id
        );
        self.lose_all(&LostBecause::Twin, actions);
        self.has_twin = true;
        self.phase = Phase::Ended;
        actions.push(Action::Note(Note::Twin { message }));
        actions.push(Action::End);
    }

    /// A list was taken in that was sent at `sent`: decides whether to act.
    pub(super) fn decide_to_act(
        &mut self,
        sent: Moment,
        is_consistent: bool,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let Some(announced) = self.announced else { return };
        if self.phase != Phase::Joining || !is_consistent || sent.monotonic < announced.monotonic {
            return;
        }
        match self.acting_peer_that_disagrees(now) {
            // A process that hung for long before it took in the answer joins anew: see `drop_what_ended`.
            None => self.phase = Phase::Acting,
            Some((replica, message)) => {
                self.announced = None;
                self.disagreement = Some(message.clone());
                self.lose_all(&LostBecause::Disagreement, actions);
                self.announce_at = now.monotonic + self.pause_after_withdrawal();
                actions.push(Action::Note(Note::Disagreement { replica, message, is_waiting: true }));
                if self.may_write(&self.own_key, now) {
                    self.write_own(MemberState::Waiting, Purpose::Announce, now, actions);
                }
            }
        }
    }

    /// Not all of those that saw each other try again together, nor the same ones each time. Two meet only
    /// when the one announces itself before the other's announcement could be read, so moments that are
    /// close together do. None waits for longer than the lease of a dead peer lasts: leases that a backup
    /// brought back then cost no more time than a peer that died (I2).
    fn pause_after_withdrawal(&mut self) -> Duration {
        self.withdrawals = self.withdrawals.wrapping_add(1);
        let chosen = self.settings.boot_id.bytes().chain(self.withdrawals.to_le_bytes());
        let observe = self.settings.observe_interval;
        let most = (observe * 9).min(self.settings.lease_duration).max(observe * 3);
        let least = observe * 2;
        // In 64ths.
        least + (most - least) * (crate::fnv1a(chosen) % 64) / 64
    }

    /// The members whose lease has not ended, others' only.
    fn live_peers(&self, now: Moment) -> impl Iterator<Item = (&String, &Arc<Lease>, &MemberInfo)> {
        self.seen.iter().filter_map(move |(key, seen)| {
            let LeaseKey::Member(id) = key else { return None };
            let info = seen.lease.member.as_ref()?;
            // Whatever spec.holderIdentity says: no replica takes its name off, or writes another's. A person did, and
            // whose lease it is does not know yet.
            let is_peer = *id != self.settings.replica_id;
            (is_peer && !self.has_ended(seen, now)).then_some((id, &seen.lease, info))
        })
    }

    /// The others that take part in the division. A lease in another's name takes no part, and neither does one that had
    /// ended before an outage: should its replica be alive after all, the lease changes soon, and until then no shard
    /// waits for one that is most likely dead. Only leases of shards keep two from acting.
    fn acting_peers(&self, now: Moment) -> impl Iterator<Item = &str> {
        let had_ended =
            |id: &String| self.seen.get(&LeaseKey::Member(id.clone())).is_some_and(|member| member.had_ended);
        self.live_peers(now)
            .filter(move |(id, ..)| !had_ended(id))
            .filter(|(id, lease, _)| lease.holder.as_ref().is_none_or(|holder| holder == *id))
            .filter(|(_, _, info)| info.state == MemberState::Acting && self.fits(info))
            .map(|(id, _, _)| id.as_str())
    }

    /// Our lease duration, or that of a live peer with a shorter one, as far as our interval of renewals allows. When
    /// somebody deletes a lease, that peer makes it anew and waits for no longer than its own duration for a
    /// holder that does not know yet.
    fn shortest_duration(&self, now: Moment) -> Duration {
        let own = self.settings.lease_duration;
        self.live_peers(now)
            .filter_map(|(_, lease, _)| u64::try_from(lease.duration_seconds?).ok())
            .map(Duration::from_secs)
            .filter(|duration| write_until(*duration) > self.settings.renew_interval)
            .fold(own, Duration::min)
    }

    fn fits(&self, info: &MemberInfo) -> bool {
        #[cfg(feature = "mutants")]
        if self.settings.has(crate::Mutant::ShardCountUnchecked) {
            return true;
        }
        info.shards == Some(self.settings.shards)
            && info.assignment.as_deref() == Some(self.settings.assignment.as_str())
    }

    fn acting_peer_that_disagrees(&self, now: Moment) -> Option<(String, String)> {
        self.live_peers(now)
            .find(|(_, _, info)| info.state == MemberState::Acting && !self.fits(info))
            .map(|(id, _, info)| (id.clone(), self.disagreement_with(id, info)))
    }

    fn disagreement_with(&self, id: &str, info: &MemberInfo) -> String {
        let shards = info.shards.map_or_else(|| "none".to_owned(), |shards| shards.to_string());
        format!(
            "replica {id} runs with --shards {shards} --shard-assignment {}, this one ({}) with --shards {} --shard-assignment {}: give all replicas of the {} the same",
            info.assignment.as_deref().unwrap_or("unknown"),
            self.settings.replica_id,
            self.settings.shards,
            self.settings.assignment.as_str(),
            self.settings.process.as_str(),
        )
    }

    pub(super) fn renew_member(&mut self, now: Moment, actions: &mut Vec<Action>) {
        match self.seen.get(&self.own_key) {
            Some(seen) if self.is_anothers(&seen.lease) => {
                self.end_as_twin(actions);
                return;
            }
            // Edited by hand: it is written again at once.
            Some(seen) if !self.is_mine(&seen.lease) => _ = self.owed.insert(self.own_key.clone()),
            // Brought back by a restore to when this replica did not act yet: as if it were deleted.
            Some(seen) if !says_it_acts(&seen.lease) => {
                self.rejoin();
                self.join(now, actions);
                return;
            }
            Some(_) => {}
            // Deleted: a peer with other settings may have started since.
            None => {
                self.rejoin();
                self.join(now, actions);
                return;
            }
        }
        if self.owed.contains(&self.own_key) && self.may_write(&self.own_key, now) {
            self.write_own(MemberState::Acting, Purpose::Renew, now, actions);
        }
    }

    /// What follows from the peers' leases, when one of them changed or ended since the last time. Else both
    /// would find what they found then.
    pub(super) fn look_at_peers(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.concluded.division.is_some_and(|division| division.contains(&self.seen, now.monotonic)) {
            return;
        }
        self.warn_of_peers(now, actions);
        self.lasts = self.shortest_duration(now);
        self.divide(now);
        #[cfg(feature = "mutants")]
        if self.settings.has(crate::Mutant::WallClockExpiry) {
            return;
        }
        let members = self.seen.iter().filter(|(key, _)| matches!(key, LeaseKey::Member(_)));
        let ends = members.map(|(_, seen)| self.end_of(seen));
        self.concluded.division = Some(Span::new(&self.seen, now.monotonic, ends));
    }

    /// Peers that run with other settings do not act, but people should know of them.
    pub(super) fn warn_of_peers(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let mut told = Vec::new();
        for (id, lease, info) in self.live_peers(now) {
            let message = if !self.fits(info) {
                self.disagreement_with(id, info)
            } else if lease.duration_seconds != i64::try_from(self.settings.lease_duration.as_secs()).ok()
                || info.renew_interval != Some(self.settings.renew_interval)
            {
                let seconds = |seconds: i64| format!("{seconds}s");
                let unknown = || "unknown".to_owned();
                format!(
                    "replica {id} runs with --lease-duration {} --lease-renew-interval {}, this one ({}) with --lease-duration {:?} --lease-renew-interval {:?}: give all replicas of the {} the same",
                    lease.duration_seconds.map_or_else(unknown, seconds),
                    info.renew_interval.map_or_else(unknown, |interval| format!("{interval:?}")),
                    self.settings.replica_id,
                    self.settings.lease_duration,
                    self.settings.renew_interval,
                    self.settings.process.as_str()
                )
            } else {
                continue;
            };
            told.push((id.clone(), message));
        }
        let ids = told.iter().map(|(id, _)| id.clone()).collect();
        if !self.warned_of.is_empty() && told.is_empty() {
            actions.push(Action::Note(Note::Agreement));
        }
        for (replica, message) in told {
            if !self.warned_of.contains(&replica) {
                actions.push(Action::Note(Note::Disagreement { replica, message, is_waiting: false }));
            }
        }
        self.warned_of = ids;
    }

    /// Whether the own member lease was renewed not too long ago.
    pub(super) fn is_live(&self, now: Moment) -> bool {
        self.member_renewed.is_some_and(|sent| now.longest_since(&sent) < self.hold_until())
    }

    /// Computes which shards are this replica's.
    fn divide(&mut self, now: Moment) {
        let mut members: Vec<&str> = self.acting_peers(now).collect();
        members.push(&self.settings.replica_id);
        members.sort_unstable();
        if self.concluded.members.as_ref().is_some_and(|known| *known == members) {
            return;
        }
        let own = members.iter().position(|id| *id == self.settings.replica_id);
        let owners = self.settings.assignment.divide(&members, self.settings.shards);
        let members = members.into_iter().map(str::to_owned).collect();
        self.wanted =
            (0_u32..).zip(owners).filter(|(_, owner)| Some(*owner) == own).map(|(shard, _)| shard).collect();
        self.concluded.members = Some(members);
    }

    /// Deletes the member leases of replicas that have been dead for long. Only the first of the live
    /// members does, so that they do not do it all at once.
    pub(super) fn collect_dead_members(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let is_first = self.acting_peers(now).all(|id| id > self.settings.replica_id.as_str());
        if self.phase != Phase::Acting || !is_first {
            return;
        }
        #[cfg(feature = "mutants")]
        let is_careless = self.settings.has(crate::Mutant::CollectWithoutPrecondition);
        #[cfg(not(feature = "mutants"))]
        let is_careless = false;
        let durations = if is_careless { 1 } else { COLLECT_AFTER_DURATIONS };
        let long = self.settings.lease_duration * durations;
        let dead: Vec<Lease> = self
            .seen
            .iter()
            .filter(|(key, seen)| {
                matches!(key, LeaseKey::Member(id) if *id != self.settings.replica_id)
                    && now.shortest_since(&seen.changed) >= long.max(self.duration_of(&seen.lease))
                    && self.may_write(key, now)
            })
            .map(|(_, seen)| Lease::clone(&seen.lease))
            .collect();
        for mut lease in dead {
            if is_careless {
                lease.uid = String::new();
                lease.resource_version = String::new();
            }
            self.writing.insert(lease.key.clone(), Purpose::Collect);
            actions.push(Action::Write { op: WriteOp::Delete, lease });
        }
    }
}

/// Whether a member lease tells peers that its replica takes part in the division.
fn says_it_acts(lease: &Lease) -> bool {
    lease.member.as_ref().is_some_and(|info| info.state == MemberState::Acting)
}
