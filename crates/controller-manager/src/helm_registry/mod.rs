//! The controller of HelmRegistries: reads indexes, and keeps what is needed of them in the render store.

mod reconcile;
mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::HelmRegistry;
use convoy_render::RenderStore;
use convoy_runtime::{Clock, Store, StoreKey};
use convoy_source::{Fetcher, Validators};
use parking_lot::Mutex;

use crate::duties::Duties;
use crate::host::Host;

/// `spec.interval` when it is absent.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);

/// What the controller works with.
pub(crate) struct HelmRegistries {
    pub(crate) host: Host,
    pub(crate) duties: Duties,
    pub(crate) registries: Store<HelmRegistry>,
    pub(crate) fetcher: Fetcher,
    pub(crate) store: RenderStore,
    pub(crate) clock: Arc<dyn Clock>,
    /// What the servers said of the indexes whose digest is in the status.
    pub(crate) seen: Mutex<HashMap<StoreKey, Seen>>,
}

/// The index that was read last.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    digest: String,
    validators: Validators,
}

impl HelmRegistries {
    /// Forgets what was seen of registries that are not this replica's any more.
    pub(crate) fn retain(&self, is_ours: impl Fn(&StoreKey) -> bool) {
        self.seen.lock().retain(|key, _| is_ours(key));
    }
}

/// The next look at a registry that is well.
pub(crate) fn interval(registry: &HelmRegistry) -> Duration {
    registry.spec.interval.map_or(DEFAULT_INTERVAL, convoy_api::Duration::as_std)
}
