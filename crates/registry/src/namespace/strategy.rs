use std::sync::Arc;

use convoy_meta::{Object, TableColumn, time, validation};
use serde_json::{Value, json};

use crate::{RequestContext, ResourceDef, Scope, Strategy, Subresource, Verb};

/// The finalizer in `spec.finalizers` that stands for a namespace's content.
pub(super) const FINALIZER: &str = "kubernetes";

/// The resource of core/v1 Namespaces, without a schema.
pub fn namespaces() -> ResourceDef {
    let mut def = ResourceDef::new("", "v1", "Namespace", "namespaces", Scope::Cluster);
    def.short_names = vec!["ns".to_owned()];
    // A collection of namespaces is not deleted in one request.
    def.verbs.retain(|verb| *verb != Verb::DeleteCollection);
    let finalize = Subresource { name: "finalize".to_owned(), kind: None, verbs: vec![Verb::Update] };
    def.subresources = vec![Subresource::status(), finalize];
    def.selectable_fields = vec!["status.phase".to_owned()];
    def.strategy = Arc::new(NamespaceStrategy);
    def.name_check = validation::dns1123_label;
    def.generation = false;
    def.unconditional_update = true;
    def.strategic_patch = true;
    def.return_deleted_object = true;
    def
}

/// What is special about Namespaces.
#[derive(Debug, Clone, Copy, Default)]
pub struct NamespaceStrategy;

impl NamespaceStrategy {
    fn has_spec_finalizers(object: &Value) -> bool {
        object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    }

    fn label(object: &mut Value) {
        let name = object.name().to_owned();
        if !name.is_empty() {
            object.set_label("kubernetes.io/metadata.name", Some(&name));
        }
    }
}

impl Strategy for NamespaceStrategy {
    fn default_object(&self, object: &mut Value) {
        Self::label(object);
    }

    fn prepare_for_create(&self, _: &RequestContext, object: &mut Value) {
        Self::label(object);
        let mut finalizers: Vec<Value> =
            object.pointer("/spec/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        if !finalizers.contains(&json!(FINALIZER)) {
            finalizers.push(json!(FINALIZER));
        }
        if let Value::Object(map) = object {
            map.insert("spec".to_owned(), json!({ "finalizers": finalizers }));
            map.insert("status".to_owned(), json!({ "phase": "Active" }));
        }
    }

    fn prepare_for_update(&self, _: &RequestContext, subresource: &str, object: &mut Value, old: &Value) {
        if let Value::Object(map) = &mut *object {
            for (field, endpoint) in [("status", "status"), ("spec", "finalize")] {
                match old.get(field) {
                    _ if subresource == endpoint => {}
                    Some(value) => drop(map.insert(field.to_owned(), value.clone())),
                    None => drop(map.remove(field)),
                }
            }
        }
        Self::label(object);
    }

    fn begin_deletion(&self, _: &RequestContext, object: &mut Value) {
        if let Value::Object(map) = object {
            let status = map.entry("status").or_insert_with(|| json!({}));
            if let Value::Object(status) = status {
                status.insert("phase".to_owned(), json!("Terminating"));
            }
        }
    }

    fn may_be_removed(&self, object: &Value) -> bool {
        !Self::has_spec_finalizers(object)
    }

    fn table_columns(&self) -> Option<Vec<TableColumn>> {
        let status = "The status of the namespace";
        Some(vec![
            TableColumn::name_column(),
            TableColumn::new("Status", "string", status),
            TableColumn::age_column(),
        ])
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let phase = object.pointer("/status/phase").cloned().unwrap_or_else(|| json!(""));
        let age = object.creation_timestamp().map_or("<unknown>".to_owned(), |at| time::age(at, now));
        vec![json!(object.name()), phase, json!(age)]
    }
}
