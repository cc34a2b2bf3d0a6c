//! Many writers and many watchers at once: whoever follows the watch cache ends with what the storage has.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_storage::embedded::{EmbeddedOptions, EmbeddedStorage};
use convoy_storage::etcd::{EtcdOptions, EtcdStorage, TlsFiles};
use convoy_storage::memory::MemoryStorage;
use convoy_storage::watch_cache::{
    At, CacheError, CacheLimits, Delivery, DeliveryKind, EntryFormat, From, Selector, Start, WatchCache,
};
use convoy_storage::{ListOptions, Storage, StorageError};
use convoy_testkit::Etcd;

const WRITERS: u64 = 4;
const WATCHERS: u64 = 12;
const WRITES: u64 = 400;
const END: &str = "/registry/things/end";

fn format() -> EntryFormat {
    EntryFormat {
        prefix: "/registry/things/".into(),
        api_version: "v1".into(),
        kind: "Thing".into(),
        ..EntryFormat::default()
    }
}

/// Writes keys that other writers write, too.
async fn write(storage: Arc<dyn Storage>, writer: u64) {
    for i in 0..WRITES {
        let name = format!("k{}", (i * 7 + writer * 3) % 20);
        let key = format!("/registry/things/{name}");
        let value = format!(
            r#"{{"apiVersion":"v1","kind":"Thing","metadata":{{"name":"{name}","uid":"u"}},"by":"{writer}-{i}"}}"#
        );
        let found = storage.get(&key).await.unwrap().found;
        let result = match found {
            None => storage.create(&key, value.into()).await.map(drop),
            Some(found) if i % 9 == 0 => storage.delete(&key, found.revision).await.map(drop),
            Some(found) => storage.update(&key, found.revision, value.into()).await.map(drop),
        };
        match result {
            Ok(())
            | Err(
                StorageError::Conflict { .. }
                | StorageError::AlreadyExists { .. }
                | StorageError::NotFound { .. },
            ) => {}
            Err(error) => panic!("{error}"),
        }
        if i % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Follows as a client does: starts anew when it was too slow. Ends with the last object.
async fn follow(cache: Arc<WatchCache>, slow: bool) -> BTreeMap<String, u64> {
    'anew: loop {
        let from = From::Initial { at: At::Latest, end_bookmark: false };
        let start = Start { from, bookmark_every: None };
        let mut watcher = cache.watch(start, Selector::default()).await.unwrap();
        let mut seen = BTreeMap::new();
        let mut last = 0;
        while !seen.contains_key(END) {
            let initial = !watcher.is_past_initial_events();
            let next = match watcher.next().await {
                Ok(next) => next,
                Err(CacheError::TooOld { .. }) => continue 'anew,
                Err(error) => panic!("{error}"),
            };
            for delivery in next {
                assert!(initial || delivery.revision() > last, "out of order");
                last = last.max(delivery.revision());
                tell(&mut seen, &delivery);
            }
            // A slow client: everybody else gets many turns before it reads on.
            for _ in 0..if slow { 2000 } else { 0 } {
                tokio::task::yield_now().await;
            }
        }
        return seen;
    }
}

fn tell(seen: &mut BTreeMap<String, u64>, delivery: &Delivery) {
    let Some(entry) = delivery.entry() else { return };
    let known = match delivery.kind() {
        DeliveryKind::Deleted => seen.remove(&**entry.key()).is_some(),
        _ => seen.insert(entry.key().to_string(), entry.revision()).is_some(),
    };
    assert_eq!(known, delivery.kind() != DeliveryKind::Added, "{delivery:?}");
}

async fn everybody_agrees(storage: Arc<dyn Storage>) {
    // So little history that slow watchers lose it.
    let limits = CacheLimits { events: 64, bytes: 1 << 20 };
    let cache = Arc::new(WatchCache::start(Arc::clone(&storage), format(), limits).await.unwrap());
    let mut watchers = tokio::task::JoinSet::new();
    for i in 0..WATCHERS {
        watchers.spawn(follow(Arc::clone(&cache), i % 3 == 0));
    }
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(Arc::clone(&storage), writer));
    }
    // In between, lists show every write that was acknowledged before.
    while !writers.is_empty() {
        let before = storage.revision().await.unwrap();
        let list = cache.list(At::Latest, &Selector::default(), 0, None).await.unwrap();
        assert!(list.revision >= before, "{} < {before}", list.revision);
        let past = storage
            .list(
                "/registry/things/",
                ListOptions { revision: Some(list.revision), ..ListOptions::default() },
            )
            .await;
        if let Ok(past) = past {
            let shown: Vec<_> = list.entries.iter().map(|entry| (&**entry.key(), entry.revision())).collect();
            let stored: Vec<_> = past.items.iter().map(|item| (&*item.key, item.revision)).collect();
            assert_eq!(shown, stored);
        }
        if let Some(done) = writers.try_join_next() {
            done.unwrap();
        }
        tokio::task::yield_now().await;
    }
    let end = r#"{"apiVersion":"v1","kind":"Thing","metadata":{"name":"end","uid":"u"}}"#;
    storage.create(END, end.into()).await.unwrap();
    let list = storage.list("/registry/things/", ListOptions::default()).await.unwrap();
    let expected: BTreeMap<_, _> =
        list.items.iter().map(|item| (item.key.to_string(), item.revision)).collect();
    let ended = tokio::time::timeout(Duration::from_secs(60), async {
        while let Some(seen) = watchers.join_next().await {
            assert_eq!(seen.unwrap(), expected);
        }
    });
    ended.await.expect("a watcher never saw the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watchers_of_a_store_in_memory_end_with_what_it_has() {
    everybody_agrees(Arc::new(MemoryStorage::default())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watchers_of_an_embedded_store_end_with_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let storage = EmbeddedStorage::open(&folder.path().join("store"), EmbeddedOptions::default()).unwrap();
    everybody_agrees(Arc::new(storage)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watchers_of_an_etcd_end_with_what_it_has() {
    let Some(etcd) = Etcd::start_or_leave_out() else { return };
    let options = EtcdOptions {
        servers: etcd.urls(),
        tls: TlsFiles::default(),
        prefix: "/registry".to_owned(),
        replaces: "/registry".to_owned(),
        compaction_interval: Duration::ZERO,
        measure: None,
    };
    everybody_agrees(Arc::new(EtcdStorage::open(&options).unwrap())).await;
}
