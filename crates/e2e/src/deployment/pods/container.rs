//! One pod: its process, and what is said of it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoy_testkit::Process;
use serde_json::{Value, json};

use super::probe::Probe;
use super::{NODE, Shared, root};

/// The pause before a container that ended is started again, once and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// A pod of this node.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    /// Where its ports are.
    pub(super) address: Ipv4Addr,
    ports: BTreeMap<String, u16>,
    shown_address: Ipv4Addr,
    object: Value,
    folder: PathBuf,
    state: State,
    restarts: u64,
    ready: Probe,
    live: Probe,
    startup: Option<Probe>,
    began: String,
    /// The status that the API server has.
    pub(super) told: Option<Value>,
}

#[derive(Debug)]
enum State {
    Waiting { until: Option<Instant>, why: String },
    Running(Process),
    Ending { process: Process, kill_at: Instant },
}

impl Pod {
    /// Takes a pod onto the node.
    pub(super) fn admit(shared: &Shared, object: &Value, number: u16) -> Option<Self> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let node = object["spec"]["nodeName"].as_str();
        if node.is_some_and(|node| node != NODE) {
            return None;
        }
        if node.is_none() {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
            });
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
            let answer = shared.client.send("POST", &path, "application/json", &binding).ok()?;
            if answer.status != 201 {
                return None;
            }
        }
        let container = object["spec"]["containers"][0].clone();
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let ports = container["ports"].as_array().into_iter().flatten().filter_map(|port| {
            let number = u16::try_from(port["containerPort"].as_u64()?).ok()?;
            Some((port["name"].as_str().unwrap_or_default().to_owned(), number))
        });
        let ports: BTreeMap<String, u16> = ports.collect();
        let (address, shown_address) = shared.network.pod(number);
        let probe = |name: &str| Probe::new(&container[name], address, &ports);
        Some(Self {
            labels: labels
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            address,
            shown_address,
            folder: shared.folder.path().join(&name),
            state: State::Waiting { until: None, why: "ContainerCreating".to_owned() },
            restarts: 0,
            ready: probe("readinessProbe").unwrap_or_default(),
            live: probe("livenessProbe").unwrap_or_default(),
            startup: probe("startupProbe"),
            began: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            told: None,
            object: object.clone(),
            ports,
            name,
        })
    }

    /// Where a port of a Service leads to in this pod.
    pub(super) fn port(&self, target: &Value) -> Option<u16> {
        match target.as_str() {
            Some(name) => self.ports.get(name).copied(),
            None => target.as_u64().and_then(|number| u16::try_from(number).ok()),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(&self.state, State::Running(process) if !process.has_ended())
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_running() && self.startup.as_ref().is_none_or(|probe| probe.is_met()) && self.ready.is_met()
    }

    pub(super) fn signal(&self, name: &str) {
        if let State::Running(process) | State::Ending { process, .. } = &self.state {
            let _ = process.signal(name);
        }
    }

    /// Starts what is to be started, and probes what runs.
    pub(super) fn look(&mut self, shared: &Shared, hosts: &str) {
        root::write_hosts(&self.folder, hosts);
        match &self.state {
            State::Waiting { until, .. } if until.is_none_or(|until| until <= Instant::now()) => {
                self.state = match self.start(shared, hosts) {
                    Ok(process) => State::Running(process),
                    Err(why) => State::Waiting { until: Some(Instant::now() + BACK_OFF.0), why },
                };
            }
            State::Running(process) if process.has_ended() => self.restart(),
            State::Running(_) => self.probe(),
            _ => {}
        }
    }

    fn probe(&mut self) {
        if let Some(startup) = self.startup.as_mut().filter(|probe| !probe.is_met()) {
            startup.look();
            if startup.has_failed() {
                self.signal("KILL");
            }
            return;
        }
        self.ready.look();
        self.live.look();
        if self.live.has_failed() {
            self.signal("KILL");
        }
    }

    fn restart(&mut self) {
        self.restarts += 1;
        let factor = u32::try_from(self.restarts).unwrap_or(u32::MAX);
        let pause = BACK_OFF.0.saturating_mul(factor).min(BACK_OFF.1);
        self.state =
            State::Waiting { until: Some(Instant::now() + pause), why: "CrashLoopBackOff".to_owned() };
        for probe in
            [Some(&mut self.ready), Some(&mut self.live), self.startup.as_mut()].into_iter().flatten()
        {
            probe.forget();
        }
    }

    /// Asks it to end; whether it has.
    pub(super) fn end(&mut self, object: &Value) -> bool {
        let grace = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(30);
        let waiting = State::Waiting { until: None, why: "Completed".to_owned() };
        match std::mem::replace(&mut self.state, waiting) {
            State::Waiting { .. } => true,
            State::Running(process) => {
                let _ = process.signal("TERM");
                let kill_at = Instant::now() + Duration::from_secs(grace);
                self.state = State::Ending { process, kill_at };
                false
            }
            State::Ending { process, kill_at } => {
                if process.has_ended() || kill_at <= Instant::now() {
                    return true;
                }
                self.state = State::Ending { process, kill_at };
                false
            }
        }
    }

    fn start(&self, shared: &Shared, hosts: &str) -> Result<Process, String> {
        let container = &self.object["spec"]["containers"][0];
        let image = container["image"].as_str().unwrap_or_default();
        let name = image.rsplit_once(':').map_or(image, |(name, _)| name);
        let program =
            shared.programs.get(name).ok_or_else(|| format!("there is no program for the image {image}"))?;
        root::prepare(shared, &self.object, &self.folder, program, hosts)?;
        let mut line = vec!["--mount".to_owned(), "--propagation".to_owned(), "private".to_owned()];
        line.extend(["sh", "-c", root::ENTER, "enter"].map(str::to_owned));
        line.extend([self.folder.display().to_string(), root::user(&self.object)]);
        line.extend(self.environment(shared).into_iter().map(|(name, value)| format!("{name}={value}")));
        line.extend(["--".to_owned(), root::PROGRAM.to_owned()]);
        // The command of an image is its program; the overlays' own begin with it.
        let arguments = super::super::texts(&container["args"]);
        line.extend(arguments.into_iter().map(|argument| self.own_address(&argument)));
        let log = shared.folder.path().join("logs").join(format!("{}-{}.log", self.name, self.restarts));
        Process::start(Path::new("unshare"), &line, &log).map_err(|error| error.to_string())
    }

    /// What an argument means in a network of the pod's own.
    fn own_address(&self, argument: &str) -> String {
        let address = self.address.to_string();
        argument.replace("0.0.0.0", &address).replace("127.0.0.1", &address)
    }

    fn environment(&self, shared: &Shared) -> BTreeMap<String, String> {
        let mut all = BTreeMap::from([
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("KUBERNETES_SERVICE_HOST".to_owned(), "127.0.0.1".to_owned()),
            ("KUBERNETES_SERVICE_PORT".to_owned(), shared.apiserver_port.to_string()),
        ]);
        for entry in self.object["spec"]["containers"][0]["env"].as_array().into_iter().flatten() {
            let name = entry["name"].as_str().unwrap_or_default().to_owned();
            let field = entry["valueFrom"]["fieldRef"]["fieldPath"].as_str();
            let value = match field {
                Some("status.podIP") => self.address.to_string(),
                Some(path) => {
                    let pointer = format!("/{}", path.replace('.', "/"));
                    self.object.pointer(&pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
                }
                None => entry["value"].as_str().unwrap_or_default().to_owned(),
            };
            all.insert(name, value);
        }
        all
    }

    /// As a kubelet says it.
    pub(super) fn status(&self) -> Value {
        let container = &self.object["spec"]["containers"][0];
        let condition = |kind: &str, is_so: bool| json!({"type": kind, "status": if is_so { "True" } else { "False" }, "lastTransitionTime": self.began});
        let is_ready = self.is_ready();
        let state = match &self.state {
            State::Waiting { why, .. } => json!({"waiting": {"reason": why}}),
            _ => json!({"running": {"startedAt": self.began}}),
        };
        json!({
            "phase": if matches!(self.state, State::Waiting { .. }) && self.restarts == 0 { "Pending" } else { "Running" },
            "podIP": self.shown_address.to_string(),
            "podIPs": [{"ip": self.shown_address.to_string()}],
            "startTime": self.began,
            "conditions": [
                condition("PodScheduled", true), condition("Initialized", true),
                condition("ContainersReady", is_ready), condition("Ready", is_ready),
            ],
            "containerStatuses": [{
                "name": container["name"], "image": container["image"], "imageID": "", "ready": is_ready,
                "started": self.is_running(), "restartCount": self.restarts, "state": state,
            }],
        })
    }
}
