//! Acquiring, renewing and releasing shards.

use super::state::{Held, LAST_EPOCH, Phase, Protocol, Purpose};
use super::{Acquired, Action, LostBecause, Note, WriteOp};
use crate::{Lease, LeaseKey, Moment};

impl Protocol {
    pub(super) fn tend_shards(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let missing = self.wanted.iter().filter(|shard| !self.held.contains_key(shard));
        for shard in missing.copied().collect::<Vec<_>>() {
            self.acquire(shard, now, actions);
        }
        let is_handed_over = |(shard, held): &(&u32, &Held)| {
            !self.wanted.contains(*shard) && (held.is_draining || held.kept_until <= now.monotonic)
        };
        for shard in self.held.iter().filter(is_handed_over).map(|(shard, _)| *shard).collect::<Vec<_>>() {
            self.give_up(shard, now, actions);
        }
        self.keep_what_is_held(now, actions);
    }

    /// Renews what is held, and goes on with handing over what is being handed over. A shard that is wanted
    /// again meanwhile is handed over nevertheless: its release may have been stored already, and a drain
    /// that ended says nothing of writes that began after it.
    ///
    /// While writes of what is being handed over are under way it is not renewed. They end within seconds; if
    /// they do not, the work of this process stands still, and the lease has to end for another to go on.
    pub(super) fn keep_what_is_held(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let is_due =
            |(shard, held): &(&u32, &Held)| held.is_draining || self.owed.contains(&LeaseKey::Shard(**shard));
        for shard in self.held.iter().filter(is_due).map(|(shard, _)| *shard).collect::<Vec<_>>() {
            let Some(held) = self.held.get(&shard) else { continue };
            let (is_draining, is_drained) = (held.is_draining, held.is_drained);
            // Before that no write began, and none is under way.
            let acts = held.acts_from.is_none_or(|from| from <= now.monotonic);
            if is_draining {
                self.give_up(shard, now, actions);
            }
            if is_draining && !is_drained && acts {
                self.owed.remove(&LeaseKey::Shard(shard));
            } else {
                self.renew(shard, now, actions);
            }
        }
    }

    /// Whether the shard was handed over although the answer to its release was lost: then its lease is
    /// nobody's or another's by now, and is not to be written on.
    fn drop_if_handed_over(&mut self, shard: u32, actions: &mut Vec<Action>) -> bool {
        let key = LeaseKey::Shard(shard);
        let is_gone = !self.writing.contains_key(&key)
            && self.seen.get(&key).is_some_and(|seen| !self.is_mine(&seen.lease));
        if is_gone && let Some(held) = self.held.remove(&shard) {
            self.shards_renewed.remove(&shard);
            self.owed.remove(&key);
            actions.push(Action::Note(Note::Released { shard, epoch: held.epoch }));
        }
        is_gone
    }

    pub(super) fn give_up(&mut self, shard: u32, now: Moment, actions: &mut Vec<Action>) {
        let key = LeaseKey::Shard(shard);
        if self.drop_if_handed_over(shard, actions) {
            return;
        }
        let Some(held) = self.held.get_mut(&shard) else { return };
        if !held.is_draining {
            held.is_draining = true;
            held.is_drained = false;
            actions.push(Action::Drain { shard, epoch: held.epoch });
        }
        #[cfg(feature = "mutants")]
        if self.settings.has(crate::Mutant::ReleaseBeforeDrain) {
            held.is_drained = true;
        }
        if held.acts_from.is_some_and(|from| from > now.monotonic) {
            // Nobody but this replica knows that the time to act on this lease has not come. A process that
            // ends leaves it to expire.
            if self.phase == Phase::Stopping {
                self.lose(shard, LostBecause::Stopped, actions);
            }
            return;
        }
        if held.is_drained && self.may_write(&key, now) {
            self.write_shard(shard, None, Purpose::Release, now, actions);
        }
    }

    fn renew(&mut self, shard: u32, now: Moment, actions: &mut Vec<Action>) {
        let key = LeaseKey::Shard(shard);
        if self.owed.contains(&key) && self.held.contains_key(&shard) && self.may_write(&key, now) {
            let holder = Some(self.settings.replica_id.clone());
            self.write_shard(shard, holder, Purpose::Renew, now, actions);
        }
    }

    /// Whether an answer came within the observe interval, so that the answer to an acquisition will probably
    /// come too. A replica whose requests arrive but whose answers are lost would keep others for a whole
    /// duration from a shard that it never learns to be its own.
    fn hears(&self, now: Moment) -> bool {
        self.heard.is_some_and(|heard| now.monotonic.saturating_sub(heard) <= self.settings.observe_interval)
    }

    fn acquire(&mut self, shard: u32, now: Moment, actions: &mut Vec<Action>) {
        let key = LeaseKey::Shard(shard);
        if !self.hears(now) || now.monotonic < self.acquires_from || !self.may_write(&key, now) {
            return;
        }
        let how = match self.seen.get(&key) {
            None => Acquired::Created,
            Some(seen) => {
                let has_ended = self.has_ended(seen, now);
                let is_certain = has_ended || !seen.is_doubtful;
                // A replica that releases its lease takes its boot id off; a person that blanks the holder
                // leaves it, and the holder does not know yet.
                let is_released = has_ended || seen.lease.boot_id.is_none();
                match &seen.lease.holder {
                    None if is_certain && is_released => Acquired::Free,
                    Some(_) if is_certain && self.is_mine(&seen.lease) => Acquired::Resumed,
                    Some(from) if has_ended => {
                        Acquired::TakenOver { from: from.clone(), silent: now.shortest_since(&seen.changed) }
                    }
                    _ => return,
                }
            }
        };
        let holder = Some(self.settings.replica_id.clone());
        self.write_shard(shard, holder, Purpose::Acquire(how), now, actions);
    }

    fn write_shard(
        &mut self,
        shard: u32,
        holder: Option<String>,
        purpose: Purpose,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let key = LeaseKey::Shard(shard);
        let known = self.seen.get(&key).map(|seen| &seen.lease);
        // What stands on the lease may have been lowered by hand, or lost with it.
        let before = self.least_epochs.get(&shard).copied();
        let is_acquisition = matches!(purpose, Purpose::Acquire(_));
        // A lease that is made anew starts at 0 only when nobody is known to have acted before.
        let next = before.map_or(0, |before| before + u64::from(is_acquisition));
        let transitions = next.min(LAST_EPOCH);
        let lease = Lease {
            uid: known.map(|known| known.uid.clone()).unwrap_or_default(),
            resource_version: known.map(|known| known.resource_version.clone()).unwrap_or_default(),
            boot_id: holder.as_ref().map(|_| self.settings.boot_id.clone()),
            holder,
            duration_seconds: i64::try_from(self.settings.lease_duration.as_secs()).ok(),
            transitions,
            acquired: if is_acquisition { Some(now.wall) } else { known.and_then(|known| known.acquired) },
            renewed: Some(now.wall),
            member: None,
            key: key.clone(),
        };
        let op = if known.is_some() { WriteOp::Update } else { WriteOp::Create };
        self.writing.insert(key, purpose);
        actions.push(Action::Write { op, lease });
    }

    /// Gives up all shards, then leaves when that was asked for, then ends.
    pub(super) fn stop(&mut self, now: Moment, actions: &mut Vec<Action>) {
        self.want_none();
        for shard in self.held.keys().copied().collect::<Vec<_>>() {
            self.give_up(shard, now, actions);
        }
        self.keep_what_is_held(now, actions);
        if !self.held.is_empty() || !self.writing.is_empty() {
            return;
        }
        let key = self.own_key.clone();
        if self.settings.release_member_on_exit
            && !self.has_left
            && let Some(seen) = self.seen.get(&key).filter(|seen| self.is_mine(&seen.lease))
        {
            if !self.may_write(&key, now) {
                return;
            }
            let lease = Lease::clone(&seen.lease);
            self.writing.insert(key, Purpose::Leave);
            actions.push(Action::Write { op: WriteOp::Delete, lease });
            return;
        }
        self.phase = Phase::Ended;
        actions.push(Action::End);
    }
}
