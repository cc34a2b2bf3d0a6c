//! The resources that are served, which change at run time.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{Resource, ResourceDef};

/// The resources of one moment, in the order of group, version and plural.
#[derive(Debug, Default, Clone)]
pub struct Resources {
    resources: BTreeMap<(String, String, String), Arc<Resource>>,
}

impl Resources {
    /// The resource at a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The resource of a kind.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.iter()
            .find(|resource| resource.group == group && resource.version == version && resource.kind == kind)
    }

    /// Any version of a resource.
    pub fn any_version(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.iter().find(|resource| resource.group == group && resource.plural == plural)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}

/// A table of resources that readers look at without a lock.
#[derive(Debug)]
pub struct ResourceTable {
    current: ArcSwap<Resources>,
    writing: Mutex<()>,
    changes: watch::Sender<u64>,
}

impl Default for ResourceTable {
    fn default() -> Self {
        Self {
            current: ArcSwap::from_pointee(Resources::default()),
            writing: Mutex::new(()),
            changes: watch::Sender::new(0),
        }
    }
}

impl ResourceTable {
    /// The resources of this moment.
    pub fn load(&self) -> Arc<Resources> {
        self.current.load_full()
    }

    /// The resource at a path, now.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.current.load().find(group, version, plural).cloned()
    }

    /// Adds resources, or replaces those at the same path; watches of replaced ones end.
    ///
    /// Tables that serve the same resources can share their definitions.
    pub fn install<D: Into<Arc<ResourceDef>>>(&self, defs: impl IntoIterator<Item = D>) {
        self.change(|resources| {
            for def in defs {
                let def = def.into();
                let key = (def.group.clone(), def.version.clone(), def.plural.clone());
                if let Some(replaced) = resources.resources.insert(key, Arc::new(Resource::new(def))) {
                    replaced.close();
                }
            }
        });
    }

    /// Removes a resource; its watches end. Its objects stay in the storage.
    pub fn remove(&self, group: &str, version: &str, plural: &str) {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.change(|resources| {
            if let Some(removed) = resources.resources.remove(&key) {
                removed.close();
            }
        });
    }

    /// Tells of every change: for discovery and OpenAPI documents.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn change(&self, change: impl FnOnce(&mut Resources)) {
        let _writing = self.writing.lock();
        let mut resources = Resources::clone(&self.current.load());
        change(&mut resources);
        self.current.store(Arc::new(resources));
        self.changes.send_modify(|count| *count += 1);
    }
}
