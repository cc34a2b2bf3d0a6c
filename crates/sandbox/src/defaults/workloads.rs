//! Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs.

use serde_json::{Value, json};

use super::others::claim_spec;
use super::pods::template_of;
use super::{existing, items, object, set};

pub(super) fn deployment(deployment: &mut Value) {
    let Some(spec) = existing(deployment, "spec") else { return };
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
    if let Some(strategy) = object(spec, "strategy") {
        set(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate"
            && let Some(rolling) = object(strategy, "rollingUpdate")
        {
            set(rolling, "maxUnavailable", "25%");
            set(rolling, "maxSurge", "25%");
        }
    }
    template_of(existing(spec, "template"));
}

pub(super) fn daemon_set(daemon_set: &mut Value) {
    // A field that older versions had lives on as an annotation.
    if let Some(annotations) = existing(daemon_set, "metadata").and_then(|it| object(it, "annotations")) {
        set(annotations, crate::strategy::TEMPLATE_GENERATION, "0");
    }
    let Some(spec) = existing(daemon_set, "spec") else { return };
    set(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = object(spec, "updateStrategy") {
        set(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate"
            && let Some(rolling) = object(strategy, "rollingUpdate")
        {
            set(rolling, "maxUnavailable", 1);
            set(rolling, "maxSurge", 0);
        }
    }
    template_of(existing(spec, "template"));
}

pub(super) fn stateful_set(stateful_set: &mut Value) {
    let Some(spec) = existing(stateful_set, "spec") else { return };
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = object(spec, "updateStrategy") {
        set(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate"
            && let Some(rolling) = object(strategy, "rollingUpdate")
        {
            set(rolling, "partition", 0);
        }
    }
    if let Some(policy) = object(spec, "persistentVolumeClaimRetentionPolicy") {
        set(policy, "whenDeleted", "Retain");
        set(policy, "whenScaled", "Retain");
    }
    for claim in items(spec.get_mut("volumeClaimTemplates")) {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
        if let Some(it) = existing(claim, "spec") {
            claim_spec(it);
        }
        if let Some(status) = object(claim, "status") {
            set(status, "phase", "Pending");
        }
    }
    template_of(existing(spec, "template"));
}

pub(super) fn replica_set(replica_set: &mut Value) {
    let Some(spec) = existing(replica_set, "spec") else { return };
    set(spec, "replicas", 1);
    template_of(existing(spec, "template"));
}

pub(super) fn replication_controller(controller: &mut Value) {
    let labels = controller.pointer("/spec/template/metadata/labels").cloned();
    if let Some(labels) = labels.filter(Value::is_object) {
        if let Some(spec) = existing(controller, "spec") {
            set(spec, "selector", labels.clone());
        }
        if let Some(metadata) = existing(controller, "metadata") {
            set(metadata, "labels", labels);
        }
    }
    replica_set(controller);
    // The schema has a default that kube-apiserver does not print.
    if let Some(spec) = controller.get_mut("spec").and_then(Value::as_object_mut)
        && spec.get("minReadySeconds") == Some(&json!(0))
    {
        spec.remove("minReadySeconds");
    }
}

pub(super) fn job(job: &mut Value) {
    let labels = job.pointer("/spec/template/metadata/labels").cloned().unwrap_or_default();
    if labels.as_object().is_some_and(|labels| !labels.is_empty())
        && let Some(metadata) = existing(job, "metadata")
        && metadata["labels"].as_object().is_none_or(serde_json::Map::is_empty)
    {
        metadata["labels"] = labels;
    }
    if let Some(spec) = existing(job, "spec") {
        job_spec(spec);
        template_of(existing(spec, "template"));
    }
}

fn job_spec(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = json!(1);
    }
    set(spec, "parallelism", 1);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    let limit = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i64::from(i32::MAX) };
    set(spec, "backoffLimit", limit);
    let policy = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    set(spec, "podReplacementPolicy", policy);
    set(spec, "manualSelector", false);
    for rule in items(spec.pointer_mut("/podFailurePolicy/rules")) {
        for condition in items(rule.get_mut("onPodConditions")) {
            set(condition, "status", "True");
        }
    }
}

pub(super) fn cron_job(cron_job: &mut Value) {
    let Some(spec) = existing(cron_job, "spec") else { return };
    set(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
    template_of(spec.pointer_mut("/jobTemplate/spec/template"));
}
