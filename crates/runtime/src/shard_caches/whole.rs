//! One watch of everything, and a list of each shard that is gained.
//!
//! The watch may lag behind what a list of a shard says, or run ahead of it, so that the two are put together
//! by resourceVersion: the newer version of an object wins; what a list says is not there any more is not
//! brought back by an older event; and what an event took away is not brought back by an older list.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::api::{DynamicObject, ListParams};
use kube::runtime::watcher::{self, Event};
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use super::{CONCURRENT_LISTS, Context, Keeping, KindCache, PAGE, selector};
use crate::sharded::parse_shard;
use crate::store::{BACKOFF, Order, describe, is_older, key_of, version};
use crate::{Cause, Change, OwnedShards, Sharded, StoreKey, is_answer, watch_events};

struct Whole<K, F> {
    keeping: Keeping<K, F>,
    listing: Listing,
    /// The lists of shards that are under way. One that was ended may still have a page in its hands.
    looking: OwnedShards,
    /// The versions at which shards were listed, since the watch last listed everything.
    listed_at: HashMap<u32, u64>,
    /// What the watch took away while lists of shards are under way, with the version of that.
    taken: HashMap<StoreKey, u64>,
}

/// Whether the watch lists everything at the moment, as it does at first and when it has lost its place.
enum Listing {
    /// Not begun, or failed.
    Before,
    /// Under way: the keys it named so far, and the shards that were owned when it began, for which it is
    /// the look.
    UnderWay { named: HashSet<StoreKey>, owned: Arc<OwnedShards> },
    /// Done.
    Done,
}

/// Follows the API server and the owned shards until shutdown. It ends earlier when one of its tasks
/// panicked.
pub(super) async fn run<K, F>(kind: KindCache<K, F>)
where
    K: Sharded + Clone + fmt::Debug + Send + Sync + 'static,
    F: Fn(&Change<K>) + Send + 'static,
{
    let KindCache { keeper, context, synced } = kind;
    let whole = Arc::new(Mutex::new(Whole {
        keeping: keeper,
        listing: Listing::Before,
        looking: OwnedShards::new(),
        listed_at: HashMap::new(),
        taken: HashMap::new(),
    }));
    let mut owned = context.shards.changes();
    let events = watch_events(context.api.clone(), watcher::Config::default().page_size(PAGE));
    pin_mut!(events);
    let mut lists: JoinSet<()> = JoinSet::new();
    let mut handles: BTreeMap<u32, AbortHandle> = BTreeMap::new();
    let mut failures: u32 = 0;
    let mut retry_at: Option<Duration> = None;
    loop {
        let retry = async {
            match retry_at {
                Some(at) => context.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = context.shutdown.wait() => return,
            Ok(()) = owned.changed() => {}
            () = retry => retry_at = None,
            Some(ended) = lists.join_next() => {
                // What was told to end is no defect; a panic takes the process along.
                if ended.is_err_and(|error| error.is_panic()) {
                    return;
                }
            }
            event = events.next(), if retry_at.is_none() => match event {
                None => return,
                Some(Ok(event)) => {
                    if is_answer(&event) {
                        failures = 0;
                    }
                    let is_last = matches!(event, Event::InitDone);
                    let mut whole = whole.lock();
                    if matches!(event, Event::Init) {
                        handles.values().for_each(AbortHandle::abort);
                        handles.clear();
                    }
                    whole.handle(&context, event);
                    if is_last {
                        synced.send_replace(true);
                    }
                }
                Some(Err(error)) => {
                    failures += 1;
                    let wait = BACKOFF.wait(failures, u64::from(failures).wrapping_mul(7));
                    tracing::warn!(
                        kind = K::KIND, error = describe(&error), ?wait, "watch failed; trying again"
                    );
                    retry_at = Some(context.clock.monotonic().saturating_add(wait));
                }
            }
        }
        let now = Arc::clone(&owned.borrow_and_update());
        let gained = whole.lock().adjust(&context, &now, &mut handles);
        for (shard, epoch) in gained {
            let (context, whole) = (Arc::clone(&context), Arc::clone(&whole));
            let handle = lists.spawn(async move { look(&context, &whole, shard, epoch).await });
            handles.insert(shard, handle);
        }
    }
}

impl<K: Sharded, F: Fn(&Change<K>)> Whole<K, F> {
    fn handle(&mut self, context: &Context, event: Event<DynamicObject>) {
        match event {
            Event::Init => {
                // It is at least as new as all that was known before it, and the look at all shards that
                // are owned by now.
                self.looking.clear();
                self.taken.clear();
                self.listed_at.clear();
                let owned = context.shards.owned();
                self.listing = Listing::UnderWay { named: HashSet::new(), owned };
            }
            Event::InitApply(object) => {
                let key = key_of(&object);
                if let Listing::UnderWay { named, .. } = &mut self.listing {
                    named.insert(key.clone());
                }
                self.keeping.put(&key, object, None, Order::Last);
            }
            Event::InitDone => {
                let Listing::UnderWay { named, owned } = std::mem::replace(&mut self.listing, Listing::Done)
                else {
                    return;
                };
                for key in self.keeping.keeper.keys(|key, _, _| !named.contains(key)) {
                    self.keeping.remove(&key, Cause::Object, |_, _| true);
                }
                let now = context.shards.owned();
                for (shard, epoch) in owned.iter().filter(|(shard, epoch)| now.get(shard) == Some(epoch)) {
                    context.looked.looked(context.kind, *shard, *epoch);
                }
            }
            Event::Apply(object) => self.put_event(object),
            Event::Delete(object) => self.remove_event(&object),
        }
    }

    fn put_event(&mut self, object: DynamicObject) {
        let key = key_of(&object);
        let told = object.metadata.resource_version.as_deref().and_then(version);
        let listed_at = labelled(&object).and_then(|shard| self.listed_at.get(&shard));
        if let (Some(told), Some(listed)) = (told, listed_at)
            && told <= *listed
            && self.keeping.keeper.store.get(&key).is_none()
        {
            // A list has shown later that it is not there.
            return;
        }
        self.taken.remove(&key);
        self.keeping.put(&key, object, None, Order::Newest);
    }

    fn remove_event(&mut self, object: &DynamicObject) {
        let key = key_of(object);
        let told = object.metadata.resource_version.as_deref();
        if let (Some(told), false) = (told.and_then(version), self.looking.is_empty()) {
            self.taken.insert(key.clone(), told);
        }
        // A list may have shown that it was made again.
        self.keeping.remove(&key, Cause::Object, |_, stored| {
            !is_older(told, stored.metadata().resource_version.as_deref())
        });
    }

    /// Ends the lists of shards that were lost. Answers with the shards to list.
    fn adjust(
        &mut self,
        context: &Context,
        now: &OwnedShards,
        handles: &mut BTreeMap<u32, AbortHandle>,
    ) -> Vec<(u32, u64)> {
        context.looked.retain(context.kind, now);
        self.looking.retain(|shard, epoch| {
            let is_owned = now.get(shard) == Some(epoch);
            if !is_owned && let Some(handle) = handles.remove(shard) {
                handle.abort();
            }
            is_owned
        });
        if self.looking.is_empty() {
            self.taken.clear();
        }
        // A list of everything puts all right; what is gained while it is under way comes after.
        if !matches!(self.listing, Listing::Done) {
            return Vec::new();
        }
        let room = CONCURRENT_LISTS.saturating_sub(self.looking.len());
        let is_due = |&(shard, epoch): &(&u32, &u64)| {
            !self.looking.contains_key(shard) && !context.looked.has_kind_looked(context.kind, *shard, *epoch)
        };
        let gained: Vec<(u32, u64)> =
            now.iter().filter(is_due).take(room).map(|(shard, epoch)| (*shard, *epoch)).collect();
        self.looking.extend(gained.iter().copied());
        gained
    }

    fn is_looking(&self, shard: u32, epoch: u64) -> bool {
        self.looking.get(&shard) == Some(&epoch)
    }

    /// Takes in what a list of a shard names.
    fn put_listed(&mut self, key: &StoreKey, object: DynamicObject) {
        let listed = object.metadata.resource_version.as_deref().and_then(version);
        if let (Some(taken), Some(listed)) = (self.taken.get(key), listed)
            && listed < *taken
        {
            return;
        }
        self.keeping.put(key, object, None, Order::Newest);
    }

    /// A list of a shard has ended.
    fn listed(
        &mut self,
        context: &Context,
        shard: u32,
        epoch: u64,
        named: &HashSet<StoreKey>,
        at: Option<u64>,
    ) {
        let gone = self.keeping.keeper.keys(|key, _, object| {
            let is_newer = object.metadata().resource_version.as_deref().and_then(version) > at;
            object.labelled_shard() == Some(shard) && !named.contains(key) && !is_newer
        });
        for key in gone {
            self.keeping.remove(&key, Cause::Object, |_, _| true);
        }
        if let Some(at) = at {
            self.listed_at.insert(shard, at);
        }
        self.looking.remove(&shard);
        context.looked.looked(context.kind, shard, epoch);
    }
}

fn labelled(object: &DynamicObject) -> Option<u32> {
    parse_shard(object.metadata.labels.as_ref()?.get(convoy_api::label::SHARD)?)
}

/// Lists one shard into the store, again and again until it works or the shard is lost, which aborts this.
async fn look<K, F>(context: &Context, whole: &Mutex<Whole<K, F>>, shard: u32, epoch: u64)
where
    K: Sharded + Send + Sync,
    F: Fn(&Change<K>) + Send,
{
    let mut failures = 0;
    while let Err(error) = look_once(context, whole, shard, epoch).await {
        failures += 1;
        context.back_off(failures, &error, "list of a gained shard", Some(shard)).await;
    }
}

async fn look_once<K, F>(
    context: &Context,
    whole: &Mutex<Whole<K, F>>,
    shard: u32,
    epoch: u64,
) -> Result<(), kube::Error>
where
    K: Sharded + Send + Sync,
    F: Fn(&Change<K>) + Send,
{
    // Without a resourceVersion: the API server's own state, not a cache of it.
    let mut parameters = ListParams::default().labels(&selector(shard)).limit(PAGE);
    let mut named = HashSet::new();
    let mut at = None;
    loop {
        let page = context.api.list(&parameters).await?;
        let mut whole = whole.lock();
        if !whole.is_looking(shard, epoch) {
            return Ok(());
        }
        // All pages show the state of the first.
        at = at.or(page.metadata.resource_version.as_deref().and_then(version));
        for object in page.items {
            let key = key_of(&object);
            whole.put_listed(&key, object);
            named.insert(key);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => {
                whole.listed(context, shard, epoch, &named, at);
                return Ok(());
            }
        }
    }
}
