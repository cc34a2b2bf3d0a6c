//! Who waits for which Release, and what is known of those that are waited for.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use convoy_api::Release;
use convoy_runtime::{Cause, Change, Clock, Shutdown, Store, StoreKey, StoreOptions, WorkQueue, watch_into};
use kube::Client;
use parking_lot::{Mutex, RwLock};

/// Releases of other replicas' shards that are watched one by one.
const MOST_WATCHED: usize = 1000;

/// The Releases that each depends on.
pub(crate) fn dependencies_of(key: &StoreKey, release: &Release) -> impl Iterator<Item = StoreKey> {
    let names = release.spec.depends_on.iter().map(|dependency| dependency.name.as_str());
    names.map(|name| StoreKey::new(key.namespace.as_str(), name))
}

/// What is known of a Release that is waited for.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// It is there.
    Found(Arc<Release>),
    /// It does not exist.
    Missing,
    /// Whether it exists will be known in a moment, and then who waits for it is woken.
    NotYet,
    /// It is not watched: too many are.
    Unwatched,
}

/// Who waits for each Release, so that a change of it wakes them. With a shard-scoped cache those that are
/// waited for may be another replica's: then each is watched by itself, as long as one of ours waits for it.
pub(crate) struct Dependents {
    by_dependency: RwLock<HashMap<StoreKey, BTreeSet<StoreKey>>>,
    queue: Arc<WorkQueue<StoreKey>>,
    elsewhere: Option<Elsewhere>,
}

/// How Releases of other shards are watched.
struct Elsewhere {
    client: Client,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    watched: Mutex<HashMap<StoreKey, Watched>>,
}

struct Watched {
    store: Store<Release>,
    stop: Shutdown,
}

impl fmt::Debug for Dependents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependents")
            .field("dependencies", &self.by_dependency.read().len())
            .finish_non_exhaustive()
    }
}

impl Dependents {
    /// Wakes through `queue`.
    pub(crate) fn new(queue: Arc<WorkQueue<StoreKey>>) -> Self {
        Self { by_dependency: RwLock::default(), queue, elsewhere: None }
    }

    /// Also watches Releases that the store does not hold.
    pub(crate) fn watching(mut self, client: Client, clock: Arc<dyn Clock>, shutdown: Shutdown) -> Self {
        self.elsewhere = Some(Elsewhere { client, clock, shutdown, watched: Mutex::default() });
        self
    }

    /// Follows the store, and wakes who waits for what changed.
    pub(crate) fn follow(&self, change: &Change<Release>) {
        let named = |release: &Release| dependencies_of(&change.key, release).collect::<BTreeSet<_>>();
        let old = change.old.as_deref().map(named).unwrap_or_default();
        let new = change.new.as_deref().map(named).unwrap_or_default();
        if old != new {
            let mut nobody_waits = Vec::new();
            {
                let mut all = self.by_dependency.write();
                for gone in old.difference(&new) {
                    if let Some(dependents) = all.get_mut(gone) {
                        dependents.remove(&change.key);
                        if dependents.is_empty() {
                            all.remove(gone);
                            nobody_waits.push(gone.clone());
                        }
                    }
                }
                for come in new.difference(&old) {
                    all.entry(come.clone()).or_default().insert(change.key.clone());
                }
            }
            nobody_waits.iter().for_each(|key| self.unwatch(key));
        }
        if change.cause != Cause::ShardLost {
            self.wake(&change.key);
        }
    }

    fn wake(&self, dependency: &StoreKey) {
        for dependent in self.of(dependency) {
            self.queue.add(dependent);
        }
    }

    /// Who waits for a Release.
    pub(crate) fn of(&self, dependency: &StoreKey) -> Vec<StoreKey> {
        let all = self.by_dependency.read();
        all.get(dependency).map(|dependents| dependents.iter().cloned().collect()).unwrap_or_default()
    }

    /// What is known of a Release that is waited for. `releases` is the store of all, or of owned shards.
    pub(crate) fn look_up(self: &Arc<Self>, releases: &Store<Release>, key: &StoreKey) -> Known {
        if let Some(found) = releases.get(key) {
            return Known::Found(found);
        }
        let Some(elsewhere) = &self.elsewhere else { return Known::Missing };
        let mut watched = elsewhere.watched.lock();
        if let Some(Watched { store, .. }) = watched.get(key) {
            return match store.get(key) {
                Some(found) => Known::Found(found),
                None if store.is_synced() => Known::Missing,
                None => Known::NotYet,
            };
        }
        // Whoever asks may have stopped to wait for it: then nobody would end the watch.
        if !self.by_dependency.read().contains_key(key) {
            return Known::NotYet;
        }
        if watched.len() >= MOST_WATCHED {
            return Known::Unwatched;
        }
        watched.insert(key.clone(), self.watch(elsewhere, key));
        Known::NotYet
    }

    fn watch(self: &Arc<Self>, elsewhere: &Elsewhere, key: &StoreKey) -> Watched {
        let stop = elsewhere.shutdown.child();
        let fields = format!("metadata.name={},metadata.namespace={}", key.name, key.namespace);
        let options = StoreOptions { fields, ..StoreOptions::default() };
        // What it depends on itself counts, too, when a cycle is looked for.
        let follower = Arc::clone(self);
        let (store, feed) = watch_into::<Release>(
            elsewhere.client.clone(),
            options,
            Arc::clone(&elsewhere.clock),
            stop.clone(),
            move |change| follower.follow(change),
        );
        tokio::spawn(feed);
        let (waker, key, synced) = (Arc::clone(self), key.clone(), store.clone());
        tokio::spawn(async move {
            synced.synced().await;
            waker.wake(&key);
        });
        Watched { store, stop }
    }

    /// Nobody waits for it any more.
    fn unwatch(&self, key: &StoreKey) {
        let Some(elsewhere) = &self.elsewhere else { return };
        let Some(Watched { store, stop }) = elsewhere.watched.lock().remove(key) else { return };
        stop.trigger();
        let last = store.get(key);
        if last.is_some() {
            let change = Change { key: key.clone(), old: last, new: None, cause: Cause::ShardLost };
            self.follow(&change);
        }
    }
}

#[cfg(test)]
mod tests {
    use convoy_api::Dependency;
    use convoy_runtime::{Backoff, ManualClock};
    use jiff::Timestamp;

    use super::*;

    fn key(name: &str) -> StoreKey {
        StoreKey::new("team", name)
    }

    fn release(name: &str, depends_on: &[&str]) -> Arc<Release> {
        let mut release = Release::default();
        release.metadata.namespace = Some("team".to_owned());
        release.metadata.name = Some(name.to_owned());
        let named = |name: &&str| Dependency { name: (*name).to_owned(), ready_when: None };
        release.spec.depends_on = depends_on.iter().map(named).collect();
        Arc::new(release)
    }

    #[tokio::test]
    async fn a_change_wakes_who_waits_for_it_and_nobody_else() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let queue = WorkQueue::new(Backoff::default(), clock);
        let dependents = Arc::new(Dependents::new(Arc::clone(&queue)));
        let change = |name: &str, old: Option<Arc<Release>>, new: Option<Arc<Release>>| {
            dependents.follow(&Change { key: key(name), old, new, cause: Cause::Object });
        };
        let waits = |name: &str| {
            dependents.of(&key(name)).iter().map(|key| key.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let (web, api, db) = (release("web", &["db", "cache"]), release("api", &["db"]), release("db", &[]));
        change("web", None, Some(Arc::clone(&web)));
        change("api", None, Some(Arc::clone(&api)));
        assert_eq!((waits("db"), waits("cache")), ("api web".to_owned(), "web".to_owned()));
        assert_eq!(queue.depth().0, 0, "nobody waits for these");
        change("other", None, Some(release("other", &[])));
        assert_eq!(queue.depth().0, 0);
        change("db", None, Some(Arc::clone(&db)));
        assert_eq!(queue.depth().0, 2);
        let lost = Change {
            key: key("cache"),
            old: Some(release("cache", &[])),
            new: None,
            cause: Cause::ShardLost,
        };
        dependents.follow(&lost);
        assert_eq!(queue.depth().0, 2, "that its shard was lost is no news of it");
        change("web", Some(web), Some(release("web", &["cache"])));
        change("api", Some(api), None);
        assert_eq!((waits("db"), waits("cache")), (String::new(), "web".to_owned()));
        let store = Store::of([(*db).clone()]);
        assert!(matches!(dependents.look_up(&store, &key("db")), Known::Found(_)));
        assert!(matches!(dependents.look_up(&store, &key("cache")), Known::Missing));
    }

    /// An API server that has the Release `db`, which depends on `disk`, and no other; watches tell nothing.
    fn server() -> Client {
        let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            let asked = request.uri().query().unwrap_or_default().to_owned();
            if asked.contains("watch=") {
                std::future::pending::<()>().await;
            }
            let is_meant = asked.contains("metadata.name%3Ddb%2Cmetadata.namespace%3Dteam");
            let items: Vec<_> =
                is_meant.then(|| convoy_api::encode(&*release("db", &["disk"]))).into_iter().collect();
            let list = serde_json::json!({
                "apiVersion": convoy_api::API_VERSION, "kind": "ReleaseList",
                "metadata": {"resourceVersion": "7"}, "items": items,
            });
            let body = kube::client::Body::from(list.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn releases_of_other_shards_are_watched_as_long_as_one_of_ours_waits_for_them() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let queue = WorkQueue::new(Backoff::default(), Arc::clone(&clock));
        let dependents = Dependents::new(Arc::clone(&queue)).watching(server(), clock, Shutdown::new());
        let dependents = Arc::new(dependents);
        let ours = Store::of([]);
        let web = release("web", &["db", "nothing"]);
        let follow = |old: Option<&Arc<Release>>, new: Option<&Arc<Release>>| {
            let (old, new) = (old.cloned(), new.cloned());
            dependents.follow(&Change { key: key("web"), old, new, cause: Cause::Object });
        };
        let looked_up = |name: &str| dependents.look_up(&ours, &key(name));
        assert!(matches!(looked_up("stranger"), Known::NotYet), "nobody waits for it");
        follow(None, Some(&web));
        assert!(matches!((looked_up("db"), looked_up("nothing")), (Known::NotYet, Known::NotYet)));
        let known = async {
            while !matches!((looked_up("db"), looked_up("nothing")), (Known::Found(_), Known::Missing))
                || queue.depth().0 == 0
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), known).await.unwrap();
        assert_eq!(dependents.of(&key("disk")), [key("db")], "for cycles, what it waits for is known, too");
        let watched = || {
            let elsewhere = dependents.elsewhere.as_ref().unwrap();
            let mut names: Vec<String> =
                elsewhere.watched.lock().keys().map(|key| key.name.clone()).collect();
            names.sort();
            names
        };
        assert_eq!(watched(), ["db", "nothing"]);
        follow(Some(&web), None);
        assert!(watched().is_empty() && dependents.of(&key("disk")).is_empty());
    }
}
