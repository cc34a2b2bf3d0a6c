//! Defaults that kube-apiserver sets in code, kind by kind. The schemas' own defaults come before.

mod others;
mod pods;
mod workloads;

pub(crate) use pods::admit_pod;
use serde_json::{Value, json};

use crate::quantity;

/// Sets the defaults of one kind.
pub(crate) type Defaults = fn(&mut Value);

/// The defaults of a kind, when it has any.
pub(crate) fn of(group: &str, kind: &str) -> Option<Defaults> {
    let known: Defaults = match (group, kind) {
        ("apps", "Deployment") => workloads::deployment,
        ("apps", "StatefulSet") => workloads::stateful_set,
        ("apps", "DaemonSet") => workloads::daemon_set,
        ("apps", "ReplicaSet") => workloads::replica_set,
        ("", "ReplicationController") => workloads::replication_controller,
        ("batch", "Job") => workloads::job,
        ("batch", "CronJob") => workloads::cron_job,
        ("", "Pod") => pods::pod,
        ("", "PodTemplate") => pods::pod_template,
        ("", "Service") => others::service,
        ("", "Secret") => others::secret,
        ("", "Endpoints") => others::endpoints,
        ("", "LimitRange") => others::limit_range,
        ("", "PersistentVolume") => others::persistent_volume,
        ("", "PersistentVolumeClaim") => others::persistent_volume_claim,
        ("discovery.k8s.io", "EndpointSlice") => others::endpoint_slice,
        ("networking.k8s.io", "NetworkPolicy") => others::network_policy,
        ("networking.k8s.io", "IngressClass") => others::ingress_class,
        ("autoscaling", "HorizontalPodAutoscaler") => others::autoscaler,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => others::role_binding,
        ("storage.k8s.io", "StorageClass") => others::storage_class,
        ("storage.k8s.io", "CSIDriver") => others::csi_driver,
        ("scheduling.k8s.io", "PriorityClass") => others::priority_class,
        ("apiregistration.k8s.io", "APIService") => others::api_service,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => others::mutating_webhooks,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => others::webhooks,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => others::admission_policy,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            others::admission_policy_binding
        }
        _ => return None,
    };
    Some(known)
}

/// Brings the quantities of an object to their canonical form.
pub(crate) fn canonicalise_quantities(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            pods::quantities(object.pointer_mut("/spec/template/spec"));
        }
        "CronJob" => pods::quantities(object.pointer_mut("/spec/jobTemplate/spec/template/spec")),
        "Pod" => pods::quantities(object.pointer_mut("/spec")),
        "PodTemplate" => pods::quantities(object.pointer_mut("/template/spec")),
        "PersistentVolumeClaim" => resources(object.pointer_mut("/spec/resources")),
        "PersistentVolume" => each_quantity(object.pointer_mut("/spec/capacity")),
        "ResourceQuota" => each_quantity(object.pointer_mut("/spec/hard")),
        "LimitRange" => {
            for limit in items(object.pointer_mut("/spec/limits")) {
                for field in ["default", "defaultRequest", "max", "min", "maxLimitRequestRatio"] {
                    each_quantity(limit.get_mut(field));
                }
            }
        }
        _ => {}
    }
    if kind == "StatefulSet" {
        for claim in items(object.pointer_mut("/spec/volumeClaimTemplates")) {
            resources(claim.pointer_mut("/spec/resources"));
        }
    }
}

/// The limits and requests of a container or claim.
fn resources(resources: Option<&mut Value>) {
    let Some(resources) = resources else { return };
    for field in ["limits", "requests"] {
        each_quantity(resources.get_mut(field));
    }
}

fn each_quantity(map: Option<&mut Value>) {
    map.and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
        .for_each(|(_, value)| quantity::canonicalise(value));
}

/// The items of a list that may be absent.
fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten().filter(|item| item.is_object())
}

/// Sets a field that is absent, null or an empty string.
fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    let empty = match fields.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if empty {
        fields.insert(field.to_owned(), value.into());
    }
}

/// Makes sure that a field is an object, and returns it.
fn object<'a>(owner: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    set(owner, field, json!({}));
    owner.get_mut(field).filter(|value| value.is_object())
}

/// A field that is an object, if it is there.
fn existing<'a>(owner: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    owner.get_mut(field).filter(|value| value.is_object())
}
