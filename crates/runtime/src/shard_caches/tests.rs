mod server;

use std::num::NonZeroU32;
use std::time::Duration;

use convoy_api::Release;
use convoy_shard::Held;
use jiff::Timestamp;
use parking_lot::Mutex;

use self::server::Server;
use super::*;
use crate::shards::TermUpdate;
use crate::{ManualClock, ShardNews};

const COUNT: u32 = 4;

struct World {
    server: Server,
    clock: ManualClock,
    shards: Shards,
    store: Store<Release>,
    looked: LookedShards,
    metrics: Metrics,
    changes: Arc<Mutex<Vec<(String, &'static str)>>>,
    shutdown: Shutdown,
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

impl World {
    fn start(scope: CacheScope, server: &Server) -> Self {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let shards = Shards::new(NonZeroU32::new(COUNT).unwrap(), Arc::new(clock.clone()));
        let (metrics, shutdown) = (Metrics::default(), Shutdown::new());
        let caches = ShardCaches::new(
            server.client(),
            shards.clone(),
            scope,
            Arc::new(clock.clone()),
            shutdown.clone(),
            &metrics,
        );
        let changes = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&changes);
        let (store, task) = caches.watch::<Release, _>(move |change| {
            let what = match (&change.old, &change.new, change.cause) {
                (None, _, _) => "came",
                (_, Some(_), _) => "changed",
                (_, None, Cause::Object) => "went",
                (_, None, Cause::ShardLost) => "lost",
            };
            log.lock().push((change.key.name.clone(), what));
        });
        tokio::spawn(task);
        let looked = caches.looked();
        Self { server: server.clone(), clock, shards, store, looked, metrics, changes, shutdown }
    }

    /// Owns these shards in these epochs, and no other.
    fn own<const N: usize>(&self, shards: [(u32, u64); N]) {
        let now = self.clock.moment();
        let held = shards.into_iter().map(|(shard, epoch)| (shard, Held::new(epoch, now))).collect();
        let long = Duration::from_secs(1_000_000);
        self.shards.update(&TermUpdate { held: &held, write_until: long, hold_until: long }, now);
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        server::until(&format!("{what}; {self:?}"), || is_so(self)).await;
    }

    async fn until_looked(&self, shard: u32, epoch: u64) {
        self.until(&format!("shard {shard} is looked at"), |world| world.looked.has_looked(shard, epoch))
            .await;
    }

    fn names(&self) -> Vec<String> {
        let all = self.store.filter(|_| true);
        let mut names: Vec<String> = all.iter().filter_map(|object| object.metadata.name.clone()).collect();
        names.sort();
        names
    }

    fn version(&self, name: &str) -> Option<String> {
        self.store.get(&StoreKey::new("team", name))?.metadata.resource_version.clone()
    }

    fn take_changes(&self) -> Vec<(String, &'static str)> {
        let mut changes = std::mem::take(&mut *self.changes.lock());
        changes.sort();
        changes
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, changes) = (self.names(), &*self.changes.lock());
        write!(f, "store {names:?}, changes {changes:?}, requests {:?}", self.server.requests())
    }
}

fn came(names: &[&str]) -> Vec<(String, &'static str)> {
    names.iter().map(|name| ((*name).to_owned(), "came")).collect()
}

/// The server with releases `a` and `b` in shard 0, `c` in 1, `d` in 2.
fn fleet() -> Server {
    let server = Server::new();
    for (name, shard) in [("a", "0"), ("b", "0"), ("c", "1"), ("d", "2")] {
        server.put(name, Some(shard));
    }
    server
}

fn of(shard: u32) -> String {
    selector(shard)
}

#[tokio::test]
async fn sc42_without_the_flag_all_objects_are_cached_by_one_watch_and_need_no_shard() {
    let server = fleet();
    let world = World::start(CacheScope::Everything, &server);
    world.store.synced().await;
    assert_eq!(world.names(), ["a", "b", "c", "d"]);
    server.put("e", Some("3"));
    server.tell("", "ADDED", "e");
    world.until("the watch tells of e", |world| world.names().len() == 5).await;
    assert_eq!(server.requests(), ["list", "watch"]);
    assert!(world.looked.shards().is_empty(), "nothing is owned");
}

#[tokio::test]
async fn sc42_a_gained_shard_is_listed_before_it_may_be_worked_on_although_all_is_cached() {
    let server = fleet();
    let world = World::start(CacheScope::Everything, &server);
    world.store.synced().await;
    world.until("the watch has begun", |world| world.server.watches("") == 1).await;
    // What the watch did not tell yet: b went, a changed, e came.
    server.delete("b");
    server.put("a", Some("0"));
    server.put("e", Some("0"));
    let newest = server.version("a");
    let mut news = world.looked.news();
    world.own([(0, 5)]);
    let first = news.next().await.unwrap();
    assert_eq!(first, ShardNews { ready: [(0, 5)].into(), lost: [].into() });
    assert_eq!(world.names(), ["a", "c", "d", "e"]);
    assert_eq!(world.version("a"), Some(newest.clone()));
    assert_eq!(server.requests(), ["list", "watch", &format!("list {}", of(0))]);

    // Now the watch tells what it had in its hands: it brings nothing back.
    let old = server.object_at("b", Some("0"), 2);
    server.tell_object("", "MODIFIED", &old);
    let old = server.object_at("a", Some("0"), 1);
    server.tell_object("", "DELETED", &old);
    server.put("f", Some("0"));
    server.tell("", "ADDED", "f");
    world.until("the watch told all of it", |world| world.names().contains(&"f".to_owned())).await;
    assert_eq!(world.names(), ["a", "c", "d", "e", "f"]);
    assert_eq!(world.version("a"), Some(newest));

    world.own([]);
    let lost = news.next().await.unwrap();
    assert_eq!(lost, ShardNews { ready: [].into(), lost: [(0, 5)].into() });
    assert_eq!(world.names().len(), 5, "without the flag what is lost stays in the cache");
}

#[tokio::test]
async fn sc42_an_older_list_brings_nothing_back_that_the_watch_took_away() {
    let server = fleet();
    let world = World::start(CacheScope::Everything, &server);
    world.store.synced().await;
    world.until("the watch has begun", |world| world.server.watches("") == 1).await;
    // The list is answered from the state before b went, and arrives after.
    let hold = server.hold(&of(0));
    world.own([(0, 5)]);
    world.until("the list is under way", |world| world.server.requests().len() == 3).await;
    server.delete("b");
    let gone = server.object_at("b", Some("0"), server.revision());
    server.tell_object("", "DELETED", &gone);
    world.until("b is gone", |world| !world.names().contains(&"b".to_owned())).await;
    hold.notify_one();
    world.until_looked(0, 5).await;
    assert_eq!(world.names(), ["a", "c", "d"]);
}

#[tokio::test]
async fn sc42_shards_that_are_owned_when_the_first_list_begins_need_no_list_of_their_own() {
    let server = fleet();
    let hold = server.hold("");
    let world = World::start(CacheScope::Everything, &server);
    world.own([(0, 1), (1, 1)]);
    world.until("the list is under way", |world| world.server.requests().len() == 1).await;
    world.own([(0, 1), (2, 4)]);
    hold.notify_one();
    world.until_looked(0, 1).await;
    world.until_looked(2, 4).await;
    assert!(!world.looked.has_looked(1, 1));
    world.until("the watch has begun", |world| world.server.watches("") == 1).await;
    let mut requests = server.requests();
    requests.sort();
    assert_eq!(requests, ["list", &format!("list {}", of(2)), "watch"]);
}

#[tokio::test]
async fn sc43_only_the_objects_of_owned_shards_are_cached() {
    let server = fleet();
    let world = World::start(CacheScope::OwnShards, &server);
    assert!(world.names().is_empty());
    world.own([(0, 1), (2, 1)]);
    world.until_looked(0, 1).await;
    world.until_looked(2, 1).await;
    assert_eq!(world.names(), ["a", "b", "d"]);
    assert!(!server.requests().contains(&"list".to_owned()), "nothing lists all objects");
}

#[tokio::test]
async fn sc46_a_gain_lists_nothing_else_again_and_a_loss_does_not_look_like_a_deletion() {
    let server = fleet();
    let world = World::start(CacheScope::OwnShards, &server);
    world.own([(0, 1)]);
    world.until_looked(0, 1).await;
    assert_eq!(world.take_changes(), came(&["a", "b"]));
    world.own([(0, 1), (1, 6)]);
    world.until_looked(1, 6).await;
    assert_eq!(world.take_changes(), came(&["c"]));
    world.until("all are watched", |world| world.server.watches(&of(1)) == 1).await;
    let lists = |shard| server.requests().iter().filter(|one| **one == format!("list {}", of(shard))).count();
    assert_eq!((lists(0), lists(1)), (1, 1));

    world.own([(1, 6)]);
    world.until("what was lost is dropped", |world| world.names() == ["c"]).await;
    let lost = |name: &str| (name.to_owned(), "lost");
    assert_eq!(world.take_changes(), [lost("a"), lost("b")]);
    assert!(!world.looked.has_looked(0, 1) && world.looked.has_looked(1, 6));
    world.until("the watch has ended", |world| world.server.watches(&of(0)) == 0).await;
    assert_eq!((lists(0), lists(1)), (1, 1));

    // Gained again: it is looked at again.
    server.delete("b");
    world.own([(0, 3), (1, 6)]);
    world.until_looked(0, 3).await;
    assert_eq!(world.names(), ["a", "c"]);
    assert_eq!((lists(0), lists(1)), (2, 1));
}

#[tokio::test]
async fn sc46_a_term_that_follows_another_at_once_is_looked_at_anew() {
    let server = fleet();
    let world = World::start(CacheScope::OwnShards, &server);
    world.own([(0, 1)]);
    world.until_looked(0, 1).await;
    server.delete("a");
    let hold = server.hold(&of(0));
    world.own([(0, 3)]);
    world.until("the new list is under way", |world| world.server.lists(&of(0)) == 2).await;
    assert!(!world.looked.has_looked(0, 1) && !world.looked.has_looked(0, 3));
    hold.notify_one();
    world.until_looked(0, 3).await;
    assert_eq!(world.names(), ["b"]);
}

#[tokio::test]
async fn sc43_an_object_whose_label_moves_between_owned_shards_does_not_vanish() {
    let server = fleet();
    let world = World::start(CacheScope::OwnShards, &server);
    world.own([(0, 1), (1, 1)]);
    world.until_looked(0, 1).await;
    world.until_looked(1, 1).await;
    world.until("both are watched", |w| w.server.watches(&of(0)) + w.server.watches(&of(1)) == 2).await;
    world.take_changes();
    // The watch of the new shard tells first, that of the old one late.
    let before = server.object("a");
    server.put("a", Some("1"));
    server.tell(&of(1), "ADDED", "a");
    world.until("a came from its new shard", |w| w.version("a") == Some(w.server.version("a"))).await;
    let late = server::at(before, server.version("a"));
    server.tell_object(&of(0), "DELETED", &late);
    server.put("z", Some("0"));
    server.tell(&of(0), "ADDED", "z");
    world.until("the late event was read", |world| world.names().contains(&"z".to_owned())).await;
    assert_eq!(world.names(), ["a", "b", "c", "z"]);
    assert_eq!(world.take_changes(), [("a".to_owned(), "changed"), ("z".to_owned(), "came")]);

    // What moved goes with its new shard.
    world.own([(0, 1)]);
    world.until("shard 1 is dropped", |world| world.names() == ["b", "z"]).await;

    // An object that leaves our shards goes.
    server.tell(&of(0), "DELETED", "b");
    world.until("b is gone", |world| world.names() == ["z"]).await;
}

#[tokio::test]
async fn a_watch_from_a_version_that_the_server_has_forgotten_becomes_a_list() {
    for scope in [CacheScope::OwnShards, CacheScope::Everything] {
        let server = fleet();
        let world = World::start(scope, &server);
        world.own([(0, 1)]);
        world.until_looked(0, 1).await;
        let selector = if scope == CacheScope::OwnShards { of(0) } else { String::new() };
        world.until("it watches", |world| world.server.watches(&selector) == 1).await;
        server.put("e", Some("0"));
        server.forget();
        let mut moved = 0;
        while !world.names().contains(&"e".to_owned()) {
            // The wait after the failure is one that the clock ends.
            world.clock.advance(Duration::from_secs(1));
            server::breathe().await;
            moved += 1;
            assert!(moved < 1_000, "{world:?}");
        }
        world.until("it watches anew", |world| world.server.watches(&selector) == 1).await;
    }
}

#[tokio::test]
async fn sc46_a_list_that_fails_is_tried_again_until_the_shard_is_lost_and_holds_up_no_other() {
    for scope in [CacheScope::OwnShards, CacheScope::Everything] {
        let server = fleet();
        let world = World::start(scope, &server);
        if scope == CacheScope::Everything {
            world.store.synced().await;
        }
        server.fail(&of(0), 3);
        server.fail(&of(1), u32::MAX);
        world.own([(0, 1), (1, 1), (2, 1)]);
        world.until_looked(2, 1).await;
        for times in 1..=3 {
            world.until("a list failed", |world| world.server.lists(&of(0)) >= times).await;
            assert!(!world.looked.has_looked(0, 1));
            let mut moved = 0;
            // The wait is one that the clock ends.
            while world.server.lists(&of(0)) <= times {
                world.clock.advance(Duration::from_secs(1));
                server::breathe().await;
                moved += 1;
                assert!(moved < 10_000, "{world:?}");
            }
        }
        world.until_looked(0, 1).await;
        assert!(world.names().starts_with(&["a".to_owned(), "b".to_owned()]), "{world:?}");
        assert!(!world.looked.has_looked(1, 1));
        world.own([(0, 1), (2, 1)]);
        server::breathe().await;
        let tries = server.lists(&of(1));
        for _ in 0..100 {
            world.clock.advance(Duration::from_secs(60));
            server::breathe().await;
        }
        assert!(server.lists(&of(1)) <= tries + 1, "what is lost is not listed for ever");
    }
}

#[tokio::test]
async fn sc46_a_large_shard_is_listed_in_pages() {
    for scope in [CacheScope::OwnShards, CacheScope::Everything] {
        let server = Server::new();
        let world = World::start(scope, &server);
        if scope == CacheScope::Everything {
            world.store.synced().await;
        }
        for n in 0..1203 {
            server.put(&format!("r{n}"), Some("3"));
        }
        world.own([(3, 1)]);
        world.until_looked(3, 1).await;
        assert_eq!(world.store.len(), 1203);
        let pages = 1203_usize.div_ceil(super::PAGE as usize);
        assert_eq!(server.lists(&of(3)), pages);
    }
}

#[tokio::test]
async fn sc45_objects_outside_their_shard_are_counted_in_both_scopes() {
    for scope in [CacheScope::OwnShards, CacheScope::Everything] {
        let server = fleet();
        server.put("bare", None);
        server.put("far", Some("9"));
        // The servers' shard of `d`'s cluster is 2; here it is labelled as another's that we own.
        server.put_in("stray", Some("0"), "2");
        let world = World::start(scope, &server);
        world.own([(0, 1)]);
        world.until_looked(0, 1).await;
        let count = |world: &World, why: &str, count: u32| {
            let line = format!("convoy_objects_outside_shards{{kind=\"Release\",why=\"{why}\"}} {count}\n");
            world.metrics.encode().contains(&line)
        };
        for why in ["no-label", "out-of-range", "other-shard"] {
            world.until(&format!("{scope:?} {why} is counted"), |world| count(world, why, 1)).await;
        }
        let selector = match scope {
            CacheScope::OwnShards => "convoy.kumodo.io/shard notin (0,1,2,3)",
            CacheScope::Everything => "",
        };
        world.until("labels are watched", |world| world.server.watches(selector) == 1).await;
        // The apiserver repairs one.
        server.tell(selector, "DELETED", "bare");
        world.until("it is counted no more", |world| count(world, "no-label", 0)).await;
        if scope == CacheScope::OwnShards {
            world.own([]);
            world.until("not in our cache any more", |world| count(world, "other-shard", 0)).await;
        }
    }
}

#[tokio::test]
async fn sc44_a_kind_that_is_always_cached_whole_is_watched_by_no_label() {
    let server = fleet();
    let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
    let shutdown = Shutdown::new();
    let (store, task) = crate::watch_into::<Release>(
        server.client(),
        crate::StoreOptions::default(),
        clock,
        shutdown.clone(),
        |_| {},
    );
    tokio::spawn(task);
    store.synced().await;
    assert_eq!((store.len(), server.requests().first().map(String::as_str)), (4, Some("list")));
    shutdown.trigger();
}

#[tokio::test]
async fn what_is_large_and_unread_is_not_kept() {
    let server = fleet();
    let world = World::start(CacheScope::Everything, &server);
    world.store.synced().await;
    let release = world.store.get(&StoreKey::new("team", "a")).unwrap();
    assert_eq!(release.metadata.managed_fields, None);
    assert_eq!(release.metadata.annotations, None);
    assert!(server.object("a").to_string().contains("managedFields"));
}
