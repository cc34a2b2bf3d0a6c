//! What is spoiled, and what has to be true of it afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use convoy_controller_manager::{Options, run};
use convoy_observer::ObserverOptions;
use convoy_render::RenderStore;
use convoy_runtime::{
    CacheScope, Clock, Metrics, ProcessIdentity, Readiness, RealClock, Shards, Shutdown, host_client,
    host_client_from,
};
use convoy_testkit::{ControlPlane, GitServer, Process};
use http::{Method, StatusCode};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use object_store::local::LocalFileSystem;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::proxy::Proxy;
use super::repository::{HOOK, Repository, Revision, content};
use super::script::{Fault, Script, Side, Spoil, Step};
use super::source;
use super::store::FaultyStore;
use crate::clock::JumpingClock;
use crate::{Convoy, convoy_program};

/// Where convoy's objects are.
const NAMESPACE: &str = "default";
/// How long anything may take, also where many of these run beside each other.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks at the state.
const LOOK: Duration = Duration::from_millis(10);
/// Who writes nothing for so long waits for something.
const QUIET: Duration = Duration::from_millis(300);
/// The same for a process that may have to wait for its leases first.
const QUIET_LEASES: Duration = Duration::from_secs(12);
/// Who has written nothing for so long after the end was reached writes no more.
const STILL: Duration = Duration::from_millis(100);
/// How far the clock is put forward each time that nothing happens: past each of convoy's waits in turn, up to
/// that after an error that only another revision can mend.
const WAITS: &[Duration] = &[
    Duration::from_secs(5),
    Duration::from_secs(35),
    Duration::from_secs(130),
    Duration::from_secs(310),
    Duration::from_secs(660),
    Duration::from_secs(1850),
    // A source that is wrong is looked at again after its interval, and may be wrong twice more.
    Duration::from_secs(1850),
    Duration::from_secs(1850),
];
/// How long a hook's Job takes, in milliseconds.
const READY_AFTER_MS: &str = "50";
/// Past the time for which what was not answered is remembered.
const FORGET: Duration = Duration::from_secs(20 * 60);

/// What happens to a Release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// It is created.
    Install,
    /// It gets another revision, with objects that are new, changed and gone.
    Upgrade,
    /// It is deleted.
    Delete,
}

/// A delivery in which one step goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Objects of the Release.
    pub size: usize,
    /// When.
    pub stage: Stage,
    /// Which step of the stage.
    pub at: usize,
    /// What happens to it; nothing in the run that counts the steps.
    pub fault: Option<Fault>,
    /// Whether the Release's namespace is there before, with an object of somebody else.
    pub is_shared: bool,
    /// Whether another revision is wanted by the time that a new process begins, when one was killed: what the dead
    /// one made, and nobody wants now, has to go.
    pub is_overtaken: bool,
    /// Varies what is left open: 0 spoils at once, and one request or two; others wait a moment first, and spoil up to
    /// three.
    pub seed: u64,
}

impl Cell {
    /// A delivery in which nothing goes wrong.
    pub fn undisturbed(size: usize, stage: Stage) -> Self {
        Self { size, stage, at: 0, fault: None, is_shared: false, is_overtaken: false, seed: 0 }
    }

    fn spoil(&self) -> Option<Spoil> {
        let fault = self.fault?;
        let most = if self.seed == 0 { 2 } else { 1 + self.seed % 3 };
        let times = if fault.kills() { 1 } else { usize::try_from(most).unwrap_or(1) };
        // Spread over a few dozen milliseconds, in which other requests go on.
        let after = Duration::from_millis(self.seed.wrapping_mul(7) % 41);
        Some(Spoil { at: self.at, fault, times, after })
    }
}

/// How a delivery went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The steps of the spoiled stage.
    pub steps: Vec<Step>,
    /// Whether the step that was to be spoiled was met.
    pub is_met: bool,
    /// How far the clock was put forward until the spoiled stage came to its end.
    pub waited: Duration,
}

/// API servers behind proxies, an observer, and a controller-manager that can die.
pub struct World {
    script: Script,
    host: Client,
    target: Client,
    host_proxy: Proxy,
    clock: Arc<JumpingClock>,
    manager: Option<Manager>,
    managers: usize,
    cells: usize,
    /// Which revision the present Release is to have.
    revision: Revision,
    /// The commits of the present Release.
    commits: [String; 3],
    /// How many revisions the present Release was to have so far, one after the other.
    wanted: usize,
    repository: Repository,
    repository_url: String,
    observer: Shutdown,
    _apiserver: Convoy,
    observer_process: Option<Process>,
    _sandbox: Option<Convoy>,
    plane: Option<ControlPlane>,
    _git: GitServer,
    folder: TempDir,
}

/// One life of the controller-manager.
#[derive(Debug)]
enum Manager {
    /// In this process, on a runtime of its own, which is dropped to kill it.
    Inside(Runtime),
    /// A process of its own.
    Process { killed_with_it: Process },
}

fn identity(process: &'static str, number: usize) -> ProcessIdentity {
    ProcessIdentity { process, replica_id: format!("{process}-{number}") }
}

fn resource(api_version: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn of_convoy(client: &Client, kind: &str, plural: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), NAMESPACE, &resource(convoy_api::API_VERSION, kind, plural))
}

fn config_maps(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &resource("v1", "ConfigMap", "configmaps"))
}

fn namespaces(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource("v1", "Namespace", "namespaces"))
}

async fn create(api: &Api<DynamicObject>, object: Value) -> anyhow::Result<DynamicObject> {
    let parsed = serde_json::from_value(object.clone())?;
    api.create(&PostParams::default(), &parsed).await.with_context(|| format!("creating {object}"))
}

impl World {
    /// Starts all of it. When it is to be real the target is a real kube-apiserver, and the controller-manager and the
    /// observer are processes of their own, whose clock nobody can put forward.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(sizes: &[usize], is_real: bool) -> anyhow::Result<Self> {
        convoy_runtime::install_tls_provider();
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
            let sandbox =
                ["sandbox", "--clusters", "1", "--dir", &text("targets"), "--ready-after-ms", READY_AFTER_MS];
            let sandbox = Convoy::start(&sandbox);
            (Some(sandbox.map_err(anyhow::Error::msg)?), None, at("targets/cluster-1.kubeconfig"))
        };
        let target = host_client(Some(&kubeconfig), &identity("test", 0)).await?;
        let script = Script::default();
        let host_proxy = Proxy::start(Side::Host, host.clone(), script.clone()).await?;
        let target_proxy = Proxy::start(Side::Target, target.clone(), script.clone()).await?;
        let secrets = Api::namespaced_with(host.clone(), NAMESPACE, &resource("v1", "Secret", "secrets"));
        let kubeconfig = json!({"kubeconfig": target_proxy.kubeconfig()});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}, "stringData": kubeconfig});
        create(&secrets, secret).await?;
        let cluster = json!({
            "apiVersion": convoy_api::API_VERSION, "kind": "Cluster", "metadata": {"name": "there"},
            "spec": {"kubeconfig": {"secretRef": {"name": "there"}}},
        });
        create(&of_convoy(&host, "Cluster", "clusters"), cluster).await?;
        let git = GitServer::start(&at("git")).context("serving Git")?;
        let repository_url = source::start(&git.url("apps"), script.clone()).await?;
        let observer = Shutdown::new();
        let mut world = Self {
            script,
            host,
            target,
            host_proxy,
            clock: Arc::default(),
            manager: None,
            managers: 0,
            cells: 0,
            revision: Revision::One,
            commits: Default::default(),
            wanted: 0,
            repository,
            repository_url,
            observer,
            _apiserver: apiserver,
            observer_process: None,
            _sandbox: sandbox,
            plane,
            _git: git,
            folder,
        };
        if is_real {
            let kubeconfig = world.folder.path().join("convoy/admin.kubeconfig");
            world.observer_process = Some(world.process("observer", &kubeconfig, "observer-0", &[])?);
            world.start_manager(true)?;
            return Ok(world);
        }
        tokio::spawn(convoy_observer::run(ObserverOptions {
            serving: None,
            client: world.host.clone(),
            identity: identity("observer", 0),
            shards: Shards::all(convoy_shard::DEFAULT_SHARD_COUNT, Arc::new(RealClock::new())),
            cache_scope: CacheScope::Everything,
            controllers: None,
            metrics: Metrics::default(),
            // Its watches do not get quicker when a clock is put forward: it would take them for hours late.
            clock: Arc::new(RealClock::new()),
            readiness: Readiness::default(),
            shutdown: world.observer.clone(),
        }));
        world.start_manager(true)?;
        Ok(world)
    }

    fn is_real(&self) -> bool {
        self.plane.is_some()
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

    fn start_manager(&mut self, is_another: bool) -> anyhow::Result<()> {
        self.managers += usize::from(is_another);
        let identity = identity("controller-manager", self.managers);
        if self.is_real() {
            let kubeconfig = self.folder.path().join("host-proxy.kubeconfig");
            std::fs::write(&kubeconfig, self.host_proxy.kubeconfig())?;
            let store = format!("--render-store-url=file://{}", self.folder.path().join("store").display());
            let process = self.process("controller-manager", &kubeconfig, &identity.replica_id, &[store])?;
            self.manager = Some(Manager::Process { killed_with_it: process });
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let kubeconfig = self.host_proxy.kubeconfig().to_owned();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let folder = self.folder.path().join("store");
        std::fs::create_dir_all(&folder)?;
        let store = Arc::new(LocalFileSystem::new_with_prefix(&folder)?);
        let store = RenderStore::in_backend(Arc::new(FaultyStore::new(store, self.script.clone())));
        let scratch_dir = self.folder.path().to_owned();
        runtime.spawn(async move {
            // The harness sees that it does nothing.
            let Ok(client) = host_client_from(kubeconfig.as_bytes(), &identity).await else { return };
            let options = Options {
                client,
                identity,
                shards: Shards::all(convoy_shard::DEFAULT_SHARD_COUNT, Arc::new(RealClock::new())),
                store,
                scratch_dir,
                collection: None,
                allow_file_urls: true,
                clock,
                readiness: Readiness::default(),
                metrics: Metrics::default(),
                cache_scope: CacheScope::Everything,
                observers: None,
            };
            let _ = run(options, Shutdown::new()).await;
        });
        self.manager = Some(Manager::Inside(runtime));
        Ok(())
    }

    /// The end of what the controller-manager logged, when it is a process.
    pub fn last_words(&self) -> String {
        match &self.manager {
            Some(Manager::Process { killed_with_it }) => killed_with_it.last_lines(),
            Some(Manager::Inside(_)) | None => String::new(),
        }
    }

    fn kill_manager(&mut self) {
        match self.manager.take() {
            Some(Manager::Inside(runtime)) => runtime.shutdown_background(),
            // Dropping it kills it, as kill -9 does.
            Some(Manager::Process { .. }) | None => {}
        }
    }

    /// Takes a Release from its creation to its deletion, and spoils one write.
    ///
    /// # Errors
    /// What is not as it should be, or does not come to an end.
    pub async fn run(&mut self, cell: Cell) -> anyhow::Result<Outcome> {
        self.cells += 1;
        let name = format!("cell-{}", self.cells);
        self.commits = self.repository.branches_of(&name)?;
        let mut foreign = None;
        if cell.is_shared {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            create(&namespaces(&self.target), namespace).await?;
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign"}});
            let map = create(&config_maps(&self.target, &name), map).await?;
            foreign = map.metadata.uid;
        }
        let from = self.script.len();
        let mut outcome = Outcome::default();
        for stage in [Stage::Install, Stage::Upgrade, Stage::Delete] {
            let begin = self.script.len();
            if let Some(spoil) = cell.spoil().filter(|_| stage == cell.stage) {
                self.script.arm(spoil);
            }
            let waited = self.stage(&name, &cell, stage).await;
            let is_met = self.script.disarm();
            let waited = waited.with_context(|| format!("{stage:?}"))?;
            if stage == cell.stage {
                outcome = Outcome { steps: self.script.steps(begin), is_met, waited };
            }
            self.verify(&name, cell.size, stage == Stage::Delete, foreign.as_deref())
                .await
                .with_context(|| format!("after {stage:?}"))?;
            if stage != Stage::Delete {
                self.verify_rest(&name, cell.size).await.with_context(|| format!("rest after {stage:?}"))?;
            }
        }
        self.verify_writes(&name, &cell, &self.script.steps(from))?;
        of_convoy(&self.host, "GitRepository", "gitrepositories")
            .delete(&name, &DeleteParams::default())
            .await?;
        if cell.is_shared {
            let _ = namespaces(&self.target).delete(&name, &DeleteParams::default()).await;
        }
        Ok(outcome)
    }

    /// Begins a stage and waits for its end; answers with how far the clock was put forward for it.
    async fn stage(&mut self, name: &str, cell: &Cell, stage: Stage) -> anyhow::Result<Duration> {
        let releases = of_convoy(&self.host, "Release", "releases");
        let fault = cell.fault.filter(|_| stage == cell.stage);
        match stage {
            Stage::Install => {
                (self.revision, self.wanted) = (Revision::One, 1);
                let repository = json!({
                    "apiVersion": convoy_api::API_VERSION, "kind": "GitRepository", "metadata": {"name": name},
                    "spec": {
                        "url": self.repository_url, "interval": "20m",
                        "ref": {"branch": Repository::branch(name, self.revision)},
                    },
                });
                create(&of_convoy(&self.host, "GitRepository", "gitrepositories"), repository).await?;
                let path = Repository::path(cell.size);
                let release = json!({
                    "apiVersion": convoy_api::API_VERSION, "kind": "Release", "metadata": {"name": name},
                    "spec": {
                        "clusterRef": {"name": "there"},
                        "source": {"git": {"repositoryRef": {"name": name}, "path": path}},
                        "targetNamespace": name, "createNamespace": true, "interval": "10m",
                        "apply": {"timeout": "24h"},
                    },
                });
                create(&releases, release).await?;
            }
            Stage::Upgrade => self.want_next(name).await?,
            Stage::Delete => {
                releases.delete(name, &DeleteParams::default()).await?;
            }
        }
        let began = Instant::now();
        let (mut written, mut last) = (self.script.len(), Instant::now());
        let mut waits = WAITS.iter();
        let quiet = if self.is_real() { QUIET_LEASES } else { QUIET };
        let mut waited = Duration::ZERO;
        loop {
            if self.script.is_killed() {
                self.kill_manager();
                if cell.is_overtaken && stage != Stage::Delete {
                    self.want_next(name).await?;
                }
                self.script.revive();
                self.start_manager(fault == Some(Fault::HandOver))?;
                last = Instant::now();
            }
            let now = self.script.len();
            if now != written {
                (written, last) = (now, Instant::now());
            }
            let release = releases.get_opt(name).await?;
            let is_there = match (&release, stage) {
                (None, Stage::Delete) => true,
                (None, _) => bail!("the Release is gone"),
                (Some(_), Stage::Delete) => false,
                (Some(release), _) => self.is_delivered(release),
            };
            if is_there && last.elapsed() > self.still() {
                return Ok(waited);
            }
            if !is_there && last.elapsed() > quiet {
                if self.is_real() && release.as_ref().is_some_and(waits_for_late_requests) {
                    // As its condition says, when nobody wants to wait for that.
                    let patch = json!({"spec": {"apply": {"deletionPolicy": "Orphan"}}});
                    releases.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
                } else if self.is_real() {
                    // Nobody can put its clock forward: it is asked not to wait.
                    self.annotate(name, "now").await?;
                    let repositories = of_convoy(&self.host, "GitRepository", "gitrepositories");
                    let token = format!("now-{}", self.script.len());
                    let patch =
                        json!({"metadata": {"annotations": {"convoy.kumodo.io/reconcile-at": token}}});
                    repositories.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
                } else if let Some(wait) = waits.next() {
                    self.clock.jump(*wait);
                    waited += *wait;
                }
                last = Instant::now();
            }
            if began.elapsed() > PATIENCE {
                let status = release.map(|release| release.data["status"].to_string()).unwrap_or_default();
                bail!("no end after {} s: {status}", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The source names the next revision.
    async fn want_next(&mut self, name: &str) -> anyhow::Result<()> {
        self.revision = self.revision.next();
        self.wanted += 1;
        let patch = json!({"spec": {"ref": {"branch": Repository::branch(name, self.revision)}}});
        let repositories = of_convoy(&self.host, "GitRepository", "gitrepositories");
        repositories.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Whether a Release says that its present spec and revision are on the target.
    fn is_delivered(&self, release: &DynamicObject) -> bool {
        let conditions = release.data["status"]["conditions"].as_array();
        let is_ready = conditions.into_iter().flatten().any(|condition| {
            condition["type"] == "Ready"
                && condition["status"] == "True"
                && condition["observedGeneration"].as_i64() == release.metadata.generation
        });
        let [one, two, three] = &self.commits;
        let commit = match self.revision {
            Revision::One => one,
            Revision::Two => two,
            Revision::Three => three,
        };
        let revision = release.data["status"]["sourceRevision"].as_str().unwrap_or_default();
        is_ready && revision.ends_with(commit.as_str())
    }

    /// Nothing is missing, nothing is left, nobody else's is touched.
    async fn verify(
        &self,
        name: &str,
        size: usize,
        is_deleted: bool,
        foreign: Option<&str>,
    ) -> anyhow::Result<()> {
        let maps = config_maps(&self.target, name).list(&ListParams::default()).await?;
        let mut found = BTreeMap::new();
        for map in &maps.items {
            let map_name = map.metadata.name.clone().unwrap_or_default();
            match map_name.as_str() {
                "foreign" => {
                    ensure!(map.metadata.uid.as_deref() == foreign, "somebody else's object was replaced");
                }
                // One is everywhere; the other is the hook, where that is no Job.
                "kube-root-ca.crt" | HOOK => {}
                _ => drop(
                    found.insert(map_name, map.data["data"]["text"].as_str().unwrap_or_default().to_owned()),
                ),
            }
        }
        let foreign_is_there = maps.items.iter().any(|map| map.metadata.name.as_deref() == Some("foreign"));
        ensure!(foreign_is_there == foreign.is_some(), "somebody else's object is gone");
        let want = if is_deleted { BTreeMap::new() } else { content(size, self.revision) };
        let want: BTreeMap<String, String> =
            want.into_iter().map(|(name, text)| (name, text.to_owned())).collect();
        ensure!(found == want, "on the target are {found:?}, not {want:?}");
        if is_deleted {
            let namespace = namespaces(&self.target).get_opt(name).await?;
            let is_gone = namespace.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some());
            ensure!(
                is_gone == foreign.is_none(),
                "the namespace is gone: {is_gone}, with others' objects: {}",
                foreign.is_some()
            );
            let left = self.entries(name).await?;
            ensure!(left.is_empty(), "the inventory is still there: {left:?}");
        }
        Ok(())
    }

    /// The names of the ConfigMaps in a Release's inventory.
    async fn entries(&self, name: &str) -> anyhow::Result<BTreeSet<String>> {
        let inventories = of_convoy(&self.host, "ReleaseInventory", "releaseinventories");
        let inventories = inventories.list(&ListParams::default()).await?;
        let own =
            inventories.items.iter().filter(|inventory| inventory.data["spec"]["releaseRef"]["name"] == name);
        let entries =
            own.flat_map(|inventory| inventory.data["spec"]["entries"].as_array().into_iter().flatten());
        // What may still be made late is remembered for longer than anybody waits where no clock can be put forward.
        let maps = entries.filter(|entry| {
            entry["kind"] == "ConfigMap"
                && entry["name"] != HOOK
                && !(self.is_real() && entry["gone"] == true)
        });
        Ok(maps.filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect())
    }

    /// A look after everything was forgotten that is remembered for a time changes nothing on the target, and
    /// the next one writes nothing at all.
    async fn verify_rest(&self, name: &str, size: usize) -> anyhow::Result<()> {
        self.clock.jump(FORGET);
        let mark = self.script.len();
        self.ask(name, "first").await?;
        let writes = self.script.steps(mark);
        let touched: Vec<&Step> = writes.iter().filter(|write| write.side == Side::Target).collect();
        if !touched.is_empty() {
            let release = of_convoy(&self.host, "Release", "releases").get(name).await?;
            bail!("a look at rest writes to the target: {touched:?}; {}", release.data["status"]);
        }
        let mark = self.script.len();
        self.ask(name, "second").await?;
        // A Cluster and a source are looked at on their own schedules, and tell of it; a status says when a Release was.
        let other = ["releases/status", "clusters/status", "gitrepositories/status"];
        let is_own = |step: &Step| {
            let is_of_other = other.iter().any(|resource| step.kind().ends_with(resource))
                || (step.kind().ends_with(" events") && !step.note.starts_with("Release "));
            step.is_write() && !is_of_other
        };
        let writes: Vec<Step> = self.script.steps(mark).into_iter().filter(is_own).collect();
        ensure!(writes.is_empty(), "a second look at rest writes: {writes:?}");
        let want: BTreeSet<String> = content(size, self.revision).into_keys().collect();
        let found = self.entries(name).await?;
        ensure!(found == want, "in the inventory are {found:?}, not {want:?}");
        Ok(())
    }

    /// Asks for a look; answers with what its echo will be.
    async fn annotate(&self, name: &str, what: &str) -> anyhow::Result<String> {
        let releases = of_convoy(&self.host, "Release", "releases");
        let token = format!("{what}-{}-{:?}", self.script.len(), self.clock.monotonic());
        let patch = json!({"metadata": {"annotations": {"convoy.kumodo.io/reconcile-at": token}}});
        match releases.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            // It was deleted just now.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            patched => drop(patched?),
        }
        Ok(token)
    }

    /// Asks for a look and waits until it was taken.
    async fn ask(&self, name: &str, what: &str) -> anyhow::Result<()> {
        let releases = of_convoy(&self.host, "Release", "releases");
        let token = self.annotate(name, what).await?;
        let began = Instant::now();
        loop {
            let release = releases.get(name).await?;
            if release.data["status"]["lastHandledReconcileAt"] == token.as_str()
                && self.is_delivered(&release)
            {
                break;
            }
            ensure!(began.elapsed() < PATIENCE, "no look was taken: {}", release.data["status"]);
            tokio::time::sleep(LOOK).await;
        }
        // An event comes after the status that it tells of.
        let (mut written, mut last) = (self.script.len(), Instant::now());
        while last.elapsed() < self.still() {
            if self.script.len() != written {
                (written, last) = (self.script.len(), Instant::now());
            }
            ensure!(began.elapsed() < PATIENCE, "it does not come to rest");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Who has written nothing for so long after the end was reached writes no more.
    fn still(&self) -> Duration {
        if self.is_real() { STILL * 5 } else { STILL }
    }

    /// No object was made twice, none was deleted that should have stayed, and the hook ran once for each revision.
    fn verify_writes(&self, name: &str, cell: &Cell, writes: &[Step]) -> anyhow::Result<()> {
        let own = |write: &&Step| write.side == Side::Target && write.path.contains(&format!("/{name}"));
        let mut there = BTreeSet::new();
        let mut runs = 0;
        for write in writes.iter().filter(own) {
            // Without an answer, as when the process was killed, it may have been carried out.
            let may_be_gone =
                write.method == Method::DELETE && write.status.is_none_or(|status| status.is_success());
            if may_be_gone {
                there.remove(&write.path);
            } else if write.status == Some(StatusCode::CREATED) {
                ensure!(there.insert(&write.path), "{} was made twice", write.path);
                runs += usize::from(write.path.ends_with(&format!("/{HOOK}")));
            }
        }
        // A revision that was overtaken may have come as far as its hook, or not; then what follows may be what is there.
        let least = if cell.is_overtaken { 1 } else { self.wanted };
        ensure!(
            (least..=self.wanted).contains(&runs),
            "the hook ran {runs} times for {} revisions",
            self.wanted
        );
        let gone: BTreeSet<String> = content(cell.size, Revision::One)
            .into_keys()
            .chain(content(cell.size, Revision::Two).into_keys())
            .chain([name.to_owned(), HOOK.to_owned()])
            .collect();
        for write in writes.iter().filter(own).filter(|write| write.method == Method::DELETE) {
            let object = write.path.rsplit('/').next().unwrap_or_default();
            ensure!(gone.contains(object), "{} was deleted", write.path);
        }
        Ok(())
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("cells", &self.cells)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.observer.trigger();
        self.kill_manager();
    }
}

/// Whether a deleted Release says that all is gone but what requests without an answer may still make.
fn waits_for_late_requests(release: &DynamicObject) -> bool {
    release.metadata.deletion_timestamp.is_some()
        && release.data["status"]["conditions"].to_string().contains("all objects are gone, but")
}
