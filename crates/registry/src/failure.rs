//! Failures of the storage as answers.

use convoy_meta::{ContinueToken, FieldError, Status};
use convoy_storage::StorageError;
use convoy_storage::watch_cache::{CacheError, Entry};

use crate::ResourceDef;

/// The Status of an `ERROR` event that ends a watch.
pub fn watch_status(error: &CacheError) -> Status {
    match error {
        CacheError::TooOld { requested, oldest } => Status::too_old_resource_version(*requested, *oldest),
        CacheError::TooLarge { requested, current } => {
            Status::too_large_resource_version(*requested, *current)
        }
        CacheError::Ended => Status::expired("the watch was ended by the server: list and watch again"),
        CacheError::Behind => Status::timeout("the watch cache is behind the storage", 1),
        CacheError::Storage(error) => storage_status(error),
    }
}

/// What a list answers when its revision is gone: with a token that goes on at the present.
pub(crate) fn list_status(error: &CacheError, start_key: Option<&str>) -> Status {
    let mut status = watch_status(error);
    if let (CacheError::TooOld { .. }, Some(start_key)) = (error, start_key) {
        status = Status::expired(
            "the continue token is too old for a consistent list: start a new list without it, or go on with the token in this answer, which may miss or repeat objects that changed since the first page",
        );
        let token = ContinueToken { revision: None, start_key: start_key.to_owned() };
        let metadata = status.metadata.get_or_insert_default();
        metadata.continue_token = token.encode();
    }
    status
}

/// A failure that has nothing to do with the object.
pub(crate) fn storage_status(error: &StorageError) -> Status {
    match error {
        StorageError::Full { .. } => Status::service_unavailable(format!("{error}")),
        // The client has to look: unlike 503, it does not mean that nothing was done.
        StorageError::Unknown { .. } => Status::timeout(error.to_string(), 0),
        StorageError::Unavailable { source: Some(source), .. } => {
            Status::service_unavailable(format!("{error}: {source}"))
        }
        StorageError::TooLarge { .. } => Status::request_entity_too_large(error),
        StorageError::Compacted { requested, oldest } => {
            Status::too_old_resource_version(*requested, *oldest)
        }
        StorageError::FutureRevision { requested, current } => {
            Status::too_large_resource_version(*requested, *current)
        }
        StorageError::Unavailable { source: None, .. }
        | StorageError::AlreadyExists { .. }
        | StorageError::NotFound { .. }
        | StorageError::Conflict { .. } => Status::service_unavailable(error.to_string()),
    }
}

/// An object whose stored bytes cannot be read.
pub(crate) fn fault_status(entry: &Entry) -> Status {
    Status::internal(format!(
        "the object stored at {} cannot be decoded: {}; delete it, or repair it in the storage",
        entry.key(),
        entry.fault().unwrap_or("unknown fault")
    ))
}

/// The checks that failed, as kube-apiserver answers them.
pub(crate) fn invalid(def: &ResourceDef, name: &str, errors: &[FieldError]) -> Status {
    Status::invalid(&def.group_kind(), name, errors)
}
