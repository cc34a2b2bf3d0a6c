//! What a workload's status would say if its pods ran.
//!
//! [`simulate`] is pure: it looks at an object and at the time, and says which status it should have
//! now and when to look again. No ReplicaSets or Pods are made; the status fields are those that
//! kstatus and kubectl read.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// On a workload or its pod template: it never becomes ready, and says why. The value is the message.
pub const FAIL_ANNOTATION: &str = "sandbox.convoy.kumodo.io/fail";

/// What becomes of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The status it should have now.
    pub status: Value,
    /// How long until it changes by itself; `None` when it stays.
    pub look_again: Option<Duration>,
}

/// The status of an object of a built-in kind at `now`, if its present spec came into force at `since`
/// and pods take `ready_after` to become ready. `None` for kinds whose status nobody simulates.
pub fn simulate(
    group: &str,
    kind: &str,
    object: &Value,
    since: Timestamp,
    now: Timestamp,
    ready_after: Duration,
) -> Option<Simulated> {
    let workload = Workload { object, now, stage: Stage::of(object, since, now, ready_after) };
    let status = match (group, kind) {
        ("apps", "Deployment") => workload.deployment(),
        ("apps", "StatefulSet") => workload.stateful_set(),
        ("apps", "DaemonSet") => workload.daemon_set(),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => workload.replica_set(),
        ("batch", "Job") => workload.job(),
        ("", "Pod") => workload.pod(),
        ("", "PersistentVolumeClaim") => workload.claim(),
        ("", "Service") => workload.service(),
        ("autoscaling", "HorizontalPodAutoscaler") => workload.autoscaler(),
        ("policy", "PodDisruptionBudget") => workload.disruption_budget(),
        ("apiregistration.k8s.io", "APIService") => workload.api_service(),
        _ => return None,
    };
    let look_again = match workload.stage {
        Stage::Starting { left } => Some(left),
        Stage::Ready | Stage::Failed(_) => None,
    };
    Some(Simulated { status, look_again })
}

/// How far the pods are.
enum Stage<'a> {
    Starting { left: Duration },
    Ready,
    Failed(&'a str),
}

impl<'a> Stage<'a> {
    fn of(object: &'a Value, since: Timestamp, now: Timestamp, ready_after: Duration) -> Self {
        let failure = |metadata: &'a Value| metadata["annotations"][FAIL_ANNOTATION].as_str();
        if let Some(why) =
            failure(&object["metadata"]).or_else(|| failure(&object["spec"]["template"]["metadata"]))
        {
            return Self::Failed(why);
        }
        let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        match ready_after.checked_sub(elapsed) {
            Some(left) if !left.is_zero() => Self::Starting { left },
            _ => Self::Ready,
        }
    }
}

struct Workload<'a> {
    object: &'a Value,
    now: Timestamp,
    stage: Stage<'a>,
}

impl Workload<'_> {
    fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready)
    }

    fn replicas(&self) -> i64 {
        self.object["spec"]["replicas"].as_i64().unwrap_or(1)
    }

    /// How many of `replicas` are ready.
    fn ready(&self) -> i64 {
        if self.is_ready() { self.replicas() } else { 0 }
    }

    fn generation(&self) -> i64 {
        self.object["metadata"]["generation"].as_i64().unwrap_or(1)
    }

    /// A condition whose transition time stays while its status does.
    fn condition(&self, type_: &str, status: bool, reason: &str, message: &str) -> Value {
        let status = if status { "True" } else { "False" };
        let old = self.object["status"]["conditions"]
            .as_array()
            .and_then(|conditions| conditions.iter().find(|condition| condition["type"] == type_));
        let now = json!(self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let since = old
            .filter(|old| old["status"] == status)
            .map_or_else(|| now.clone(), |old| old["lastTransitionTime"].clone());
        json!({
            "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
        })
    }

    fn deployment(&self) -> Value {
        let (replicas, ready) = (self.replicas(), self.ready());
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default();
        let (progressing, reason, message) = match self.stage {
            Stage::Ready => (
                true,
                "NewReplicaSetAvailable",
                format!("Deployment \"{name}\" has successfully progressed."),
            ),
            Stage::Starting { .. } => {
                (true, "ReplicaSetUpdated", format!("Deployment \"{name}\" is progressing."))
            }
            Stage::Failed(why) => (false, "ProgressDeadlineExceeded", why.to_owned()),
        };
        let available = if ready == replicas {
            self.condition(
                "Available",
                true,
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            )
        } else {
            let message = "Deployment does not have minimum availability.";
            self.condition("Available", false, "MinimumReplicasUnavailable", message)
        };
        let counts = [
            ("replicas", replicas),
            ("updatedReplicas", replicas),
            ("readyReplicas", ready),
            ("availableReplicas", ready),
            ("unavailableReplicas", replicas - ready),
        ];
        let mut conditions = vec![available, self.condition("Progressing", progressing, reason, &message)];
        for condition in &mut conditions {
            condition["lastUpdateTime"] = condition["lastTransitionTime"].clone();
        }
        self.status(&counts, Some(conditions))
    }

    fn stateful_set(&self) -> Value {
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default();
        let revision = format!("{name}-{}", self.generation());
        let counts = [
            ("replicas", self.replicas()),
            ("currentReplicas", self.replicas()),
            ("updatedReplicas", self.replicas()),
            ("readyReplicas", self.ready()),
            ("availableReplicas", self.ready()),
        ];
        let mut status = self.status(&counts, None);
        status["currentRevision"] = json!(revision);
        status["updateRevision"] = json!(revision);
        status["collisionCount"] = json!(0);
        status
    }

    fn daemon_set(&self) -> Value {
        // The simulated cluster has one node.
        let ready = i64::from(self.is_ready());
        let mut status = self.status(&[("numberUnavailable", 1 - ready), ("numberAvailable", ready)], None);
        for (field, count) in [
            ("currentNumberScheduled", 1),
            ("desiredNumberScheduled", 1),
            ("updatedNumberScheduled", 1),
            ("numberMisscheduled", 0),
            ("numberReady", ready),
        ] {
            status[field] = json!(count);
        }
        status
    }

    fn replica_set(&self) -> Value {
        let mut status = self.status(
            &[
                ("fullyLabeledReplicas", self.replicas()),
                ("readyReplicas", self.ready()),
                ("availableReplicas", self.ready()),
            ],
            None,
        );
        status["replicas"] = json!(self.replicas());
        status
    }

    fn job(&self) -> Value {
        let completions = self.object["spec"]["completions"].as_i64().unwrap_or(1);
        let started = self.object["status"]["startTime"].clone();
        let now = json!(self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let started = if started.is_null() { now.clone() } else { started };
        match self.stage {
            Stage::Starting { .. } => json!({"startTime": started, "active": 1, "ready": 0}),
            Stage::Ready => {
                let completed = self.object["status"]["completionTime"].clone();
                let criteria = self.condition(
                    "SuccessCriteriaMet",
                    true,
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                );
                let complete = self.condition(
                    "Complete",
                    true,
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                );
                json!({
                    "startTime": started,
                    "completionTime": if completed.is_null() { now } else { completed },
                    "succeeded": completions,
                    "ready": 0,
                    "conditions": [criteria, complete],
                })
            }
            Stage::Failed(why) => json!({
                "startTime": started,
                "failed": 1,
                "ready": 0,
                "conditions": [
                    self.condition("FailureTarget", true, "BackoffLimitExceeded", why),
                    self.condition("Failed", true, "BackoffLimitExceeded", why),
                ],
            }),
        }
    }

    fn pod(&self) -> Value {
        let names: Vec<&str> = self.object["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|container| container["name"].as_str())
            .collect();
        let ready = self.is_ready();
        let containers: Vec<Value> = names
            .iter()
            .map(|name| {
                let state = match self.stage {
                    Stage::Ready => json!({"running": {}}),
                    Stage::Starting { .. } => json!({"waiting": {"reason": "ContainerCreating"}}),
                    Stage::Failed(why) => json!({"waiting": {"reason": "CrashLoopBackOff", "message": why}}),
                };
                json!({"name": name, "ready": ready, "started": ready, "restartCount": 0, "image": "", "imageID": "", "state": state})
            })
            .collect();
        let mut conditions = vec![self.condition("PodScheduled", true, "Scheduled", "")];
        for type_ in ["Initialized", "ContainersReady", "Ready"] {
            let (reason, message) = if ready {
                ("", String::new())
            } else {
                ("ContainersNotReady", format!("containers with unready status: {names:?}"))
            };
            conditions.push(self.condition(type_, ready || type_ == "Initialized", reason, &message));
        }
        json!({
            "phase": if ready { "Running" } else { "Pending" },
            "qosClass": self.object["status"]["qosClass"].as_str().unwrap_or("BestEffort"),
            "conditions": conditions,
            "containerStatuses": containers,
        })
    }

    fn claim(&self) -> Value {
        if self.is_ready() {
            json!({
                "phase": "Bound",
                "accessModes": self.object["spec"]["accessModes"],
                "capacity": self.object["spec"]["resources"]["requests"],
            })
        } else {
            json!({"phase": "Pending"})
        }
    }

    fn service(&self) -> Value {
        if self.is_ready() && self.object["spec"]["type"] == "LoadBalancer" {
            json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}})
        } else {
            json!({"loadBalancer": {}})
        }
    }

    fn autoscaler(&self) -> Value {
        let replicas = self.object["spec"]["minReplicas"].as_i64().unwrap_or(1);
        let message = "the HPA controller was able to get the target's current scale";
        let mut conditions = vec![self.condition("AbleToScale", true, "SucceededGetScale", message)];
        if self.is_ready() {
            let message = "the HPA was able to successfully calculate a replica count";
            conditions.push(self.condition("ScalingActive", true, "ValidMetricFound", message));
            let message = "the desired count is within the acceptable range";
            conditions.push(self.condition("ScalingLimited", false, "DesiredWithinRange", message));
        }
        json!({"currentReplicas": replicas, "desiredReplicas": replicas, "currentMetrics": null, "conditions": conditions})
    }

    fn disruption_budget(&self) -> Value {
        json!({
            "observedGeneration": self.generation(),
            "currentHealthy": 1, "desiredHealthy": 0, "disruptionsAllowed": 1, "expectedPods": 1,
            "conditions": [self.condition("DisruptionAllowed", true, "SufficientPods", "")],
        })
    }

    fn api_service(&self) -> Value {
        let condition = if self.object["spec"]["service"].is_object() {
            self.condition("Available", self.is_ready(), "Passed", "all checks passed")
        } else {
            self.condition("Available", true, "Local", "Local APIServices are always available")
        };
        json!({"conditions": [condition]})
    }

    /// A status with an observed generation, counts (0 is left out, as Go's `omitempty` does) and
    /// conditions.
    fn status(&self, counts: &[(&str, i64)], conditions: Option<Vec<Value>>) -> Value {
        let mut status = Map::new();
        status.insert("observedGeneration".to_owned(), json!(self.generation()));
        for (field, count) in counts.iter().filter(|(_, count)| *count != 0) {
            status.insert((*field).to_owned(), json!(count));
        }
        if let Some(conditions) = conditions {
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
        Value::Object(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn deployment() -> Value {
        json!({
            "metadata": {"name": "web", "generation": 3},
            "spec": {"replicas": 2, "template": {"metadata": {}}},
        })
    }

    fn look(object: &Value, second: i64) -> Simulated {
        simulate("apps", "Deployment", object, at(0), at(second), Duration::from_secs(5)).unwrap()
    }

    #[test]
    fn a_deployment_becomes_available_after_its_time() {
        let mut object = deployment();
        let starting = look(&object, 1);
        assert_eq!(starting.look_again, Some(Duration::from_secs(4)));
        assert_eq!(starting.status["observedGeneration"], 3);
        assert_eq!(starting.status["unavailableReplicas"], 2);
        assert_eq!(starting.status["conditions"][0]["status"], "False");

        object["status"] = starting.status;
        let ready = look(&object, 5);
        assert_eq!(ready.look_again, None);
        assert_eq!(ready.status["availableReplicas"], 2);
        assert!(ready.status.get("unavailableReplicas").is_none(), "{}", ready.status);
        assert_eq!(ready.status["conditions"][0]["status"], "True");
    }

    #[test]
    fn a_settled_status_does_not_change_with_time() {
        let mut object = deployment();
        object["status"] = look(&object, 5).status;
        assert_eq!(look(&object, 100).status, object["status"]);
    }

    #[test]
    fn the_annotation_makes_a_workload_fail_with_its_message() {
        let mut object = deployment();
        object["spec"]["template"]["metadata"] = json!({"annotations": {FAIL_ANNOTATION: "no such image"}});
        let failed = look(&object, 60);
        assert_eq!(failed.look_again, None);
        let progressing = &failed.status["conditions"][1];
        assert_eq!(progressing["reason"], "ProgressDeadlineExceeded");
        assert_eq!(progressing["message"], "no such image");
    }

    #[test]
    fn kinds_without_a_simulated_status_are_left_alone() {
        assert_eq!(simulate("", "ConfigMap", &json!({}), at(0), at(0), Duration::ZERO), None);
    }
}
