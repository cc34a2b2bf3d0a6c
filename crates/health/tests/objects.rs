//! One object and the health that it must have, kind by kind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use convoy_health::{Health, State, health_of};
use jiff::Timestamp;
use serde_json::{Value, json};

const NOW: &str = "2026-11-01T12:00:00Z";

fn look(object: &Value) -> Health {
    health_of(object, NOW.parse::<Timestamp>().unwrap())
}

#[track_caller]
fn check(object: &Value, state: State, says: &str) {
    let health = look(object);
    let text = format!("{} {}", health.reason, health.message);
    assert!(
        health.state == state && text.contains(says),
        "wanted {state:?} ({says}), got {health:?} for {object}"
    );
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": format!("because of {reason}")})
}

/// A workload of `apps/v1` at generation 4.
fn workload(kind: &str, spec: &Value, status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(status) = status.as_object_mut().filter(|status| !status.is_empty()) {
        status.entry("observedGeneration").or_insert(json!(4));
    }
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w", "generation": 4}, "spec": spec, "status": status})
}

#[test]
fn deployments() {
    let deployment = |spec: Value, status: Value| workload("Deployment", &spec, &status);
    let good = json!([
        condition("Available", "True", "MinimumReplicasAvailable"),
        condition("Progressing", "True", "NewReplicaSetAvailable")
    ]);
    let full = json!({"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "conditions": good});
    let with = |changes: Value| {
        let mut status = full.clone();
        for (field, value) in changes.as_object().unwrap() {
            status[field] = value.clone();
        }
        status
    };
    let three = || json!({"replicas": 3});
    check(&deployment(three(), full.clone()), State::Healthy, "");
    check(
        &deployment(
            json!({}),
            with(json!({"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1})),
        ),
        State::Healthy,
        "",
    );
    check(&deployment(json!({"replicas": 0}), json!({"conditions": good})), State::Healthy, "");
    check(&deployment(three(), json!({})), State::Progressing, "not looked at it");
    check(
        &deployment(three(), with(json!({"observedGeneration": 3}))),
        State::Progressing,
        "generation 3, not yet 4",
    );
    check(&deployment(three(), with(json!({"replicas": 2}))), State::Progressing, "2 of 3 Pods are created");
    check(
        &deployment(three(), with(json!({"replicas": 4, "updatedReplicas": 2}))),
        State::Progressing,
        "2 of 3 Pods are of the newest revision",
    );
    check(
        &deployment(three(), with(json!({"replicas": 5}))),
        State::Progressing,
        "2 old Pods are still there",
    );
    check(
        &deployment(three(), with(json!({"availableReplicas": 1}))),
        State::Progressing,
        "1 of 3 Pods are available",
    );
    check(
        &deployment(three(), with(json!({"readyReplicas": 2}))),
        State::Progressing,
        "2 of 3 Pods are ready",
    );
    let late = json!([
        condition("Available", "False", "x"),
        condition("Progressing", "False", "ProgressDeadlineExceeded")
    ]);
    check(
        &deployment(three(), with(json!({"conditions": late}))),
        State::Degraded,
        "ProgressDeadlineExceeded",
    );
    let unavailable = json!([condition("Available", "False", "MinimumReplicasUnavailable")]);
    check(
        &deployment(three(), with(json!({"conditions": unavailable}))),
        State::Progressing,
        "MinimumReplicasUnavailable",
    );
    let paused = || json!({"replicas": 3, "paused": true});
    check(
        &deployment(paused(), with(json!({"updatedReplicas": 0}))),
        State::Suspended,
        "it is paused: 0 of 3",
    );
    check(&deployment(paused(), full.clone()), State::Healthy, "");
}

#[test]
fn stateful_sets() {
    let set = |spec: Value, status: Value| workload("StatefulSet", &spec, &status);
    let rolled = json!({"replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3, "currentRevision": "r2", "updateRevision": "r2"});
    let mid = |updated: i64| json!({"replicas": 3, "readyReplicas": 3, "currentReplicas": 3 - updated, "updatedReplicas": updated, "currentRevision": "r1", "updateRevision": "r2"});
    let rolling = || json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate"}});
    let partition = |at: i64| json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": at}}});
    check(&set(rolling(), rolled.clone()), State::Healthy, "");
    check(&set(rolling(), mid(1)), State::Progressing, "1 of 3 Pods are of the newest revision");
    check(&set(partition(0), mid(2)), State::Progressing, "2 of 3 Pods are of the newest revision");
    check(&set(partition(2), mid(1)), State::Healthy, "");
    check(&set(partition(1), mid(1)), State::Progressing, "1 of 2 Pods are of the newest revision");
    check(&set(partition(9), mid(0)), State::Healthy, "");
    let on_delete = || json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
    check(&set(on_delete(), mid(0)), State::Healthy, "wait for somebody to delete them");
    check(&set(on_delete(), rolled.clone()), State::Healthy, "");
    let mut unready = rolled;
    unready["readyReplicas"] = json!(1);
    check(&set(on_delete(), unready.clone()), State::Progressing, "1 of 3 Pods are ready");
    check(&set(json!({"replicas": 1}), unready), State::Progressing, "2 old Pods are still there");
    check(&set(rolling(), json!({})), State::Progressing, "not looked at it");
}

#[test]
fn daemon_and_replica_sets() {
    let daemon = |status: Value| workload("DaemonSet", &json!({}), &status);
    check(&daemon(json!({"desiredNumberScheduled": 0, "numberReady": 0})), State::Healthy, "");
    let full = json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2, "numberReady": 2});
    check(&daemon(full.clone()), State::Healthy, "");
    for (field, says) in [
        ("currentNumberScheduled", "created"),
        ("updatedNumberScheduled", "newest"),
        ("numberAvailable", "available"),
        ("numberReady", "ready"),
    ] {
        let mut status = full.clone();
        status[field] = json!(1);
        check(
            &daemon(status),
            State::Progressing,
            &format!("1 of 2 Pods are {}", if says == "newest" { "of the newest revision" } else { says }),
        );
    }
    check(&daemon(json!({"observedGeneration": 4})), State::Progressing, "not looked at it");
    check(&daemon(json!({})), State::Progressing, "not looked at it");

    let replica = |status: Value| workload("ReplicaSet", &json!({"replicas": 2}), &status);
    check(&replica(json!({"replicas": 2, "availableReplicas": 2, "readyReplicas": 2})), State::Healthy, "");
    check(
        &replica(json!({"replicas": 2, "availableReplicas": 1, "readyReplicas": 2})),
        State::Progressing,
        "1 of 2",
    );
    check(
        &replica(json!({"conditions": [condition("ReplicaFailure", "True", "FailedCreate")]})),
        State::Progressing,
        "FailedCreate",
    );
}

#[test]
fn pods() {
    let pod = |status: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": status});
    let waiting = |reason: &str| json!([{"name": "c", "state": {"waiting": {"reason": reason}}}]);
    check(
        &pod(json!({"phase": "Running", "conditions": [condition("Ready", "True", "")]})),
        State::Healthy,
        "",
    );
    check(
        &pod(json!({"phase": "Running", "conditions": [condition("Ready", "False", "ContainersNotReady")]})),
        State::Progressing,
        "ContainersNotReady",
    );
    check(&pod(json!({"phase": "Running"})), State::Progressing, "not ready");
    check(&pod(json!({"phase": "Succeeded"})), State::Healthy, "");
    check(
        &pod(json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"})),
        State::Degraded,
        "Evicted low on memory",
    );
    check(
        &pod(json!({"phase": "Running", "containerStatuses": waiting("CrashLoopBackOff")})),
        State::Degraded,
        "container c does not start (CrashLoopBackOff)",
    );
    check(
        &pod(json!({"phase": "Pending", "initContainerStatuses": waiting("ImagePullBackOff")})),
        State::Degraded,
        "ImagePullBackOff",
    );
    check(
        &pod(json!({"phase": "Pending", "containerStatuses": waiting("ContainerCreating")})),
        State::Progressing,
        "not started",
    );
    check(&pod(json!({})), State::Progressing, "not started");
    let unscheduled = |since: &str| {
        let mut scheduled = condition("PodScheduled", "False", "Unschedulable");
        scheduled["lastTransitionTime"] = json!(since);
        pod(json!({"phase": "Pending", "conditions": [scheduled]}))
    };
    check(&unscheduled("2026-11-01T11:59:50Z"), State::Progressing, "Unschedulable");
    check(&unscheduled("2026-11-01T11:59:40Z"), State::Degraded, "because of Unschedulable");
    check(&unscheduled("no time"), State::Degraded, "Unschedulable");
}

#[test]
fn jobs() {
    let job = |spec: Value, status: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec, "status": status});
    check(&job(json!({}), json!({"conditions": [condition("Complete", "True", "")]})), State::Healthy, "");
    check(
        &job(json!({}), json!({"conditions": [condition("Failed", "True", "BackoffLimitExceeded")]})),
        State::Degraded,
        "BackoffLimitExceeded",
    );
    check(
        &job(json!({}), json!({"active": 1, "failed": 2})),
        State::Progressing,
        "1 Pods run, 0 succeeded, 2 failed",
    );
    check(&job(json!({"suspend": true}), json!({})), State::Suspended, "suspended");
    check(
        &json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"suspend": true}}),
        State::Suspended,
        "suspended",
    );
    check(&json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {}}), State::Healthy, "");
}

#[test]
fn claims_services_and_namespaces() {
    let claim = |phase: &str| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": phase}});
    check(&claim("Bound"), State::Healthy, "");
    check(&claim("Lost"), State::Degraded, "lost");
    check(&claim("Pending"), State::Progressing, "no volume");
    assert!(!look(&claim("Pending")).blocking && look(&claim("Lost")).blocking);
    let service = |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "spec": spec});
    check(&service(json!({"type": "LoadBalancer"})), State::Progressing, "no cluster IP");
    check(&service(json!({"clusterIP": "None"})), State::Healthy, "");
    let namespace =
        |phase: &str| json!({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": phase}});
    check(&namespace("Active"), State::Healthy, "");
    check(&namespace("Terminating"), State::Progressing, "deleted");
}

#[test]
fn definitions_services_of_apis_and_autoscalers() {
    let definition = |conditions: Value| json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "status": {"conditions": conditions}});
    check(
        &definition(json!([condition("NamesAccepted", "True", ""), condition("Established", "True", "")])),
        State::Healthy,
        "",
    );
    check(
        &definition(json!([condition("NamesAccepted", "False", "PluralConflict")])),
        State::Degraded,
        "PluralConflict",
    );
    check(
        &definition(json!([condition("Established", "False", "Installing")])),
        State::Progressing,
        "Installing",
    );
    check(
        &definition(json!([condition("Established", "False", "NotAccepted")])),
        State::Degraded,
        "NotAccepted",
    );
    check(&definition(json!([])), State::Progressing, "not served");
    let service = |conditions: Value| json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "status": {"conditions": conditions}});
    check(&service(json!([condition("Available", "True", "Passed")])), State::Healthy, "");
    check(
        &service(json!([condition("Available", "False", "MissingEndpoints")])),
        State::Progressing,
        "MissingEndpoints",
    );
    let scaler = |conditions: Value| json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "status": {"conditions": conditions}});
    check(
        &scaler(json!([condition("AbleToScale", "False", "FailedGetScale")])),
        State::Degraded,
        "FailedGetScale",
    );
    check(
        &scaler(json!([condition("ScalingActive", "False", "FailedGetResourceMetric")])),
        State::Progressing,
        "FailedGetResourceMetric",
    );
    check(&scaler(json!([condition("ScalingActive", "False", "ScalingDisabled")])), State::Healthy, "");
}

#[test]
fn every_other_kind_is_judged_by_its_conditions() {
    let custom = |status: Value| json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"generation": 2}, "status": status});
    check(&custom(json!({})), State::Healthy, "");
    check(&custom(json!({"conditions": [condition("Ready", "True", "")]})), State::Healthy, "");
    check(
        &custom(json!({"conditions": [condition("Ready", "False", "Waiting")]})),
        State::Progressing,
        "because of Waiting",
    );
    check(&custom(json!({"conditions": [condition("Ready", "Unknown", "New")]})), State::Progressing, "New");
    check(
        &custom(
            json!({"conditions": [condition("Ready", "True", ""), condition("Reconciling", "True", "Busy")]}),
        ),
        State::Progressing,
        "Busy",
    );
    check(
        &custom(
            json!({"conditions": [condition("Stalled", "True", "Broken"), condition("Reconciling", "True", "Busy")]}),
        ),
        State::Degraded,
        "Broken",
    );
    check(&custom(json!({"conditions": [condition("Stalled", "False", "x")]})), State::Healthy, "");
    check(
        &custom(json!({"observedGeneration": 1, "conditions": [condition("Ready", "True", "")]})),
        State::Progressing,
        "generation 1, not yet 2",
    );
    let old = json!({"type": "Ready", "status": "True", "observedGeneration": 1});
    check(&custom(json!({"conditions": [old]})), State::Progressing, "older generation");
    check(
        &json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "status": {"disruptionsAllowed": 0}}),
        State::Healthy,
        "",
    );
}

#[test]
fn what_is_being_deleted_is_never_healthy() {
    let dying = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"deletionTimestamp": NOW, "finalizers": ["a/b", "c/d"]}});
    check(
        &dying,
        State::Progressing,
        "Terminating it is being deleted and waits for the finalizers a/b, c/d",
    );
}

mod any_object {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[A-Za-z]{0,6}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(
                    "(status|conditions|type|replicas|spec|phase|reason)",
                    inner,
                    0..4
                )
                .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn has_some_health(status in value(), spec in value(), kind in prop::sample::select(vec!["Deployment", "StatefulSet", "DaemonSet", "Pod", "Job", "Widget"])) {
            for group in ["apps/v1", "v1", "batch/v1"] {
                look(&json!({"apiVersion": group, "kind": kind, "metadata": {"generation": 1}, "spec": spec, "status": status}));
            }
        }
    }
}
