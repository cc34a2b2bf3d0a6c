//! The built-in kinds as resources of the registry.

use std::sync::{Arc, LazyLock};

use convoy_meta::{GroupVersionKind, validation};
use convoy_registry::{ResourceDef, Scope, Strategy, Subresource, Verb, namespace};
use convoy_schema::{BuiltIn, catalogue};
use convoy_smd::SchemaSet;
use serde_json::Value;

use crate::custom_resources::DefinitionStrategy;
use crate::empties;
use crate::strategy::BuiltInStrategy;

/// Kinds of which nothing is stored: a request is answered at once.
pub(crate) const REVIEWS: &[(&str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Workloads that can be scaled.
pub(crate) const SCALABLE: &[(&str, &str)] = &[
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("", "replicationcontrollers"),
];

/// Whose name may be any part of a path.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Kinds whose `metadata.generation` kube-apiserver keeps.
const WITH_GENERATION: &[&str] = &[
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "DeviceClass",
    "FlowSchema",
    "Ingress",
    "IngressClass",
    "Job",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "NetworkPolicy",
    "Pod",
    "PodDisruptionBudget",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "EndpointSlice",
    "PodTemplate",
];

/// Kinds whose finished deletion is answered with the object.
const RETURNS_DELETED: &[&str] = &[
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "ResourceQuota",
    "Service",
    "ServiceAccount",
    "StorageClass",
    "CSIDriver",
    "CSINode",
    "VolumeAttachment",
    "PodSecurityPolicy",
];

/// All built-in kinds.
pub(crate) fn built_in() -> Vec<ResourceDef> {
    static DEFINITIONS: LazyLock<Vec<ResourceDef>> = LazyLock::new(make);
    DEFINITIONS.clone()
}

fn make() -> Vec<ResourceDef> {
    let schemas = Value::Object(catalogue().schemas.clone());
    let merge_schemas = SchemaSet::from_openapi(&schemas).ok();
    // Horizontal pod autoscalers have two versions that would have to be converted; the newer is served.
    let served = |kind: &&'static BuiltIn| {
        !matches!(kind.kind.as_str(), "Binding" | "ComponentStatus")
            && (kind.group != "autoscaling" || kind.version == "v2")
    };
    catalogue().kinds.iter().filter(served).map(|kind| definition(kind, merge_schemas.as_ref())).collect()
}

fn definition(kind: &'static BuiltIn, merge_schemas: Option<&SchemaSet>) -> ResourceDef {
    let scope = if kind.namespaced { Scope::Namespaced } else { Scope::Cluster };
    let mut def = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => namespace::namespaces(),
        _ => {
            let mut def = ResourceDef::new(&kind.group, &kind.version, &kind.kind, &kind.plural, scope);
            def.strategy = strategy(kind);
            def
        }
    };
    def.singular.clone_from(&kind.singular);
    def.short_names.clone_from(&kind.short_names);
    def.categories.clone_from(&kind.categories);
    def.verbs = verbs(&kind.verbs);
    def.subresources = subresources(kind);
    def.schema = catalogue().structural(kind);
    if let Some(schema) = merge_schemas.and_then(|schemas| schemas.get(&kind.definition)) {
        def.merge_schema = schema;
    }
    def.strategic_patch = true;
    def.selectable_fields = selectable_fields(kind).iter().map(|path| (*path).to_owned()).collect();
    def.name_check = match (kind.group.as_str(), kind.kind.as_str()) {
        (RBAC, _) => validation::path_segment_name,
        ("", "Service") => validation::dns1035_label,
        ("", "Namespace") => validation::dns1123_label,
        _ => validation::dns1123_subdomain,
    };
    def.empty = Some(empties::zero(kind));
    def.unconditional_update = true;
    def.create_on_update = kind.group == RBAC
        || matches!(kind.kind.as_str(), "Endpoints" | "Event" | "Lease" | "LimitRange" | "Service");
    def.return_deleted_object = RETURNS_DELETED.contains(&kind.kind.as_str());
    def.generation = WITH_GENERATION.contains(&kind.kind.as_str());
    def
}

fn strategy(kind: &'static BuiltIn) -> Arc<dyn Strategy> {
    match kind.kind.as_str() {
        "CustomResourceDefinition" => Arc::new(DefinitionStrategy),
        _ => Arc::new(BuiltInStrategy::of(kind)),
    }
}

fn verbs(names: &[String]) -> Vec<Verb> {
    Verb::ALL.into_iter().filter(|verb| names.iter().any(|name| name == verb.as_str())).collect()
}

/// Those that are served; the others need containers, nodes or tokens.
fn subresources(kind: &BuiltIn) -> Vec<Subresource> {
    let served =
        kind.subresources.iter().filter(|it| matches!(it.name.as_str(), "finalize" | "scale" | "status"));
    served
        .map(|it| Subresource {
            name: it.name.clone(),
            kind: Some(GroupVersionKind::new(it.group.as_str(), it.version.as_str(), it.kind.as_str())),
            verbs: verbs(&it.verbs),
        })
        .collect()
}

fn selectable_fields(kind: &BuiltIn) -> &'static [&'static str] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Event") => &[
            "involvedObject.apiVersion",
            "involvedObject.fieldPath",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.resourceVersion",
            "involvedObject.uid",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("", "Namespace") => &["status.phase"],
        ("", "Node") => &["spec.unschedulable"],
        ("", "Pod") => &[
            "spec.hostNetwork",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.nominatedNodeName",
            "status.phase",
            "status.podIP",
        ],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => &["status.replicas"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("batch", "Job") => &["status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["spec.signerName"],
        _ => &[],
    }
}
