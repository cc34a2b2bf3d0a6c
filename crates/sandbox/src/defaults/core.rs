//! Secrets, Services and volumes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::fields::{default, default_at, each, object};

/// `stringData` is for writing only: it goes into `data`.
pub(super) fn secret(secret: &mut Value) {
    default(secret, "type", "Opaque");
    let Some(texts) = secret.as_object_mut().and_then(|secret| secret.remove("stringData")) else { return };
    let Value::Object(texts) = texts else { return };
    if texts.is_empty() {
        return;
    }
    if let Some(data) = object(secret, "data") {
        for (key, text) in texts {
            data[key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
        }
    }
}

pub(super) fn service(service: &mut Value) {
    let Some(spec) = object(service, "spec") else { return };
    default(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        default_at(spec, &["sessionAffinityConfig", "clientIP"], "timeoutSeconds", 10_800);
    }
    default(spec, "type", "ClusterIP");
    each(spec, "ports", |port| {
        default(port, "protocol", "TCP");
        let number = port["port"].clone();
        if port["targetPort"] == 0 || port["targetPort"] == "" {
            port["targetPort"] = Value::Null;
        }
        default(port, "targetPort", number);
    });
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind == "ExternalName" {
        return;
    }
    default(spec, "internalTrafficPolicy", "Cluster");
    let headless = spec["clusterIP"] == "None";
    let has_selector = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    if headless && !has_selector {
        default(spec, "ipFamilyPolicy", "RequireDualStack");
        default(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
    } else {
        default(spec, "ipFamilyPolicy", "SingleStack");
        default(spec, "ipFamilies", json!(["IPv4"]));
    }
    if headless {
        default(spec, "clusterIPs", json!(["None"]));
    }
}

pub(super) fn persistent_volume_claim(claim: &mut Value) {
    default_at(claim, &["spec"], "volumeMode", "Filesystem");
    default_at(claim, &["status"], "phase", "Pending");
}

pub(super) fn persistent_volume(volume: &mut Value) {
    default_at(volume, &["spec"], "persistentVolumeReclaimPolicy", "Retain");
    default_at(volume, &["spec"], "volumeMode", "Filesystem");
    default_at(volume, &["status"], "phase", "Pending");
}
