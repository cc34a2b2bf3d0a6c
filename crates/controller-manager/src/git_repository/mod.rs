//! The controller of GitRepositories: fetches, and keeps artifacts in the render store.

mod reconcile;
mod status;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::GitRepository;
use convoy_render::RenderStore;
use convoy_runtime::{Clock, Store};
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
