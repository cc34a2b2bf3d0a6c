//! The operations.

use std::sync::Arc;

use convoy_meta::{DeleteOptions, GetOptions, ListOptions, Status};
use convoy_storage::Storage;
use convoy_storage::watch_cache::{CacheError, CacheLimits, Entry, Watcher};

use crate::{Admission, Body, Identity, Patch, RandomIdentity, RequestContext, Resource, ResourceTable};

/// The Status of an `ERROR` event that ends a watch.
pub fn watch_status(error: &CacheError) -> Status {
    match error {
        CacheError::TooOld { requested, oldest } => Status::too_old_resource_version(*requested, *oldest),
        CacheError::TooLarge { requested, current } => {
            Status::too_large_resource_version(*requested, *current)
        }
        CacheError::Ended => Status::expired("the watch was ended by the server: list and watch again"),
        CacheError::Behind => Status::timeout("the watch cache is behind the storage", 1),
        CacheError::Storage(error) => Status::service_unavailable(error.to_string()),
    }
}

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

    /// Reads one object. `namespace` is empty for cluster-scoped resources, here and below.
    ///
    /// # Errors
    /// 404; 500 for an object whose stored bytes cannot be read.
    pub async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &GetOptions,
    ) -> Result<Arc<Entry>, Status> {
        let _ = (resource, namespace, name, options);
        Err(Status::internal("not built yet"))
    }

    /// Lists objects of one namespace, or of all if `namespace` is `None`.
    ///
    /// # Errors
    /// 400 for selectors of unknown fields, 410 for revisions that are gone, 504 for ones to come.
    pub async fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Listing, Status> {
        let _ = (resource, namespace, options);
        Err(Status::internal("not built yet"))
    }

    /// Watches objects of one namespace, or of all if `namespace` is `None`. Bookmarks come in between
    /// if the options allow them. An error of [`Watcher::next`] is sent as an `ERROR` event with the
    /// Status that [`watch_status`](crate::watch_status) makes of it.
    ///
    /// # Errors
    /// As [`Registry::list`].
    pub async fn watch(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Watcher, Status> {
        let _ = (resource, namespace, options);
        Err(Status::internal("not built yet"))
    }

    /// Creates an object in a namespace, which is empty for cluster-scoped resources.
    ///
    /// # Errors
    /// 400, 403 (admission), 409, 422.
    pub async fn create(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: &str,
        body: Body,
    ) -> Result<Written, Status> {
        let _ = (context, resource, namespace, body);
        Err(Status::internal("not built yet"))
    }

    /// Replaces an object or, with `subresource` = `status`, its status.
    ///
    /// # Errors
    /// 400, 404, 409, 422.
    pub async fn update(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: Body,
    ) -> Result<Written, Status> {
        let _ = (context, resource, namespace, name, subresource, body);
        Err(Status::internal("not built yet"))
    }

    /// Patches an object or its status; an apply of what does not exist creates it.
    ///
    /// # Errors
    /// 400, 404, 409 (also conflicts of field managers), 415 for strategic patches of other than built-in
    /// kinds, 422.
    pub async fn patch(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: Patch,
    ) -> Result<Written, Status> {
        let _ = (context, resource, namespace, name, subresource, patch);
        Err(Status::internal("not built yet"))
    }

    /// Deletes an object. Dry run is taken from the options as well as from the context.
    ///
    /// # Errors
    /// 404, 409 for preconditions that do not hold.
    pub async fn delete(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<DeleteOutcome, Status> {
        let _ = (context, resource, namespace, name, options);
        Err(Status::internal("not built yet"))
    }

    /// Deletes all objects that a list with these options shows, and answers with them.
    ///
    /// # Errors
    /// Those of the list and of the deletions; objects that went meanwhile are no error.
    pub async fn delete_collection(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: Option<&str>,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Listing, Status> {
        let _ = (context, resource, namespace, list, options);
        Err(Status::internal("not built yet"))
    }
}
