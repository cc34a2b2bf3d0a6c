//! The controller of Releases.
//!
//! | module | what it is |
//! |---|---|
//! | `reconcile` | one look at one Release |
//! | `pursue` | which bundle is to be on the target: gather, decide, act |
//! | `failure` | what a failed delivery and a wish to go back lead to; pure |
//! | `dependencies` | what a Release waits for |
//! | `dependents` | who waits for which Release |
//! | `deliver` | from a bundle to the target: plan, write-ahead, apply, prune, settle |
//! | `hooks` | a chart's hooks, each run once |
//! | `delete_hooks` | hooks around the removal |
//! | `delete` | from a deleted Release to nothing |
//! | `claims` | objects that looks are about to create, so that no two Releases create one |
//! | `rest` | looks at what is at rest: that nothing is to be done is known without a plan; pure |
//! | `late` | requests without an answer that may reach the target late |
//! | `left` | what a Release still has on clusters that it left |
//! | `index` | where each Release has inventories |
//! | `inventory` | inventories in parts, read and written |
//! | `slow` | looks whose target takes long to answer |
//! | `decide` | what health, drift and earlier failures ask for; pure |
//! | `status` | what the status says; pure |

mod claims;
mod decide;
mod delete;
mod delete_hooks;
mod deliver;
mod dependencies;
pub(crate) mod dependents;
mod failure;
mod hooks;
pub(crate) mod index;
mod inventory;
mod late;
mod left;
mod pursue;
mod reconcile;
mod rest;
mod slow;
mod status;

pub(crate) use decide::HealthGate;

use std::collections::HashMap;
use std::sync::Arc;

use convoy_api::{Cluster, Release, ReleaseInventory, ReleaseStatus};
use convoy_apply::{Ownership, Patience, RequestError};
use convoy_health::RuleSets;
use convoy_prepare::{Preparer, acts_as};
use convoy_render::RenderStore;
use convoy_runtime::{Clock, Store, StoreKey, WorkQueue};
use parking_lot::Mutex;

use self::slow::SlowLook;
use crate::access::Access;
use crate::cluster::Contacts;
use crate::duties::Duties;
use crate::host::Host;
use crate::observers::ObserverLeases;
use crate::sources::Sources;
use crate::targets::{Connected, Targets};

/// What the controller works with.
pub(crate) struct Releases {
    pub(crate) host: Host,
    pub(crate) duties: Duties,
    pub(crate) releases: Store<Release>,
    pub(crate) inventories: Store<ReleaseInventory>,
    pub(crate) index: Arc<index::InventoryIndex>,
    pub(crate) dependents: Arc<dependents::Dependents>,
    pub(crate) clusters: Store<Cluster>,
    pub(crate) access: Access,
    pub(crate) sources: Sources,
    pub(crate) targets: Targets,
    pub(crate) contacts: Contacts,
    pub(crate) observers: Option<ObserverLeases>,
    pub(crate) store: RenderStore,
    /// What makes objects healthy.
    pub(crate) health: Arc<RuleSets>,
    pub(crate) queue: Arc<WorkQueue<StoreKey>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) prepared: Preparer,
    pub(crate) memory: Mutex<HashMap<StoreKey, Memory>>,
    pub(crate) late: late::LateMemory,
    pub(crate) claims: claims::Claims,
}

/// What this process knows of a Release beyond the API server: nothing that must outlive it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// The shard and its epoch that all this was learned in.
    term: (u32, u64),
    /// The uid that all this is about.
    uid: String,
    /// The status that was written last, and the resourceVersion it got; the store may not show it yet.
    pub(crate) status: Option<Box<(String, ReleaseStatus)>>,
    /// What was tried in vain, and until when not to try it again.
    hold: Option<decide::Hold>,
    /// Drift that was corrected.
    drift: decide::DriftMemory,
    /// Objects that a wave waited for at the last look.
    pending: Vec<convoy_plan::ObjectKey>,
    /// Which attempt applies all anew and has not come to its end, and what it has applied: no look does that again.
    reapplied: Option<Box<(String, convoy_plan::Reapply)>>,
    /// What the last look went by, when it found nothing to do.
    rest: Option<rest::Basis>,
}

impl Memory {
    /// Makes the next look a whole one.
    pub(crate) fn forget_rest(&mut self) {
        self.rest = None;
    }
}

/// One look at one Release.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) key: &'a StoreKey,
    pub(crate) release: &'a Release,
    /// The term of the Release's shard in which the look began.
    pub(crate) ownership: &'a Arc<dyn Ownership>,
}

impl Look<'_> {
    fn term(&self) -> (u32, u64) {
        (self.ownership.shard(), self.ownership.epoch())
    }

    fn uid(&self) -> &str {
        self.release.metadata.uid.as_deref().unwrap_or_default()
    }
}

impl Releases {
    /// A target that is in contact, for work under `ownership` that a Release asks for, as whom it has to act there; none
    /// while it is not asked.
    fn target(
        &self,
        release: &Release,
        cluster: &StoreKey,
        ownership: &Arc<dyn Ownership>,
    ) -> Option<Connected> {
        if self.contacts.silence(cluster).is_some() {
            return None;
        }
        // Without the Cluster it is not known as whom: never as convoy itself then.
        let spec = &self.clusters.get(cluster)?.spec;
        let connected = self.targets.get(cluster, ownership)?.acting_as(acts_as(release, spec));
        Some(connected.with_patience(self.patience(release)))
    }

    fn patience(&self, release: &Release) -> Arc<dyn Patience> {
        let queue = Arc::clone(&self.queue);
        Arc::new(SlowLook::new(queue, convoy_runtime::store_key(release), Arc::clone(&self.clock)))
    }

    /// Asks a target anew what it serves.
    async fn rediscover(
        &self,
        look: Look<'_>,
        cluster: &StoreKey,
    ) -> Result<Option<Connected>, RequestError> {
        let renewed = self.targets.rediscover(cluster, look.ownership).await?;
        Ok(renewed.and_then(|renewed| {
            let spec = &self.clusters.get(cluster)?.spec;
            let renewed = renewed.acting_as(acts_as(look.release, spec));
            Some(renewed.with_patience(self.patience(look.release)))
        }))
    }

    fn recall(&self, look: Look<'_>) -> Memory {
        let is_of = |memory: &&mut Memory| memory.uid == look.uid() && memory.term == look.term();
        let mut all = self.memory.lock();
        let Some(memory) = all.get_mut(look.key).filter(is_of) else { return Memory::default() };
        // What the store shows is not kept twice.
        memory.status.take_if(|written| !status::is_shown_older(look.release, &written.0));
        memory.clone()
    }

    pub(crate) fn remember(&self, look: Look<'_>, change: impl FnOnce(&mut Memory)) {
        let mut all = self.memory.lock();
        // After the shard was lost nobody would take it away again.
        if look.ownership.check().is_err() {
            return;
        }
        let memory = all.entry(look.key.clone()).or_default();
        if memory.uid != look.uid() || memory.term != look.term() {
            *memory = Memory { uid: look.uid().to_owned(), term: look.term(), ..Memory::default() };
        }
        change(memory);
    }

    fn forget(&self, key: &StoreKey) {
        self.memory.lock().remove(key);
        self.sources.artifacts.release(key);
    }

    /// Lets go of what was learned for shards that are not worked on any more.
    pub(crate) fn retain_shards(&self, keep: impl Fn(u32) -> bool) {
        self.memory.lock().retain(|_, memory| keep(memory.term.0));
        self.late.retain_shards(&keep);
        self.prepared.retain_shards(keep);
    }
}
