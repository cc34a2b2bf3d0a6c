//! From a bundle to the target.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{ConflictPolicy, Release, reason};
use convoy_apply::{
    ApplyOptions, Class, Failure, Ownership, PruneNote, PruneOptions, Report, RequestErrors, apply_waves,
    look, prune,
};
use convoy_plan::{
    Counts, Entry, Fate, HelmRelease, Input, Live, ObjectKey, Plan, Policy, Problem, Problems, Reapply,
    ReleaseId, Stage, keys_to_look_at, plan,
};
use convoy_runtime::StoreKey;

use super::inventory::{Inventory, InventoryId};
use super::late::objects_of;
use super::prepare::{Ready, name_of, namespace_of};
use super::{Look, Releases};
use crate::host::HostError;
use crate::targets::Connected;

const ESTABLISH_PATIENCE: Duration = Duration::from_secs(60);
const RECREATE_PATIENCE: Duration = Duration::from_secs(20);
/// The annotation of a Release that allows to prune more than half of a large inventory.
const ALLOW_PRUNE: &str = "convoy.kumodo.io/allow-prune";
/// The annotation of a Release that lets it take over objects of other Releases.
const ADOPT: &str = "convoy.kumodo.io/adopt";

/// How often a plan is made anew in one look because objects that it was to change were gone: for a namespace, for
/// what was in it, and once more.
const ROUNDS: usize = 4;

/// What a delivery came to.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// Nothing was to be done; no request was made.
    Unchanged { objects: usize, inventories: Vec<String> },
    /// All is on the target.
    Applied { objects: usize, inventories: Vec<String>, counts: Counts, notes: Vec<(ObjectKey, PruneNote)> },
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

/// What a delivery needs.
pub(crate) struct Delivery<'a> {
    pub(crate) look: Look<'a>,
    pub(crate) cluster: &'a StoreKey,
    pub(crate) connected: Connected,
    pub(crate) bundle: &'a Ready,
    pub(crate) reapply: Reapply,
    /// Whether it was begun before; found out as it goes on.
    pub(crate) is_begun: bool,
}

impl Releases {
    /// Plans, and carries the plan out. The cached inventory decides whether there is anything to do;
    /// what is done is planned on the inventory that the API server has.
    pub(crate) async fn deliver(&self, mut delivery: Delivery<'_>) -> Result<Delivered, HostError> {
        let id = InventoryId::of(delivery.look.release, &delivery.cluster.name);
        let cached = self.cached_inventory(&id);
        self.refuse_outdated(&cached, delivery.look.ownership)?;
        let is_begun = cached.bundle_digest() == delivery.bundle.digest;
        if is_begun || cached.entries().is_empty() {
            let nothing = BTreeMap::new();
            delivery.is_begun = is_begun;
            if let Ok(plan) = plan(&delivery.input(&cached.entries(), &nothing, &delivery.connected).view())
                && plan.is_empty()
                && (is_begun || delivery.bundle.objects.is_empty())
            {
                return Ok(Delivered::Unchanged {
                    objects: objects_of(&cached.entries()),
                    inventories: cached.names(),
                });
            }
        }
        let mut inventory = self.fresh_inventory(&id).await?;
        delivery.is_begun = inventory.bundle_digest() == delivery.bundle.digest;
        self.refuse_outdated(&inventory, delivery.look.ownership)?;
        let mut counts = None;
        let mut round = 1;
        loop {
            let before = inventory.entries();
            let (plan, connected) = match self.plan_with_live(&delivery, &before).await {
                Ok(planned) => planned,
                Err(failure) => {
                    return Ok(Delivered::Failed {
                        objects: objects_of(&before),
                        inventories: inventory.names(),
                        failure,
                    });
                }
            };
            let counts = counts.get_or_insert_with(|| plan.counts());
            let Some(carried) = self.carry_out(&delivery, &connected, &plan, &mut inventory, &before).await?
            else {
                return Ok(Delivered::Moved);
            };
            let Carried { report, notes } = carried;
            if report.has_gone() && round < ROUNDS {
                counts.made_anew(report.fates.values().filter(|fate| **fate == Fate::Gone).count());
                round += 1;
                // All others were just applied.
                delivery.reapply = Reapply::None;
                continue;
            }
            let (objects, inventories) = (objects_of(&inventory.entries()), inventory.names());
            return Ok(if report.is_success() {
                Delivered::Applied { objects, inventories, counts: *counts, notes }
            } else {
                Delivered::Failed { objects, inventories, failure: DeliveryFailure::of_report(report) }
            });
        }
    }

    /// The plan with what a look at the target says. When the target does not seem to serve a kind,
    /// discovery is asked anew once.
    async fn plan_with_live(
        &self,
        delivery: &Delivery<'_>,
        before: &[Entry],
    ) -> Result<(Plan, Connected), DeliveryFailure> {
        let nothing = BTreeMap::new();
        let mut connected = delivery.connected.clone();
        let mut wanted = keys_to_look_at(&delivery.input(before, &nothing, &connected).view());
        if let Err(Problems(problems)) = &wanted
            && problems.iter().any(|problem| matches!(problem, Problem::UnknownKind { .. }))
            && let Ok(Some(renewed)) =
                self.targets.rediscover(delivery.cluster, delivery.look.ownership).await
        {
            connected = renewed;
            wanted = keys_to_look_at(&delivery.input(before, &nothing, &connected).view());
        }
        let wanted = wanted.map_err(|problems| DeliveryFailure::of_problems(&problems))?;
        let mut live = look(&connected.target, wanted).await.map_err(|(key, error)| {
            DeliveryFailure::of_requests(vec![Failure { key, source: String::new(), error }])
        })?;
        self.name_owners(&mut live);
        let plan = plan(&delivery.input(before, &live, &connected).view())
            .map_err(|problems| DeliveryFailure::of_problems(&problems))?;
        Ok((plan, connected))
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

    /// Writes ahead, applies, prunes and settles. None when the Release is not to be on the cluster any more; then
    /// nothing was written there.
    async fn carry_out(
        &self,
        delivery: &Delivery<'_>,
        connected: &Connected,
        plan: &Plan,
        inventory: &mut Inventory,
        before: &[Entry],
    ) -> Result<Option<Carried>, HostError> {
        let bundle = delivery.bundle.digest.as_str();
        let id = InventoryId::of(delivery.look.release, &delivery.cluster.name);
        let owned = delivery.look.ownership;
        let ownership = &**owned;
        let late = self.late_writes(&id, owned, before);
        let ahead = plan.write_ahead(before, late);
        if ahead != before || inventory.bundle_digest() != bundle {
            let is_new = inventory.is_new();
            self.write_ahead(ownership, inventory, &ahead, bundle).await?;
            if is_new && !self.is_still_meant(delivery).await? {
                self.settle(ownership, inventory, &[], "").await?;
                return Ok(None);
            }
        }
        let creates = plan.applies().any(|(_, apply)| apply.may_create());
        if creates {
            self.late_begin(&id, owned);
        }
        let options = ApplyOptions {
            force: delivery.look.release.spec.conflict_policy() == ConflictPolicy::Force,
            establish_patience: ESTABLISH_PATIENCE,
            recreate_patience: RECREATE_PATIENCE,
        };
        let mut report = apply_waves(&connected.target, plan, &options).await;
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
            self.late_end(&id, owned, is_answered, &after);
        }
        if after != ahead {
            self.settle(ownership, inventory, &after, bundle).await?;
        }
        if plan.applies().any(|(stage, _)| stage == Stage::Definitions) {
            // New kinds: the next plan must know them without asking.
            if let Err(error) = self.targets.rediscover(delivery.cluster, delivery.look.ownership).await {
                tracing::debug!(cluster = %delivery.cluster, error = %error, "discovery failed");
            }
        }
        Ok(Some(Carried { report, notes }))
    }
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
                && now.spec.cluster_ref.name == delivery.cluster.name
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
            inventory: self.before,
            kinds: &self.connected.capabilities.kinds,
            policy: &self.policy,
            live: self.live,
            is_begun: self.is_begun,
        }
    }
}

impl Delivery<'_> {
    fn input<'b>(
        &'b self,
        before: &'b [Entry],
        live: &'b BTreeMap<ObjectKey, Live>,
        connected: &'b Connected,
    ) -> OwnedInput<'b> {
        let metadata = &self.look.release.metadata;
        let spec = &self.look.release.spec;
        let is_set = |name: &str| {
            metadata.annotations.as_ref().and_then(|all| all.get(name)).is_some_and(|value| value == "true")
        };
        OwnedInput {
            id: ReleaseId {
                uid: metadata.uid.clone().unwrap_or_default(),
                namespace: metadata.namespace.clone().unwrap_or_default(),
                name: metadata.name.clone().unwrap_or_default(),
            },
            policy: Policy {
                target_namespace: Some(namespace_of(self.look.release)),
                create_namespace: spec.create_namespace.unwrap_or(false),
                prune: spec.prunes(),
                allow_large_prune: is_set(ALLOW_PRUNE),
                adopt: is_set(ADOPT),
                helm_release: Some(helm_release(self.look.release)),
                reapply: self.reapply.clone(),
            },
            before,
            live,
            connected,
            bundle: self.bundle,
            is_begun: self.is_begun,
        }
    }
}

/// The Helm release that a Release carries on, whatever it renders with.
fn helm_release(release: &Release) -> HelmRelease {
    let helm = release.spec.render.as_ref().and_then(|render| render.helm.as_ref());
    let name = helm.and_then(|helm| helm.release_name.clone());
    HelmRelease { namespace: namespace_of(release), name: name.unwrap_or_else(|| name_of(release)) }
}

impl DeliveryFailure {
    /// Whether it was given up because the cluster is another replica's.
    pub(crate) fn is_not_owner(&self) -> bool {
        self.failures.iter().any(|failure| failure.error.class == Class::NotOwner)
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

    fn of_requests(failures: Vec<Failure>) -> Self {
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
