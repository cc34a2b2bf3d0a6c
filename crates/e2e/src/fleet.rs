//! A whole convoy as processes of their own: one API server, simulated targets, several replicas of
//! controller-manager and observer, and a Git repository over HTTP.

mod answering;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use convoy_testkit::{FaultyLink, HttpsClient, LeaseHistory, Process};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::answering::Certificates;

/// Where convoy's objects and leases are.
pub const NAMESPACE: &str = "default";
/// `--shards`: its default.
pub const SHARDS: u32 = 32;
const API: &str = "/apis/convoy.kumodo.io/v1alpha1";
/// How often the leases are looked at.
const LOOK: Duration = Duration::from_millis(150);
/// How long a process may take to start or to stop.
pub const START: Duration = Duration::from_secs(60);

/// Waits until `look` answers; none when that takes longer than `patience`.
pub fn wait<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if began.elapsed() >= patience {
            return None;
        }
        // The pause of a poll with a deadline: what is waited for is a state, not a time.
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// The shard of an object: FNV-1a (32 bit) of `namespace/name` modulo [`SHARDS`]. Written here once more, so
/// that convoy's own computation is not compared with itself.
pub fn shard_of(name: &str) -> u32 {
    let hash = format!("{NAMESPACE}/{name}")
        .bytes()
        .fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    hash % SHARDS
}

/// A kind of process that shares work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The controller-manager.
    ControllerManager,
    /// The observer.
    Observer,
}

impl Part {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ControllerManager, Self::Observer];

    /// What the names of its leases begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::ControllerManager => "convoy-cm",
            Self::Observer => "convoy-obs",
        }
    }

    /// Its command.
    pub fn command(self) -> &'static str {
        match self {
            Self::ControllerManager => "controller-manager",
            Self::Observer => "observer",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// The lease flags of the replicas.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// `--lease-duration`.
    pub duration: Duration,
    /// `--lease-renew-interval`.
    pub interval: Duration,
    /// `--lease-observe-interval`; none for its default.
    pub observe: Option<Duration>,
}

impl Timing {
    /// The defaults of the flags.
    pub const DEFAULT: Self =
        Self { duration: Duration::from_secs(30), interval: Duration::from_secs(10), observe: None };
    /// Short times for tests.
    pub const SHORT: Self = Self {
        duration: Duration::from_secs(3),
        interval: Duration::from_secs(1),
        observe: Some(Duration::from_millis(200)),
    };

    /// The longest a shard may be without an owner.
    pub fn bound(&self) -> Duration {
        self.duration + self.interval
    }

    fn flags(&self) -> Vec<String> {
        let millis = |flag: &str, value: Duration| format!("--lease-{flag}={}ms", value.as_millis());
        let mut flags = vec![
            format!("--lease-duration={}s", self.duration.as_secs()),
            millis("renew-interval", self.interval),
        ];
        flags.extend(self.observe.map(|observe| millis("observe-interval", observe)));
        flags
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// The convoy program.
    pub convoy: PathBuf,
    /// Another one, that every second replica of a part is: one of another version, say.
    pub beside: Option<PathBuf>,
    /// An empty folder for everything.
    pub folder: PathBuf,
    /// How many target clusters, named `cluster-1` and so on.
    pub clusters: u16,
    /// The lease flags.
    pub timing: Timing,
    /// More flags for controller-managers and observers.
    pub flags: Vec<String>,
}

/// One running controller-manager or observer.
#[derive(Debug)]
pub struct Replica {
    /// What it is.
    pub part: Part,
    /// Its `--replica-id`.
    pub id: String,
    /// Its process.
    pub process: Process,
    health: SocketAddr,
}

impl Replica {
    /// Whether `/readyz` answers 200.
    pub fn is_ready(&self) -> bool {
        self.ask("/readyz").is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
    }

    /// A metric without labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let answer = self.ask("/metrics").ok()?;
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse().ok()
    }

    fn ask(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.health, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.health)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// One target cluster.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name, also that of its Cluster.
    pub name: String,
    /// A client with all rights.
    pub client: HttpsClient,
}

/// Everything that runs.
#[derive(Debug)]
pub struct Fleet {
    options: FleetOptions,
    /// The API server that holds convoy's objects.
    pub host: HttpsClient,
    /// The target clusters.
    pub targets: Vec<Target>,
    /// Controller-managers and observers, in the order of their start.
    pub replicas: Vec<Replica>,
    leases: Arc<Mutex<[LeaseHistory; 2]>>,
    watching: Arc<AtomicBool>,
    starts: u32,
    starts_of: [u32; 2],
    /// Those of the API server and the observers; none when it does not ask them.
    certificates: Option<Certificates>,
    _servers: [Process; 2],
}

impl Fleet {
    /// Starts the API server and the targets, and no replica yet.
    ///
    /// # Errors
    /// When something does not start.
    pub fn start(options: FleetOptions) -> anyhow::Result<Self> {
        Self::start_with(options, None)
    }

    /// [`Self::start`], with an API server that asks the observer that owns a Release for its subresources.
    ///
    /// # Errors
    /// When something does not start.
    pub fn start_answering(options: FleetOptions) -> anyhow::Result<Self> {
        let certificates = Certificates::make(&options.convoy, options.folder.join("certificates"))?;
        Self::start_with(options, Some(certificates))
    }

    fn start_with(options: FleetOptions, certificates: Option<Certificates>) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&options.folder)?;
        let path = |name: &str| options.folder.join(name).display().to_string();
        let arguments =
            |list: &[&str]| list.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>();
        let begin = |arguments: &[String], log: &str, word: &str| -> anyhow::Result<Process> {
            let process = Process::start(&options.convoy, arguments, &options.folder.join(log))?;
            await_line(&process, word).with_context(|| format!("starting {}", arguments.join(" ")))?;
            Ok(process)
        };
        let mut of_apiserver = match &certificates {
            Some(certificates) => {
                [arguments(&["apiserver", "--secure-port=0"]), certificates.of_apiserver()].concat()
            }
            None => arguments(&["standalone", "--only=apiserver", "--port=0"]),
        };
        of_apiserver.push(format!("--data-dir={}", path("data")));
        of_apiserver.push(format!("--audit-log-path={}", path("host-audit.log")));
        let apiserver = begin(&of_apiserver, "apiserver.log", "is ready")?;
        let sandbox = begin(
            &arguments(&[
                "sandbox",
                &format!("--clusters={}", options.clusters),
                &format!("--dir={}", path("targets")),
                &format!("--audit-log-path={}", path("target-audit.log")),
            ]),
            "sandbox.log",
            "is ready",
        )?;
        let host = HttpsClient::from_kubeconfig(&options.folder.join("data/admin.kubeconfig"))?;
        let targets = (1..=options.clusters)
            .map(|number| {
                let name = format!("cluster-{number}");
                let kubeconfig = options.folder.join(format!("targets/{name}.kubeconfig"));
                Ok(Target { client: HttpsClient::from_kubeconfig(&kubeconfig)?, name })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let histories = Part::ALL.map(|part| LeaseHistory::new(part.prefix(), SHARDS));
        let leases = Arc::new(Mutex::new(histories));
        let watching = Arc::new(AtomicBool::new(true));
        watch_leases(host.clone(), Arc::clone(&leases), Arc::clone(&watching));
        let servers = [apiserver, sandbox];
        Ok(Self {
            options,
            host,
            targets,
            replicas: Vec::new(),
            leases,
            watching,
            starts: 0,
            starts_of: [0; 2],
            certificates,
            _servers: servers,
        })
    }

    /// The folder of everything.
    pub fn folder(&self) -> &Path {
        &self.options.folder
    }

    /// Gives replicas that start from now on other flags.
    pub fn set_flags(&mut self, flags: Vec<String>) {
        self.options.flags = flags;
    }

    /// Lets replicas that start from now on be another program.
    pub fn set_program(&mut self, program: PathBuf) {
        self.options.convoy = program;
    }

    /// The lease flags.
    pub fn timing(&self) -> Timing {
        self.options.timing
    }

    /// Starts a replica and waits until it serves its health.
    ///
    /// # Errors
    /// When it ends or does not start.
    pub fn add(&mut self, part: Part, id: &str) -> anyhow::Result<()> {
        self.starts += 1;
        let count = &mut self.starts_of[part.index()];
        *count += 1;
        let program = match &self.options.beside {
            Some(beside) if count.is_multiple_of(2) => beside,
            _ => &self.options.convoy,
        };
        let store = self.options.folder.join("store");
        let mut arguments = vec![
            part.command().to_owned(),
            format!("--kubeconfig={}", self.options.folder.join("data/admin.kubeconfig").display()),
            "--health-bind-address=127.0.0.1:0".to_owned(),
            format!("--replica-id={id}"),
            format!("--lease-namespace={NAMESPACE}"),
        ];
        let has_store = self.options.flags.iter().any(|flag| flag.starts_with("--render-store-url="));
        if part == Part::ControllerManager && !has_store {
            arguments.push(format!("--render-store-url=file://{}", store.display()));
        }
        if let (Part::Observer, Some(certificates)) = (part, &self.certificates) {
            arguments.extend(certificates.of_observer(&store.display().to_string()));
        }
        arguments.extend(self.options.timing.flags());
        arguments.extend(self.options.flags.iter().cloned());
        let log = self.options.folder.join(format!("{id}.{}.log", self.starts));
        let process = Process::start(program, &arguments, &log)?;
        let line = await_line(&process, "health at http://").with_context(|| format!("starting {id}"))?;
        let health = line.rsplit("http://").next().unwrap_or_default().trim().parse()?;
        self.replicas.push(Replica { part, id: id.to_owned(), process, health });
        Ok(())
    }

    /// The replicas of one part, oldest first.
    pub fn of(&self, part: Part) -> Vec<&Replica> {
        self.replicas.iter().filter(|replica| replica.part == part).collect()
    }

    /// Takes a replica out of the list; dropping it kills it.
    pub fn remove(&mut self, id: &str) -> Option<Replica> {
        let position = self.replicas.iter().position(|replica| replica.id == id)?;
        Some(self.replicas.remove(position))
    }

    /// What the looks at the leases of one part have seen so far.
    pub fn leases<T>(&self, part: Part, read: impl FnOnce(&LeaseHistory) -> T) -> T {
        let histories = lock(&self.leases);
        let [cm, obs] = &*histories;
        read(if part.index() == 0 { cm } else { obs })
    }

    /// Waits until all replicas run and are ready, and every shard is held by one of them, each holding its
    /// part. Says what is wrong when that does not come.
    ///
    /// # Errors
    /// What is still wrong after `patience`.
    pub fn await_balance(&self, patience: Duration) -> anyhow::Result<()> {
        let mut wrong = String::new();
        let is_balanced = wait(patience, || {
            wrong = Part::ALL.iter().filter_map(|part| self.imbalance(*part)).collect::<Vec<_>>().join("; ");
            wrong.is_empty().then_some(())
        });
        ensure!(is_balanced.is_some(), "not balanced after {} s: {wrong}", patience.as_secs());
        Ok(())
    }

    fn imbalance(&self, part: Part) -> Option<String> {
        let replicas = self.of(part);
        if let Some(ended) = replicas.iter().find(|replica| replica.process.has_ended()) {
            return Some(format!("{} has ended: {}", ended.id, ended.process.last_lines()));
        }
        let each = SHARDS as usize / replicas.len().max(1);
        let held: Vec<(&str, usize)> = replicas
            .iter()
            .map(|replica| {
                (replica.id.as_str(), self.leases(part, |leases| leases.held_by(&replica.id).len()))
            })
            .collect();
        let sum: usize = held.iter().map(|(_, count)| count).sum();
        let unowned = self.leases(part, |leases| leases.unowned(self.options.timing.duration));
        if sum != SHARDS as usize || held.iter().any(|(_, count)| *count < each) || !unowned.is_empty() {
            return Some(format!("{} hold {held:?}, unowned {unowned:?}", part.command()));
        }
        let unready: Vec<&str> = replicas
            .iter()
            .filter(|replica| !replica.is_ready())
            .map(|replica| replica.id.as_str())
            .collect();
        (!unready.is_empty()).then(|| format!("not ready: {unready:?}"))
    }

    /// Creates an object on the host.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn create(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        let answer = self.host.send("POST", path, "application/json", object)?;
        ensure!(answer.status == 201, "creating {object}: {} {}", answer.status, answer.text());
        Ok(())
    }

    /// Creates one of convoy's objects.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_convoy(&self, plural: &str, kind: &str, name: &str, spec: &Value) -> anyhow::Result<()> {
        let object = json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind,
                            "metadata": {"name": name}, "spec": spec});
        self.create(&convoy_path(plural), &object)
    }

    /// Changes fields of a Release's spec.
    ///
    /// # Errors
    /// When the API server does not answer 200.
    pub fn patch_release(&self, release: &str, spec: &Value) -> anyhow::Result<()> {
        let path = format!("{}/{release}", convoy_path("releases"));
        let patch = json!({"spec": spec});
        let answer = self.host.send("PATCH", &path, "application/merge-patch+json", &patch)?;
        ensure!(answer.status == 200, "changing {release}: {} {}", answer.status, answer.text());
        Ok(())
    }

    /// Waits until the ConfigMap of a Release on its target has this number: see [`crate::load::write_chart`].
    ///
    /// # Errors
    /// When that takes longer than `patience`, or there is no such target.
    pub fn await_number(
        &self,
        target: &str,
        release: &str,
        number: &str,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let found = self.targets.iter().find(|found| found.name == target).context("no such target")?;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{release}");
        let there = wait(patience, || {
            let map = found.client.get(&path).ok()?.json();
            (map["data"]["number"] == number).then_some(())
        });
        there.with_context(|| format!("a change of {release} did not reach {target}"))
    }

    /// The memory that all controller-managers have in use, in bytes.
    pub fn managers_memory(&self) -> u64 {
        let managers = self.of(Part::ControllerManager);
        managers.iter().filter_map(|manager| manager.process.resident_bytes().ok()).sum()
    }

    /// Creates the Cluster of each target, with its Secret.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_clusters(&self) -> anyhow::Result<()> {
        self.targets.iter().try_for_each(|target| self.create_cluster(&target.name, &target.name))
    }

    /// Creates a Cluster that goes to a target.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_cluster(&self, name: &str, target: &str) -> anyhow::Result<()> {
        let kubeconfig =
            std::fs::read_to_string(self.options.folder.join(format!("targets/{target}.kubeconfig")))?;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                            "stringData": {"kubeconfig": kubeconfig}});
        self.create(&format!("/api/v1/namespaces/{NAMESPACE}/secrets"), &secret)?;
        let spec = json!({"kubeconfig": {"secretRef": {"name": name}}});
        self.create_convoy("clusters", "Cluster", name, &spec)
    }

    /// Creates the Cluster of a target, which is reached through a link that can go bad.
    ///
    /// # Errors
    /// As [`Self::create`], and when no port can be had.
    pub fn create_linked_cluster(&self, target: &str) -> anyhow::Result<FaultyLink> {
        let folder = self.options.folder.join("targets");
        let kubeconfig = std::fs::read_to_string(folder.join(format!("{target}.kubeconfig")))?;
        let (_, rest) = kubeconfig.split_once("https://").context("the kubeconfig has no server")?;
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':')).unwrap_or(rest.len());
        let server = rest.get(..end).unwrap_or_default();
        let link = FaultyLink::to(server.parse().context("the server is no address")?)?;
        let linked = kubeconfig.replace(server, &link.address().to_string());
        std::fs::write(folder.join(format!("{target}-linked.kubeconfig")), linked)?;
        self.create_cluster(target, &format!("{target}-linked"))?;
        Ok(link)
    }

    /// All objects of one of convoy's kinds.
    ///
    /// # Errors
    /// When the API server does not answer as it should.
    pub fn list_convoy(&self, plural: &str) -> anyhow::Result<Vec<Value>> {
        let answer = self.host.get(&convoy_path(plural))?;
        let mut list = answer.json();
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => bail!("listing {plural}: {} {}", answer.status, answer.text()),
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.watching.store(false, Ordering::Relaxed);
    }
}

/// The path of all objects of one of convoy's kinds.
pub fn convoy_path(plural: &str) -> String {
    format!("{API}/namespaces/{NAMESPACE}/{plural}")
}

/// The status of a condition of an object, and its reason.
pub fn condition<'a>(object: &'a Value, type_: &str) -> (&'a str, &'a str) {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let condition = conditions.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null);
    (condition["status"].as_str().unwrap_or_default(), condition["reason"].as_str().unwrap_or_default())
}

fn await_line(process: &Process, word: &str) -> anyhow::Result<String> {
    let line = wait(START, || match process.line_with(word) {
        Some(line) => Some(Some(line)),
        None => process.has_ended().then_some(None),
    });
    match line.flatten() {
        Some(line) => Ok(line),
        None => bail!("did not say {word:?}: {}", process.last_lines()),
    }
}

fn watch_leases(host: HttpsClient, histories: Arc<Mutex<[LeaseHistory; 2]>>, watching: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
        while watching.load(Ordering::Relaxed) {
            // An answer that fails is no look; the next one follows.
            if let Ok(answer) = host.get(&path)
                && answer.status == 200
            {
                let (list, at) = (answer.json(), Timestamp::now());
                lock(&histories).iter_mut().for_each(|history| history.see(at, &list));
            }
            std::thread::park_timeout(LOOK);
        }
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of another program: a few lines of Python with the same formula.
    #[test]
    fn sc07_shards_agree_with_another_program() {
        let shards: Vec<u32> = (1..=4).map(|number| shard_of(&format!("cluster-{number}"))).collect();
        assert_eq!(shards, SHARDS_OF_CLUSTER_1_TO_4);
    }
    const SHARDS_OF_CLUSTER_1_TO_4: [u32; 4] = [9, 16, 3, 2];
}
