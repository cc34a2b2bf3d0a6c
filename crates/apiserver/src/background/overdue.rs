use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use convoy_api::{Condition, GROUP, Release, VERSION};
use convoy_meta::{GetOptions, ListOptions, Reason, Status, time};
use convoy_registry::{Registry, RequestContext, Resource, watch_status};
use convoy_runtime::Clock;
use convoy_storage::watch_cache::{Delivery, DeliveryKind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Look, Looker, Looks, USER};
use crate::metrics::Metrics;

/// Releases that are written at once.
const BATCH: usize = 32;
/// How long to wait after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// How long to sleep at most: the wall clock may jump, and a process that hung finds out by waking late.
const NAP: Duration = Duration::from_secs(5);
/// Who wakes later than this hung, and others could not reach it.
const LATE: Duration = Duration::from_secs(5);

/// Sets to Unknown what replicas of one kind said of Releases that none of them has looked at for longer than the
/// interval and the time of a takeover: with no live replica, nobody else would take the word back.
#[derive(Debug)]
pub struct OverdueLooks {
    by: Looker,
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    marked: Arc<AtomicU64>,
}

impl OverdueLooks {
    /// For the Releases of `registry`; what is done is counted in `metrics`.
    pub fn new(by: Looker, registry: Arc<Registry>, clock: Arc<dyn Clock>, metrics: &Metrics) -> Self {
        let (name, help) = match by {
            Looker::ControllerManager => (
                "convoy_releases_without_controller_total",
                "Releases set to Ready=Unknown because no controller-manager looked at them.",
            ),
            Looker::Observer => (
                "convoy_releases_without_observer_total",
                "Releases set to Healthy=Unknown and Drifted=Unknown because no observer looked at them.",
            ),
        };
        let marked = metrics.counter(name, help, "");
        Self { by, registry, clock, marked }
    }

    /// Runs for ever.
    pub async fn run(self: Arc<Self>) {
        let mut looks = Looks::new(self.clock.now());
        loop {
            let status = Box::pin(self.watch(&mut looks)).await;
            tracing::debug!(%status, "the watch of Releases starts anew");
            self.clock.sleep(RETRY).await;
        }
    }

    /// Follows the Releases until the watch ends, and says why it did.
    async fn watch(&self, looks: &mut Looks) -> Status {
        let Some(releases) = self.registry.table().find(GROUP, VERSION, Release::PLURAL) else {
            return Status::unknown_resource();
        };
        let mut watcher = match self.registry.watch(&releases, None, &ListOptions::default()).await {
            Ok(watcher) => watcher,
            Err(status) => return status,
        };
        loop {
            let now = self.clock.now();
            let wait = looks
                .next_due()
                .map_or(NAP, |due| Duration::try_from(due.duration_since(now)).unwrap_or_default().min(NAP));
            let deadline = self.clock.monotonic().saturating_add(wait);
            tokio::select! {
                // Changes first: what is heard of now need not be judged by what was known before.
                biased;
                seen = watcher.next() => match seen {
                    Ok(deliveries) => self.observe(looks, &deliveries),
                    Err(error) => return watch_status(&error),
                },
                () = self.clock.sleep_until(deadline) => {}
            }
            let now = self.clock.now();
            if self.clock.monotonic().saturating_sub(deadline) > LATE {
                looks.was_away(now);
            }
            let due = looks.take_due(now, BATCH);
            let marks = due.iter().map(|key| self.mark(&releases, looks, key, now));
            let done = futures::future::join_all(marks).await;
            for (key, done) in due.iter().zip(done) {
                if let Err(status) = done {
                    tracing::debug!(%status, %key, by = self.by.name(), "an overdue Release could not be marked");
                    looks.again(key, now.saturating_add(RETRY).unwrap_or(now));
                }
            }
        }
    }

    fn observe(&self, looks: &mut Looks, deliveries: &[Delivery]) {
        let now = self.clock.now();
        for delivery in deliveries {
            let Some(entry) = delivery.entry() else { continue };
            let look = match delivery.kind() {
                DeliveryKind::Deleted => None,
                _ => Look::read(entry.json(), self.by),
            };
            looks.observe(entry.key(), look.as_ref(), now);
        }
    }

    /// Writes that nobody looks at a Release, if it still is so.
    async fn mark(
        &self,
        releases: &Resource,
        looks: &Looks,
        key: &Arc<str>,
        now: Timestamp,
    ) -> Result<(), Status> {
        let mut parts = key.rsplit('/');
        let (name, namespace) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let entry = match self.registry.get(releases, namespace, name, &GetOptions::default()).await {
            Ok(entry) => entry,
            Err(status) if status.reason() == Reason::NotFound => return Ok(()),
            Err(status) => return Err(status),
        };
        let Some(look) = Look::read(entry.json(), self.by) else { return Ok(()) };
        // Somebody looked meanwhile: the event of that is on its way.
        if !look.is_vouched_for || !looks.is_known(key, &look) {
            return Ok(());
        }
        let mut release = entry.to_value();
        take_back(&mut release, self.by, &look.overdue(now), now);
        let context = RequestContext::internal(USER, now);
        // With the resourceVersion that was read.
        let write = self.registry.update(&context, releases, namespace, name, "status", release.into());
        match Box::pin(write).await {
            Ok(_) => {
                self.marked.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(release = %format!("{namespace}/{name}"), replica = look.replica, by = self.by.name(), "nobody looks at it");
                Ok(())
            }
            Err(status) if [Reason::Conflict, Reason::NotFound].contains(&status.reason()) => Ok(()),
            Err(status) => Err(status),
        }
    }
}

/// Sets what was said to Unknown, and leaves all else as it is.
fn take_back(release: &mut Value, by: Looker, message: &str, now: Timestamp) {
    let conditions = release.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for said in conditions.into_iter().flatten() {
        let Ok(condition) = serde_json::from_value::<Condition>(said.clone()) else { continue };
        let Value::Object(fields) = said else { continue };
        if !by.is_word(&condition) {
            continue;
        }
        let Condition { type_, status, reason, .. } = condition;
        fields.insert("status".to_owned(), json!("Unknown"));
        fields.insert("reason".to_owned(), json!(by.reason()));
        fields.insert("message".to_owned(), json!(format!("{message}; {type_} was {status} ({reason})")));
        fields.insert("lastTransitionTime".to_owned(), json!(time::format(now)));
    }
}
