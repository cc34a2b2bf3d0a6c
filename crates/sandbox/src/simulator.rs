//! Carries out what [`workload`] and definitions of custom resources ask for, from one watch of
//! the whole store.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use convoy_apiserver::filters::Now;
use convoy_meta::{GetOptions, Object, time};
use convoy_registry::{Body, Registry, RequestContext};
use convoy_storage::memory::MemoryStorage;
use convoy_storage::{ListOptions, Storage, StorageError};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::custom_resources::Controller;
use crate::workload;

const USER: &str = "system:kube-controller-manager";
const PREFIX: &str = "/registry/";
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
const NAMESPACES: &str = "/registry/namespaces/";
/// How long to wait before something that failed or waits is looked at again.
const RETRY: Duration = Duration::from_millis(100);

/// Folder in the store, group, version, kind and plural of what is simulated.
const WORKLOADS: &[(&str, &str, &str, &str, &str)] = &[
    ("/registry/apps/deployments/", "apps", "v1", "Deployment", "deployments"),
    ("/registry/apps/statefulsets/", "apps", "v1", "StatefulSet", "statefulsets"),
    ("/registry/apps/daemonsets/", "apps", "v1", "DaemonSet", "daemonsets"),
    ("/registry/apps/replicasets/", "apps", "v1", "ReplicaSet", "replicasets"),
    ("/registry/replicationcontrollers/", "", "v1", "ReplicationController", "replicationcontrollers"),
    ("/registry/batch/jobs/", "batch", "v1", "Job", "jobs"),
    ("/registry/pods/", "", "v1", "Pod", "pods"),
    ("/registry/persistentvolumeclaims/", "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("/registry/services/", "", "v1", "Service", "services"),
    ("/registry/networking.k8s.io/ingresses/", "networking.k8s.io", "v1", "Ingress", "ingresses"),
    ("/registry/policy/poddisruptionbudgets/", "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    (
        "/registry/autoscaling/horizontalpodautoscalers/",
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    ),
    (
        "/registry/apiregistration.k8s.io/apiservices/",
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
    ),
];

pub(crate) struct Simulator {
    registry: Arc<Registry>,
    storage: Arc<MemoryStorage>,
    definitions: Controller,
    now: Now,
    ready_after: Duration,
    /// When an object was first seen with its present generation and uid.
    seen: HashMap<Arc<str>, (String, i64, Instant)>,
    /// What is to be looked at when.
    due: BTreeMap<(Instant, u64), Arc<str>>,
    count: u64,
}

impl Simulator {
    pub(crate) fn new(
        registry: Arc<Registry>,
        storage: Arc<MemoryStorage>,
        definitions: Controller,
        now: Now,
        ready_after: Duration,
    ) -> Self {
        let (seen, due) = (HashMap::new(), BTreeMap::new());
        Self { registry, storage, definitions, now, ready_after, seen, due, count: 0 }
    }

    pub(crate) async fn run(mut self) {
        loop {
            let error = self.follow().await;
            tracing::debug!(%error, "the simulation starts anew");
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn follow(&mut self) -> StorageError {
        let listed = match self.storage.list(PREFIX, ListOptions::default()).await {
            Ok(listed) => listed,
            Err(error) => return error,
        };
        for item in &listed.items {
            self.look(&item.key, Some(&item.value)).await;
        }
        let mut watch = match self.storage.watch(PREFIX, listed.revision).await {
            Ok(watch) => watch,
            Err(error) => return error,
        };
        loop {
            let next = self.due.keys().next().map(|(at, _)| *at);
            let far = Instant::now() + Duration::from_secs(3600);
            tokio::select! {
                batch = watch.next() => match batch {
                    Ok(batch) => for event in batch.events {
                        self.look(&event.key, event.value.as_deref()).await;
                    },
                    Err(error) => return error,
                },
                () = tokio::time::sleep_until(next.unwrap_or(far)), if next.is_some() => self.wake().await,
            }
        }
    }

    /// Looks at everything that is due.
    async fn wake(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            match self.storage.get(&key).await {
                Ok(read) => self.look(&key, read.found.as_ref().map(|it| &*it.value)).await,
                Err(error) => tracing::debug!(%error, %key, "it is not looked at"),
            }
        }
    }

    fn again(&mut self, key: &Arc<str>, after: Duration) {
        self.count += 1;
        self.due.insert((Instant::now() + after, self.count), Arc::clone(key));
    }

    async fn look(&mut self, key: &Arc<str>, stored: Option<&[u8]>) {
        let Some(stored) = stored else {
            self.seen.remove(key);
            return;
        };
        if let Some(name) = key.strip_prefix(DEFINITIONS) {
            let Some(definition) = self.definitions.current(name).await else { return };
            if self.definitions.reconcile(&definition).await {
                self.again(key, RETRY);
            }
            return;
        }
        if let Some(name) = key.strip_prefix(NAMESPACES) {
            self.furnish(name).await;
            return;
        }
        let Some((_, group, version, kind, plural)) = WORKLOADS.iter().find(|it| key.starts_with(it.0))
        else {
            return;
        };
        let Ok(object) = serde_json::from_slice::<Value>(stored) else { return };
        if object.is_deleting() {
            return;
        }
        let since = self.since(key, &object);
        let now = time::format((self.now)());
        let step = workload::next(group, kind, &object, since, self.ready_after, &now);
        if let Some(status) = step.status
            && !self.write(group, version, plural, object, status).await
        {
            self.again(key, RETRY);
        }
        if let Some(after) = step.again {
            self.again(key, after);
        }
    }

    /// Every namespace has a ServiceAccount and the authority's certificate.
    async fn furnish(&self, namespace: &str) {
        let context = RequestContext::internal(USER, (self.now)());
        let objects = [
            (
                "serviceaccounts",
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}),
            ),
            (
                "configmaps",
                json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"},
                    "data": {"ca.crt": ""},
                }),
            ),
        ];
        for (plural, object) in objects {
            let Some(resource) = self.registry.table().find("", "v1", plural) else { continue };
            let result = self.registry.get(&resource, namespace, object.name(), &GetOptions::default()).await;
            if result.is_ok() {
                continue;
            }
            // Refused in a namespace that is going.
            if let Err(refused) = self.registry.create(&context, &resource, namespace, object.into()).await {
                tracing::debug!(%refused, namespace, plural, "not furnished");
            }
        }
    }

    /// How long ago the object was created or changed.
    fn since(&mut self, key: &Arc<str>, object: &Value) -> Duration {
        let now = Instant::now();
        let (uid, generation) = (object.uid().to_owned(), object.generation());
        let seen = self.seen.entry(Arc::clone(key)).or_insert_with(|| (uid.clone(), generation, now));
        if seen.0 != uid || seen.1 != generation {
            *seen = (uid, generation, now);
        }
        now.duration_since(seen.2)
    }

    /// Returns whether it is done with: also when the object is gone or was changed meanwhile, which
    /// makes an event.
    async fn write(
        &self,
        group: &str,
        version: &str,
        plural: &str,
        mut object: Value,
        status: Value,
    ) -> bool {
        let Some(resource) = self.registry.table().find(group, version, plural) else { return true };
        let context = RequestContext::internal(USER, (self.now)());
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        object["status"] = status;
        let result =
            self.registry.update(&context, &resource, &namespace, &name, "status", Body::from(object)).await;
        match result {
            Ok(_) => true,
            Err(refused) => {
                tracing::debug!(%refused, plural, namespace, name, "the status is not written");
                matches!(refused.code, 404 | 422)
            }
        }
    }
}
