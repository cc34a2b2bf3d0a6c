use std::sync::Arc;
use std::time::Duration;

use convoy_meta::{DeleteOptions, GetOptions, Object, Preconditions, Reason, Status};
use convoy_storage::{ListOptions, StorageError};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Action, Graph};
use crate::{Patch, Registry, RequestContext, Resource, Resources, Verb};

const USER: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
const PREFIX: &str = "/registry/";
const PAGE: usize = 500;
/// How long to wait before a failed action, or a lost watch, is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Collects the garbage of a registry.
pub struct GarbageCollector {
    registry: Arc<Registry>,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl std::fmt::Debug for GarbageCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GarbageCollector").finish_non_exhaustive()
    }
}

impl GarbageCollector {
    /// `now` is the clock.
    pub fn new(registry: Arc<Registry>, now: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { registry, now }
    }

    /// Runs until the future is dropped, or the storage is closed.
    pub async fn run(self) {
        loop {
            match self.collect().await {
                StorageError::Compacted { .. } => {}
                error => {
                    tracing::debug!(%error, "garbage collection starts anew");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Collects until the storage fails or the watch falls behind.
    async fn collect(&self) -> StorageError {
        let mut graph = Graph::default();
        let revision = match self.fill(&mut graph).await {
            Ok(revision) => revision,
            Err(error) => return error,
        };
        let storage = &self.registry.storage;
        let mut watch = match storage.watch(PREFIX, revision).await {
            Ok(watch) => watch,
            Err(error) => return error,
        };
        let mut table = self.registry.table().subscribe();
        let mut failed: Vec<Arc<str>> = Vec::new();
        loop {
            let resources = self.registry.table().load();
            let served = |api_version: &str, kind: &str| {
                let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
                resources.by_kind(group, version, kind).is_some()
            };
            for action in graph.actions(served) {
                if let Err((uid, status)) = Box::pin(self.carry_out(&resources, &action)).await {
                    tracing::debug!(%status, ?action, "garbage collection will try again");
                    failed.push(uid);
                }
            }
            tokio::select! {
                batch = watch.next() => match batch {
                    Ok(batch) => {
                        for event in batch.events {
                            match &event.value {
                                Some(value) => observe(&mut graph, &event.key, value),
                                None => graph.forget(&event.key),
                            }
                        }
                    }
                    Err(error) => return error,
                },
                // A kind that is served from now on may own what is there.
                changed = table.changed() => if changed.is_err() {
                    return StorageError::Unavailable { reason: "the table is gone".to_owned(), source: None };
                },
                () = tokio::time::sleep(RETRY), if !failed.is_empty() => {}
            }
            for uid in failed.drain(..) {
                graph.retry(&uid);
            }
        }
    }

    async fn fill(&self, graph: &mut Graph) -> Result<u64, StorageError> {
        let storage = &self.registry.storage;
        let mut page = storage.list(PREFIX, ListOptions { limit: PAGE, ..ListOptions::default() }).await?;
        loop {
            for item in &page.items {
                observe(graph, &item.key, &item.value);
            }
            let Some(last) = page.items.last().filter(|_| page.remaining > 0) else {
                return Ok(page.revision);
            };
            let after = Some(&*last.key);
            let options = ListOptions { limit: PAGE, after, revision: Some(page.revision) };
            page = storage.list(PREFIX, options).await?;
        }
    }

    /// Carries out one action; what is not there any more needs none.
    async fn carry_out(&self, resources: &Resources, action: &Action) -> Result<(), (Arc<str>, Status)> {
        let (Action::Delete { key, uid, .. }
        | Action::DropOwners { key, uid, .. }
        | Action::RemoveFinalizer { key, uid, .. }) = action;
        let Some((resource, namespace, name)) = locate(resources, key) else { return Ok(()) };
        let context = RequestContext::internal(USER, (self.now)());
        let result = match action {
            Action::Delete { policy, .. } if resource.allows(Verb::Delete) => {
                let options = DeleteOptions {
                    propagation_policy: Some(*policy),
                    preconditions: Preconditions { uid: Some(uid.to_string()), resource_version: None },
                    ..DeleteOptions::default()
                };
                self.registry.delete(&context, resource, namespace, name, &options).await.map(drop)
            }
            Action::Delete { .. } => Ok(()),
            Action::DropOwners { owners, .. } => {
                let drop_owners = |object: &Value| {
                    let mut left = object.owner_references();
                    left.retain(|owner| !owners.iter().any(|gone| **gone == *owner.uid));
                    json!({"metadata": {"ownerReferences": left}})
                };
                self.change(&context, resource, (namespace, name, uid), drop_owners).await
            }
            Action::RemoveFinalizer { finalizer, .. } => {
                let remove = |object: &Value| {
                    let mut left = object.finalizers();
                    left.retain(|other| other != finalizer);
                    json!({"metadata": {"finalizers": left}})
                };
                self.change(&context, resource, (namespace, name, uid), remove).await
            }
        };
        match result {
            Err(status) if status.reason() == Reason::NotFound => Ok(()),
            // Another object, or another state of it: its event comes, too.
            Err(status) if status.reason() == Reason::Conflict && matches!(action, Action::Delete { .. }) => {
                Ok(())
            }
            Err(status) => Err((Arc::clone(uid), status)),
            Ok(()) => Ok(()),
        }
    }

    /// Patches the metadata of the object as it is now, if it is still the same one.
    async fn change(
        &self,
        context: &RequestContext,
        resource: &Resource,
        (namespace, name, uid): (&str, &str, &str),
        patch: impl Fn(&Value) -> Value,
    ) -> Result<(), Status> {
        let entry = self.registry.get(resource, namespace, name, &GetOptions::default()).await?;
        if entry.uid() != uid {
            return Ok(());
        }
        let mut patch = patch(&entry.to_value());
        patch.set_resource_version(&entry.revision().to_string());
        let patch = Patch::Merge(patch.into());
        self.registry.patch(context, resource, namespace, name, "", &patch).await.map(drop)
    }
}

fn observe(graph: &mut Graph, key: &Arc<str>, value: &[u8]) {
    match serde_json::from_slice::<Stored>(value) {
        Ok(stored) => graph.observe(key, &json!({ "metadata": stored.metadata })),
        // What cannot be read owns nothing and is owned by nobody.
        Err(_) => graph.forget(key),
    }
}

/// The part of a stored object that is decoded.
#[derive(serde::Deserialize)]
struct Stored {
    metadata: Value,
}

/// The resource of a key, and the namespace and name in it.
fn locate<'a, 'k>(resources: &'a Resources, key: &'k str) -> Option<(&'a Resource, &'k str, &'k str)> {
    for resource in resources.iter() {
        if let Some(rest) = key.strip_prefix(&resource.format().prefix) {
            let (namespace, name) = match rest.split_once('/') {
                Some(parts) if resource.namespaced() => parts,
                None if !resource.namespaced() => ("", rest),
                _ => continue,
            };
            return Some((resource, namespace, name));
        }
    }
    None
}
