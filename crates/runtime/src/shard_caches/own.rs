//! One watch for each owned shard.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use futures::{StreamExt as _, pin_mut};
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

use super::{CONCURRENT_LISTS, Context, Keeping, KindCache, PAGE, selector, watch_outside};
use crate::store::{Order, key_of};
use crate::{Cause, Change, OwnedShards, Sharded, StoreKey, is_answer, watch_events};

/// What the watches of all shards share.
struct Own<K, F> {
    keeping: Keeping<K, F>,
    /// The shards that are watched. A watch that was ended may still have an event in its hands.
    watched: OwnedShards,
}

/// The watch of one shard in one epoch.
#[derive(Clone, Copy, Debug)]
struct Watched {
    shard: u32,
    epoch: u64,
}

/// Follows the owned shards until shutdown. It ends earlier when one of its tasks panicked.
pub(super) async fn run<K, F>(kind: KindCache<K, F>)
where
    K: Sharded + Clone + fmt::Debug + Send + Sync + 'static,
    F: Fn(&Change<K>) + Send + 'static,
{
    let KindCache { keeper, context, synced } = kind;
    let own = Arc::new(Mutex::new(Own { keeping: keeper, watched: OwnedShards::new() }));
    synced.send_replace(true);
    let mut owned = context.shards.changes();
    let lists = Arc::new(Semaphore::new(CONCURRENT_LISTS));
    let mut handles: BTreeMap<u32, AbortHandle> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let outside = Arc::clone(&context);
    tasks.spawn(async move { watch_outside(&outside).await });
    loop {
        let now = Arc::clone(&owned.borrow_and_update());
        for watched in adjust(&context, &own, &now, &mut handles) {
            let (context, own, lists) = (Arc::clone(&context), Arc::clone(&own), Arc::clone(&lists));
            let handle = tasks.spawn(async move { watch(&context, &own, watched, &lists).await });
            handles.insert(watched.shard, handle);
        }
        loop {
            tokio::select! {
                () = context.shutdown.wait() => return,
                Ok(()) = owned.changed() => break,
                Some(ended) = tasks.join_next() => {
                    // What was told to end is no defect; all else takes the process along.
                    if !ended.is_err_and(|error| error.is_cancelled()) {
                        return;
                    }
                }
            }
        }
    }
}

/// Ends the watches of shards that were lost and drops their objects. Answers with the watches to start.
fn adjust<K: Sharded, F: Fn(&Change<K>)>(
    context: &Context,
    own: &Mutex<Own<K, F>>,
    now: &OwnedShards,
    handles: &mut BTreeMap<u32, AbortHandle>,
) -> Vec<Watched> {
    let mut own = own.lock();
    // Nobody is to start work on what is about to go.
    context.looked.retain(context.kind, now);
    let ended: Vec<u32> = own
        .watched
        .iter()
        .filter(|(shard, epoch)| now.get(shard) != Some(epoch))
        .map(|(shard, _)| *shard)
        .collect();
    for shard in ended {
        if let Some(handle) = handles.remove(&shard) {
            handle.abort();
        }
        own.watched.remove(&shard);
        // What was gained again keeps its objects; the new watch's list puts them right.
        if !now.contains_key(&shard) {
            for key in own.keeping.keeper.keys(|_, from, _| from == Some(shard)) {
                own.keeping.remove(&key, Cause::ShardLost, |from, _| from == Some(shard));
            }
        }
    }
    let gained: Vec<Watched> = now
        .iter()
        .filter(|(shard, _)| !own.watched.contains_key(shard))
        .map(|(shard, epoch)| Watched { shard: *shard, epoch: *epoch })
        .collect();
    own.watched.extend(gained.iter().map(|watched| (watched.shard, watched.epoch)));
    gained
}

/// Watches one shard. Its first list is the look at the shard: the watcher asks for the API server's own
/// state.
async fn watch<K, F>(context: &Context, own: &Mutex<Own<K, F>>, watched: Watched, lists: &Arc<Semaphore>)
where
    K: Sharded + Send + Sync,
    F: Fn(&Change<K>) + Send,
{
    let config = watcher::Config::default().labels(&selector(watched.shard)).page_size(PAGE);
    let events = watch_events(context.api.clone(), config);
    pin_mut!(events);
    let mut listed = None;
    let mut failures = 0;
    let mut turn: Option<OwnedSemaphorePermit> = None;
    let mut has_listed = false;
    loop {
        if !has_listed && turn.is_none() {
            turn = Arc::clone(lists).acquire_owned().await.ok();
        }
        match events.next().await {
            None => return,
            Some(Ok(event)) => {
                if is_answer(&event) {
                    failures = 0;
                }
                has_listed |= matches!(event, Event::InitDone);
                handle(context, &mut own.lock(), watched, &mut listed, event);
            }
            Some(Err(error)) => {
                failures += 1;
                // A list that fails holds up no other.
                turn = None;
                context.back_off(failures, &error, "watch of a shard", Some(watched.shard)).await;
            }
        }
        if has_listed {
            turn = None;
        }
    }
}

fn handle<K: Sharded, F: Fn(&Change<K>)>(
    context: &Context,
    own: &mut Own<K, F>,
    watched: Watched,
    listed: &mut Option<HashSet<StoreKey>>,
    event: Event<DynamicObject>,
) {
    let Watched { shard, epoch } = watched;
    if own.watched.get(&shard) != Some(&epoch) {
        return;
    }
    let keeping = &mut own.keeping;
    // Only what came from this watch is this watch's to take away: an object whose label changed may have
    // come from the watch of its new shard already.
    let is_ours = |from: Option<u32>, _: &K| from == Some(shard);
    match event {
        Event::Init => *listed = Some(HashSet::new()),
        Event::InitApply(object) => {
            let key = key_of(&object);
            if let Some(listed) = listed {
                listed.insert(key.clone());
            }
            keeping.put(&key, object, Some(shard), Order::Newest);
        }
        Event::InitDone => {
            if let Some(listed) = listed.take() {
                for key in keeping.keeper.keys(|key, from, _| from == Some(shard) && !listed.contains(key)) {
                    keeping.remove(&key, Cause::Object, is_ours);
                }
            }
            context.looked.looked(context.kind, shard, epoch);
        }
        Event::Apply(object) => keeping.put(&key_of(&object), object, Some(shard), Order::Newest),
        Event::Delete(object) => {
            keeping.remove(&key_of(&object), Cause::Object, is_ours);
        }
    }
}
