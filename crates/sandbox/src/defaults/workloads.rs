//! Workloads and what scales them.

use serde_json::{Value, json};

use super::fields::{default, default_at, each, object, within};
use super::pod;

pub(super) fn deployment(deployment: &mut Value) {
    let Some(spec) = object(deployment, "spec") else { return };
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    default_at(spec, &["strategy"], "type", "RollingUpdate");
    if spec["strategy"]["type"] == "RollingUpdate" {
        default_at(spec, &["strategy", "rollingUpdate"], "maxUnavailable", "25%");
        default_at(spec, &["strategy", "rollingUpdate"], "maxSurge", "25%");
    }
    pod::template(&mut spec["template"]);
}

pub(super) fn stateful_set(set: &mut Value) {
    let Some(spec) = object(set, "spec") else { return };
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "podManagementPolicy", "OrderedReady");
    default_at(spec, &["updateStrategy"], "type", "RollingUpdate");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        default_at(spec, &["updateStrategy", "rollingUpdate"], "partition", 0);
    }
    let retention = ["persistentVolumeClaimRetentionPolicy"];
    default_at(spec, &retention, "whenDeleted", "Retain");
    default_at(spec, &retention, "whenScaled", "Retain");
    each(spec, "volumeClaimTemplates", |claim| {
        default(claim, "apiVersion", "v1");
        default(claim, "kind", "PersistentVolumeClaim");
        default_at(claim, &["spec"], "volumeMode", "Filesystem");
        default_at(claim, &["status"], "phase", "Pending");
    });
    pod::template(&mut spec["template"]);
}

pub(super) fn daemon_set(set: &mut Value) {
    let Some(spec) = object(set, "spec") else { return };
    default(spec, "revisionHistoryLimit", 10);
    default_at(spec, &["updateStrategy"], "type", "RollingUpdate");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        default_at(spec, &["updateStrategy", "rollingUpdate"], "maxUnavailable", 1);
        default_at(spec, &["updateStrategy", "rollingUpdate"], "maxSurge", 0);
    }
    pod::template(&mut spec["template"]);
}

pub(super) fn replica_set(set: &mut Value) {
    let Some(spec) = object(set, "spec") else { return };
    default(spec, "replicas", 1);
    pod::template(&mut spec["template"]);
}

pub(super) fn replication_controller(controller: &mut Value) {
    let labels = controller["spec"]["template"]["metadata"]["labels"].clone();
    let Some(spec) = object(controller, "spec") else { return };
    default(spec, "replicas", 1);
    if labels.is_object() {
        default(spec, "selector", labels);
    }
    pod::template(&mut spec["template"]);
}

pub(super) fn job(job: &mut Value) {
    let uid = job["metadata"]["uid"].clone();
    let name = job["metadata"]["name"].clone();
    let Some(spec) = object(job, "spec") else { return };
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let limit = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i64::from(i32::MAX) };
    default(spec, "backoffLimit", limit);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "manualSelector", false);
    default(spec, "suspend", false);
    let replacement = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    default(spec, "podReplacementPolicy", replacement);
    within(spec, "podFailurePolicy", |policy| {
        each(policy, "rules", |rule| {
            each(rule, "onPodConditions", |condition| default(condition, "status", "True"));
        });
    });
    pod::template(&mut spec["template"]);
    // A Job selects its own pods by its uid unless it says that it selects them itself.
    if uid.is_string() && spec["manualSelector"] != true {
        for (label, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            default_at(spec, &["template", "metadata", "labels"], label, value.clone());
        }
        default_at(spec, &["selector", "matchLabels"], "batch.kubernetes.io/controller-uid", uid);
    }
}

pub(super) fn cron_job(cron_job: &mut Value) {
    let Some(spec) = object(cron_job, "spec") else { return };
    default(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    if let Some(template) = object(spec, "jobTemplate") {
        object(template, "metadata");
        if let Some(job) = object(template, "spec") {
            pod::template(&mut job["template"]);
        }
    }
}

pub(super) fn autoscaler(autoscaler: &mut Value) {
    let Some(spec) = object(autoscaler, "spec") else { return };
    default(spec, "minReplicas", 1);
    let cpu = json!([{
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }]);
    default(spec, "metrics", cpu);
    within(spec, "behavior", |behavior| {
        let fast = json!([
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ]);
        default_at(behavior, &["scaleUp"], "policies", fast);
        default_at(behavior, &["scaleUp"], "selectPolicy", "Max");
        default_at(behavior, &["scaleUp"], "stabilizationWindowSeconds", 0);
        let slow = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
        default_at(behavior, &["scaleDown"], "policies", slow);
        default_at(behavior, &["scaleDown"], "selectPolicy", "Max");
    });
}
