//! Stores of the kinds that are divided into shards.
//!
//! Each is fed by one watch of everything ([`CacheScope::Everything`]), or by one watch for each owned shard
//! ([`CacheScope::OwnShards`]), which goes by the label that the apiserver writes. Either way a gained shard
//! is listed anew, from the API server's own state rather than a cache of it, before [`LookedShards`] says
//! that it may be worked on.

mod own;
#[cfg(test)]
mod tests;
mod whole;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use convoy_api::label;
use futures::{StreamExt as _, pin_mut};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};

use crate::outside::{OutsideOfKind, OutsideShards, Why};
use crate::store::{BACKOFF, Keeper, describe, resource_of};
use crate::{
    Cause, Change, Clock, LookedShards, Metrics, Sharded, Shards, Shutdown, Store, StoreKey, watch_events,
};

/// Objects in one answer to a list. Until they are typed they take several times what is kept of them, and what is kept
/// lies between, so that a long page leaves holes of its size.
const PAGE: u32 = 64;
/// First lists of shards that are under way at the same time, for each kind.
const CONCURRENT_LISTS: usize = 8;

/// What the stores of sharded kinds hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheScope {
    /// All objects, whoever owns them.
    #[default]
    Everything,
    /// The objects of owned shards: `--shard-scoped-cache`.
    OwnShards,
}

/// Makes the stores of a process's sharded kinds.
pub struct ShardCaches {
    client: Client,
    shards: Shards,
    scope: CacheScope,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    looked: LookedShards,
    outside: OutsideShards,
}

impl ShardCaches {
    /// For stores that follow `shards`; `metrics` get `convoy_objects_outside_shards`.
    pub fn new(
        client: Client,
        shards: Shards,
        scope: CacheScope,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
        metrics: &Metrics,
    ) -> Self {
        let outside = OutsideShards::new(metrics, Arc::clone(&clock));
        Self { client, shards, scope, clock, shutdown, looked: LookedShards::new(), outside }
    }

    /// Starts to watch a kind. Answers with the store and the task that feeds it until shutdown, which the
    /// caller spawns. The kind's objects count in [`ShardCaches::looked`].
    ///
    /// `on_change` is called after each change of the store, in the task: it must be quick, and typically
    /// adds keys to a queue. When a shard is lost, [`Change::cause`] tells it from a deletion. A shard-scoped
    /// store never knows that an object does not exist, only that it is not in this replica's shards.
    ///
    /// The store is synced ([`Store::synced`]) after the first list; a shard-scoped one at once, because
    /// what it holds is known shard by shard.
    pub fn watch<K, F>(&self, on_change: F) -> (Store<K>, impl Future<Output = ()> + Send + use<K, F>)
    where
        K: Sharded + Clone + fmt::Debug + Send + Sync + 'static,
        F: Fn(&Change<K>) + Send + 'static,
    {
        let (keeper, synced) = Keeper::new(on_change);
        let store = keeper.store.clone();
        let kind = KindCache {
            keeper: Keeping { keeper, outside: self.outside.kind(K::KIND), shards: self.shards.clone() },
            context: Arc::new(Context {
                api: Api::all_with(self.client.clone(), &resource_of::<K>()),
                labels: Api::all_with(self.client.clone(), &resource_of::<K>()),
                kind_name: K::KIND,
                kind: self.looked.add_kind(),
                shards: self.shards.clone(),
                looked: self.looked.clone(),
                clock: Arc::clone(&self.clock),
                shutdown: self.shutdown.clone(),
                outside: self.outside.clone(),
            }),
            synced,
        };
        let scope = self.scope;
        let task = async move {
            match scope {
                CacheScope::Everything => whole::run(kind).await,
                CacheScope::OwnShards => own::run(kind).await,
            }
        };
        (store, task)
    }

    /// Says that all kinds are watched, and answers with what tells which shards may be worked on.
    pub fn looked(self) -> LookedShards {
        self.looked.complete();
        self.looked
    }
}

impl fmt::Debug for ShardCaches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardCaches").field("scope", &self.scope).field("shards", &self.shards).finish()
    }
}

/// One kind's store and what feeds it.
struct KindCache<K, F> {
    keeper: Keeping<K, F>,
    context: Arc<Context>,
    synced: tokio::sync::watch::Sender<bool>,
}

/// What the tasks of one kind share, without the store.
struct Context {
    api: Api<DynamicObject>,
    /// The same, without spec and status.
    labels: Api<PartialObjectMeta<DynamicObject>>,
    kind_name: &'static str,
    /// The kind's number in [`LookedShards`].
    kind: usize,
    shards: Shards,
    looked: LookedShards,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    outside: OutsideShards,
}

impl Context {
    /// Waits after a failure; says so, and of which shard, if one it is.
    async fn back_off(
        &self,
        failures: u32,
        error: &(dyn std::error::Error + Sync),
        what: &str,
        shard: Option<u32>,
    ) {
        let wait = BACKOFF.wait(failures, u64::from(failures).wrapping_mul(7));
        tracing::warn!(
            kind = self.kind_name,
            shard,
            error = describe(error),
            ?wait,
            "{what} failed; trying again"
        );
        self.clock.sleep(wait).await;
    }
}

fn selector(shard: u32) -> String {
    format!("{}={shard}", label::SHARD)
}

/// A [`Keeper`] that also looks at labels.
struct Keeping<K, F> {
    keeper: Keeper<K, F>,
    outside: OutsideOfKind,
    shards: Shards,
}

impl<K: Sharded, F: Fn(&Change<K>)> Keeping<K, F> {
    fn put(&mut self, key: &StoreKey, object: DynamicObject, from: Option<u32>, order: crate::store::Order) {
        if self.keeper.put(key.clone(), object, from, order)
            && let Some(object) = self.keeper.store.get(key)
        {
            let label = object.metadata().labels.as_ref().and_then(|labels| labels.get(label::SHARD));
            let count = self.shards.count().get();
            let why = Why::of(label.map(String::as_str), Some(object.shard(&self.shards)), count);
            self.outside.set(key, why);
        }
    }

    fn remove(&mut self, key: &StoreKey, cause: Cause, is_meant: impl Fn(Option<u32>, &K) -> bool) -> bool {
        let is_removed = self.keeper.remove(key.clone(), cause, is_meant);
        if is_removed {
            self.outside.set(key, None);
        }
        is_removed
    }
}

/// Watches the labels alone of objects that no shard-scoped cache holds.
async fn watch_outside(context: &Context) {
    let count = context.shards.count().get();
    let all: Vec<String> = (0..count).map(|shard| shard.to_string()).collect();
    // `notin` also meets objects without the label.
    let labels = format!("{} notin ({})", label::SHARD, all.join(","));
    let config = watcher::Config::default().labels(&labels);
    let events = watch_events(context.labels.clone(), config);
    pin_mut!(events);
    let mut outside = context.outside.kind(context.kind_name);
    let mut listed = HashSet::new();
    let mut failures = 0;
    let look = |object: &PartialObjectMeta<DynamicObject>| {
        let metadata = &object.metadata;
        let key = StoreKey::new(
            metadata.namespace.clone().unwrap_or_default(),
            metadata.name.clone().unwrap_or_default(),
        );
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(label::SHARD));
        (key, Why::of(label.map(String::as_str), None, count))
    };
    while let Some(event) = events.next().await {
        match event {
            Err(error) => {
                failures += 1;
                context.back_off(failures, &error, "watch of shard labels", None).await;
                continue;
            }
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                let (key, why) = look(&object);
                outside.set(&key, why);
                listed.insert(key);
            }
            Ok(Event::InitDone) => outside.retain(|key| listed.contains(key)),
            Ok(Event::Apply(object)) => {
                let (key, why) = look(&object);
                outside.set(&key, why);
            }
            Ok(Event::Delete(object)) => outside.set(&look(&object).0, None),
        }
        failures = 0;
    }
}
