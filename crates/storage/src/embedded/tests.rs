//! Faults of the device, which a test has to make itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{Builder, StorageBackend};

use super::*;

/// A file on a device that can be told to be full.
#[derive(Debug)]
struct FaultyFile {
    file: FileBackend,
    full: Arc<AtomicBool>,
}

impl FaultyFile {
    fn check(&self) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write(offset, data)
    }
}

fn device(path: &Path, full: &Arc<AtomicBool>, noticed: bool) -> Device {
    let (path, fault, full) = (path.to_owned(), Arc::clone(full), Arc::clone(full));
    let open = move || {
        let file =
            std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let file = FileBackend::new(file)?;
        Builder::new().create_with_backend(FaultyFile { file, full: Arc::clone(&fault) })
    };
    let free = move || Ok(if noticed && full.load(Ordering::Relaxed) { 0 } else { 1 << 40 });
    Device { open: Box::new(open), free: Box::new(free) }
}

#[tokio::test]
async fn a_full_device_refuses_writes_and_serves_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let full = Arc::new(AtomicBool::new(false));
    let limits = HistoryLimits::default();
    let storage = EmbeddedStorage::open_with(&path, limits, device(&path, &full, true)).unwrap();
    let kept = storage.create("/a/kept", "1".into()).await.unwrap();
    full.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let error = storage.create("/a/new", "1".into()).await.unwrap_err();
        assert!(matches!(error, StorageError::Full { .. }), "{error:?}");
        let text = format!("no space left for {}: free some and retry", path.display());
        assert_eq!(error.to_string(), text);
        assert_eq!(storage.get("/a/kept").await.unwrap().found.unwrap().revision, kept);
        assert_eq!(storage.list("/a/", ListOptions::default()).await.unwrap().items.len(), 1);
    }
    full.store(false, Ordering::Relaxed);
    assert_eq!(storage.create("/a/new", "2".into()).await.unwrap(), kept + 1);
}

#[tokio::test]
async fn a_device_that_fails_in_the_middle_of_a_write_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let full = Arc::new(AtomicBool::new(false));
    let limits = HistoryLimits::default();
    let storage = EmbeddedStorage::open_with(&path, limits, device(&path, &full, false)).unwrap();
    let kept = storage.create("/a/kept", "1".into()).await.unwrap();
    full.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let error = storage.create("/a/new", vec![b'x'; 1 << 20].into()).await.unwrap_err();
        let known = matches!(error, StorageError::Full { .. } | StorageError::Unavailable { .. });
        assert!(known && error.to_string().contains(&path.display().to_string()), "{error:?}");
    }
    full.store(false, Ordering::Relaxed);
    assert_eq!(storage.create("/a/new", "2".into()).await.unwrap(), kept + 1);
    assert_eq!(storage.get("/a/kept").await.unwrap().found.unwrap().revision, kept);
}

#[test]
fn a_file_of_another_schema_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(EmbeddedStorage::open(&path, EmbeddedOptions::default()).unwrap());
    let database = Builder::new().create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("schema", SCHEMA + 1).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = EmbeddedStorage::open(&path, EmbeddedOptions::default()).unwrap_err();
    let text = format!(
        "{} has schema version 2, this convoy knows 1: start the version that wrote it",
        path.display()
    );
    assert_eq!(error.to_string(), text);
}
