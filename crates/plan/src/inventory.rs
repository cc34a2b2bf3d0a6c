//! The record of what a Release may have on its target.

use std::collections::BTreeMap;

use convoy_api::InventoryEntry;

use crate::{ApplyReason, LateWrites, ObjectKey, Plan, Stage, stage_of};

/// One object that is, or may be, on the target because of a Release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The object.
    pub key: ObjectKey,
    /// The version it was applied in.
    pub version: String,
    /// Its uid on the target; empty as long as no apply was confirmed.
    pub uid: String,
    /// Digest of what was applied last; empty while it is not known, from the write-ahead until an
    /// apply is confirmed.
    pub digest: String,
    /// The stage it was applied in.
    pub stage: Stage,
    /// The wave it was applied in.
    pub wave: i32,
    /// The target's resourceVersion after the last confirmed apply; empty until then.
    pub resource_version: String,
    /// Whether convoy's apply created it, as against one that took over an existing object.
    pub created: bool,
    /// Whether a request that can create it was sent, or is about to be, and no answer to it is known.
    pub unanswered: bool,
    /// Whether it is not wanted and was seen absent, and is only kept because of such a request.
    pub gone: bool,
    /// Whether a chart's hook made it.
    pub hook: bool,
}

impl Entry {
    /// Reads an entry of a ReleaseInventory.
    pub fn from_api(entry: &InventoryEntry) -> Entry {
        Entry {
            key: ObjectKey {
                group: entry.group.clone(),
                kind: entry.kind.clone(),
                namespace: entry.namespace.clone(),
                name: entry.name.clone(),
            },
            version: entry.version.clone(),
            uid: entry.uid.clone(),
            digest: entry.digest.clone(),
            stage: stage_of(&entry.group, &entry.kind),
            wave: entry.wave,
            resource_version: entry.resource_version.clone(),
            created: entry.created,
            unanswered: entry.unanswered,
            gone: entry.gone,
            hook: entry.hook,
        }
    }

    /// The entry as a ReleaseInventory holds it.
    pub fn to_api(&self) -> InventoryEntry {
        InventoryEntry {
            group: self.key.group.clone(),
            version: self.version.clone(),
            kind: self.key.kind.clone(),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            uid: self.uid.clone(),
            digest: self.digest.clone(),
            wave: self.wave,
            resource_version: self.resource_version.clone(),
            created: self.created,
            unanswered: self.unanswered,
            gone: self.gone,
            hook: self.hook,
        }
    }
}

/// What became of one object when a plan was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was applied; the target has it under this uid, with the content of this digest.
    Applied {
        /// Its uid on the target.
        uid: String,
        /// Digest of what was sent.
        digest: String,
        /// Its resourceVersion after the apply.
        resource_version: String,
        /// Whether the apply created it.
        created: bool,
    },
    /// The answer got lost, or does not say whether it was written.
    Failed,
    /// The target answered that it wrote nothing.
    Refused,
    /// The object that was to be changed is not there any more, or is another one of its name; nothing was
    /// written.
    Gone,
    /// It was deleted, or was gone already.
    Pruned,
    /// It stays on the target, but it is another's now and is no longer recorded.
    Forgotten,
}

impl Plan {
    /// The inventory to store before the first write: every old entry and every object the plan will
    /// apply. The digests of all that the plan will touch are cleared, so that a crash in between
    /// never makes an object look as if it were in its old state, or there at all. Sorted by key.
    pub fn write_ahead(&self, old: &[Entry], late: LateWrites) -> Vec<Entry> {
        let mut entries: BTreeMap<ObjectKey, Entry> =
            old.iter().map(|entry| (entry.key.clone(), entry.clone())).collect();
        if late == LateWrites::Over {
            entries.values_mut().for_each(|entry| entry.unanswered = false);
        }
        for (stage, apply) in self.applies() {
            let entry = entries.entry(apply.target.key.clone()).or_insert_with(|| Entry {
                key: apply.target.key.clone(),
                version: String::new(),
                uid: String::new(),
                digest: String::new(),
                stage,
                wave: apply.wave,
                resource_version: String::new(),
                created: false,
                unanswered: false,
                gone: false,
                hook: apply.hook,
            });
            entry.version.clone_from(&apply.target.version);
            entry.digest.clear();
            entry.stage = stage;
            entry.wave = apply.wave;
            entry.gone = false;
            entry.hook = apply.hook;
            if apply.hook {
                // The object of an earlier run goes, and tells nothing of this one.
                entry.uid.clear();
                entry.resource_version.clear();
            }
            entry.unanswered |= apply.may_create();
        }
        for prune in &self.prunes {
            if let Some(entry) = entries.get_mut(&prune.target.key) {
                entry.digest.clear();
            }
        }
        entries.into_values().collect()
    }

    /// The inventory after the plan was carried out as far as `fates` tell; `old` is that before
    /// [`Plan::write_ahead`]. What is gone is dropped, unless an unanswered request may still create it: then
    /// it becomes a tombstone. Sorted by key.
    pub fn settle(&self, old: &[Entry], fates: &BTreeMap<ObjectKey, Fate>, late: LateWrites) -> Vec<Entry> {
        let old_by_key: BTreeMap<&ObjectKey, &Entry> = old.iter().map(|entry| (&entry.key, entry)).collect();
        let applies: BTreeMap<&ObjectKey, ApplyReason> =
            self.applies().map(|(_, apply)| (&apply.target.key, apply.reason)).collect();
        let mut entries = self.write_ahead(old, late);
        entries.retain_mut(|entry| {
            let before = old_by_key.get(&entry.key);
            // Of an earlier attempt, whose end this plan tells nothing of.
            let was_unanswered = late != LateWrites::Over && before.is_some_and(|before| before.unanswered);
            let applied_for = applies.get(&entry.key).copied();
            match fates.get(&entry.key) {
                Some(Fate::Applied { uid, digest, resource_version, created }) => {
                    // It was absent before an attempt of ours, and then had our label.
                    let was_ours = applied_for == Some(ApplyReason::Unconfirmed)
                        && before.is_some_and(|before| before.unanswered && before.uid.is_empty());
                    // An object that was made anew under another uid is judged anew.
                    entry.created = *created || was_ours || (entry.created && entry.uid == *uid);
                    entry.uid.clone_from(uid);
                    entry.digest.clone_from(digest);
                    entry.resource_version.clone_from(resource_version);
                    entry.unanswered = was_unanswered;
                    true
                }
                Some(Fate::Failed) => true,
                Some(Fate::Gone) => {
                    entry.let_go();
                    entry.created = false;
                    entry.unanswered = was_unanswered;
                    true
                }
                // Another has it, and had it when our earlier attempt, if any, came too late.
                Some(Fate::Forgotten) if applied_for.is_some() => false,
                Some(Fate::Pruned | Fate::Forgotten) => {
                    entry.let_go();
                    entry.created = true;
                    entry.gone = was_unanswered;
                    was_unanswered
                }
                Some(Fate::Refused) => {
                    entry.unanswered = was_unanswered;
                    true
                }
                None => {
                    if applied_for.is_some() {
                        // It was not tried.
                        entry.unanswered = was_unanswered;
                    }
                    true
                }
            }
        });
        entries
    }
}

impl Entry {
    /// Nothing is known of the object any more.
    fn let_go(&mut self) {
        self.uid.clear();
        self.digest.clear();
        self.resource_version.clear();
    }
}
