//! From a bundle to the target.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{ConflictPolicy, DeliveryProgress, Operation, reason};
use convoy_apply::{
    ApplyOptions, Class, Failure, Ownership, PruneNote, PruneOptions, Report, RequestErrors, Target,
    apply_waves, look, prune,
};
use convoy_health::Health;
use convoy_plan::{
    Counts, Entry, Fate, HookStep, Input, Live, ObjectKey, ObjectRef, Plan, Policy, Problem, Problems,
    Reapply, ReleaseId, Stage, Step, keys_to_look_at, next_step, plan,
};
use convoy_prepare::{Ready, carries_on, operation, scope, secrets_in};
use convoy_runtime::traces::{TRACES, traced};
use convoy_runtime::{Sharded as _, StoreKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tracing::field::Empty;

use super::claims::Claimed;
use super::decide::HealthGate;
use super::hooks::{HookEnd, HookWork, failure_of_hook};
use super::inventory::{Inventory, InventoryId};
use super::late::objects_of;
use super::{Look, Releases};
use crate::host::HostError;
use crate::targets::Connected;

pub(crate) const ESTABLISH_PATIENCE: Duration = Duration::from_secs(60);
const RECREATE_PATIENCE: Duration = Duration::from_secs(20);

/// How often a plan is made anew in one look because objects that it was to change were gone: for a namespace, for
/// what was in it, and once more.
const ROUNDS: usize = 4;

/// What a delivery came to.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// Nothing was to be done; no request was made.
    Unchanged { objects: usize, inventories: Vec<String>, apply: Option<String> },
    /// All is on the target.
    Applied {
        objects: usize,
        inventories: Vec<String>,
        apply: Option<String>,
        counts: Counts,
        notes: Vec<(ObjectKey, PruneNote)>,
    },
    /// A part is, and the rest waits.
    Waiting {
        objects: usize,
        inventories: Vec<String>,
        waiting: Waiting,
        /// What is still to be applied although it is recorded as applied.
        reapply: Reapply,
    },
    /// The Release is not to be on this cluster any more; nothing was written there.
    Moved,
    /// Something is not.
    Failed { objects: usize, inventories: Vec<String>, failure: DeliveryFailure },
}

/// Why a delivery failed.
#[derive(Debug)]
pub(crate) struct DeliveryFailure {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Whether only another revision can mend it.
    pub(crate) is_terminal: bool,
    /// For the back-off.
    pub(crate) failures: Vec<Failure>,
}

/// What a delivery that is under way waits for.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// What comes next.
    pub(crate) step: String,
    /// How many objects are still to be worked on.
    pub(crate) remaining: String,
    /// What sort of wait it is.
    pub(crate) reason: &'static str,
    /// What it waits for, and whether it does so in vain.
    pub(crate) gate: HealthGate,
    /// When to look next if nothing brings a look earlier.
    pub(crate) next: Duration,
}

/// What a delivery needs.
pub(crate) struct Delivery<'a> {
    pub(crate) look: Look<'a>,
    pub(crate) cluster: &'a StoreKey,
    pub(crate) connected: Connected,
    pub(crate) bundle: &'a Ready,
    /// Namespace on the target of objects that name none.
    pub(crate) namespace: &'a str,
    pub(crate) reapply: Reapply,
    /// Whether it was begun before; found out as it goes on.
    pub(crate) is_begun: bool,
    /// Whether the bundle is an earlier one that is delivered again because a later one failed, or on request.
    pub(crate) is_rollback: bool,
    /// When it was to be tried again after it had failed: what is waited for has its whole time from then.
    pub(crate) retried: Option<Timestamp>,
    /// Names the attempt: a hook that failed is run again in another one.
    pub(crate) attempt: &'a str,
}

impl Delivery<'_> {
    /// The target, without its words about objects that hold what came from Secrets.
    fn target(&self) -> Target {
        self.connected.target.clone().with_secrets_in(secrets_in(self.look.release, Some(self.bundle)))
    }
}

impl Releases {
    /// Plans, and carries the plan out as far as it need not wait. The cached inventory decides whether there is
    /// anything to do; what is done is planned on the inventory that the API server has.
    pub(crate) async fn deliver(&self, mut delivery: Delivery<'_>) -> Result<Delivered, HostError> {
        let id = InventoryId::of(delivery.look.release, delivery.cluster);
        let cached = self.cached_inventory(&id);
        self.refuse_outdated(&cached, delivery.look.ownership)?;
        delivery.is_begun = cached.bundle_digest() == delivery.bundle.digest;
        let has_nothing = delivery.bundle.objects.is_empty() && delivery.bundle.hooks.is_empty();
        if cached.progress().is_none() && (delivery.is_begun || (cached.entries().is_empty() && has_nothing))
        {
            let nothing = BTreeMap::new();
            if let Ok(plan) = plan(&delivery.input(&cached.entries(), &nothing, &delivery.connected).view())
                && plan.is_empty()
            {
                return Ok(Delivered::Unchanged {
                    objects: objects_of(&cached.entries()),
                    inventories: cached.names(),
                    apply: cached.last_apply(),
                });
            }
        }
        let mut inventory = self.fresh_inventory(&id).await?;
        delivery.is_begun = inventory.bundle_digest() == delivery.bundle.digest;
        self.refuse_outdated(&inventory, delivery.look.ownership)?;
        if !delivery.is_begun {
            let operation = operation(inventory.progress(), inventory.is_new(), delivery.is_rollback);
            let since = Some(Time(self.clock.now()));
            inventory.set_progress(Some(DeliveryProgress {
                operation,
                since,
                ..DeliveryProgress::default()
            }));
        }
        self.go_on(delivery, &id, &mut inventory).await
    }

    /// Takes one step after another, until all is done, something fails, or something is to be waited for.
    async fn go_on(
        &self,
        mut delivery: Delivery<'_>,
        id: &InventoryId,
        inventory: &mut Inventory,
    ) -> Result<Delivered, HostError> {
        let claimed = self.claims.of(delivery.look.key, delivery.cluster);
        let mut live = Seen { is_whole: delivery.is_begun, facts: BTreeMap::new(), claimed };
        let mut counts = None;
        let mut notes = Vec::new();
        let mut rounds = 0;
        loop {
            let before = inventory.entries();
            let stopped = |inventory: &Inventory, failure| {
                let (objects, inventories) = (objects_of(&inventory.entries()), inventory.names());
                Ok(Delivered::Failed { objects, inventories, failure })
            };
            let span = tracing::info_span!(target: TRACES, "plan", convoy.cluster = %delivery.cluster, convoy.bundle = delivery.bundle.digest, otel.status_code = Empty);
            let planning = self.plan_with_live(&mut delivery, &before, inventory.progress(), &mut live);
            let (plan, step) = match traced(span, planning, Result::is_err).await {
                Ok(planned) => planned,
                Err(failure) => return stopped(inventory, failure),
            };
            if counts.is_none() && self.carries_on(&delivery, &live, inventory) {
                continue;
            }
            let counts = counts.get_or_insert_with(|| plan.counts());
            let ends = plan.ends_with(inventory.progress(), &step);
            let part = match step {
                Step::Done => {
                    if !inventory.is_progress_stored() || inventory.progress().is_some() {
                        inventory.set_progress(None);
                        let ownership = &**delivery.look.ownership;
                        self.settle(ownership, inventory, &before, &delivery.bundle.digest).await?;
                    }
                    let (objects, inventories) = (objects_of(&before), inventory.names());
                    let (apply, counts) = (inventory.last_apply(), *counts);
                    return Ok(Delivered::Applied { objects, inventories, apply, counts, notes });
                }
                Step::Apply { waves, prunes } => plan.part(waves, prunes),
                Step::Hook(HookStep::Clear(prunes)) => Plan::clearing(prunes),
                Step::Hook(HookStep::Failed { event, index, message }) => {
                    let failure = plan.hooks.get(index).map(|hook| failure_of_hook(hook, event, &message));
                    let failure = failure.unwrap_or_else(|| DeliveryFailure::odd("a hook left the plan"));
                    return stopped(inventory, failure);
                }
                Step::Await { wave } => match self.await_health(&delivery, &plan, wave, inventory).await {
                    Ok(None) => continue,
                    Ok(Some(waiting)) => {
                        let (objects, inventories) = (objects_of(&before), inventory.names());
                        let reapply = delivery.reapply;
                        return Ok(Delivered::Waiting { objects, inventories, waiting, reapply });
                    }
                    Err(failure) => return stopped(inventory, failure),
                },
                Step::Hook(HookStep::Run { event, index }) => {
                    let Some(hook) = plan.hooks.get(index) else {
                        return stopped(inventory, DeliveryFailure::odd("a hook left the plan"));
                    };
                    let work = HookWork {
                        release: delivery.look.release,
                        id,
                        ownership: delivery.look.ownership,
                        target: &delivery.target(),
                        bundle: &delivery.bundle.digest,
                        attempt: delivery.attempt,
                    };
                    if inventory.is_new() && !self.begin(&delivery, inventory).await? {
                        return Ok(Delivered::Moved);
                    }
                    match self.run_hook(&work, (hook, event, index), inventory).await? {
                        HookEnd::Recorded => continue,
                        HookEnd::Failed(failure) => return stopped(inventory, failure),
                        HookEnd::Waits { message, since } => {
                            let (objects, inventories) = (objects_of(&before), inventory.names());
                            let step = format!("the {} hook {}", event.as_str(), hook.apply.target);
                            let message = format!("waiting for {step} to end: {message}");
                            let next = self.until_next_look(delivery.look.release, since);
                            let gate = HealthGate::Waiting { message, remaining: next };
                            let reason = reason::WAITING_FOR_HOOK;
                            let remaining = remaining(&plan);
                            let waiting = Waiting { step, remaining, reason, gate, next };
                            let reapply = delivery.reapply;
                            return Ok(Delivered::Waiting { objects, inventories, waiting, reapply });
                        }
                    }
                }
            };
            let objects = part.applies().count() + part.prunes.len();
            let span = tracing::info_span!(target: TRACES, "apply", convoy.cluster = %delivery.cluster, convoy.bundle = delivery.bundle.digest, convoy.objects = objects, otel.status_code = Empty);
            let applying = self.carry_out(&delivery, &part, inventory, &before, ends);
            let has_failed = |carried: &Result<Option<Carried>, _>| match carried {
                Ok(carried) => carried.as_ref().is_some_and(|carried| !carried.report.is_success()),
                Err(_) => true,
            };
            let Some(carried) = traced(span, applying, has_failed).await? else {
                return Ok(Delivered::Moved);
            };
            let Carried { report, notes: kept } = carried;
            notes.extend(kept);
            live.forget(&part);
            let applied = part.applies().map(|(_, apply)| &apply.target.key);
            delivery.reapply = std::mem::take(&mut delivery.reapply).after(applied);
            rounds += 1;
            if report.has_gone() && rounds < ROUNDS {
                counts.made_anew(report.fates.values().filter(|fate| **fate == Fate::Gone).count());
            } else if !report.is_success() {
                return stopped(inventory, DeliveryFailure::of_report(report));
            } else {
                rounds = 0;
            }
            if part.applies().any(|(stage, _)| stage == Stage::Definitions) {
                // New kinds: what comes next must know them without asking.
                match self.rediscover(delivery.look, delivery.cluster).await {
                    Ok(Some(renewed)) => delivery.connected = renewed,
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(cluster = %delivery.cluster, error = %error, "discovery failed");
                    }
                }
            }
        }
    }

    /// Whether what seemed to be installed is a Helm release that is carried on, so that it is upgraded instead. That is
    /// noted then.
    fn carries_on(&self, delivery: &Delivery<'_>, live: &Seen, inventory: &mut Inventory) -> bool {
        let Some(progress) = inventory.progress() else { return false };
        if delivery.is_begun
            || progress.operation != Operation::Install
            || !carries_on(delivery.look.release, &live.facts)
        {
            return false;
        }
        let operation = Operation::Upgrade;
        inventory.set_progress(Some(DeliveryProgress { operation, ..progress.clone() }));
        true
    }

    /// Stores a new inventory before anything is on the target; false when the Release is not to be on the cluster any
    /// more.
    async fn begin(&self, delivery: &Delivery<'_>, inventory: &mut Inventory) -> Result<bool, HostError> {
        let ownership = &**delivery.look.ownership;
        self.write_ahead(ownership, inventory, &[], &delivery.bundle.digest).await?;
        if self.is_still_meant(delivery).await? {
            return Ok(true);
        }
        self.settle(ownership, inventory, &[], "").await?;
        Ok(false)
    }

    /// Whether the objects of the waves before one are healthy; if so, that is noted, else what is waited for is told.
    async fn await_health(
        &self,
        delivery: &Delivery<'_>,
        plan: &Plan,
        wave: Option<i32>,
        inventory: &mut Inventory,
    ) -> Result<Option<Waiting>, DeliveryFailure> {
        let Some(progress) = inventory.progress().cloned() else { return Ok(None) };
        let mut objects = plan.awaited(&progress, wave, &inventory.entries());
        // Those that were not healthy last time tell the most.
        let pending = self.recall(delivery.look).pending;
        objects.sort_by_key(|at| !pending.contains(&at.key));
        let now = self.clock.now();
        let rules = self.health.rules();
        let found =
            delivery.connected.target.not_healthy(&objects, &rules, now).await.map_err(|(at, error)| {
                DeliveryFailure::of_requests(vec![Failure { key: at.key, source: String::new(), error }])
            })?;
        let keys: Vec<ObjectKey> = found.iter().map(|(at, _)| at.key.clone()).collect();
        self.remember(delivery.look, |memory| memory.pending = keys);
        if found.is_empty() {
            let healthy_below = Some(wave.unwrap_or(i32::MAX));
            inventory.set_progress(Some(DeliveryProgress { healthy_below, ..progress }));
            return Ok(None);
        }
        let since = progress.since.as_ref().map_or(now, |since| since.0);
        let since = delivery.retried.map_or(since, |retried| since.max(retried));
        let in_words = |(at, health): &(ObjectRef, Health)| {
            format!("{} is {}: {}", at.key, health.state.as_str(), health.message)
        };
        let said: Vec<String> = found.iter().map(in_words).collect();
        let said = said.join("; ");
        let step = match wave {
            Some(wave) => format!("wave {wave}"),
            None => format!("the {} hooks", progress.operation.events().1.as_str()),
        };
        let before = match wave {
            Some(wave) => {
                let mut numbers = plan.numbers().into_iter().filter(|number| *number < wave);
                let last = numbers.next_back().map_or_else(String::new, |number| number.to_string());
                format!("the objects of wave {last}")
            }
            None => "the objects".to_owned(),
        };
        let timeout = delivery.look.release.spec.apply_timeout();
        let waited = now.duration_since(since).unsigned_abs();
        let is_degraded = found.iter().any(|(_, health)| health.state == convoy_health::State::Degraded);
        if waited >= timeout.as_std() {
            return Err(DeliveryFailure {
                reason: if is_degraded { reason::DEGRADED } else { reason::HEALTH_TIMEOUT },
                message: format!(
                    "{step} waits, and {before} did not become healthy within {timeout}: {said}"
                ),
                is_terminal: false,
                failures: Vec::new(),
            });
        }
        let gate = if is_degraded {
            HealthGate::Closed {
                reason: reason::DEGRADED.to_owned(),
                message: format!("{step} waits, and {before} do not become healthy: {said}"),
                is_over: false,
                remaining: timeout.as_std().saturating_sub(waited),
            }
        } else {
            HealthGate::Waiting {
                message: format!("{step} waits for {before} to become healthy: {said}"),
                remaining: timeout.as_std().saturating_sub(waited),
            }
        };
        let next = self.until_next_look(delivery.look.release, since);
        let remaining = remaining(plan);
        Ok(Some(Waiting { step, remaining, reason: reason::WAITING_FOR_HEALTH, gate, next }))
    }

    /// The plan with what a look at the target says, and what of it comes next. When the target does not seem to serve
    /// a kind, discovery is asked anew once. The first plan of a bundle asks for all objects, so that what is wrong
    /// with any of them is said before one is written; later ones for those that come next.
    async fn plan_with_live(
        &self,
        delivery: &mut Delivery<'_>,
        before: &[Entry],
        progress: Option<&DeliveryProgress>,
        seen: &mut Seen,
    ) -> Result<(Plan, Step), DeliveryFailure> {
        let waits = delivery.look.release.spec.waits_for_health();
        let mut has_asked = false;
        loop {
            let input = delivery.input(before, &seen.facts, &delivery.connected);
            let of_problems = |problems| DeliveryFailure::of_problems(&problems);
            let wanted = match keys_to_look_at(&input.view()) {
                Err(Problems(problems))
                    if !has_asked && problems.iter().any(|p| matches!(p, Problem::UnknownKind { .. })) =>
                {
                    has_asked = true;
                    let renewed = self.rediscover(delivery.look, delivery.cluster).await;
                    if let Ok(Some(renewed)) = renewed {
                        delivery.connected = renewed;
                    }
                    continue;
                }
                wanted => wanted.map_err(of_problems)?,
            };
            let plan = if seen.is_whole || wanted.iter().all(|at| seen.facts.contains_key(&at.key)) {
                Some(plan(&input.view()).map_err(of_problems)?)
            } else {
                None
            };
            let step = plan.as_ref().map(|plan| next_step(plan, progress, waits, delivery.attempt));
            let part = match (&plan, &step) {
                (Some(plan), Some(Step::Apply { waves, .. })) => Some(plan.part(waves.clone(), false)),
                _ => None,
            };
            let concerns = |key: &ObjectKey| match (&plan, &part) {
                (None, _) => true,
                (Some(_), Some(part)) => part.applies().any(|(_, apply)| apply.target.key == *key),
                (Some(_), None) => false,
            };
            let unseen =
                wanted.into_iter().filter(|at| !seen.facts.contains_key(&at.key) && concerns(&at.key));
            let unseen: Vec<ObjectRef> = unseen.collect();
            if let (Some(plan), Some(step), true) = (plan, step, unseen.is_empty()) {
                return Ok((plan, step));
            }
            // Before the look: what it does not find stays for this Release to create.
            let claimed = unseen.iter().map(|at| &at.key).filter(|key| !delivery.shares(key));
            if let Err(taken) = seen.claimed.add(claimed) {
                return Err(of_problems(Problems(taken.into_iter().map(owned_by_other).collect())));
            }
            let mut found = look(&delivery.connected.target, unseen).await.map_err(|(key, error)| {
                DeliveryFailure::of_requests(vec![Failure { key, source: String::new(), error }])
            })?;
            self.name_owners(&mut found);
            seen.facts.extend(found);
            seen.is_whole = true;
        }
    }

    fn name_owners(&self, live: &mut BTreeMap<ObjectKey, Live>) {
        for found in live.values_mut() {
            if let Live::Present(object) = found
                && let Some(uid) = &object.release_uid
            {
                let owners = self.releases.filter(|release| release.metadata.uid.as_ref() == Some(uid));
                object.owner = owners
                    .first()
                    .map(|owner| format!("the Release {}", convoy_runtime::store_key(&**owner)));
            }
        }
    }

    /// Writes ahead, applies, prunes and settles a part of a plan; `ends` when nothing comes after it. None when the
    /// Release is not to be on the cluster any more; then nothing was written there.
    async fn carry_out(
        &self,
        delivery: &Delivery<'_>,
        plan: &Plan,
        inventory: &mut Inventory,
        before: &[Entry],
        ends: bool,
    ) -> Result<Option<Carried>, HostError> {
        let connected = &delivery.connected;
        let bundle = delivery.bundle.digest.as_str();
        let id = InventoryId::of(delivery.look.release, delivery.cluster);
        let owned = delivery.look.ownership;
        let ownership = &**owned;
        let late = self.late_writes(&id, owned, before);
        let ahead = plan.write_ahead(before, late);
        if ahead != before || inventory.bundle_digest() != bundle || !inventory.is_progress_stored() {
            let is_new = inventory.is_new();
            self.write_ahead(ownership, inventory, &ahead, bundle).await?;
            if is_new && !self.is_still_meant(delivery).await? {
                self.settle(ownership, inventory, &[], "").await?;
                return Ok(None);
            }
        }
        let creates = plan.applies().any(|(_, apply)| apply.may_create());
        if creates {
            self.late_begin(&id, owned, before);
        }
        let options = ApplyOptions {
            force: delivery.look.release.spec.conflict_policy() == ConflictPolicy::Force,
            establish_patience: ESTABLISH_PATIENCE,
            recreate_patience: RECREATE_PATIENCE,
        };
        let mut report = apply_waves(&delivery.target(), plan, &options).await;
        let is_answered = !report.fates.values().any(|fate| *fate == Fate::Failed);
        let mut notes = Vec::new();
        if report.is_success() && !plan.prunes.is_empty() {
            let options = PruneOptions { release_uid: delivery.look.uid() };
            let (pruned, kept) = prune(&connected.target, &plan.prunes, &options).await;
            notes = kept;
            report.fates.extend(pruned.fates);
            report.failures.extend(pruned.failures);
            report.not_tried += pruned.not_tried;
        }
        let after = plan.settle(before, &report.fates, late);
        if creates {
            self.late_end(&id, owned, is_answered);
        }
        if report.is_success()
            && let Some(progress) = inventory.progress().cloned()
        {
            let since = Some(Time(self.clock.now()));
            inventory.set_progress((!ends).then_some(DeliveryProgress { since, ..progress }));
        }
        if after != ahead || !inventory.is_progress_stored() {
            self.settle(ownership, inventory, &after, bundle).await?;
        }
        if creates {
            self.late_forget(&id, &after);
        }
        Ok(Some(Carried { report, notes }))
    }
}

/// What a look at the target found, for one delivery.
struct Seen {
    /// Whether all objects that are new in the bundle were looked at, now or in an earlier look.
    is_whole: bool,
    facts: BTreeMap<ObjectKey, Live>,
    /// What no other Release creates meanwhile.
    claimed: Claimed,
}

impl Seen {
    /// What was written is not as it was seen.
    fn forget(&mut self, part: &Plan) {
        for (_, apply) in part.applies() {
            self.facts.remove(&apply.target.key);
        }
    }
}

/// What a plan has still to do, in short.
fn remaining(plan: &Plan) -> String {
    let counts = Counts { unchanged: 0, left: 0, ..plan.counts() };
    if counts == Counts::default() { String::new() } else { counts.to_string() }
}

/// What became of a plan.
struct Carried {
    report: Report,
    notes: Vec<(ObjectKey, PruneNote)>,
}

impl Releases {
    /// A new inventory may come too late to be seen: the Release was moved or deleted meanwhile, and who
    /// removes its finalizer has looked for inventories already. Who moved or deleted it before that is seen
    /// here.
    async fn is_still_meant(&self, delivery: &Delivery<'_>) -> Result<bool, HostError> {
        let now = self.host.release(delivery.look.key).await?;
        Ok(now.is_some_and(|now| {
            now.metadata.uid == delivery.look.release.metadata.uid
                && now.metadata.deletion_timestamp.is_none()
                && now.shard_key() == *delivery.cluster
        }))
    }

    /// Gives up when an inventory was written in a later term of the shard than the one the look began in.
    pub(crate) fn refuse_outdated(
        &self,
        inventory: &Inventory,
        ownership: &Arc<dyn Ownership>,
    ) -> Result<(), HostError> {
        let mut writers = inventory.writers();
        if writers.any(|writer| self.duties.is_outdated(&**ownership, writer)) {
            return Err(HostError::not_owner(ownership.shard()));
        }
        Ok(())
    }
}

/// A plan's input with what it borrows from.
struct OwnedInput<'a> {
    id: ReleaseId,
    policy: Policy,
    before: &'a [Entry],
    live: &'a BTreeMap<ObjectKey, Live>,
    connected: &'a Connected,
    bundle: &'a Ready,
    is_begun: bool,
}

impl OwnedInput<'_> {
    fn view(&self) -> Input<'_> {
        Input {
            release: &self.id,
            rendered: &self.bundle.objects,
            hooks: &self.bundle.hooks,
            inventory: self.before,
            kinds: &self.connected.capabilities.kinds,
            policy: &self.policy,
            live: self.live,
            is_begun: self.is_begun,
        }
    }
}

/// An object that another Release is about to create.
fn owned_by_other((key, owner): (ObjectKey, StoreKey)) -> Problem {
    Problem::OwnedByOther { key, owner: format!("the Release {owner}") }
}

impl Delivery<'_> {
    /// Whether an object is only wanted to be there, whoever makes it: the namespace of `spec.createNamespace`.
    fn shares(&self, key: &ObjectKey) -> bool {
        self.look.release.spec.create_namespace == Some(true)
            && key.group.is_empty()
            && key.kind == "Namespace"
            && key.name == self.namespace
    }

    fn input<'b>(
        &'b self,
        before: &'b [Entry],
        live: &'b BTreeMap<ObjectKey, Live>,
        connected: &'b Connected,
    ) -> OwnedInput<'b> {
        let (id, policy) = scope(self.look.release, self.namespace, self.reapply.clone());
        OwnedInput { id, policy, before, live, connected, bundle: self.bundle, is_begun: self.is_begun }
    }
}

impl DeliveryFailure {
    /// Whether it was given up because the cluster is another replica's.
    pub(crate) fn is_not_owner(&self) -> bool {
        self.failures.iter().any(|failure| failure.error.class == Class::NotOwner)
    }

    /// What cannot be.
    fn odd(message: &str) -> Self {
        Self {
            reason: reason::PLAN_FAILED,
            message: message.to_owned(),
            is_terminal: false,
            failures: Vec::new(),
        }
    }

    fn of_problems(problems: &Problems) -> Self {
        let reason = match problems.0.as_slice() {
            [Problem::EmptyBundle { .. }] => reason::EMPTY_BUNDLE,
            all if all.iter().all(|problem| {
                matches!(problem, Problem::OwnedByOther { .. } | Problem::OwnedByHelm { .. })
            }) =>
            {
                reason::APPLY_CONFLICT
            }
            _ => reason::PLAN_FAILED,
        };
        Self {
            reason,
            message: format!("nothing was applied: {problems}"),
            is_terminal: !problems.0.iter().any(Problem::may_pass_by_itself),
            failures: Vec::new(),
        }
    }

    pub(crate) fn of_report(report: Report) -> Self {
        let not_tried = report.not_tried;
        let mut failure = Self::of_requests(report.failures);
        if not_tried > 0 {
            failure.message = format!("{}; {not_tried} more objects wait for this", failure.message);
        }
        failure
    }

    pub(crate) fn of_requests(failures: Vec<Failure>) -> Self {
        let named: Vec<_> = failures
            .iter()
            .map(|failure| {
                let mut error = failure.error.clone();
                if !failure.source.is_empty() {
                    error.message = format!("{} (from {})", error.message, failure.source);
                }
                (failure.key.clone(), error)
            })
            .collect();
        let all = |test: fn(&Class) -> bool| failures.iter().all(|failure| test(&failure.error.class));
        let reason = if all(|class| matches!(class, Class::Unreachable)) {
            reason::CLUSTER_UNREACHABLE
        } else if all(|class| matches!(class, Class::Unauthorized)) {
            reason::CLUSTER_UNAUTHORIZED
        } else if all(|class| matches!(class, Class::FieldConflict)) {
            reason::APPLY_CONFLICT
        } else if all(|class| matches!(class, Class::Invalid { .. } | Class::Forbidden | Class::Denied)) {
            reason::APPLY_REJECTED
        } else {
            reason::APPLY_FAILED
        };
        Self {
            reason,
            message: format!("{}{}", RequestErrors(&named), advice(&failures)),
            is_terminal: all(Class::is_terminal),
            failures,
        }
    }
}

/// What to do, when it is the same for all.
fn advice(failures: &[Failure]) -> &'static str {
    let any = |test: fn(&Class) -> bool| failures.iter().any(|failure| test(&failure.error.class));
    if any(|class| matches!(class, Class::Invalid { immutable: true })) {
        "; a field that cannot change was changed: put it back, or give the object the annotation convoy.kumodo.io/replace: Allowed, and it is deleted and made anew"
    } else if any(Class::is_terminal) {
        "; mend the manifest, what is on the target stays as it is"
    } else if any(|class| matches!(class, Class::NamespaceMissing)) {
        "; create the namespace, or set spec.createNamespace"
    } else if any(|class| matches!(class, Class::FieldConflict)) {
        "; let the manifest leave the field out, or set spec.apply.conflicts to Force"
    } else {
        ""
    }
}
