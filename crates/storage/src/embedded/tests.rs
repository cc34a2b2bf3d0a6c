//! Faults of the device, which a test has to make itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{Builder, StorageBackend};

use super::*;

/// A file on a device that can be told to be full.
#[derive(Debug)]
struct Device {
    file: FileBackend,
    full: Arc<AtomicBool>,
}

impl Device {
    fn check(&self) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl StorageBackend for Device {
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

#[tokio::test]
async fn a_full_device_refuses_writes_and_takes_them_again_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let full = Arc::new(AtomicBool::new(false));
    let (file, fault) = (path.clone(), Arc::clone(&full));
    let opener: Opener = Box::new(move || {
        let file =
            std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&file)?;
        Builder::new().create_with_backend(Device { file: FileBackend::new(file)?, full: Arc::clone(&fault) })
    });
    let storage = EmbeddedStorage::open_with(&path, HistoryLimits::default(), opener).unwrap();
    let kept = storage.create("/a/kept", "1".into()).await.unwrap();
    full.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let error = storage.create("/a/new", vec![b'x'; 1 << 20].into()).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StorageError::Full { .. } | StorageError::Unavailable { .. }), "{error:?}");
        assert!(text.contains(&path.display().to_string()), "{text}");
    }
    full.store(false, Ordering::Relaxed);
    let again = storage.create("/a/new", "2".into()).await.unwrap();
    assert_eq!(again, kept + 1);
    assert_eq!(storage.get("/a/kept").await.unwrap().found.unwrap().revision, kept);
}
