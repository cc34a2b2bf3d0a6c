//! The controller of Clusters: keeps contact with targets.

mod reconcile;
mod status;

use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Cluster, Release};
use convoy_apply::Ownership;
use convoy_runtime::{Clock, ProcessIdentity, Store, StoreKey, WorkQueue};

use crate::host::Host;
use crate::targets::Targets;

/// How often a target in contact is looked at. Between looks it is known to be gone only when a write
/// to it fails.
const LOOK_INTERVAL: Duration = Duration::from_secs(300);

/// What the controller works with.
pub(crate) struct Clusters {
    pub(crate) host: Host,
    pub(crate) identity: ProcessIdentity,
    pub(crate) clusters: Store<Cluster>,
    pub(crate) releases: Store<Release>,
    pub(crate) targets: Targets,
    pub(crate) ownership: Arc<dyn Ownership>,
    pub(crate) release_queue: Arc<WorkQueue<StoreKey>>,
    pub(crate) clock: Arc<dyn Clock>,
}
