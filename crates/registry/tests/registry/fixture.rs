use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use convoy_meta::{DeleteOptions, FieldValidation, GetOptions, ListOptions, Query, Status};
use convoy_registry::{
    Body, DeleteOutcome, Identity, Listing, Patch, Registry, RegistryOptions, RequestContext, Resource,
    ResourceDef, ResourceTable, Scope, Subresource, UserInfo, Written,
};
use convoy_schema::Structural;
use convoy_smd::Schema;
use convoy_storage::memory::MemoryStorage;
use serde_json::{Value, json};

/// Identity that counts.
#[derive(Debug, Default)]
pub(crate) struct Counting(AtomicU64);

impl Identity for Counting {
    fn uid(&self) -> String {
        format!("00000000-0000-0000-0000-{:012}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn suffix(&self) -> String {
        format!("{:05}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// A registry with `things` (a custom resource with status) and `configs` (like ConfigMap).
pub(crate) struct Fixture {
    pub(crate) storage: Arc<MemoryStorage>,
    pub(crate) registry: Registry,
    pub(crate) context: RequestContext,
}

pub(crate) fn thing() -> ResourceDef {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "color": {"type": "string"},
            "size": {"type": "integer", "default": 3, "maximum": 10}}},
        "status": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}});
    let mut def = ResourceDef::new("ex.io", "v1", "Thing", "things", Scope::Namespaced);
    def.schema = Some(Structural::new(&schema).unwrap());
    def.merge_schema = Schema::from_structural(&schema, false).unwrap();
    def.subresources = vec![Subresource::status()];
    def.selectable_fields = vec!["spec.color".into()];
    def
}

pub(crate) fn config() -> ResourceDef {
    let mut def = ResourceDef::new("", "v1", "ConfigMap", "configmaps", Scope::Namespaced);
    def.generation = false;
    def.unconditional_update = true;
    def.strategic_patch = true;
    def
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let storage = Arc::new(MemoryStorage::default());
        let table = Arc::new(ResourceTable::default());
        table.install([thing(), config()]);
        let options =
            RegistryOptions { identity: Arc::new(Counting::default()), ..RegistryOptions::default() };
        let registry = Registry::new(storage.clone(), table, options);
        let context = RequestContext {
            user: UserInfo::default(),
            field_manager: "test".into(),
            dry_run: false,
            field_validation: FieldValidation::Warn,
            may_create: true,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        };
        Self { storage, registry, context }
    }

    pub(crate) fn things(&self) -> Arc<Resource> {
        self.registry.table().find("ex.io", "v1", "things").unwrap()
    }

    pub(crate) fn configs(&self) -> Arc<Resource> {
        self.registry.table().find("", "v1", "configmaps").unwrap()
    }

    pub(crate) async fn create(&self, object: Value) -> Result<Written, Status> {
        self.registry.create(&self.context, &self.things(), "default", object.into()).await
    }

    pub(crate) async fn create_config(&self, object: Value) -> Result<Written, Status> {
        self.registry.create(&self.context, &self.configs(), "default", object.into()).await
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Value, Status> {
        let got = self.registry.get(&self.things(), "default", name, &GetOptions::default()).await?;
        Ok(got.to_value())
    }

    pub(crate) async fn put(&self, name: &str, subresource: &str, object: Value) -> Result<Written, Status> {
        let body = Body::from(object);
        self.registry.update(&self.context, &self.things(), "default", name, subresource, body).await
    }

    pub(crate) async fn put_config(&self, name: &str, object: Value) -> Result<Written, Status> {
        self.registry.update(&self.context, &self.configs(), "default", name, "", object.into()).await
    }

    pub(crate) async fn merge(&self, name: &str, subresource: &str, patch: Value) -> Result<Written, Status> {
        let patch = Patch::Merge(patch.into());
        self.registry.patch(&self.context, &self.things(), "default", name, subresource, &patch).await
    }

    pub(crate) async fn merge_config(&self, name: &str, patch: Value) -> Result<Written, Status> {
        let patch = Patch::Merge(patch.into());
        self.registry.patch(&self.context, &self.configs(), "default", name, "", &patch).await
    }

    pub(crate) async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<DeleteOutcome, Status> {
        self.registry.delete(&self.context, &self.things(), "default", name, options).await
    }

    pub(crate) async fn list(&self, query: &str) -> Result<Listing, Status> {
        let options = ListOptions::parse(&Query::parse(query))?;
        self.registry.list(&self.things(), Some("default"), &options).await
    }
}

pub(crate) fn named(name: &str) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": name}})
}

/// An answer as code, reason and message.
pub(crate) fn said<T: std::fmt::Debug>(result: Result<T, Status>) -> (u16, String, String) {
    let status = result.unwrap_err();
    (status.code, status.reason_text.clone(), status.message)
}

pub(crate) fn is(code: u16, reason: &str, message: &str) -> (u16, String, String) {
    (code, reason.to_owned(), message.to_owned())
}

impl Fixture {
    /// Writes something, again and again.
    pub(crate) async fn merge_or_create(&self, round: usize) {
        if round == 0 {
            self.create(named("zz")).await.unwrap();
        }
        let labels = json!({"metadata": {"labels": {"round": round.to_string()}}});
        self.merge("zz", "", labels).await.unwrap();
    }
}
