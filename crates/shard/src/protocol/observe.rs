//! What reads and writes answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::{Deleted, Held, LAST_EPOCH, Phase, Protocol, Purpose, Seen};
use super::{Acquired, Action, LostBecause, Note, WriteError, Written};
use crate::{Lease, LeaseKey, MemberState, Moment};

/// How often the deletion of the own member lease is tried when it met another version.
const CONFLICTS_ON_LEAVING: u32 = 3;

impl Protocol {
    pub(super) fn take_in_list(
        &mut self,
        sent: Moment,
        is_consistent: bool,
        version: u64,
        leases: &[Arc<Lease>],
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        if !is_consistent && version < self.list_version {
            // From a server whose cache lags: what it does not have may be newer than it. Or the store went back:
            // then what this process holds may be free for others.
            self.wants_list = Some(true);
            return;
        }
        let went_back = is_consistent && version < self.list_version;
        self.list_version = version;
        if is_consistent {
            self.deleted.retain(|_, deleted| deleted.at.monotonic > sent.monotonic);
        }
        let (news, is_all_listed) = self.compare(leases, went_back);
        for lease in news {
            let is_deleted = self.deleted.get(&lease.key).is_some_and(|deleted| deleted.uid == lease.uid);
            if is_deleted || self.is_older_than_known(&lease.key, lease.version(), sent, is_consistent) {
                continue;
            }
            self.see(Arc::clone(lease), went_back, now, actions);
        }
        if !is_all_listed {
            let listed: BTreeSet<&LeaseKey> = leases.iter().map(|lease| &lease.key).collect();
            let gone: Vec<LeaseKey> = self
                .seen
                .keys()
                .filter(|key| {
                    !listed.contains(key) && !self.is_older_than_known(key, version, sent, is_consistent)
                })
                .cloned()
                .collect();
            for key in gone {
                self.see_gone(&key, actions);
            }
        }
    }

    /// Counts anew for how long others are silent, because the API server may have been restored from a backup since the
    /// last answer. Then a lease can have been renewed, or a free one acquired, after the backup and before the restore: only who
    /// did so knows, and until it reads again it acts on that lease, for no longer than a duration. (Who holds its own
    /// lease, or finds it still its own, needs no such wait: nobody acquires a lease that is not silent for a duration.)
    pub(super) fn doubt_others(&mut self, now: Moment) {
        if self.settings.is_sole {
            return;
        }
        let others: Vec<Seen> = self
            .seen
            .values()
            .filter(|seen| !self.is_mine(&seen.lease))
            .map(|seen| Seen {
                lease: Arc::clone(&seen.lease),
                changed: now,
                is_doubtful: true,
                had_ended: seen.had_ended || self.has_ended(seen, now),
            })
            .collect();
        others.into_iter().for_each(|seen| self.seen.insert(seen));
    }

    /// What of a list has to be taken in, and whether all that is known is on the list. Nearly all of a
    /// list is known already, and lists come often: in the order of the keys they cost no search. In
    /// another order too much is taken in, which changes nothing.
    fn compare<'a>(&self, leases: &'a [Arc<Lease>], went_back: bool) -> (Vec<&'a Arc<Lease>>, bool) {
        #[cfg(feature = "mutants")]
        let takes_all = went_back || self.settings.has(crate::Mutant::ObserveOnlyWanted);
        #[cfg(not(feature = "mutants"))]
        let takes_all = went_back;
        let mut news = Vec::new();
        let mut met = 0;
        let mut known = self.seen.iter().peekable();
        for lease in leases {
            let is_at = known.peek().is_some_and(|(_, seen)| Arc::ptr_eq(&seen.lease, lease));
            if !is_at {
                while known.next_if(|(key, _)| **key < lease.key).is_some() {}
            }
            let at = known.next_if(|(key, _)| is_at || **key == lease.key);
            met += usize::from(at.is_some());
            if takes_all || !at.is_some_and(|(_, seen)| is_same(&seen.lease, lease)) {
                news.push(lease);
            }
        }
        (news, met == self.seen.len())
    }

    /// Whether an answer of that version tells less than what is known. A cache's answer may be older than
    /// what was read before; a consistent one may have been overtaken by the answer of a write. A
    /// consistent answer is believed also when versions went back: the API server was restored.
    fn is_older_than_known(&self, key: &LeaseKey, version: u64, sent: Moment, is_consistent: bool) -> bool {
        self.seen.get(key).is_some_and(|known| {
            version < known.lease.version() && (!is_consistent || known.changed.monotonic >= sent.monotonic)
        })
    }

    fn see(&mut self, lease: Arc<Lease>, went_back: bool, now: Moment, actions: &mut Vec<Action>) {
        let key = lease.key.clone();
        #[cfg(feature = "mutants")]
        if self.settings.has(crate::Mutant::ObserveOnlyWanted)
            && let LeaseKey::Shard(shard) = &key
            && !self.wanted.contains(shard)
            && !self.held.contains_key(shard)
        {
            self.seen.remove(&key);
            return;
        }
        if !went_back && self.seen.get(&key).is_some_and(|known| is_same(&known.lease, &lease)) {
            return;
        }
        if let LeaseKey::Shard(shard) = key
            && self.held.contains_key(&shard)
            && self.writing.get(&key) != Some(&Purpose::Release)
        {
            if !self.is_mine(&lease) {
                let by = lease.holder.clone().unwrap_or_else(|| "nobody".to_owned());
                self.lose(shard, LostBecause::Taken { by }, actions);
            } else if self.seen.get(&key).is_some_and(|known| known.lease.uid != lease.uid) {
                self.lose(shard, LostBecause::Deleted, actions);
            }
        }
        if let LeaseKey::Shard(shard) = key
            && self.held.contains_key(&shard)
            && lease.transitions >= LAST_EPOCH
            && self.least_epochs.get(&shard).is_none_or(|least| *least < LAST_EPOCH)
        {
            // Raised by hand under its holder.
            actions.push(Action::Note(Note::EpochsUsedUp { shard }));
        }
        let is_older = self.seen.get(&key).is_some_and(|known| known.lease.version() > lease.version());
        self.know(lease, went_back || is_older, now);
    }

    /// Keeps a lease as it is now. One that this process holds and that it did not know of was created by
    /// it, perhaps with a lost answer: when it may be acted on counts from now.
    fn know(&mut self, lease: Arc<Lease>, is_doubtful: bool, now: Moment) {
        if let LeaseKey::Shard(shard) = lease.key {
            self.note_epoch(shard, lease.transitions.min(LAST_EPOCH));
            let is_known = self.seen.get(&lease.key).is_some_and(|known| known.lease.uid == lease.uid);
            if !is_known && self.is_mine(&lease) && !self.settings.is_sole {
                self.quarantine.insert(shard, now.monotonic + self.settings.lease_duration);
            }
        }
        self.seen.insert(Seen { lease, changed: now, is_doubtful, had_ended: false });
    }

    fn see_gone(&mut self, key: &LeaseKey, actions: &mut Vec<Action>) {
        self.seen.remove(key);
        self.retry_at.remove(key);
        if let LeaseKey::Shard(shard) = key {
            self.lose(*shard, LostBecause::Deleted, actions);
        }
    }

    pub(super) fn take_in_write(
        &mut self,
        key: LeaseKey,
        sent: Moment,
        outcome: Result<Written, WriteError>,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let Some(purpose) = self.writing.remove(&key) else { return };
        match outcome {
            Ok(written) => {
                self.retry_at.remove(&key);
                match written {
                    Written::Stored(lease) => {
                        let is_known_newer = self.seen.get(&key).is_some_and(|known| {
                            known.lease.version() > lease.version() && known.lease.uid == lease.uid
                        });
                        if !is_known_newer {
                            self.know(Arc::clone(&lease), false, now);
                        }
                        self.wrote(&key, purpose, sent, &lease, now, actions);
                    }
                    Written::Deleted => {
                        if let Some(seen) = self.seen.remove(&key) {
                            let uid = seen.lease.uid.clone();
                            self.deleted.insert(key.clone(), Deleted { uid, at: now });
                        }
                        match (purpose, key) {
                            (Purpose::Leave, _) => self.has_left = true,
                            (_, LeaseKey::Member(replica)) => {
                                actions.push(Action::Note(Note::Collected { replica }));
                            }
                            (_, LeaseKey::Shard(_)) => {}
                        }
                    }
                }
            }
            Err(WriteError::Conflict) => {
                actions.push(Action::Note(Note::Conflicted { key: key.clone() }));
                // What it is now is read before anything else is tried.
                self.retry_at.insert(key.clone(), now.monotonic + self.settings.retry_interval());
                self.wants_list = Some(true);
                if purpose == Purpose::Leave {
                    // The answer of the last renewal may have been lost.
                    self.conflicts_on_leaving += 1;
                    self.has_left = self.conflicts_on_leaving >= CONFLICTS_ON_LEAVING;
                }
            }
            Err(WriteError::Failed) => {
                self.retry_at.insert(key, now.monotonic + self.settings.retry_interval());
                // It may have happened; another try with the version that was read would then conflict.
                self.wants_list = Some(true);
                if purpose == Purpose::Leave {
                    // Peers find out by themselves; a stopping process does not wait for that.
                    self.has_left = true;
                }
            }
        }
    }

    fn wrote(
        &mut self,
        key: &LeaseKey,
        purpose: Purpose,
        sent: Moment,
        lease: &Arc<Lease>,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        match (purpose, key) {
            (Purpose::Announce, _) => {
                self.member_renewed = Some(sent);
                self.was_member = true;
                let is_acting = lease.member.as_ref().is_some_and(|info| info.state == MemberState::Acting);
                if is_acting && self.disagreement.is_none() && self.phase == Phase::Joining {
                    self.announced = Some(now);
                    self.wants_list = Some(true);
                }
            }
            (Purpose::Renew, LeaseKey::Member(_)) => {
                self.member_renewed = Some(sent);
                self.owed.remove(key);
                actions.push(Action::Note(Note::Renewed { key: key.clone() }));
            }
            (Purpose::Renew, LeaseKey::Shard(shard)) => {
                self.owed.remove(key);
                if self.held.contains_key(shard) {
                    self.shards_renewed.insert(*shard, sent);
                }
                actions.push(Action::Note(Note::Renewed { key: key.clone() }));
            }
            (Purpose::Acquire(how), LeaseKey::Shard(shard)) => {
                self.acquired(*shard, how, sent, lease, now, actions);
            }
            (Purpose::Release, LeaseKey::Shard(shard)) => {
                self.owed.remove(key);
                self.shards_renewed.remove(shard);
                if let Some(held) = self.held.remove(shard) {
                    actions.push(Action::Note(Note::Released { shard: *shard, epoch: held.epoch }));
                }
            }
            _ => {}
        }
    }

    fn acquired(
        &mut self,
        shard: u32,
        how: Acquired,
        sent: Moment,
        lease: &Lease,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        if now.longest_since(&sent) >= self.write_until() {
            // The answer took so long that the term is over before it began.
            return;
        }
        let is_mine = self
            .seen
            .get(&LeaseKey::Shard(shard))
            .is_some_and(|seen| self.is_mine(&seen.lease) && seen.lease.uid == lease.uid);
        let is_latest = self.least_epochs.get(&shard).is_none_or(|least| *least <= lease.transitions);
        if !is_mine || !is_latest || !matches!(self.phase, Phase::Acting | Phase::Stopping) {
            // It was overtaken by what happened meanwhile. If it is ours nevertheless, it is acquired anew.
            return;
        }
        let acts_from = self.quarantine.get(&shard).copied().filter(|from| *from > now.monotonic);
        let kept_until = acts_from.unwrap_or(now.monotonic) + self.settings.observe_interval;
        let held = Held { acts_from, kept_until, ..Held::new(lease.transitions, sent) };
        self.shards_renewed.insert(shard, sent);
        self.held.insert(shard, held);
        actions.push(Action::Note(Note::Gained { shard, epoch: lease.transitions, how }));
        if lease.transitions >= LAST_EPOCH {
            actions.push(Action::Note(Note::EpochsUsedUp { shard }));
        }
    }
}

/// Whether two readings of a lease are of one version.
fn is_same(one: &Arc<Lease>, other: &Arc<Lease>) -> bool {
    Arc::ptr_eq(one, other) || one.resource_version == other.resource_version && one.uid == other.uid
}
