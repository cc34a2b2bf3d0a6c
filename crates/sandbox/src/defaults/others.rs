//! Everything that has no pods.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{existing, items, object, set};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn service(service: &mut Value) {
    let Some(spec) = existing(service, "spec") else { return };
    set(spec, "type", "ClusterIP");
    set(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP"
        && let Some(config) = object(spec, "sessionAffinityConfig")
        && let Some(client) = object(config, "clientIP")
    {
        set(client, "timeoutSeconds", 10_800);
    }
    for port in items(spec.get_mut("ports")) {
        set(port, "protocol", "TCP");
        let number = port["port"].clone();
        if port["targetPort"] == 0 {
            port["targetPort"] = Value::Null;
        }
        set(port, "targetPort", number);
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    if kind != "ExternalName" {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "NodePort" || kind == "LoadBalancer" {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
}

pub(super) fn secret(secret: &mut Value) {
    set(secret, "type", "Opaque");
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    for (name, text) in texts {
        if let (Value::Object(data), Some(text)) = (&mut *data, text.as_str()) {
            data.insert(name, Value::String(BASE64.encode(text)));
        }
    }
}

pub(super) fn endpoints(endpoints: &mut Value) {
    for subset in items(endpoints.get_mut("subsets")) {
        for port in items(subset.get_mut("ports")) {
            set(port, "protocol", "TCP");
        }
    }
}

pub(super) fn endpoint_slice(slice: &mut Value) {
    for port in items(slice.get_mut("ports")) {
        set(port, "protocol", "TCP");
        if port["name"].is_null() {
            port["name"] = json!("");
        }
    }
}

pub(super) fn limit_range(range: &mut Value) {
    for limit in items(range.pointer_mut("/spec/limits")) {
        if limit["type"] != "Container" {
            continue;
        }
        // From the maximum to the default, from there to the request, and from the minimum if nothing else.
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(known) = limit[from].as_object().cloned() else { continue };
            let Some(target) = object(limit, to) else { continue };
            for (name, value) in known {
                set(target, &name, value);
            }
        }
    }
}

pub(super) fn persistent_volume(volume: &mut Value) {
    if let Some(spec) = existing(volume, "spec") {
        set(spec, "persistentVolumeReclaimPolicy", "Retain");
        set(spec, "volumeMode", "Filesystem");
        if let Some(path) = existing(spec, "hostPath")
            && path["type"].is_null()
        {
            path["type"] = json!("");
        }
    }
    if let Some(status) = object(volume, "status") {
        set(status, "phase", "Pending");
    }
}

pub(super) fn persistent_volume_claim(claim: &mut Value) {
    if let Some(spec) = existing(claim, "spec") {
        claim_spec(spec);
    }
    if let Some(status) = object(claim, "status") {
        set(status, "phase", "Pending");
    }
}

pub(super) fn claim_spec(spec: &mut Value) {
    set(spec, "volumeMode", "Filesystem");
    let source = spec["dataSource"].clone();
    if source.is_object() {
        set(spec, "dataSourceRef", source);
    }
}

pub(super) fn network_policy(policy: &mut Value) {
    let Some(spec) = existing(policy, "spec") else { return };
    let has_egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
    if spec["policyTypes"].as_array().is_none_or(Vec::is_empty) {
        spec["policyTypes"] = if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
    for direction in ["ingress", "egress"] {
        for rule in items(spec.get_mut(direction)) {
            for port in items(rule.get_mut("ports")) {
                set(port, "protocol", "TCP");
            }
        }
    }
}

pub(super) fn ingress_class(class: &mut Value) {
    if let Some(parameters) = class.pointer_mut("/spec/parameters") {
        set(parameters, "scope", "Cluster");
    }
}

pub(super) fn autoscaler(autoscaler: &mut Value) {
    let Some(spec) = existing(autoscaler, "spec") else { return };
    set(spec, "minReplicas", 1);
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        let target = json!({"averageUtilization": 80, "type": "Utilization"});
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    }
    let Some(behavior) = existing(spec, "behavior") else { return };
    let up = json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]);
    let down = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
    for (direction, policies) in [("scaleUp", up), ("scaleDown", down)] {
        let Some(rules) = object(behavior, direction) else { continue };
        set(rules, "selectPolicy", "Max");
        set(rules, "policies", policies);
        if direction == "scaleUp" {
            set(rules, "stabilizationWindowSeconds", 0);
        }
    }
}

pub(super) fn role_binding(binding: &mut Value) {
    if let Some(role) = existing(binding, "roleRef") {
        set(role, "apiGroup", RBAC);
    }
    for subject in items(binding.get_mut("subjects")) {
        if subject["kind"] != "ServiceAccount" {
            set(subject, "apiGroup", RBAC);
        }
    }
}

pub(super) fn storage_class(class: &mut Value) {
    set(class, "reclaimPolicy", "Delete");
    set(class, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(driver: &mut Value) {
    let Some(spec) = existing(driver, "spec") else { return };
    set(spec, "attachRequired", true);
    set(spec, "podInfoOnMount", false);
    set(spec, "requiresRepublish", false);
    set(spec, "storageCapacity", false);
    set(spec, "seLinuxMount", false);
    set(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    set(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

pub(super) fn priority_class(class: &mut Value) {
    set(class, "preemptionPolicy", "PreemptLowerPriority");
}

pub(super) fn api_service(service: &mut Value) {
    if let Some(it) = service.pointer_mut("/spec/service") {
        set(it, "port", 443);
    }
}

pub(super) fn mutating_webhooks(configuration: &mut Value) {
    for webhook in items(configuration.get_mut("webhooks")) {
        set(webhook, "reinvocationPolicy", "Never");
    }
    webhooks(configuration);
}

pub(super) fn webhooks(configuration: &mut Value) {
    for webhook in items(configuration.get_mut("webhooks")) {
        set(webhook, "failurePolicy", "Fail");
        set(webhook, "matchPolicy", "Equivalent");
        set(webhook, "namespaceSelector", json!({}));
        set(webhook, "objectSelector", json!({}));
        set(webhook, "timeoutSeconds", 10);
        if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
            set(service, "port", 443);
        }
        scopes(webhook.get_mut("rules"));
    }
}

fn scopes(rules: Option<&mut Value>) {
    for rule in items(rules) {
        set(rule, "scope", "*");
    }
}

pub(super) fn admission_policy(policy: &mut Value) {
    let Some(spec) = existing(policy, "spec") else { return };
    set(spec, "failurePolicy", "Fail");
    if let Some(constraints) = existing(spec, "matchConstraints") {
        match_resources(constraints);
    }
}

pub(super) fn admission_policy_binding(binding: &mut Value) {
    if let Some(resources) = binding.pointer_mut("/spec/matchResources") {
        match_resources(resources);
    }
}

fn match_resources(resources: &mut Value) {
    set(resources, "matchPolicy", "Equivalent");
    set(resources, "namespaceSelector", json!({}));
    set(resources, "objectSelector", json!({}));
    scopes(resources.get_mut("resourceRules"));
    scopes(resources.get_mut("excludeResourceRules"));
}
