//! The lease loop on a thread of its own, so that a process that is busy or blocked still renews.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoy_shard::Settings;
use tokio::sync::{mpsc, oneshot};

use super::events::EventWriter;
use super::metrics::LeaseMetrics;
use super::report::{PART, Report};
use super::{Ended, KubeLeases, PeerLeases, drive};
use crate::{Clock, ConnectError, Metrics, ProcessIdentity, Readiness, Shards, Shutdown, host_client};

/// Events that wait to be written; more are left out.
const EVENTS: usize = 256;
/// How long the last Events may take when the loop has ended.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// What the lease loop of a process needs.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Checked settings.
    pub settings: Settings,
    /// `--lease-namespace`.
    pub namespace: String,
    /// The kubeconfig of the API server that holds the leases; the pod's service account when none is given.
    pub kubeconfig: Option<PathBuf>,
    /// Who this replica is.
    pub identity: ProcessIdentity,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Told whether this replica has its part of the work.
    pub readiness: Readiness,
    /// Where the loop's metrics are registered.
    pub metrics: Metrics,
    /// Ends the loop, after it has released what it can.
    pub shutdown: Shutdown,
    /// A warning that is logged when another replica is seen.
    pub warn_of_peers: Option<String>,
}

/// Why the lease loop ended though it should not have.
#[derive(Debug, thiserror::Error)]
pub enum LeasesError {
    /// The thread could not be started.
    #[error("the lease thread could not be started")]
    Thread(#[source] std::io::Error),
    /// There is no client.
    #[error("the lease loop cannot reach its API server")]
    Connect(#[from] ConnectError),
    /// Another process has the same replica id.
    #[error("{message}")]
    Twin {
        /// What to do.
        message: String,
    },
    /// A defect.
    #[error("the lease loop broke down")]
    BrokenDown,
}

/// A running lease loop.
#[derive(Debug)]
pub struct Leases {
    shards: Shards,
    peers: PeerLeases,
    own: PeerLeases,
    ended: oneshot::Receiver<Result<Ended, LeasesError>>,
}

/// Starts the lease loop on its own thread, with its own runtime and client.
///
/// # Errors
/// When the thread cannot be started.
pub fn start_leases(options: LeaseOptions) -> Result<Leases, LeasesError> {
    let shards = Shards::new(options.settings.shards, Arc::clone(&options.clock));
    let peers = PeerLeases::default();
    options.readiness.not_ready(PART, "the leases were not read and written yet");
    let metrics = LeaseMetrics::register(&options.metrics);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(LeasesError::Thread)?;
    let (tell, ended) = oneshot::channel();
    let table = shards.clone();
    let own = PeerLeases::default();
    let seen = (own.clone(), peers.clone());
    std::thread::Builder::new()
        .name(format!("leases-{}", options.settings.process.as_str()))
        .spawn(move || {
            // When this panics, `tell` is dropped, which tells as much.
            let outcome = runtime.block_on(run(options, table, seen, metrics));
            let _ = tell.send(outcome);
            runtime.shutdown_background();
        })
        .map_err(LeasesError::Thread)?;
    Ok(Leases { shards, peers, own, ended })
}

impl Leases {
    /// The table of owned shards.
    pub fn shards(&self) -> Shards {
        self.shards.clone()
    }

    /// The shard leases of the other process kind.
    pub fn peers(&self) -> PeerLeases {
        self.peers.clone()
    }

    /// The shard leases of this process kind.
    pub fn own(&self) -> PeerLeases {
        self.own.clone()
    }

    /// Waits until the loop has ended.
    ///
    /// # Errors
    /// When it ended though it should not have.
    pub async fn ended(self) -> Result<(), LeasesError> {
        match self.ended.await {
            Ok(Ok(Ended::Stopped)) => Ok(()),
            Ok(Ok(Ended::Overdue)) => {
                tracing::warn!("not all shards could be released; they end by themselves");
                Ok(())
            }
            Ok(Ok(Ended::Twin { message })) => Err(LeasesError::Twin { message }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(LeasesError::BrokenDown),
        }
    }
}

async fn run(
    options: LeaseOptions,
    shards: Shards,
    (own, other): (PeerLeases, PeerLeases),
    metrics: LeaseMetrics,
) -> Result<Ended, LeasesError> {
    let LeaseOptions {
        settings,
        namespace,
        kubeconfig,
        identity,
        clock,
        readiness,
        shutdown,
        warn_of_peers,
        ..
    } = options;
    let client = host_client(kubeconfig.as_deref(), &identity).await?;
    let leases = Arc::new(KubeLeases::new(
        client.clone(),
        &namespace,
        settings.clone(),
        Arc::clone(&clock),
        own.clone(),
        other,
    ));
    let (events, told) = mpsc::channel(EVENTS);
    let writer = EventWriter { client, namespace, identity, clock: Arc::clone(&clock) };
    let mut writer = tokio::spawn(writer.run(told));
    let mut report = Report {
        settings: settings.clone(),
        shards: shards.clone(),
        metrics,
        readiness,
        leases: Arc::clone(&leases),
        own,
        events,
        warn_of_peers,
        share: Default::default(),
        refused: 0,
    };
    let ended = drive(&*leases, settings, &shards, &*clock, &mut report, &shutdown).await;
    drop(report);
    tokio::select! {
        _ = &mut writer => {}
        () = clock.sleep(LAST_EVENTS) => writer.abort(),
    }
    Ok(ended)
}
