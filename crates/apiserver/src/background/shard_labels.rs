use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use convoy_api::{GROUP, VERSION};
use convoy_meta::{ListOptions, Status};
use convoy_registry::{Registry, Resource};
use convoy_runtime::Clock;
use convoy_storage::watch_cache::Entry;

use crate::kinds::shard_label;
use crate::metrics::Metrics;

/// How often all labels are looked at. The API server of another `--shards` that still runs during a
/// rolling restart may write its own idea of a label; once it is gone, the next look puts that right.
const PERIOD: Duration = Duration::from_secs(60);
/// Objects that are written between two pauses, and how long a pause is: at most 640 writes a second.
const BURST: usize = 32;
const PAUSE: Duration = Duration::from_millis(50);

const REPAIRS: &str = "convoy_shard_label_repairs_total";
const FAILURES: &str = "convoy_shard_label_repair_failures_total";

#[derive(Debug)]
struct Counted {
    plural: &'static str,
    repairs: Arc<AtomicU64>,
    failures: Arc<AtomicU64>,
}

/// Gives objects the label of their shard that do not have it: they were stored by an earlier version or
/// with another `--shards`. Until then a shard-scoped cache does not see them.
#[derive(Debug)]
pub struct ShardLabels {
    registry: Arc<Registry>,
    shards: NonZeroU32,
    clock: Arc<dyn Clock>,
    kinds: Vec<Counted>,
}

impl ShardLabels {
    /// For the kinds of `registry`; what is done is counted in `metrics`.
    pub fn new(
        registry: Arc<Registry>,
        shards: NonZeroU32,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Self {
        let counted = |plural: &'static str| {
            let labels = format!("resource=\"{plural}\"");
            let repairs =
                "Objects whose shard label was missing or of another number of shards, and was put right.";
            let failures = "Objects whose shard label could not be put right; tried again within a minute.";
            Counted {
                plural,
                repairs: metrics.counter(REPAIRS, repairs, &labels),
                failures: metrics.counter(FAILURES, failures, &labels),
            }
        };
        let kinds = convoy_api::kinds().iter().map(|info| counted(info.plural)).collect();
        Self { registry, shards, clock, kinds }
    }

    /// Looks at all labels now and every minute, for ever.
    pub async fn run(self: Arc<Self>) {
        loop {
            if let Err(status) = Box::pin(self.pass()).await {
                tracing::warn!(%status, "shard labels could not be looked at; trying again");
            }
            self.clock.sleep(PERIOD).await;
        }
    }

    /// Looks at all labels once, and answers how many were put right.
    ///
    /// # Errors
    /// When objects cannot be listed. What cannot be written is counted and met again in the next pass.
    pub async fn pass(&self) -> Result<usize, Status> {
        let mut repaired = 0;
        for kind in &self.kinds {
            let Some(resource) = self.registry.table().find(GROUP, VERSION, kind.plural) else { continue };
            let list = self.registry.list(&resource, None, &ListOptions::default()).await?;
            let is_wrong = |entry: &&Arc<Entry>| !shard_label::is_right(&resource.kind, self.shards, entry);
            let wrong: Vec<_> = list.entries.iter().filter(is_wrong).collect();
            for (burst, entries) in wrong.chunks(BURST).enumerate() {
                if burst > 0 {
                    self.clock.sleep(PAUSE).await;
                }
                let writes = entries.iter().map(|entry| self.repair(&resource, kind, entry));
                let done = futures::future::join_all(writes).await;
                repaired += done.into_iter().filter(|done| *done).count();
            }
            if !wrong.is_empty() {
                tracing::info!(resource = kind.plural, objects = wrong.len(), "put shard labels right");
            }
        }
        Ok(repaired)
    }

    async fn repair(&self, resource: &Resource, kind: &Counted, entry: &Entry) -> bool {
        let label = |object: &mut serde_json::Value| shard_label::set(&resource.kind, self.shards, object);
        match self.registry.repair(entry, label).await {
            // False: somebody else wrote it, and with that its label.
            Ok(done) => {
                kind.repairs.fetch_add(u64::from(done), Ordering::Relaxed);
                done
            }
            Err(status) => {
                tracing::debug!(%status, key = %entry.key(), "a shard label could not be put right");
                kind.failures.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }
}
