//! What the store asks of its backend, and how an object that a collection set aside is found again.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions};

use crate::s3::innermost;

/// Where objects lie between the collection that found them unreferenced and the one that deletes them.
const ASIDE: &str = "aside";
/// Written to learn what time it is by the backend's clock.
const CLOCK: &str = "clock";

type Outcome<T> = Result<T, object_store::Error>;

/// Named blobs, each written as a whole. A trait so that collections are tested against every order in which
/// its requests can arrive.
pub(crate) trait Shelf: Sync {
    /// A blob; none when it is not there.
    fn read(&self, name: &Path) -> impl Future<Output = Outcome<Option<Bytes>>> + Send;
    /// Whether there is a blob.
    fn has(&self, name: &Path) -> impl Future<Output = Outcome<bool>> + Send;
    /// Writes a blob; it is as old as its last write.
    fn write(&self, name: &Path, blob: Bytes) -> impl Future<Output = Outcome<()>> + Send;
    /// Deletes a blob; one that is not there is deleted.
    fn delete(&self, name: &Path) -> impl Future<Output = Outcome<()>> + Send;
    /// The blobs of a folder.
    fn list(&self, folder: &Path) -> BoxStream<'_, Outcome<Shelved>>;
    /// What time it is by the clock that tells how old blobs are.
    fn now(&self) -> impl Future<Output = Outcome<Timestamp>> + Send;
}

/// A blob as a listing has it.
#[derive(Debug, Clone)]
pub(crate) struct Shelved {
    pub(crate) name: Path,
    pub(crate) size: u64,
    pub(crate) written: Timestamp,
}

/// Where a blob lies while it is set aside.
pub(crate) fn aside(name: &Path) -> Path {
    Path::from(ASIDE).parts().chain(name.parts()).collect()
}

/// A blob, wherever it lies: one that was set aside is put back.
pub(crate) async fn find<S: Shelf>(shelf: &S, name: &Path) -> Outcome<Option<Bytes>> {
    if let Some(blob) = shelf.read(name).await? {
        return Ok(Some(blob));
    }
    match shelf.read(&aside(name)).await? {
        Some(blob) => {
            shelf.write(name, blob.clone()).await?;
            Ok(Some(blob))
        }
        // A collection may have put it back between the two.
        None => shelf.read(name).await,
    }
}

/// Makes a blob as young as if it were written now, because it is about to be referenced. False when it is not
/// there.
pub(crate) async fn touch<S: Shelf>(shelf: &S, name: &Path) -> Outcome<bool> {
    match find(shelf, name).await? {
        Some(blob) => shelf.write(name, blob).await.map(|()| true),
        None => Ok(false),
    }
}

/// A backend of the `object_store` crate.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    pub(crate) backend: Arc<dyn ObjectStore>,
    /// What is larger was not written by a store, and is not read.
    pub(crate) most_bytes: u64,
    /// Whether it is a server, of whose errors only the cause is told: the rest has times in it, and would make every
    /// message a new one.
    pub(crate) is_remote: bool,
}

impl Objects {
    /// Writes a blob unless there is one of its name.
    pub(crate) async fn put_if_absent(&self, name: &Path, blob: Bytes) -> Outcome<()> {
        let once = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.backend.put_opts(name, blob.into(), once).await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(self.told(error)),
        }
    }

    fn told(&self, error: object_store::Error) -> object_store::Error {
        match error {
            error if !self.is_remote => error,
            error => object_store::Error::Generic { store: "S3", source: innermost(&error).into() },
        }
    }
}

fn timestamp(object: &object_store::ObjectMeta) -> Timestamp {
    let millis = object.last_modified.timestamp_millis();
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

impl Shelf for Objects {
    async fn read(&self, name: &Path) -> Outcome<Option<Bytes>> {
        match self.backend.get(name).await {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            // It is found to be damaged.
            Ok(found) if found.meta.size > self.most_bytes => Ok(Some(Bytes::new())),
            Ok(found) => found.bytes().await.map(Some).map_err(|error| self.told(error)),
            Err(error) => Err(self.told(error)),
        }
    }

    async fn has(&self, name: &Path) -> Outcome<bool> {
        match self.backend.head(name).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.told(error)),
        }
    }

    async fn write(&self, name: &Path, blob: Bytes) -> Outcome<()> {
        self.backend.put(name, blob.into()).await.map(|_| ()).map_err(|error| self.told(error))
    }

    async fn delete(&self, name: &Path) -> Outcome<()> {
        match self.backend.delete(name).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.told(error)),
        }
    }

    fn list(&self, folder: &Path) -> BoxStream<'_, Outcome<Shelved>> {
        let listed = self.backend.list(Some(folder));
        listed
            .map(|object| {
                let object = object.map_err(|error| self.told(error))?;
                let written = timestamp(&object);
                Ok(Shelved { name: object.location, size: object.size, written })
            })
            .boxed()
    }

    async fn now(&self) -> Outcome<Timestamp> {
        let name = Path::from(CLOCK);
        self.write(&name, Bytes::new()).await?;
        self.backend.head(&name).await.map(|object| timestamp(&object)).map_err(|error| self.told(error))
    }
}
