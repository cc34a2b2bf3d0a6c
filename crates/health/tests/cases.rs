//! Cases from the field about health, by their numbers.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests, which make objects as others do"
)]

use convoy_health::{Health, State, health_of};
use jiff::Timestamp;
use serde_json::{Value, json};

fn look(object: &Value) -> Health {
    health_of(object, "2026-11-01T12:00:00Z".parse::<Timestamp>().unwrap())
}

/// A workload whose controller has seen it at this generation.
fn workload(kind: &str, generation: i64, spec: Value, mut status: Value) -> Value {
    if let Some(status) = status.as_object_mut() {
        status.entry("observedGeneration").or_insert(generation.into());
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x", "generation": generation}, "spec": spec,
        "status": status})
}

fn deployment(generation: i64, spec: Value, status: Value) -> Value {
    workload("Deployment", generation, spec, status)
}

fn said(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason})
}

/// State, and what its reason or message has to hold.
#[test]
fn case_126_workloads_are_neither_well_too_early_nor_under_way_for_ever() {
    use State::{Degraded, Healthy, Progressing};
    let available = || said("Available", "True", "MinimumReplicasAvailable");
    let rolling = || said("Progressing", "True", "ReplicaSetUpdated");
    let done = || said("Progressing", "True", "NewReplicaSetAvailable");
    let one = json!({"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
    let with = |base: &Value, more: Value| {
        let mut all = base.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let of_three = json!({"replicas": 3, "readyReplicas": 3, "currentReplicas": 2, "updatedReplicas": 1,
        "currentRevision": "x-1", "updateRevision": "x-2"});
    let claim = |phase: &str| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "x"}, "status": {"phase": phase}});
    let pod = |status: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "status": status});
    let table = [
        (
            "seen at an older generation",
            Progressing,
            "",
            deployment(
                4,
                json!({"replicas": 1}),
                with(&one, json!({"observedGeneration": 3, "conditions": [available()]})),
            ),
        ),
        (
            "new ones come",
            Progressing,
            "",
            deployment(
                2,
                json!({"replicas": 3}),
                json!({"replicas": 4, "updatedReplicas": 2,
            "readyReplicas": 3, "availableReplicas": 3, "conditions": [available(), rolling()]}),
            ),
        ),
        (
            "old ones go",
            Progressing,
            "",
            deployment(
                2,
                json!({"replicas": 2}),
                json!({"replicas": 3, "updatedReplicas": 2,
            "readyReplicas": 3, "availableReplicas": 3, "conditions": [available(), rolling()]}),
            ),
        ),
        (
            "too late",
            Degraded,
            "ProgressDeadlineExceeded",
            deployment(
                2,
                json!({"replicas": 1}),
                json!({"replicas": 1,
            "updatedReplicas": 1, "unavailableReplicas": 1, "conditions": [said("Available", "False", "Min"),
            said("Progressing", "False", "ProgressDeadlineExceeded")]}),
            ),
        ),
        (
            "none are wanted",
            Healthy,
            "",
            deployment(
                1,
                json!({"replicas": 0}),
                json!({"replicas": 0, "conditions": [available(), done()]}),
            ),
        ),
        (
            "all are there",
            Healthy,
            "",
            deployment(1, json!({"replicas": 1}), with(&one, json!({"conditions": [available(), done()]}))),
        ),
        (
            "nobody has looked",
            Progressing,
            "",
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "x", "generation": 1}, "spec": {"replicas": 1}}),
        ),
        (
            "replaced when somebody deletes them",
            Healthy,
            "delete",
            workload(
                "StatefulSet",
                2,
                json!({"replicas": 2,
            "updateStrategy": {"type": "OnDelete"}}),
                json!({"replicas": 2, "readyReplicas": 2, "currentReplicas": 0,
            "updatedReplicas": 0, "currentRevision": "x-1", "updateRevision": "x-2"}),
            ),
        ),
        (
            "as far as the partition asks",
            Healthy,
            "",
            workload(
                "StatefulSet",
                2,
                json!({"replicas": 3,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}),
                of_three.clone(),
            ),
        ),
        (
            "one of three is new",
            Progressing,
            "",
            workload(
                "StatefulSet",
                2,
                json!({"replicas": 3,
            "updateStrategy": {"type": "RollingUpdate"}}),
                of_three,
            ),
        ),
        (
            "there are no nodes",
            Healthy,
            "",
            workload(
                "DaemonSet",
                1,
                json!({}),
                json!({"desiredNumberScheduled": 0,
            "currentNumberScheduled": 0, "numberReady": 0, "numberMisscheduled": 0}),
            ),
        ),
        (
            "one node is left",
            Progressing,
            "",
            workload(
                "DaemonSet",
                1,
                json!({}),
                json!({"desiredNumberScheduled": 3,
            "currentNumberScheduled": 3, "updatedNumberScheduled": 2, "numberAvailable": 2, "numberReady": 2,
            "numberMisscheduled": 0}),
            ),
        ),
        ("a claim waits", Progressing, "", claim("Pending")),
        ("a claim has lost its volume", Degraded, "", claim("Lost")),
        (
            "a container dies again and again",
            Degraded,
            "CrashLoopBackOff",
            pod(json!({"phase": "Running",
            "conditions": [said("Ready", "False", "ContainersNotReady")], "containerStatuses": [{"name": "a", "restartCount": 5,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]})),
        ),
        ("it has ended well", Healthy, "", pod(json!({"phase": "Succeeded"}))),
        (
            "no node takes it",
            Degraded,
            "Unschedulable",
            pod(json!({"phase": "Pending", "conditions": [{"type": "PodScheduled",
            "status": "False", "reason": "Unschedulable", "lastTransitionTime": "2026-10-01T00:00:00Z"}]})),
        ),
    ];
    for (what, state, says, object) in table {
        let health = look(&object);
        let text = format!("{} {}", health.reason, health.message);
        assert!(health.state == state && text.contains(says), "{what}: {health:?}");
    }

    // Paused in the middle of a change is not well, and says why.
    let paused = look(&deployment(
        1,
        json!({"replicas": 1, "paused": true}),
        with(
            &one,
            json!({"updatedReplicas": 0, "conditions": [said("Progressing", "Unknown", "DeploymentPaused"), available()]}),
        ),
    ));
    assert!(paused.state != Healthy && format!("{paused:?}").to_lowercase().contains("paused"), "{paused:?}");
    // What goes is not well, whatever it is.
    let going = look(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x",
        "deletionTimestamp": "2026-10-01T00:00:00Z", "finalizers": ["a/b"]}}));
    assert!(going.state != Healthy && format!("{going:?}").contains("Terminating"), "{going:?}");
    // A claim that waits for its first Pod holds back nobody.
    let waiting = look(&claim("Pending"));
    assert_eq!(convoy_health::summarize([("the claim", &waiting)]).state, Healthy);
}
