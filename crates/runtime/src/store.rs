//! What the API server holds of one kind, in memory.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Kind, decode};
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;

use crate::{Backoff, Clock, Shutdown, is_answer, watch_events};

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
    /// Why the store changed.
    pub cause: Cause,
}

/// Why a store changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The object came, changed or went on the API server; in a shard-scoped store it may also have moved
    /// to a shard that is not this replica's.
    Object,
    /// Its shard was lost: the object is as it was, and another replica's.
    ShardLost,
}

/// The objects of one kind, as a watch last said. Clones share them.
pub struct Store<K> {
    objects: Arc<RwLock<HashMap<StoreKey, Entry<K>>>>,
    synced: watch::Receiver<bool>,
}

struct Entry<K> {
    object: Arc<K>,
    /// The shard whose watch the object came from; none from a watch of everything.
    from: Option<u32>,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { objects: Arc::clone(&self.objects), synced: self.synced.clone() }
    }
}

impl<K> Store<K> {
    /// One object.
    pub fn get(&self, key: &StoreKey) -> Option<Arc<K>> {
        self.objects.read().get(key).map(|entry| Arc::clone(&entry.object))
    }

    /// The objects that pass `keep`, in no order.
    pub fn filter(&self, keep: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let objects = self.objects.read();
        objects.values().map(|entry| &entry.object).filter(|object| keep(object)).cloned().collect()
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
        let entry = |object| Entry { object: Arc::new(object), from: None };
        let objects = objects.into_iter().map(|object| (store_key(&object), entry(object))).collect();
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
    let (keeper, synced) = Keeper::new(on_change);
    let store = keeper.store.clone();
    let feeder = Feeder { keeper, listed: None };
    let task = feed(client, options, clock, shutdown, feeder, synced);
    (store, task)
}

/// Which version of an object wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The one that comes last: one watch tells the versions in their order.
    Last,
    /// The one with the newest resourceVersion: several watches or lists tell of the object. What comes from
    /// the same shard's watch as what is stored comes in its order.
    Newest,
}

/// What changes a store.
pub(crate) struct Keeper<K, F> {
    pub(crate) store: Store<K>,
    on_change: F,
}

impl<K: Kind, F: Fn(&Change<K>)> Keeper<K, F> {
    /// An empty store that is not synced yet, with the sender that says it is.
    pub(crate) fn new(on_change: F) -> (Self, watch::Sender<bool>) {
        let (sender, synced) = watch::channel(false);
        (Self { store: Store { objects: Arc::default(), synced }, on_change }, sender)
    }

    /// Takes in an object. Says whether it is in the store now as it was given.
    pub(crate) fn put(
        &self,
        key: StoreKey,
        mut object: DynamicObject,
        from: Option<u32>,
        order: Order,
    ) -> bool {
        slim(&mut object.metadata);
        let is_older = |old: &Entry<K>| {
            if from.is_some() && old.from == from {
                return false;
            }
            let old = old.object.metadata().resource_version.as_deref();
            is_older(object.metadata.resource_version.as_deref(), old)
        };
        if order == Order::Newest && self.store.objects.read().get(&key).is_some_and(is_older) {
            return false;
        }
        let decoded = serde_json::to_value(object)
            .map_err(|error| error.to_string())
            .and_then(|value: Value| decode::<K>(&value).map_err(|error| describe(&error)));
        let new = match decoded {
            Ok(object) => Arc::new(object),
            Err(error) => {
                tracing::warn!(kind = K::KIND, object = %key, error, "object does not decode; its last good state stays");
                return false;
            }
        };
        let entry = Entry { object: Arc::clone(&new), from };
        let old = self.store.objects.write().insert(key.clone(), entry).map(|entry| entry.object);
        let same = old.as_ref().is_some_and(|old| {
            old.metadata().resource_version.is_some()
                && old.metadata().resource_version == new.metadata().resource_version
                && old.metadata().uid == new.metadata().uid
        });
        if !same {
            (self.on_change)(&Change { key, old, new: Some(new), cause: Cause::Object });
        }
        true
    }

    /// Drops an object when `is_meant` says so of what is stored: the shard whose watch it came from, and
    /// the object. Says whether it did.
    pub(crate) fn remove(
        &self,
        key: StoreKey,
        cause: Cause,
        is_meant: impl Fn(Option<u32>, &K) -> bool,
    ) -> bool {
        let mut objects = self.store.objects.write();
        if !objects.get(&key).is_some_and(|entry| is_meant(entry.from, &entry.object)) {
            return false;
        }
        let old = objects.remove(&key).map(|entry| entry.object);
        drop(objects);
        (self.on_change)(&Change { key, old, new: None, cause });
        true
    }

    /// The keys of the objects that pass `keep`, which takes what [`Keeper::remove`]'s test takes.
    pub(crate) fn keys(&self, keep: impl Fn(&StoreKey, Option<u32>, &K) -> bool) -> Vec<StoreKey> {
        let objects = self.store.objects.read();
        let kept = objects.iter().filter(|(key, entry)| keep(key, entry.from, &entry.object));
        kept.map(|(key, _)| key.clone()).collect()
    }
}

/// Takes away what nobody reads and what is large.
fn slim(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if annotations.is_empty() {
            metadata.annotations = None;
        }
    }
}

/// Whether one resourceVersion is older than another; what cannot be compared is not.
pub(crate) fn is_older(one: Option<&str>, other: Option<&str>) -> bool {
    match (one.and_then(version), other.and_then(version)) {
        (Some(one), Some(other)) => one < other,
        _ => false,
    }
}

/// A resourceVersion as the growing number that API servers hand out.
pub(crate) fn version(resource_version: &str) -> Option<u64> {
    resource_version.parse().ok()
}

/// Feeds a store from one watch of everything that it is to hold.
struct Feeder<K, F> {
    keeper: Keeper<K, F>,
    /// While a list is under way: the keys it named so far.
    listed: Option<HashSet<StoreKey>>,
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
                self.keeper.put(key, object, None, Order::Last);
            }
            Event::InitDone => {
                if let Some(listed) = self.listed.take() {
                    for key in self.keeper.keys(|key, _, _| !listed.contains(key)) {
                        self.keeper.remove(key, Cause::Object, |_, _| true);
                    }
                }
                synced.send_replace(true);
            }
            Event::Apply(object) => {
                self.keeper.put(key_of(&object), object, None, Order::Last);
            }
            Event::Delete(object) => {
                self.keeper.remove(key_of(&object), Cause::Object, |_, _| true);
            }
        }
    }
}

pub(crate) fn key_of(object: &DynamicObject) -> StoreKey {
    StoreKey {
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}

pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The waits after watches and lists that failed.
pub(crate) const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// How a client names convoy's kind `K`.
pub fn resource_of<K: Kind>() -> ApiResource {
    ApiResource {
        group: K::GROUP.to_owned(),
        version: K::VERSION.to_owned(),
        api_version: K::API_VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        plural: K::URL_PATH_SEGMENT.to_owned(),
    }
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
    let resource = resource_of::<K>();
    let mut config = watcher::Config::default();
    if !options.labels.is_empty() {
        config = config.labels(&options.labels);
    }
    if !options.fields.is_empty() {
        config = config.fields(&options.fields);
    }
    let events = watch_events(Api::<DynamicObject>::all_with(client, &resource), config);
    pin_mut!(events);
    let mut failures = 0;
    loop {
        let event = tokio::select! {
            () = shutdown.wait() => return,
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => {
                if is_answer(&event) {
                    failures = 0;
                }
                feeder.handle(event, &synced);
            }
            Some(Err(error)) => {
                failures += 1;
                let wait = BACKOFF.wait(failures, u64::from(failures).wrapping_mul(7));
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
    use std::sync::atomic::{AtomicU32, Ordering};

    use convoy_api::GitRepository;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::ManualClock;

    fn repository(name: &str, resource_version: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "GitRepository",
            "metadata": {"namespace": "team", "name": name, "resourceVersion": resource_version},
            "spec": {"url": "https://example.com/apps"},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn a_list_that_is_refused_again_and_again_is_asked_for_less_and_less() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let refuses = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            async { http::Response::builder().status(404).body(kube::client::Body::empty()) }
        });
        let clock = Arc::new(ManualClock::at(jiff::Timestamp::UNIX_EPOCH));
        let (client, shutdown) = (Client::new(refuses, "default"), Shutdown::new());
        let (_, task) = watch_into::<GitRepository>(
            client,
            StoreOptions::default(),
            Arc::clone(&clock) as Arc<dyn Clock>,
            shutdown.clone(),
            |_| {},
        );
        let task = tokio::spawn(task);
        // When each list was asked for, on a clock that is put forward step by step.
        let mut times = Vec::new();
        while times.len() < 5 {
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            if asked.load(Ordering::Relaxed) as usize > times.len() {
                times.push(clock.monotonic());
            } else {
                clock.advance(Duration::from_millis(50));
            }
            assert!(clock.monotonic() < Duration::from_secs(60), "{times:?}");
        }
        shutdown.trigger();
        task.await.unwrap();
        let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.windows(2).all(|pair| pair[1] > pair[0] * 3 / 2), "{gaps:?}");
    }

    #[test]
    fn a_new_list_reports_only_what_differs_and_a_bad_object_hides_no_other() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let (keeper, synced) = Keeper::new(move |change: &Change<GitRepository>| {
            log.lock().push((change.key.name.clone(), change.old.is_some(), change.new.is_some()));
        });
        let store = keeper.store.clone();
        let mut feeder = Feeder { keeper, listed: None };
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
