use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::Database;

use super::Device;
use crate::StorageError;

/// Why the file of a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another store of this one, has it open.
    #[error("{} is in use by another process: stop that one, or use another folder", path.display())]
    InUse { path: PathBuf },
    /// The file or its folder may not be written.
    #[error("{} cannot be written: check the owner and mode of the folder", path.display())]
    NotWritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The device is full.
    #[error("no space left for {}: free some and start again", path.display())]
    Full { path: PathBuf },
    /// The file is no store, or it is damaged.
    #[error(
        "{} is damaged or is no convoy store ({reason}): restore it from a backup, or move it away to start empty",
        path.display()
    )]
    Damaged { path: PathBuf, reason: String },
    /// The file was written by another version of convoy.
    #[error(
        "{} has schema version {found}, this convoy knows {known}: start the version that wrote it",
        path.display()
    )]
    Schema { path: PathBuf, found: u64, known: u64 },
    /// Any other fault of the device or the system.
    #[error("cannot open {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn from_redb(path: &Path, error: redb::Error) -> Self {
        let path = path.to_owned();
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::InUse { path },
            redb::Error::Io(source) => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Self::NotWritable { path, source }
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                    Self::Damaged { path, reason: source.to_string() }
                }
                _ => Self::Io { path, source },
            },
            other => Self::Damaged { path, reason: other.to_string() },
        }
    }
}

/// Opens the file; a panic of the library on a damaged one is an error like any other.
pub(super) fn open(path: &Path, device: &Device) -> Result<Database, OpenError> {
    match std::panic::catch_unwind(AssertUnwindSafe(|| (device.open)())) {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(error)) => Err(OpenError::from_redb(path, error.into())),
        Err(_) => Err(OpenError::Damaged { path: path.to_owned(), reason: "it cannot be read".to_owned() }),
    }
}

/// A failed read or write of an open file.
pub(super) fn failed(path: &Path, error: redb::Error) -> StorageError {
    if let redb::Error::Io(source) = &error
        && matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    {
        return StorageError::Full { path: path.display().to_string() };
    }
    StorageError::Unavailable {
        reason: format!("{} could not be read or written", path.display()),
        source: Some(Arc::new(error)),
    }
}

/// What everything answers while the file is closed after a failed write.
pub(super) fn closed(path: &Path) -> StorageError {
    StorageError::Unavailable {
        reason: format!("{} could not be opened again after a failed write", path.display()),
        source: None,
    }
}
