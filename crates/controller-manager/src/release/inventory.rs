//! Inventories, in parts that stay small enough for every store.

use std::sync::Arc;

use convoy_api::{
    ClusterReference, DeliveryProgress, Release, ReleaseInventory, ReleaseInventorySpec, ReleaseReference,
    WriterStatus, apply_name, finalizer, inventory_name_in, label,
};
use convoy_apply::Ownership;
use convoy_plan::Entry;
use convoy_runtime::{Sharded as _, StoreKey};

use super::Releases;
use crate::host::HostError;

/// Entries of one part at most.
const ENTRIES_OF_A_PART: usize = 1000;
/// What the entries of one part weigh at most, so that a part stays below 512 KiB with what else it holds.
const WEIGHT_OF_A_PART: usize = 416 * 1024;
/// What an entry takes beside its names: a uid, a digest, a resourceVersion, the names of all fields.
const WEIGHT_OF_AN_ENTRY: usize = 352;

/// What an entry takes at most once all is known of it. It does not change as that becomes known, so that no entry moves
/// to another part by it.
fn weight(entry: &Entry) -> usize {
    let key = &entry.key;
    let names = [&key.group, &entry.version, &key.kind, &key.namespace, &key.name];
    names.iter().fold(WEIGHT_OF_AN_ENTRY, |sum, name| sum.saturating_add(name.len()))
}

/// The entries of each part. A first part without entries tells which bundle was delivered.
///
/// Each part takes as many entries as fit. So an entry that is added moves others to later parts only, and one that
/// goes moves them to earlier ones only.
fn chunks_of(entries: &[Entry], keeps_first: bool) -> Vec<&[Entry]> {
    if entries.is_empty() && keeps_first {
        return vec![entries];
    }
    let mut chunks = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let mut sum = 0usize;
        let fits = |entry: &&Entry| {
            sum = sum.saturating_add(weight(entry));
            sum <= WEIGHT_OF_A_PART
        };
        let count = rest.iter().take(ENTRIES_OF_A_PART).take_while(fits).count().max(1);
        let (chunk, others) = rest.split_at(count);
        chunks.push(chunk);
        rest = others;
    }
    chunks
}

/// Which inventory: of a Release on a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InventoryId {
    pub(crate) namespace: String,
    pub(crate) release: String,
    pub(crate) release_uid: String,
    pub(crate) cluster: StoreKey,
}

impl InventoryId {
    pub(crate) fn of(release: &Release, cluster: &StoreKey) -> Self {
        Self {
            namespace: release.metadata.namespace.clone().unwrap_or_default(),
            release: release.metadata.name.clone().unwrap_or_default(),
            release_uid: release.metadata.uid.clone().unwrap_or_default(),
            cluster: cluster.clone(),
        }
    }

    fn key(&self, part: usize) -> StoreKey {
        let StoreKey { namespace, name } = &self.cluster;
        let name = inventory_name_in(&self.namespace, &self.release, (namespace, name), part);
        StoreKey::new(self.namespace.as_str(), name)
    }

    /// The Cluster, as the inventory names it.
    fn reference(&self) -> ClusterReference {
        let StoreKey { namespace, name } = &self.cluster;
        let namespace = Some(namespace.clone()).filter(|namespace| *namespace != self.namespace);
        ClusterReference { name: name.clone(), namespace }
    }
}

/// All parts of an inventory as they were read.
#[derive(Clone, Debug)]
pub(crate) struct Inventory {
    id: InventoryId,
    parts: Vec<ReleaseInventory>,
    /// How far the delivery has come; stored with the next write.
    progress: Option<DeliveryProgress>,
    /// How often objects were about to be written.
    applies: i64,
}

impl Inventory {
    fn new(id: &InventoryId, parts: Vec<ReleaseInventory>) -> Self {
        let progress = parts.first().and_then(|part| part.spec.delivery.clone());
        let applies = parts.first().map_or(0, |part| part.spec.applies);
        Self { id: id.clone(), parts, progress, applies }
    }

    /// How far the delivery of its bundle has come; none when that has come to its end.
    pub(crate) fn progress(&self) -> Option<&DeliveryProgress> {
        self.progress.as_ref()
    }

    /// Changes how far the delivery has come; the next write stores it.
    pub(crate) fn set_progress(&mut self, progress: Option<DeliveryProgress>) {
        self.progress = progress;
    }

    /// Whether it is stored how far the delivery has come.
    pub(crate) fn is_progress_stored(&self) -> bool {
        self.progress.as_ref() == self.parts.first().and_then(|part| part.spec.delivery.as_ref())
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.parts.iter().flat_map(|part| &part.spec.entries).map(Entry::from_api).collect()
    }

    /// The bundle whose apply was last begun.
    pub(crate) fn bundle_digest(&self) -> &str {
        self.parts.first().map_or("", |part| part.spec.bundle_digest.as_str())
    }

    /// Names the last write of objects: what was seen before it says nothing of what is there now.
    pub(crate) fn last_apply(&self) -> Option<String> {
        let name = self.parts.first().and_then(|part| part.metadata.name.as_deref())?;
        (self.applies > 0).then(|| apply_name(name, self.applies))
    }

    /// Whether there is none yet.
    pub(crate) fn is_new(&self) -> bool {
        self.parts.is_empty()
    }

    /// The shard and epoch that wrote a part last.
    pub(crate) fn writers(&self) -> impl Iterator<Item = (i64, i64)> {
        self.parts.iter().filter_map(|part| part.spec.writer.as_ref()).map(|by| (by.shard, by.epoch))
    }

    /// Names of the parts.
    pub(crate) fn names(&self) -> Vec<String> {
        self.parts.iter().filter_map(|part| part.metadata.name.clone()).collect()
    }

    fn part(&self, index: usize, entries: &[Entry], bundle: &str, writer: &WriterStatus) -> ReleaseInventory {
        let mut part = self.parts.get(index).cloned().unwrap_or_else(|| {
            let mut new = ReleaseInventory::default();
            let key = self.id.key(index);
            new.metadata.namespace = Some(key.namespace);
            new.metadata.name = Some(key.name);
            new
        });
        let labels = part.metadata.labels.get_or_insert_default();
        labels.insert(label::INVENTORY_OF.to_owned(), self.id.release_uid.clone());
        let finalizers = part.metadata.finalizers.get_or_insert_default();
        if part.metadata.deletion_timestamp.is_none()
            && !finalizers.iter().any(|name| name == finalizer::INVENTORY)
        {
            finalizers.push(finalizer::INVENTORY.to_owned());
        }
        part.spec = ReleaseInventorySpec {
            release_ref: ReleaseReference { name: self.id.release.clone(), uid: self.id.release_uid.clone() },
            cluster_ref: self.id.reference(),
            bundle_digest: bundle.to_owned(),
            delivery: self.progress.clone().filter(|_| index == 0),
            applies: self.applies,
            writer: Some(writer.clone()),
            entries: entries.iter().map(Entry::to_api).collect(),
        };
        part
    }
}

impl Releases {
    /// The inventory as the store shows it; it may be older than what this process wrote.
    pub(crate) fn cached_inventory(&self, id: &InventoryId) -> Inventory {
        Inventory::new(id, self.parts(id).map(|part| (*part).clone()).collect())
    }

    /// The parts of the inventory as the store shows them.
    pub(crate) fn parts<'a>(
        &'a self,
        id: &'a InventoryId,
    ) -> impl Iterator<Item = Arc<ReleaseInventory>> + 'a {
        let is_of_it = |part: &Arc<ReleaseInventory>| {
            part.spec.release_ref.uid == id.release_uid && part.shard_key() == id.cluster
        };
        (0..).map_while(|part| self.inventories.get(&id.key(part))).take_while(is_of_it)
    }

    /// The inventory as the API server has it. Parts of an earlier Release of the same name, whose
    /// finalizer must have let go of them, are taken over.
    pub(crate) async fn fresh_inventory(&self, id: &InventoryId) -> Result<Inventory, HostError> {
        let mut parts = Vec::new();
        while let Some(part) = self.host.inventory(&id.key(parts.len())).await? {
            // Names may hold dots, so that another pair of Release and Cluster can have the same name.
            let (release, cluster) = (&part.spec.release_ref.name, part.shard_key());
            if *release != id.release || cluster != id.cluster {
                let by = format!(
                    "it is that of the Release {release} on the Cluster {cluster}; rename one of them"
                );
                return Err(HostError::Taken { kind: "ReleaseInventory", object: id.key(parts.len()), by });
            }
            parts.push(part);
        }
        Ok(Inventory::new(id, parts))
    }

    /// Stores an inventory that only gained entries. Entries move to later parts only, so the last part
    /// goes first: at no time is an entry in none.
    pub(crate) async fn write_ahead(
        &self,
        ownership: &dyn Ownership,
        inventory: &mut Inventory,
        entries: &[Entry],
        bundle: &str,
    ) -> Result<(), HostError> {
        let writer = self.writer(ownership);
        inventory.applies = inventory.applies.saturating_add(1);
        let chunks = chunks_of(entries, true);
        let mut parts = vec![None; chunks.len()];
        for (index, chunk) in chunks.into_iter().enumerate().rev() {
            let part = inventory.part(index, chunk, bundle, &writer);
            parts[index] = Some(self.host.writer.put_inventory(ownership, &part).await?);
        }
        inventory.parts = parts.into_iter().flatten().collect();
        Ok(())
    }

    /// Stores an inventory that only lost entries. Entries move to earlier parts only, so the first
    /// part goes first. Without entries and without a bundle the inventory goes, too.
    pub(crate) async fn settle(
        &self,
        ownership: &dyn Ownership,
        inventory: &mut Inventory,
        entries: &[Entry],
        bundle: &str,
    ) -> Result<(), HostError> {
        let writer = self.writer(ownership);
        let mut parts = Vec::new();
        for (index, chunk) in chunks_of(entries, !bundle.is_empty()).into_iter().enumerate() {
            let part = inventory.part(index, chunk, bundle, &writer);
            parts.push(self.host.writer.put_inventory(ownership, &part).await?);
        }
        // The last one first: parts are found one after the other, and nobody would look behind one that is gone.
        for surplus in inventory.parts.iter().skip(parts.len()).rev() {
            self.host.writer.delete_inventory(ownership, surplus).await?;
        }
        inventory.parts = parts;
        Ok(())
    }

    /// How this replica signs what it writes in a term.
    pub(crate) fn writer(&self, ownership: &dyn Ownership) -> WriterStatus {
        WriterStatus {
            replica: self.host.writer.replica().to_owned(),
            shard: i64::from(ownership.shard()),
            epoch: i64::try_from(ownership.epoch()).unwrap_or(i64::MAX),
            ..WriterStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use convoy_plan::{ObjectKey, stage_of};

    use super::*;

    /// An entry as large as Kubernetes lets names be, of which all is known.
    fn entry(number: usize, length: usize) -> Entry {
        let name = |length: usize| format!("{number:0>length$}");
        let key = ObjectKey { group: name(length), kind: name(63), namespace: name(63), name: name(length) };
        Entry {
            version: "v1alpha1".to_owned(),
            uid: "00000000-0000-0000-0000-000000000000".to_owned(),
            digest: format!("sha256:{}", "0".repeat(64)),
            stage: stage_of(&key.group, &key.kind),
            key,
            resource_version: u64::MAX.to_string(),
            created: true,
            unanswered: true,
            gone: true,
            wave: i32::MIN,
            hook: true,
        }
    }

    /// As the API server stores it, with the longest names.
    fn part_of(entries: &[Entry]) -> usize {
        let long = |length: usize| "n".repeat(length);
        let id = InventoryId {
            namespace: long(63),
            release: long(253),
            release_uid: long(36),
            cluster: StoreKey::new(long(63), long(253)),
        };
        let writer = WriterStatus { replica: long(253), shard: 31, epoch: i64::MAX, last_look_time: None };
        let part = Inventory::new(&id, Vec::new()).part(0, entries, &long(71), &writer);
        serde_json::to_string(&part).unwrap().len()
    }

    #[test]
    fn a_state_store_never_gets_too_large_a_part_of_an_inventory() {
        for length in [1, 40, 253] {
            let entries: Vec<Entry> = (0..5000).map(|number| entry(number, length)).collect();
            let chunks = chunks_of(&entries, true);
            assert_eq!(chunks.iter().map(|chunk| chunk.len()).sum::<usize>(), entries.len());
            for chunk in &chunks {
                assert!(part_of(chunk) <= 512 * 1024, "{length}: {}", part_of(chunk));
            }
            // And they are not many.
            assert!(chunks.len() <= 12, "{length}: {}", chunks.len());
        }
        assert_eq!(chunks_of(&[], true).len(), 1);
        assert!(chunks_of(&[], false).is_empty());
    }

    #[test]
    fn an_entry_that_comes_moves_others_to_later_parts_only() {
        let place_of = |entries: &[Entry]| -> Vec<(String, usize)> {
            let chunks = chunks_of(entries, true);
            let places = chunks.iter().enumerate();
            places.flat_map(|(part, chunk)| chunk.iter().map(move |e| (e.key.name.clone(), part))).collect()
        };
        let all: Vec<Entry> = (0..3000).map(|number| entry(number, 20 + number * 7 % 230)).collect();
        let some: Vec<Entry> = all.iter().step_by(3).cloned().collect();
        let later = place_of(&all);
        for (name, part) in place_of(&some) {
            let (_, now) = later.iter().find(|(other, _)| *other == name).unwrap();
            assert!(*now >= part, "{name}: {now} < {part}");
        }
    }
}
