//! The controller of GitRepositories: fetches, and keeps artifacts in the render store.

mod reconcile;
mod status;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::GitRepository;
use convoy_render::RenderStore;
use convoy_runtime::{Clock, Store, StoreKey};
use convoy_source::Fetcher;
use parking_lot::Mutex;

use crate::duties::Duties;
use crate::host::Host;

/// `spec.interval` when it is absent.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// What the controller works with.
pub(crate) struct GitRepositories {
    pub(crate) host: Host,
    pub(crate) duties: Duties,
    pub(crate) repositories: Store<GitRepository>,
    pub(crate) fetcher: Fetcher,
    pub(crate) store: RenderStore,
    pub(crate) clock: Arc<dyn Clock>,
    /// Digests of artifacts that this process saw in the render store.
    pub(crate) stored: Mutex<HashSet<String>>,
}

impl GitRepositories {
    /// Forgets what was seen in the render store: by the time a shard comes back it may be gone from there.
    pub(crate) fn forget(&self) {
        self.stored.lock().clear();
    }
}

/// The next look at a repository that is well.
fn interval(repository: &GitRepository) -> Duration {
    repository.spec.interval.map_or(DEFAULT_INTERVAL, convoy_api::Duration::as_std)
}

/// The Secret that a repository names.
fn secret_key(repository: &GitRepository) -> Option<StoreKey> {
    let reference = repository.spec.secret_ref.as_ref()?;
    Some(StoreKey::new(repository.metadata.namespace.clone().unwrap_or_default(), reference.name.clone()))
}
