//! What is spoiled, and what has to be true of it afterwards.

mod checks;
mod start;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use convoy_runtime::{Clock, Shutdown};
use convoy_testkit::{ControlPlane, Process};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use object_store::ObjectStore;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::inside::Servers;
use super::proxy::Proxy;
use super::repository::{Repository, Revision};
use super::script::{Fault, Script, Spoil, Step};
use super::supply::Supply;
use crate::Convoy;
use crate::clock::JumpingClock;

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
/// How many steps a stage takes at most, however often it is tried; undisturbed it is 36, and one or two for an object.
const MOST_STEPS: usize = 400;
const MOST_STEPS_OF_AN_OBJECT: usize = 12;
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
    /// three. Inside, each of them also lets requests and news take a moment of their own.
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

/// What a world is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// An API server, a sandbox and a Git server as processes, behind proxies.
    OfServers,
    /// All are processes, and the target is a real kube-apiserver.
    OfProcesses,
    /// All is in this thread, on the paused clock of its runtime, and what is fetched was fetched already.
    Inside,
}

/// API servers behind proxies, an observer, and a controller-manager that can die.
pub struct World {
    made: Made,
    script: Script,
    host: Client,
    target: Client,
    host_proxy: Option<Proxy>,
    servers: Option<Servers>,
    clock: Arc<JumpingClock>,
    /// One that nobody puts forward.
    steady: Arc<dyn Clock>,
    /// The render store, without faults.
    objects: Arc<dyn ObjectStore>,
    manager: Option<Manager>,
    managers: usize,
    cells: usize,
    /// Which revision the present Release is to have.
    revision: Revision,
    /// The commits of the present Release.
    commits: [String; 3],
    /// How many revisions the present Release was to have so far, one after the other.
    wanted: usize,
    supply: Supply,
    observer: Shutdown,
    _apiserver: Option<Convoy>,
    observer_process: Option<Process>,
    _sandbox: Option<Convoy>,
    _plane: Option<ControlPlane>,
    folder: TempDir,
}

/// One life of the controller-manager.
#[derive(Debug)]
enum Manager {
    /// In this process, on a runtime of its own, which is dropped to kill it.
    Inside(Runtime),
    /// On the runtime of the world. Its requests end with it, whatever of it goes on.
    Task { shutdown: Shutdown, task: JoinHandle<()> },
    /// A process of its own.
    Process { killed_with_it: Process },
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
    /// The end of what the controller-manager logged, when it is a process.
    pub fn last_words(&self) -> String {
        match &self.manager {
            Some(Manager::Process { killed_with_it }) => killed_with_it.last_lines(),
            Some(Manager::Inside(_) | Manager::Task { .. }) | None => String::new(),
        }
    }

    fn kill_manager(&mut self) {
        match self.manager.take() {
            Some(Manager::Inside(runtime)) => runtime.shutdown_background(),
            Some(Manager::Task { shutdown, task }) => {
                shutdown.trigger();
                task.abort();
            }
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
        self.commits = self.supply.revisions_of(&name)?;
        let mut foreign = None;
        if cell.is_shared {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            create(&namespaces(&self.target), namespace).await?;
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign"}});
            let map = create(&config_maps(&self.target, &name), map).await?;
            foreign = map.metadata.uid;
        }
        if self.made == Made::Inside {
            self.script.lag_by(cell.seed);
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
            let (steps, most) = (self.script.len() - begin, MOST_STEPS + MOST_STEPS_OF_AN_OBJECT * cell.size);
            ensure!(steps <= most, "{stage:?}: {steps} steps, as if it asked without a pause");
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
                    "spec": self.supply.spec(name, self.revision),
                });
                let repositories = of_convoy(&self.host, "GitRepository", "gitrepositories");
                create(&repositories, repository).await?;
                self.supply.want(&repositories, (name, cell.size), self.revision).await?;
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
            Stage::Upgrade => self.want_next(name, cell.size).await?,
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
                    self.want_next(name, cell.size).await?;
                }
                self.script.revive();
                self.start_manager(fault == Some(Fault::HandOver))?;
                last = Instant::now();
            }
            let release = releases.get_opt(name).await?;
            // After the look: what it shows may have been written meanwhile, and the last step is still to come.
            let now = self.script.len();
            if now != written {
                (written, last) = (now, Instant::now());
            }
            let is_there = match (&release, stage) {
                (None, Stage::Delete) => true,
                (None, _) => bail!("the Release is gone"),
                (Some(_), Stage::Delete) => false,
                (Some(release), _) => self.is_delivered(release),
            };
            if is_there && last.elapsed() > self.still() && !self.script.is_killed() {
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
                    self.supply.fetch_again().await?;
                    self.clock.jump(*wait);
                    waited += *wait;
                }
                last = Instant::now();
            }
            if began.elapsed() > PATIENCE {
                let status = release.map(|release| release.data["status"].to_string()).unwrap_or_default();
                bail!("no end after {} s: {status}", PATIENCE.as_secs());
            }
            tokio::time::sleep(self.between_looks()).await;
        }
    }

    /// The source names the next revision.
    async fn want_next(&mut self, name: &str, size: usize) -> anyhow::Result<()> {
        self.revision = self.revision.next();
        self.wanted += 1;
        let repositories = of_convoy(&self.host, "GitRepository", "gitrepositories");
        self.supply.want(&repositories, (name, size), self.revision).await
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
            tokio::time::sleep(self.between_looks()).await;
        }
        // An event comes after the status that it tells of.
        let (mut written, mut last) = (self.script.len(), Instant::now());
        while last.elapsed() < self.still() {
            if self.script.len() != written {
                (written, last) = (self.script.len(), Instant::now());
            }
            ensure!(began.elapsed() < PATIENCE, "it does not come to rest");
            tokio::time::sleep(self.between_looks()).await;
        }
        Ok(())
    }

    /// Between two looks at the state. Where no time goes by, each of them is what costs.
    fn between_looks(&self) -> Duration {
        if self.made == Made::Inside { LOOK * 10 } else { LOOK }
    }

    /// Who has written nothing for so long after the end was reached writes no more.
    fn still(&self) -> Duration {
        if self.is_real() { STILL * 5 } else { STILL }
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
