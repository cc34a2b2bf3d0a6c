//! What is special about built-in kinds beyond their schemas: defaults, canonical forms, and the rules
//! that manifests break most.

use convoy_meta::{FieldError, Object, TableColumn};
use convoy_registry::{RequestContext, Strategy};
use convoy_schema::BuiltIn;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::defaults::{self, Defaults};
use crate::{empties, tables};

/// A built-in kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuiltInStrategy {
    kind: &'static str,
    built_in: &'static BuiltIn,
    defaults: Option<Defaults>,
    /// Fields that may not change, by JSON pointer below the object.
    immutable: &'static [&'static str],
}

const IMMUTABLE: &[(&str, &str, &[&str])] = &[
    ("apps", "Deployment", &["/spec/selector"]),
    ("apps", "DaemonSet", &["/spec/selector"]),
    ("apps", "ReplicaSet", &["/spec/selector"]),
    ("batch", "Job", &["/spec/selector", "/spec/template", "/spec/completionMode"]),
    ("rbac.authorization.k8s.io", "RoleBinding", &["/roleRef"]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &["/roleRef"]),
    ("", "Secret", &["/type"]),
];

impl BuiltInStrategy {
    pub(crate) fn of(kind: &'static BuiltIn) -> Self {
        let found = IMMUTABLE.iter().find(|it| (it.0, it.1) == (kind.group.as_str(), kind.kind.as_str()));
        Self {
            kind: &kind.kind,
            built_in: kind,
            defaults: defaults::of(&kind.group, &kind.kind),
            immutable: found.map_or(&[][..], |it| it.2),
        }
    }
}

impl Strategy for BuiltInStrategy {
    fn default_object(&self, object: &mut Value) {
        if let Some(defaults) = self.defaults {
            defaults(object);
        }
        empties::drop_empty(&self.built_in.definition, object);
    }

    fn prepare_for_create(&self, _context: &RequestContext, object: &mut Value) {
        match self.kind {
            "Job" => prepare_job(object),
            "DaemonSet" => count_templates(object, 1),
            "Pod" => defaults::admit_pod(object),
            "PersistentVolumeClaim" => add_finalizer(object, "kubernetes.io/pvc-protection"),
            "PersistentVolume" => add_finalizer(object, "kubernetes.io/pv-protection"),
            _ => {}
        }
    }

    fn prepare_for_update(
        &self,
        _context: &RequestContext,
        subresource: &str,
        object: &mut Value,
        old: &Value,
    ) {
        if self.kind == "DaemonSet" && subresource.is_empty() {
            let annotation = old.pointer("/metadata/annotations").and_then(|it| it.get(TEMPLATE_GENERATION));
            let before = annotation.and_then(|it| it.as_str()?.parse().ok()).unwrap_or(0_u64);
            let changed = object["spec"]["template"] != old["spec"]["template"];
            count_templates(object, before + u64::from(changed));
        }
    }

    fn validate(&self, _context: &RequestContext, object: &Value) -> Vec<FieldError> {
        match self.kind {
            "Service" => validate_ports(object),
            "Deployment" | "DaemonSet" | "ReplicaSet" | "StatefulSet" => validate_selector(object),
            "Pod" => validate_containers(object, "spec"),
            _ => Vec::new(),
        }
    }

    fn validate_update(
        &self,
        _context: &RequestContext,
        subresource: &str,
        object: &Value,
        old: &Value,
    ) -> Vec<FieldError> {
        if !subresource.is_empty() {
            return Vec::new();
        }
        let mut errors: Vec<FieldError> = Vec::new();
        for pointer in self.immutable {
            let (new, before) = (object.pointer(pointer), old.pointer(pointer));
            if new != before {
                let field = pointer.trim_start_matches('/').replace('/', ".");
                errors.push(match field.as_str() {
                    "roleRef" => {
                        FieldError::invalid(field, new.cloned().unwrap_or_default(), "cannot change roleRef")
                    }
                    _ => FieldError::invalid(field, new.cloned().unwrap_or_default(), "field is immutable"),
                });
            }
        }
        if matches!(self.kind, "ConfigMap" | "Secret") && old["immutable"] == true {
            let changed =
                ["data", "binaryData", "immutable"].iter().find(|field| object[**field] != old[**field]);
            errors
                .extend(changed.map(|field| {
                    FieldError::forbidden(*field, "field is immutable when `immutable` is set")
                }));
        }
        errors.extend(self.stateful_set_update(object, old));
        errors
    }

    fn table_columns(&self) -> Option<Vec<TableColumn>> {
        Some(tables::columns(self.built_in))
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        tables::cells(self.built_in, object, now)
    }

    fn canonicalise(&self, object: &mut Value) {
        defaults::canonicalise_quantities(self.kind, object);
        empties::drop_empty(&self.built_in.definition, object);
        empties::print_nulls(&self.built_in.definition, object);
    }
}

impl BuiltInStrategy {
    fn stateful_set_update(&self, object: &Value, old: &Value) -> Option<FieldError> {
        const FREE: [&str; 7] = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        if self.kind != "StatefulSet" {
            return None;
        }
        let fixed = |object: &Value| {
            let mut spec = object["spec"].clone();
            if let Some(fields) = spec.as_object_mut() {
                fields.retain(|name, _| !FREE.contains(&name.as_str()));
            }
            spec
        };
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden";
        (fixed(object) != fixed(old)).then(|| FieldError::forbidden("spec", detail))
    }
}

/// Where a DaemonSet counts the changes of its template.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn count_templates(daemon_set: &mut Value, generation: u64) {
    let Some(metadata) = daemon_set.get_mut("metadata").filter(|it| it.is_object()) else { return };
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][TEMPLATE_GENERATION] = json!(generation.to_string());
}

fn validate_ports(service: &Value) -> Vec<FieldError> {
    let ports = service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut errors = Vec::new();
    if ports.is_empty() && service["spec"]["type"] != "ExternalName" && service["spec"]["clusterIP"] != "None"
    {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("spec.ports[{index}].name"), ""));
        }
        if !port["port"].as_i64().is_some_and(|number| (1..=65_535).contains(&number)) {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(
                format!("spec.ports[{index}].port"),
                port["port"].clone(),
                detail,
            ));
        }
    }
    errors
}

fn add_finalizer(object: &mut Value, name: &str) {
    let mut finalizers: Vec<String> = object.finalizers().into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|it| it == name) {
        finalizers.push(name.to_owned());
        object.set_finalizers(&finalizers);
    }
}

/// A Job selects its pods by its uid, unless it says that it selects them itself.
fn prepare_job(job: &mut Value) {
    let (uid, name) = (job.uid().to_owned(), job.name().to_owned());
    let Some(spec) = job.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if spec["manualSelector"] == true {
        return;
    }
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    if !spec["template"].is_object() {
        return;
    }
    if !spec["template"]["metadata"].is_object() {
        spec["template"]["metadata"] = json!({});
    }
    let metadata = &mut spec["template"]["metadata"];
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    let before = metadata["labels"].clone();
    for (label, value) in labels {
        metadata["labels"][label] = json!(value);
    }
    let all = metadata["labels"].clone();
    spec["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    // Labels that were taken from the template follow it.
    let own = &job["metadata"]["labels"];
    if own.as_object().is_none_or(serde_json::Map::is_empty) || *own == before {
        job["metadata"]["labels"] = all;
    }
}

fn validate_selector(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let labels = &object["spec"]["selector"]["matchLabels"];
    let expressions = &object["spec"]["selector"]["matchExpressions"];
    let empty = |value: &Value| match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if empty(labels) && empty(expressions) {
        errors.push(if object["spec"]["selector"].is_null() {
            FieldError::required("spec.selector", "")
        } else {
            FieldError::invalid(
                "spec.selector",
                object["spec"]["selector"].clone(),
                "empty selector is invalid for deployment",
            )
        });
    }
    let template = &object["spec"]["template"]["metadata"]["labels"];
    let missing =
        labels.as_object().into_iter().flatten().any(|(name, value)| template.get(name) != Some(value));
    if missing {
        let value = if template.is_null() { json!({}) } else { template.clone() };
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", value, detail));
    }
    errors.extend(validate_containers(&object["spec"]["template"], "spec.template.spec"));
    errors
}

/// `owner` has the pod's spec in `spec`, which the errors call `path`.
fn validate_containers(owner: &Value, path: &str) -> Vec<FieldError> {
    let containers = owner["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut errors = Vec::new();
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(format!("{path}.containers[{index}].{field}"), ""));
            }
        }
        let name = container["name"].as_str().unwrap_or_default();
        if !name.is_empty() && containers.iter().take(index).any(|other| other["name"] == name) {
            errors.push(FieldError::duplicate(format!("{path}.containers[{index}].name"), name));
        }
    }
    errors
}
