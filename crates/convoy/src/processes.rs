//! The processes of a deployment, each by itself.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use convoy_apiserver::health::Checks;
use convoy_apiserver::metrics::Metrics as ServerMetrics;
use convoy_controller_manager::ObserverLeases;
use convoy_observer::{ControllerLeases, Serving};
use convoy_runtime::leases::Leases;
use convoy_runtime::{
    CacheScope, Clock, HealthServer, Metrics, ProcessIdentity, Readiness, Shutdown, Supervisor, VersionInfo,
    host_client, serve_health,
};
use convoy_shard::{ProcessKind, Settings};
use convoy_storage::Storage;

use crate::aggregated;
use crate::arguments;
use crate::bad_flag::BadFlag;
use crate::proxied;
use crate::sharding;
use crate::standalone;

/// Runs `convoy apiserver` until a signal.
pub(crate) async fn apiserver(
    arguments: &arguments::Apiserver,
    clock: Arc<dyn Clock>,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    let metrics = Arc::new(ServerMetrics::default());
    let etcd = aggregated::etcd::open(&arguments.etcd, &metrics)?;
    let data_dir = match (&arguments.data_dir, &etcd) {
        (Some(data_dir), _) => data_dir,
        (None, Some(etcd)) => {
            return aggregated::run(arguments, Arc::clone(etcd), metrics, clock, shutdown).await;
        }
        // The command line asks for one of them.
        (None, None) => return Err(BadFlag::new("data-dir", "", "give it, or --etcd-servers").into()),
    };
    standalone::check(data_dir, &arguments.audit)?;
    let mut checks = Checks::new();
    if let Some(etcd) = &etcd {
        aggregated::etcd::add_checks(&mut checks, &arguments.etcd, etcd);
    }
    let options = standalone::Options {
        address: SocketAddr::new(arguments.bind_address, arguments.secure_port),
        shards: arguments.shards.shards,
        only: Some(arguments::Part::Apiserver),
        audit_log: arguments.audit.audit_log_path.clone(),
        observers: Some(proxied::observers(&arguments.observer, arguments.shards.shards)?),
        storage: etcd.map(|etcd| etcd as Arc<dyn Storage>),
        checks,
        metrics,
        ..standalone::Options::new(data_dir.clone())
    };
    standalone::serve(options, clock, shutdown).await
}

/// Runs `convoy controller-manager` until a signal.
pub(crate) async fn controller_manager(
    arguments: &arguments::ControllerManager,
    clock: Arc<dyn Clock>,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    let replica_id = replica_id(&arguments.identity);
    let (settings, risks) =
        sharding::settings(ProcessKind::ControllerManager, &replica_id, arguments.shards, &arguments.leases)?;
    let patience = settings.lease_duration + settings.renew_interval;
    let store = arguments.s3.open(&arguments.render_store_url)?;
    let identity = ProcessIdentity { process: "controller-manager", replica_id };
    let client = client(&arguments.host, &identity).await?;
    let scratch = Scratch::make()?;
    let process = Process::start(identity, arguments.health_bind_address, shutdown).await?;
    let leases = process.leases(
        Sharing { settings, risks, warn_of_peers: sharding::store_warning(&arguments.render_store_url) },
        &arguments.leases,
        &arguments.host,
        &clock,
        shutdown,
    )?;
    let options = convoy_controller_manager::Options {
        client,
        identity: process.identity.clone(),
        shards: leases.shards(),
        cache_scope: cache_scope(arguments.shard_scoped_cache),
        observers: Some(ObserverLeases { leases: leases.peers(), patience }),
        store,
        collection: arguments.collection.settings(),
        scratch_dir: scratch.path.clone(),
        allow_file_urls: false,
        targets: None,
        clock,
        readiness: process.readiness.clone(),
        metrics: process.metrics.clone(),
    };
    process.announce();
    let mut tasks = Supervisor::new(shutdown.clone());
    tasks.spawn("leases", leases.ended());
    tasks.spawn("controllers", convoy_controller_manager::run(options, shutdown.clone()));
    let outcome = tasks.join().await.context("the controller-manager ended");
    process.end(shutdown).await;
    outcome
}

/// Runs `convoy observer` until a signal.
pub(crate) async fn observer(
    arguments: &arguments::Observer,
    clock: Arc<dyn Clock>,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    let replica_id = replica_id(&arguments.identity);
    let (mut settings, risks) =
        sharding::settings(ProcessKind::Observer, &replica_id, arguments.shards, &arguments.leases)?;
    let identity = ProcessIdentity { process: "observer", replica_id };
    let client = client(&arguments.host, &identity).await?;
    let serving = proxied::serving(&arguments.serving).await?;
    settings.advertised =
        serving.as_ref().and_then(|serving| proxied::advertised(&arguments.serving, serving));
    let process = Process::start(identity, arguments.health_bind_address, shutdown).await?;
    // In this time another replica has taken over.
    let patience = settings.lease_duration + settings.renew_interval;
    let leases = process.leases(
        Sharing { settings, risks, warn_of_peers: None },
        &arguments.leases,
        &arguments.host,
        &clock,
        shutdown,
    )?;
    let options = convoy_observer::ObserverOptions {
        client,
        identity: process.identity.clone(),
        shards: leases.shards(),
        cache_scope: cache_scope(arguments.shard_scoped_cache),
        controllers: Some(ControllerLeases { leases: leases.peers(), patience }),
        targets: None,
        serving: serving.map(|serving| Serving { own: Some(leases.own()), ..serving }),
        metrics: process.metrics.clone(),
        clock,
        readiness: process.readiness.clone(),
        shutdown: shutdown.clone(),
    };
    process.announce();
    let mut tasks = Supervisor::new(shutdown.clone());
    tasks.spawn("leases", leases.ended());
    tasks.spawn("observation", convoy_observer::run(options));
    let outcome = tasks.join().await.context("the observer ended");
    process.end(shutdown).await;
    outcome
}

fn cache_scope(shard_scoped_cache: bool) -> CacheScope {
    if shard_scoped_cache { CacheScope::OwnShards } else { CacheScope::Everything }
}

/// The client of the API server that holds convoy's objects. Nothing is sent yet, so that what fails is the flag.
async fn client(host: &arguments::Host, identity: &ProcessIdentity) -> Result<kube::Client, BadFlag> {
    let given = host.kubeconfig.as_deref();
    let shown = given.map(|path| path.display().to_string()).unwrap_or_default();
    host_client(given, identity).await.map_err(|source| BadFlag::new("kubeconfig", shown, source))
}

fn replica_id(identity: &arguments::Identity) -> String {
    identity.replica_id.clone().unwrap_or_else(own_name)
}

/// How this process shares its work.
struct Sharing {
    settings: Settings,
    risks: Vec<String>,
    warn_of_peers: Option<String>,
}

/// What both processes that watch the host have around their work.
struct Process {
    identity: ProcessIdentity,
    readiness: Readiness,
    metrics: Metrics,
    health: HealthServer,
}

impl Process {
    async fn start(
        identity: ProcessIdentity,
        health_address: SocketAddr,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Self> {
        let (readiness, metrics) = (Readiness::default(), Metrics::default());
        metrics.register(convoy_runtime::traces::register);
        let version = VersionInfo {
            git_version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
            process: identity.process.to_owned(),
            replica_id: identity.replica_id.clone(),
        };
        let health =
            serve_health(health_address, readiness.clone(), metrics.clone(), version, shutdown.clone()).await;
        let health = health.map_err(|error| match error.is_in_use() {
            true => anyhow::Error::from(error).context("another process has --health-bind-address"),
            false => BadFlag::new("health-bind-address", health_address, error).into(),
        })?;
        Ok(Self { identity, readiness, metrics, health })
    }

    fn leases(
        &self,
        sharing: Sharing,
        leases: &arguments::Leases,
        host: &arguments::Host,
        clock: &Arc<dyn Clock>,
        shutdown: &Shutdown,
    ) -> anyhow::Result<Leases> {
        for risk in &sharing.risks {
            tracing::warn!("{risk}");
        }
        let around = sharding::Around {
            identity: self.identity.clone(),
            clock: Arc::clone(clock),
            readiness: self.readiness.clone(),
            metrics: self.metrics.clone(),
            shutdown: shutdown.clone(),
        };
        let namespace = sharding::lease_namespace(leases);
        let kubeconfig = host.kubeconfig.as_deref();
        Ok(sharding::start(sharing.settings, namespace, kubeconfig, sharing.warn_of_peers, around)?)
    }

    /// The line that scripts wait for.
    fn announce(&self) {
        println!(
            "convoy {} {} runs, health at http://{}",
            self.identity.process,
            self.identity.replica_id,
            self.health.address()
        );
    }

    async fn end(self, shutdown: &Shutdown) {
        shutdown.trigger();
        self.health.ended().await;
    }
}

/// The host's name with a random part: unique also for two replicas on one machine.
pub(crate) fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host
        .trim()
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let host = host.trim_matches('-');
    let random = uuid::Uuid::new_v4().simple().to_string();
    let tail = random.get(..5).unwrap_or(&random);
    if host.is_empty() { format!("convoy-{tail}") } else { format!("{host}-{tail}") }
}

/// A folder for downloads that goes with the process.
struct Scratch {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Scratch {
    fn make() -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("convoy-").tempdir().context("making a folder for downloads")?;
        Ok(Self { path: Path::to_path_buf(folder.path()), _folder: folder })
    }
}
