//! Clients of targets that only look, and what these targets serve.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::Cluster;
use convoy_apply::{Capabilities, Ownership, RequestError, Target};
use convoy_runtime::{Clock, Reach, StoreKey};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::clusters::{NoClient, Origin, client_of};

/// How long what a target serves is taken for what it serves now; an unknown kind has it asked anew at once.
const FRESH: Duration = Duration::from_secs(60);

/// Objects that one target is asked about at a time.
const TURNS: usize = 8;

/// A target that is only looked at.
pub(crate) struct Seen {
    pub(crate) target: Target,
    made_of: Origin,
    pub(crate) capabilities: Arc<Capabilities>,
    /// Objects that are asked about at a time, whoever asks.
    pub(crate) turns: Arc<Semaphore>,
    /// Whether discovery was asked for this very look.
    pub(crate) is_fresh: bool,
}

struct Known {
    made_of: Origin,
    capabilities: Arc<Capabilities>,
    /// On the monotonic clock.
    since: Duration,
}

/// Targets that are looked at to answer. A client is made for each answer: its kubeconfig may have changed.
pub(crate) struct LookedAtTargets {
    host: Client,
    reach: Reach,
    clock: Arc<dyn Clock>,
    known: Mutex<HashMap<StoreKey, Known>>,
    turns: Mutex<HashMap<StoreKey, Arc<Semaphore>>>,
}

/// Why a target cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSeen {
    #[error(transparent)]
    Client(#[from] NoClient),
    #[error("{0}")]
    Discovery(RequestError),
}

impl LookedAtTargets {
    pub(crate) fn new(host: Client, reach: Reach, clock: Arc<dyn Clock>) -> Self {
        Self { host, reach, clock, known: Mutex::default(), turns: Mutex::default() }
    }

    pub(crate) fn retain(&self, keep: impl Fn(&StoreKey) -> bool) {
        self.known.lock().retain(|cluster, _| keep(cluster));
        self.turns.lock().retain(|cluster, _| keep(cluster));
    }

    pub(crate) async fn look(
        &self,
        key: &StoreKey,
        cluster: &Cluster,
        ownership: &Arc<dyn Ownership>,
    ) -> Result<Seen, NotSeen> {
        let (client, made_of) =
            client_of(&self.host, &self.reach, Arc::clone(&self.clock), key, cluster).await?;
        let target = Target::new(client, Arc::clone(ownership));
        let turns = {
            let mut all = self.turns.lock();
            Arc::clone(all.entry(key.clone()).or_insert_with(|| Arc::new(Semaphore::new(TURNS))))
        };
        let now = self.clock.monotonic();
        let known = {
            let all = self.known.lock();
            let is_good =
                |known: &&Known| known.made_of == made_of && now.saturating_sub(known.since) < FRESH;
            all.get(key).filter(is_good).map(|known| Arc::clone(&known.capabilities))
        };
        if let Some(capabilities) = known {
            return Ok(Seen { target, made_of, capabilities, turns, is_fresh: false });
        }
        let mut seen = Seen { target, made_of, capabilities: Arc::default(), turns, is_fresh: false };
        self.rediscover(key, &mut seen, ownership).await.map_err(NotSeen::Discovery)?;
        Ok(seen)
    }

    /// Asks what the target serves now.
    pub(crate) async fn rediscover(
        &self,
        key: &StoreKey,
        seen: &mut Seen,
        ownership: &Arc<dyn Ownership>,
    ) -> Result<(), RequestError> {
        let capabilities = Arc::new(seen.target.discover().await?);
        seen.capabilities = Arc::clone(&capabilities);
        seen.is_fresh = true;
        let mut all = self.known.lock();
        // After the shard was lost nobody would take it away again.
        if ownership.check().is_ok() {
            let since = self.clock.monotonic();
            all.insert(key.clone(), Known { made_of: seen.made_of.clone(), capabilities, since });
        }
        Ok(())
    }
}
