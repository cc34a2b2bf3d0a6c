//! The parts of a world, and how they begin.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use convoy_controller_manager::{Options, run};
use convoy_observer::ObserverOptions;
use convoy_render::RenderStore;
use convoy_runtime::{
    CacheScope, Clock, MakeClient, Metrics, ProcessIdentity, Readiness, RealClock, Shards, Shutdown,
    host_client, host_client_from,
};
use convoy_testkit::{ControlPlane, GitServer, Process};
use jiff::Timestamp;
use kube::{Api, Client};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use super::super::inside::Servers;
use super::super::proxy::Proxy;
use super::super::repository::{Repository, Revision};
use super::super::script::{Script, Side};
use super::super::source;
use super::super::store::FaultyStore;
use super::super::supply::Supply;
use super::{Made, Manager, NAMESPACE, World, create, of_convoy, resource};
use crate::clock::JumpingClock;
use crate::{Convoy, convoy_program};

/// How long a hook's Job takes.
const READY_AFTER: Duration = Duration::from_millis(50);
/// When a world begins that has a time of its own.
const BEGAN: &str = "2026-11-02T00:00:00Z";

fn identity(process: &'static str, number: usize) -> ProcessIdentity {
    ProcessIdentity { process, replica_id: format!("{process}-{number}") }
}

impl Made {
    /// A runtime for such a world.
    ///
    /// # Errors
    /// When the machine has no more threads.
    pub fn runtime(self) -> std::io::Result<Runtime> {
        match self {
            Made::Inside => Builder::new_current_thread().enable_time().start_paused(true).build(),
            Made::OfServers | Made::OfProcesses => {
                Builder::new_multi_thread().worker_threads(2).enable_all().build()
            }
        }
    }
}

/// Makes the Cluster that all Releases are for.
async fn add_cluster(host: &Client, kubeconfig: &str) -> anyhow::Result<()> {
    let secrets = Api::namespaced_with(host.clone(), NAMESPACE, &resource("v1", "Secret", "secrets"));
    let data = json!({"kubeconfig": kubeconfig});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}, "stringData": data});
    create(&secrets, secret).await?;
    let cluster = json!({
        "apiVersion": convoy_api::API_VERSION, "kind": "Cluster", "metadata": {"name": "there"},
        "spec": {"kubeconfig": {"secretRef": {"name": "there"}}},
    });
    create(&of_convoy(host, "Cluster", "clusters"), cluster).await?;
    Ok(())
}
impl World {
    /// Starts all of it. `Inside` needs a runtime of one thread whose clock is paused. `OfProcesses` has clocks that nobody
    /// can put forward.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(sizes: &[usize], made: Made) -> anyhow::Result<Self> {
        if made == Made::Inside { Self::inside().await } else { Self::of_servers(sizes, made).await }
    }

    async fn of_servers(sizes: &[usize], made: Made) -> anyhow::Result<Self> {
        convoy_runtime::install_tls_provider();
        let is_real = made == Made::OfProcesses;
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        let repository = Repository::create(&at("git/apps"), sizes, !is_real)?;
        let text = |name: &str| at(name).display().to_string();
        let apiserver = ["standalone", "--only", "apiserver", "--data-dir", &text("convoy"), "--port", "0"];
        let apiserver = Convoy::start(&apiserver).map_err(anyhow::Error::msg)?;
        let host = host_client(Some(&at("convoy/admin.kubeconfig")), &identity("test", 0)).await?;
        let (sandbox, plane, kubeconfig) = if is_real {
            let options = convoy_testkit::Options { controller_manager: true, ..Default::default() };
            let plane = ControlPlane::start_with(&options)?;
            let kubeconfig = plane.kubeconfig();
            (None, Some(plane), kubeconfig)
        } else {
            let ready_after = READY_AFTER.as_millis().to_string();
            let sandbox =
                ["sandbox", "--clusters", "1", "--dir", &text("targets"), "--ready-after-ms", &ready_after];
            let sandbox = Convoy::start(&sandbox);
            (Some(sandbox.map_err(anyhow::Error::msg)?), None, at("targets/cluster-1.kubeconfig"))
        };
        let target = host_client(Some(&kubeconfig), &identity("test", 0)).await?;
        let script = Script::default();
        let host_proxy = Proxy::start(Side::Host, host.clone(), script.clone()).await?;
        let target_proxy = Proxy::start(Side::Target, target.clone(), script.clone()).await?;
        add_cluster(&host, target_proxy.kubeconfig()).await?;
        let server = GitServer::start(&at("git")).context("serving Git")?;
        let url = source::start(&server.url("apps"), script.clone()).await?;
        let store = at("store");
        std::fs::create_dir_all(&store)?;
        let mut world = Self {
            made,
            script,
            host,
            target,
            host_proxy: Some(host_proxy),
            servers: None,
            clock: Arc::default(),
            // The observer's watches do not get quicker when a clock is put forward: it would take them for hours late.
            steady: Arc::new(RealClock::new()),
            objects: Arc::new(LocalFileSystem::new_with_prefix(&store)?),
            manager: None,
            managers: 0,
            cells: 0,
            revision: Revision::One,
            commits: Default::default(),
            wanted: 0,
            supply: Supply::Git { repository, url, _server: server },
            observer: Shutdown::new(),
            _apiserver: Some(apiserver),
            observer_process: None,
            _sandbox: sandbox,
            _plane: plane,
            folder,
        };
        if is_real {
            let kubeconfig = world.folder.path().join("convoy/admin.kubeconfig");
            world.observer_process = Some(world.process("observer", &kubeconfig, "observer-0", &[])?);
        } else {
            world.start_observer(None);
        }
        world.start_manager(true)?;
        Ok(world)
    }

    async fn inside() -> anyhow::Result<Self> {
        let began: Timestamp = BEGAN.parse()?;
        let steady = Arc::new(JumpingClock::at(began));
        let now = Arc::clone(&steady);
        let servers = Servers::start(Arc::new(move || now.now()), READY_AFTER, NAMESPACE).await?;
        let (host, target) = (servers.client(Side::Host), servers.client(Side::Target));
        // Nobody reads it.
        add_cluster(&host, "{}").await?;
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let mut world = Self {
            made: Made::Inside,
            script: Script::default(),
            host,
            target: target.clone(),
            host_proxy: None,
            servers: Some(servers),
            clock: Arc::new(JumpingClock::at(began)),
            steady,
            objects: Arc::clone(&objects),
            manager: None,
            managers: 0,
            cells: 0,
            revision: Revision::One,
            commits: Default::default(),
            wanted: 0,
            supply: Supply::Fetched { store: RenderStore::in_backend(objects), present: Mutex::default() },
            observer: Shutdown::new(),
            _apiserver: None,
            observer_process: None,
            _sandbox: None,
            _plane: None,
            folder: tempfile::tempdir()?,
        };
        world.start_observer(Some(Arc::new(move |_| target.clone())));
        world.start_manager(true)?;
        Ok(world)
    }

    fn start_observer(&self, targets: Option<MakeClient>) {
        tokio::spawn(convoy_observer::run(ObserverOptions {
            serving: None,
            client: self.host.clone(),
            identity: identity("observer", 0),
            shards: Shards::all(convoy_shard::DEFAULT_SHARD_COUNT, Arc::clone(&self.steady)),
            cache_scope: CacheScope::Everything,
            controllers: None,
            targets,
            metrics: Metrics::default(),
            clock: Arc::clone(&self.steady),
            readiness: Readiness::default(),
            shutdown: self.observer.clone(),
        }));
    }

    pub(super) fn is_real(&self) -> bool {
        self.made == Made::OfProcesses
    }

    /// Starts convoy as a process, with lease times that are shorter than the defaults.
    fn process(
        &self,
        command: &str,
        kubeconfig: &Path,
        id: &str,
        more: &[String],
    ) -> anyhow::Result<Process> {
        let mut arguments = vec![
            command.to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            "--health-bind-address=127.0.0.1:0".to_owned(),
            format!("--replica-id={id}"),
            format!("--lease-namespace={NAMESPACE}"),
            // Long enough that a loaded machine loses none.
            "--lease-duration=9s".to_owned(),
            "--lease-renew-interval=2s".to_owned(),
        ];
        arguments.extend_from_slice(more);
        let log = self.folder.path().join(format!("{id}.log"));
        Ok(Process::start(&convoy_program(), &arguments, &log)?)
    }

    pub(super) fn start_manager(&mut self, is_another: bool) -> anyhow::Result<()> {
        self.managers += usize::from(is_another);
        let identity = identity("controller-manager", self.managers);
        let identity_of_client = identity.clone();
        if self.is_real() {
            let kubeconfig = self.folder.path().join("host-proxy.kubeconfig");
            let proxy = self.host_proxy.as_ref().context("there is no proxy")?;
            std::fs::write(&kubeconfig, proxy.kubeconfig())?;
            let store = format!("--render-store-url=file://{}", self.folder.path().join("store").display());
            let process = self.process("controller-manager", &kubeconfig, &identity.replica_id, &[store])?;
            self.manager = Some(Manager::Process { killed_with_it: process });
            return Ok(());
        }
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let store = FaultyStore::new(Arc::clone(&self.objects), self.script.clone());
        let steady = Arc::clone(&self.steady);
        let scratch_dir = self.folder.path().to_owned();
        let options = |client: Client, targets: Option<MakeClient>| Options {
            client,
            identity,
            shards: Shards::all(convoy_shard::DEFAULT_SHARD_COUNT, steady),
            store: RenderStore::in_backend(Arc::new(store)),
            scratch_dir,
            collection: None,
            targets,
            allow_file_urls: true,
            clock,
            readiness: Readiness::default(),
            metrics: Metrics::default(),
            cache_scope: CacheScope::Everything,
            observers: None,
        };
        // How it ends is no matter: the harness sees that it does nothing.
        self.manager = Some(match (&self.servers, &self.host_proxy) {
            (Some(servers), _) => {
                let client = |side| servers.client_of_process(side, &self.script);
                let (host, target) = (client(Side::Host), client(Side::Target));
                let options = options(host, Some(Arc::new(move |_| target.clone())));
                let (shutdown, until) = (Shutdown::new(), Shutdown::new());
                let end = shutdown.clone();
                let task = tokio::spawn(async move {
                    tokio::select! {
                        () = end.wait() => until.trigger(),
                        _ = run(options, until.clone()) => {}
                    }
                });
                Manager::Task { shutdown, task }
            }
            (None, Some(proxy)) => {
                let runtime =
                    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
                let (kubeconfig, identity) = (proxy.kubeconfig().to_owned(), identity_of_client);
                runtime.spawn(async move {
                    let Ok(client) = host_client_from(kubeconfig.as_bytes(), &identity).await else { return };
                    let _ = run(options(client, None), Shutdown::new()).await;
                });
                Manager::Inside(runtime)
            }
            (None, None) => bail!("there is no API server"),
        });
        Ok(())
    }
}
