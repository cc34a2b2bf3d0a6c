//! From a source to a bundle.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use convoy_api::{Artifact, ArtifactStatus, Entropy, Release, ReleaseRender, ValuesKind, reason};
use convoy_apply::{Capabilities, Ownership};
use convoy_plan::{Rendered, RenderedHook};
use convoy_render::{
    Bundle, Charts, Hook, RenderInput, RenderStore, SecretPlaces, Stop, StoreError, TargetFacts, ValuesText,
    render, render_key,
};
use convoy_runtime::traces::{TRACES, traced};
use convoy_runtime::{Clock, StoreKey};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, Semaphore};
use tracing::field::Empty;

use crate::recent::Recent;
use crate::scope::{name_of, namespace_of};
use crate::{HostReader, ReadError, in_words};

/// Bytes of bundles that are kept in memory; the render store has the rest.
const BUNDLES: usize = 16 << 20;
/// A bundle of more bytes is read on a thread that may block.
const LONG: usize = 128 << 10;
/// Bytes of artifacts that are kept in memory: many Releases are of one.
const ARTIFACTS: usize = 32 << 20;

/// How long an announcement of a bundle to the store is good for: much less than the shortest grace of a collection.
const ANNOUNCED_FOR: Duration = Duration::from_secs(60);
/// Announcements that are kept before those that are too old are let go of.
const ANNOUNCED: usize = 4096;

/// A bundle ready to be planned.
#[derive(Debug)]
pub struct Ready {
    /// Its digest, under which the render store has it.
    pub digest: String,
    /// Its objects, in order.
    pub objects: Vec<Rendered>,
    /// A chart's hooks.
    pub hooks: Vec<RenderedHook>,
    /// A chart's notes.
    pub notes: Option<String>,
    /// What is odd about it.
    pub warnings: Vec<String>,
    /// Where values stand that came from Secrets; none when no Secret had a say, or nobody wrote it down.
    pub secret_places: Option<SecretPlaces>,
}

/// An artifact and the folder in it: what a Release is rendered from, wherever that came from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The artifact.
    pub artifact: ArtifactStatus,
    /// Empty for the root.
    pub path: String,
}

/// Renderings at a time, with the artifacts that they read, at least: more than there are processors would only take memory.
const LEAST_RENDERINGS: usize = 4;

/// Prepares Releases. Bundles are kept in memory by all that they depend on, with what they were rendered from.
#[derive(Debug)]
pub struct Preparer {
    host: HostReader,
    store: RenderStore,
    clock: Arc<dyn Clock>,
    slots: Semaphore,
    ready: Mutex<Recent<Held>>,
    artifacts: Mutex<Recent<Artifact>>,
    charts: Arc<Charts>,
    /// The render store's secret for charts' random values.
    secret: OnceCell<Bytes>,
    /// When bundles were announced to the store, by their digests.
    announced: Mutex<HashMap<String, Duration>>,
}

/// A bundle in memory, in its canonical form: as parsed values it takes about six times as much, since an object of one
/// field has a node with room for eleven.
#[derive(Debug)]
struct Held {
    shard: u32,
    digest: String,
    bundle: Box<[u8]>,
}

impl Held {
    fn ready(&self) -> Option<Ready> {
        let bundle = Bundle::from_bytes(&self.bundle).ok()?;
        Some(Ready::of(self.digest.clone(), bundle))
    }
}

impl Preparer {
    /// Reads values from `host`, and keeps bundles in `store`.
    pub fn new(host: HostReader, store: RenderStore, clock: Arc<dyn Clock>) -> Self {
        Self {
            host,
            store,
            clock,
            slots: Semaphore::new(
                std::thread::available_parallelism().map_or(0, NonZeroUsize::get).max(LEAST_RENDERINGS),
            ),
            ready: Mutex::new(Recent::new(BUNDLES)),
            artifacts: Mutex::new(Recent::new(ARTIFACTS)),
            charts: Arc::new(Charts::new(CHART_BYTES)),
            secret: OnceCell::new(),
            announced: Mutex::default(),
        }
    }

    async fn get(&self, key: &str) -> Option<Arc<Ready>> {
        let held = self.ready.lock().get(key)?;
        let ready = if held.bundle.len() > LONG {
            tokio::task::spawn_blocking(move || held.ready()).await.ok()?
        } else {
            held.ready()
        };
        ready.map(Arc::new)
    }

    /// Lets go of the bundles of shards that are not worked on any more.
    pub fn retain_shards(&self, keep: impl Fn(u32) -> bool) {
        self.ready.lock().retain(|held| keep(held.shard));
    }

    fn put(&self, key: String, (digest, bundle): (&str, &Bundle), ownership: &dyn Ownership) {
        let held =
            Held { shard: ownership.shard(), digest: digest.to_owned(), bundle: bundle.to_bytes().into() };
        let weight = size_of::<Held>() + 2 * key.len() + held.digest.len() + held.bundle.len();
        let mut all = self.ready.lock();
        // After the shard was lost nobody would take it away again.
        if ownership.check().is_ok() {
            all.put(key, Arc::new(held), weight);
        }
    }

    /// The artifact of a digest and a revision, from memory or from the store.
    async fn artifact(&self, digest: &str, revision: &str) -> Result<Option<Arc<Artifact>>, StoreError> {
        let key = format!("{digest} {revision}");
        if let Some(artifact) = self.artifacts.lock().get(&key) {
            return Ok(Some(artifact));
        }
        let Some(artifact) = self.store.artifact(digest, revision).await?.map(Arc::new) else {
            return Ok(None);
        };
        let names: usize = artifact.files().keys().map(String::len).sum();
        let weight = names + usize::try_from(artifact.size()).unwrap_or(usize::MAX);
        self.artifacts.lock().put(key, Arc::clone(&artifact), weight);
        Ok(Some(artifact))
    }
}

/// Why there is no bundle.
#[derive(Debug)]
pub enum PrepareError {
    /// It does not render; only another revision or spec can mend it.
    Render {
        /// The condition's reason.
        reason: &'static str,
        /// In words.
        message: String,
    },
    /// Something it needs is not there (yet).
    Missing {
        /// The condition's reason.
        reason: &'static str,
        /// In words.
        message: String,
    },
    /// The host or the render store failed.
    Failed {
        /// In words.
        message: String,
    },
}

/// Bytes of the charts that stay loaded; parsed they take several times that.
const CHART_BYTES: usize = 8 << 20;
/// How long a render may take.
const RENDER_TIME: Duration = Duration::from_secs(30);

/// Where what is rendered is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    InStore,
    InMemory,
}

/// What a chart's random values are drawn from. The uid alone would not do: it stands as a label on every
/// object that is delivered. A Release that is made anew draws anew.
fn chart_seed(secret: &[u8], uid: &str) -> Vec<u8> {
    Sha256::new().chain_update(secret).chain_update(uid).finalize().to_vec()
}

/// What a render is salted with, and the time that it sees: the same each time, or `fresh`.
fn drawn_from(release: &Release, fresh: (Vec<u8>, jiff::Timestamp)) -> (Vec<u8>, jiff::Timestamp) {
    let render = release.spec.render.as_ref().and_then(|render| render.helm.as_ref());
    match render.and_then(|helm| helm.entropy).unwrap_or_default() {
        // What is rendered again later is to be what it was. One that is only tried out was not made yet.
        Entropy::Stable => {
            (Vec::new(), release.metadata.creation_timestamp.as_ref().map_or(fresh.1, |at| at.0))
        }
        Entropy::Fresh => fresh,
    }
}

impl From<ReadError> for PrepareError {
    fn from(error: ReadError) -> Self {
        PrepareError::Failed { message: in_words(&error) }
    }
}

impl Preparer {
    /// The bundle of a Release, from memory, from the render store, or rendered now. It stays in memory while
    /// `ownership` holds. `values` are those of [`Preparer::values`].
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub async fn prepare(
        &self,
        release: &Release,
        source: &Resolved,
        capabilities: &Capabilities,
        values: Vec<ValuesText>,
        ownership: &dyn Ownership,
    ) -> Result<Arc<Ready>, PrepareError> {
        self.rendered(release, (source, None), capabilities, values, (ownership, Keeping::InStore)).await
    }

    /// The same bundle for someone who only looks: nothing that is rendered now is put into the render store.
    /// `values` are those of [`Preparer::values`].
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub async fn look_at(
        &self,
        release: &Release,
        source: &Resolved,
        capabilities: &Capabilities,
        values: Vec<ValuesText>,
        ownership: &dyn Ownership,
    ) -> Result<Arc<Ready>, PrepareError> {
        self.rendered(release, (source, None), capabilities, values, (ownership, Keeping::InMemory)).await
    }

    /// The bundle that a Release would have if these files were its source's. They are put nowhere but in memory.
    /// `values` are those of [`Preparer::values`].
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub async fn look_at_files(
        &self,
        release: &Release,
        (files, path): (&Arc<Artifact>, &str),
        capabilities: &Capabilities,
        values: Vec<ValuesText>,
        ownership: &dyn Ownership,
    ) -> Result<Arc<Ready>, PrepareError> {
        let source = Resolved { artifact: files.status(), path: path.to_owned() };
        let keeping = (ownership, Keeping::InMemory);
        self.rendered(release, (&source, Some(files)), capabilities, values, keeping).await
    }

    async fn rendered(
        &self,
        release: &Release,
        (source, given): (&Resolved, Option<&Arc<Artifact>>),
        capabilities: &Capabilities,
        values: Vec<ValuesText>,
        (ownership, keeping): (&dyn Ownership, Keeping),
    ) -> Result<Arc<Ready>, PrepareError> {
        let artifact = &source.artifact;
        let mut memory_key = memory_key(release, source, capabilities, &values);
        if keeping == Keeping::InMemory {
            // What is in memory alone is not for someone who needs it in the store.
            memory_key.push_str(" looked at");
        }
        if let Some(ready) = self.get(&memory_key).await {
            return Ok(ready);
        }
        let span = tracing::info_span!(target: TRACES, "render", convoy.revision = artifact.revision, convoy.artifact = artifact.digest, convoy.rendered = Empty, otel.status_code = Empty);
        let keeping = (ownership, keeping, memory_key);
        let rendering = self.rendered_anew(release, (source, given), capabilities, values, keeping);
        traced(span, rendering, Result::is_err).await
    }

    /// Not from memory.
    async fn rendered_anew(
        &self,
        release: &Release,
        (source, given): (&Resolved, Option<&Arc<Artifact>>),
        capabilities: &Capabilities,
        values: Vec<ValuesText>,
        (ownership, keeping, memory_key): (&dyn Ownership, Keeping, String),
    ) -> Result<Arc<Ready>, PrepareError> {
        let artifact = &source.artifact;
        // It is never closed.
        let _slot = self.slots.acquire().await;
        let store_failed = |error: &dyn std::error::Error| PrepareError::Failed {
            message: format!("the render store fails: {}", in_words(error)),
        };
        let files = match given {
            Some(files) => Some(Arc::clone(files)),
            None => self
                .artifact(&artifact.digest, &artifact.revision)
                .await
                .map_err(|error| store_failed(&error))?,
        };
        let files = files.ok_or_else(|| PrepareError::Missing {
            reason: reason::DEPENDENCY_NOT_READY,
            message: format!(
                "the artifact {} is not in the render store; it is being fetched again",
                artifact.revision
            ),
        })?;
        let facts = TargetFacts {
            kubernetes_version: capabilities.version.clone(),
            api_versions: capabilities.api_versions.iter().cloned().collect(),
        };
        let (spec, name, namespace) = (release.spec.clone(), name_of(release), namespace_of(release));
        let path = source.path.clone();
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let secret = self.secret.get_or_try_init(|| self.store.seed(rand::random())).await;
        let secret = secret.map_err(|error| store_failed(&error))?;
        let seed = chart_seed(secret, uid);
        let fresh = (rand::random::<[u8; 32]>().to_vec(), self.clock.now());
        let (salt, now) = drawn_from(release, fresh);
        // A render that nobody waits for any more ends at once.
        let (until, clock) = (self.clock.monotonic() + RENDER_TIME, Arc::clone(&self.clock));
        let wanted = Arc::new(());
        let waiting = Arc::downgrade(&wanted);
        let stop = Stop::new(RENDER_TIME, move || waiting.strong_count() == 0 || clock.monotonic() >= until);
        // Rendering is work for the processor, not for the threads that answer requests.
        let (key, rendered, stored) = {
            let (store, charts) = (self.store.clone(), Arc::clone(&self.charts));
            let runtime = tokio::runtime::Handle::current();
            tokio::task::spawn_blocking(move || {
                let input = RenderInput {
                    artifact: &files,
                    path: &path,
                    render: spec.render.as_ref(),
                    values_from: &values,
                    release_name: &name,
                    namespace: &namespace,
                    target: &facts,
                    seed: &seed,
                    salt: &salt,
                    now,
                    charts: Some(&charts),
                    stop: Some(&stop),
                };
                let key = render_key(&input);
                match runtime.block_on(store.render(&key)) {
                    Ok(Some((digest, bundle))) => (key, Ok(bundle), Some(digest)),
                    // What the store lost or garbled is rendered again.
                    Ok(None) | Err(_) => {
                        let rendered = render(&input);
                        (key, rendered, None)
                    }
                }
            })
            .await
            .map_err(|_| PrepareError::Render {
                reason: reason::RENDER_FAILED,
                message: "rendering broke down; this is a defect of convoy".to_owned(),
            })?
        };
        drop(wanted);
        tracing::Span::current().record("convoy.rendered", stored.is_none());
        let bundle = rendered
            .map_err(|error| PrepareError::Render { reason: error.reason(), message: in_words(&error) })?;
        let digest = match (stored, keeping) {
            (Some(digest), _) => digest,
            (None, Keeping::InMemory) => bundle.digest(),
            (None, Keeping::InStore) => {
                let digest = self.store.put_bundle(&bundle).await.map_err(|error| store_failed(&error))?;
                self.store.put_render(&key, &digest).await.map_err(|error| store_failed(&error))?;
                digest
            }
        };
        self.put(memory_key, (&digest, &bundle), ownership);
        Ok(Arc::new(Ready::of(digest, bundle)))
    }

    /// A bundle that was delivered before, from memory or from the render store; none when it is not there any more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn kept_bundle(
        &self,
        digest: &str,
        ownership: &dyn Ownership,
    ) -> Result<Option<Arc<Ready>>, StoreError> {
        if let Some(ready) = self.get(digest).await {
            return Ok(Some(ready));
        }
        // It is never closed.
        let _slot = self.slots.acquire().await;
        let bundle = match self.store.bundle(digest).await {
            // It was removed, so that it is not there any more.
            Err(StoreError::Damaged { .. } | StoreError::NotADigest { .. }) => None,
            found => found?,
        };
        let Some(bundle) = bundle else { return Ok(None) };
        self.put(digest.to_owned(), (digest, &bundle), ownership);
        Ok(Some(Arc::new(Ready::of(digest.to_owned(), bundle))))
    }

    /// Tells the render store that a bundle is about to be named by a Release, before it is: until then a collection of
    /// garbage may take it. False when the store has lost it; then it is let go of here, too, and made anew by the next
    /// [`Preparer::prepare`].
    ///
    /// # Errors
    /// When the store fails.
    pub async fn announce(&self, digest: &str) -> Result<bool, StoreError> {
        let now = self.clock.monotonic();
        let is_recent = |at: &Duration| now.saturating_sub(*at) < ANNOUNCED_FOR;
        if self.announced.lock().get(digest).is_some_and(is_recent) {
            return Ok(true);
        }
        let is_there = self.store.touch_bundle(digest).await?;
        let mut announced = self.announced.lock();
        if is_there {
            if announced.len() >= ANNOUNCED {
                announced.retain(|_, at| is_recent(at));
            }
            announced.insert(digest.to_owned(), now);
        } else {
            self.ready.lock().retain(|held| held.digest != digest);
        }
        Ok(is_there)
    }

    /// The values that a Release takes from ConfigMaps and Secrets of its namespace.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub async fn values(&self, release: &Release) -> Result<Vec<ValuesText>, PrepareError> {
        let references = match &release.spec.render {
            Some(ReleaseRender { helm: Some(helm), .. }) => helm.values_from.as_slice(),
            _ => &[],
        };
        let namespace = release.metadata.namespace.clone().unwrap_or_default();
        let mut values = Vec::new();
        for reference in references {
            const DEFAULT_KEY: &str = "values.yaml";
            let key = reference.key.as_deref().unwrap_or(DEFAULT_KEY);
            let at = StoreKey::new(namespace.as_str(), reference.name.as_str());
            let (kind, data) = match reference.kind {
                ValuesKind::ConfigMap => ("ConfigMap", self.host.config_map(&at).await?),
                ValuesKind::Secret => ("Secret", self.host.secret(&at).await?),
            };
            let is_optional = reference.optional == Some(true);
            let missing = match &data {
                None => format!(
                    "there is no {kind} {at}, which spec.render.helm.valuesFrom names; create it, or set optional"
                ),
                Some(_) => format!(
                    "the {kind} {at} has no key {key:?}, which spec.render.helm.valuesFrom names; add it, or set optional"
                ),
            };
            match data.and_then(|mut data| data.remove(key)) {
                Some(text) => values.push(ValuesText {
                    from: format!("{kind} {at}, key {key}"),
                    text,
                    target_path: reference.target_path.clone(),
                    is_secret: reference.kind == ValuesKind::Secret,
                }),
                None if is_optional => {}
                None => {
                    return Err(PrepareError::Missing {
                        reason: reason::DEPENDENCY_NOT_FOUND,
                        message: missing,
                    });
                }
            }
        }
        Ok(values)
    }
}

impl Ready {
    fn of(digest: String, bundle: Bundle) -> Self {
        let Bundle { objects, hooks, notes, warnings, secret_places } = bundle;
        let objects = objects
            .into_iter()
            .map(|object| Rendered { source: object.source, object: object.object, early: object.early })
            .collect();
        let hooks = hooks_of(hooks);
        Self { digest, objects, hooks, notes, warnings, secret_places }
    }
}

/// The hooks of a bundle, for a plan.
pub fn hooks_of(hooks: Vec<Hook>) -> Vec<RenderedHook> {
    let hooks = hooks.into_iter();
    hooks
        .map(|Hook { source, events, weight, delete_policies, object }| RenderedHook {
            source,
            object,
            events,
            weight,
            delete_policies,
        })
        .collect()
}

fn memory_key(
    release: &Release,
    source: &Resolved,
    capabilities: &Capabilities,
    values: &[ValuesText],
) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    let spec = &release.spec;
    add(source.artifact.digest.as_bytes());
    // Errors name the revision.
    add(source.artifact.revision.as_bytes());
    add(source.path.as_bytes());
    add(&serde_json::to_vec(&spec.render).unwrap_or_default());
    add(name_of(release).as_bytes());
    add(namespace_of(release).as_bytes());
    add(release.metadata.uid.as_deref().unwrap_or_default().as_bytes());
    add(capabilities.version.as_bytes());
    add(capabilities.digest.as_bytes());
    for value in values {
        add(value.from.as_bytes());
        add(&value.text);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_render_draws_the_same_or_anew_as_the_spec_says() {
        let made = jiff::Timestamp::from_second(1_700_000_000).unwrap();
        let now = jiff::Timestamp::from_second(1_800_000_000).unwrap();
        let of = |helm: serde_json::Value| {
            let release: Release = serde_json::from_value(json!({
                "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release",
                "metadata": {"name": "web", "creationTimestamp": made.to_string()},
                "spec": {"clusterRef": {"name": "c"}, "source": {}, "render": {"helm": helm}},
            }))
            .unwrap();
            drawn_from(&release, (vec![7], now))
        };
        assert_eq!(of(json!({})), (Vec::new(), made));
        assert_eq!(of(json!({"entropy": "stable"})), (Vec::new(), made));
        assert_eq!(of(json!({"entropy": "fresh"})), (vec![7], now));
    }
}
