//! The targets that are in contact.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_apply::{Capabilities, RequestError, Target};
use convoy_runtime::StoreKey;
use parking_lot::RwLock;

/// A target and what it serves.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    /// The client that may write there.
    pub(crate) target: Target,
    /// What discovery last said.
    pub(crate) capabilities: Arc<Capabilities>,
    /// What the client was made of: the Cluster's uid and a digest of its kubeconfig.
    pub(crate) made_of: (String, String),
}

/// All targets in contact, by Cluster. The controller of Clusters puts them here and takes them away;
/// the controller of Releases uses them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets {
    connected: Arc<RwLock<HashMap<StoreKey, Connected>>>,
}

impl Targets {
    pub(crate) fn get(&self, cluster: &StoreKey) -> Option<Connected> {
        self.connected.read().get(cluster).cloned()
    }

    pub(crate) fn put(&self, cluster: StoreKey, connected: Connected) {
        self.connected.write().insert(cluster, connected);
    }

    pub(crate) fn remove(&self, cluster: &StoreKey) {
        self.connected.write().remove(cluster);
    }

    /// Asks a target anew what it serves; a client that was replaced meanwhile is left alone.
    pub(crate) async fn rediscover(&self, cluster: &StoreKey) -> Result<Option<Connected>, RequestError> {
        let Some(known) = self.get(cluster) else { return Ok(None) };
        let capabilities = Arc::new(known.target.discover().await?);
        let mut connected = self.connected.write();
        let Some(current) = connected.get_mut(cluster).filter(|current| current.made_of == known.made_of)
        else {
            return Ok(None);
        };
        current.capabilities = capabilities;
        Ok(Some(current.clone()))
    }
}
