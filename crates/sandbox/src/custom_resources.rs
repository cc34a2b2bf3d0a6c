//! CustomResourceDefinitions: what they define is served as soon as they are established, and goes
//! with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use convoy_apiserver::filters::Now;
use convoy_apiserver::openapi::OpenApi;
use convoy_meta::{DeleteOptions, FieldError, GetOptions, ListOptions, Object, Status, TableColumn, time};
use convoy_registry::{
    Body, PrinterColumn, Registry, RequestContext, Resource, ResourceDef, Scope, Strategy, Subresource, Verb,
};
use convoy_schema::openapi::custom_resource_schemas;
use convoy_schema::{Structural, catalogue};
use convoy_smd::Schema;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::tables;

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
const USER: &str = "system:apiserver";
const GROUP: &str = "apiextensions.k8s.io";

/// What is special about CustomResourceDefinitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DefinitionStrategy;

impl Strategy for DefinitionStrategy {
    fn default_object(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        if spec["conversion"].is_null() {
            spec["conversion"] = json!({"strategy": "None"});
        }
        let Some(names) = spec.get_mut("names").filter(|names| names.is_object()) else { return };
        let kind = names["kind"].as_str().unwrap_or_default().to_owned();
        if names["singular"].as_str().unwrap_or_default().is_empty() {
            names["singular"] = Value::from(kind.to_ascii_lowercase());
        }
        if names["listKind"].as_str().unwrap_or_default().is_empty() && !kind.is_empty() {
            names["listKind"] = Value::from(format!("{kind}List"));
        }
    }

    fn validate(&self, _context: &RequestContext, object: &Value) -> Vec<FieldError> {
        validate(object)
    }

    fn table_columns(&self) -> Option<Vec<TableColumn>> {
        let kind = catalogue().resource(GROUP, "v1", "customresourcedefinitions")?;
        Some(tables::columns(kind))
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let kind = catalogue().resource(GROUP, "v1", "customresourcedefinitions");
        kind.map(|kind| tables::cells(kind, object, now)).unwrap_or_default()
    }

    fn begin_deletion(&self, _context: &RequestContext, object: &mut Value) {
        let mut finalizers: Vec<String> = object.finalizers().into_iter().map(str::to_owned).collect();
        finalizers.push(CLEANUP.to_owned());
        object.set_finalizers(&finalizers);
    }

    fn may_be_removed(&self, object: &Value) -> bool {
        !object.finalizers().contains(&CLEANUP)
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    for (field, value) in
        [("spec.group", group), ("spec.names.plural", plural), ("spec.names.kind", text("/spec/names/kind"))]
    {
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
    }
    let want = format!("{plural}.{group}");
    if object.name() != want {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", object.name(), detail));
    }
    if !matches!(text("/spec/scope"), "Namespaced" | "Cluster") {
        errors.push(FieldError::not_supported("spec.scope", text("/spec/scope"), &["Cluster", "Namespaced"]));
    }
    let mut storage = 0;
    for (index, version) in versions(object).enumerate() {
        let path = format!("spec.versions[{index}]");
        if version["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        storage += usize::from(version["storage"] == true);
        match version.pointer("/schema/openAPIV3Schema") {
            None => {
                let detail = "schemas are required";
                errors.push(FieldError::required(format!("{path}.schema.openAPIV3Schema"), detail));
            }
            Some(schema) => {
                let path = format!("{path}.schema.openAPIV3Schema");
                if schema["type"] != "object" {
                    let detail = "must be object at the root";
                    let value = schema["type"].as_str().unwrap_or_default();
                    errors.push(match value {
                        "" => FieldError::required(format!("{path}.type"), "must not be empty at the root"),
                        value => FieldError::invalid(format!("{path}.type"), value, detail),
                    });
                }
                if let Err(error) = Structural::new(schema) {
                    errors.push(FieldError::invalid(path, "", error.to_string()));
                }
            }
        }
    }
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", object["spec"]["versions"].clone(), detail));
    }
    errors
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

/// Serves what definitions define.
#[derive(Debug)]
pub(crate) struct Controller {
    registry: Arc<Registry>,
    openapi: Arc<OpenApi>,
    now: ClockFn,
}

#[derive(Clone)]
struct ClockFn(Now);

impl std::fmt::Debug for ClockFn {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Now")
    }
}

impl Controller {
    pub(crate) fn new(registry: Arc<Registry>, openapi: Arc<OpenApi>, now: Now) -> Self {
        Self { registry, openapi, now: ClockFn(now) }
    }

    /// Brings the server in line with a definition. Returns whether it has to be looked at again soon.
    pub(crate) async fn reconcile(&self, definition: &Value) -> bool {
        let result = if definition.is_deleting() {
            self.remove(definition).await
        } else {
            self.establish(definition).await.map(|()| false)
        };
        result.unwrap_or_else(|status| {
            tracing::debug!(%status, name = definition.name(), "the definition is tried again");
            true
        })
    }

    async fn establish(&self, definition: &Value) -> Result<(), Status> {
        let established =
            definition.pointer("/status/conditions").and_then(Value::as_array).is_some_and(|it| {
                it.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
            });
        let generation = definition.generation();
        if established
            && definition.pointer("/status/observedGeneration").and_then(Value::as_i64) == Some(generation)
        {
            return Ok(());
        }
        let defs = definitions(definition);
        for (version, def) in versions(definition).filter(|it| it["served"] == true).zip(&defs) {
            let schema = version.pointer("/schema/openAPIV3Schema");
            let schemas =
                custom_resource_schemas(&def.group, &def.version, &def.kind, &def.list_kind, schema);
            self.openapi.add_schemas(schemas);
        }
        self.registry.table().install(defs);

        let now = time::format((self.now.0)());
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": now, "observedGeneration": generation})
        };
        let stored: BTreeSet<&str> = versions(definition)
            .filter(|it| it["storage"] == true)
            .filter_map(|it| it["name"].as_str())
            .chain(strings(definition, "/status/storedVersions"))
            .collect();
        let mut changed = definition.clone();
        changed["status"] = json!({
            "acceptedNames": definition["spec"]["names"],
            "conditions": [
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
            "storedVersions": stored,
            "observedGeneration": generation,
        });
        self.write(changed, "status").await
    }

    async fn remove(&self, definition: &Value) -> Result<bool, Status> {
        if !definition.finalizers().contains(&CLEANUP) {
            return Ok(false);
        }
        let context = RequestContext::internal(USER, (self.now.0)());
        let defs = definitions(definition);
        let mut left = 0;
        if let Some(def) = defs.first()
            && let Some(resource) = self.registry.table().find(&def.group, &def.version, &def.plural)
        {
            left = self.empty(&context, &resource).await?;
        }
        if left > 0 {
            return Ok(true);
        }
        for def in &defs {
            self.registry.table().remove(&def.group, &def.version, &def.plural);
        }
        let mut changed = definition.clone();
        let finalizers: Vec<String> =
            definition.finalizers().into_iter().filter(|it| *it != CLEANUP).map(str::to_owned).collect();
        changed.set_finalizers(&finalizers);
        self.write(changed, "").await?;
        Ok(false)
    }

    /// Deletes all objects; returns how many still wait for their finalizers.
    async fn empty(&self, context: &RequestContext, resource: &Resource) -> Result<usize, Status> {
        let listing = self.registry.list(resource, None, &ListOptions::default()).await?;
        for entry in &listing.entries {
            let options = DeleteOptions::default();
            let result =
                self.registry.delete(context, resource, entry.namespace(), entry.name(), &options).await;
            if let Err(status) = result
                && status.code != 404
            {
                return Err(status);
            }
        }
        Ok(self.registry.list(resource, None, &ListOptions::default()).await?.entries.len())
    }

    async fn write(&self, definition: Value, subresource: &str) -> Result<(), Status> {
        let Some(resource) = self.registry.table().find(GROUP, "v1", "customresourcedefinitions") else {
            return Ok(());
        };
        let context = RequestContext::internal(USER, (self.now.0)());
        let name = definition.name().to_owned();
        let body = Body::from(definition);
        match self.registry.update(&context, &resource, "", &name, subresource, body).await {
            Ok(_) => Ok(()),
            // Whoever was faster makes an event, and that is looked at.
            Err(status) if matches!(status.code, 404 | 409) => Ok(()),
            Err(status) => Err(status),
        }
    }

    /// The definition as it is stored now.
    pub(crate) async fn current(&self, name: &str) -> Option<Value> {
        let resource = self.registry.table().find(GROUP, "v1", "customresourcedefinitions")?;
        let entry = self.registry.get(&resource, "", name, &GetOptions::default()).await.ok()?;
        Some(entry.to_value())
    }
}

fn strings<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a str> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The resources of a definition: one for each version that is served.
fn definitions(definition: &Value) -> Vec<ResourceDef> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group = text(&spec["group"]);
    let names = &spec["names"];
    let scope = if spec["scope"] == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
    let preserve = spec["preserveUnknownFields"] == true;
    let one = |version: &Value| {
        let (kind, plural) = (text(&names["kind"]), text(&names["plural"]));
        let mut def = ResourceDef::new(&group, &text(&version["name"]), &kind, &plural, scope);
        def.list_kind = text(&names["listKind"]);
        def.singular = text(&names["singular"]);
        def.short_names = strings(definition, "/spec/names/shortNames").map(str::to_owned).collect();
        def.categories = strings(definition, "/spec/names/categories").map(str::to_owned).collect();
        def.verbs = Verb::ALL.to_vec();
        if version.pointer("/subresources/status").is_some() {
            def.subresources.push(Subresource::status());
        }
        let schema = version.pointer("/schema/openAPIV3Schema");
        def.schema =
            Some(schema.and_then(|it| Structural::new(it).ok()).unwrap_or_else(Structural::permissive));
        if let Some(merge) = schema.and_then(|it| Schema::from_structural(it, preserve).ok()) {
            def.merge_schema = merge;
        }
        let columns = version["additionalPrinterColumns"].as_array();
        def.columns = columns.into_iter().flatten().map(column).collect();
        def.selectable_fields = version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|field| Some(field["jsonPath"].as_str()?.trim_start_matches('.').to_owned()))
            .collect();
        def
    };
    versions(definition).filter(|version| version["served"] == true).map(one).collect()
}

fn column(column: &Value) -> PrinterColumn {
    let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
    PrinterColumn {
        name: text("name"),
        type_: text("type"),
        format: text("format"),
        description: text("description"),
        priority: column["priority"].as_i64().and_then(|it| i32::try_from(it).ok()).unwrap_or_default(),
        json_path: text("jsonPath"),
    }
}
