//! Which bundle is to be on the target, and the way there: the source's newest; an earlier one that is gone back to;
//! or, while the source gives none, the one that is under way.

use std::sync::Arc;
use std::time::Duration;

use convoy_api::{
    Cluster, ClusterReference, ConditionStatus, Release, ReleaseStatus, annotation, condition_type,
    find_condition, later_apply, reason,
};
use convoy_apply::{Class, PruneNote};
use convoy_plan::Reapply;
use convoy_prepare::{PrepareError, Ready, Resolved, namespace_of, not_allowed};
use convoy_render::ValuesText;
use convoy_runtime::{Next, Sharded as _, StoreKey};

use super::decide::{DriftAction, HealthGate, Hold, health_gate};
use super::deliver::{Delivered, Delivery, DeliveryFailure};
use super::dependencies::Awaited;
use super::failure::{self, Failed, Turn};
use super::inventory::InventoryId;
use super::left::{Cleared, Left};
use super::reconcile::{Told, WAIT, at_the_latest};
use super::rest::Noted;
use super::status::{self, BundleFacts, Course, Reached, Trouble, has_succeeded};
use super::{Look, Memory, Releases};
use crate::access::Allowed;
use crate::host::{HostError, in_words};
use crate::sources::Unresolved;
use crate::targets::Connected;

/// When a rollback that was decided begins: at once.
const AT_ONCE: Next = Next::Wait(Duration::from_millis(50));

/// When to look again while the labels of namespaces are not known.
const LABELS: Duration = Duration::from_secs(1);

/// Where a look ends that comes to no delivery: what to say, and when to look again.
type Stopped = Box<(Option<Reached>, Next)>;

/// Why the source gives no bundle.
struct Undesired {
    trouble: Trouble,
    next: Next,
}

impl Undesired {
    fn reached(self) -> Reached {
        let Trouble { reason, message, revision, is_terminal } = self.trouble;
        match revision {
            Some(revision) => Reached::Rendered { revision, reason, message, is_terminal },
            None => Reached::Resolved { reason, message, is_terminal },
        }
    }
}

/// What the source's bundle is made of, beside the spec and the target.
pub(super) struct Inputs {
    pub(super) source: Resolved,
    pub(super) values: Vec<ValuesText>,
}

/// The bundle that is to be on the target.
struct Chosen {
    bundle: Arc<Ready>,
    revision: String,
    namespace: String,
    rollback_to: Option<i64>,
    /// The Cluster that it goes to.
    cluster: ClusterReference,
    trouble: Option<Trouble>,
    /// When to look for the source's newest again, at the latest.
    latest: Option<Next>,
}

impl Chosen {
    fn facts(&self, objects: usize, inventories: Vec<String>, is_fresh: bool) -> BundleFacts {
        BundleFacts {
            revision: self.revision.clone(),
            digest: self.bundle.digest.clone(),
            notes: self.bundle.notes.clone(),
            objects,
            inventories,
            is_fresh,
            namespace: self.namespace.clone(),
            rollback_to: self.rollback_to,
            trouble: self.trouble.clone(),
            fight: None,
            apply: None,
            cluster: Some(self.cluster.clone()),
        }
    }
}

/// What a look knows when it delivers.
struct Pursuit<'a> {
    look: Look<'a>,
    cluster: StoreKey,
    memory: Memory,
    /// The status without what does not hold any more.
    status: ReleaseStatus,
    /// What is tried, for the hold.
    attempt: String,
    turn: Turn,
    is_forced: bool,
    /// What the look goes by; none when the source gives nothing.
    noted: Option<Noted>,
}

impl Releases {
    pub(super) async fn look_at_source(
        &self,
        look: Look<'_>,
        left: &mut Vec<Left>,
    ) -> Result<Next, HostError> {
        match self.gather(look, !left.is_empty()).await? {
            Ok((connected, chosen, pursuit)) => {
                let next = self.pursue(&chosen, connected, &pursuit, left).await?;
                Ok(chosen.latest.map_or(next, |latest| earlier(next, latest)))
            }
            Err(stopped) => {
                let (reached, next) = *stopped;
                if let Some(reached) = reached {
                    self.write_status(look, &reached).await?;
                }
                Ok(next)
            }
        }
    }

    /// Finds the target, and the bundle that is to be there; or says why there is nothing to deliver now.
    async fn gather<'a>(
        &self,
        look: Look<'a>,
        has_left: bool,
    ) -> Result<Result<(Connected, Chosen, Pursuit<'a>), Stopped>, HostError> {
        let release = look.release;
        let stop = |reached, next| Ok(Err(Box::new((Some(reached), next))));
        if let Some(Awaited { reason, message, is_terminal, next }) = self.cycle_of(look) {
            return stop(Reached::Resolved { reason, message, is_terminal }, next);
        }
        let cluster = release.shard_key();
        if let Some((reached, next)) = self.refusal(look, &cluster) {
            return Ok(Err(Box::new((reached, next))));
        }
        let connected = match self.connect(look, &cluster) {
            Ok(connected) => connected,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let memory = self.recall(look);
        let inputs = self.inputs(look).await;
        let noted = match &inputs {
            Ok(inputs) => match self.rests(look, (&cluster, &connected), inputs, &memory, has_left) {
                Ok(next) => return Ok(Err(Box::new((None, next)))),
                Err(noted) => Some(noted),
            },
            Err(_) => None,
        };
        let known = status::known(release, memory.status.as_deref());
        let is_forced = failure::is_forced(release, &known);
        let (mut status, _) = failure::renewed(release, &known);
        let desired = self.desired(look, &connected, inputs).await;
        if let Ok((_, bundle)) = &desired {
            failure::arrived(&mut status, &bundle.digest);
        }
        let chosen = match self.choose(look, &cluster, &status, desired).await {
            Ok(chosen) => chosen,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let digest = chosen.bundle.digest.as_str();
        if chosen.rollback_to.is_none()
            && chosen.trouble.is_none()
            && !self.is_begun(look, &cluster, &status, digest)
            && let Some(Awaited { reason, message, is_terminal, next }) = self.awaited(look)
        {
            return stop(Reached::Resolved { reason, message, is_terminal }, next);
        }
        let asked = |name: &str| {
            let annotations = release.metadata.annotations.as_ref();
            annotations.and_then(|all| all.get(name)).map_or("", String::as_str)
        };
        let attempt = format!(
            "{} {digest} {:?} {} {}",
            release.metadata.generation.unwrap_or_default(),
            chosen.rollback_to,
            asked(annotation::RECONCILE_AT),
            asked(annotation::FORCE_AT),
        );
        let now = self.clock.monotonic();
        if let Some(wait) = memory.hold.as_ref().and_then(|hold| hold.remaining(&attempt, now)) {
            return stop(Reached::Held, Next::Wait(wait));
        }
        let turn = match chosen.rollback_to {
            Some(_) => Turn::First,
            None => failure::turn(&status, digest, self.clock.now()),
        };
        if !failure::is_applied(&status, digest) {
            match turn {
                Turn::Waits(wait) => return stop(Reached::Held, Next::Wait(wait)),
                Turn::Over => return stop(Reached::Held, Next::After(release.spec.interval().as_std())),
                Turn::First | Turn::Again => {}
            }
        }
        if let Some(stopped) = self.announce(look, &cluster, &status, digest).await {
            return Ok(Err(stopped));
        }
        let pursuit = Pursuit { look, cluster, memory, status, attempt, turn, is_forced, noted };
        Ok(Ok((connected, chosen, pursuit)))
    }

    /// Makes sure that the render store has a bundle that the Release or its inventory is about to name, and keeps it.
    async fn announce(
        &self,
        look: Look<'_>,
        cluster: &StoreKey,
        status: &ReleaseStatus,
        digest: &str,
    ) -> Option<Stopped> {
        let inventory = self.cached_inventory(&InventoryId::of(look.release, cluster));
        let is_named = status.bundle_digest.as_deref() == Some(digest)
            || status.history.iter().any(|entry| entry.bundle_digest == digest);
        if is_named && inventory.bundle_digest() == digest {
            return None;
        }
        match self.prepared.announce(digest).await {
            Ok(true) => None,
            // It is rendered anew.
            Ok(false) => Some(Box::new((None, Next::Retry))),
            Err(error) => {
                let message = format!("the render store fails: {}", in_words(&error));
                let reached = Reached::Resolved { reason: reason::STORE_FAILED, message, is_terminal: false };
                Some(Box::new((Some(reached), Next::Retry)))
            }
        }
    }

    /// What to say when the Release may not use the Cluster, or that is not known. Nothing in it tells whether there is
    /// such a Cluster.
    fn refusal(&self, look: Look<'_>, cluster: &StoreKey) -> Option<(Option<Reached>, Next)> {
        let own = look.key.namespace.as_str();
        let (reason, message, is_terminal, next) = match self.access.of(look.release, cluster, &self.clusters)
        {
            Allowed::Yes => return None,
            Allowed::NotYet => return Some((None, Next::Wait(LABELS))),
            Allowed::NotKnown => {
                let message = format!(
                    "whether the namespace {own} may use Clusters of {} is not known: the labels of namespaces cannot \
                     be read; let the controller-manager get, list and watch namespaces",
                    cluster.namespace
                );
                (reason::DEPENDENCY_NOT_READY, message, false, Next::Wait(LABELS))
            }
            Allowed::No => {
                let why = not_allowed(own, cluster);
                let message = format!("{why}; nothing is delivered, and what was stays");
                // Labels and selectors that change bring the next look.
                (reason::CLUSTER_NOT_ALLOWED, message, true, Next::Done)
            }
        };
        Some((Some(Reached::Resolved { reason, message, is_terminal }), next))
    }

    /// Whether the delivery of a bundle was begun on a cluster.
    fn is_begun(&self, look: Look<'_>, cluster: &StoreKey, status: &ReleaseStatus, bundle: &str) -> bool {
        let inventory = self.cached_inventory(&InventoryId::of(look.release, cluster));
        inventory.bundle_digest() == bundle || status.bundle_digest.as_deref() == Some(bundle)
    }

    /// The target, when it is in contact.
    fn connect(&self, look: Look<'_>, key: &StoreKey) -> Result<Connected, Stopped> {
        let stop = |reason: &'static str, message: String| {
            Box::new((Some(Reached::Resolved { reason, message, is_terminal: false }), Next::Done))
        };
        let Some(cluster) = self.clusters.get(key) else {
            let message = format!("there is no Cluster {key}, which spec.clusterRef names; create it");
            return Err(stop(reason::DEPENDENCY_NOT_FOUND, message));
        };
        if let Some(connected) = self.target(look.release, key, look.ownership) {
            return Ok(connected);
        }
        if cluster.spec.suspend == Some(true) {
            let message = format!("the Cluster {key} is suspended; what is on it stays");
            return Err(Box::new((Some(Reached::Suspended { message }), Next::Done)));
        }
        let is_going = cluster.metadata.deletion_timestamp.is_some();
        if !is_going && self.contacts.last(key, &**look.ownership).is_none() {
            // This replica has just begun to work on it: the status stays as the predecessor left it.
            return Err(Box::new((None, Next::Wait(WAIT))));
        }
        if let Some(silence) = self.contacts.silence(key) {
            // The first answer brings the next look.
            return Err(stop(reason::CLUSTER_UNREACHABLE, format!("the Cluster {key}: {silence}")));
        }
        let (reason, said) = not_in_contact(&cluster);
        Err(stop(reason, format!("the Cluster {key} is not in contact: {said}")))
    }

    /// What the source's bundle is made of.
    async fn inputs(&self, look: Look<'_>) -> Result<Inputs, Undesired> {
        let source = self.sources.resolve(look.key, look.ownership.shard(), look.release);
        let source = source.map_err(|Unresolved { reason, message, is_terminal }| Undesired {
            trouble: Trouble { reason, message, revision: None, is_terminal },
            next: Next::Done,
        })?;
        match self.prepared.values(look.release).await {
            Ok(values) => Ok(Inputs { source, values }),
            Err(error) => Err(unprepared(error, source.artifact.revision, look.release)),
        }
    }

    /// The bundle of the source, with the source's revision.
    async fn desired(
        &self,
        look: Look<'_>,
        connected: &Connected,
        inputs: Result<Inputs, Undesired>,
    ) -> Result<(String, Arc<Ready>), Undesired> {
        let Inputs { source, values } = inputs?;
        let revision = source.artifact.revision.clone();
        let (capabilities, ownership) = (&connected.capabilities, &**look.ownership);
        match self.prepared.prepare(look.release, &source, capabilities, values, ownership).await {
            Ok(bundle) => Ok((revision, bundle)),
            Err(error) => Err(unprepared(error, revision, look.release)),
        }
    }

    /// Chooses what is delivered.
    async fn choose(
        &self,
        look: Look<'_>,
        cluster: &StoreKey,
        status: &ReleaseStatus,
        desired: Result<(String, Arc<Ready>), Undesired>,
    ) -> Result<Chosen, Stopped> {
        let (own, named) = (look.key.namespace.as_str(), &look.release.spec.cluster_ref);
        let namespace = Some(named.namespace_from(own).to_owned()).filter(|namespace| namespace != own);
        let to = ClusterReference { name: named.name.clone(), namespace };
        if let Some(rollback) = &status.rollback {
            let bundle = self.prepared.kept_bundle(&rollback.bundle_digest, &**look.ownership).await;
            let cluster = to;
            let to = rollback.revision;
            let (reason, message, next) = match bundle {
                Ok(Some(bundle)) => {
                    let namespace = rollback.target_namespace.clone();
                    let (trouble, latest) = match desired {
                        Ok(_) => (None, None),
                        Err(Undesired { trouble, next }) => (Some(trouble), Some(next)),
                    };
                    return Ok(Chosen {
                        bundle,
                        revision: rollback.source_revision.clone(),
                        namespace: namespace.unwrap_or_else(|| namespace_of(look.release)),
                        rollback_to: Some(to),
                        cluster,
                        trouble,
                        latest,
                    });
                }
                Ok(None) => {
                    let what = "its bundle is not in the render store any more";
                    let message = format!("revision {to} cannot be gone back to: {what}");
                    (reason::ROLLBACK_FAILED, message, Next::After(look.release.spec.interval().as_std()))
                }
                Err(error) => {
                    let message = format!("revision {to} cannot be gone back to: {}", in_words(&error));
                    (reason::STORE_FAILED, message, Next::Retry)
                }
            };
            let reached = Reached::Resolved { reason, message, is_terminal: false };
            return Err(Box::new((Some(reached), next)));
        }
        let undesired = match desired {
            Ok((revision, bundle)) => {
                return Ok(Chosen {
                    bundle,
                    revision,
                    namespace: namespace_of(look.release),
                    rollback_to: None,
                    cluster: to,
                    trouble: None,
                    latest: None,
                });
            }
            Err(undesired) => undesired,
        };
        // What is under way on this very cluster goes on: its health is judged, and what failed is tried again.
        let inventory = self.cached_inventory(&InventoryId::of(look.release, cluster));
        let under_way = status.history.first().filter(|newest| {
            newest.outcome != convoy_api::Outcome::Succeeded
                && newest.bundle_digest == inventory.bundle_digest()
                && failure::turn(status, &newest.bundle_digest, self.clock.now()) != Turn::Over
        });
        if let Some(entry) = under_way
            && let Ok(Some(bundle)) = self.prepared.kept_bundle(&entry.bundle_digest, &**look.ownership).await
        {
            return Ok(Chosen {
                bundle,
                revision: entry.source_revision.clone(),
                namespace: entry.target_namespace.clone().unwrap_or_else(|| namespace_of(look.release)),
                rollback_to: entry.rollback_to,
                cluster: to,
                trouble: Some(undesired.trouble),
                latest: Some(undesired.next),
            });
        }
        let next = undesired.next;
        Err(Box::new((Some(undesired.reached()), next)))
    }

    /// Delivers what was chosen when there is something to deliver, and judges what became of it.
    async fn pursue(
        &self,
        chosen: &Chosen,
        connected: Connected,
        pursuit: &Pursuit<'_>,
        left: &mut Vec<Left>,
    ) -> Result<Next, HostError> {
        let Pursuit { look, status: current, turn, .. } = pursuit;
        let (look, release) = (*look, look.release);
        let (key, bundle) = (look.key, &*chosen.bundle);
        let now = self.clock.monotonic();
        // It is on the target, but did not become healthy: only its health is looked at.
        let is_judged = matches!(turn, Turn::Waits(_) | Turn::Over);
        let mut drift = pursuit.memory.drift.clone();
        let drift_action =
            if is_judged { DriftAction::Nothing } else { drift.decide(&release.spec, current, now) };
        self.remember(look, |memory| memory.drift = drift.clone());
        let applies_anew = (*turn == Turn::Again || pursuit.is_forced).then(|| {
            let failure = current.failure.as_ref().map(|failure| (failure.count, &failure.next_time));
            format!("{} {failure:?}", pursuit.attempt)
        });
        let delivered = if is_judged {
            Delivered::Unchanged {
                objects: current.objects.and_then(|count| usize::try_from(count).ok()).unwrap_or_default(),
                inventories: current.inventories.clone(),
                apply: current.last_apply.clone(),
            }
        } else {
            let reapply = match (&applies_anew, drift_action) {
                (Some(attempt), _) => left_to_reapply(&pursuit.memory, attempt),
                (None, DriftAction::Correct) => Reapply::of_drifted(&current.drifted_objects),
                (None, DriftAction::Nothing | DriftAction::Wait(_)) => Reapply::None,
            };
            let attempt = self.attempt_of_hooks(pursuit, bundle);
            let delivery = Delivery {
                look,
                cluster: &pursuit.cluster,
                connected,
                bundle,
                namespace: &chosen.namespace,
                reapply,
                is_begun: false,
                is_rollback: chosen.rollback_to.is_some(),
                attempt: &attempt,
                retried: Some(*turn)
                    .filter(|turn| *turn == Turn::Again)
                    .and_then(|_| current.failure.as_ref()?.next_time.as_ref().map(|next| next.0)),
            };
            self.deliver(delivery).await?
        };
        let is_unchanged = !is_judged && matches!(delivered, Delivered::Unchanged { .. });
        let (facts, message) = match delivered {
            Delivered::Moved => return Ok(Next::Done),
            Delivered::Failed { failure, .. } if failure.is_not_owner() => {
                return Err(HostError::not_owner(look.ownership.shard()));
            }
            Delivered::Failed { objects, inventories, failure } => {
                let facts = chosen.facts(objects, inventories, false);
                return self.delivery_failed(facts, failure, pursuit).await;
            }
            Delivered::Waiting { objects, inventories, waiting, reapply } => {
                if drift_action == DriftAction::Correct {
                    drift.corrected(current, now);
                }
                self.remember(look, |memory| {
                    memory.drift = drift.clone();
                    memory.hold = None;
                    memory.reapplied = applies_anew.map(|attempt| Box::new((attempt, reapply)));
                });
                let next = waiting.next;
                let (bundle, course) = (chosen.facts(objects, inventories, false), Course::of(current));
                self.write_status(look, &Reached::Between { bundle, waiting, course }).await?;
                return Ok(at_the_latest(Next::After(next), self.until_look_is_due(look)));
            }
            Delivered::Unchanged { objects, inventories, apply } => {
                let said = find_condition(&current.conditions, condition_type::APPLIED)
                    .filter(|applied| applied.status == ConditionStatus::True.as_str())
                    .map(|applied| applied.message.clone());
                // What was written a moment ago may not be in the cache yet.
                let apply = later_apply(current.last_apply.clone(), apply);
                (
                    BundleFacts { apply, ..chosen.facts(objects, inventories, false) },
                    said.unwrap_or_else(|| "all objects are on the target".to_owned()),
                )
            }
            Delivered::Applied { objects, inventories, apply, counts, notes } => {
                if drift_action == DriftAction::Correct {
                    drift.corrected(current, now);
                    self.remember(look, |memory| memory.drift = drift.clone());
                }
                let mut message = counts.to_string();
                if !notes.is_empty() {
                    message = format!("{message}; {}", PruneNote::in_words(&notes, 5));
                }
                for warning in &bundle.warnings {
                    message = format!("{message}; {warning}");
                }
                tracing::info!(release = %key, revision = chosen.revision, "applied: {counts}");
                (BundleFacts { apply, ..chosen.facts(objects, inventories, true) }, message)
            }
        };
        self.remember(look, |memory| (memory.hold, memory.reapplied) = (None, None));
        let cleared = self.clear_left(key, left).await?;
        let waits = matches!(cleared, Cleared::Waits);
        if let Cleared::Blocked(blocked) = cleared {
            let reached = Reached::Planned {
                bundle: facts,
                reason: reason::PRUNE_FAILED,
                message: blocked,
                is_terminal: false,
                course: Course::of(current),
            };
            self.write_status(look, &reached).await?;
            return Ok(Next::Wait(WAIT));
        }
        let facts = BundleFacts { fight: drift.fight(now), ..facts };
        let (reached, next) = self.judge(facts, message, pursuit);
        let next = match drift_action {
            DriftAction::Wait(wait) => at_the_latest(next, wait),
            DriftAction::Nothing | DriftAction::Correct => next,
        };
        let told = self.write_status(look, &reached).await?;
        let found_nothing = is_unchanged
            && drift_action == DriftAction::Nothing
            && matches!(&reached, Reached::Applied { bundle, gate: HealthGate::Open, .. } if bundle.trouble.is_none());
        if let (true, Some(noted)) = (found_nothing && told == Told::Nothing, pursuit.noted.clone()) {
            self.came_to_rest(look, noted);
        }
        let next = at_the_latest(next, self.until_look_is_due(look));
        Ok(if waits { at_the_latest(next, WAIT) } else { next })
    }

    /// Names the attempt for hooks: one that failed is run again in another. Without a number of retries that somebody
    /// chose it is not run again by itself: it may not be made for that.
    fn attempt_of_hooks(&self, pursuit: &Pursuit<'_>, bundle: &Ready) -> String {
        let failure = pursuit.status.failure.as_ref();
        let failed = failure.filter(|failure| failure.bundle_digest == bundle.digest);
        match (failed, pursuit.look.release.spec.failure_retries()) {
            (Some(failure), Some(_)) => format!("{} {}", pursuit.attempt, failure.count),
            (None, _) | (_, None) => pursuit.attempt.clone(),
        }
    }

    /// An object was refused, or the target failed.
    async fn delivery_failed(
        &self,
        bundle: BundleFacts,
        failure: DeliveryFailure,
        pursuit: &Pursuit<'_>,
    ) -> Result<Next, HostError> {
        let Pursuit { look, cluster, memory, status, attempt, .. } = pursuit;
        let release = look.release;
        let DeliveryFailure { reason, mut message, is_terminal, failures } = failure;
        let now = self.clock.monotonic();
        let hold = Hold::after(memory.hold.as_ref(), attempt, &failures, now);
        let wait = hold.until.saturating_sub(now);
        let is_silent = self.contacts.silence(cluster).is_some();
        // The first answer of a silent target brings the next look, without any hold.
        self.remember(*look, |memory| memory.hold = Some(hold).filter(|_| !is_silent));
        let is_targets = failures.iter().any(|failure| failure.error.class.concerns_the_whole_target());
        if is_targets && !is_silent {
            self.contacts.doubt(cluster.clone());
        }
        let is_refused = |class: &Class| matches!(class, Class::Invalid { .. } | Class::Forbidden);
        let is_retried_hook = reason == reason::HOOK_FAILED && release.spec.failure_retries().is_some();
        let mut is_terminal = (is_terminal && !is_retried_hook)
            || (!failures.is_empty() && failures.iter().all(|failure| is_refused(&failure.error.class)));
        let mut course = Course::of(status);
        let next = if is_silent {
            Next::Done
        } else if is_targets || bundle.rollback_to.is_some() {
            // It says nothing of the revision; and what is gone back to is tried until it is there.
            Next::Wait(wait)
        } else {
            let failed = Failed { bundle: &bundle, reason, message: &message, is_terminal, wait };
            let consequence = failure::after(&release.spec, status, &failed, self.clock.now());
            let next = next_after(&consequence, release, wait);
            is_terminal |= consequence.is_final();
            let remark = failure::remark(&release.spec, &consequence.failure);
            course = Course { failure: Some(consequence.failure), rollback: consequence.rollback };
            message = format!("{message}; {remark}");
            next
        };
        let reached = Reached::Planned { bundle, reason, message, is_terminal, course };
        self.write_status(*look, &reached).await?;
        Ok(next)
    }

    /// Judges a bundle that is on the target by its health.
    fn judge(&self, bundle: BundleFacts, message: String, pursuit: &Pursuit<'_>) -> (Reached, Next) {
        let Pursuit { look, status, turn, .. } = pursuit;
        let release = look.release;
        let interval = release.spec.interval().as_std();
        let mut gate = self.gate(release, status, &bundle);
        let mut course = Course::of(status);
        let mut next = match &gate {
            HealthGate::Waiting { remaining, .. } => Next::After(*remaining),
            HealthGate::Closed { remaining, .. } if !remaining.is_zero() => {
                Next::After(interval.min(*remaining))
            }
            _ => Next::After(interval),
        };
        if bundle.rollback_to.is_some() {
            return (Reached::Applied { bundle, gate, message, course }, next);
        }
        match &mut gate {
            HealthGate::Open => course.failure = None,
            HealthGate::Closed { is_over: true, reason, message, .. } => {
                if matches!(turn, Turn::First | Turn::Again) {
                    let count = status.failure.as_ref().map_or(0, |failure| failure.count);
                    let wait = Hold::of_health(u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1));
                    let failed = Failed { bundle: &bundle, reason, message, is_terminal: false, wait };
                    let consequence = failure::after(&release.spec, status, &failed, self.clock.now());
                    next = next_after(&consequence, release, wait);
                    course = Course { failure: Some(consequence.failure), rollback: consequence.rollback };
                } else if let Turn::Waits(wait) = turn {
                    next = Next::After(interval.min(*wait));
                }
                if let Some(failure) = &course.failure {
                    *message = format!("{message}; {}", failure::remark(&release.spec, failure));
                }
            }
            HealthGate::Waiting { message, .. } => {
                if let Some(failure) = &course.failure {
                    *message = format!("{message}; {}", failure::remark(&release.spec, failure));
                }
            }
            HealthGate::Closed { .. } | HealthGate::Unknown { .. } => {}
        }
        (Reached::Applied { bundle, gate, message, course }, next)
    }

    /// Until the status has to say anew that the Release was looked at: a look in between, which an event
    /// brought, does not put that off.
    fn until_look_is_due(&self, look: Look<'_>) -> Duration {
        let known = status::known(look.release, self.recall(look).status.as_deref());
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
        let had_succeeded = has_succeeded(current, facts);
        health_gate(&release.spec, current, facts, applied, had_succeeded, now)
    }
}

/// What an attempt that applies all anew has still to apply so.
fn left_to_reapply(memory: &Memory, attempt: &str) -> Reapply {
    let known = memory.reapplied.as_ref().filter(|known| known.0 == attempt);
    known.map_or(Reapply::All, |known| known.1.clone())
}

fn next_after(consequence: &failure::Consequence, release: &Release, wait: Duration) -> Next {
    if consequence.rollback.is_some() {
        AT_ONCE
    } else if consequence.is_final() {
        Next::After(release.spec.interval().as_std())
    } else {
        Next::Wait(wait)
    }
}

/// The earlier of two.
fn earlier(next: Next, other: Next) -> Next {
    match other {
        Next::Done => next,
        Next::After(delay) | Next::Wait(delay) => at_the_latest(next, delay),
        Next::Retry => at_the_latest(next, WAIT),
    }
}

/// Why a source gives no bundle of a revision.
fn unprepared(error: PrepareError, revision: String, release: &Release) -> Undesired {
    let (reason, message, is_terminal, next) = match error {
        PrepareError::Render { reason, message } => {
            (reason, message, true, Next::After(release.spec.interval().as_std()))
        }
        PrepareError::Missing { reason, message } => (reason, message, false, Next::Wait(WAIT)),
        PrepareError::Failed { message } => (reason::STORE_FAILED, message, false, Next::Retry),
    };
    Undesired { trouble: Trouble { reason, message, revision: Some(revision), is_terminal }, next }
}

/// Why a Cluster is not in contact, as its own condition says.
fn not_in_contact(cluster: &Cluster) -> (&'static str, &str) {
    let conditions = cluster.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
    let ready = find_condition(conditions, condition_type::READY).filter(|ready| ready.status != "True");
    match ready {
        Some(ready) if ready.reason == reason::CLUSTER_UNREACHABLE => {
            (reason::CLUSTER_UNREACHABLE, ready.message.as_str())
        }
        Some(ready) => (reason::DEPENDENCY_NOT_READY, ready.message.as_str()),
        None => (reason::DEPENDENCY_NOT_READY, "it was not looked at yet"),
    }
}
