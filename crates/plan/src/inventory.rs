//! The record of what a Release may have on its target.

use std::collections::BTreeMap;

use convoy_api::InventoryEntry;

use crate::{ObjectKey, Plan, Stage, stage_of};

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
    /// The target's resourceVersion after the last confirmed apply; empty until then.
    pub resource_version: String,
    /// Whether convoy's apply created it, as against one that took over an existing object.
    pub created: bool,
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
            resource_version: entry.resource_version.clone(),
            created: entry.created,
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
            wave: self.stage.number(),
            resource_version: self.resource_version.clone(),
            created: self.created,
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
    /// It was not applied, or may have been: the answer was an error or got lost.
    Failed,
    /// It was deleted, or was gone already.
    Pruned,
    /// It stays on the target and stays recorded.
    Kept,
    /// It stays on the target, but it is another's now and is no longer recorded.
    Forgotten,
}

impl Plan {
    /// The inventory to store before the first write: every old entry and every object the plan will
    /// apply. The digests of all that the plan will touch are cleared, so that a crash in between
    /// never makes an object look as if it were in its old state, or there at all. Sorted by key.
    pub fn write_ahead(&self, old: &[Entry]) -> Vec<Entry> {
        let mut entries: BTreeMap<ObjectKey, Entry> =
            old.iter().map(|entry| (entry.key.clone(), entry.clone())).collect();
        for (stage, apply) in self.applies() {
            let entry = entries.entry(apply.target.key.clone()).or_insert_with(|| Entry {
                key: apply.target.key.clone(),
                version: String::new(),
                uid: String::new(),
                digest: String::new(),
                stage,
                resource_version: String::new(),
                created: false,
            });
            entry.version.clone_from(&apply.target.version);
            entry.digest.clear();
            entry.stage = stage;
        }
        for prune in &self.prunes {
            if let Some(entry) = entries.get_mut(&prune.target.key) {
                entry.digest.clear();
            }
        }
        entries.into_values().collect()
    }
}

/// The inventory after a plan was carried out as far as `fates` tell. Entries without a fate stay as
/// they are. Sorted by key.
pub fn settle(ahead: &[Entry], fates: &BTreeMap<ObjectKey, Fate>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = ahead
        .iter()
        .filter_map(|entry| match fates.get(&entry.key) {
            Some(Fate::Pruned | Fate::Forgotten) => None,
            Some(Fate::Applied { uid, digest, resource_version, created }) => Some(Entry {
                resource_version: resource_version.clone(),
                uid: uid.clone(),
                digest: digest.clone(),
                // An object that was made anew under another uid is judged anew.
                created: *created || (entry.created && entry.uid == *uid),
                ..entry.clone()
            }),
            Some(Fate::Failed | Fate::Kept) | None => Some(entry.clone()),
        })
        .collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    entries
}
