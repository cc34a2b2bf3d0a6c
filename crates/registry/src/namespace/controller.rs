//! Empties namespaces that are being deleted.

use std::sync::Arc;
use std::time::Duration;

use convoy_meta::{DeleteOptions, GetOptions, ListOptions, Object, PropagationPolicy, Reason, Status};
use convoy_storage::watch_cache::DeliveryKind;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::strategy::FINALIZER;
use crate::{Registry, RequestContext, Resource, Verb};

const USER: &str = "system:serviceaccount:kube-system:namespace-controller";
/// How long to wait before a namespace is looked at again that did not become empty.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long to wait after a failed watch of the namespaces.
const WATCH_RETRY: Duration = Duration::from_secs(1);
/// Namespaces that are emptied at once.
const AT_ONCE: usize = 8;

/// What to do next about a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Nothing: it is not being deleted, or somebody else's finalizers are left.
    Nothing,
    /// Its content is to be deleted.
    Empty,
    /// It has no content: these `spec.finalizers` are to be left, all but Kubernetes' own.
    Finalize(Vec<String>),
    /// Objects are left that wait for their finalizers.
    Wait { objects: usize },
}

/// Decides about a namespace, given how many objects it still has; `None` if that is not known yet.
pub fn next_step(namespace: &Value, remaining: Option<usize>) -> Progress {
    let list = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    let finalizers: Vec<&str> = list.into_iter().flatten().filter_map(Value::as_str).collect();
    if !namespace.is_deleting() || !finalizers.contains(&FINALIZER) {
        return Progress::Nothing;
    }
    match remaining {
        None => Progress::Empty,
        Some(0) => {
            let left = finalizers.iter().filter(|finalizer| **finalizer != FINALIZER);
            Progress::Finalize(left.map(|finalizer| (*finalizer).to_owned()).collect())
        }
        Some(objects) => Progress::Wait { objects },
    }
}

/// Drives [`next_step`] over the namespaces of a registry.
pub struct NamespaceController {
    registry: Arc<Registry>,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl std::fmt::Debug for NamespaceController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceController").finish_non_exhaustive()
    }
}

impl NamespaceController {
    /// `now` is the clock.
    pub fn new(registry: Arc<Registry>, now: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self { registry, now }
    }

    /// Runs until the future is dropped.
    pub async fn run(self) {
        let controller = Arc::new(self);
        loop {
            if let Err(status) = Arc::clone(&controller).watch().await {
                tracing::debug!(%status, "the namespace controller watches anew");
            }
            tokio::time::sleep(WATCH_RETRY).await;
        }
    }

    async fn watch(self: Arc<Self>) -> Result<(), Status> {
        let resource = self.namespaces()?;
        let options = ListOptions { watch: true, ..ListOptions::default() };
        let mut watcher = self.registry.watch(&resource, None, &options).await?;
        let mut tasks = tokio::task::JoinSet::new();
        let mut active = std::collections::HashSet::new();
        let slots = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
        loop {
            tokio::select! {
                next = watcher.next() => {
                    for delivery in next.map_err(|error| crate::watch_status(&error))? {
                        let Some(entry) = delivery.entry() else { continue };
                        if delivery.kind() == DeliveryKind::Deleted
                            || next_step(&entry.to_value(), None) == Progress::Nothing
                        {
                            continue;
                        }
                        let name = entry.name().to_owned();
                        if active.insert(name.clone()) {
                            let (controller, slots) = (Arc::clone(&self), Arc::clone(&slots));
                            tasks.spawn(async move {
                                controller.finish(&name, &slots).await;
                                name
                            });
                        }
                    }
                }
                Some(done) = tasks.join_next() => {
                    if let Ok(name) = done {
                        active.remove(&name);
                    }
                }
            }
        }
    }

    /// Works on one namespace until it is gone.
    async fn finish(&self, name: &str, slots: &tokio::sync::Semaphore) {
        let mut wait = RETRY_MIN;
        loop {
            let result = {
                let Ok(_slot) = slots.acquire().await else { return };
                Box::pin(self.step(name)).await
            };
            match result {
                Ok(Progress::Nothing | Progress::Finalize(_)) => return,
                Ok(Progress::Empty | Progress::Wait { .. }) => {}
                Err(status) if status.reason() == Reason::NotFound => return,
                Err(status) => tracing::debug!(namespace = name, %status, "a namespace could not be emptied"),
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_MAX);
        }
    }

    /// Deletes what is in the namespace and, if nothing is left, finalises it.
    ///
    /// # Errors
    /// Those of the requests it makes; it can be called again.
    pub async fn step(&self, name: &str) -> Result<Progress, Status> {
        let resource = self.namespaces()?;
        let namespace = self.registry.get(&resource, "", name, &GetOptions::default()).await?.to_value();
        if next_step(&namespace, None) == Progress::Nothing {
            return Ok(Progress::Nothing);
        }
        let context = RequestContext::internal(USER, (self.now)());
        let mut remaining = 0;
        let mut seen = std::collections::BTreeSet::new();
        for content in self.registry.table().load().iter() {
            let deletable = content.allows(Verb::Delete) && content.allows(Verb::List);
            // The versions of a kind share their objects.
            if !content.namespaced() || !deletable || !seen.insert(content.storage_path.clone()) {
                continue;
            }
            remaining += self.empty(&context, content, name).await?;
        }
        let progress = next_step(&namespace, Some(remaining));
        match &progress {
            Progress::Finalize(left) => self.finalize(&context, &resource, namespace, left).await?,
            Progress::Wait { objects } => self.report(&context, &resource, name, *objects).await,
            Progress::Nothing | Progress::Empty => {}
        }
        Ok(progress)
    }

    /// Deletes the objects of one resource and says how many are left.
    async fn empty(
        &self,
        context: &RequestContext,
        resource: &Resource,
        name: &str,
    ) -> Result<usize, Status> {
        let count = self.registry.stored(resource, name).await?;
        if count == 0 {
            return Ok(0);
        }
        let options = DeleteOptions {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteOptions::default()
        };
        let list = ListOptions::default();
        Box::pin(self.registry.delete_collection(context, resource, Some(name), &list, &options)).await?;
        self.registry.delete_broken(resource, name).await?;
        self.registry.stored(resource, name).await
    }

    async fn finalize(
        &self,
        context: &RequestContext,
        resource: &Resource,
        mut namespace: Value,
        left: &[String],
    ) -> Result<(), Status> {
        if let Value::Object(map) = &mut namespace {
            map.insert(
                "spec".to_owned(),
                if left.is_empty() { json!({}) } else { json!({ "finalizers": left }) },
            );
        }
        let name = namespace.name().to_owned();
        self.registry.update(context, resource, "", &name, "finalize", namespace.into()).await.map(drop)
    }

    /// Says in the status what the namespace waits for. A failure matters to nobody.
    async fn report(&self, context: &RequestContext, resource: &Resource, name: &str, objects: usize) {
        let message = format!("Some content in the namespace has finalizers remaining: {objects} objects");
        let now = convoy_meta::time::format(context.now);
        let condition = json!({
            "type": "NamespaceFinalizersRemaining", "status": "True", "reason": "SomeFinalizersRemain",
            "message": message, "lastTransitionTime": now,
        });
        let Ok(current) = self.registry.get(resource, "", name, &GetOptions::default()).await else { return };
        let mut namespace = current.to_value();
        let same = namespace.pointer("/status/conditions/0/message") == Some(&json!(message));
        if let (false, Some(status)) = (same, namespace.get_mut("status").and_then(Value::as_object_mut)) {
            status.insert("conditions".to_owned(), json!([condition]));
            let _ = self.registry.update(context, resource, "", name, "status", namespace.into()).await;
        }
    }

    fn namespaces(&self) -> Result<Arc<Resource>, Status> {
        self.registry.table().find("", "v1", "namespaces").ok_or_else(Status::unknown_resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_emptied_before_it_is_finalised_and_never_while_it_lives() {
        let namespace = |deleting: bool, finalizers: Value| {
            let mut namespace = json!({"metadata": {"name": "a"}, "spec": {"finalizers": finalizers}});
            if deleting {
                namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            namespace
        };
        let going = namespace(true, json!(["x.io/a", "kubernetes"]));
        assert_eq!(next_step(&namespace(false, json!(["kubernetes"])), Some(0)), Progress::Nothing);
        assert_eq!(next_step(&namespace(true, json!(["x.io/a"])), Some(0)), Progress::Nothing);
        assert_eq!(next_step(&going, None), Progress::Empty);
        assert_eq!(next_step(&going, Some(3)), Progress::Wait { objects: 3 });
        assert_eq!(next_step(&going, Some(0)), Progress::Finalize(vec!["x.io/a".into()]));
    }
}
