use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use convoy_storage::{Event, EventKind, Storage, StorageError, Watch};
use tokio::time::timeout;

type Store = Arc<dyn Storage>;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Reads `count` events; a watch that delivers fewer fails the test instead of hanging it.
async fn take(watch: &mut Box<dyn Watch>, count: usize) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while events.len() < count {
        let batch = timeout(Duration::from_secs(10), watch.next()).await.expect("no event in time").unwrap();
        assert!(batch.events.last().is_none_or(|event| event.revision <= batch.revision));
        events.extend(batch.events);
    }
    assert_eq!(events.len(), count);
    events
}

fn show(events: &[Arc<Event>]) -> Vec<String> {
    let text = |value: Option<&Bytes>| value.map_or("-".to_owned(), |v| v.escape_ascii().to_string());
    events
        .iter()
        .map(|event| {
            let previous = event.previous.as_ref().map(|previous| &previous.value);
            format!("{:?} {} {}<{}", event.kind, event.key, text(event.value.as_ref()), text(previous))
        })
        .collect()
}

pub(crate) async fn a_watch_delivers_what_follows_its_revision(storage: Store) {
    let first = storage.create("/a/x", bytes("1")).await.unwrap();
    let second = storage.update("/a/x", first, bytes("2")).await.unwrap();
    let mut watch = storage.watch("/a/", first).await.unwrap();
    assert_eq!(show(&take(&mut watch, 1).await), ["Updated /a/x 2<1"]);
    storage.create("/a/y", bytes("1")).await.unwrap();
    storage.delete("/a/x", second).await.unwrap();
    assert_eq!(show(&take(&mut watch, 2).await), ["Created /a/y 1<-", "Deleted /a/x -<2"]);
}

pub(crate) async fn a_watch_from_zero_delivers_the_whole_history(storage: Store) {
    let first = storage.create("/a/x", bytes("1")).await.unwrap();
    storage.delete("/a/x", first).await.unwrap();
    storage.create("/a/x", bytes("2")).await.unwrap();
    let mut watch = storage.watch("/a/", 0).await.unwrap();
    let events = take(&mut watch, 3).await;
    assert_eq!(show(&events), ["Created /a/x 1<-", "Deleted /a/x -<1", "Created /a/x 2<-"]);
    assert!(events.windows(2).all(|pair| pair[0].revision < pair[1].revision));
}

pub(crate) async fn a_watch_sees_only_its_prefix(storage: Store) {
    let mut watch = storage.watch("/a/x/", 0).await.unwrap();
    for key in ["/a/x1", "/a/x/1", "/a/y/1", "/b", "/a/x/2"] {
        storage.create(key, bytes("v")).await.unwrap();
    }
    assert_eq!(show(&take(&mut watch, 2).await), ["Created /a/x/1 v<-", "Created /a/x/2 v<-"]);
}

pub(crate) async fn a_deletion_carries_the_last_value_and_the_revision_of_the_deletion(storage: Store) {
    let created = storage.create("/a/x", bytes("1")).await.unwrap();
    let updated = storage.update("/a/x", created, bytes("2")).await.unwrap();
    let deleted = storage.delete("/a/x", updated).await.unwrap();
    let mut watch = storage.watch("/a/", updated).await.unwrap();
    let events = take(&mut watch, 1).await;
    assert_eq!((events[0].kind, events[0].revision), (EventKind::Deleted, deleted.revision));
    let previous = events[0].previous.as_ref().unwrap();
    assert_eq!((&*previous.value, previous.revision), (&b"2"[..], updated));
}

pub(crate) async fn a_watch_before_the_compaction_is_refused(storage: Store) {
    let first = storage.create("/a/x", bytes("1")).await.unwrap();
    let second = storage.update("/a/x", first, bytes("2")).await.unwrap();
    storage.update("/a/x", second, bytes("3")).await.unwrap();
    storage.compact(second).await.unwrap();
    assert!(matches!(
        storage.watch("/a/", first).await,
        Err(StorageError::Compacted { requested, oldest }) if (requested, oldest) == (first, second)
    ));
    let mut watch = storage.watch("/a/", second).await.unwrap();
    assert_eq!(show(&take(&mut watch, 1).await), ["Updated /a/x 3<2"]);
}

pub(crate) async fn a_watch_that_fell_behind_the_history_ends_with_compacted(storage: Store) {
    let mut revision = storage.create("/a/x", bytes("0")).await.unwrap();
    let mut watch = storage.watch("/a/", revision).await.unwrap();
    for i in 1..300 {
        revision = storage.update("/a/x", revision, bytes(&i.to_string())).await.unwrap();
    }
    let end = loop {
        match timeout(Duration::from_secs(10), watch.next()).await.expect("no answer in time") {
            Ok(batch) if batch.revision < revision => {}
            Ok(batch) => panic!("delivered all up to {} although the history is bounded", batch.revision),
            Err(error) => break error,
        }
    };
    assert!(matches!(end, StorageError::Compacted { .. }), "{end}");
}

pub(crate) async fn an_idle_watch_survives_any_number_of_foreign_events(storage: Store) {
    let mut watch = storage.watch("/quiet/", 0).await.unwrap();
    let mut revision = storage.create("/a/x", bytes("0")).await.unwrap();
    for i in 1..300 {
        revision = storage.update("/a/x", revision, bytes(&i.to_string())).await.unwrap();
    }
    storage.create("/quiet/x", bytes("1")).await.unwrap();
    assert_eq!(show(&take(&mut watch, 1).await), ["Created /quiet/x 1<-"]);
}

pub(crate) async fn a_cancelled_wait_loses_no_event(storage: Store) {
    let mut watch = storage.watch("/a/", 0).await.unwrap();
    for i in 0..20 {
        let waited = timeout(Duration::from_millis(1), watch.next()).await;
        assert!(waited.is_err(), "round {i}: {waited:?}");
        storage.create(&format!("/a/{i}"), bytes("1")).await.unwrap();
        assert_eq!(show(&take(&mut watch, 1).await), [format!("Created /a/{i} 1<-")]);
    }
}

pub(crate) async fn many_watches_see_the_same_events_in_order(storage: Store) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let mut watch = storage.watch("/a/", 0).await.unwrap();
        tasks.spawn(async move {
            take(&mut watch, 50).await.iter().map(|event| event.revision).collect::<Vec<_>>()
        });
    }
    let mut expected = Vec::new();
    for i in 0..50 {
        expected.push(storage.create(&format!("/a/{i}"), bytes("1")).await.unwrap());
        tokio::task::yield_now().await;
    }
    while let Some(seen) = tasks.join_next().await {
        assert_eq!(seen.unwrap(), expected);
    }
}

pub(crate) async fn what_others_wrote_before_a_watch_began_is_not_waited_for(storage: Store) {
    let listed = storage.create("/b/one", bytes("1")).await.unwrap();
    storage.create("/b/two", bytes("1")).await.unwrap();
    let mut watch = storage.watch("/a/", listed).await.unwrap();
    let progress = storage.progress("/a/").await.unwrap();
    // No event of /a/ comes: what is waited for has been reached, or the watch says so by itself.
    let mut reached = listed;
    while reached < progress.delivered {
        reached = timeout(Duration::from_secs(10), watch.next()).await.expect("waits").unwrap().revision;
    }
}

pub(crate) async fn progress_says_when_a_watch_is_up_to_date(storage: Store) {
    let mut watch = storage.watch("/a/", 0).await.unwrap();
    let mine = storage.create("/a/x", bytes("1")).await.unwrap();
    let foreign = storage.create("/b/x", bytes("1")).await.unwrap();
    let progress = storage.progress("/a/").await.unwrap();
    assert_eq!(progress.revision, foreign);
    assert!(progress.delivered >= mine, "{progress:?}");
    let (mut events, mut reached) = (Vec::new(), 0);
    while reached < progress.delivered {
        let batch = timeout(Duration::from_secs(10), watch.next()).await.unwrap().unwrap();
        reached = batch.revision;
        events.extend(batch.events);
    }
    assert_eq!(show(&events), ["Created /a/x 1<-"]);
}

pub(crate) async fn a_watch_ends_when_the_store_is_closed(storage: Store) {
    let mut watch = storage.watch("/a/", 0).await.unwrap();
    let waiting = tokio::spawn(async move { watch.next().await });
    tokio::task::yield_now().await;
    drop(storage);
    let ended = timeout(Duration::from_secs(10), waiting).await.expect("still waiting").unwrap();
    assert!(matches!(ended, Err(StorageError::Unavailable { .. })), "{ended:?}");
}
