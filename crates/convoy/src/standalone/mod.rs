//! `convoy standalone`: the three processes in one, on an embedded store.
//!
//! The controller-manager and the observer talk to the apiserver over its port, with the admin
//! kubeconfig, as they would anywhere else: there is no short cut that only standalone has.

mod control_plane;
mod data_dir;

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use convoy_apiserver::health::Checks;
use convoy_apiserver::metrics::Metrics as ServerMetrics;
use convoy_controller_manager::StoreCollection;
use convoy_observer::Serving;
use convoy_render::RenderStore;
use convoy_runtime::{CacheScope, Clock, Metrics, ProcessIdentity, Readiness, Shutdown, Supervisor};
use convoy_sandbox::Sandbox;
use convoy_shard::ProcessKind;
use convoy_storage::Storage;

pub(crate) use self::control_plane::{ControlPlane, open_store};
pub(crate) use self::data_dir::DataDir;
use crate::arguments::{self, Part};
use crate::bad_flag::{BadFlag, check_appendable};
use crate::proxied::{self, MakeObservers};
use crate::{sandbox, sharding};

/// How long clients get to notice that the server is about to end, and requests to finish.
const DRAIN: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_secs(5);
/// How long simulated workloads take to become ready.
const READY_AFTER: Duration = Duration::from_millis(500);

/// What to start, and where.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) data_dir: PathBuf,
    pub(crate) address: SocketAddr,
    /// Names of simulated clusters.
    pub(crate) sandbox: Vec<String>,
    pub(crate) shards: NonZeroU32,
    pub(crate) only: Option<Part>,
    pub(crate) audit_log: Option<PathBuf>,
    /// Whom the apiserver asks when no observer runs beside it.
    pub(crate) observers: Option<MakeObservers>,
    pub(crate) collection: Option<StoreCollection>,
    /// Where objects are kept; in the folder if absent.
    pub(crate) storage: Option<Arc<dyn Storage>>,
    pub(crate) checks: Checks,
    pub(crate) metrics: Arc<ServerMetrics>,
}

impl Options {
    /// All parts, on a free port of this machine, without simulated clusters.
    pub(crate) fn new(data_dir: PathBuf) -> Self {
        Self {
            data_dir,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            sandbox: Vec::new(),
            shards: convoy_shard::DEFAULT_SHARD_COUNT,
            only: None,
            audit_log: None,
            observers: None,
            collection: Some(StoreCollection::default()),
            storage: None,
            checks: Checks::new(),
            metrics: Arc::default(),
        }
    }
}

/// A running standalone.
pub(crate) struct Standalone {
    folder: DataDir,
    control_plane: ControlPlane,
    controllers: tokio::task::JoinHandle<anyhow::Result<()>>,
    sandbox: Option<Sandbox>,
    shutdown: Shutdown,
    /// Triggered when the controllers have ended, whether or not they should.
    ended: Shutdown,
}

/// Starts everything; it is ready for requests when this returns.
pub(crate) async fn start(options: Options, clock: Arc<dyn Clock>) -> anyhow::Result<Standalone> {
    let folder = DataDir::open(&options.data_dir)?;
    let (observers, serving) = match options.only {
        Some(Part::Apiserver) => (options.observers.clone().unwrap_or_else(MakeObservers::none), None),
        None => {
            let store = RenderStore::in_folder(&folder.render_store()?)?;
            let (observers, serving) = proxied::within(store, clock.now()).await?;
            (observers, Some(serving))
        }
    };
    let control_plane = ControlPlane::start(&folder, &options, &observers, &clock).await?;
    let sandbox = match options.sandbox.as_slice() {
        [] => None,
        names => Some(sandbox::start(names, &folder.sandbox()?, READY_AFTER, None, 0, &clock).await?),
    };
    let shutdown = Shutdown::new();
    let ended = Shutdown::new();
    let tasks = match options.only {
        Some(Part::Apiserver) => None,
        None => Some(controllers(&folder, &options, serving, clock, shutdown.clone()).await?),
    };
    let (until, tell) = (shutdown.clone(), ended.clone());
    let controllers = tokio::spawn(async move {
        let outcome = match tasks {
            Some(tasks) => tasks.join().await.context("a part of standalone ended"),
            None => {
                until.wait().await;
                Ok(())
            }
        };
        tell.trigger();
        outcome
    });
    Ok(Standalone { folder, control_plane, controllers, sandbox, shutdown, ended })
}

async fn controllers(
    folder: &DataDir,
    options: &Options,
    serving: Option<Serving>,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
) -> anyhow::Result<Supervisor> {
    let replica_id = "standalone".to_owned();
    let kubeconfig = folder.admin_kubeconfig();
    let client = |process| {
        let identity = ProcessIdentity { process, replica_id: replica_id.clone() };
        let kubeconfig = kubeconfig.clone();
        async move {
            let client = convoy_runtime::host_client(Some(&kubeconfig), &identity).await;
            client.map(|client| (client, identity)).context("reading the admin kubeconfig")
        }
    };
    let (manager_client, manager) = client("controller-manager").await?;
    let (observer_client, observer) = client("observer").await?;

    let leases = |kind: ProcessKind, identity: &ProcessIdentity| {
        let settings = sharding::sole_settings(kind, &replica_id, options.shards);
        let around = sharding::Around {
            identity: identity.clone(),
            clock: Arc::clone(&clock),
            readiness: Readiness::default(),
            metrics: Metrics::default(),
            shutdown: shutdown.clone(),
        };
        sharding::start(settings, sharding::DEFAULT_NAMESPACE.to_owned(), Some(&kubeconfig), None, around)
    };
    let manager_leases = leases(ProcessKind::ControllerManager, &manager)?;
    let observer_leases = leases(ProcessKind::Observer, &observer)?;
    let (manager_shards, observer_shards) = (manager_leases.shards(), observer_leases.shards());

    let store = RenderStore::in_folder(&folder.render_store()?)?;
    let mut tasks = Supervisor::new(shutdown.clone());
    tasks.spawn("leases of the controller-manager", manager_leases.ended());
    tasks.spawn("leases of the observer", observer_leases.ended());
    tasks.spawn(
        "controller-manager",
        convoy_controller_manager::run(
            convoy_controller_manager::Options {
                client: manager_client,
                identity: manager,
                shards: manager_shards,
                store,
                collection: options.collection,
                scratch_dir: folder.scratch()?,
                allow_file_urls: true,
                targets: None,
                clock: Arc::clone(&clock),
                readiness: Readiness::default(),
                metrics: Metrics::default(),
                cache_scope: CacheScope::Everything,
                observers: None,
            },
            shutdown.clone(),
        ),
    );
    tasks.spawn(
        "observer",
        convoy_observer::run(convoy_observer::ObserverOptions {
            client: observer_client,
            identity: observer,
            shards: observer_shards,
            cache_scope: CacheScope::Everything,
            controllers: None,
            targets: None,
            serving,
            metrics: Metrics::default(),
            clock,
            readiness: Readiness::default(),
            shutdown,
        }),
    );
    Ok(tasks)
}

impl Standalone {
    /// Where the apiserver listens.
    pub(crate) fn url(&self) -> String {
        self.control_plane.url()
    }

    /// The kubeconfig of its administrator.
    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.folder.admin_kubeconfig()
    }

    /// The kubeconfig of a simulated cluster.
    pub(crate) fn target_kubeconfig(&self, name: &str) -> PathBuf {
        self.folder.target_kubeconfig(name)
    }

    /// Triggered when a part has ended by itself, which none should.
    pub(crate) fn ended(&self) -> Shutdown {
        self.ended.clone()
    }

    /// Ends everything in good order, and says how the controllers ended.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.shutdown.trigger();
        let outcome = match tokio::time::timeout(GRACE, self.controllers).await {
            Ok(joined) => joined.context("the task of the controllers broke down")?,
            Err(_) => {
                tracing::warn!("work was still under way and is cut off; the next start finishes it");
                Ok(())
            }
        };
        self.control_plane.stop(DRAIN, GRACE).await;
        if let Some(sandbox) = self.sandbox {
            sandbox.stop().await;
        }
        outcome
    }
}

/// Runs `convoy standalone` until a signal.
pub(crate) async fn run(
    arguments: &arguments::Standalone,
    clock: Arc<dyn Clock>,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    check(&arguments.data_dir, &arguments.audit)?;
    let options = Options {
        address: SocketAddr::new(arguments.bind_address, arguments.port),
        sandbox: sandbox::names(arguments.sandbox),
        shards: arguments.shards.shards,
        only: arguments.only,
        audit_log: arguments.audit.audit_log_path.clone(),
        observers: None,
        collection: arguments.collection.settings(),
        ..Options::new(arguments.data_dir.clone())
    };
    serve(options, clock, shutdown).await
}

/// Refuses a folder or an audit log that cannot be used before anything starts.
pub(crate) fn check(data_dir: &Path, audit: &arguments::Audit) -> Result<(), BadFlag> {
    DataDir::open(data_dir).map_err(|error| BadFlag::new("data-dir", data_dir.display(), error))?;
    check_appendable("audit-log-path", audit.audit_log_path.as_deref())
}

/// Starts, says so in one line, and stays until a signal or until a part fails.
pub(crate) async fn serve(
    options: Options,
    clock: Arc<dyn Clock>,
    shutdown: &Shutdown,
) -> anyhow::Result<()> {
    let standalone = start(options, clock).await?;
    announce(&standalone.url(), &standalone.admin_kubeconfig());
    let ended = standalone.ended();
    tokio::select! {
        () = shutdown.wait() => {}
        () = ended.wait() => {}
    }
    standalone.stop().await
}

/// The line that scripts wait for.
pub(crate) fn announce(url: &str, kubeconfig: &Path) {
    println!("convoy is ready at {url}, kubeconfig {}", kubeconfig.display());
}
