//! Requests without an answer that may reach a target late: since when there was none, and looking for what they
//! created.
//!
//! The time is kept in monotonic time and for one term: a replica that takes a Release over counts anew from its first
//! look, so that it does not matter what the clocks of two machines say.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::Release;
use convoy_apply::{Class, Ownership, PruneOptions, prune};
use convoy_plan::{Entry, LATEST_ARRIVAL, LateWrites, Plan};
use convoy_runtime::{Sharded as _, StoreKey, store_key};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::inventory::InventoryId;
use super::{Look, Releases};
use crate::host::HostError;

/// A target that does not answer the last of the looks is not asked more often than this.
const SHORTEST_WAIT: Duration = Duration::from_secs(30);

/// By Release and Cluster.
type Key = (StoreKey, StoreKey);

/// What this process knows of unanswered requests, for the inventories that name any.
#[derive(Debug, Default)]
pub(crate) struct LateMemory {
    all: Mutex<HashMap<Key, Memory>>,
}

#[derive(Debug)]
struct Memory {
    /// The shard and its epoch that this was learned in.
    term: (u32, u64),
    /// The uid of the Release.
    uid: String,
    /// When the last such request may have been sent, in monotonic time.
    sent: Duration,
    /// When none of them can arrive any more, for people.
    over: Timestamp,
    /// When it was last looked for what they created, in monotonic time.
    looked: Option<Duration>,
    /// All that the inventory does not know the answers to was sent at once, and answered: only the write that says so
    /// is missing.
    is_answered: bool,
    /// Nothing was unanswered before the requests that are being sent, or were sent last.
    is_alone: bool,
    /// Requests are being sent now; still so in the next look when this one was broken off.
    is_sending: bool,
}

impl Memory {
    fn begin(&mut self, was_concerned: bool, fresh: Memory) {
        // Entries that were answered, and could not be stored as such, are no trouble.
        let is_alone = !was_concerned || (self.is_answered && !self.is_sending);
        if self.is_sending || is_alone {
            *self = fresh;
        }
        self.is_alone = is_alone;
        self.is_answered = false;
        self.is_sending = true;
    }

    fn end(&mut self, is_answered: bool, fresh: Memory) {
        if is_answered {
            self.is_sending = false;
            self.is_answered = self.is_alone;
        } else {
            *self = fresh;
        }
    }
}

impl LateMemory {
    /// Lets go of what was learned for shards that are not worked on any more.
    pub(crate) fn retain_shards(&self, keep: impl Fn(u32) -> bool) {
        self.all.lock().retain(|_, memory| keep(memory.term.0));
    }
}

fn key_of(id: &InventoryId) -> Key {
    (StoreKey::new(id.namespace.as_str(), id.release.as_str()), id.cluster.clone())
}

/// Whether anything of an inventory depends on unanswered requests.
fn is_concerned(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.unanswered || entry.gone)
}

/// The tombstones of an inventory.
pub(crate) fn tombstones(entries: &[Entry]) -> usize {
    entries.iter().filter(|entry| entry.gone).count()
}

/// The objects of an inventory that are, or are to be, on the target, without those of hooks.
pub(crate) fn objects_of(entries: &[Entry]) -> usize {
    entries.iter().filter(|entry| !entry.gone && !entry.hook).count()
}

impl Releases {
    /// Whether unanswered requests may still arrive for what an inventory lists.
    pub(crate) fn late_writes(
        &self,
        id: &InventoryId,
        ownership: &Arc<dyn Ownership>,
        entries: &[Entry],
    ) -> LateWrites {
        if !is_concerned(entries) {
            return LateWrites::Over;
        }
        let now = self.clock.monotonic();
        self.with_late(id, ownership, |memory, fresh| {
            if memory.is_sending {
                *memory = fresh;
            }
            if memory.is_answered {
                return LateWrites::Over;
            }
            LateWrites::judge(memory.sent, memory.looked, now)
        })
    }

    /// How long until it is to be looked for what unanswered requests created, and when that ends.
    pub(crate) fn until_late_look(
        &self,
        id: &InventoryId,
        ownership: &Arc<dyn Ownership>,
    ) -> (Duration, Timestamp) {
        let now = self.clock.monotonic();
        self.with_late(id, ownership, |memory, _| {
            (LateWrites::until_look(memory.sent, memory.looked, now), memory.over)
        })
    }

    /// Requests are about to be sent that may stay without an answer.
    /// `before` is the inventory before they were written ahead.
    pub(crate) fn late_begin(&self, id: &InventoryId, ownership: &Arc<dyn Ownership>, before: &[Entry]) {
        let was_concerned = is_concerned(before);
        self.with_late(id, ownership, |memory, fresh| memory.begin(was_concerned, fresh));
    }

    /// They were sent; `is_answered` when each had its answer.
    pub(crate) fn late_end(&self, id: &InventoryId, ownership: &Arc<dyn Ownership>, is_answered: bool) {
        self.with_late(id, ownership, |memory, fresh| memory.end(is_answered, fresh));
    }

    /// Lets go of what is known when an inventory, as it is stored, does not depend on it any more.
    pub(crate) fn late_forget(&self, id: &InventoryId, entries: &[Entry]) {
        if !is_concerned(entries) {
            self.late.all.lock().remove(&key_of(id));
        }
    }

    /// Changes what is known; also gives what it would be if the last request was sent now.
    fn with_late<T>(
        &self,
        id: &InventoryId,
        ownership: &Arc<dyn Ownership>,
        change: impl FnOnce(&mut Memory, Memory) -> T,
    ) -> T {
        let longest = SignedDuration::try_from(LATEST_ARRIVAL).unwrap_or_default();
        let term = (ownership.shard(), ownership.epoch());
        let fresh = || Memory {
            term,
            uid: id.release_uid.clone(),
            sent: self.clock.monotonic(),
            over: self.clock.now().saturating_add(longest).unwrap_or(Timestamp::MAX),
            looked: None,
            is_answered: false,
            is_alone: false,
            is_sending: false,
        };
        let mut all = self.late.all.lock();
        let is_known = |memory: &&mut Memory| memory.term == term && memory.uid == id.release_uid;
        if let Some(memory) = all.get_mut(&key_of(id)).filter(is_known) {
            return change(memory, fresh());
        }
        let mut memory = fresh();
        let answer = change(&mut memory, fresh());
        // After the shard was lost nobody would take it away again.
        if ownership.check().is_ok() {
            all.insert(key_of(id), memory);
        }
        answer
    }

    /// Looks for what unanswered requests created after it was seen to be gone, when it is time to, and removes it.
    /// Answers with the time to the next look.
    pub(crate) async fn look_for_late_writes(&self, look: Look<'_>) -> Result<Option<Duration>, HostError> {
        let id = InventoryId::of(look.release, &look.release.shard_key());
        let until_next = |entries: &[Entry]| {
            (tombstones(entries) > 0).then(|| self.until_late_look(&id, look.ownership).0)
        };
        if !self.parts(&id).any(|part| part.spec.entries.iter().any(|entry| entry.gone)) {
            return Ok(None);
        }
        let cached = self.cached_inventory(&id).entries();
        let is_due = self.late_writes(&id, look.ownership, &cached) != LateWrites::Possible;
        let Some(connected) = self.target(look.release, &id.cluster, look.ownership).filter(|_| is_due)
        else {
            return Ok(until_next(&cached));
        };
        let mut inventory = self.fresh_inventory(&id).await?;
        self.refuse_outdated(&inventory, look.ownership)?;
        let before = inventory.entries();
        let late = self.late_writes(&id, look.ownership, &before);
        let plan = Plan::for_late_writes(&before, &connected.capabilities.kinds, late);
        let options = PruneOptions { release_uid: look.uid() };
        let (report, _) = prune(&connected.target, &plan.prunes, &options).await;
        if report.failures.iter().any(|failure| failure.error.class == Class::NotOwner) {
            return Err(HostError::not_owner(look.ownership.shard()));
        }
        if let Some(failure) = report.failures.first() {
            tracing::warn!(release = %look.key, object = %failure.key, error = %failure.error, "cannot look for what late requests made");
        }
        self.late_looked(&id, look.ownership);
        let after = plan.settle(&before, &report.fates, late);
        if after != before {
            let bundle = inventory.bundle_digest().to_owned();
            self.settle(&**look.ownership, &mut inventory, &after, &bundle).await?;
        }
        self.late_forget(&id, &after);
        let shortest = if report.is_success() { Duration::ZERO } else { SHORTEST_WAIT };
        Ok(until_next(&after).map(|wait| wait.max(shortest)))
    }

    /// It was looked for what they created.
    pub(crate) fn late_looked(&self, id: &InventoryId, ownership: &Arc<dyn Ownership>) {
        let now = self.clock.monotonic();
        self.with_late(id, ownership, |memory, _| memory.looked = Some(now));
    }

    /// What a deletion waits for, in words.
    pub(crate) fn late_message(&self, release: &Release, count: usize, over: Timestamp) -> String {
        let over = Timestamp::from_second(over.as_second()).unwrap_or(over);
        tracing::debug!(release = %store_key(release), count, "waits for late requests");
        format!(
            "all objects are gone, but {count} of them may be made once more by requests that were not answered; they \
             are looked for until {over} (set spec.apply.deletionPolicy to Orphan to end at once)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(sent: u64) -> Memory {
        Memory {
            term: (0, 1),
            uid: "u".to_owned(),
            sent: Duration::from_secs(sent),
            over: Timestamp::UNIX_EPOCH,
            looked: None,
            is_answered: false,
            is_alone: false,
            is_sending: false,
        }
    }

    #[test]
    fn what_was_answered_is_not_waited_for_when_only_its_record_could_not_be_written() {
        let mut known = memory(0);
        known.begin(false, memory(10));
        assert!(known.is_sending && !known.is_answered);
        known.end(true, memory(11));
        assert!(known.is_answered && !known.is_sending);
        // The next look finds the entries that were written ahead, and sends anew.
        known.begin(true, memory(20));
        assert!(!known.is_answered && known.is_alone);
        known.end(false, memory(21));
        assert!(!known.is_answered);
        assert_eq!(known.sent, Duration::from_secs(21));
    }

    #[test]
    fn what_was_not_answered_before_is_waited_for_although_later_requests_were_answered() {
        let mut known = memory(0);
        known.begin(true, memory(10));
        known.end(true, memory(11));
        assert!(!known.is_answered);
        assert_eq!(known.sent, Duration::ZERO);
        // A look that was broken off while it sent.
        known.begin(false, memory(30));
        known.begin(true, memory(40));
        known.end(true, memory(41));
        assert!(!known.is_answered);
        assert_eq!(known.sent, Duration::from_secs(40));
    }
}
