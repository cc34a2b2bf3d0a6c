//! The targets that are in contact.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_apply::{Capabilities, Ownership, Pace, Patience, RequestError, ServiceAccount, Target};
use convoy_runtime::{Pacer, StoreKey};
use futures::future::BoxFuture;
use parking_lot::RwLock;

use crate::duties::Unowned;

/// A target and what it serves.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    /// The client that may write there, through the cluster's breaker and at its pace.
    pub(crate) target: Target,
    /// The same without breaker and pace, for probes.
    pub(crate) bare: Target,
    /// The pace: the Cluster's `spec.limits`.
    pub(crate) pacer: Pacer,
    /// What discovery last said.
    pub(crate) capabilities: Arc<Capabilities>,
    /// What the client was made of: the Cluster's uid and a digest of its kubeconfig.
    pub(crate) made_of: (String, String),
}

/// The pace of one target.
pub(crate) struct AtPace(pub(crate) Pacer);

impl Pace for AtPace {
    fn admitted(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.admitted())
    }
}

impl Connected {
    /// For work of one Release.
    pub(crate) fn acting_as(self, account: Option<ServiceAccount>) -> Self {
        Self { target: self.target.acting_as(account), ..self }
    }

    /// For one look at one Release.
    pub(crate) fn with_patience(self, patience: Arc<dyn Patience>) -> Self {
        Self { target: self.target.with_patience(patience), ..self }
    }

    /// For work that begins now, or was begun under `ownership`.
    fn under(&self, ownership: &Arc<dyn Ownership>) -> Self {
        let under = |target: &Target| target.under(Arc::clone(ownership));
        Self { target: under(&self.target), bare: under(&self.bare), ..self.clone() }
    }
}

/// What a target serves, kept once for all that serve the same: it takes 40 KiB, and fleets are of few kinds.
fn shared(all: &HashMap<StoreKey, Connected>, found: Arc<Capabilities>) -> Arc<Capabilities> {
    let is_same =
        |known: &&Connected| known.capabilities.digest == found.digest && known.capabilities == found;
    all.values().find(is_same).map_or(found, |known| Arc::clone(&known.capabilities))
}

/// All targets in contact, by Cluster. The controller of Clusters puts them here and takes them away;
/// the controller of Releases uses them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets {
    connected: Arc<RwLock<HashMap<StoreKey, Connected>>>,
}

impl Targets {
    /// A target, for work under `ownership`.
    pub(crate) fn get(&self, cluster: &StoreKey, ownership: &Arc<dyn Ownership>) -> Option<Connected> {
        self.connected.read().get(cluster).map(|connected| connected.under(ownership))
    }

    /// Keeps a target, unless its shard was lost meanwhile: then nobody would take it away again. Gives what it serves,
    /// as it is kept.
    pub(crate) fn put(
        &self,
        cluster: StoreKey,
        connected: &Connected,
        ownership: &Arc<dyn Ownership>,
    ) -> Arc<Capabilities> {
        let mut all = self.connected.write();
        let capabilities = shared(&all, Arc::clone(&connected.capabilities));
        if ownership.check().is_ok() {
            let unowned: Arc<dyn Ownership> = Arc::new(Unowned { shard: ownership.shard() });
            let connected = connected.under(&unowned);
            all.insert(cluster, Connected { capabilities: Arc::clone(&capabilities), ..connected });
        }
        capabilities
    }

    pub(crate) fn remove(&self, cluster: &StoreKey) {
        self.connected.write().remove(cluster);
    }

    /// Lets go of the targets that do not pass.
    pub(crate) fn retain(&self, keep: impl Fn(&StoreKey) -> bool) {
        self.connected.write().retain(|cluster, _| keep(cluster));
    }

    /// Asks a target anew what it serves; a client that was replaced meanwhile is left alone.
    pub(crate) async fn rediscover(
        &self,
        cluster: &StoreKey,
        ownership: &Arc<dyn Ownership>,
    ) -> Result<Option<Connected>, RequestError> {
        let Some(known) = self.get(cluster, ownership) else { return Ok(None) };
        let capabilities = Arc::new(known.target.discover().await?);
        let mut connected = self.connected.write();
        let capabilities = shared(&connected, capabilities);
        let Some(current) = connected.get_mut(cluster).filter(|current| current.made_of == known.made_of)
        else {
            return Ok(None);
        };
        current.capabilities = capabilities;
        Ok(Some(current.under(ownership)))
    }
}
