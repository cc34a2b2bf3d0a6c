//! In which order kinds are applied and pruned, and which are never pruned lightly.

/// A step of the way of a bundle onto a target. All objects of a stage are applied before the first
/// of the next; inside a stage the order is that of [`rank`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Namespaces.
    Namespaces,
    /// CustomResourceDefinitions; the next stage starts when all of them are Established.
    Definitions,
    /// What other objects need to be admitted or to start: quotas, accounts, permissions, classes,
    /// volumes, secrets, configuration.
    Prerequisites,
    /// Services, workloads and all other kinds.
    Workloads,
    /// Admission configuration and aggregated APIs: they act on requests of others, so what serves
    /// them goes first.
    Admission,
}

const CRD_GROUP: &str = "apiextensions.k8s.io";

/// The stage of a kind.
pub fn stage_of(group: &str, kind: &str) -> Stage {
    match (group, kind) {
        ("", "Namespace") => Stage::Namespaces,
        (CRD_GROUP, "CustomResourceDefinition") => Stage::Definitions,
        ("admissionregistration.k8s.io", _) | ("apiregistration.k8s.io", "APIService") => Stage::Admission,
        _ if rank(group, kind) < rank("", "Service") => Stage::Prerequisites,
        _ => Stage::Workloads,
    }
}

/// Kinds in the order in which they are applied; kinds that are not named come between workloads
/// and admission.
const ORDER: &[(&str, &str)] = &[
    ("scheduling.k8s.io", "PriorityClass"),
    ("", "Namespace"),
    (CRD_GROUP, "CustomResourceDefinition"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("", "ResourceQuota"),
    ("", "LimitRange"),
    ("policy", "PodDisruptionBudget"),
    ("", "ServiceAccount"),
    ("", "Secret"),
    ("", "ConfigMap"),
    ("storage.k8s.io", "StorageClass"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("networking.k8s.io", "IngressClass"),
    ("", "Service"),
    ("apps", "DaemonSet"),
    ("", "Pod"),
    ("", "ReplicationController"),
    ("apps", "ReplicaSet"),
    ("apps", "Deployment"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("apps", "StatefulSet"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("networking.k8s.io", "Ingress"),
];

/// Place of a kind in the order of application.
pub(crate) fn rank(group: &str, kind: &str) -> usize {
    let place = ORDER.iter().position(|entry| *entry == (group, kind));
    place.unwrap_or(if group == "admissionregistration.k8s.io" || kind == "APIService" {
        ORDER.len() + 1
    } else {
        ORDER.len()
    })
}

/// Whether deleting an object of this kind deletes what is not ours or cannot be brought back:
/// Namespaces take their content along, CustomResourceDefinitions their objects, volumes their data.
pub fn is_guarded(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("", "Namespace" | "PersistentVolume" | "PersistentVolumeClaim")
            | (CRD_GROUP, "CustomResourceDefinition")
    )
}

/// Namespaces that a cluster cannot be without; they are never pruned.
pub fn is_protected_namespace(name: &str) -> bool {
    matches!(name, "default" | "kube-system" | "kube-public" | "kube-node-lease")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_put_what_others_need_first() {
        let table = [
            ("", "Namespace", Stage::Namespaces),
            (CRD_GROUP, "CustomResourceDefinition", Stage::Definitions),
            ("", "Secret", Stage::Prerequisites),
            ("rbac.authorization.k8s.io", "RoleBinding", Stage::Prerequisites),
            ("scheduling.k8s.io", "PriorityClass", Stage::Prerequisites),
            ("", "Service", Stage::Workloads),
            ("apps", "Deployment", Stage::Workloads),
            ("example.com", "Widget", Stage::Workloads),
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", Stage::Admission),
            ("apiregistration.k8s.io", "APIService", Stage::Admission),
        ];
        for (group, kind, want) in table {
            assert_eq!(stage_of(group, kind), want, "{group}/{kind}");
        }
    }

    #[test]
    fn a_kind_of_another_group_with_a_known_name_is_no_built_in() {
        assert_eq!(stage_of("serving.knative.dev", "Service"), Stage::Workloads);
        assert!(!is_guarded("example.com", "Namespace"));
    }
}
