//! Pods and pod templates.

use serde_json::{Value, json};

use super::fields::{default, default_at, each, object, within};

/// Permissions of files from Secrets and ConfigMaps: 0644.
const FILE_MODE: i64 = 0o644;

/// A Pod by itself; a template gets less.
pub(super) fn pod(pod: &mut Value) {
    let Some(spec) = object(pod, "spec") else { return };
    for list in ["initContainers", "containers"] {
        each(spec, list, |container| {
            // What a container may use at most it also asks for, if it says nothing else.
            let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
            for (resource, quantity) in limits {
                default_at(container, &["resources", "requests"], &resource, quantity);
            }
        });
    }
    pod_spec(spec);
    default(spec, "enableServiceLinks", true);
    default(spec, "serviceAccountName", "default");
    default(spec, "serviceAccount", "default");
    default(spec, "preemptionPolicy", "PreemptLowerPriority");
    default(spec, "priority", 0);
    default_at(pod, &["status"], "phase", "Pending");
    default_at(pod, &["status"], "qosClass", "BestEffort");
}

/// The template of a workload.
pub(super) fn template(template: &mut Value) {
    if template.is_null() {
        return;
    }
    object(template, "metadata");
    if let Some(spec) = object(template, "spec") {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Value) {
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "securityContext", json!({}));
    // The old name of the field always says the same.
    if let Some(account) = spec["serviceAccountName"].as_str().map(str::to_owned) {
        default(spec, "serviceAccount", account);
    }
    let host_network = spec["hostNetwork"] == true;
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list, |one| container(one, host_network));
    }
    each(spec, "volumes", volume);
}

fn container(container: &mut Value, host_network: bool) {
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    let policy = match container["image"].as_str() {
        Some(image) if is_pinned(image) => "IfNotPresent",
        _ => "Always",
    };
    default(container, "imagePullPolicy", policy);
    default(container, "resources", json!({}));
    each(container, "ports", |port| {
        default(port, "protocol", "TCP");
        if host_network {
            let number = port["containerPort"].clone();
            default(port, "hostPort", number);
        }
    });
    each(container, "env", |variable| {
        within(variable, "valueFrom", |from| {
            within(from, "fieldRef", |field| default(field, "apiVersion", "v1"));
        });
    });
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, name, probe);
    }
    within(container, "lifecycle", |lifecycle| {
        for name in ["postStart", "preStop"] {
            within(lifecycle, name, http_get);
        }
    });
}

/// Whether an image names a tag other than `latest`, or a digest.
fn is_pinned(image: &str) -> bool {
    if image.contains('@') {
        return true;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_some_and(|(_, tag)| tag != "latest")
}

fn probe(probe: &mut Value) {
    default(probe, "timeoutSeconds", 1);
    default(probe, "periodSeconds", 10);
    default(probe, "successThreshold", 1);
    default(probe, "failureThreshold", 3);
    within(probe, "grpc", |grpc| default(grpc, "service", ""));
    http_get(probe);
}

fn http_get(handler: &mut Value) {
    within(handler, "httpGet", |get| {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    });
}

fn volume(volume: &mut Value) {
    let only_a_name = volume.as_object().is_some_and(|volume| volume.keys().all(|key| key == "name"));
    if only_a_name {
        default(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        within(volume, source, |source| default(source, "defaultMode", FILE_MODE));
    }
    within(volume, "hostPath", |path| default(path, "type", ""));
    let field_refs = |item: &mut Value| {
        within(item, "fieldRef", |field| default(field, "apiVersion", "v1"));
    };
    within(volume, "downwardAPI", |source| each(source, "items", field_refs));
    within(volume, "projected", |projected| {
        each(projected, "sources", |source| {
            within(source, "serviceAccountToken", |token| default(token, "expirationSeconds", 3600));
            within(source, "downwardAPI", |source| each(source, "items", field_refs));
        });
    });
    within(volume, "ephemeral", |ephemeral| {
        if ephemeral["volumeClaimTemplate"].is_object() {
            default_at(ephemeral, &["volumeClaimTemplate", "spec"], "volumeMode", "Filesystem");
        }
    });
}
