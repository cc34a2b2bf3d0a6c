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
    /// Requests are being sent now; still so in the next look when this one was broken off.
    is_sending: bool,
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
    pub(crate) fn late_begin(&self, id: &InventoryId, ownership: &Arc<dyn Ownership>) {
        self.with_late(id, ownership, |memory, fresh| {
            if memory.is_sending {
                *memory = fresh;
            }
            memory.is_sending = true;
        });
    }

    /// They were sent; `is_answered` when each had its answer. `entries` is the inventory now.
    pub(crate) fn late_end(
        &self,
        id: &InventoryId,
        ownership: &Arc<dyn Ownership>,
        is_answered: bool,
        entries: &[Entry],
    ) {
        self.with_late(id, ownership, |memory, fresh| {
            if is_answered {
                memory.is_sending = false;
            } else {
                *memory = fresh;
            }
        });
        self.late_forget(id, entries);
    }

    /// Lets go of what is known when an inventory does not depend on it any more.
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
        let cached = self.cached_inventory(&id).entries();
        if tombstones(&cached) == 0 {
            return Ok(None);
        }
        let is_due = self.late_writes(&id, look.ownership, &cached) != LateWrites::Possible;
        let Some(connected) = self.target(&id.cluster, look.ownership).filter(|_| is_due) else {
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
