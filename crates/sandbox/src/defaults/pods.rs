//! Pods, and the templates of them.

use serde_json::{Value, json};

use super::{existing, items, object, resources, set};

pub(super) fn pod(pod: &mut Value) {
    let Some(spec) = existing(pod, "spec") else { return };
    // Only pods themselves, not templates.
    let host_network = spec["hostNetwork"] == true;
    for field in ["containers", "initContainers"] {
        for container in items(spec.get_mut(field)) {
            requests_from_limits(container);
            for port in items(container.get_mut("ports")).filter(|_| host_network) {
                let number = port["containerPort"].clone();
                set(port, "hostPort", number);
            }
        }
    }
    set(spec, "enableServiceLinks", true);
    pod_spec(spec);
}

/// What admission plugins add to new pods.
pub(crate) fn admit_pod(pod: &mut Value) {
    let Some(spec) = existing(pod, "spec") else { return };
    set(spec, "preemptionPolicy", "PreemptLowerPriority");
    set(spec, "priority", 0);
    let toleration = |condition: &str| {
        json!({"effect": "NoExecute", "key": format!("node.kubernetes.io/{condition}"), "operator": "Exists",
            "tolerationSeconds": 300})
    };
    set(spec, "tolerations", json!([toleration("not-ready"), toleration("unreachable")]));
}

pub(super) fn pod_template(template: &mut Value) {
    template_of(existing(template, "template"));
}

/// The template of a workload.
pub(super) fn template_of(template: Option<&mut Value>) {
    if let Some(spec) = template.and_then(|template| existing(template, "spec")) {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Value) {
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    set(spec, "schedulerName", "default-scheduler");
    set(spec, "securityContext", json!({}));
    set(spec, "terminationGracePeriodSeconds", 30);
    // The old name of a field is kept in step with the new one.
    match (spec["serviceAccountName"].clone(), spec["serviceAccount"].clone()) {
        (Value::String(name), _) if !name.is_empty() => spec["serviceAccount"] = json!(name),
        (_, Value::String(name)) if !name.is_empty() => spec["serviceAccountName"] = json!(name),
        _ => {
            if let Some(fields) = spec.as_object_mut() {
                fields.retain(|name, value| {
                    !matches!(name.as_str(), "serviceAccount" | "serviceAccountName")
                        || value.as_str() != Some("")
                });
            }
        }
    }
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for it in items(spec.get_mut(field)) {
            container(it);
        }
    }
    for it in items(spec.get_mut("volumes")) {
        volume(it);
    }
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    set(container, "resources", json!({}));
    for port in items(container.get_mut("ports")) {
        set(port, "protocol", "TCP");
    }
    for env in items(container.get_mut("env")) {
        if let Some(field) = env.pointer_mut("/valueFrom/fieldRef") {
            set(field, "apiVersion", "v1");
        }
        if let Some(field) = env.pointer_mut("/valueFrom/resourceFieldRef") {
            set(field, "divisor", "0");
        }
        // An empty value is left out.
        if let Some(fields) = env.as_object_mut()
            && fields.get("value").is_some_and(|value| value.as_str() == Some(""))
        {
            fields.remove("value");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = existing(container, name) {
            for (field, number) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                if probe[field].as_i64().unwrap_or_default() == 0 {
                    probe[field] = json!(number);
                }
            }
            handler(probe);
        }
    }
    if let Some(lifecycle) = existing(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(it) = existing(lifecycle, name) {
                handler(it);
            }
        }
    }
}

fn handler(handler: &mut Value) {
    if let Some(get) = existing(handler, "httpGet") {
        set(get, "path", "/");
        set(get, "scheme", "HTTP");
    }
    if let Some(grpc) = existing(handler, "grpc")
        && grpc["service"].is_null()
    {
        grpc["service"] = json!("");
    }
}

/// No tag means latest; a digest is never latest.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn volume(volume: &mut Value) {
    const MODE: i64 = 0o644;
    if volume.as_object().is_some_and(|fields| fields.keys().all(|name| name == "name")) {
        volume["emptyDir"] = json!({});
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(it) = existing(volume, source) {
            set(it, "defaultMode", MODE);
        }
    }
    if let Some(path) = existing(volume, "hostPath")
        && path["type"].is_null()
    {
        path["type"] = json!("");
    }
    for item in items(volume.pointer_mut("/downwardAPI/items")) {
        if let Some(field) = existing(item, "fieldRef") {
            set(field, "apiVersion", "v1");
        }
    }
    for source in items(volume.pointer_mut("/projected/sources")) {
        if let Some(token) = existing(source, "serviceAccountToken") {
            set(token, "expirationSeconds", 3600);
        }
        for item in items(source.pointer_mut("/downwardAPI/items")) {
            if let Some(field) = existing(item, "fieldRef") {
                set(field, "apiVersion", "v1");
            }
        }
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        set(claim, "volumeMode", "Filesystem");
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(resources) = existing(container, "resources") else { return };
    let Some(limits) = resources["limits"].as_object().cloned() else { return };
    let Some(requests) = object(resources, "requests") else { return };
    for (name, limit) in limits {
        set(requests, &name, limit);
    }
}

/// Canonical quantities of a pod's spec.
pub(super) fn quantities(spec: Option<&mut Value>) {
    let Some(spec) = spec else { return };
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec.get_mut(field)) {
            resources(container.get_mut("resources"));
            for env in items(container.get_mut("env")) {
                if let Some(divisor) = env.pointer_mut("/valueFrom/resourceFieldRef/divisor") {
                    crate::quantity::canonicalise(divisor);
                }
            }
        }
    }
    for volume in items(spec.get_mut("volumes")) {
        if let Some(size) = volume.pointer_mut("/emptyDir/sizeLimit") {
            crate::quantity::canonicalise(size);
        }
        resources(volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec/resources"));
    }
}
