use std::sync::Arc;

use bytes::Bytes;
use convoy_storage::{ListOptions, MAX_KEY, MAX_VALUE, Storage, StorageError};

type Store = Arc<dyn Storage>;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn keys(storage: &Store, prefix: &str, options: ListOptions<'_>) -> Vec<String> {
    let list = storage.list(prefix, options).await.unwrap();
    list.items.iter().map(|item| format!("{}={}", item.key, String::from_utf8_lossy(&item.value))).collect()
}

pub(crate) async fn a_created_value_is_read_back_at_its_revision(storage: Store) {
    let revision = storage.create("/a/x", bytes("1")).await.unwrap();
    let read = storage.get("/a/x").await.unwrap();
    let found = read.found.unwrap();
    assert_eq!((&*found.key, &*found.value, found.revision), ("/a/x", &b"1"[..], revision));
    assert_eq!(read.revision, revision);
}

pub(crate) async fn creating_an_existing_key_shows_what_is_there(storage: Store) {
    let revision = storage.create("/a/x", bytes("1")).await.unwrap();
    match storage.create("/a/x", bytes("2")).await {
        Err(StorageError::AlreadyExists { current }) => {
            assert_eq!((&*current.value, current.revision), (&b"1"[..], revision));
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_missing_key_reads_as_nothing_at_the_current_revision(storage: Store) {
    let revision = storage.create("/a/x", bytes("1")).await.unwrap();
    let read = storage.get("/a/y").await.unwrap();
    assert_eq!((read.found, read.revision), (None, revision));
}

pub(crate) async fn an_update_needs_the_revision_that_was_read(storage: Store) {
    let first = storage.create("/a/x", bytes("1")).await.unwrap();
    let second = storage.update("/a/x", first, bytes("2")).await.unwrap();
    assert!(second > first);
    match storage.update("/a/x", first, bytes("3")).await {
        Err(StorageError::Conflict { expected, current }) => {
            assert_eq!((expected, &*current.value, current.revision), (first, &b"2"[..], second));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(storage.get("/a/x").await.unwrap().found.unwrap().value, bytes("2"));
}

pub(crate) async fn an_update_of_a_missing_key_is_not_found(storage: Store) {
    match storage.update("/a/x", 1, bytes("1")).await {
        Err(StorageError::NotFound { key }) => assert_eq!(key, "/a/x"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(storage.delete("/a/x", 1).await, Err(StorageError::NotFound { .. })));
}

pub(crate) async fn a_delete_returns_the_last_value_and_its_own_revision(storage: Store) {
    let created = storage.create("/a/x", bytes("1")).await.unwrap();
    let deleted = storage.delete("/a/x", created).await.unwrap();
    assert_eq!((&*deleted.previous.value, deleted.previous.revision), (&b"1"[..], created));
    assert!(deleted.revision > created);
    let read = storage.get("/a/x").await.unwrap();
    assert_eq!((read.found, read.revision), (None, deleted.revision));
}

pub(crate) async fn a_delete_needs_the_revision_that_was_read(storage: Store) {
    let first = storage.create("/a/x", bytes("1")).await.unwrap();
    let second = storage.update("/a/x", first, bytes("2")).await.unwrap();
    match storage.delete("/a/x", first).await {
        Err(StorageError::Conflict { current, .. }) => assert_eq!(current.revision, second),
        other => panic!("{other:?}"),
    }
    assert!(storage.get("/a/x").await.unwrap().found.is_some());
}

pub(crate) async fn a_key_can_be_created_again_after_its_deletion(storage: Store) {
    let first = storage.create("/a/x", bytes("1")).await.unwrap();
    let deleted = storage.delete("/a/x", first).await.unwrap();
    let again = storage.create("/a/x", bytes("2")).await.unwrap();
    assert!(again > deleted.revision);
    assert!(matches!(
        storage.update("/a/x", first, bytes("3")).await,
        Err(StorageError::Conflict { current, .. }) if current.revision == again
    ));
}

pub(crate) async fn one_revision_counter_serves_all_prefixes(storage: Store) {
    let mut last = 0;
    for key in ["/a/x", "/b/x", "/a/y", "/c"] {
        let revision = storage.create(key, bytes("1")).await.unwrap();
        assert!(revision > last, "{key}");
        last = revision;
    }
    assert_eq!(storage.revision().await.unwrap(), last);
}

pub(crate) async fn a_failed_write_takes_no_revision(storage: Store) {
    let revision = storage.create("/a/x", bytes("1")).await.unwrap();
    storage.create("/a/x", bytes("2")).await.unwrap_err();
    storage.update("/a/x", revision + 7, bytes("2")).await.unwrap_err();
    storage.delete("/a/y", 1).await.unwrap_err();
    assert_eq!(storage.revision().await.unwrap(), revision);
}

pub(crate) async fn a_list_shows_the_prefix_in_key_order_and_nothing_else(storage: Store) {
    for key in ["/a/y/2", "/a/x/1", "/ab/x", "/a/x/2", "/b/x", "/a/x-y/1"] {
        storage.create(key, bytes("v")).await.unwrap();
    }
    let all = ["/a/x-y/1=v", "/a/x/1=v", "/a/x/2=v", "/a/y/2=v"];
    assert_eq!(keys(&storage, "/a/", ListOptions::default()).await, all);
    assert_eq!(keys(&storage, "/a/x/", ListOptions::default()).await, ["/a/x/1=v", "/a/x/2=v"]);
    let after = ListOptions { after: Some("/a/x/1"), ..ListOptions::default() };
    assert_eq!(keys(&storage, "/a/", after).await, ["/a/x/2=v", "/a/y/2=v"]);
}

pub(crate) async fn an_empty_list_has_the_revision_of_the_store(storage: Store) {
    let revision = storage.create("/a/x", bytes("1")).await.unwrap();
    let list = storage.list("/b/", ListOptions::default()).await.unwrap();
    assert_eq!((list.items.len(), list.revision, list.remaining), (0, revision, 0));
}

pub(crate) async fn pages_at_one_revision_show_each_key_once_while_writes_go_on(storage: Store) {
    for i in 0..10 {
        storage.create(&format!("/a/{i}"), bytes("old")).await.unwrap();
    }
    let options = ListOptions { limit: 4, ..ListOptions::default() };
    let mut page = storage.list("/a/", options).await.unwrap();
    assert_eq!(page.remaining, 6);
    let at = page.revision;
    let mut seen = Vec::new();
    loop {
        seen.extend(page.items.iter().map(|item| format!("{}={}", item.key, item.value.escape_ascii())));
        if page.remaining == 0 {
            break;
        }
        // Between pages: a key behind the cursor goes, one ahead changes, a new one appears.
        let round = seen.len();
        let gone = storage.get("/a/9").await.unwrap().found;
        if let Some(gone) = gone {
            storage.delete("/a/9", gone.revision).await.unwrap();
        }
        let changed = storage.get("/a/7").await.unwrap().found.unwrap();
        storage.update("/a/7", changed.revision, bytes("new")).await.unwrap();
        storage.create(&format!("/a/5-{round}"), bytes("new")).await.unwrap();
        let last = page.items.last().unwrap().key.clone();
        page = storage
            .list("/a/", ListOptions { limit: 4, after: Some(&last), revision: Some(at) })
            .await
            .unwrap();
        assert_eq!(page.revision, at);
    }
    let expected: Vec<_> = (0..10).map(|i| format!("/a/{i}=old")).collect();
    assert_eq!(seen, expected);
}

pub(crate) async fn a_list_of_the_past_shows_deleted_and_older_values(storage: Store) {
    let x = storage.create("/a/x", bytes("1")).await.unwrap();
    let y = storage.create("/a/y", bytes("1")).await.unwrap();
    storage.update("/a/x", x, bytes("2")).await.unwrap();
    let deleted = storage.delete("/a/y", y).await.unwrap().revision;
    storage.create("/a/y", bytes("3")).await.unwrap();
    let at = |revision| ListOptions { revision: Some(revision), ..ListOptions::default() };
    assert_eq!(keys(&storage, "/a/", at(x)).await, ["/a/x=1"]);
    assert_eq!(keys(&storage, "/a/", at(y)).await, ["/a/x=1", "/a/y=1"]);
    assert_eq!(keys(&storage, "/a/", at(deleted)).await, ["/a/x=2"]);
    assert_eq!(keys(&storage, "/a/", ListOptions::default()).await, ["/a/x=2", "/a/y=3"]);
}

pub(crate) async fn a_list_of_the_future_is_refused(storage: Store) {
    let current = storage.create("/a/x", bytes("1")).await.unwrap();
    let options = ListOptions { revision: Some(current + 5), ..ListOptions::default() };
    match storage.list("/a/", options).await {
        Err(StorageError::FutureRevision { requested, current: shown }) => {
            assert_eq!((requested, shown), (current + 5, current));
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_list_before_the_compaction_is_refused(storage: Store) {
    let first = storage.create("/a/x", bytes("1")).await.unwrap();
    let second = storage.update("/a/x", first, bytes("2")).await.unwrap();
    storage.update("/a/x", second, bytes("3")).await.unwrap();
    storage.compact(second).await.unwrap();
    assert_eq!(storage.oldest().await.unwrap(), second);
    let at = |revision| ListOptions { revision: Some(revision), ..ListOptions::default() };
    assert!(matches!(
        storage.list("/a/", at(first)).await,
        Err(StorageError::Compacted { requested, oldest }) if (requested, oldest) == (first, second)
    ));
    assert_eq!(keys(&storage, "/a/", at(second)).await, ["/a/x=2"]);
}

pub(crate) async fn compacting_twice_or_into_the_future_is_safe(storage: Store) {
    let first = storage.create("/a/x", bytes("1")).await.unwrap();
    let second = storage.update("/a/x", first, bytes("2")).await.unwrap();
    storage.compact(second).await.unwrap();
    storage.compact(second).await.unwrap();
    storage.compact(first).await.unwrap();
    assert_eq!(storage.oldest().await.unwrap(), second);
    assert!(matches!(storage.compact(second + 1).await, Err(StorageError::FutureRevision { .. })));
    assert_eq!(keys(&storage, "/a/", ListOptions::default()).await, ["/a/x=2"]);
}

pub(crate) async fn too_large_keys_and_values_are_refused(storage: Store) {
    let key = format!("/{}", "k".repeat(MAX_KEY));
    assert!(matches!(storage.create(&key, bytes("1")).await, Err(StorageError::TooLarge { .. })));
    let value = Bytes::from(vec![b'v'; MAX_VALUE + 1]);
    assert!(matches!(storage.create("/a/x", value).await, Err(StorageError::TooLarge { .. })));
    let largest = Bytes::from(vec![b'v'; MAX_VALUE]);
    storage.create("/a/x", largest.clone()).await.unwrap();
    assert_eq!(storage.get("/a/x").await.unwrap().found.unwrap().value, largest);
}

pub(crate) async fn concurrent_updates_of_one_key_lose_no_increment(storage: Store) {
    storage.create("/a/counter", bytes("0")).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let storage = Arc::clone(&storage);
        tasks.spawn(async move {
            for _ in 0..25 {
                let mut current = storage.get("/a/counter").await.unwrap().found.unwrap();
                loop {
                    let count: u32 = std::str::from_utf8(&current.value).unwrap().parse().unwrap();
                    let next = bytes(&(count + 1).to_string());
                    match storage.update("/a/counter", current.revision, next).await {
                        Ok(_) => break,
                        Err(StorageError::Conflict { current: now, .. }) => current = now,
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(storage.get("/a/counter").await.unwrap().found.unwrap().value, bytes("200"));
}

pub(crate) async fn concurrent_creates_of_one_key_have_one_winner(storage: Store) {
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..16 {
        let storage = Arc::clone(&storage);
        tasks.spawn(async move { storage.create("/a/x", bytes(&i.to_string())).await.is_ok() });
    }
    let mut winners = 0;
    while let Some(done) = tasks.join_next().await {
        winners += usize::from(done.unwrap());
    }
    assert_eq!(winners, 1);
}

pub(crate) async fn history_is_bounded_by_count(storage: Store) {
    let mut revision = storage.create("/a/x", bytes("0")).await.unwrap();
    for i in 1..200 {
        revision = storage.update("/a/x", revision, bytes(&i.to_string())).await.unwrap();
    }
    let oldest = storage.oldest().await.unwrap();
    assert!(oldest >= revision - 64 * 2 && oldest < revision, "oldest {oldest} of {revision}");
    assert!(matches!(storage.watch("/a/", 0).await, Err(StorageError::Compacted { .. })));
}
