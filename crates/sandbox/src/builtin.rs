//! The resources of the built-in kinds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use convoy_meta::{GroupVersionKind, validation};
use convoy_registry::namespace::NamespaceStrategy;
use convoy_registry::{RequestContext, ResourceDef, Scope, Strategy, Subresource, Verb};
use convoy_schema::{BuiltIn, catalogue};
use convoy_smd::{SchemaError, SchemaSet};
use serde_json::{Value, json};

use crate::custom_resources::CustomResourceDefinitionStrategy;
use crate::defaults;

/// All built-in kinds that can be stored, each in the version that the server prefers. Reviews and the
/// like, which answer and store nothing, are the API server's own.
///
/// # Errors
/// When the catalogue holds a schema that cannot be merged by; a test keeps that from happening.
pub(crate) fn resources() -> Result<Vec<ResourceDef>, SchemaError> {
    let catalogue = catalogue();
    let merge_schemas = SchemaSet::from_openapi(&Value::Object(catalogue.schemas.clone()))?;
    let addresses = Arc::new(AtomicU32::new(0));
    let mut seen = BTreeSet::new();
    let mut definitions = Vec::new();
    for kind in &catalogue.kinds {
        let stored = ["create", "list", "get"].iter().all(|verb| kind.verbs.iter().any(|it| it == verb));
        if stored && seen.insert((kind.group.as_str(), kind.plural.as_str())) {
            let mut def = definition(kind, &addresses);
            def.schema = catalogue.structural(kind);
            if let Some(schema) = merge_schemas.get(&kind.definition) {
                def.merge_schema = schema;
            }
            definitions.push(def);
        }
    }
    Ok(definitions)
}

fn definition(kind: &BuiltIn, addresses: &Arc<AtomicU32>) -> ResourceDef {
    let scope = if kind.namespaced { Scope::Namespaced } else { Scope::Cluster };
    let mut def = ResourceDef::new(&kind.group, &kind.version, &kind.kind, &kind.plural, scope);
    def.singular.clone_from(&kind.singular);
    def.short_names.clone_from(&kind.short_names);
    def.categories.clone_from(&kind.categories);
    def.verbs =
        Verb::ALL.into_iter().filter(|verb| kind.verbs.iter().any(|it| it == verb.as_str())).collect();
    // Only the status is simulated; logs, exec, scale and the like have nothing behind them.
    if kind.subresources.iter().any(|subresource| subresource.name == "status") {
        def.subresources.push(Subresource::status());
    }
    def.strategic_patch = true;
    def.unconditional_update = true;
    def.create_on_update = matches!(kind.kind.as_str(), "Lease" | "Endpoints" | "EndpointSlice" | "Event");
    def.generation = has_generation(kind);
    def.selectable_fields = selectable_fields(kind);
    def.strategy = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => {
            def.subresources.push(Subresource {
                name: "finalize".to_owned(),
                kind: None::<GroupVersionKind>,
                verbs: vec![Verb::Update],
            });
            def.return_deleted_object = true;
            Arc::new(NamespaceStrategy)
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Arc::new(CustomResourceDefinitionStrategy),
        (group, name) => Arc::new(BuiltInStrategy {
            group: group.to_owned(),
            kind: name.to_owned(),
            addresses: Arc::clone(addresses),
        }),
    };
    if matches!(kind.kind.as_str(), "Namespace" | "Service") {
        def.name_check = validation::dns1123_label;
    }
    if kind.group == "rbac.authorization.k8s.io" {
        def.name_check = path_segment;
    }
    def
}

/// RBAC names may be anything that can stand in a path (`path.ValidatePathSegmentName` in apimachinery).
fn path_segment(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name == "." || name == ".." {
        problems.push(format!("may not be '{name}'"));
    }
    for part in ["/", "%"] {
        if name.contains(part) {
            problems.push(format!("may not contain '{part}'"));
        }
    }
    problems
}

/// Kinds whose spec changes are counted; the others have no `metadata.generation`.
fn has_generation(kind: &BuiltIn) -> bool {
    match kind.group.as_str() {
        "" => matches!(kind.kind.as_str(), "ReplicationController" | "Pod"),
        "rbac.authorization.k8s.io"
        | "coordination.k8s.io"
        | "events.k8s.io"
        | "discovery.k8s.io"
        | "storage.k8s.io"
        | "node.k8s.io" => false,
        _ => true,
    }
}

fn selectable_fields(kind: &BuiltIn) -> Vec<String> {
    let fields: &[&str] = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
        ],
        ("", "Namespace") => &["status.phase"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "Node") => &["spec.unschedulable"],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => &["status.replicas"],
        ("batch", "Job") => &["status.successful"],
        ("", "Event") => &[
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
        _ => &[],
    };
    fields.iter().map(|field| (*field).to_owned()).collect()
}

/// What is special about a built-in kind.
#[derive(Debug)]
struct BuiltInStrategy {
    group: String,
    kind: String,
    /// How many service addresses were given out; shared by all kinds of a cluster.
    addresses: Arc<AtomicU32>,
}

impl BuiltInStrategy {
    /// Gives a Service what the server allots: addresses and node ports.
    fn allot(&self, service: &mut Value) {
        let spec = &mut service["spec"];
        let kind = spec["type"].as_str().unwrap_or_default().to_owned();
        if kind == "ExternalName" || spec["clusterIP"] == "None" {
            return;
        }
        if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
            // 10.96.0.0/12 as kubeadm has it; 10.96.0.1 is the API server's.
            let number = 2 + self.addresses.fetch_add(1, Ordering::Relaxed) % ((1 << 20) - 3);
            let [a, b, c, d] = (0x0a60_0000 + number).to_be_bytes();
            spec["clusterIP"] = json!(format!("{a}.{b}.{c}.{d}"));
        }
        if spec["clusterIPs"].is_null() {
            spec["clusterIPs"] = json!([spec["clusterIP"]]);
        }
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            for port in spec["ports"].as_array_mut().into_iter().flatten() {
                if port["nodePort"].as_u64().unwrap_or(0) == 0 {
                    port["nodePort"] = json!(30_000 + self.addresses.fetch_add(1, Ordering::Relaxed) % 2768);
                }
            }
        }
    }

    /// An update that does not say what was allotted keeps it.
    fn keep_allotted(service: &mut Value, old: &Value) {
        if old["spec"]["clusterIP"].is_null() || service["spec"]["type"] == "ExternalName" {
            return;
        }
        for field in ["clusterIP", "clusterIPs"] {
            if service["spec"][field].as_str().is_none_or(str::is_empty) && !service["spec"][field].is_array()
            {
                service["spec"][field] = old["spec"][field].clone();
            }
        }
        let old_ports = old["spec"]["ports"].as_array().cloned().unwrap_or_default();
        for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
            let same = old_ports
                .iter()
                .find(|old| old["port"] == port["port"] && old["protocol"] == port["protocol"]);
            if let Some(node_port) = same.map(|old| &old["nodePort"]).filter(|number| !number.is_null())
                && port["nodePort"].is_null()
            {
                port["nodePort"] = node_port.clone();
            }
        }
    }
}

impl Strategy for BuiltInStrategy {
    fn default_object(&self, object: &mut Value) {
        defaults::set(&self.group, &self.kind, object);
    }

    fn prepare_for_create(&self, _: &RequestContext, object: &mut Value) {
        // A Job's selector is made of its uid, which it has only now.
        defaults::set(&self.group, &self.kind, object);
        if self.kind == "Service" && self.group.is_empty() {
            self.allot(object);
        }
    }

    fn prepare_for_update(&self, _: &RequestContext, subresource: &str, object: &mut Value, old: &Value) {
        if self.kind == "Service" && self.group.is_empty() && subresource.is_empty() {
            Self::keep_allotted(object, old);
            self.allot(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_kind_that_manifests_hold_is_served() {
        let resources = resources().unwrap();
        for (group, kind) in [
            ("", "Namespace"),
            ("", "Secret"),
            ("apps", "Deployment"),
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
            ("networking.k8s.io", "Ingress"),
            ("policy", "PodDisruptionBudget"),
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("autoscaling", "HorizontalPodAutoscaler"),
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ] {
            let def = resources.iter().find(|def| def.group == group && def.kind == kind);
            let def = def.unwrap_or_else(|| panic!("{group}/{kind} is not served"));
            assert!(def.schema.is_some(), "{group}/{kind} has no schema");
        }
        assert!(resources.len() > 50, "{}", resources.len());
    }

    #[test]
    fn a_service_keeps_its_address_when_an_update_does_not_name_it() {
        let strategy =
            BuiltInStrategy { group: String::new(), kind: "Service".to_owned(), addresses: Arc::default() };
        let mut old = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}});
        strategy.allot(&mut old);
        assert_eq!(old["spec"]["clusterIP"], "10.96.0.2");
        let mut new = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}});
        BuiltInStrategy::keep_allotted(&mut new, &old);
        assert_eq!(new, old);
    }
}
