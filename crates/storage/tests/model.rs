//! Random histories: both backends agree on everything, and the watch cache shows what the storage has.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use convoy_meta::{FieldSelector, LabelSelector};
use convoy_storage::embedded::{EmbeddedOptions, EmbeddedStorage};
use convoy_storage::memory::MemoryStorage;
use convoy_storage::watch_cache::{
    At, CacheLimits, DeliveryKind, EntryFormat, From, Selector, Start, WatchCache, Watcher,
};
use convoy_storage::{HistoryLimits, ListOptions, Storage, StorageError};
use proptest::prelude::*;
use serde_json::json;

#[derive(Debug, Clone)]
enum Op {
    Create(u8, u8),
    Update(u8, u8, bool),
    Delete(u8, bool),
    Compact(u8),
    /// Close the embedded store and open it again.
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..8u8, any::<u8>()).prop_map(|(key, value)| Op::Create(key, value)),
        6 => (0..8u8, any::<u8>(), prop::bool::weighted(0.1)).prop_map(|(k, v, stale)| Op::Update(k, v, stale)),
        3 => (0..8u8, prop::bool::weighted(0.1)).prop_map(|(key, stale)| Op::Delete(key, stale)),
        1 => (0..4u8).prop_map(Op::Compact),
        1 => Just(Op::Restart),
    ]
}

/// A key of the resource, or for two of them of another one.
fn key(key: u8) -> String {
    match key {
        0..=5 => format!("/registry/things/n{}/k{key}", key % 2),
        _ => format!("/registry/others/n0/k{key}"),
    }
}

fn value(name: &str, value: u8) -> Bytes {
    if value < 8 {
        return Bytes::from_static(b"not an object");
    }
    let color = ["red", "green", "blue"][usize::from(value % 3)];
    let object = json!({
        "apiVersion": "v1", "kind": "Thing", "spec": {"value": value},
        "metadata": {"name": name.rsplit('/').next().unwrap(), "uid": "u", "labels": {"color": color}},
    });
    serde_json::to_vec(&object).unwrap().into()
}

/// What an operation came to, in terms that can be compared.
fn show<T: std::fmt::Debug>(result: &Result<T, StorageError>) -> String {
    format!("{result:?}")
}

async fn carry_out(storage: &dyn Storage, op: &Op, back: u64) -> String {
    let stale = |key: String, stale: bool| async move {
        let revision = storage.get(&key).await.unwrap().found.map_or(1, |found| found.revision);
        if stale { revision + 1 } else { revision }
    };
    match *op {
        Op::Create(k, v) => show(&storage.create(&key(k), value(&key(k), v)).await),
        Op::Update(k, v, is_stale) => {
            show(&storage.update(&key(k), stale(key(k), is_stale).await, value(&key(k), v)).await)
        }
        Op::Delete(k, is_stale) => show(&storage.delete(&key(k), stale(key(k), is_stale).await).await),
        Op::Compact(_) => show(&storage.compact(back).await),
        Op::Restart => String::new(),
    }
}

/// Everything that can be read, also of the past.
async fn picture(storage: &dyn Storage) -> Vec<String> {
    let revision = storage.revision().await.unwrap();
    let oldest = storage.oldest().await.unwrap();
    let mut picture = vec![format!("{oldest} {revision}")];
    for at in oldest..=revision {
        for (prefix, limit) in [("/registry/", 0), ("/registry/things/n1/", 2)] {
            let options = ListOptions { revision: Some(at), limit, after: Some("/registry/others/n0/k6") };
            picture.push(show(&storage.list(prefix, options).await));
        }
    }
    let mut watch = storage.watch("/registry/things/", oldest).await.unwrap();
    let mut reached = oldest;
    while reached < storage.progress("/registry/things/").await.unwrap().delivered {
        let pause = std::time::Duration::from_millis(20);
        let Ok(batch) = tokio::time::timeout(pause, watch.next()).await else { break };
        let batch = batch.unwrap();
        reached = batch.revision;
        picture.extend(batch.events.iter().map(|event| format!("{event:?}")));
    }
    picture
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

const LIMITS: HistoryLimits = HistoryLimits { events: 40, bytes: 1 << 20 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn both_backends_agree_on_every_answer(ops in prop::collection::vec(op(), 1..60)) {
        runtime().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let open = || {
                let options = EmbeddedOptions { history: LIMITS, ..EmbeddedOptions::default() };
                EmbeddedStorage::open(&path, options).unwrap()
            };
            let memory = MemoryStorage::new(LIMITS);
            let mut embedded = open();
            for op in &ops {
                if matches!(op, Op::Restart) {
                    drop(embedded);
                    embedded = open();
                    continue;
                }
                let back = match op {
                    Op::Compact(back) => memory.revision().await.unwrap().saturating_sub(u64::from(*back)),
                    _ => 0,
                };
                let (left, right) =
                    (carry_out(&memory, op, back).await, carry_out(&embedded, op, back).await);
                prop_assert_eq!(left, right, "{:?}", op);
            }
            prop_assert_eq!(picture(&memory).await, picture(&embedded).await);
            Ok(())
        })?;
    }

    #[test]
    fn the_cache_shows_what_the_storage_has_and_watchers_can_follow(
        ops in prop::collection::vec(op(), 1..80),
        start in 0..40usize,
    ) {
        runtime().block_on(async {
            let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
            let format = EntryFormat {
                prefix: "/registry/things/".into(),
                namespaced: true,
                api_version: "v1".into(),
                kind: "Thing".into(),
                fields: Vec::new(),
            };
            let cache =
                WatchCache::start(Arc::clone(&storage), format, CacheLimits::default()).await.unwrap();
            let selectors = [
                Selector::default(),
                Selector { namespace: Some("n1".into()), ..Selector::default() },
                Selector { labels: LabelSelector::parse("color in (red, blue)").unwrap(), ..Selector::default() },
                Selector {
                    namespace: Some("n0".into()),
                    fields: FieldSelector::parse("metadata.name=k2").unwrap(),
                    labels: LabelSelector::parse("color!=red").unwrap(),
                },
            ];
            let mut followers = Vec::new();
            let mut past = BTreeMap::new();
            for (i, op) in ops.iter().enumerate() {
                if i == start.min(ops.len() - 1) {
                    for selector in &selectors {
                        let from = From::Initial { at: At::Latest, end_bookmark: true };
                        let start = Start { from, bookmark_every: None };
                        let watcher = cache.watch(start, selector.clone()).await.unwrap();
                        followers.push(Follower { watcher, seen: BTreeMap::new(), last: 0 });
                    }
                }
                carry_out(&*storage, op, 0).await;
                let shown = list(&cache, At::Latest, &selectors[0]).await;
                past.insert(storage.revision().await.unwrap(), shown);
                if i % 7 == 0 {
                    for follower in &mut followers {
                        follower.follow().await;
                    }
                }
            }
            for (revision, expected) in past {
                prop_assert_eq!(list(&cache, At::Exact(revision), &selectors[0]).await, expected);
            }
            for (follower, selector) in followers.iter_mut().zip(&selectors) {
                let expected = list(&cache, At::Latest, selector).await;
                follower.follow().await;
                prop_assert_eq!(&follower.seen, &expected, "{:?}", selector);
            }
            Ok(())
        })?;
    }
}

async fn list(cache: &WatchCache, at: At, selector: &Selector) -> BTreeMap<String, String> {
    // In pages, so that they are tried, too.
    let mut found = BTreeMap::new();
    let mut after = None;
    loop {
        let page = cache.list(at, selector, 2, after.as_deref()).await.unwrap();
        for entry in &page.entries {
            let json = String::from_utf8(entry.json().to_vec()).unwrap();
            assert!(found.insert(entry.key().to_string(), json).is_none());
        }
        after = page.more_after;
        if after.is_none() {
            return found;
        }
    }
}

/// A client that keeps what it was told.
struct Follower {
    watcher: Watcher,
    seen: BTreeMap<String, String>,
    last: u64,
}

impl Follower {
    /// Takes all events that are there.
    async fn follow(&mut self) {
        let pause = std::time::Duration::from_millis(2);
        while let Ok(next) = tokio::time::timeout(pause, self.watcher.next()).await {
            for delivery in next.unwrap() {
                let Some(entry) = delivery.entry() else {
                    assert!(delivery.ends_initial_events());
                    self.last = delivery.revision();
                    continue;
                };
                let key = entry.key().to_string();
                let json = String::from_utf8(delivery.object().to_vec()).unwrap();
                let known = match delivery.kind() {
                    DeliveryKind::Deleted => self.seen.remove(&key).is_some(),
                    _ => self.seen.insert(key, json).is_some(),
                };
                assert_eq!(known, delivery.kind() != DeliveryKind::Added, "{delivery:?}");
                if self.watcher.is_past_initial_events() && self.last > 0 {
                    assert!(delivery.revision() > self.last, "out of order: {delivery:?}");
                    self.last = delivery.revision();
                }
            }
        }
    }
}
