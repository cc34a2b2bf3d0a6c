//! API versions that Kubernetes gives up, as `k8s.io/api` 0.36 says.

use super::documents::Head;
use crate::capabilities::KubeVersion;

/// Kinds of one API version with one fate.
struct Deprecated {
    api_version: &'static str,
    /// Minor versions of Kubernetes 1.
    since: u32,
    removed: u32,
    /// The API version to use, or nothing.
    instead: &'static str,
    kinds: &'static [&'static str],
}

pub(super) fn check(head: &Head, kube_version: &KubeVersion) -> Result<(), String> {
    let (Ok(major), Ok(minor)) = (kube_version.major.parse::<u32>(), kube_version.minor.parse::<u32>())
    else {
        return Ok(());
    };
    let is_it = |deprecated: &&Deprecated| {
        deprecated.api_version == head.api_version && deprecated.kinds.contains(&head.kind.as_str())
    };
    let Some(Deprecated { api_version, since, removed, instead, .. }) = DEPRECATED.iter().find(is_it) else {
        return Ok(());
    };
    if (major, minor) != (0, 0) && (major, minor) < (1, *since) {
        return Ok(());
    }
    let kind = &head.kind;
    let mut text = format!("{api_version} {kind} is deprecated in v1.{since}+, unavailable in v1.{removed}+");
    if !instead.is_empty() {
        let other = RENAMED.iter().find(|(version, from, _)| version == api_version && from == kind);
        let kind = other.map_or(kind.as_str(), |(_, _, to)| to);
        text.push_str(&format!("; use {instead} {kind}"));
    }
    Err(text)
}

/// API version, kind, and the kind to use instead.
const RENAMED: [(&str, &str, &str); 3] = [
    ("discovery.k8s.io/v1beta1", "EndpointSliceList", "EndpointSlice"),
    ("networking.k8s.io/v1beta1", "IngressClass", "IngressClassList"),
    ("storage.k8s.io/v1beta1", "CSINodeList", "CSINode"),
];

const DEPRECATED: &[Deprecated] = &[
    Deprecated {
        api_version: "admissionregistration.k8s.io/v1alpha1",
        since: 35,
        removed: 38,
        instead: "",
        kinds: &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicyBindingList",
            "MutatingAdmissionPolicyList",
        ],
    },
    Deprecated {
        api_version: "admissionregistration.k8s.io/v1alpha1",
        since: 29,
        removed: 32,
        instead: "",
        kinds: &[
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicyBindingList",
            "ValidatingAdmissionPolicyList",
        ],
    },
    Deprecated {
        api_version: "admissionregistration.k8s.io/v1beta1",
        since: 37,
        removed: 40,
        instead: "admissionregistration.k8s.io/v1",
        kinds: &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicyBindingList",
            "MutatingAdmissionPolicyList",
        ],
    },
    Deprecated {
        api_version: "admissionregistration.k8s.io/v1beta1",
        since: 16,
        removed: 22,
        instead: "admissionregistration.k8s.io/v1",
        kinds: &[
            "MutatingWebhookConfiguration",
            "MutatingWebhookConfigurationList",
            "ValidatingWebhookConfiguration",
            "ValidatingWebhookConfigurationList",
        ],
    },
    Deprecated {
        api_version: "admissionregistration.k8s.io/v1beta1",
        since: 31,
        removed: 34,
        instead: "",
        kinds: &[
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicyBindingList",
            "ValidatingAdmissionPolicyList",
        ],
    },
    Deprecated {
        api_version: "apps/v1beta1",
        since: 8,
        removed: 16,
        instead: "apps/v1",
        kinds: &[
            "ControllerRevision",
            "ControllerRevisionList",
            "Deployment",
            "DeploymentList",
            "DeploymentRollback",
            "StatefulSet",
            "StatefulSetList",
        ],
    },
    Deprecated {
        api_version: "apps/v1beta1",
        since: 8,
        removed: 16,
        instead: "autoscaling/v1",
        kinds: &["Scale"],
    },
    Deprecated {
        api_version: "apps/v1beta2",
        since: 9,
        removed: 16,
        instead: "apps/v1",
        kinds: &[
            "ControllerRevision",
            "ControllerRevisionList",
            "DaemonSet",
            "DaemonSetList",
            "Deployment",
            "DeploymentList",
            "ReplicaSet",
            "ReplicaSetList",
            "StatefulSet",
            "StatefulSetList",
        ],
    },
    Deprecated {
        api_version: "apps/v1beta2",
        since: 9,
        removed: 16,
        instead: "autoscaling/v1",
        kinds: &["Scale"],
    },
    Deprecated {
        api_version: "authentication.k8s.io/v1alpha1",
        since: 29,
        removed: 32,
        instead: "",
        kinds: &["SelfSubjectReview"],
    },
    Deprecated {
        api_version: "authentication.k8s.io/v1beta1",
        since: 30,
        removed: 33,
        instead: "",
        kinds: &["SelfSubjectReview"],
    },
    Deprecated {
        api_version: "authentication.k8s.io/v1beta1",
        since: 19,
        removed: 22,
        instead: "authentication.k8s.io/v1",
        kinds: &["TokenReview"],
    },
    Deprecated {
        api_version: "authorization.k8s.io/v1beta1",
        since: 19,
        removed: 22,
        instead: "authorization.k8s.io/v1",
        kinds: &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
    },
    Deprecated {
        api_version: "batch/v1beta1",
        since: 21,
        removed: 25,
        instead: "batch/v1",
        kinds: &["CronJob", "CronJobList"],
    },
    Deprecated {
        api_version: "certificates.k8s.io/v1alpha1",
        since: 34,
        removed: 37,
        instead: "",
        kinds: &["ClusterTrustBundle", "ClusterTrustBundleList"],
    },
    Deprecated {
        api_version: "certificates.k8s.io/v1beta1",
        since: 19,
        removed: 22,
        instead: "certificates.k8s.io/v1",
        kinds: &["CertificateSigningRequest", "CertificateSigningRequestList"],
    },
    Deprecated {
        api_version: "certificates.k8s.io/v1beta1",
        since: 37,
        removed: 40,
        instead: "",
        kinds: &["ClusterTrustBundle", "ClusterTrustBundleList"],
    },
    Deprecated {
        api_version: "certificates.k8s.io/v1beta1",
        since: 38,
        removed: 41,
        instead: "",
        kinds: &["PodCertificateRequest", "PodCertificateRequestList"],
    },
    Deprecated {
        api_version: "coordination.k8s.io/v1alpha2",
        since: 35,
        removed: 38,
        instead: "",
        kinds: &["LeaseCandidate", "LeaseCandidateList"],
    },
    Deprecated {
        api_version: "coordination.k8s.io/v1beta1",
        since: 19,
        removed: 22,
        instead: "coordination.k8s.io/v1",
        kinds: &["Lease", "LeaseList"],
    },
    Deprecated {
        api_version: "coordination.k8s.io/v1beta1",
        since: 36,
        removed: 39,
        instead: "",
        kinds: &["LeaseCandidate", "LeaseCandidateList"],
    },
    Deprecated {
        api_version: "discovery.k8s.io/v1beta1",
        since: 21,
        removed: 25,
        instead: "discovery.k8s.io/v1",
        kinds: &["EndpointSlice", "EndpointSliceList"],
    },
    Deprecated {
        api_version: "events.k8s.io/v1beta1",
        since: 22,
        removed: 25,
        instead: "",
        kinds: &["Event", "EventList"],
    },
    Deprecated {
        api_version: "extensions/v1beta1",
        since: 8,
        removed: 16,
        instead: "apps/v1",
        kinds: &[
            "DaemonSet",
            "DaemonSetList",
            "Deployment",
            "DeploymentList",
            "ReplicaSet",
            "ReplicaSetList",
        ],
    },
    Deprecated {
        api_version: "extensions/v1beta1",
        since: 8,
        removed: 16,
        instead: "",
        kinds: &["DeploymentRollback"],
    },
    Deprecated {
        api_version: "extensions/v1beta1",
        since: 14,
        removed: 22,
        instead: "networking.k8s.io/v1",
        kinds: &["Ingress", "IngressList"],
    },
    Deprecated {
        api_version: "extensions/v1beta1",
        since: 9,
        removed: 16,
        instead: "networking.k8s.io/v1",
        kinds: &["NetworkPolicy", "NetworkPolicyList"],
    },
    Deprecated { api_version: "extensions/v1beta1", since: 2, removed: 16, instead: "", kinds: &["Scale"] },
    Deprecated {
        api_version: "flowcontrol.apiserver.k8s.io/v1beta1",
        since: 23,
        removed: 26,
        instead: "flowcontrol.apiserver.k8s.io/v1beta3",
        kinds: &[
            "FlowSchema",
            "FlowSchemaList",
            "PriorityLevelConfiguration",
            "PriorityLevelConfigurationList",
        ],
    },
    Deprecated {
        api_version: "flowcontrol.apiserver.k8s.io/v1beta2",
        since: 26,
        removed: 29,
        instead: "flowcontrol.apiserver.k8s.io/v1beta3",
        kinds: &[
            "FlowSchema",
            "FlowSchemaList",
            "PriorityLevelConfiguration",
            "PriorityLevelConfigurationList",
        ],
    },
    Deprecated {
        api_version: "flowcontrol.apiserver.k8s.io/v1beta3",
        since: 29,
        removed: 32,
        instead: "flowcontrol.apiserver.k8s.io/v1",
        kinds: &[
            "FlowSchema",
            "FlowSchemaList",
            "PriorityLevelConfiguration",
            "PriorityLevelConfigurationList",
        ],
    },
    Deprecated {
        api_version: "networking.k8s.io/v1beta1",
        since: 34,
        removed: 37,
        instead: "",
        kinds: &["IPAddress", "IPAddressList", "ServiceCIDR", "ServiceCIDRList"],
    },
    Deprecated {
        api_version: "networking.k8s.io/v1beta1",
        since: 19,
        removed: 22,
        instead: "networking.k8s.io/v1",
        kinds: &["Ingress", "IngressClass", "IngressClassList", "IngressList"],
    },
    Deprecated {
        api_version: "node.k8s.io/v1beta1",
        since: 22,
        removed: 25,
        instead: "",
        kinds: &["RuntimeClass", "RuntimeClassList"],
    },
    Deprecated { api_version: "policy/v1beta1", since: 22, removed: 25, instead: "", kinds: &["Eviction"] },
    Deprecated {
        api_version: "policy/v1beta1",
        since: 21,
        removed: 25,
        instead: "policy/v1",
        kinds: &["PodDisruptionBudget", "PodDisruptionBudgetList"],
    },
    Deprecated {
        api_version: "rbac.authorization.k8s.io/v1beta1",
        since: 17,
        removed: 22,
        instead: "rbac.authorization.k8s.io/v1",
        kinds: &[
            "ClusterRole",
            "ClusterRoleBinding",
            "ClusterRoleBindingList",
            "ClusterRoleList",
            "Role",
            "RoleBinding",
            "RoleBindingList",
            "RoleList",
        ],
    },
    Deprecated {
        api_version: "resource.k8s.io/v1alpha3",
        since: 36,
        removed: 39,
        instead: "",
        kinds: &["DeviceTaintRule", "DeviceTaintRuleList"],
    },
    Deprecated {
        api_version: "resource.k8s.io/v1alpha3",
        since: 39,
        removed: 42,
        instead: "",
        kinds: &["ResourcePoolStatusRequest", "ResourcePoolStatusRequestList"],
    },
    Deprecated {
        api_version: "resource.k8s.io/v1beta1",
        since: 35,
        removed: 38,
        instead: "",
        kinds: &[
            "DeviceClass",
            "DeviceClassList",
            "ResourceClaim",
            "ResourceClaimList",
            "ResourceClaimTemplate",
            "ResourceClaimTemplateList",
            "ResourceSlice",
            "ResourceSliceList",
        ],
    },
    Deprecated {
        api_version: "resource.k8s.io/v1beta2",
        since: 36,
        removed: 39,
        instead: "",
        kinds: &[
            "DeviceClass",
            "DeviceClassList",
            "ResourceClaim",
            "ResourceClaimList",
            "ResourceClaimTemplate",
            "ResourceClaimTemplateList",
            "ResourceSlice",
            "ResourceSliceList",
        ],
    },
    Deprecated {
        api_version: "resource.k8s.io/v1beta2",
        since: 39,
        removed: 42,
        instead: "",
        kinds: &["DeviceTaintRule", "DeviceTaintRuleList"],
    },
    Deprecated {
        api_version: "scheduling.k8s.io/v1beta1",
        since: 14,
        removed: 22,
        instead: "scheduling.k8s.io/v1",
        kinds: &["PriorityClass", "PriorityClassList"],
    },
    Deprecated {
        api_version: "storage.k8s.io/v1alpha1",
        since: 21,
        removed: 24,
        instead: "storage.k8s.io/v1beta1",
        kinds: &["CSIStorageCapacity", "CSIStorageCapacityList"],
    },
    Deprecated {
        api_version: "storage.k8s.io/v1alpha1",
        since: 21,
        removed: 24,
        instead: "storage.k8s.io/v1",
        kinds: &["VolumeAttachment", "VolumeAttachmentList"],
    },
    Deprecated {
        api_version: "storage.k8s.io/v1alpha1",
        since: 32,
        removed: 35,
        instead: "storage.k8s.io/v1",
        kinds: &["VolumeAttributesClass", "VolumeAttributesClassList"],
    },
    Deprecated {
        api_version: "storage.k8s.io/v1beta1",
        since: 19,
        removed: 22,
        instead: "storage.k8s.io/v1",
        kinds: &[
            "CSIDriver",
            "CSIDriverList",
            "StorageClass",
            "StorageClassList",
            "VolumeAttachment",
            "VolumeAttachmentList",
        ],
    },
    Deprecated {
        api_version: "storage.k8s.io/v1beta1",
        since: 17,
        removed: 22,
        instead: "storage.k8s.io/v1",
        kinds: &["CSINode", "CSINodeList"],
    },
    Deprecated {
        api_version: "storage.k8s.io/v1beta1",
        since: 24,
        removed: 27,
        instead: "storage.k8s.io/v1",
        kinds: &["CSIStorageCapacity", "CSIStorageCapacityList"],
    },
    Deprecated {
        api_version: "storage.k8s.io/v1beta1",
        since: 34,
        removed: 37,
        instead: "storage.k8s.io/v1",
        kinds: &["VolumeAttributesClass", "VolumeAttributesClassList"],
    },
    Deprecated {
        api_version: "storagemigration.k8s.io/v1beta1",
        since: 38,
        removed: 41,
        instead: "",
        kinds: &["StorageVersionMigration", "StorageVersionMigrationList"],
    },
];
