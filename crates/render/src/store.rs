use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use convoy_api::Artifact;
use jiff::Timestamp;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;

use crate::blob::{self, BlobError};
use crate::bundle::Bundle;
use crate::collect::{Collected, References, Terms, collect};
use crate::digest::hex_of;
use crate::s3::{self, S3Error, S3Options};
use crate::shelf::{Objects, Shelf as _, find, touch};

pub(crate) const ARTIFACTS: &str = "artifacts";
pub(crate) const BUNDLES: &str = "bundles";
pub(crate) const RENDERS: &str = "renders";
pub(crate) const SOURCES: &str = "sources";
/// Where a collection notes what the next one has to know.
const COLLECTION: &str = "collection";
/// Where the seed of charts' random values is kept.
const SEED: &str = "seed";

/// Largest artifact or bundle that is kept, uncompressed.
pub(crate) const MAX_PAYLOAD_BYTES: u64 = 512 << 20;

/// Artifacts and bundles by the digest of their content, and bundles by render key.
///
/// Writes are atomic, and an object is durable when its write returns. What is read was checked against
/// its digest. Clones share the store.
#[derive(Debug, Clone)]
pub struct RenderStore {
    objects: Objects,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    /// Not a URL of a store.
    #[error("{url:?} is no URL of a render store: use file:///folder, s3://bucket/prefix or memory://")]
    Url {
        /// As given, up to 64 characters.
        url: String,
    },
    /// A store that a later version can use.
    #[error(
        "render stores of the sort {scheme}:// are not supported yet: use file:///folder, s3://bucket/prefix or memory://"
    )]
    Unsupported {
        /// `gs` or `az`.
        scheme: String,
    },
    /// The folder cannot be made or used.
    #[error("cannot use the folder {folder} as a render store")]
    Folder {
        /// The folder.
        folder: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The store's library refuses the folder.
    #[error("cannot use the folder {folder} as a render store")]
    Backend {
        /// The folder.
        folder: String,
        /// What it says.
        #[source]
        source: object_store::Error,
    },
    /// What is said of the server of a bucket cannot be used.
    #[error("cannot use the bucket {bucket} as a render store: {source}")]
    S3 {
        /// The bucket.
        bucket: String,
        /// What is wrong.
        source: S3Error,
    },
}

/// A read or write of the store that failed. Nothing is lost for good: artifacts are fetched again,
/// bundles rendered again.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The backend failed; trying again can help.
    #[error("cannot {action} {name} in the render store")]
    Backend {
        /// `read`, `write`, `list` or `delete`.
        action: &'static str,
        /// Name of the object.
        name: String,
        /// What the backend says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The object is not what its name says; it was removed, so that the next write makes it good.
    #[error("{name} in the render store cannot be used, it was removed: {detail}")]
    Damaged {
        /// Name of the object.
        name: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The caller's digest or key is none.
    #[error("{digest:?} is no digest")]
    NotADigest {
        /// As given, up to 80 characters.
        digest: String,
    },
    /// Compression failed or its thread broke down.
    #[error("cannot pack {name} for the render store: {detail}")]
    Pack {
        /// Name of the object.
        name: String,
        /// What went wrong.
        detail: String,
    },
}

/// What a store's URL names.
enum Location<'a> {
    Memory,
    Folder(&'a str),
    Bucket(&'a str, Path),
}

fn locate(url: &str) -> Result<Location<'_>, OpenStoreError> {
    let bad = || OpenStoreError::Url { url: url.chars().take(64).collect() };
    match url.split_once("://") {
        Some(("memory", "" | "/")) => Ok(Location::Memory),
        Some(("file", folder)) if folder.starts_with('/') => Ok(Location::Folder(folder)),
        Some(("s3", place)) => {
            s3::place(place).map(|(bucket, prefix)| Location::Bucket(bucket, prefix)).ok_or_else(bad)
        }
        Some((scheme @ ("gs" | "az"), _)) => Err(OpenStoreError::Unsupported { scheme: scheme.to_owned() }),
        _ => Err(bad()),
    }
}

impl RenderStore {
    /// Opens the store of `--render-store-url`: `file:///folder` (made when it is not there, readable by
    /// its owner alone), `s3://bucket/prefix` (whose server `s3` tells of, and is not asked yet) or `memory://`.
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open(url: &str, s3: &S3Options) -> Result<Self, OpenStoreError> {
        match locate(url)? {
            Location::Memory => Ok(Self::in_memory()),
            Location::Folder(folder) => Self::in_folder(FilePath::new(folder)),
            Location::Bucket(bucket, prefix) => {
                let client = s3.bucket(bucket);
                let client =
                    client.map_err(|source| OpenStoreError::S3 { bucket: bucket.to_owned(), source })?;
                let backend = Arc::new(PrefixStore::new(client, prefix));
                Ok(Self { objects: Objects { backend, most_bytes: MAX_PAYLOAD_BYTES, is_remote: true } })
            }
        }
    }

    /// Whether a URL is one of a store, without touching it.
    ///
    /// # Errors
    /// [`OpenStoreError::Url`] or [`OpenStoreError::Unsupported`].
    pub fn check_url(url: &str) -> Result<(), OpenStoreError> {
        locate(url).map(|_| ())
    }

    /// A store that is gone with the process.
    pub fn in_memory() -> Self {
        Self::on(Arc::new(InMemory::new()))
    }

    fn on(backend: Arc<dyn ObjectStore>) -> Self {
        Self { objects: Objects { backend, most_bytes: MAX_PAYLOAD_BYTES, is_remote: false } }
    }

    /// A store in a folder of this machine.
    pub fn in_folder(folder: &FilePath) -> Result<Self, OpenStoreError> {
        let name = || folder.display().to_string();
        make_private(folder).map_err(|source| OpenStoreError::Folder { folder: name(), source })?;
        let objects = LocalFileSystem::new_with_prefix(folder)
            .map_err(|source| OpenStoreError::Backend { folder: name(), source })?
            .with_fsync(true);
        Ok(Self::on(Arc::new(objects)))
    }

    /// A store in a backend of the caller's choice.
    pub fn in_backend(objects: Arc<dyn ObjectStore>) -> Self {
        Self::on(objects)
    }

    /// Keeps an artifact under its digest.
    pub async fn put_artifact(&self, artifact: &Artifact) -> Result<(), StoreError> {
        let (name, shared) = (name_of(ARTIFACTS, artifact.digest())?, artifact.clone());
        self.put(name, move || blob::encode_files(shared.files())).await
    }

    /// The artifact with this digest, or nothing when it is not there. The revision is the caller's: equal
    /// files of two revisions are kept once.
    pub async fn artifact(&self, digest: &str, revision: &str) -> Result<Option<Artifact>, StoreError> {
        let name = name_of(ARTIFACTS, digest)?;
        let Some(payload) = self.get(&name, Some(digest)).await? else { return Ok(None) };
        match blob::decode_files(payload) {
            Ok(files) => Ok(Some(Artifact::new(revision, files))),
            Err(error) => Err(self.damaged(&name, error.to_string()).await),
        }
    }

    /// Whether there is an artifact with this digest. It is not read.
    pub async fn has_artifact(&self, digest: &str) -> Result<bool, StoreError> {
        let name = name_of(ARTIFACTS, digest)?;
        let read = |source| failed("read", name.as_ref(), source);
        if self.objects.has(&name).await.map_err(read)? {
            return Ok(true);
        }
        Ok(find(&self.objects, &name).await.map_err(read)?.is_some())
    }

    /// Keeps a bundle; returns its digest.
    pub async fn put_bundle(&self, bundle: &Bundle) -> Result<String, StoreError> {
        let payload = bundle.to_bytes();
        let digest = crate::digest::sha256(&payload);
        self.put(name_of(BUNDLES, &digest)?, move || payload).await?;
        Ok(digest)
    }

    /// The secret that charts' random values are drawn from: that of the store, or `fresh` random bytes
    /// when it has none yet. All replicas that share a store get the same; whoever cannot read the store
    /// cannot compute what a chart drew, however much is known of the Release.
    pub async fn seed(&self, fresh: [u8; 32]) -> Result<Bytes, StoreError> {
        let name = Path::from(SEED);
        let read = async || self.objects.read(&name).await.map_err(|source| failed("read", SEED, source));
        // Read first: a server that does not know conditions would take each write for the first one.
        let seed = match read().await? {
            Some(seed) => seed,
            None => {
                let put = self.objects.put_if_absent(&name, fresh.to_vec().into()).await;
                put.map_err(|source| failed("write", SEED, source))?;
                read().await?.unwrap_or_default()
            }
        };
        if seed.len() < fresh.len() {
            let detail = format!("it has {} bytes instead of {}", seed.len(), fresh.len());
            return Err(self.damaged(&name, detail).await);
        }
        Ok(seed)
    }

    /// The bundle with this digest, or nothing when it is not there.
    pub async fn bundle(&self, digest: &str) -> Result<Option<Bundle>, StoreError> {
        let name = name_of(BUNDLES, digest)?;
        let Some(payload) = self.get(&name, Some(digest)).await? else { return Ok(None) };
        match serde_json::from_slice(&payload) {
            Ok(bundle) => Ok(Some(bundle)),
            Err(error) => Err(self.damaged(&name, error.to_string()).await),
        }
    }

    /// Notes which bundle a render key gave; the bundle was put before.
    pub async fn put_render(&self, key: &str, bundle_digest: &str) -> Result<(), StoreError> {
        let digest = bundle_digest.to_owned();
        self.put(name_of(RENDERS, key)?, move || digest.into_bytes()).await
    }

    /// The bundle that a render key gave, with its digest, when both are still there.
    pub async fn render(&self, key: &str) -> Result<Option<(String, Bundle)>, StoreError> {
        let name = name_of(RENDERS, key)?;
        let Some(payload) = self.get(&name, None).await? else { return Ok(None) };
        let digest = String::from_utf8_lossy(&payload).into_owned();
        if hex_of(&digest).is_none() {
            return Err(self.damaged(&name, "it names no bundle".to_owned()).await);
        }
        Ok(self.bundle(&digest).await?.map(|bundle| (digest, bundle)))
    }

    /// Tells the store that a bundle is about to be referenced, so that no collection deletes it before the reference
    /// is there. False when there is no such bundle.
    pub async fn touch_bundle(&self, digest: &str) -> Result<bool, StoreError> {
        let name = name_of(BUNDLES, digest)?;
        touch(&self.objects, &name).await.map_err(|source| failed("write", name.as_ref(), source))
    }

    /// Deletes what is not referenced, in two steps: what is older than `grace` is set aside, where it is still found;
    /// what lies aside for longer than `grace` is deleted. `references` must have been listed completely, and at most a
    /// quarter of `grace` may pass from then to the last change: `may_go_on` is asked before each.
    ///
    /// # Errors
    /// A backend that fails ends the collection; the next one goes on.
    pub async fn collect(
        &self,
        references: References,
        grace: Duration,
        may_go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Collected, StoreError> {
        let terms = Terms { grace, may_go_on };
        let collected = collect(&self.objects, references, &terms).await;
        collected.map_err(|source| failed("collect", "garbage", source))
    }

    /// What time it is by the store's clock, which tells how old objects are.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        self.objects.now().await.map_err(|source| failed("read", "the clock", source))
    }

    /// What the last collection noted for the next one.
    pub async fn collection_note(&self) -> Result<Option<Bytes>, StoreError> {
        let note = self.objects.read(&Path::from(COLLECTION)).await;
        note.map_err(|source| failed("read", COLLECTION, source))
    }

    /// Notes what the next collection has to know.
    pub async fn put_collection_note(&self, note: Vec<u8>) -> Result<(), StoreError> {
        let written = self.objects.write(&Path::from(COLLECTION), note.into()).await;
        written.map_err(|source| failed("write", COLLECTION, source))
    }

    pub(crate) async fn put(
        &self,
        name: Path,
        payload: impl FnOnce() -> Vec<u8> + Send + 'static,
    ) -> Result<(), StoreError> {
        let packed = tokio::task::spawn_blocking(move || {
            let payload = payload();
            match payload.len() as u64 {
                ..=MAX_PAYLOAD_BYTES => blob::seal(&payload),
                // It could not be read back.
                _ => Err(std::io::Error::other(BlobError::TooLarge(MAX_PAYLOAD_BYTES))),
            }
        })
        .await;
        let pack = |detail: String| StoreError::Pack { name: name.to_string(), detail };
        let blob =
            packed.map_err(|error| pack(error.to_string()))?.map_err(|error| pack(error.to_string()))?;
        let written = self.objects.write(&name, blob.into()).await;
        written.map_err(|source| failed("write", name.as_ref(), source))
    }

    pub(crate) async fn get(&self, name: &Path, want: Option<&str>) -> Result<Option<Bytes>, StoreError> {
        let found =
            find(&self.objects, name).await.map_err(|source| failed("read", name.as_ref(), source))?;
        let Some(blob) = found else { return Ok(None) };
        let opened = tokio::task::spawn_blocking(move || blob::open(&blob, MAX_PAYLOAD_BYTES)).await;
        let opened =
            opened.map_err(|error| StoreError::Pack { name: name.to_string(), detail: error.to_string() })?;
        match opened {
            Ok((payload, digest)) if want.is_none_or(|want| want == digest) => Ok(Some(payload)),
            Ok(_) => Err(self.damaged(name, "its content has another digest".to_owned()).await),
            Err(error) => Err(self.damaged(name, error.to_string()).await),
        }
    }

    pub(crate) async fn damaged(&self, name: &Path, detail: String) -> StoreError {
        // When this fails too, the next write still replaces it.
        let _ = self.delete(name).await;
        StoreError::Damaged { name: name.to_string(), detail }
    }

    async fn delete(&self, name: &Path) -> Result<(), StoreError> {
        self.objects.delete(name).await.map_err(|source| failed("delete", name.as_ref(), source))
    }
}

fn failed(action: &'static str, name: &str, source: object_store::Error) -> StoreError {
    let source = match source {
        object_store::Error::Generic { source, .. } => source,
        other => Box::new(other),
    };
    StoreError::Backend { action, name: name.to_owned(), source }
}

pub(crate) fn name_of(folder: &str, digest: &str) -> Result<Path, StoreError> {
    match hex_of(digest) {
        Some(hex) => Ok(Path::from_iter([folder, hex])),
        None => Err(StoreError::NotADigest { digest: digest.chars().take(80).collect() }),
    }
}

/// Makes a folder that only its owner can read: bundles hold Secrets.
fn make_private(folder: &FilePath) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::bundle::RenderedObject;
    use convoy_testkit::S3Server;
    use serde_json::json;

    fn artifact(text: &str) -> Artifact {
        let files =
            [("a".to_owned(), Bytes::copy_from_slice(text.as_bytes())), ("b/c".to_owned(), Bytes::new())];
        Artifact::new("main@sha1:1", files.into())
    }

    fn bundle(name: &str) -> Bundle {
        let object = json!({"kind": "ConfigMap", "metadata": {"name": name}, "n": 1.5, "big": 9_007_199_254_740_993_u64});
        Bundle {
            objects: vec![RenderedObject { source: "a.yaml".to_owned(), object, early: false }],
            ..Bundle::default()
        }
    }

    /// What the stores of a test are on, until it ends.
    type Servers = (tempfile::TempDir, Option<S3Server>);

    /// One of each sort, with the folder in which all but the first keep files.
    fn stores() -> (Vec<(RenderStore, Option<PathBuf>)>, Servers) {
        let dir = tempfile::tempdir().unwrap();
        let open = |url: &str| RenderStore::open(url, &S3Options::default()).unwrap();
        let folder = open(&format!("file://{}/store/here", dir.path().display()));
        let mut stores = vec![(open("memory://"), None), (folder, Some(dir.path().join("store/here")))];
        let server = S3Server::start_or_leave_out("bucket").unwrap();
        if let Some(server) = &server {
            let given = |name: &str| match name {
                "AWS_ACCESS_KEY_ID" => Some(S3Server::KEY.to_owned()),
                "AWS_SECRET_ACCESS_KEY" => Some(S3Server::SECRET.to_owned()),
                _ => None,
            };
            let endpoint = Some(server.endpoint());
            let options = S3Options { endpoint, allow_http: true, ..S3Options::default() };
            let bucket =
                RenderStore::open("s3://bucket/store/here", &options.with_environment(given)).unwrap();
            stores.push((bucket, Some(server.file("bucket", "store/here"))));
        }
        (stores, (dir, server))
    }

    #[tokio::test]
    async fn what_is_put_comes_back_the_same() {
        let (stores, _servers) = stores();
        for (store, _) in stores {
            let artifact = artifact("x");
            assert_eq!(store.artifact(artifact.digest(), "r").await.unwrap(), None);
            store.put_artifact(&artifact).await.unwrap();
            store.put_artifact(&artifact).await.unwrap();
            assert_eq!(
                store.artifact(artifact.digest(), "main@sha1:1").await.unwrap(),
                Some(artifact.clone())
            );

            let bundle = bundle("x");
            let digest = store.put_bundle(&bundle).await.unwrap();
            assert_eq!(digest, bundle.digest());
            assert_eq!(store.bundle(&digest).await.unwrap(), Some(bundle.clone()));

            let key = crate::digest::sha256(b"key");
            assert_eq!(store.render(&key).await.unwrap(), None);
            store.put_render(&key, &digest).await.unwrap();
            assert_eq!(store.render(&key).await.unwrap(), Some((digest, bundle)));
        }
    }

    fn references(digests: &[&str]) -> References {
        let mut references = References::default();
        digests.iter().for_each(|digest| references.add(digest));
        references
    }

    #[tokio::test]
    async fn garbage_is_set_aside_then_goes_and_what_is_referenced_young_or_used_stays() {
        let (stores, _servers) = stores();
        for (store, _) in stores {
            let (keep, drop) = (artifact("keep"), artifact("drop"));
            store.put_artifact(&keep).await.unwrap();
            store.put_artifact(&drop).await.unwrap();
            let kept = store.put_bundle(&bundle("keep")).await.unwrap();
            let dropped = store.put_bundle(&bundle("drop")).await.unwrap();
            let (kept_key, dropped_key) = (crate::digest::sha256(b"1"), crate::digest::sha256(b"2"));
            store.put_render(&kept_key, &kept).await.unwrap();
            store.put_render(&dropped_key, &dropped).await.unwrap();
            let collect = async |digests: &[&str], grace| {
                store.collect(references(digests), grace, &|| true).await.unwrap()
            };
            let hour = Duration::from_secs(3600);
            assert_eq!(collect(&[], hour).await, Collected { kept: 4, ..Collected::default() });

            let live = [keep.digest(), kept.as_str()];
            let first = collect(&live, Duration::ZERO).await;
            assert_eq!(first, Collected { set_aside: 2, kept: 2, ..Collected::default() });
            // Whoever asks for what lies aside gets it, and it is back.
            assert!(store.render(&dropped_key).await.unwrap().is_some());
            assert_eq!(
                collect(&live, Duration::ZERO).await.deleted,
                2,
                "the artifact, and the copy of the bundle"
            );
            assert!(store.touch_bundle(&dropped).await.unwrap());
            assert!(store.artifact(drop.digest(), "r").await.unwrap().is_none());
            assert!(!store.has_artifact(drop.digest()).await.unwrap());

            assert_eq!(collect(&live, Duration::ZERO).await.set_aside, 1);
            let back = collect(&[keep.digest(), &kept, &dropped], Duration::ZERO).await;
            assert_eq!(back, Collected { put_back: 1, kept: 2, ..Collected::default() });
            assert_eq!(collect(&live, Duration::ZERO).await.set_aside, 1);
            let last = collect(&live, Duration::ZERO).await;
            assert_eq!((last.deleted, last.kept), (2, 2), "the bundle and the note of its rendering");
            assert!(last.deleted_bytes > 0);

            assert!(store.artifact(keep.digest(), "r").await.unwrap().is_some());
            assert!(store.bundle(&dropped).await.unwrap().is_none());
            assert!(!store.touch_bundle(&dropped).await.unwrap());
            assert!(store.render(&kept_key).await.unwrap().is_some());
            assert!(store.render(&dropped_key).await.unwrap().is_none());
            assert_eq!(store.seed([1; 32]).await.unwrap(), [1; 32].as_slice());
        }
    }

    #[tokio::test]
    async fn a_collection_that_may_not_go_on_changes_nothing() {
        let store = RenderStore::in_memory();
        let digest = store.put_bundle(&bundle("x")).await.unwrap();
        for _ in 0..3 {
            let collected = store.collect(References::default(), Duration::ZERO, &|| false).await.unwrap();
            assert_eq!(collected, Collected { is_partial: true, ..Collected::default() });
        }
        assert!(store.bundle(&digest).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_list_is_not_read_on_when_nothing_may_be_changed_any_more() {
        let store = RenderStore::in_memory();
        for name in ["1", "2", "3"] {
            store.put_bundle(&bundle(name)).await.unwrap();
        }
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let once = || asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        let hour = Duration::from_secs(3600);
        let collected = store.collect(References::default(), hour, &once).await.unwrap();
        assert_eq!(collected, Collected { kept: 1, is_partial: true, ..Collected::default() });
    }

    #[tokio::test]
    async fn the_first_seed_stays_for_all_who_share_the_store() {
        let (stores, _servers) = stores();
        for (store, _) in &stores {
            assert_eq!(store.seed([1; 32]).await.unwrap(), [1; 32].as_slice());
            assert_eq!(store.clone().seed([2; 32]).await.unwrap(), [1; 32].as_slice());
        }
    }

    #[tokio::test]
    async fn damaged_objects_are_found_removed_and_made_good_by_the_next_write() {
        let (stores, _servers) = stores();
        for (store, folder) in stores {
            let Some(folder) = folder else { continue };
            let artifact = artifact("x");
            let file = folder.join("artifacts").join(artifact.digest().strip_prefix("sha256:").unwrap());
            let other = blob::seal(b"something else").unwrap();
            for content in [&b""[..], b"convoy1\n", b"garbage", &other] {
                store.put_artifact(&artifact).await.unwrap();
                std::fs::write(&file, content).unwrap();
                let error = store.artifact(artifact.digest(), "r").await.unwrap_err();
                assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
                assert_eq!(store.artifact(artifact.digest(), "r").await.unwrap(), None);
            }
            store.put_artifact(&artifact).await.unwrap();
            assert!(store.artifact(artifact.digest(), "r").await.unwrap().is_some());
        }
    }

    #[tokio::test]
    async fn names_that_are_no_digests_never_reach_the_backend() {
        let store = RenderStore::in_memory();
        for digest in ["../../etc/passwd", "sha256:../x", ""] {
            assert!(matches!(store.bundle(digest).await, Err(StoreError::NotADigest { .. })));
            assert!(matches!(store.render(digest).await, Err(StoreError::NotADigest { .. })));
        }
    }

    #[test]
    fn urls_that_are_no_stores_are_refused_by_name() {
        let open = |url: &str| RenderStore::open(url, &S3Options::default());
        for url in
            ["", "store", "file://relative", "ftp://x/y", "memory://x", "s3://", "s3://Bucket/x", "s3:///x"]
        {
            assert!(matches!(open(url), Err(OpenStoreError::Url { .. })), "{url}");
            assert!(RenderStore::check_url(url).is_err(), "{url}");
        }
        assert_eq!(
            open("gs://bucket/prefix").unwrap_err().to_string(),
            "render stores of the sort gs:// are not supported yet: use file:///folder, s3://bucket/prefix or memory://"
        );
        assert!(matches!(open("file:///proc/nope"), Err(OpenStoreError::Folder { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_is_readable_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("store");
        RenderStore::in_folder(&folder).unwrap();
        assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
