//! The defaults of built-in kinds that their OpenAPI schemas do not say: kube-apiserver sets them in code
//! (`pkg/apis/*/v1/defaults.go` and the strategies of `pkg/registry` in k8s.io/kubernetes).
//!
//! All functions are pure, and setting defaults twice is the same as once. A test holds them against a
//! real kube-apiserver.

mod core;
mod fields;
mod pod;
#[cfg(test)]
mod tests;
mod workloads;

use serde_json::{Value, json};

use self::fields::{default, default_at, each, object};

/// Sets the defaults of an object of a built-in kind; other kinds are left alone.
pub(crate) fn set(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Secret") => core::secret(object),
        ("", "Service") => core::service(object),
        ("", "PersistentVolumeClaim") => core::persistent_volume_claim(object),
        ("", "PersistentVolume") => core::persistent_volume(object),
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(&mut object["template"]),
        ("", "ReplicationController") => workloads::replication_controller(object),
        ("apps", "Deployment") => workloads::deployment(object),
        ("apps", "StatefulSet") => workloads::stateful_set(object),
        ("apps", "DaemonSet") => workloads::daemon_set(object),
        ("apps", "ReplicaSet") => workloads::replica_set(object),
        ("batch", "Job") => workloads::job(object),
        ("batch", "CronJob") => workloads::cron_job(object),
        ("autoscaling", "HorizontalPodAutoscaler") => workloads::autoscaler(object),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(object),
        ("storage.k8s.io", "StorageClass") => {
            default(object, "reclaimPolicy", "Delete");
            default(object, "volumeBindingMode", "Immediate");
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            default(object, "preemptionPolicy", "PreemptLowerPriority");
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => each(object, "webhooks", |hook| webhook(hook, kind == "MutatingWebhookConfiguration")),
        ("apiregistration.k8s.io", "APIService") => {
            if object["spec"]["service"].is_object() {
                default_at(object, &["spec", "service"], "port", 443);
            }
        }
        _ => {}
    }
}

fn network_policy(policy: &mut Value) {
    let Some(spec) = object(policy, "spec") else { return };
    for direction in ["ingress", "egress"] {
        each(spec, direction, |rule| each(rule, "ports", |port| default(port, "protocol", "TCP")));
    }
    let has_egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
    let types: &[&str] = if has_egress { &["Ingress", "Egress"] } else { &["Ingress"] };
    default(spec, "policyTypes", types);
}

fn binding(binding: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if binding["roleRef"].is_object()
        && binding["roleRef"]["apiGroup"].as_str().unwrap_or_default().is_empty()
    {
        binding["roleRef"]["apiGroup"] = GROUP.into();
    }
    each(binding, "subjects", |subject| {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            default(subject, "apiGroup", GROUP);
        }
    });
}

fn webhook(hook: &mut Value, mutating: bool) {
    default(hook, "failurePolicy", "Fail");
    default(hook, "matchPolicy", "Equivalent");
    default(hook, "namespaceSelector", json!({}));
    default(hook, "objectSelector", json!({}));
    default(hook, "timeoutSeconds", 10);
    if mutating {
        default(hook, "reinvocationPolicy", "Never");
    }
    if hook["clientConfig"]["service"].is_object() {
        default_at(hook, &["clientConfig", "service"], "port", 443);
    }
    each(hook, "rules", |rule| default(rule, "scope", "*"));
}
