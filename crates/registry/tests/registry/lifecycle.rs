//! Namespaces and garbage, with their controllers running. Time is paused: waiting costs nothing.

use std::sync::Arc;
use std::time::Duration;

use convoy_meta::{DeleteOptions, GetOptions, Object, PropagationPolicy, Status};
use convoy_registry::garbage::GarbageCollector;
use convoy_registry::namespace::{NamespaceController, NamespaceLifecycle, StoredNamespaces, namespaces};
use convoy_registry::{
    Body, DeleteOutcome, Patch, Registry, RegistryOptions, RequestContext, Resource, ResourceTable,
};
use convoy_storage::memory::MemoryStorage;
use serde_json::{Value, json};

use crate::fixture::{config, is, said, thing};

struct Cluster {
    registry: Arc<Registry>,
    context: RequestContext,
    _controllers: tokio::task::JoinSet<()>,
}

impl Cluster {
    async fn new() -> Self {
        let storage = Arc::new(MemoryStorage::default());
        let table = Arc::new(ResourceTable::default());
        table.install([namespaces(), thing(), config()]);
        let lookup = Arc::new(StoredNamespaces::new(storage.clone()));
        let options = RegistryOptions {
            admission: vec![Arc::new(NamespaceLifecycle::new(lookup))],
            ..RegistryOptions::default()
        };
        let registry = Arc::new(Registry::new(storage, table, options));
        let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let now: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync> = Arc::new(move || start);
        let mut controllers = tokio::task::JoinSet::new();
        controllers.spawn(NamespaceController::new(Arc::clone(&registry), Arc::clone(&now)).run());
        controllers.spawn(GarbageCollector::new(Arc::clone(&registry), now).run());
        let context = RequestContext::internal("test", start);
        let cluster = Self { registry, context, _controllers: controllers };
        cluster.namespace("default").await;
        cluster
    }

    fn resource(&self, plural: &str) -> Arc<Resource> {
        let group = if plural == "things" { "ex.io" } else { "" };
        self.registry.table().find(group, "v1", plural).unwrap()
    }

    async fn namespace(&self, name: &str) -> Value {
        let body = json!({"metadata": {"name": name}});
        let created =
            self.registry.create(&self.context, &self.resource("namespaces"), "", body.into()).await;
        created.unwrap().object.to_value()
    }

    async fn create(&self, plural: &str, namespace: &str, metadata: Value) -> Result<Value, Status> {
        let body = Body::from(json!({ "metadata": metadata }));
        let written = self.registry.create(&self.context, &self.resource(plural), namespace, body).await?;
        Ok(written.object.to_value())
    }

    async fn get(&self, plural: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        let options = GetOptions::default();
        Ok(self.registry.get(&self.resource(plural), namespace, name, &options).await?.to_value())
    }

    async fn delete(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
        policy: Option<PropagationPolicy>,
    ) -> DeleteOutcome {
        let options = DeleteOptions { propagation_policy: policy, ..DeleteOptions::default() };
        self.registry.delete(&self.context, &self.resource(plural), namespace, name, &options).await.unwrap()
    }

    async fn patch(&self, plural: &str, namespace: &str, name: &str, patch: Value) {
        let patch = Patch::Merge(patch.into());
        self.registry
            .patch(&self.context, &self.resource(plural), namespace, name, "", &patch)
            .await
            .unwrap();
    }

    /// Waits until an object is gone.
    async fn gone(&self, plural: &str, namespace: &str, name: &str) {
        for _ in 0..1000 {
            if self.get(plural, namespace, name).await.is_err() {
                return;
            }
            self.settle().await;
        }
        panic!("{plural} {namespace}/{name} is still there");
    }

    /// Lets the controllers do what there is to do.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn owned_by(name: &str, owner: &Value, blocks: bool) -> Value {
    json!({"name": name, "ownerReferences": [{
        "apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(), "uid": owner.uid(),
        "blockOwnerDeletion": blocks,
    }]})
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_born_active_with_its_finalizer_and_label() {
    let cluster = Cluster::new().await;
    let namespace = cluster.namespace("n1").await;
    assert_eq!(namespace["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(namespace["status"], json!({"phase": "Active"}));
    assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "n1"}));
    assert_eq!(namespace["metadata"].get("generation"), None);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_is_missing_or_going() {
    let cluster = Cluster::new().await;
    let missing = cluster.create("configmaps", "none", json!({"name": "c"})).await;
    assert_eq!(said(missing), is(404, "NotFound", "namespaces \"none\" not found"));

    cluster.namespace("n1").await;
    let held = json!({"name": "held", "finalizers": ["x.io/a"]});
    cluster.create("things", "n1", held).await.unwrap();
    let outcome = cluster.delete("namespaces", "", "n1", None).await;
    let DeleteOutcome::Waiting(namespace) = outcome else { panic!("{outcome:?}") };
    assert_eq!(namespace.to_value()["status"]["phase"], "Terminating");
    let refused = cluster.create("configmaps", "n1", json!({"name": "c"})).await.unwrap_err();
    let text = "configmaps \"c\" is forbidden: unable to create new content in namespace n1 because it is being terminated";
    assert_eq!((refused.code, refused.message.as_str()), (403, text));
    let cause = &refused.details.unwrap().causes[0];
    assert_eq!((cause.reason.as_str(), cause.field.as_str()), ("NamespaceTerminating", "metadata.namespace"));
    assert_eq!(cause.message, "namespace n1 is being terminated");
    // What is there can still be changed.
    cluster.patch("things", "n1", "held", json!({"spec": {"size": 1}})).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_emptied_and_goes_when_the_last_finalizer_does() {
    let cluster = Cluster::new().await;
    cluster.namespace("n1").await;
    cluster.namespace("n2").await;
    for i in 0..20 {
        cluster.create("configmaps", "n1", json!({"name": format!("c{i}")})).await.unwrap();
    }
    cluster.create("configmaps", "n2", json!({"name": "kept"})).await.unwrap();
    cluster.create("things", "n1", json!({"name": "held", "finalizers": ["x.io/a"]})).await.unwrap();
    cluster.delete("namespaces", "", "n1", None).await;
    cluster.gone("configmaps", "n1", "c19").await;
    for _ in 0..100 {
        cluster.settle().await;
    }
    let waiting = cluster.get("namespaces", "", "n1").await.unwrap();
    assert_eq!(waiting["status"]["conditions"][0]["type"], "NamespaceFinalizersRemaining");
    assert!(cluster.get("things", "n1", "held").await.unwrap().is_deleting());
    cluster.patch("things", "n1", "held", json!({"metadata": {"finalizers": null}})).await;
    cluster.gone("namespaces", "", "n1").await;
    cluster.get("configmaps", "n2", "kept").await.unwrap();
    // The name is free again.
    cluster.namespace("n1").await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_must_stay_are_not_deleted() {
    let cluster = Cluster::new().await;
    let (context, resource) = (&cluster.context, cluster.resource("namespaces"));
    let refused = cluster.registry.delete(context, &resource, "", "default", &DeleteOptions::default()).await;
    let text = "namespaces \"default\" is forbidden: this namespace may not be deleted";
    assert_eq!(said(refused), is(403, "Forbidden", text));
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner_through_generations() {
    let cluster = Cluster::new().await;
    let a = cluster.create("things", "default", json!({"name": "a"})).await.unwrap();
    let b = cluster.create("configmaps", "default", owned_by("b", &a, false)).await.unwrap();
    cluster.create("configmaps", "default", owned_by("c", &b, false)).await.unwrap();
    cluster.create("configmaps", "default", json!({"name": "free"})).await.unwrap();
    cluster.settle().await;
    cluster.get("configmaps", "default", "c").await.unwrap();
    cluster.delete("things", "default", "a", None).await;
    cluster.gone("configmaps", "default", "b").await;
    cluster.gone("configmaps", "default", "c").await;
    cluster.get("configmaps", "default", "free").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_orphaning_deletion_leaves_the_dependents_without_owner() {
    let cluster = Cluster::new().await;
    let a = cluster.create("things", "default", json!({"name": "a"})).await.unwrap();
    cluster.create("configmaps", "default", owned_by("b", &a, true)).await.unwrap();
    cluster.delete("things", "default", "a", Some(PropagationPolicy::Orphan)).await;
    cluster.gone("things", "default", "a").await;
    cluster.settle().await;
    let orphan = cluster.get("configmaps", "default", "b").await.unwrap();
    assert!(orphan.owner_references().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_ends_after_its_dependents() {
    let cluster = Cluster::new().await;
    let a = cluster.create("things", "default", json!({"name": "a"})).await.unwrap();
    let mut held = owned_by("b", &a, true);
    held["finalizers"] = json!(["x.io/a"]);
    cluster.create("configmaps", "default", held).await.unwrap();
    cluster.delete("things", "default", "a", Some(PropagationPolicy::Foreground)).await;
    for _ in 0..10 {
        cluster.settle().await;
    }
    assert!(cluster.get("configmaps", "default", "b").await.unwrap().is_deleting());
    cluster.get("things", "default", "a").await.unwrap();
    cluster.patch("configmaps", "default", "b", json!({"metadata": {"finalizers": null}})).await;
    cluster.gone("things", "default", "a").await;
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_an_owner_with_another_uid_goes() {
    let cluster = Cluster::new().await;
    let mut a = cluster.create("things", "default", json!({"name": "a"})).await.unwrap();
    a.set_uid("somebody-else");
    cluster.create("configmaps", "default", owned_by("b", &a, false)).await.unwrap();
    cluster.gone("configmaps", "default", "b").await;
    cluster.get("things", "default", "a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn objects_past_their_time_are_deleted_and_younger_ones_stay() {
    let cluster = Cluster::new().await;
    cluster.create("configmaps", "default", json!({"name": "old"})).await.unwrap();
    let later: jiff::Timestamp = "2026-01-01T00:59:00Z".parse().unwrap();
    let context = RequestContext::internal("test", later);
    let young = Body::from(json!({"metadata": {"name": "young"}}));
    cluster.registry.create(&context, &cluster.resource("configmaps"), "default", young).await.unwrap();
    let expiry = convoy_registry::Expiry {
        registry: Arc::clone(&cluster.registry),
        resource: (String::new(), "v1".into(), "configmaps".into()),
        ttl: Duration::from_secs(3600),
        every: Duration::from_secs(60),
        now: Arc::new(|| "2026-01-01T01:00:00Z".parse().unwrap()),
    };
    assert_eq!(expiry.pass().await.unwrap(), 1);
    assert_eq!(cluster.get("configmaps", "default", "old").await.unwrap_err().code, 404);
    cluster.get("configmaps", "default", "young").await.unwrap();
}
