//! The columns of `kubectl get` for kinds that people look at.
//!
//! kube-apiserver computes its columns in code; here they are paths, so some show less.

use convoy_registry::PrinterColumn;
use convoy_schema::BuiltIn;

type Column = (&'static str, &'static str, &'static str, i32);

const AGE: Column = ("Age", "date", ".metadata.creationTimestamp", 0);

/// The columns after NAME; empty means AGE alone.
pub(crate) fn of(kind: &BuiltIn) -> Vec<PrinterColumn> {
    let columns = special(kind);
    if columns.is_empty() {
        return Vec::new();
    }
    let with_age =
        columns.iter().filter(|it| it.3 == 0).chain([&AGE]).chain(columns.iter().filter(|it| it.3 > 0));
    with_age
        .map(|(name, type_, path, priority)| PrinterColumn {
            name: (*name).to_owned(),
            type_: (*type_).to_owned(),
            priority: *priority,
            json_path: (*path).to_owned(),
            ..PrinterColumn::default()
        })
        .collect()
}

fn special(kind: &BuiltIn) -> &'static [Column] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace" | "Node") => &[("Status", "string", ".status.phase", 0)],
        ("", "Pod") => &[
            ("Status", "string", ".status.phase", 0),
            ("IP", "string", ".status.podIP", 1),
            ("Node", "string", ".spec.nodeName", 1),
        ],
        ("", "Secret") => &[("Type", "string", ".type", 0)],
        ("", "Service") => &[
            ("Type", "string", ".spec.type", 0),
            ("Cluster-IP", "string", ".spec.clusterIP", 0),
            ("External-IP", "string", ".status.loadBalancer.ingress[0].ip", 0),
            ("Port", "string", ".spec.ports[0].port", 0),
        ],
        ("", "PersistentVolumeClaim") => &[
            ("Status", "string", ".status.phase", 0),
            ("Volume", "string", ".spec.volumeName", 0),
            ("Capacity", "string", ".status.capacity.storage", 0),
            ("StorageClass", "string", ".spec.storageClassName", 0),
        ],
        ("", "Event") => &[
            ("Type", "string", ".type", 0),
            ("Reason", "string", ".reason", 0),
            ("Object", "string", ".involvedObject.name", 0),
            ("Message", "string", ".message", 0),
        ],
        ("apps", "Deployment") => &[
            ("Desired", "integer", ".spec.replicas", 0),
            ("Ready", "integer", ".status.readyReplicas", 0),
            ("Up-to-date", "integer", ".status.updatedReplicas", 0),
            ("Available", "integer", ".status.availableReplicas", 0),
            ("Images", "string", ".spec.template.spec.containers[0].image", 1),
        ],
        ("apps", "StatefulSet" | "ReplicaSet") => &[
            ("Desired", "integer", ".spec.replicas", 0),
            ("Ready", "integer", ".status.readyReplicas", 0),
            ("Images", "string", ".spec.template.spec.containers[0].image", 1),
        ],
        ("apps", "DaemonSet") => &[
            ("Desired", "integer", ".status.desiredNumberScheduled", 0),
            ("Current", "integer", ".status.currentNumberScheduled", 0),
            ("Ready", "integer", ".status.numberReady", 0),
        ],
        ("batch", "Job") => &[
            ("Completions", "integer", ".spec.completions", 0),
            ("Succeeded", "integer", ".status.succeeded", 0),
        ],
        ("batch", "CronJob") => &[
            ("Schedule", "string", ".spec.schedule", 0),
            ("Suspend", "boolean", ".spec.suspend", 0),
            ("Last Schedule", "date", ".status.lastScheduleTime", 0),
        ],
        ("networking.k8s.io", "Ingress") => &[
            ("Class", "string", ".spec.ingressClassName", 0),
            ("Hosts", "string", ".spec.rules[0].host", 0),
            ("Address", "string", ".status.loadBalancer.ingress[0].ip", 0),
        ],
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            &[("Created At", "string", ".metadata.creationTimestamp", 0)]
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            &[("Role", "string", ".roleRef.name", 0)]
        }
        _ => &[],
    }
}
