//! [`PodRunner`]: what a node is for pods, without containers. A pod that a real kube-controller-manager made becomes a process:
//! its command with its arguments, environment, user and read-only root, its Secrets, ConfigMaps and claims mounted where it says, the
//! token of its ServiceAccount, and its probes. Services are reached at their cluster IPs.
//!
//! A pod's own network is an address of its own, 127.N.128.x: where arguments say 0.0.0.0 or 127.0.0.1 the pod's address is
//! put, and the status says 10.N.128.x, because API servers take no loopback addresses for endpoints. Cluster IPs are
//! 127.N.0.x, so that all that runs on this machine reaches them, kube-apiserver too.

mod container;
mod probe;
mod root;
mod run;
mod services;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use convoy_testkit::{ControlPlane, HttpsClient, Options};
use parking_lot::Mutex;
use tempfile::TempDir;

use container::Pod;
use services::Services;

/// The name of the node that all pods are on.
const NODE: &str = "pod-runner";

/// A node whose pods are processes. Dropping it kills them.
#[derive(Debug)]
pub struct PodRunner {
    shared: Arc<Shared>,
    stop: mpsc::Sender<()>,
    running: Option<JoinHandle<()>>,
}

/// Which addresses a runner has for pods and Services: N of 127.N.0.0.
#[derive(Debug, Clone, Copy)]
pub struct Network(u8);

/// What all threads of a runner know.
#[derive(Debug)]
struct Shared {
    client: HttpsClient,
    apiserver_port: u16,
    authority: String,
    network: Network,
    folder: TempDir,
    /// The program of an image.
    programs: BTreeMap<String, PathBuf>,
    pods: Mutex<BTreeMap<String, Pod>>,
    services: Services,
    is_over: AtomicBool,
}

impl Network {
    /// One that nobody has; none where processes cannot have folders of their own, or ports of Services cannot be listened on.
    pub fn find() -> Result<Self, String> {
        let can_mount = Command::new("unshare").args(["--mount", "true"]).output();
        if !can_mount.is_ok_and(|output| output.status.success()) {
            return Err("pods need mounts of their own: run as root on Linux".to_owned());
        }
        let start = std::process::id() % 100;
        for offset in 0..100 {
            let n = u8::try_from(50 + (start + offset) % 100).unwrap_or(50);
            // The last Service address stands for all of the network.
            match TcpListener::bind((Ipv4Addr::new(127, n, 127, 254), 443)) {
                Ok(listener) => {
                    // Held until this process ends: another runner takes another network.
                    std::mem::forget(listener);
                    return Ok(Self(n));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(format!("Services cannot be listened on: {error}")),
            }
        }
        Err("all networks are taken".to_owned())
    }

    /// What the control plane is started with.
    pub fn options(self) -> Options {
        Options {
            controller_manager: true,
            apiserver_flags: vec![format!("--service-cluster-ip-range=127.{}.0.0/17", self.0)],
        }
    }

    /// Where the processes of a pod listen, and what its status says.
    fn pod(self, number: u16) -> (Ipv4Addr, Ipv4Addr) {
        let [high, low] = number.to_be_bytes();
        (Ipv4Addr::new(127, self.0, 128 + high, low), Ipv4Addr::new(10, self.0, 128 + high, low))
    }
}

impl PodRunner {
    /// A node beside a control plane that was started with [`Network::options`]. Images are programs of this machine.
    ///
    /// # Panics
    /// When the node cannot be made.
    pub fn start(plane: &ControlPlane, network: Network, programs: &[(&str, &Path)]) -> Self {
        let shared = Arc::new(Shared {
            client: plane.client().clone(),
            apiserver_port: plane.address().port(),
            authority: plane.authority().to_owned(),
            network,
            folder: tempfile::Builder::new().prefix("convoy-pods-").tempdir().unwrap(),
            programs: programs
                .iter()
                .map(|(image, path)| ((*image).to_owned(), path.to_path_buf()))
                .collect(),
            pods: Mutex::default(),
            services: Services::default(),
            is_over: AtomicBool::new(false),
        });
        // Pods' users go through it.
        fs::set_permissions(shared.folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let (stop, stopped) = mpsc::channel();
        let running = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || run::run(&shared, &stopped)
        });
        Self { shared, stop, running: Some(running) }
    }

    /// Names of the pods whose name begins so, and that run.
    pub fn pods(&self, prefix: &str) -> Vec<String> {
        let pods = self.shared.pods.lock();
        let ours = pods.values().filter(|pod| pod.name.starts_with(prefix) && pod.is_running());
        ours.map(|pod| pod.name.clone()).collect()
    }

    /// Ends a pod's process as `kill -9` does; the pod stays, and its container is started again.
    ///
    /// # Panics
    /// When there is no such pod.
    pub fn kill(&self, name: &str) {
        let pods = self.shared.pods.lock();
        let pod = pods.values().find(|pod| pod.name == name);
        pod.unwrap_or_else(|| panic!("there is no pod {name}")).signal("KILL");
    }

    /// What all pods have logged so far, those that are gone too: by pod.
    pub fn logs(&self) -> Vec<(String, String)> {
        let folder = self.shared.folder.path().join("logs");
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let logs = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "log"));
        logs.map(|file| {
            let text = fs::read(file.path()).unwrap_or_default();
            (file.file_name().to_string_lossy().into_owned(), String::from_utf8_lossy(&text).into_owned())
        })
        .collect()
    }

    /// The last lines of each pod's log, for a test that failed.
    pub fn last_lines(&self) -> String {
        let mut all = String::new();
        for (name, text) in self.logs() {
            let lines: Vec<&str> = text.lines().rev().take(15).collect();
            all.push_str(&format!("--- {name}\n"));
            for line in lines.into_iter().rev() {
                all.push_str(line);
                all.push('\n');
            }
        }
        all
    }
}

impl Drop for PodRunner {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = self.stop.send(());
        if let Some(running) = self.running.take() {
            let _ = running.join();
        }
        self.shared.pods.lock().clear();
        self.shared.services.end();
    }
}
