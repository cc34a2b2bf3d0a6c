//! Where each Release has inventories.

use std::collections::{BTreeSet, HashMap};

use convoy_api::ReleaseInventory;
use convoy_runtime::{Change, Sharded as _, StoreKey};
use parking_lot::RwLock;

/// One Release, by uid, on one Cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The Cluster.
    pub(crate) cluster: StoreKey,
    /// The Release's uid.
    pub(crate) uid: String,
}

/// The inventories of the store by their Release, so that a look at one Release does not go through those
/// of all.
#[derive(Debug, Default)]
pub(crate) struct InventoryIndex {
    /// By Release, with the inventories' names. Hardly any has more than one.
    by_release: RwLock<HashMap<StoreKey, Vec<(String, Place)>>>,
}

/// The Release of an inventory.
pub(crate) fn release_of(inventory: &ReleaseInventory) -> StoreKey {
    let namespace = inventory.metadata.namespace.clone().unwrap_or_default();
    StoreKey::new(namespace, inventory.spec.release_ref.name.as_str())
}

/// The Cluster of an inventory.
pub(crate) fn cluster_of(inventory: &ReleaseInventory) -> StoreKey {
    inventory.shard_key()
}

/// A Cluster as a Release of a namespace calls it: by its name alone when it is in the same namespace.
pub(crate) fn called(cluster: &StoreKey, from: &str) -> String {
    if cluster.namespace == from { cluster.name.clone() } else { cluster.to_string() }
}

impl InventoryIndex {
    /// Follows the store.
    pub(crate) fn follow(&self, change: &Change<ReleaseInventory>) {
        let mut by_release = self.by_release.write();
        if let Some(old) = &change.old {
            let release = release_of(old);
            if let Some(parts) = by_release.get_mut(&release) {
                parts.retain(|(name, _)| *name != change.key.name);
                if parts.is_empty() {
                    by_release.remove(&release);
                }
            }
        }
        if let Some(new) = &change.new {
            let place = Place { cluster: cluster_of(new), uid: new.spec.release_ref.uid.clone() };
            let parts = by_release.entry(release_of(new)).or_default();
            parts.retain(|(name, _)| *name != change.key.name);
            parts.push((change.key.name.clone(), place));
        }
    }

    /// Where the Release of this name has inventories, also those of earlier Releases of the name.
    pub(crate) fn places(&self, release: &StoreKey) -> BTreeSet<Place> {
        let by_release = self.by_release.read();
        by_release
            .get(release)
            .map(|parts| parts.iter().map(|(_, place)| place.clone()).collect())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn inventory(release: &str, uid: &str, cluster: &str) -> Arc<ReleaseInventory> {
        let mut inventory = ReleaseInventory::default();
        inventory.metadata.namespace = Some("team".to_owned());
        inventory.metadata.name = Some(format!("{release}.{cluster}"));
        inventory.spec.release_ref.name = release.to_owned();
        inventory.spec.release_ref.uid = uid.to_owned();
        inventory.spec.cluster_ref.name = cluster.to_owned();
        Arc::new(inventory)
    }

    #[test]
    fn sc05_a_release_is_found_on_the_clusters_that_it_left() {
        let index = InventoryIndex::default();
        let change = |old: Option<Arc<ReleaseInventory>>, new: Option<Arc<ReleaseInventory>>| {
            let key = convoy_runtime::store_key(&**old.as_ref().or(new.as_ref()).unwrap());
            index.follow(&convoy_runtime::Change { key, old, new, cause: convoy_runtime::Cause::Object });
        };
        let places = || -> Vec<String> {
            let places = index.places(&StoreKey::new("team", "web"));
            places
                .into_iter()
                .map(|place| format!("{} {}", called(&place.cluster, "team"), place.uid))
                .collect()
        };
        let (a, b) = (inventory("web", "1", "a"), inventory("web", "1", "b"));
        change(None, Some(Arc::clone(&a)));
        change(None, Some(Arc::clone(&b)));
        change(None, Some(inventory("db", "2", "c")));
        assert_eq!(places(), ["a 1", "b 1"]);
        let anew = inventory("web", "3", "a");
        change(Some(a), Some(Arc::clone(&anew)));
        change(Some(b), None);
        assert_eq!(places(), ["a 3"]);
        change(Some(anew), None);
        assert!(places().is_empty());
    }
}
