//! What lives behind the API of a simulated cluster: definitions become served kinds, and workloads
//! become ready.
//!
//! One task follows all writes of the cluster's store, in their order. Decisions are pure
//! ([`simulation`](crate::simulation), [`custom_resources`](crate::custom_resources)); a lost race with
//! another writer is no error, because its write comes along the same way.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use convoy_meta::{DeleteOptions, GetOptions, ListOptions, Object as _, Reason, Status};
use convoy_registry::{Patch, Registry, RequestContext, Resource, ResourceDef};
use convoy_storage::{Storage, StorageError};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::custom_resources::{self, FINALIZER};
use crate::simulation::simulate;

const USER: &str = "system:sandbox";
const PREFIX: &str = "/registry/";
/// How long to wait before a lost watch is taken up again.
const RETRY: Duration = Duration::from_millis(200);
/// How long to wait before the objects of a deleted definition are looked for again.
const CLEANUP_RETRY: Duration = Duration::from_millis(100);

/// Follows a cluster's store and acts on what it sees.
pub(crate) struct Controller {
    pub(crate) registry: Arc<Registry>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(crate) ready_after: Duration,
}

/// Since when a workload's present spec is in force.
struct Since {
    generation: i64,
    uid: String,
    time: Timestamp,
}

impl Controller {
    /// Runs until the future is dropped.
    pub(crate) async fn run(self) {
        let mut revision = 0;
        let mut followed = Followed::default();
        loop {
            match self.follow(&mut followed, &mut revision).await {
                StorageError::Compacted { .. } => revision = self.storage.revision().await.unwrap_or(0),
                error => tracing::debug!(%error, "the sandbox follows its store anew"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn follow(&self, followed: &mut Followed, revision: &mut u64) -> StorageError {
        let mut watch = match self.storage.watch(PREFIX, *revision).await {
            Ok(watch) => watch,
            Err(error) => return error,
        };
        loop {
            let due = followed.next_due();
            let batch = tokio::select! {
                batch = watch.next() => batch,
                () = sleep_until(due) => {
                    for key in followed.take_due(Instant::now()) {
                        self.look_at(followed, &key).await;
                    }
                    continue;
                }
            };
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return error,
            };
            for event in batch.events {
                match &event.value {
                    Some(value) => self.observe(followed, &event.key, value).await,
                    None => self.forget(followed, &event.key, event.previous.as_ref().map(|kv| &*kv.value)),
                }
            }
            *revision = batch.revision;
        }
    }

    /// The resource of a key, and the namespace and the name of its object.
    fn locate<'k>(&self, key: &'k str) -> Option<(Arc<Resource>, &'k str, &'k str)> {
        let path = key.strip_prefix(PREFIX)?;
        let resources = self.registry.table().load();
        resources.iter().find_map(|resource| {
            let rest = path.strip_prefix(resource.storage_path.as_str())?.strip_prefix('/')?;
            if resource.namespaced() {
                let (namespace, name) = rest.split_once('/')?;
                Some((Arc::clone(resource), namespace, name))
            } else {
                (!rest.contains('/')).then(|| (Arc::clone(resource), "", rest))
            }
        })
    }

    async fn observe(&self, followed: &mut Followed, key: &Arc<str>, value: &[u8]) {
        let Some((resource, namespace, name)) = self.locate(key) else { return };
        if custom_resources::is_definition(&resource.group, &resource.plural) {
            let Ok(definition) = serde_json::from_slice::<Value>(value) else { return };
            self.define(followed, &resource, &definition).await;
        } else if is_simulated(&resource.group, &resource.kind) {
            let Ok(object) = serde_json::from_slice::<Value>(value) else { return };
            self.act(followed, key, &resource, namespace, name, object).await;
        }
    }

    /// Looks at an object whose time has come.
    async fn look_at(&self, followed: &mut Followed, key: &Arc<str>) {
        let Ok(read) = self.storage.get(key).await else { return };
        if let Some(found) = read.found {
            self.observe(followed, key, &found.value).await;
        }
    }

    fn forget(&self, followed: &mut Followed, key: &Arc<str>, previous: Option<&[u8]>) {
        followed.since.remove(key);
        let Some((resource, ..)) = self.locate(key) else { return };
        if !custom_resources::is_definition(&resource.group, &resource.plural) {
            return;
        }
        let Some(definition) = previous.and_then(|value| serde_json::from_slice::<Value>(value).ok()) else {
            return;
        };
        for (group, version, plural) in followed.served.remove(definition.uid()).unwrap_or_default().paths {
            self.registry.table().remove(&group, &version, &plural);
        }
    }

    /// Gives a workload the status that it should have.
    async fn act(
        &self,
        followed: &mut Followed,
        key: &Arc<str>,
        resource: &Resource,
        namespace: &str,
        name: &str,
        object: Value,
    ) {
        let now = (self.now)();
        let generation = object.generation();
        let uid = object.uid().to_owned();
        let since = followed.since.entry(Arc::clone(key)).or_insert_with(|| Since {
            generation,
            uid: uid.clone(),
            time: now,
        });
        if since.generation != generation || since.uid != uid {
            *since = Since { generation, uid, time: now };
        }
        let outcome = simulate(&resource.group, &resource.kind, &object, since.time, now, self.ready_after);
        let Some(outcome) = outcome else { return };
        if let Some(wait) = outcome.look_again {
            followed.due.push(Reverse((Instant::now() + wait, Arc::clone(key))));
        }
        if object["status"] == outcome.status {
            return;
        }
        let mut changed = object;
        changed["status"] = outcome.status;
        // The revision that was looked at: whoever wrote since then comes first.
        let context = RequestContext::internal(USER, now);
        let current = self.registry.get(resource, namespace, name, &GetOptions::default()).await;
        let Ok(current) = current else { return };
        changed.set_resource_version(&current.revision().to_string());
        if current.to_value()["metadata"]["generation"] != changed["metadata"]["generation"] {
            return;
        }
        let result =
            self.registry.update(&context, resource, namespace, name, "status", changed.into()).await;
        log_unless_lost(result.map(drop), key);
    }

    /// Serves what a definition defines, or ends it.
    async fn define(&self, followed: &mut Followed, definitions: &Resource, definition: &Value) {
        if definition.is_deleting() {
            if definition.has_finalizer(FINALIZER) {
                let controller = Cleanup {
                    registry: Arc::clone(&self.registry),
                    now: Arc::clone(&self.now),
                    name: definition.name().to_owned(),
                    resources: custom_resources::resources(definition).iter().map(path).collect(),
                };
                // Its objects may have finalizers, and others' definitions do not wait for them.
                tokio::spawn(controller.run());
            }
            return;
        }
        let generation = definition.generation();
        let served = followed.served.entry(definition.uid().to_owned()).or_default();
        if served.generation != generation {
            let resources = custom_resources::resources(definition);
            let paths: Vec<ResourcePath> = resources.iter().map(path).collect();
            for (group, version, plural) in served.paths.iter().filter(|old| !paths.contains(old)) {
                self.registry.table().remove(group, version, plural);
            }
            *served = Served { generation, paths };
            // Ends the watches of what it replaces, so that it happens only when the definition changed.
            self.registry.table().install(resources);
        }
        let now = (self.now)();
        let status = custom_resources::established(definition, now);
        if definition["status"] != status {
            let context = RequestContext::internal(USER, now);
            let patch = Patch::Merge(json!({"status": status}).into());
            let name = definition.name();
            let result = self.registry.patch(&context, definitions, "", name, "status", patch).await;
            log_unless_lost(result.map(drop), name);
        }
    }
}

/// Deletes the objects of a definition that is being deleted, and then lets it go.
struct Cleanup {
    registry: Arc<Registry>,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    name: String,
    resources: Vec<ResourcePath>,
}

impl Cleanup {
    async fn run(self) {
        while let Err(status) = self.step().await {
            tracing::debug!(definition = self.name, %status, "the objects of a definition are not gone yet");
            tokio::time::sleep(CLEANUP_RETRY).await;
        }
    }

    async fn step(&self) -> Result<(), Status> {
        let context = RequestContext::internal(USER, (self.now)());
        for (group, version, plural) in &self.resources {
            let Some(resource) = self.registry.table().find(group, version, plural) else { continue };
            let (all, how) = (ListOptions::default(), DeleteOptions::default());
            self.registry.delete_collection(&context, &resource, None, &all, &how).await?;
            let left = self.registry.list(&resource, None, &all).await?.entries.len();
            if left > 0 {
                return Err(Status::internal(format_args!("{left} objects of {plural}.{group} are left")));
            }
        }
        let table = self.registry.table();
        let definitions = table
            .find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            .ok_or_else(|| Status::internal("definitions are not served"))?;
        let current = self.registry.get(&definitions, "", &self.name, &GetOptions::default()).await;
        let mut definition = match current {
            Ok(entry) => entry.to_value(),
            Err(status) if status.reason() == Reason::NotFound => return Ok(()),
            Err(status) => return Err(status),
        };
        if let Some(finalizers) = definition["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        self.registry.update(&context, &definitions, "", &self.name, "", definition.into()).await.map(drop)
    }
}

/// What the controller keeps of the objects that it follows.
#[derive(Default)]
struct Followed {
    since: HashMap<Arc<str>, Since>,
    due: BinaryHeap<Reverse<(Instant, Arc<str>)>>,
    /// What is served for each definition, by its uid.
    served: HashMap<String, Served>,
}

/// Group, version and plural name.
type ResourcePath = (String, String, String);

#[derive(Default)]
struct Served {
    generation: i64,
    paths: Vec<ResourcePath>,
}

fn path(def: &ResourceDef) -> ResourcePath {
    (def.group.clone(), def.version.clone(), def.plural.clone())
}

impl Followed {
    fn next_due(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((time, _))| *time)
    }

    fn take_due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut keys = Vec::new();
        while let Some(Reverse((time, _))) = self.due.peek() {
            if *time > now {
                break;
            }
            if let Some(Reverse((_, key))) = self.due.pop() {
                keys.push(key);
            }
        }
        keys
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Whether [`simulate`] knows the kind; it decides by kind alone.
fn is_simulated(group: &str, kind: &str) -> bool {
    let nothing = Value::Null;
    let epoch = Timestamp::UNIX_EPOCH;
    simulate(group, kind, &nothing, epoch, epoch, Duration::ZERO).is_some()
}

fn log_unless_lost(result: Result<(), Status>, what: &str) {
    match result {
        Err(status) if !matches!(status.reason(), Reason::Conflict | Reason::NotFound) => {
            tracing::warn!(object = what, %status, "a simulated status was not taken");
        }
        _ => {}
    }
}
