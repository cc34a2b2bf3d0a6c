mod namespaces;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{label, reason};
use convoy_health::RuleSets;
use convoy_runtime::{Backoff, Clock, Shutdown, StoreKey, is_answer, watch_events};
use futures::StreamExt as _;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::discovery::Scope;
use kube::runtime::watcher::{self, Event};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::fault::Fault;
use crate::model::{Model, ObjectName, WatchedKind};
use crate::seen;

/// Interruptions of a watch without an answer in between after which it is begun anew, and called broken until then.
const INTERRUPTIONS: u32 = 3;
/// Lists of one cluster at a time.
pub(crate) const LISTS: usize = 8;
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// One watch of one kind on one cluster, until shutdown.
pub(crate) struct KindWatch {
    pub(crate) cluster: StoreKey,
    pub(crate) kind: WatchedKind,
    pub(crate) client: Client,
    pub(crate) model: Arc<Mutex<Model>>,
    /// Turns of those who list, whatever they list: what was cut off together does not list all at once.
    pub(crate) turns: Arc<Semaphore>,
    /// What makes objects healthy.
    pub(crate) health: Arc<RuleSets>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Called for each Release whose verdict may have changed.
    pub(crate) on_change: Arc<dyn Fn(StoreKey) + Send + Sync>,
    /// Called when the watch fails: the kubeconfig may have changed.
    pub(crate) on_failure: Arc<dyn Fn() + Send + Sync>,
    /// Called when the watch may have come to be broken, or to work.
    pub(crate) on_state: Arc<dyn Fn() + Send + Sync>,
}

impl KindWatch {
    /// Finds the kind's URL and watches, again and again.
    pub(crate) async fn run(self, shutdown: Shutdown) {
        let mut kinds_came = {
            let mut model = self.model.lock();
            model.watch_started(&self.kind);
            model.kinds_came.subscribe()
        };
        let mut failures = 0;
        while !shutdown.is_triggered() {
            kinds_came.mark_unchanged();
            let ended = tokio::select! {
                () = shutdown.wait() => return,
                ended = self.watch_once(&mut failures) => ended,
            };
            let fault = ended.err().unwrap_or_else(ended_by_itself);
            failures += 1;
            let wait = pause(failures, &(&self.cluster, &self.kind));
            tracing::warn!(
                cluster = %self.cluster, kind = %self.kind, error = %fault, ?wait,
                "watch of a target failed; trying again"
            );
            self.model.lock().failed(&self.kind, fault, self.clock.monotonic());
            self.tell_all();
            (self.on_state)();
            (self.on_failure)();
            tokio::select! {
                () = shutdown.wait() => return,
                () = self.clock.sleep(wait) => {}
                // Only a wish: the kind may be another one.
                Ok(()) = kinds_came.changed() => {}
            }
        }
    }

    /// Watches until something is wrong that a new look at discovery may mend.
    async fn watch_once(&self, failures: &mut u32) -> Result<(), Fault> {
        let wanted = GroupVersionKind {
            group: self.kind.group.clone(),
            version: self.kind.version.clone(),
            kind: self.kind.kind.clone(),
        };
        let turn = self.turns.acquire().await;
        let found = kube::discovery::pinned_kind(&self.client, &wanted).await;
        drop(turn);
        let (resource, capabilities) = found.map_err(|error| Fault::of(&self.kind, &error))?;
        loop {
            match self.watch_in(None, &resource, failures).await {
                Err(error)
                    if error.reason == reason::WATCH_FORBIDDEN && capabilities.scope == Scope::Namespaced =>
                {
                    self.watch_namespaces(&resource, &error).await;
                }
                ended => return ended,
            }
        }
    }

    /// Watches one namespace, or all.
    async fn watch_in(
        &self,
        namespace: Option<&str>,
        resource: &ApiResource,
        failures: &mut u32,
    ) -> Result<(), Fault> {
        let config = watcher::Config::default().labels(&selector());
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        };
        let events = watch_events(api, config);
        futures::pin_mut!(events);
        let mut listed = None;
        let mut turn = None;
        while let Some(event) = events.next().await {
            match &event {
                // The list is asked for when the next event is.
                Ok(Event::Init) => turn = self.turns.acquire().await.ok(),
                Ok(Event::InitApply(_)) => {}
                _ => drop(turn.take()),
            }
            match event {
                Ok(event) => {
                    if is_answer(&event) {
                        *failures = 0;
                    }
                    self.handle(event, namespace, resource, &mut listed);
                }
                // The watcher goes on from where it was; only what it cannot mend ends it.
                Err(error @ (watcher::Error::InitialListFailed(_) | watcher::Error::WatchStartFailed(_))) => {
                    return Err(Fault::of_watch(&self.kind, &error));
                }
                Err(error) if *failures >= INTERRUPTIONS => {
                    return Err(Fault::of_watch(&self.kind, &error));
                }
                Err(error) => {
                    *failures += 1;
                    let wait = pause(*failures, &(&self.cluster, &self.kind, namespace));
                    tracing::debug!(cluster = %self.cluster, kind = %self.kind, error = %Fault::of_watch(&self.kind, &error), ?wait, "watch of a target was interrupted");
                    self.clock.sleep(wait).await;
                }
            }
        }
        Ok(())
    }

    fn handle(
        &self,
        event: Event<DynamicObject>,
        namespace: Option<&str>,
        resource: &ApiResource,
        listed: &mut Option<BTreeSet<ObjectName>>,
    ) {
        match event {
            Event::Init => *listed = Some(BTreeSet::new()),
            Event::InitApply(object) => {
                if let Some(listed) = listed {
                    listed.insert(name_of(&object));
                }
                self.put(object, resource);
            }
            Event::InitDone => {
                let names = listed.take().unwrap_or_default();
                self.model.lock().listed(&self.kind, namespace, &names);
                self.tell_all();
                (self.on_state)();
            }
            Event::Apply(object) => {
                let name = name_of(&object);
                let was_served = self.serves_a_kind(&name);
                self.put(object, resource);
                if !was_served && self.serves_a_kind(&name) {
                    self.model.lock().kinds_came.send_modify(|count| *count += 1);
                }
            }
            Event::Delete(object) => {
                let name = name_of(&object);
                self.model.lock().remove(&self.kind, &name);
                self.tell(&name);
            }
        }
    }

    fn put(&self, object: DynamicObject, resource: &ApiResource) {
        let name = name_of(&object);
        // Items of a list come without their kind.
        let mut value = serde_json::to_value(object).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("apiVersion".to_owned(), resource.api_version.clone().into());
            fields.insert("kind".to_owned(), resource.kind.clone().into());
        }
        let rules = self.model.lock().rules_of(&self.kind, &name);
        let seen = seen::look_with(&value, self.clock.now(), rules.as_deref(), &self.health.rules());
        self.model.lock().put(&self.kind, &name, seen);
        self.tell(&name);
    }

    /// Whether an object is a definition whose kind is served.
    fn serves_a_kind(&self, name: &ObjectName) -> bool {
        self.kind.kind == "CustomResourceDefinition" && self.model.lock().is_healthy(&self.kind, name)
    }

    fn tell(&self, name: &ObjectName) {
        let releases = self.model.lock().releases_with(&self.kind, name);
        releases.into_iter().for_each(|release| (self.on_change)(release));
    }

    fn tell_all(&self) {
        let releases = self.model.lock().releases_of_kind(&self.kind);
        releases.into_iter().for_each(|release| (self.on_change)(release));
    }
}

fn selector() -> String {
    format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_CONVOY)
}

/// How long `who` waits after its failures: between half of the back-off and all of it, each another part.
fn pause(failures: u32, who: &impl Hash) -> Duration {
    let mut hasher = DefaultHasher::new();
    (who, failures).hash(&mut hasher);
    let percent = 50 + u32::try_from(hasher.finish() % 51).unwrap_or_default();
    BACKOFF.doubled(failures).saturating_mul(percent) / 100
}

fn ended_by_itself() -> Fault {
    Fault::new(reason::WATCH_FAILED, "the watch ended")
}

fn name_of(object: &DynamicObject) -> ObjectName {
    let metadata = &object.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// An error with all its causes, in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
