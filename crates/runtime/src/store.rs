//! What the API server holds of one kind, in memory.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Kind, decode};
use futures::{StreamExt as _, pin_mut};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;

use crate::{Backoff, Clock, Shutdown};

/// Namespace and name; the namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl StoreKey {
    /// The key of `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The key of an object.
pub fn store_key<K: Kind>(object: &K) -> StoreKey {
    let metadata = object.metadata();
    StoreKey {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

/// One object that came, changed or went. At least one of `old` and `new` is there.
#[derive(Debug)]
pub struct Change<K> {
    /// The object's key.
    pub key: StoreKey,
    /// As it was in the store.
    pub old: Option<Arc<K>>,
    /// As it is now.
    pub new: Option<Arc<K>>,
}

/// The objects of one kind, as a watch last said. Clones share them.
pub struct Store<K> {
    objects: Arc<RwLock<HashMap<StoreKey, Arc<K>>>>,
    synced: watch::Receiver<bool>,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { objects: Arc::clone(&self.objects), synced: self.synced.clone() }
    }
}

impl<K> Store<K> {
    /// One object.
    pub fn get(&self, key: &StoreKey) -> Option<Arc<K>> {
        self.objects.read().get(key).cloned()
    }

    /// The objects that pass `keep`, in no order.
    pub fn filter(&self, keep: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.objects.read().values().filter(|object| keep(object)).cloned().collect()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.read().len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.read().is_empty()
    }

    /// Whether the first list has ended: before, what is not in the store may still exist.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the first list has ended, or the watch was given up by shutdown.
    pub async fn synced(&self) {
        let mut synced = self.synced.clone();
        // An error says that the watching task has ended.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// A store that no watch feeds, with these objects; for tests.
    pub fn of(objects: impl IntoIterator<Item = K>) -> Self
    where
        K: Kind,
    {
        let objects = objects.into_iter().map(|object| (store_key(&object), Arc::new(object))).collect();
        Self { objects: Arc::new(RwLock::new(objects)), synced: watch::channel(true).1 }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("objects", &self.len()).field("synced", &self.is_synced()).finish()
    }
}

/// Which objects a store holds.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// A label selector; empty for all.
    pub labels: String,
    /// A field selector; empty for all.
    pub fields: String,
}

/// Starts to watch all objects of kind `K` in all namespaces. Answers with the store and the task
/// that feeds it until shutdown, which the caller spawns.
///
/// `on_change` is called after each change of the store, in the task: it must be quick, and
/// typically adds keys to a queue. An object that does not decode is logged and left as it was in
/// the store, so that one bad object never hides the others.
pub fn watch_into<K>(
    client: Client,
    options: StoreOptions,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    on_change: impl Fn(&Change<K>) + Send + 'static,
) -> (Store<K>, impl Future<Output = ()> + Send)
where
    K: Kind + Clone + fmt::Debug + Send + Sync + 'static,
{
    let (synced_sender, synced) = watch::channel(false);
    let store = Store { objects: Arc::new(RwLock::new(HashMap::new())), synced };
    let feeder = Feeder { store: store.clone(), listed: None, on_change };
    let task = feed(client, options, clock, shutdown, feeder, synced_sender);
    (store, task)
}

struct Feeder<K, F> {
    store: Store<K>,
    /// While a list is under way: the keys it named so far.
    listed: Option<HashSet<StoreKey>>,
    on_change: F,
}

impl<K: Kind + Send + Sync, F: Fn(&Change<K>)> Feeder<K, F> {
    fn handle(&mut self, event: Event<DynamicObject>, synced: &watch::Sender<bool>) {
        match event {
            Event::Init => self.listed = Some(HashSet::new()),
            Event::InitApply(object) => {
                let key = key_of(&object);
                if let Some(listed) = &mut self.listed {
                    listed.insert(key.clone());
                }
                self.put(key, object);
            }
            Event::InitDone => {
                if let Some(listed) = self.listed.take() {
                    let gone: Vec<StoreKey> = self
                        .store
                        .objects
                        .read()
                        .keys()
                        .filter(|key| !listed.contains(key))
                        .cloned()
                        .collect();
                    for key in gone {
                        self.delete(key);
                    }
                }
                synced.send_replace(true);
            }
            Event::Apply(object) => self.put(key_of(&object), object),
            Event::Delete(object) => self.delete(key_of(&object)),
        }
    }

    fn put(&mut self, key: StoreKey, object: DynamicObject) {
        let decoded = serde_json::to_value(object)
            .map_err(|error| error.to_string())
            .and_then(|value: Value| decode::<K>(&value).map_err(|error| describe(&error)));
        let new = match decoded {
            Ok(object) => Arc::new(object),
            Err(error) => {
                tracing::warn!(kind = K::KIND, object = %key, error, "object does not decode; its last good state stays");
                return;
            }
        };
        let old = self.store.objects.write().insert(key.clone(), Arc::clone(&new));
        let same = old.as_ref().is_some_and(|old| {
            old.metadata().resource_version.is_some()
                && old.metadata().resource_version == new.metadata().resource_version
                && old.metadata().uid == new.metadata().uid
        });
        if !same {
            (self.on_change)(&Change { key, old, new: Some(new) });
        }
    }

    fn delete(&mut self, key: StoreKey) {
        let old = self.store.objects.write().remove(&key);
        if old.is_some() {
            (self.on_change)(&Change { key, old, new: None });
        }
    }
}

fn key_of(object: &DynamicObject) -> StoreKey {
    StoreKey {
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}

fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

async fn feed<K, F>(
    client: Client,
    options: StoreOptions,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    mut feeder: Feeder<K, F>,
    synced: watch::Sender<bool>,
) where
    K: Kind + Clone + fmt::Debug + Send + Sync + 'static,
    F: Fn(&Change<K>) + Send + 'static,
{
    let resource = ApiResource {
        group: K::GROUP.to_owned(),
        version: K::VERSION.to_owned(),
        api_version: K::API_VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        plural: K::URL_PATH_SEGMENT.to_owned(),
    };
    let mut config = watcher::Config::default();
    if !options.labels.is_empty() {
        config = config.labels(&options.labels);
    }
    if !options.fields.is_empty() {
        config = config.fields(&options.fields);
    }
    let events = watcher::watcher(Api::<DynamicObject>::all_with(client, &resource), config);
    pin_mut!(events);
    let backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };
    let mut failures = 0;
    loop {
        let event = tokio::select! {
            () = shutdown.wait() => return,
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => {
                failures = 0;
                feeder.handle(event, &synced);
            }
            Some(Err(error)) => {
                failures += 1;
                let wait = backoff.wait(failures, u64::from(failures).wrapping_mul(7));
                tracing::warn!(kind = K::KIND, error = describe(&error), ?wait, "watch failed; trying again");
                tokio::select! {
                    () = shutdown.wait() => return,
                    () = clock.sleep(wait) => {}
                }
            }
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use convoy_api::GitRepository;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    fn repository(name: &str, resource_version: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "GitRepository",
            "metadata": {"namespace": "team", "name": name, "resourceVersion": resource_version},
            "spec": {"url": "https://example.com/apps"},
        }))
        .unwrap()
    }

    #[test]
    fn a_new_list_reports_only_what_differs_and_a_bad_object_hides_no_other() {
        let (synced, receiver) = watch::channel(false);
        let store: Store<GitRepository> =
            Store { objects: Arc::new(RwLock::new(HashMap::new())), synced: receiver };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let mut feeder = Feeder {
            store: store.clone(),
            listed: None,
            on_change: move |change: &Change<GitRepository>| {
                log.lock().push((change.key.name.clone(), change.old.is_some(), change.new.is_some()));
            },
        };
        let mut bad = repository("bad", "1");
        bad.data = json!({"spec": {"url": 7}});
        for event in [
            Event::Init,
            Event::InitApply(repository("a", "1")),
            Event::InitApply(bad),
            Event::InitApply(repository("b", "1")),
            Event::InitDone,
            Event::Apply(repository("a", "2")),
            Event::Init,
            Event::InitApply(repository("a", "2")),
            Event::InitApply(repository("c", "3")),
            Event::InitDone,
            Event::Delete(repository("c", "4")),
        ] {
            feeder.handle(event, &synced);
        }
        let seen = seen.lock();
        let want = [
            ("a", false, true),
            ("b", false, true),
            ("a", true, true),
            ("c", false, true),
            ("b", true, false),
            ("c", true, false),
        ];
        let want: Vec<(String, bool, bool)> =
            want.iter().map(|(name, old, new)| ((*name).to_owned(), *old, *new)).collect();
        assert_eq!(*seen, want);
        assert!(store.is_synced());
        assert_eq!(store.len(), 1);
    }
}
