//! The registry and its answers.

use std::sync::Arc;

use convoy_meta::Status;
use convoy_storage::Storage;
use convoy_storage::watch_cache::{CacheLimits, Entry};

use crate::{Admission, Identity, RandomIdentity, ResourceTable};

/// How a registry works.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    pub identity: Arc<dyn Identity>,
    /// Checked in this order.
    pub admission: Vec<Arc<dyn Admission>>,
    pub cache: CacheLimits,
    /// How often a watch without events gets a bookmark.
    pub bookmark_every: std::time::Duration,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            identity: Arc::new(RandomIdentity),
            admission: Vec::new(),
            cache: CacheLimits::default(),
            bookmark_every: std::time::Duration::from_secs(60),
        }
    }
}

/// Carries out requests on the resources of its table.
#[derive(Debug)]
pub struct Registry {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) table: Arc<ResourceTable>,
    pub(crate) options: RegistryOptions,
}

/// The answer to a list.
#[derive(Debug, Clone)]
pub struct Listing {
    /// In the order of namespace and name.
    pub entries: Vec<Arc<Entry>>,
    /// `metadata.resourceVersion` of the list.
    pub revision: u64,
    /// `metadata.continue`, empty on the last page.
    pub continue_token: String,
    /// `metadata.remainingItemCount`, known only without selectors.
    pub remaining: Option<u64>,
}

/// The answer to a write.
#[derive(Debug, Clone)]
pub struct Written {
    /// The object as it is stored, or for a dry run as it would be.
    pub object: Arc<Entry>,
    /// Whether it was created: 201 rather than 200.
    pub created: bool,
    /// For `Warning` headers, without code and agent.
    pub warnings: Vec<String>,
}

/// The answer to a delete.
#[derive(Debug, Clone)]
pub enum DeleteOutcome {
    /// The object is gone. Answer with `status`, or with the object if the resource says so.
    Gone { object: Arc<Entry>, status: Status },
    /// The object waits for its finalizers: answer with it.
    Waiting(Arc<Entry>),
}

impl Registry {
    pub fn new(storage: Arc<dyn Storage>, table: Arc<ResourceTable>, options: RegistryOptions) -> Self {
        Self { storage, table, options }
    }

    /// The resources that are served.
    pub fn table(&self) -> &Arc<ResourceTable> {
        &self.table
    }
}
