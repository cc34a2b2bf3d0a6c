//! GitRepositories: from a URL and a reference to an artifact in the render store.
//!
//! Woken by changes of its object and after `spec.interval`. A fetch that failed for a reason that can
//! pass by itself is tried again with back-off; one that cannot is looked at again after the interval.

mod reconcile;
mod status;

use std::sync::Arc;

use convoy_api::GitRepository;
use convoy_render::RenderStore;
use convoy_runtime::{Clock, Next, Store, StoreKey};
use convoy_source::Fetcher;

use crate::host::{Host, chain};

/// The controller of GitRepositories.
pub(crate) struct Controller {
    pub(crate) host: Host,
    pub(crate) repositories: Store<GitRepository>,
    pub(crate) fetcher: Fetcher,
    pub(crate) render_store: RenderStore,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Controller {
    /// Works on one GitRepository.
    pub(crate) async fn work(self: Arc<Self>, key: StoreKey) -> Next {
        let Some(repository) = self.repositories.get(&key) else { return Next::Done };
        match self.reconcile(&repository).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(object = %key, error = chain(&error), "GitRepository will be tried again");
                Next::Retry
            }
        }
    }
}
