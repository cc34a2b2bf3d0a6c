//! Kubernetes' built-in kinds, from the catalogue.

use std::sync::{Arc, LazyLock};

use convoy_meta::{GroupVersionKind, validation};
use convoy_registry::{ResourceDef, Scope, Strategy, Subresource, Verb};
use convoy_schema::{BuiltIn, Definitions, Structural, catalogue};
use convoy_smd::SchemaSet;
use serde_json::{Map, Value};

use super::columns;
use super::core_strategies;

/// What a control plane that stands alone serves besides convoy's kinds.
const CORE: [(&str, &str); 18] = [
    ("", "namespaces"),
    ("", "secrets"),
    ("", "configmaps"),
    ("", "events"),
    ("", "serviceaccounts"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("", "bindings"),
];

/// The kinds that a control plane which stands alone needs: namespaces, configuration, leases, events,
/// identities, permissions and reviews, each in its stable version.
pub fn core() -> Vec<ResourceDef> {
    let wanted = |kind: &&BuiltIn| {
        kind.version == "v1" && kind.plural != "bindings" && CORE.contains(&(&*kind.group, &*kind.plural))
    };
    catalogue().kinds.iter().filter(wanted).map(built_in).collect()
}

static MERGE_SCHEMAS: LazyLock<Option<SchemaSet>> = LazyLock::new(|| {
    let components = Value::Object(catalogue().schemas.clone());
    SchemaSet::from_openapi(&components).inspect_err(|error| tracing::error!(%error, "merge schemas")).ok()
});

const SECRET: &str = "io.k8s.api.core.v1.Secret";

/// The schema of Secrets without the format of their data: the message of a schema repeats the value at
/// fault, which must not happen here. The strategy checks the format.
static SECRET_SCHEMA: LazyLock<Option<Structural>> = LazyLock::new(|| {
    let needed = |name: &str| name == SECRET || name.starts_with("io.k8s.apimachinery.");
    let all = catalogue().schemas.iter().filter(|(name, _)| needed(name));
    let mut schemas: Map<String, Value> = all.map(|(name, schema)| (name.clone(), schema.clone())).collect();
    let items = schemas
        .get_mut(SECRET)
        .and_then(|schema| schema.pointer_mut("/properties/data/additionalProperties"));
    if let Some(items) = items.and_then(Value::as_object_mut) {
        items.remove("format");
    }
    Definitions::new(&schemas).ok()?.structural(SECRET)
});

fn verb(name: &String) -> Option<Verb> {
    Verb::ALL.into_iter().find(|verb| verb.as_str() == name)
}

/// A built-in kind as kube-apiserver serves it: its names, schema, columns and what is special.
pub fn built_in(kind: &BuiltIn) -> ResourceDef {
    let scope = if kind.namespaced { Scope::Namespaced } else { Scope::Cluster };
    let mut def = ResourceDef::new(&kind.group, &kind.version, &kind.kind, &kind.plural, scope);
    def.singular.clone_from(&kind.singular);
    def.short_names.clone_from(&kind.short_names);
    def.categories.clone_from(&kind.categories);
    def.verbs = kind.verbs.iter().filter_map(verb).collect();
    def.subresources = kind
        .subresources
        .iter()
        .map(|sub| {
            let own = (&sub.group, &sub.version, &sub.kind) == (&kind.group, &kind.version, &kind.kind);
            let answer = GroupVersionKind::new(sub.group.as_str(), sub.version.as_str(), sub.kind.as_str());
            Subresource {
                name: sub.name.clone(),
                kind: (!own).then_some(answer),
                verbs: sub.verbs.iter().filter_map(verb).collect(),
            }
        })
        .collect();
    def.schema = if kind.definition == SECRET { SECRET_SCHEMA.clone() } else { catalogue().structural(kind) };
    if let Some(schema) = MERGE_SCHEMAS.as_ref().and_then(|set| set.get(&kind.definition)) {
        def.merge_schema = schema;
    }
    def.strategic_patch = true;
    def.unconditional_update = !matches!(kind.plural.as_str(), "leases" | "services" | "nodes" | "endpoints");
    def.generation = has_generation(kind);
    def.name_check = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => validation::dns1123_label,
        ("", "services") => validation::dns1035_label,
        ("rbac.authorization.k8s.io", _) => validation::path_segment_name,
        _ => validation::dns1123_subdomain,
    };
    def.create_on_update = matches!(kind.plural.as_str(), "leases" | "events" | "endpoints")
        || kind.group == "rbac.authorization.k8s.io";
    def.return_deleted_object = matches!(
        (kind.group.as_str(), kind.plural.as_str()),
        (
            "",
            "namespaces"
                | "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "resourcequotas"
        )
    );
    if kind.plural == "events" {
        // events.k8s.io and core show the same objects, each in its own words.
        def.storage_path =
            if kind.group.is_empty() { "events".into() } else { "events.k8s.io/events".into() };
    }
    def.selectable_fields = selectable(kind);
    let special: Arc<dyn Strategy> = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => Arc::new(convoy_registry::namespace::NamespaceStrategy),
        ("", "secrets") => Arc::new(core_strategies::Secrets),
        ("", "configmaps") => Arc::new(core_strategies::ConfigMaps),
        ("coordination.k8s.io", "leases") => Arc::new(core_strategies::Leases),
        _ => Arc::new(columns::Printed::of(kind)),
    };
    def.strategy = special;
    def
}

/// Kinds whose spec changes are counted.
fn has_generation(kind: &BuiltIn) -> bool {
    matches!(
        kind.group.as_str(),
        "apps"
            | "batch"
            | "networking.k8s.io"
            | "policy"
            | "autoscaling"
            | "apiextensions.k8s.io"
            | "admissionregistration.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
    ) || kind.plural == "replicationcontrollers"
        || kind.plural == "pods"
}

fn selectable(kind: &BuiltIn) -> Vec<String> {
    let fields: &[&str] = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "reason",
            "reportingController",
            "type",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
        ],
        ("batch", "jobs") => &["status.successful"],
        _ => &[],
    };
    fields.iter().map(|field| (*field).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_plane_that_stands_alone_has_what_it_needs() {
        let all = core();
        assert_eq!(all.len(), CORE.len() - 1);
        let secret = all.iter().find(|def| def.plural == "secrets").unwrap();
        assert!(secret.schema.is_some() && secret.strategic_patch && !secret.generation);
        let account = all.iter().find(|def| def.plural == "serviceaccounts").unwrap();
        assert!(account.subresource("token").is_some());
        let review = all.iter().find(|def| def.plural == "selfsubjectreviews").unwrap();
        assert_eq!(review.verbs, [Verb::Create]);
    }
}
