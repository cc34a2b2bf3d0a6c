//! How workloads become Ready, as data.
//!
//! [`next`] looks at one object and says which status it should have now and when to look again. It is
//! pure: the passing of time is an argument. The statuses are those that kstatus and `kubectl rollout
//! status` read. No pods are made for Deployments and the like.

use std::time::Duration;

use convoy_meta::Object;
use serde_json::{Value, json};

/// An object with this annotation does not become Ready; the value is the message.
pub const FAIL: &str = "sandbox.convoy.kumodo.io/fail";
/// An object with this annotation becomes Ready after that many seconds, whatever the sandbox says.
pub const READY_AFTER: &str = "sandbox.convoy.kumodo.io/ready-after-seconds";

/// What is to be done for an object.
#[derive(Debug, Default, PartialEq)]
pub struct Step {
    /// The new status, when it differs from the one it has.
    pub status: Option<Value>,
    /// Look again after this time.
    pub again: Option<Duration>,
}

/// The status of an object of `group` and `kind` that was created or changed `since` ago.
pub fn next(
    group: &str,
    kind: &str,
    object: &Value,
    since: Duration,
    ready_after: Duration,
    now: &str,
) -> Step {
    let annotation =
        |name: &str| object.pointer("/metadata/annotations").and_then(|it| it.get(name)?.as_str());
    let own: Option<u64> = annotation(READY_AFTER).and_then(|text| text.trim().parse().ok());
    let ready_after = own.map_or(ready_after, Duration::from_secs);
    let failure = annotation(FAIL);
    let ready = failure.is_none() && since >= ready_after;
    let state = State { object, ready, failure, now };
    let status = match (group, kind) {
        ("apps", "Deployment") => state.deployment(),
        ("apps", "StatefulSet") => state.stateful_set(),
        ("apps", "DaemonSet") => state.daemon_set(),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => state.replica_set(),
        ("batch", "Job") => state.job(),
        ("", "Pod") => state.pod(),
        ("", "PersistentVolumeClaim") => state.claim(),
        ("", "Service") => state.service(),
        ("networking.k8s.io", "Ingress") => state.ingress(),
        ("policy", "PodDisruptionBudget") => state.budget(),
        ("autoscaling", "HorizontalPodAutoscaler") => state.autoscaler(),
        ("apiregistration.k8s.io", "APIService") => state.api_service(),
        _ => None,
    };
    let Some(status) = status else { return Step::default() };
    let again = (!ready && failure.is_none()).then(|| ready_after.saturating_sub(since));
    let same = without_times(&status) == without_times(&object["status"]);
    Step { status: (!same).then_some(status), again }
}

/// Times change with every look and mean nothing by themselves.
fn without_times(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| {
                !matches!(
                    name.as_str(),
                    "lastTransitionTime" | "lastUpdateTime" | "startTime" | "completionTime" | "startedAt"
                )
            })
            .map(|(name, field)| (name.clone(), without_times(field)))
            .collect(),
        Value::Array(items) => items.iter().map(without_times).collect(),
        other => other.clone(),
    }
}

struct State<'a> {
    object: &'a Value,
    ready: bool,
    failure: Option<&'a str>,
    now: &'a str,
}

impl State<'_> {
    fn spec_count(&self, field: &str, otherwise: u64) -> u64 {
        self.object["spec"][field].as_u64().unwrap_or(otherwise)
    }

    fn condition(&self, kind: &str, holds: bool, reason: &str, message: &str) -> Value {
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": self.now})
    }

    fn deployment(&self) -> Option<Value> {
        let replicas = self.spec_count("replicas", 1);
        let name = self.object.name();
        let mut status = json!({"observedGeneration": self.object.generation()});
        counts(&mut status, &[("replicas", replicas), ("updatedReplicas", replicas)]);
        let done = self.ready || replicas == 0;
        let ready = if done { replicas } else { 0 };
        counts(&mut status, &[("readyReplicas", ready), ("availableReplicas", ready)]);
        counts(&mut status, &[("unavailableReplicas", replicas - ready)]);
        let available = if done {
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
        let progressing = match self.failure {
            Some(message) if !done => {
                self.condition("Progressing", false, "ProgressDeadlineExceeded", message)
            }
            _ if done => {
                let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
                self.condition("Progressing", true, "NewReplicaSetAvailable", &message)
            }
            _ => {
                let message = format!("ReplicaSet \"{name}\" is progressing.");
                self.condition("Progressing", true, "ReplicaSetUpdated", &message)
            }
        };
        status["conditions"] = json!([available, progressing]);
        Some(status)
    }

    fn stateful_set(&self) -> Option<Value> {
        let replicas = self.spec_count("replicas", 1);
        let ready = if self.ready { replicas } else { 0 };
        let revision = format!("{}-{:08x}", self.object.name(), self.object.generation());
        let mut status = json!({
            "observedGeneration": self.object.generation(), "collisionCount": 0, "replicas": replicas,
            "availableReplicas": ready, "updateRevision": revision,
        });
        counts(
            &mut status,
            &[("readyReplicas", ready), ("updatedReplicas", replicas), ("currentReplicas", ready)],
        );
        let current = self.object.pointer("/status/currentRevision").cloned().unwrap_or(json!(revision));
        status["currentRevision"] = if self.ready { json!(revision) } else { current };
        Some(status)
    }

    fn daemon_set(&self) -> Option<Value> {
        // One node, which nobody sees.
        let ready = u64::from(self.ready);
        let mut status = json!({
            "observedGeneration": self.object.generation(), "currentNumberScheduled": 1,
            "desiredNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": ready,
        });
        counts(&mut status, &[("updatedNumberScheduled", 1), ("numberAvailable", ready)]);
        counts(&mut status, &[("numberUnavailable", 1 - ready)]);
        Some(status)
    }

    fn replica_set(&self) -> Option<Value> {
        let replicas = self.spec_count("replicas", 1);
        let ready = if self.ready { replicas } else { 0 };
        let mut status = json!({"observedGeneration": self.object.generation(), "replicas": replicas});
        counts(&mut status, &[("fullyLabeledReplicas", replicas), ("readyReplicas", ready)]);
        counts(&mut status, &[("availableReplicas", ready)]);
        if let Some(message) = self.failure {
            status["conditions"] = json!([self.condition("ReplicaFailure", true, "FailedCreate", message)]);
        }
        Some(status)
    }

    fn job(&self) -> Option<Value> {
        let old = &self.object["status"];
        let ended = |kind: &str| {
            let conditions = old["conditions"].as_array();
            conditions.is_some_and(|it| it.iter().any(|it| it["type"] == kind && it["status"] == "True"))
        };
        // A job that ended does not start again.
        if ended("Complete") || ended("Failed") {
            return None;
        }
        if self.object["spec"]["suspend"] == true {
            return Some(
                json!({"conditions": [self.condition("Suspended", true, "JobSuspended", "Job suspended")]}),
            );
        }
        let start = if old["startTime"].is_string() { old["startTime"].clone() } else { json!(self.now) };
        if let Some(message) = self.failure {
            return Some(
                json!({"startTime": start, "failed": 1, "ready": 0, "terminating": 0, "conditions": [
                    self.condition("FailureTarget", true, "BackoffLimitExceeded", message),
                    self.condition("Failed", true, "BackoffLimitExceeded", message),
                ]}),
            );
        }
        if !self.ready {
            let parallelism = self.spec_count("parallelism", 1);
            return Some(json!({"startTime": start, "active": parallelism, "ready": 0, "terminating": 0}));
        }
        let message = "Reached expected number of succeeded pods";
        let completions = self.spec_count("completions", 1);
        Some(json!({
            "startTime": start, "completionTime": self.now, "succeeded": completions, "ready": 0,
            "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": [
                self.condition("SuccessCriteriaMet", true, "CompletionsReached", message),
                self.condition("Complete", true, "CompletionsReached", message),
            ],
        }))
    }

    fn pod(&self) -> Option<Value> {
        let old = &self.object["status"];
        if matches!(old["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let start = if old["startTime"].is_string() { old["startTime"].clone() } else { json!(self.now) };
        let once = self.object["spec"]["restartPolicy"] == "Never"
            || self.object["spec"]["restartPolicy"] == "OnFailure";
        let (phase, ready, reason) = match self.failure {
            Some(_) if once => ("Failed", false, "PodFailed"),
            Some(_) => ("Running", false, "ContainersNotReady"),
            None if self.ready && once => ("Succeeded", false, "PodCompleted"),
            None if self.ready => ("Running", true, ""),
            None => ("Pending", false, "ContainersNotReady"),
        };
        let containers = self.object["spec"]["containers"].as_array();
        let running = if phase == "Running" && ready {
            json!({"running": {"startedAt": self.now}})
        } else {
            match self.failure {
                Some(message) => json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}}),
                None if phase == "Succeeded" => json!({"terminated": {"exitCode": 0, "reason": "Completed"}}),
                None => json!({"waiting": {"reason": "ContainerCreating"}}),
            }
        };
        let statuses: Vec<Value> = containers
            .into_iter()
            .flatten()
            .map(|container| {
                json!({
                    "name": container["name"], "image": container["image"], "imageID": "", "ready": ready,
                    "started": ready, "restartCount": 0, "state": running,
                })
            })
            .collect();
        let condition = |kind: &str, holds: bool| {
            let mut condition = json!({"type": kind, "status": if holds { "True" } else { "False" },
                "lastProbeTime": null, "lastTransitionTime": self.now});
            if !holds && !reason.is_empty() {
                condition["reason"] = json!(reason);
                if let Some(message) = self.failure {
                    condition["message"] = json!(message);
                }
            }
            condition
        };
        Some(json!({
            "phase": phase, "startTime": start, "qosClass": "BestEffort", "hostIP": "10.0.0.1", "podIP": "10.244.0.2",
            "containerStatuses": statuses,
            "conditions": [
                condition("Initialized", true), condition("Ready", ready), condition("ContainersReady", ready),
                condition("PodScheduled", true),
            ],
        }))
    }

    fn claim(&self) -> Option<Value> {
        if !self.ready {
            return Some(json!({"phase": "Pending"}));
        }
        let spec = &self.object["spec"];
        Some(json!({
            "phase": "Bound", "accessModes": spec["accessModes"],
            "capacity": {"storage": spec.pointer("/resources/requests/storage").cloned().unwrap_or(json!("1Gi"))},
        }))
    }

    fn service(&self) -> Option<Value> {
        (self.object["spec"]["type"] == "LoadBalancer").then(|| self.load_balancer())
    }

    fn ingress(&self) -> Option<Value> {
        Some(self.load_balancer())
    }

    fn load_balancer(&self) -> Value {
        // From the range that is reserved for documentation.
        let service = self.object["kind"] == "Service";
        match (self.ready, service) {
            (false, _) => json!({"loadBalancer": {}}),
            (true, true) => json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.10", "ipMode": "VIP"}]}}),
            (true, false) => json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}}),
        }
    }

    fn budget(&self) -> Option<Value> {
        let condition = self.condition("DisruptionAllowed", true, "SufficientPods", "");
        Some(json!({
            "observedGeneration": self.object.generation(), "currentHealthy": 1, "desiredHealthy": 0,
            "disruptionsAllowed": 1, "expectedPods": 1, "conditions": [condition],
        }))
    }

    fn autoscaler(&self) -> Option<Value> {
        let replicas = self.spec_count("minReplicas", 1);
        let condition =
            self.condition("AbleToScale", true, "ReadyForNewScale", "recommended size matches current size");
        Some(json!({"currentReplicas": replicas, "desiredReplicas": replicas, "conditions": [condition],
            "currentMetrics": null}))
    }

    fn api_service(&self) -> Option<Value> {
        let condition = if self.object["spec"]["service"].is_null() {
            self.condition("Available", true, "Local", "Local APIServices are always available")
        } else {
            self.condition("Available", self.ready, "Passed", "all checks passed")
        };
        Some(json!({"conditions": [condition]}))
    }
}

/// Counts of zero are left out, as Go leaves them out.
fn counts(status: &mut Value, fields: &[(&str, u64)]) {
    for (name, count) in fields.iter().filter(|(_, count)| *count > 0) {
        status[*name] = json!(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn deployment(annotations: &Value) -> Value {
        json!({"metadata": {"name": "a", "generation": 2, "annotations": annotations}, "spec": {"replicas": 2}})
    }

    fn step(object: &Value, since: Duration) -> Step {
        next("apps", "Deployment", object, since, SECOND * 3, "2024-01-01T00:00:00Z")
    }

    #[test]
    fn deployment_is_ready_when_its_time_has_come_and_then_left_alone() {
        let mut object = deployment(&json!({}));
        let first = step(&object, Duration::ZERO);
        assert_eq!(first.again, Some(SECOND * 3));
        object["status"] = first.status.unwrap();
        assert_eq!(object["status"]["unavailableReplicas"], 2);
        assert_eq!(step(&object, SECOND), Step { status: None, again: Some(SECOND * 2) });
        let last = step(&object, SECOND * 3);
        object["status"] = last.status.unwrap();
        assert_eq!(
            (&object["status"]["readyReplicas"], &object["status"]["observedGeneration"]),
            (&json!(2), &json!(2))
        );
        assert_eq!(step(&object, SECOND * 4), Step::default());
    }

    #[test]
    fn annotation_makes_a_deployment_fail_with_its_message() {
        let object = deployment(&json!({FAIL: "image cannot be pulled"}));
        let step = step(&object, SECOND * 60);
        let status = step.status.unwrap();
        assert_eq!(step.again, None);
        assert_eq!(status["conditions"][1]["reason"], "ProgressDeadlineExceeded");
        assert_eq!(status["conditions"][1]["message"], "image cannot be pulled");
    }

    #[test]
    fn annotation_sets_the_time_of_one_object() {
        let object = deployment(&json!({READY_AFTER: "10"}));
        assert_eq!(step(&object, SECOND * 4).again, Some(SECOND * 6));
    }

    #[test]
    fn job_that_ended_is_left_alone() {
        let object = json!({"spec": {}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(next("batch", "Job", &object, SECOND, SECOND, "now"), Step::default());
    }
}
