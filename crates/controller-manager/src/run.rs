//! Stores, queues and tasks of all controllers.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::GitRepository;
use convoy_render::RenderStore;
use convoy_runtime::{
    Backoff, Change, Clock, ProcessIdentity, Readiness, Shutdown, StoreOptions, Supervisor, TaskError,
    WorkQueue, watch_into,
};
use convoy_source::{Fetcher, FetcherOptions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;

use crate::git_repository;
use crate::host::Host;

const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) };
const CONCURRENT_REPOSITORIES: usize = 8;
/// The part's name in readiness.
const PART: &str = "controller-manager";

/// What a controller-manager needs.
#[derive(Clone)]
pub struct Options {
    /// The API server that holds convoy's objects.
    pub client: Client,
    /// Who this replica is.
    pub identity: ProcessIdentity,
    /// `--shards`.
    pub shards: NonZeroU32,
    /// Where artifacts and bundles are kept.
    pub render_store: RenderStore,
    /// A folder for downloads; what is in it is worth nothing after a restart.
    pub scratch_dir: PathBuf,
    /// Whether `file://` URLs are fetched, which only standalone allows.
    pub allow_file_urls: bool,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Told when the first lists have ended.
    pub readiness: Readiness,
    /// Ends the controller-manager.
    pub shutdown: Shutdown,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("identity", &self.identity)
            .field("shards", &self.shards)
            .finish_non_exhaustive()
    }
}

/// Why a controller-manager ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// One of its tasks ended early, which is a defect: what can fail from outside is tried again.
    #[error("a task of the controller-manager ended")]
    Task(#[source] TaskError),
}

/// Runs all controllers until shutdown.
///
/// # Errors
/// See [`RunError`].
pub async fn run(options: Options) -> Result<(), RunError> {
    let Options { client, identity, clock, readiness, shutdown, .. } = &options;
    readiness.not_ready(PART, "the first lists have not ended");
    let mut tasks = Supervisor::new(shutdown.clone());
    let host = Host::new(client.clone());

    let repository_queue = WorkQueue::new(BACKOFF, Arc::clone(clock));
    let on_repository = Arc::clone(&repository_queue);
    let (repositories, feed) = watch_into::<GitRepository>(
        client.clone(),
        StoreOptions::default(),
        Arc::clone(clock),
        shutdown.clone(),
        move |change| {
            if asks_for_work(change, |repository| &repository.metadata) {
                on_repository.add(change.key.clone());
            }
        },
    );
    tasks.spawn("watch of GitRepositories", unfailing(feed));
    let controller = Arc::new(git_repository::Controller {
        host,
        repositories: repositories.clone(),
        fetcher: Fetcher::new(FetcherOptions {
            scratch_dir: options.scratch_dir.clone(),
            allow_file_urls: options.allow_file_urls,
            user_agent: identity.user_agent(),
            ..FetcherOptions::default()
        }),
        render_store: options.render_store.clone(),
        clock: Arc::clone(clock),
    });
    let until = shutdown.clone();
    tasks.spawn(
        "GitRepositories",
        unfailing(async move {
            let work = move |key| Arc::clone(&controller).work(key);
            repository_queue.run(CONCURRENT_REPOSITORIES, until, work).await;
        }),
    );

    let (ready, until) = (readiness.clone(), shutdown.clone());
    tasks.spawn(
        "readiness",
        unfailing(async move {
            repositories.synced().await;
            ready.ready(PART);
            until.wait().await;
        }),
    );
    tasks.join().await.map_err(RunError::Task)
}

/// Whether a change is one of the spec, the annotations or the finalizers: changes of the status alone, most
/// of them our own, wake nobody.
fn asks_for_work<K>(change: &Change<K>, meta: impl Fn(&K) -> &ObjectMeta) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => {
            let (old, new) = (meta(old), meta(new));
            old.generation != new.generation
                || old.uid != new.uid
                || old.annotations != new.annotations
                || old.deletion_timestamp != new.deletion_timestamp
                || old.finalizers != new.finalizers
        }
        _ => true,
    }
}

async fn unfailing(task: impl Future<Output = ()>) -> Result<(), Infallible> {
    task.await;
    Ok(())
}
