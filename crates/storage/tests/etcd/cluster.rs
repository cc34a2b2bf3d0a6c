//! Three members, of which one or the other is not there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_storage::etcd::EtcdStorage;
use convoy_storage::watch_cache::{At, CacheLimits, EntryFormat, Selector, WatchCache};
use convoy_storage::{Event, EventKind, Storage, StorageError};
use convoy_testkit::Etcd;
use tokio::time::timeout;

use super::options;

const END: &str = "/registry/things/end";
const LONG: Duration = Duration::from_secs(90);

/// Creates and updates keys of its own until told to stop; answers with what is known to be in the store: for each key the
/// last revision that was acknowledged, and none for a key of which nothing is known.
async fn write(
    storage: Arc<EtcdStorage>,
    writer: usize,
    stop: tokio::sync::watch::Receiver<bool>,
) -> BTreeMap<String, Option<u64>> {
    let mut known = BTreeMap::new();
    for i in 0.. {
        if *stop.borrow() {
            break;
        }
        let key = format!("/registry/things/{writer}-{i}");
        let value = |step: u8| {
            let name = key.rsplit('/').next().unwrap_or_default();
            format!(
                r#"{{"apiVersion":"v1","kind":"Thing","metadata":{{"name":"{name}","uid":"{writer}-{i}"}},"step":{step}}}"#
            )
        };
        let written = async {
            let created = storage.create(&key, value(1).into()).await?;
            storage.update(&key, created, value(2).into()).await
        };
        let outcome = match written.await {
            Ok(revision) => Some(revision),
            Err(StorageError::Unavailable { .. } | StorageError::Unknown { .. }) => None,
            // Nobody else writes this key.
            Err(other) => panic!("a lost answer was reported wrongly: {other}"),
        };
        known.insert(key, outcome);
        tokio::task::yield_now().await;
    }
    known
}

/// Every event, in order, until the end.
async fn follow(storage: Arc<EtcdStorage>) -> Vec<Arc<Event>> {
    let mut watch = storage.watch("/registry/things/", 0).await.unwrap();
    let mut events = Vec::new();
    loop {
        events.extend(watch.next().await.unwrap().events);
        if events.last().is_some_and(|event| &*event.key == END) {
            return events;
        }
    }
}

fn check(events: &[Arc<Event>], known: &BTreeMap<String, Option<u64>>) {
    assert!(events.windows(2).all(|pair| pair[0].revision < pair[1].revision), "out of order or repeated");
    let mut seen = BTreeMap::new();
    for event in events {
        let before = event.previous.as_ref().map(|previous| previous.revision);
        assert_eq!(before, seen.insert(event.key.to_string(), event.revision), "{event:?} misses one before");
        assert_eq!(event.kind == EventKind::Created, before.is_none());
    }
    for (key, revision) in known {
        if let Some(revision) = revision {
            assert_eq!(seen.get(key), Some(revision), "{key}: an acknowledged write was not seen");
        }
    }
}

/// Each member in turn is stopped and comes back; then the leader stands still until another one leads.
fn disturb(etcd: &mut Etcd) {
    for member in 0..3 {
        etcd.kill(member);
        etcd.leader().unwrap();
        etcd.restart(member).unwrap();
    }
    let leader = etcd.leader().unwrap();
    etcd.pause(leader, true).unwrap();
    let next = etcd.leader_besides(leader);
    etcd.pause(leader, false).unwrap();
    next.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_event_is_lost_or_repeated_when_members_restart_and_the_leader_changes() {
    let Some(mut etcd) = Etcd::cluster_or_leave_out(3) else { return };
    // Each begins with another member.
    let servers = |first: usize| {
        let mut urls = etcd.urls();
        urls.rotate_left(first);
        Arc::new(EtcdStorage::open(&options(urls)).unwrap())
    };
    let replicas: Vec<_> = (0..3).map(servers).collect();
    let format = EntryFormat {
        prefix: "/registry/things/".into(),
        api_version: "v1".into(),
        kind: "Thing".into(),
        ..EntryFormat::default()
    };
    let storage: Arc<dyn Storage> = replicas[0].clone();
    let cache = WatchCache::start(storage, format, CacheLimits::default()).await.unwrap();

    let mut followers = tokio::task::JoinSet::new();
    let mut writers = tokio::task::JoinSet::new();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    for (i, replica) in replicas.iter().enumerate() {
        followers.spawn(follow(Arc::clone(replica)));
        writers.spawn(write(Arc::clone(replica), i, stopped.clone()));
    }
    let etcd = tokio::task::spawn_blocking(move || {
        disturb(&mut etcd);
        etcd
    });
    let _etcd = timeout(LONG, etcd).await.expect("the members did not come back").unwrap();
    stop.send_replace(true);
    let mut known = BTreeMap::new();
    let joined = timeout(LONG, async {
        while let Some(written) = writers.join_next().await {
            known.extend(written.unwrap());
        }
    });
    joined.await.expect("a write did not end");
    let acknowledged = known.values().filter(|revision| revision.is_some()).count();
    assert!(acknowledged > 50 && acknowledged * 10 > known.len() * 9, "{acknowledged} of {}", known.len());
    replicas[1]
        .create(END, r#"{"apiVersion":"v1","kind":"Thing","metadata":{"name":"end"}}"#.into())
        .await
        .unwrap();
    while let Some(events) = timeout(LONG, followers.join_next()).await.expect("a watch never saw the end") {
        check(&events.unwrap(), &known);
    }
    // A list elsewhere shows what was acknowledged here.
    let list = cache.list(At::Latest, &Selector::default(), 0, None).await.unwrap();
    for (key, revision) in known.iter().filter_map(|(key, revision)| Some((key, (*revision)?))) {
        let shown = list.entries.iter().find(|entry| &**entry.key() == key.as_str());
        assert_eq!(shown.map(|entry| entry.revision()), Some(revision), "{key}");
    }
}

#[tokio::test]
async fn a_consistent_read_shows_what_another_replica_has_just_acknowledged() {
    let Some(etcd) = Etcd::cluster_or_leave_out(3) else { return };
    let open = |first: usize| {
        let mut urls = etcd.urls();
        urls.rotate_left(first);
        Arc::new(EtcdStorage::open(&options(urls)).unwrap())
    };
    let (writer, reader) = (open(0), open(1));
    let format = EntryFormat {
        prefix: "/registry/things/".into(),
        api_version: "v1".into(),
        kind: "Thing".into(),
        ..EntryFormat::default()
    };
    let storage: Arc<dyn Storage> = reader;
    let cache = WatchCache::start(storage, format, CacheLimits::default()).await.unwrap();
    let value = r#"{"apiVersion":"v1","kind":"Thing","metadata":{"name":"x","uid":"u"}}"#;
    for i in 0..100 {
        let key = format!("/registry/things/{i}");
        let revision = writer.create(&key, value.into()).await.unwrap();
        // Also when only others are written in between.
        let other = writer.create(&format!("/registry/others/{i}"), value.into()).await.unwrap();
        if i % 2 == 0 {
            let list = cache.list(At::Latest, &Selector::default(), 0, None).await.unwrap();
            assert!(list.revision >= other && list.entries.len() == i + 1, "{i}: {}", list.revision);
        } else {
            let found = cache.get(&key, At::NotOlderThan(revision)).await.unwrap();
            assert_eq!(found.unwrap().revision(), revision);
        }
    }
}
