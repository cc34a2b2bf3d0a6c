//! One look at one Release.

use std::sync::Arc;
use std::time::Duration;

use convoy_api::{
    ConditionStatus, Release, ReleaseStatus, annotation, condition_status, condition_type, finalizer,
    find_condition, reason,
};
use convoy_apply::PruneNote;
use convoy_plan::Reapply;
use convoy_runtime::{EventKind, Next, StoreKey};

use super::decide::{DriftAction, HealthGate, Hold, health_gate};
use super::delete::Deletion;
use super::deliver::{Delivered, Delivery};
use super::left::{Cleared, Left};
use super::prepare::PrepareError;
use super::status::{self, BundleFacts, Reached};
use super::{Look, Releases};
use crate::duties::Duties;
use crate::host::{HostError, in_words};
use crate::sources::{self, Unresolved};
use crate::targets::Connected;

/// How often a Release that waits for something without an event of its own is looked at.
const WAIT: Duration = Duration::from_secs(30);

/// Between two looks at what is waited for.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// What the spec names, found.
struct Resolved {
    connected: Connected,
    source: sources::Resolved,
}

impl Releases {
    /// One look at the Release of a name: at what it is to be on the cluster that it names, when that is
    /// this replica's, and at what it has on clusters of this replica that it left.
    ///
    /// All ownership is taken here: what happens later in the look never begins in a later term.
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let release = self.releases.get(&key);
        let mut left = self.left(&key, release.as_deref());
        let begun = match &release {
            Some(release) => self.duties.begin(self.shard_of(release)),
            None => Err(Next::Done),
        };
        let (Some(release), Ok(ownership)) = (release, &begun) else {
            self.forget(&key);
            let cleared = self.clear_left(&key, &mut left).await;
            return match cleared {
                Ok(Cleared::All) => begun.err().unwrap_or(Next::Done),
                cleared => self.answer(&key, cleared.map(|_| Next::Wait(WAIT))),
            };
        };
        let look = Look { key: &key, release: &release, ownership };
        let work = async {
            let next = if release.metadata.deletion_timestamp.is_some() {
                return self.look_at_deleted(look, &left).await;
            } else {
                self.look_at(look, &mut left).await?
            };
            // Whatever became of it on its new cluster.
            Ok(match self.clear_left(&key, &mut left).await? {
                Cleared::All => next,
                Cleared::Waits | Cleared::Blocked(_) => at_the_latest(next, WAIT),
            })
        };
        tokio::select! {
            biased;
            () = ownership.lost() => Duties::given_up(),
            looked = work => self.answer(&key, looked),
        }
    }

    /// The shard of the cluster that a Release names.
    pub(crate) fn shard_of(&self, release: &Release) -> u32 {
        let namespace = release.metadata.namespace.clone().unwrap_or_default();
        self.duties.shard_of(&StoreKey::new(namespace, release.spec.cluster_ref.name.as_str()))
    }

    fn answer(&self, key: &StoreKey, looked: Result<Next, HostError>) -> Next {
        match looked {
            Ok(next) => next,
            // It is another replica's now: nothing failed.
            Err(error) if error.is_not_owner() => Duties::given_up(),
            // Someone else wrote: the event of that brings the next look.
            Err(error) if error.is_stale() => Next::Wait(Duration::from_secs(1)),
            Err(error) => {
                tracing::warn!(release = %key, error = in_words(&error), "cannot write to the API server");
                Next::Retry
            }
        }
    }

    async fn look_at_deleted(&self, look: Look<'_>, left: &[Left]) -> Result<Next, HostError> {
        self.refuse_later_status(look)?;
        let memory = self.recall(look);
        // What is in the way may be a target: that it comes or goes is a reason to try again.
        let named = StoreKey::new(look.key.namespace.as_str(), look.release.spec.cluster_ref.name.as_str());
        let attempt = format!(
            "delete {} {} {}",
            look.release.metadata.generation.unwrap_or_default(),
            self.clusters.get(&named).is_some(),
            self.target(&named, look.ownership).is_some(),
        );
        let now = self.clock.monotonic();
        if let Some(wait) = memory.hold.as_ref().and_then(|hold| hold.remaining(&attempt, now)) {
            return Ok(Next::Wait(wait));
        }
        match self.delete(look, left).await? {
            Deletion::Done => {
                self.forget(look.key);
                Ok(Next::Done)
            }
            Deletion::Waits { message, wait } => {
                self.write_status(look, &Reached::Deleting { reason: reason::DELETING, message }).await?;
                Ok(Next::Wait(wait.max(SHORTEST_WAIT)))
            }
            Deletion::Blocked { reason, message } => {
                self.write_status(look, &Reached::Deleting { reason, message }).await?;
                let hold = Hold::after(memory.hold.as_ref(), &attempt, &[], now);
                let wait = hold.until.saturating_sub(now);
                self.remember(look, |memory| memory.hold = Some(hold));
                Ok(Next::Wait(wait))
            }
        }
    }

    /// Gives up when the status was written in a later term of the shard than the one the look began in.
    fn refuse_later_status(&self, look: Look<'_>) -> Result<(), HostError> {
        let writer = look.release.status.as_ref().and_then(|status| status.controller.as_ref());
        match writer {
            Some(by) if self.duties.is_outdated(&**look.ownership, (by.shard, by.epoch)) => {
                Err(HostError::not_owner(look.ownership.shard()))
            }
            _ => Ok(()),
        }
    }

    async fn look_at(&self, look: Look<'_>, left: &mut Vec<Left>) -> Result<Next, HostError> {
        self.refuse_later_status(look)?;
        let release = look.release;
        if release.spec.is_suspended() {
            left.clear();
            let message = "spec.suspend is true; what is on the target stays".to_owned();
            self.write_status(look, &Reached::Suspended { message }).await?;
            return Ok(Next::Done);
        }
        let finalizers = release.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|name| name == finalizer::RELEASE) {
            let version = release.metadata.resource_version.as_deref().unwrap_or_default();
            let all: Vec<String> = finalizers.into_iter().chain([finalizer::RELEASE.to_owned()]).collect();
            self.host
                .writer
                .set_finalizers::<Release>(&**look.ownership, look.key, version, &all)
                .await
                .map_err(HostError::from)?;
            // The write brings an event, and with it the next look.
            return Ok(Next::Done);
        }
        let next = self.look_at_source(look, left).await?;
        // Whatever became of it: what late requests made is in nobody's way, but nobody's either.
        Ok(match self.look_for_late_writes(look).await? {
            Some(wait) => at_the_latest(next, wait),
            None => next,
        })
    }

    async fn look_at_source(&self, look: Look<'_>, left: &mut Vec<Left>) -> Result<Next, HostError> {
        let resolved = match self.resolve(look) {
            Ok(resolved) => resolved,
            Err(stopped) => {
                let (reached, next) = *stopped;
                if let Some(reached) = reached {
                    self.write_status(look, &reached).await?;
                }
                return Ok(next);
            }
        };
        self.advance(look, resolved, left).await
    }

    /// Finds what the spec names; or says what is missing and when to look again.
    fn resolve(&self, look: Look<'_>) -> Result<Resolved, Box<(Option<Reached>, Next)>> {
        let (key, release) = (look.key, look.release);
        let stop = |reason: &'static str, message: String| {
            Box::new((Some(Reached::Resolved { reason, message, is_terminal: false }), Next::Done))
        };
        let cluster_key = StoreKey::new(key.namespace.as_str(), release.spec.cluster_ref.name.as_str());
        let Some(cluster) = self.clusters.get(&cluster_key) else {
            let message =
                format!("there is no Cluster {cluster_key}, which spec.clusterRef names; create it");
            return Err(stop(reason::DEPENDENCY_NOT_FOUND, message));
        };
        let source = self.sources.resolve(key, look.ownership.shard(), release).map_err(|unresolved| {
            let Unresolved { reason, message, is_terminal } = unresolved;
            Box::new((Some(Reached::Resolved { reason, message, is_terminal }), Next::Done))
        })?;
        let Some(connected) = self.target(&cluster_key, look.ownership) else {
            if cluster.spec.suspend == Some(true) {
                let message = format!("the Cluster {cluster_key} is suspended; what is on it stays");
                return Err(Box::new((Some(Reached::Suspended { message }), Next::Done)));
            }
            let is_going = cluster.metadata.deletion_timestamp.is_some();
            if !is_going && self.contacts.last(&cluster_key, &**look.ownership).is_none() {
                // This replica has just begun to work on it: the status stays as the predecessor left it.
                return Err(Box::new((None, Next::Wait(WAIT))));
            }
            if let Some(silence) = self.contacts.silence(&cluster_key) {
                // The first answer brings the next look.
                return Err(stop(
                    reason::CLUSTER_UNREACHABLE,
                    format!("the Cluster {cluster_key}: {silence}"),
                ));
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
        Ok(Resolved { connected, source })
    }

    /// Renders, and delivers when there is something to deliver.
    async fn advance(
        &self,
        look: Look<'_>,
        resolved: Resolved,
        left: &mut Vec<Left>,
    ) -> Result<Next, HostError> {
        let (key, release) = (look.key, look.release);
        let revision = resolved.source.artifact.revision.clone();
        let bundle = match self.prepare(look, &resolved.source, &resolved.connected.capabilities).await {
            Ok(bundle) => bundle,
            Err(PrepareError::Render { reason, message }) => {
                let reached = Reached::Rendered { revision, reason, message, is_terminal: true };
                self.write_status(look, &reached).await?;
                return Ok(Next::After(release.spec.interval().as_std()));
            }
            Err(PrepareError::Missing { reason, message }) => {
                let reached = Reached::Rendered { revision, reason, message, is_terminal: false };
                self.write_status(look, &reached).await?;
                return Ok(Next::Wait(WAIT));
            }
            Err(PrepareError::Failed { message }) => {
                let reached =
                    Reached::Rendered { revision, reason: reason::STORE_FAILED, message, is_terminal: false };
                self.write_status(look, &reached).await?;
                return Ok(Next::Retry);
            }
        };
        let memory = self.recall(look);
        let now = self.clock.monotonic();
        let asked = reconcile_at(release).unwrap_or_default();
        let attempt =
            format!("{} {} {asked}", release.metadata.generation.unwrap_or_default(), bundle.digest);
        if let Some(wait) = memory.hold.as_ref().and_then(|hold| hold.remaining(&attempt, now)) {
            return Ok(Next::Wait(wait));
        }
        let current = status::known(release, memory.status.as_ref());
        let mut drift = memory.drift;
        let drift_action = drift.decide(&release.spec, &current, now);
        self.remember(look, |memory| memory.drift = drift);
        let reapply = if drift_action == DriftAction::Correct { Reapply::All } else { Reapply::None };
        let cluster = StoreKey::new(key.namespace.as_str(), release.spec.cluster_ref.name.as_str());
        let delivery = Delivery {
            look,
            cluster: &cluster,
            connected: resolved.connected,
            bundle: &bundle,
            reapply,
            is_begun: false,
            is_rollback: false,
            attempt: &attempt,
        };
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
            Delivered::Moved => return Ok(Next::Done),
            Delivered::Failed { failure, .. } if failure.is_not_owner() => {
                return Err(HostError::not_owner(look.ownership.shard()));
            }
            Delivered::Failed { objects, inventories, failure } => {
                let reached = Reached::Planned {
                    bundle: facts(objects, inventories, false),
                    reason: failure.reason,
                    message: failure.message,
                    is_terminal: failure.is_terminal,
                };
                if self.contacts.silence(&cluster).is_some() {
                    // The first answer brings the next look, without any hold.
                    self.remember(look, |memory| memory.hold = None);
                    self.write_status(look, &reached).await?;
                    return Ok(Next::Done);
                }
                let hold = Hold::after(memory.hold.as_ref(), &attempt, &failure.failures, now);
                let wait = hold.until.saturating_sub(now);
                self.remember(look, |memory| memory.hold = Some(hold));
                if failure.failures.iter().any(|failure| failure.error.class.concerns_the_whole_target()) {
                    self.contacts.doubt(cluster);
                }
                self.write_status(look, &reached).await?;
                return Ok(Next::Wait(wait));
            }
            Delivered::Waiting { objects, inventories, waiting } => {
                if drift_action == DriftAction::Correct {
                    drift.corrected(now);
                }
                self.remember(look, |memory| {
                    memory.drift = drift;
                    memory.hold = None;
                });
                let next = waiting.next;
                let bundle = facts(objects, inventories, false);
                self.write_status(look, &Reached::Between { bundle, waiting }).await?;
                return Ok(at_the_latest(Next::After(next), self.until_look_is_due(look)));
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
                    self.remember(look, |memory| memory.drift = drift);
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
        self.remember(look, |memory| memory.hold = None);
        let cleared = self.clear_left(key, left).await?;
        let waits = matches!(cleared, Cleared::Waits);
        if let Cleared::Blocked(blocked) = cleared {
            let reached = Reached::Planned {
                bundle: facts,
                reason: reason::PRUNE_FAILED,
                message: blocked,
                is_terminal: false,
            };
            self.write_status(look, &reached).await?;
            return Ok(Next::Wait(WAIT));
        }
        let gate = self.gate(release, &current, &facts);
        let next = match (&gate, drift_action) {
            (HealthGate::Waiting { remaining, .. }, _) => Next::After(*remaining),
            (_, DriftAction::Wait(wait)) => Next::After(wait),
            _ => Next::After(release.spec.interval().as_std()),
        };
        self.write_status(look, &Reached::Applied { bundle: facts, gate, message }).await?;
        let next = at_the_latest(next, self.until_look_is_due(look));
        Ok(if waits { at_the_latest(next, WAIT) } else { next })
    }

    /// Until the status has to say anew that the Release was looked at: a look in between, which an event
    /// brought, does not put that off.
    fn until_look_is_due(&self, look: Look<'_>) -> Duration {
        let known = status::known(look.release, self.recall(look).status.as_ref());
        status::look_is_due(look.release, known.controller.as_ref(), self.clock.now())
    }

    fn gate(&self, release: &Release, current: &ReleaseStatus, facts: &BundleFacts) -> HealthGate {
        let now = self.clock.now();
        if release.spec.waits_for_health()
            && facts.objects > 0
            && let Some(unknown) =
                self.observers.as_ref().and_then(|observers| observers.gate(self.shard_of(release), now))
        {
            return unknown;
        }
        let is_known = current.bundle_digest.as_deref() == Some(&facts.digest) && !facts.is_fresh;
        let applied = current.last_applied_time.as_ref().filter(|_| is_known).map_or(now, |time| time.0);
        let had_succeeded = status::has_succeeded(current, &facts.digest);
        health_gate(&release.spec, current, &facts.digest, facts.objects, applied, had_succeeded, now)
    }

    /// Writes the status when it says something new, and an event when people should know.
    async fn write_status(&self, look: Look<'_>, reached: &Reached) -> Result<(), HostError> {
        let Look { key, release, ownership } = look;
        let old = status::known(release, self.recall(look).status.as_ref());
        let now = self.clock.now();
        let new = status::next(release, &old, reached, &self.writer(&**ownership), now);
        let fields = status::owned(&new);
        if fields == status::owned(&old) {
            return Ok(());
        }
        let written = self.host.writer.apply_status::<Release>(&**ownership, key, look.uid(), &fields).await;
        let version = written?;
        self.remember(look, |memory| memory.status = Some((version, new.clone())));
        if let Some((kind, reason, message)) = event(&old, &new) {
            match kind {
                EventKind::Normal => tracing::info!(release = %key, "{reason}: {message}"),
                // The Cluster was told of, once for all its Releases.
                EventKind::Warning if reason == reason::CLUSTER_UNREACHABLE => {
                    tracing::debug!(release = %look.key, "{reason}: {message}");
                }
                EventKind::Warning => tracing::warn!(release = %key, "{reason}: {message}"),
            }
            self.host.writer.event(&**ownership, release, (kind, &reason, &message), now).await;
        }
        Ok(())
    }
}

/// The same, but within a while.
fn at_the_latest(next: Next, wait: Duration) -> Next {
    match next {
        Next::Done => Next::Wait(wait),
        Next::After(delay) => Next::After(delay.min(wait)),
        Next::Wait(delay) => Next::Wait(delay.min(wait)),
        Next::Retry => Next::Retry,
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
    let waits = [reason::WAITING_FOR_HEALTH, reason::WAITING_FOR_HOOK, reason::SUSPENDED];
    let is_waiting = waits.contains(&ready.reason.as_str());
    let kind = match condition_status(&new.conditions, condition_type::READY) {
        ConditionStatus::True => EventKind::Normal,
        _ if is_waiting => EventKind::Normal,
        ConditionStatus::False | ConditionStatus::Unknown => EventKind::Warning,
    };
    Some((kind, ready.reason.clone(), ready.message.clone()))
}
