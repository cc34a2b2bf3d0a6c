//! An overlay of `deploy/`, installed on a real kube-apiserver, with pods that are processes, and a fleet that it delivers to.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoy_testkit::{ControlPlane, GitServer, program};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Network, Objects, PodRunner, folder, kustomize};
use crate::repository::Repository;
use crate::{Convoy, Kubectl, convoy_program};

/// The namespace that the overlays are in.
pub const HOME: &str = "convoy-system";
/// For a takeover, on a machine that does other things, too.
const PATIENCE: Duration = Duration::from_secs(120);

/// A host cluster with a node for convoy's pods.
#[derive(Debug)]
pub struct Installed {
    /// The node.
    pub runner: PodRunner,
    /// kubectl with all rights on the host.
    pub kubectl: Kubectl,
    /// The host.
    pub plane: ControlPlane,
    program: PathBuf,
}

impl Installed {
    /// A host and a node without pods.
    ///
    /// # Errors
    /// What this machine lacks.
    pub fn start() -> Result<Self, String> {
        let network = Network::find()?;
        let find = |name: &str| program(name).map_err(|missing| missing.to_string());
        let (kubectl, etcd) = (find("kubectl")?, find("etcd")?);
        let plane = ControlPlane::start_with(&network.options()).map_err(|error| error.to_string())?;
        let convoy = convoy_program();
        let programs = [("convoy", convoy.as_path()), ("registry.k8s.io/etcd", etcd.as_path())];
        let runner = PodRunner::start(&plane, network, &programs);
        Ok(Self { runner, kubectl: Kubectl::new(&kubectl, &plane.kubeconfig()), plane, program: kubectl })
    }

    /// Applies an overlay.
    ///
    /// # Panics
    /// When it is refused.
    pub fn apply(&self, overlay: &str) {
        let objects: Objects = kustomize(&self.program, &folder().join("overlays").join(overlay));
        self.kubectl.ok(&["create", "namespace", HOME]);
        let secrets = crate::run(&["certificates", "-n", HOME]);
        self.kubectl.ok_with(&["apply", "-f", "-"], &String::from_utf8(secrets.stdout).unwrap());
        self.kubectl.ok_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &objects.list());
    }

    /// Waits until a Deployment is Available, and tells the pods' last words when it does not become so.
    ///
    /// # Panics
    /// When it does not.
    pub fn available(&self, deployment: &str) {
        let name = format!("deployment/{deployment}");
        let wait = ["wait", "-n", HOME, "--for=condition=Available", &name, "--timeout=120s"];
        let output = self.kubectl.command(&wait, "");
        assert!(output.status.success(), "{deployment}:\n{}", self.last_words());
    }

    /// Applies an overlay and waits until all of it is Available, the API behind the aggregator too.
    ///
    /// # Panics
    /// When it does not become so.
    pub fn install(&self, overlay: &str) {
        self.apply(overlay);
        for deployment in ["etcd", "apiserver", "controller-manager", "observer"] {
            self.available(&format!("convoy-{deployment}"));
        }
        let service = "apiservice/v1alpha1.convoy.kumodo.io";
        self.kubectl.ok(&["wait", "--for=condition=Available", service, "--timeout=60s"]);
    }

    /// Waits for it for longer than usual; tells the pods' last words when it does not come.
    ///
    /// # Panics
    /// When it does not.
    pub fn await_long(&self, what: &str, mut look: impl FnMut() -> Result<(), String>) {
        let began = Instant::now();
        while let Err(found) = look() {
            assert!(began.elapsed() < PATIENCE, "{what}: {found}\n{}", self.last_words());
            // The pause of a poll with a deadline.
            std::thread::park_timeout(Duration::from_millis(500));
        }
    }

    /// What any pod was not allowed to do, by its log.
    pub fn forbidden(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, log) in self.runner.logs() {
            let refused = log.lines().filter(|line| line.contains("forbidden") || line.contains("Forbidden"));
            lines.extend(refused.map(|line| format!("{name}: {line}")));
        }
        lines
    }

    fn last_words(&self) -> String {
        let pods = self.kubectl.command(&["get", "pods", "-n", HOME, "-o", "wide"], "");
        format!("{}{}", String::from_utf8_lossy(&pods.stdout), self.runner.last_lines())
    }
}

/// Simulated targets, a Git repository with one ConfigMap that holds a number, and Releases of it in the namespace `team`.
#[derive(Debug)]
pub struct Workload {
    targets: u16,
    releases: usize,
    sandboxes: PathBuf,
    repository: Repository,
    kubectl: PathBuf,
    _sandbox: Convoy,
    _git: GitServer,
    _folder: TempDir,
}

impl Workload {
    /// Starts targets, and applies Clusters, the source and the Releases; the number is 0.
    ///
    /// # Panics
    /// When something of it cannot be made.
    pub fn start(installed: &Installed, targets: u16, releases: usize) -> Self {
        let work = tempfile::tempdir().unwrap();
        let sandboxes = work.path().join("sandboxes");
        let count = targets.to_string();
        let sandbox =
            Convoy::start(&["sandbox", "--clusters", &count, "--dir", sandboxes.to_str().unwrap()]).unwrap();
        let repository = Repository::at(&work.path().join("git/apps"));
        repository.init();
        let git = GitServer::start(&work.path().join("git")).unwrap();
        let workload = Self {
            targets,
            releases,
            sandboxes,
            repository,
            kubectl: installed.program.clone(),
            _sandbox: sandbox,
            _git: git,
            _folder: work,
        };
        workload.commit(0);
        installed.kubectl.ok(&["create", "namespace", "team"]);
        let fleet = workload.fleet(&workload._git.url("apps"));
        installed.kubectl.ok_with(&["apply", "--server-side", "-f", "-"], &fleet);
        workload
    }

    /// Another number for all Releases.
    pub fn commit(&self, number: usize) {
        let map =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{number: '{number}'}}\n");
        self.repository.commit(&[("map/all.yaml", map)]);
    }

    /// Whether all targets have a number, and all Releases say that they are ready.
    ///
    /// # Errors
    /// How far it is.
    pub fn delivered(&self, installed: &Installed, number: usize) -> Result<(), String> {
        let have: usize = (1..=self.targets).map(|target| self.have(target, number)).sum();
        let ready = r#"jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}"#;
        let output = installed.kubectl.command(&["get", "releases", "-n", "team", "-o", ready], "");
        let ready = String::from_utf8_lossy(&output.stdout);
        let ready = ready.split_whitespace().filter(|status| *status == "True").count();
        if (have, ready) == (self.releases, self.releases) {
            return Ok(());
        }
        Err(format!("{have} delivered, {ready} ready {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// How many ConfigMaps with a number a target has.
    ///
    /// # Panics
    /// When it does not say.
    pub fn have(&self, target: u16, number: usize) -> usize {
        let kubeconfig = self.sandboxes.join(format!("cluster-{target}.kubeconfig"));
        let columns = "jsonpath={range .items[*]}{.metadata.name}={.data.number} {end}";
        let maps = Kubectl::new(&self.kubectl, &kubeconfig).ok(&["get", "configmaps", "-A", "-o", columns]);
        maps.split(' ').filter(|map| *map == format!("m={number}")).count()
    }

    fn fleet(&self, url: &str) -> String {
        let kind = |kind: &str, name: &str, spec: &Value| {
            json!({"apiVersion": "convoy.kumodo.io/v1alpha1", "kind": kind,
                   "metadata": {"name": name, "namespace": "team"}, "spec": spec})
        };
        let mut items = vec![kind("GitRepository", "apps", &json!({"url": url, "interval": "2s"}))];
        for number in 1..=self.targets {
            let name = format!("cluster-{number}");
            let kubeconfig = read(&self.sandboxes.join(format!("{name}.kubeconfig")));
            items.push(
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "team"},
                              "stringData": {"kubeconfig": kubeconfig}}),
            );
            items.push(kind("Cluster", &name, &json!({"kubeconfig": {"secretRef": {"name": name}}})));
        }
        for number in 0..self.releases {
            let cluster = format!("cluster-{}", number % usize::from(self.targets) + 1);
            let name = format!("app-{number:02}");
            let spec = json!({
                "clusterRef": {"name": cluster}, "targetNamespace": name, "createNamespace": true,
                "source": {"git": {"repositoryRef": {"name": "apps"}, "path": "map"}},
            });
            items.push(kind("Release", &name, &spec));
        }
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
