//! What only the embedded store has: a file, and what can be wrong with it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use std::path::Path;

use convoy_storage::embedded::{EmbeddedOptions, EmbeddedStorage, OpenError};
use convoy_storage::{ListOptions, Storage};

fn open(path: &Path) -> Result<EmbeddedStorage, OpenError> {
    EmbeddedStorage::open(path, EmbeddedOptions::default())
}

#[tokio::test]
async fn everything_is_there_after_a_restart_and_revisions_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let storage = open(&path).unwrap();
    let first = storage.create("/a/x", "1".into()).await.unwrap();
    let second = storage.update("/a/x", first, "2".into()).await.unwrap();
    storage.create("/a/y", "1".into()).await.unwrap();
    drop(storage);
    let storage = open(&path).unwrap();
    assert_eq!(storage.get("/a/x").await.unwrap().found.unwrap().revision, second);
    let past = ListOptions { revision: Some(first), ..ListOptions::default() };
    assert_eq!(&*storage.list("/a/", past).await.unwrap().items[0].value, b"1");
    let mut watch = storage.watch("/a/", first).await.unwrap();
    let events = watch.next().await.unwrap().events;
    assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), [second, second + 1]);
    assert_eq!(&*events[0].previous.as_ref().unwrap().value, b"1");
    assert!(storage.create("/a/z", "1".into()).await.unwrap() > second + 1);
}

#[test]
fn a_second_store_on_the_same_file_is_refused_and_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let first = open(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    let text =
        format!("{} is in use by another process: stop that one, or use another folder", path.display());
    assert_eq!(error.to_string(), text);
    drop(first);
    open(&path).unwrap();
}

#[test]
fn a_file_that_is_no_store_is_damaged_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let text = "not a store at all, but a page of prose that is long enough. ".repeat(200);
    std::fs::write(&path, &text).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains("restore it from a backup"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn damage_anywhere_is_an_error_and_never_other_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let storage = open(&path).unwrap();
    for i in 0..200 {
        storage.create(&format!("/a/{i:03}"), vec![b'v'; 700].into()).await.unwrap();
    }
    drop(storage);
    let good = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut bad = good.clone();
        for byte in bad.iter_mut().skip(at).take(512) {
            *byte ^= 0x5a;
        }
        std::fs::write(&path, &bad).unwrap();
        match open(&path) {
            Ok(storage) => {
                // Damage in a page that is not used: everything must be as it was.
                let list = storage.list("/a/", ListOptions::default()).await.unwrap();
                assert_eq!(list.items.len(), 200, "damage at {at}");
                assert!(list.items.iter().all(|item| item.value.iter().all(|byte| *byte == b'v')));
            }
            Err(OpenError::Damaged { .. }) => refused += 1,
            Err(other) => panic!("damage at {at}: {other:?}"),
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_folder_that_is_missing_or_is_a_file_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = open(&folder.path().join("none").join("store")).unwrap_err();
    assert!(matches!(missing, OpenError::Io { .. }), "{missing:?}");
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = open(&file.join("store")).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
    assert!(error.to_string().starts_with("cannot open "), "{error}");
}
