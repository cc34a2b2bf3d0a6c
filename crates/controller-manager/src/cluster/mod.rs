//! The controller of Clusters: keeps contact with targets.

mod circuits;
mod contacts;
mod reconcile;
mod status;

use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Cluster, Release, ReleaseInventory};
use convoy_runtime::{Backoff, Clock, Reach, Store, StoreKey, WorkQueue};

pub(crate) use self::circuits::Circuits;
pub(crate) use self::contacts::Contacts;
#[cfg(test)]
pub(crate) use self::{
    contacts::{Cause, Contact},
    status::Outcome,
};
use crate::duties::Duties;
use crate::host::Host;
use crate::targets::Targets;

/// How often a target in contact is looked at. Between looks it is known to be gone only when a write
/// to it fails.
const LOOK_INTERVAL: Duration = Duration::from_secs(300);
/// How long a whole look at a target may take, also when answers drip in.
const LOOK_DEADLINE: Duration = Duration::from_secs(10);
/// How long a target is left alone after looks that failed.
const AFTER_FAILURES: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// What the controller works with.
pub(crate) struct Clusters {
    pub(crate) host: Host,
    pub(crate) duties: Duties,
    pub(crate) reach: Reach,
    pub(crate) clusters: Store<Cluster>,
    pub(crate) releases: Store<Release>,
    pub(crate) inventories: Store<ReleaseInventory>,
    pub(crate) targets: Targets,
    pub(crate) contacts: Contacts,
    pub(crate) release_queue: Arc<WorkQueue<StoreKey>>,
    pub(crate) clock: Arc<dyn Clock>,
}
