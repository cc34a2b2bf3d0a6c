//! From a Kubernetes object to its health, by the rules of kstatus (`sigs.k8s.io/cli-utils/pkg/kstatus`).
//!
//! [`health_of`] looks at one object as its API server returned it. [`summarize`] says how a set of objects
//! is, by its worst. Where convoy differs from kstatus, the rule says so:
//!
//! - a Job is Healthy once it is complete, not while it runs;
//! - a container that cannot start (image, configuration) makes its Pod Degraded;
//! - an unbound PersistentVolumeClaim is Progressing but does not hold back the others: with the binding
//!   mode `WaitForFirstConsumer`, which the claim does not show, it waits for a Pod that may come later;
//! - what is stopped on purpose is Suspended, with its own word;
//! - a Service of type LoadBalancer and an Ingress without an address are Progressing, and hold back nobody;
//! - kinds whose controllers are known are judged by what those say in conditions and phases (`table`).

#![warn(missing_docs)]

mod field;
mod generic;
mod health;
mod kinds;
mod pod;
mod rollout;
mod rule_sets;
mod table;
mod workload;

pub use health::{Health, State, Summary, summarize};
pub use rule_sets::{GroupKind, HealthRules, RuleFault, RuleSets, rule_faults};
pub use table::{KindRule, kind_rules};

use jiff::Timestamp;
use serde_json::Value;

/// The health of an object at a time. The time matters for what is given a moment before it counts as
/// failed (a Pod that no node takes).
///
/// Never fails: an object of an unknown kind, or of odd content, is judged by the conditions it has.
pub fn health_of(object: &Value, now: Timestamp) -> Health {
    if let Some(health) = generic::before_all(object) {
        return health;
    }
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => workload::replica_set(object),
        ("", "Pod") => pod::pod(object, now),
        ("batch", "Job") => kinds::job(object),
        ("batch", "CronJob") => kinds::cron_job(object),
        ("", "PersistentVolumeClaim") => kinds::volume_claim(object),
        ("", "Service") => kinds::service(object),
        ("", "Namespace") => kinds::namespace(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => kinds::custom_resource_definition(object),
        ("apiregistration.k8s.io", "APIService") => kinds::api_service(object),
        ("autoscaling", "HorizontalPodAutoscaler") => kinds::autoscaler(object),
        ("argoproj.io", "Rollout") => rollout::rollout(object),
        _ => table::by_table(group, kind, object).unwrap_or_else(|| generic::by_conditions(object)),
    }
}
