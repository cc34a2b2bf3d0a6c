//! The controller of Releases.
//!
//! | module | what it is |
//! |---|---|
//! | `reconcile` | one look at one Release: gather, decide, act |
//! | `prepare` | from the source to a bundle, rendered once and kept |
//! | `deliver` | from a bundle to the target: plan, write-ahead, apply, prune, settle |
//! | `delete` | from a deleted Release to nothing |
//! | `inventory` | inventories in parts, read and written |
//! | `decide` | what health, drift and earlier failures ask for; pure |
//! | `status` | what the status says; pure |

mod decide;
mod delete;
mod deliver;
mod inventory;
mod prepare;
mod reconcile;
mod status;

use std::collections::HashMap;
use std::sync::Arc;

use convoy_api::{Cluster, GitRepository, Release, ReleaseInventory, ReleaseStatus};
use convoy_render::RenderStore;
use convoy_runtime::{Clock, Shards, Store, StoreKey, WorkQueue};
use parking_lot::Mutex;

use crate::host::Host;
use crate::targets::Targets;

/// What the controller works with.
pub(crate) struct Releases {
    pub(crate) host: Host,
    pub(crate) releases: Store<Release>,
    pub(crate) inventories: Store<ReleaseInventory>,
    pub(crate) clusters: Store<Cluster>,
    pub(crate) repositories: Store<GitRepository>,
    pub(crate) targets: Targets,
    pub(crate) cluster_queue: Arc<WorkQueue<StoreKey>>,
    pub(crate) store: RenderStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) shards: Shards,
    pub(crate) prepared: prepare::Prepared,
    pub(crate) memory: Mutex<HashMap<StoreKey, Memory>>,
}

/// What this process knows of a Release beyond the API server: nothing that must outlive it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// The uid that all this is about.
    uid: String,
    /// The status that was written last; the store may not show it yet.
    status: Option<ReleaseStatus>,
    /// What was tried in vain, and until when not to try it again.
    hold: Option<decide::Hold>,
    /// Drift that was corrected.
    drift: decide::DriftMemory,
}

impl Releases {
    fn recall(&self, key: &StoreKey, uid: &str) -> Memory {
        self.memory.lock().get(key).filter(|memory| memory.uid == uid).cloned().unwrap_or_default()
    }

    fn remember(&self, key: &StoreKey, uid: &str, change: impl FnOnce(&mut Memory)) {
        let mut all = self.memory.lock();
        let memory = all.entry(key.clone()).or_default();
        if memory.uid != uid {
            *memory = Memory { uid: uid.to_owned(), ..Memory::default() };
        }
        change(memory);
    }

    fn forget(&self, key: &StoreKey) {
        self.memory.lock().remove(key);
    }
}
