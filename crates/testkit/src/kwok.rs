//! kwok: plays the kubelets, so that on a real control plane Pods run and Jobs end.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::{ControlPlane, Process, StartError, program};

/// The node whose Pods are played. A Pod has to name it: there is no scheduler.
pub const NODE: &str = "kwok";
/// How long kwok may take to make the node ready.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is played: the node and Pods become ready at once, Pods of Jobs end well, and what is deleted goes.
const STAGES: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-becomes-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.phase', operator: NotIn, values: [Running]}
  next:
    statusTemplate: |
      phase: Running
      allocatable: {cpu: 1k, memory: 1Ti, pods: 1M}
      capacity: {cpu: 1k, memory: 1Ti, pods: 1M}
      conditions:
      - {type: Ready, status: "True", reason: Played, message: it is played, lastHeartbeatTime: {{ Now | Quote }}, lastTransitionTime: {{ Now | Quote }}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-becomes-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.startTime', operator: DoesNotExist}
  next:
    statusTemplate: |
      {{ $now := Now }}
      phase: Running
      startTime: {{ $now | Quote }}
      podIP: 10.0.0.1
      conditions:
      - {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: PodScheduled, status: "True", lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - {name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: "", ready: true, started: true, restartCount: 0, state: {running: {startedAt: {{ $now | Quote }}}}}
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-of-a-job-ends}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.phase', operator: In, values: [Running]}
    - {key: '.metadata.ownerReferences.[].kind', operator: In, values: [Job]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      phase: Succeeded
      conditions:
      - {type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - {name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: "", ready: false, started: false, restartCount: 0, state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}}
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-goes}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: Exists}
  next:
    finalizers: {empty: true}
    delete: true
"#;

/// A running kwok beside a control plane that has a kube-controller-manager.
#[derive(Debug)]
pub struct Kwok {
    _process: Process,
}

impl Kwok {
    /// Starts it, and makes [`NODE`]; what it prints goes into a folder.
    ///
    /// # Errors
    /// When it is not built, does not start, or does not make the node ready.
    pub fn start(plane: &ControlPlane, folder: &Path) -> Result<Self, StartError> {
        let stages = folder.join("stages.yaml");
        std::fs::write(&stages, STAGES)?;
        let log = folder.join("kwok.log");
        let arguments = [
            format!("--kubeconfig={}", plane.kubeconfig().display()),
            format!("--config={}", stages.display()),
            "--manage-all-nodes=true".to_owned(),
        ];
        let process = Process::start(&program("kwok")?, &arguments, &log)?;
        let failed =
            |reason: String| StartError::NotReady { program: "kwok", reason, log: process.last_lines() };
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
        let made = plane.client().send("POST", "/api/v1/nodes", "application/json", &node);
        let made = made.map_err(|error| failed(error.to_string()))?;
        if made.status != 201 {
            return Err(failed(format!("the node is refused: {}", made.text())));
        }
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            let node = plane.client().get(&format!("/api/v1/nodes/{NODE}")).map(|answer| answer.json());
            if node.is_ok_and(|node| node["status"]["phase"] == "Running") {
                return Ok(Self { _process: process });
            }
            if process.has_ended() {
                break;
            }
            // The pause of a poll with a deadline.
            std::thread::park_timeout(Duration::from_millis(100));
        }
        Err(failed("the node is not ready".to_owned()))
    }
}
