//! Garbage collection of the render store: by one replica, the holder of shard 0, on what the API server says.
//!
//! | module | what it does |
//! |---|---|
//! | `references` | lists what is referenced |
//! | `consent` | whether these references may be acted on; pure |
//!
//! Nobody's cache holds all Releases, and none is as new as what is deleted must be judged by: all is listed anew, in
//! pages of one consistent snapshot.

mod consent;
mod references;

use std::sync::Arc;
use std::time::Duration;

use convoy_apply::Ownership;
use convoy_render::{Collected, RenderStore, StoreError};
use convoy_runtime::{Clock, Metrics, Shutdown};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use self::consent::{Consent, Note, consent};
use self::references::{ListError, Listed, list};
use crate::duties::Duties;
use crate::host::{Host, in_words};

/// Whose holder collects.
const SHARD: u32 = 0;
/// When the first collection of a term begins, at the latest: until then Releases are looked at, and what a
/// predecessor asked of the store has arrived.
const FIRST: Duration = Duration::from_secs(300);

/// When the render store is collected, and what: `--render-store-gc-interval` and `--render-store-gc-grace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCollection {
    /// Between two collections.
    pub interval: Duration,
    /// How long what is not referenced stays where it is, and then aside.
    pub grace: Duration,
}

impl StoreCollection {
    /// The shortest grace: a look at a Release, from the choice of its bundle to the status that names it, takes much
    /// less.
    pub const SHORTEST_GRACE: Duration = Duration::from_secs(3600);
}

impl Default for StoreCollection {
    fn default() -> Self {
        Self { interval: Duration::from_secs(3600), grace: Duration::from_secs(24 * 3600) }
    }
}

/// Why a collection did not take place.
#[derive(Debug, thiserror::Error)]
enum CollectError {
    #[error(transparent)]
    List(#[from] ListError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

const OUTCOMES: [&str; 4] = ["done", "partial", "held", "failed"];

/// The metrics of collections.
#[derive(Clone, Default)]
struct Counts {
    collections: Family<Outcome, Counter>,
    deleted: Counter,
    deleted_bytes: Counter,
}

impl Counts {
    fn new(metrics: &Metrics) -> Self {
        let counts = Self::default();
        for outcome in OUTCOMES {
            drop(counts.collections.get_or_create(&Outcome { outcome }));
        }
        metrics.register(|registry| {
            registry.register(
                "convoy_render_store_collections",
                "Garbage collections of the render store by this replica, by what they came to",
                counts.collections.clone(),
            );
            registry.register(
                "convoy_render_store_deleted_objects",
                "Objects of the render store that garbage collections of this replica deleted",
                counts.deleted.clone(),
            );
            registry.register(
                "convoy_render_store_deleted_bytes",
                "Bytes of objects that garbage collections of this replica deleted",
                counts.deleted_bytes.clone(),
            );
        });
        counts
    }

    fn add(&self, outcome: &'static str) {
        self.collections.get_or_create(&Outcome { outcome }).inc();
    }
}

/// What collects.
pub(crate) struct Collector {
    pub(crate) host: Host,
    pub(crate) duties: Duties,
    pub(crate) store: RenderStore,
    pub(crate) clock: Arc<dyn Clock>,
    settings: StoreCollection,
    counts: Counts,
}

impl Collector {
    pub(crate) fn new(
        host: Host,
        duties: Duties,
        store: RenderStore,
        clock: Arc<dyn Clock>,
        settings: StoreCollection,
        metrics: &Metrics,
    ) -> Self {
        Self { host, duties, store, clock, settings, counts: Counts::new(metrics) }
    }

    /// Collects once in each interval while this replica holds the shard, until shutdown.
    pub(crate) async fn run(self, shutdown: Shutdown) {
        let mut seen = None;
        loop {
            let ownership = self.duties.begin(SHARD).ok();
            let term = ownership.as_ref().map(|ownership| ownership.epoch());
            let is_known = term.is_some() && term == seen;
            seen = term;
            let wait = if is_known { self.settings.interval } else { self.settings.interval.min(FIRST) };
            let work = async {
                if let Some(ownership) = ownership.filter(|_| is_known) {
                    tokio::select! {
                        () = ownership.lost() => {}
                        () = self.collect(&*ownership) => {}
                    }
                }
                self.clock.sleep(wait).await;
            };
            tokio::select! {
                () = shutdown.wait() => return,
                () = work => {}
            }
        }
    }

    async fn collect(&self, ownership: &dyn Ownership) {
        match self.try_to_collect(ownership).await {
            Ok(Ok(collected)) => {
                self.counts.add(if collected.is_partial { "partial" } else { "done" });
                self.counts.deleted.inc_by(collected.deleted as u64);
                self.counts.deleted_bytes.inc_by(collected.deleted_bytes);
                tracing::debug!(?collected, "collected garbage in the render store");
            }
            Ok(Err(held)) => {
                self.counts.add("held");
                tracing::warn!("nothing is collected in the render store: {held}");
            }
            Err(error) => {
                self.counts.add("failed");
                tracing::warn!("cannot collect garbage in the render store: {}", in_words(&error));
            }
        }
    }

    /// Answers with what was collected, or why nothing may be.
    async fn try_to_collect(
        &self,
        ownership: &dyn Ownership,
    ) -> Result<Result<Collected, String>, CollectError> {
        let began = self.clock.monotonic();
        let grace = self.settings.grace;
        let Listed { references, seen } = list(&self.host).await?;
        let before = self.store.collection_note().await?.map(|note| serde_json::from_slice::<Note>(&note));
        let before = match before {
            Some(Err(error)) => {
                return Ok(Err(format!(
                    "the file \"collection\" in it cannot be read ({error}); if no other convoy uses the store, delete it"
                )));
            }
            Some(Ok(note)) => Some(note),
            None => None,
        };
        let (consent, note) = consent(before.as_ref(), &seen, self.store.now().await?, grace);
        if before.as_ref() != Some(&note) {
            self.store.put_collection_note(serde_json::to_vec(&note).unwrap_or_default()).await?;
        }
        if let Consent::Held { why } = consent {
            return Ok(Err(why));
        }
        let may_go_on =
            || ownership.check().is_ok() && self.clock.monotonic().saturating_sub(began) < grace / 4;
        Ok(Ok(self.store.collect(references, grace, &may_go_on).await?))
    }
}
