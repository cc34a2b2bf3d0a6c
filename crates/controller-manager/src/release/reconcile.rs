//! One look at one Release.

use std::sync::Arc;
use std::time::Duration;

use convoy_api::{
    ArtifactStatus, ConditionStatus, Release, ReleaseStatus, annotation, condition_status, condition_type,
    finalizer, find_condition, reason,
};
use convoy_apply::PruneNote;
use convoy_plan::Reapply;
use convoy_runtime::{Next, StoreKey};

use super::Releases;
use super::decide::{DriftAction, HealthGate, Hold, health_gate};
use super::delete::Deletion;
use super::deliver::{Delivered, Delivery};
use super::prepare::PrepareError;
use super::status::{self, BundleFacts, Reached, Writer};
use crate::host::{EventKind, HostError, in_words};
use crate::targets::Connected;

/// How often a Release that waits for something without an event of its own is looked at.
const WAIT: Duration = Duration::from_secs(30);

/// What the spec names, found.
struct Resolved {
    connected: Connected,
    artifact: ArtifactStatus,
}

impl Releases {
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let Some(release) = self.releases.get(&key) else {
            self.forget(&key);
            return Next::Done;
        };
        let looked = if release.metadata.deletion_timestamp.is_some() {
            self.look_at_deleted(&key, &release).await
        } else {
            self.look_at(&key, &release).await
        };
        match looked {
            Ok(next) => next,
            // Someone else wrote: the event of that brings the next look.
            Err(error) if error.is_stale() => Next::Wait(Duration::from_secs(1)),
            Err(error) => {
                tracing::warn!(release = %key, error = in_words(&error), "cannot write to the API server");
                Next::Retry
            }
        }
    }

    async fn look_at_deleted(&self, key: &StoreKey, release: &Release) -> Result<Next, HostError> {
        let uid = release.metadata.uid.clone().unwrap_or_default();
        let memory = self.recall(key, &uid);
        let attempt = format!("delete {}", release.metadata.generation.unwrap_or_default());
        let now = self.clock.monotonic();
        if let Some(wait) = memory.hold.as_ref().and_then(|hold| hold.remaining(&attempt, now)) {
            return Ok(Next::Wait(wait));
        }
        match self.delete(key, release).await? {
            Deletion::Done => {
                self.forget(key);
                Ok(Next::Done)
            }
            Deletion::Blocked { reason, message, .. } => {
                let reached = Reached::Deleting { reason, message };
                self.write_status(key, release, &reached).await?;
                let hold = Hold::after(memory.hold.as_ref(), &attempt, &[], now);
                let wait = hold.until.saturating_sub(now);
                self.remember(key, &uid, |memory| memory.hold = Some(hold));
                Ok(Next::Wait(wait))
            }
        }
    }

    async fn look_at(&self, key: &StoreKey, release: &Release) -> Result<Next, HostError> {
        if release.spec.is_suspended() {
            let message = "spec.suspend is true; what is on the target stays".to_owned();
            self.write_status(key, release, &Reached::Suspended { message }).await?;
            return Ok(Next::Done);
        }
        let finalizers = release.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|name| name == finalizer::RELEASE) {
            let version = release.metadata.resource_version.as_deref().unwrap_or_default();
            let all: Vec<String> = finalizers.into_iter().chain([finalizer::RELEASE.to_owned()]).collect();
            self.host.set_finalizers::<Release>(key, version, &all).await?;
            // The write brings an event, and with it the next look.
            return Ok(Next::Done);
        }
        let resolved = match self.resolve(key, release) {
            Ok(resolved) => resolved,
            Err(stopped) => {
                let (reached, next) = *stopped;
                self.write_status(key, release, &reached).await?;
                return Ok(next);
            }
        };
        self.advance(key, release, resolved).await
    }

    /// Finds what the spec names; or says what is missing and when to look again.
    fn resolve(&self, key: &StoreKey, release: &Release) -> Result<Resolved, Box<(Reached, Next)>> {
        let stop = |reason: &'static str, message: String| {
            Box::new((Reached::Resolved { reason, message, is_terminal: false }, Next::Done))
        };
        let cluster_key = StoreKey::new(key.namespace.as_str(), release.spec.cluster_ref.name.as_str());
        let Some(cluster) = self.clusters.get(&cluster_key) else {
            let message =
                format!("there is no Cluster {cluster_key}, which spec.clusterRef names; create it");
            return Err(stop(reason::DEPENDENCY_NOT_FOUND, message));
        };
        let Some(git) = &release.spec.source.git else {
            let message = "spec.source names no source; set spec.source.git".to_owned();
            let reached = Reached::Resolved { reason: reason::INVALID_SPEC, message, is_terminal: true };
            return Err(Box::new((reached, Next::Done)));
        };
        let repository_key = StoreKey::new(key.namespace.as_str(), git.repository_ref.name.as_str());
        let Some(repository) = self.repositories.get(&repository_key) else {
            let message = format!(
                "there is no GitRepository {repository_key}, which spec.source.git.repositoryRef names; create it"
            );
            return Err(stop(reason::DEPENDENCY_NOT_FOUND, message));
        };
        let Some(artifact) = repository.status.as_ref().and_then(|status| status.artifact.clone()) else {
            let conditions =
                repository.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
            let said = find_condition(conditions, condition_type::READY)
                .map_or("it was not fetched yet", |ready| ready.message.as_str());
            let message = format!("the GitRepository {repository_key} has no artifact: {said}");
            return Err(stop(reason::DEPENDENCY_NOT_READY, message));
        };
        let Some(connected) = self.targets.get(&cluster_key) else {
            if cluster.spec.suspend == Some(true) {
                let message = format!("the Cluster {cluster_key} is suspended; what is on it stays");
                return Err(Box::new((Reached::Suspended { message }, Next::Done)));
            }
            let conditions = cluster.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
            let ready =
                find_condition(conditions, condition_type::READY).filter(|ready| ready.status != "True");
            let (reason, said) = match ready {
                Some(ready) if ready.reason == reason::KUBECONFIG_REFUSED => {
                    (reason::DEPENDENCY_NOT_READY, ready.message.as_str())
                }
                Some(ready) if ready.reason == reason::CLUSTER_UNREACHABLE => {
                    (reason::CLUSTER_UNREACHABLE, ready.message.as_str())
                }
                Some(ready) => (reason::DEPENDENCY_NOT_READY, ready.message.as_str()),
                None => (reason::DEPENDENCY_NOT_READY, "it was not looked at yet"),
            };
            return Err(stop(reason, format!("the Cluster {cluster_key} is not in contact: {said}")));
        };
        Ok(Resolved { connected, artifact })
    }

    /// Renders, and delivers when there is something to deliver.
    async fn advance(
        &self,
        key: &StoreKey,
        release: &Release,
        resolved: Resolved,
    ) -> Result<Next, HostError> {
        let revision = resolved.artifact.revision.clone();
        let bundle = match self.prepare(release, &resolved.artifact, &resolved.connected.capabilities).await {
            Ok(bundle) => bundle,
            Err(PrepareError::Render { reason, message }) => {
                let reached = Reached::Rendered { revision, reason, message, is_terminal: true };
                self.write_status(key, release, &reached).await?;
                return Ok(Next::After(release.spec.interval().as_std()));
            }
            Err(PrepareError::Missing { reason, message }) => {
                let reached = Reached::Rendered { revision, reason, message, is_terminal: false };
                self.write_status(key, release, &reached).await?;
                return Ok(Next::Wait(WAIT));
            }
            Err(PrepareError::Failed { message }) => {
                let reached =
                    Reached::Rendered { revision, reason: reason::STORE_FAILED, message, is_terminal: false };
                self.write_status(key, release, &reached).await?;
                return Ok(Next::Retry);
            }
        };
        let uid = release.metadata.uid.clone().unwrap_or_default();
        let memory = self.recall(key, &uid);
        let now = self.clock.monotonic();
        let asked = reconcile_at(release).unwrap_or_default();
        let attempt =
            format!("{} {} {asked}", release.metadata.generation.unwrap_or_default(), bundle.digest);
        if let Some(wait) = memory.hold.as_ref().and_then(|hold| hold.remaining(&attempt, now)) {
            return Ok(Next::Wait(wait));
        }
        let current = status::merged(&release.status.clone().unwrap_or_default(), memory.status.as_ref());
        let mut drift = memory.drift;
        let drift_action = drift.decide(&release.spec, &current, now);
        self.remember(key, &uid, |memory| memory.drift = drift);
        let reapply = if drift_action == DriftAction::Correct { Reapply::All } else { Reapply::None };
        let cluster = StoreKey::new(key.namespace.as_str(), release.spec.cluster_ref.name.as_str());
        let delivery =
            Delivery { release, cluster: &cluster, connected: resolved.connected, bundle: &bundle, reapply };
        let delivered = self.deliver(delivery).await?;
        let facts = |objects: usize, inventories: Vec<String>, is_fresh: bool| BundleFacts {
            revision: revision.clone(),
            digest: bundle.digest.clone(),
            notes: bundle.notes.clone(),
            objects,
            inventories,
            is_fresh,
        };
        let (facts, message) = match delivered {
            Delivered::Failed { objects, inventories, failure } => {
                let reached = Reached::Planned {
                    bundle: facts(objects, inventories, false),
                    reason: failure.reason,
                    message: failure.message,
                    is_terminal: failure.is_terminal,
                };
                let hold = Hold::after(memory.hold.as_ref(), &attempt, &failure.failures, now);
                let wait = hold.until.saturating_sub(now);
                self.remember(key, &uid, |memory| memory.hold = Some(hold));
                if failure.failures.iter().any(|failure| failure.error.class.concerns_the_whole_target()) {
                    self.cluster_queue.add(cluster);
                }
                self.write_status(key, release, &reached).await?;
                return Ok(Next::Wait(wait));
            }
            Delivered::Unchanged { objects, inventories } => {
                let said = find_condition(&current.conditions, condition_type::APPLIED)
                    .filter(|applied| applied.status == ConditionStatus::True.as_str())
                    .map(|applied| applied.message.clone());
                (
                    facts(objects, inventories, false),
                    said.unwrap_or_else(|| "all objects are on the target".to_owned()),
                )
            }
            Delivered::Applied { objects, inventories, counts, notes } => {
                if drift_action == DriftAction::Correct {
                    drift.corrected(now);
                    self.remember(key, &uid, |memory| memory.drift = drift);
                }
                let mut message = counts.to_string();
                if !notes.is_empty() {
                    message = format!("{message}; {}", PruneNote::in_words(&notes, 5));
                }
                for warning in &bundle.warnings {
                    message = format!("{message}; {warning}");
                }
                tracing::info!(release = %key, revision, "applied: {counts}");
                (facts(objects, inventories, true), message)
            }
        };
        self.remember(key, &uid, |memory| memory.hold = None);
        if let Some(blocked) = self.clear_left_clusters(key, release).await? {
            let reached = Reached::Planned {
                bundle: facts,
                reason: reason::PRUNE_FAILED,
                message: blocked,
                is_terminal: false,
            };
            self.write_status(key, release, &reached).await?;
            return Ok(Next::Wait(WAIT));
        }
        let gate = self.gate(release, &current, &facts);
        let next = match (&gate, drift_action) {
            (HealthGate::Waiting { remaining, .. }, _) => Next::After(*remaining),
            (_, DriftAction::Wait(wait)) => Next::After(wait),
            _ => Next::After(release.spec.interval().as_std()),
        };
        self.write_status(key, release, &Reached::Applied { bundle: facts, gate, message }).await?;
        Ok(next)
    }

    fn gate(&self, release: &Release, current: &ReleaseStatus, facts: &BundleFacts) -> HealthGate {
        let now = self.clock.now();
        let is_known = current.bundle_digest.as_deref() == Some(&facts.digest) && !facts.is_fresh;
        let applied = current.last_applied_time.as_ref().filter(|_| is_known).map_or(now, |time| time.0);
        let had_succeeded = status::has_succeeded(current, &facts.digest);
        health_gate(&release.spec, current, &facts.digest, facts.objects, applied, had_succeeded, now)
    }

    /// Removes what the Release has on clusters that it left. Answers with what is in the way.
    async fn clear_left_clusters(
        &self,
        key: &StoreKey,
        release: &Release,
    ) -> Result<Option<String>, HostError> {
        for cluster in self.other_clusters(release, &release.spec.cluster_ref.name) {
            if let Some(Deletion::Blocked { message, .. }) = self.clear(key, release, &cluster).await? {
                return Ok(Some(format!("on the Cluster {cluster}, which the Release left: {message}")));
            }
        }
        Ok(None)
    }

    /// Writes the status when it says something new, and an event when people should know.
    async fn write_status(
        &self,
        key: &StoreKey,
        release: &Release,
        reached: &Reached,
    ) -> Result<(), HostError> {
        let uid = release.metadata.uid.clone().unwrap_or_default();
        let stored = release.status.clone().unwrap_or_default();
        let old = status::merged(&stored, self.recall(key, &uid).status.as_ref());
        let shard = self.shards.shard_of(&key.namespace, &release.spec.cluster_ref.name);
        let writer = Writer { replica: self.host.replica().to_owned(), shard };
        let now = self.clock.now();
        let new = status::next(release, &old, reached, &writer, now);
        let fields = status::owned(&new);
        if fields == status::owned(&old) {
            return Ok(());
        }
        self.host.apply_status::<Release>(key, &uid, &fields).await?;
        self.remember(key, &uid, |memory| memory.status = Some(new.clone()));
        if let Some((kind, reason, message)) = event(&old, &new) {
            match kind {
                EventKind::Normal => tracing::info!(release = %key, "{reason}: {message}"),
                EventKind::Warning => tracing::warn!(release = %key, "{reason}: {message}"),
            }
            self.host.event(release, kind, &reason, &message, now).await;
        }
        Ok(())
    }
}

fn reconcile_at(release: &Release) -> Option<String> {
    release.metadata.annotations.as_ref()?.get(annotation::RECONCILE_AT).cloned()
}

/// The event that a change of status is worth: when Ready changes its mind or its reason, or another
/// revision is on the target.
fn event(old: &ReleaseStatus, new: &ReleaseStatus) -> Option<(EventKind, String, String)> {
    let ready = find_condition(&new.conditions, condition_type::READY)?;
    let before = find_condition(&old.conditions, condition_type::READY);
    let is_same = before.is_some_and(|before| before.status == ready.status && before.reason == ready.reason);
    if is_same && old.source_revision == new.source_revision {
        return None;
    }
    let is_waiting = ready.reason == reason::WAITING_FOR_HEALTH || ready.reason == reason::SUSPENDED;
    let kind = match condition_status(&new.conditions, condition_type::READY) {
        ConditionStatus::True => EventKind::Normal,
        _ if is_waiting => EventKind::Normal,
        ConditionStatus::False | ConditionStatus::Unknown => EventKind::Warning,
    };
    Some((kind, ready.reason.clone(), ready.message.clone()))
}
