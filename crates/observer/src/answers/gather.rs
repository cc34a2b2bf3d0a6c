//! From a Release to its preview.

use std::collections::BTreeMap;
use std::sync::Arc;

use convoy_api::{
    Cluster, ConditionStatus, ConflictPolicy, DeliveryProgress, DriftMode, Operation, PreviewAction,
    PreviewObject, PreviewProblem, Release, ReleasePreview, RollbackStatus, annotation, condition_status,
    condition_type, inventory_name_in, reason,
};
use convoy_apply::{Ownership, TryOptions, look, try_out};
use convoy_plan::{
    Apply, Entry, Input, Live, Mask, Masked, ObjectKey, Plan, PlanPreview, Policy, Problem, Problems,
    Reapply, ReleaseId, keys_to_look_at, plan,
};
use convoy_prepare::{
    PrepareError, Ready, Unresolved, acts_as, arrived, carries_on, is_forced, is_ready, may_use,
    names_own_cluster, namespace_of, not_allowed, operation, renewed, scope, secrets_in, takes_secret_values,
};
use convoy_render::SecretValues;
use convoy_runtime::{Sharded as _, StoreKey};

use super::Answering;
use super::given::GivenFiles;
use super::history::joined;
use super::targets::Seen;
use crate::model::{View, WatchedKind};
use crate::watches::describe;

/// Objects that the target is asked about for one preview.
const MOST_ASKED: usize = 1000;

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// What the next delivery would do.
    Preview,
    /// How the target differs from what would be applied: all objects are compared, also those that a delivery would
    /// leave as they are.
    Diff,
}

/// What an answer is made of.
#[derive(Clone, Copy)]
pub(crate) struct Gathered<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) key: &'a StoreKey,
    pub(crate) release: &'a Release,
    pub(crate) ownership: &'a Arc<dyn Ownership>,
    /// What stands for the source's files.
    pub(crate) given: Option<&'a GivenFiles>,
}

/// What was delivered so far.
#[derive(Default)]
pub(super) struct Delivered {
    pub(super) entries: Vec<Entry>,
    pub(super) bundle_digest: String,
    progress: Option<DeliveryProgress>,
    is_new: bool,
}

/// What is to be planned.
struct Chosen {
    bundle: Arc<Ready>,
    namespace: String,
    is_rollback: bool,
}

/// What went wrong.
fn problem(reason: &str, message: impl Into<String>) -> PreviewProblem {
    PreviewProblem { reason: reason.to_owned(), message: message.into() }
}

impl Answering {
    pub(super) async fn gather(&self, gathered: Gathered<'_>) -> ReleasePreview {
        let mut preview = ReleasePreview {
            cluster: gathered.release.spec.cluster_ref.name.clone(),
            ..ReleasePreview::default()
        };
        self.name_waits(gathered, &mut preview);
        let mut secrets = SecretValues::default();
        if let Err(problem) = self.fill(gathered, &mut preview, &mut secrets).await {
            preview.problems.push(problem);
        }
        // Whatever said it: what came from a Secret is shown nowhere.
        preview.texts().for_each(|text| *text = secrets.masked(text));
        preview.summary = match preview.problems.len() {
            0 => preview.counts.to_string(),
            1 => "1 problem is in the way".to_owned(),
            several => format!("{several} problems are in the way"),
        };
        preview
    }

    /// What a delivery would wait for before it begins.
    fn name_waits(&self, gathered: Gathered<'_>, preview: &mut ReleasePreview) {
        let Gathered { key, release, .. } = gathered;
        if release.metadata.deletion_timestamp.is_some() {
            preview
                .remarks
                .push("the Release is being deleted: nothing of this is delivered any more".to_owned());
        }
        if release.spec.is_suspended() {
            preview.waits.push("spec.suspend is true: nothing is delivered until it is resumed".to_owned());
        }
        for dependency in &release.spec.depends_on {
            let at = StoreKey::new(key.namespace.as_str(), dependency.name.as_str());
            let why = match self.releases.get(&at) {
                Some(found) => is_ready(dependency, &found).err(),
                None => Some("it is not there, or not in a shard of this observer".to_owned()),
            };
            if let Some(why) = why {
                preview.waits.push(format!("the Release {at}: {why}"));
            }
        }
    }

    async fn fill(
        &self,
        gathered: Gathered<'_>,
        preview: &mut ReleasePreview,
        secrets: &mut SecretValues,
    ) -> Result<(), PreviewProblem> {
        let Gathered { release, ownership, .. } = gathered;
        let cluster_key = release.shard_key();
        let cluster = self.clusters.get(&cluster_key);
        self.refuse_other_namespaces(gathered, cluster.as_deref()).await?;
        let Some(cluster) = cluster else {
            let message =
                format!("there is no Cluster {cluster_key}, which spec.clusterRef names; create it");
            return Err(problem(reason::DEPENDENCY_NOT_FOUND, message));
        };
        if cluster.spec.suspend == Some(true) {
            preview.waits.push(format!("the Cluster {cluster_key} is suspended"));
        }
        let mut seen = self.targets.look(&cluster_key, &cluster, ownership).await.map_err(|error| {
            problem(reason::CLUSTER_UNREACHABLE, format!("the Cluster {cluster_key}: {}", describe(&error)))
        })?;
        seen.target = seen.target.acting_as(acts_as(release, &cluster.spec));
        let chosen = self.choose(gathered, &seen, preview, secrets).await?;
        seen.target = seen.target.with_secrets_in(secrets_in(release, Some(&chosen.bundle)));
        preview.bundle_digest.clone_from(&chosen.bundle.digest);
        let warnings = chosen.bundle.warnings.iter().cloned();
        preview.remarks.extend(warnings);
        self.plan(gathered, &cluster, (&chosen, secrets), &mut seen, preview).await
    }

    /// Whether the Release may use the Cluster, as who delivers it asks; which of the two is missing is not said.
    async fn refuse_other_namespaces(
        &self,
        gathered: Gathered<'_>,
        cluster: Option<&Cluster>,
    ) -> Result<(), PreviewProblem> {
        let Gathered { key, release, .. } = gathered;
        if names_own_cluster(release) {
            return Ok(());
        }
        let labels = self.reader.namespace_labels(&key.namespace).await.map_err(|error| {
            let message = format!(
                "whether the namespace {} may use Clusters of another is not known: {}; let the observer get namespaces",
                key.namespace,
                describe(&error)
            );
            problem(reason::DEPENDENCY_NOT_READY, message)
        })?;
        if may_use(release, cluster, labels.as_ref()) {
            return Ok(());
        }
        Err(problem(reason::CLUSTER_NOT_ALLOWED, not_allowed(&key.namespace, &release.shard_key())))
    }

    /// The bundle that would be delivered.
    async fn choose(
        &self,
        gathered: Gathered<'_>,
        seen: &Seen,
        preview: &mut ReleasePreview,
        secrets: &mut SecretValues,
    ) -> Result<Chosen, PreviewProblem> {
        let Gathered { release, ownership, .. } = gathered;
        let desired = self.desired(gathered, seen, preview, secrets).await;
        let digest = desired.as_ref().ok().map(|bundle| bundle.digest.as_str());
        // Who hands in files asks about these, wherever the Release has gone back to.
        let rollback = if gathered.given.is_some() { None } else { rollback(release, digest) };
        let Some(rollback) = rollback else {
            return Ok(Chosen { bundle: desired?, namespace: namespace_of(release), is_rollback: false });
        };
        let revision = rollback.revision;
        preview.remarks.push(format!("the Release has gone back to revision {revision}, and stays there"));
        if let Err(PreviewProblem { message, .. }) = desired {
            preview.remarks.push(format!("the source gives nothing new: {message}"));
        }
        preview.source_revision.clone_from(&rollback.source_revision);
        let kept = self.preparer.kept_bundle(&rollback.bundle_digest, &**ownership).await;
        let kept = kept.map_err(|error| problem(reason::STORE_FAILED, describe(&error)))?;
        let bundle = kept.ok_or_else(|| {
            let what = "its bundle is not in the render store any more";
            problem(reason::ROLLBACK_FAILED, format!("revision {revision} cannot be gone back to: {what}"))
        })?;
        let namespace = rollback.target_namespace.unwrap_or_else(|| namespace_of(release));
        Ok(Chosen { bundle, namespace, is_rollback: true })
    }

    /// The bundle of the source.
    async fn desired(
        &self,
        gathered: Gathered<'_>,
        seen: &Seen,
        preview: &mut ReleasePreview,
        secrets: &mut SecretValues,
    ) -> Result<Arc<Ready>, PreviewProblem> {
        let Gathered { release, ownership, .. } = gathered;
        let failed = |error: PrepareError| match error {
            PrepareError::Render { reason, message } | PrepareError::Missing { reason, message } => {
                problem(reason, message)
            }
            PrepareError::Failed { message } => problem(reason::STORE_FAILED, message),
        };
        // First, so that whatever else goes wrong is masked.
        let values = self.preparer.values(release).await.map_err(failed)?;
        *secrets = SecretValues::of(&values);
        if let Some(GivenFiles { files, path }) = gathered.given {
            files.revision().clone_into(&mut preview.source_revision);
            let files = (files, path.as_str());
            let bundle =
                self.preparer.look_at_files(release, files, &seen.capabilities, values, &**ownership);
            return bundle.await.map_err(failed);
        }
        let source = self.sources.resolve(release).await;
        let source = source.map_err(|Unresolved { reason, message, .. }| problem(reason, message))?;
        preview.source_revision.clone_from(&source.artifact.revision);
        let bundle = self.preparer.look_at(release, &source, &seen.capabilities, values, &**ownership);
        bundle.await.map_err(failed)
    }

    async fn plan(
        &self,
        gathered: Gathered<'_>,
        cluster: &Cluster,
        (chosen, secrets): (&Chosen, &SecretValues),
        seen: &mut Seen,
        preview: &mut ReleasePreview,
    ) -> Result<(), PreviewProblem> {
        let Gathered { key, release, ownership, .. } = gathered;
        let delivered = self.delivered(key, release);
        let is_begun = delivered.bundle_digest == chosen.bundle.digest;
        let (reapply, anew) = match gathered.purpose {
            Purpose::Preview => reapply(release),
            Purpose::Diff => (Reapply::All, "the target has other content".to_owned()),
        };
        let (id, policy) = scope(release, &chosen.namespace, reapply);
        let mut live = BTreeMap::new();
        let planned = loop {
            let facts = Facts { id: &id, policy: &policy, delivered: &delivered, seen, chosen, is_begun };
            let wanted = match keys_to_look_at(&facts.input(&live)) {
                Err(Problems(problems)) if is_unknown_kind(&problems) && !seen.is_fresh => {
                    let cluster_key = convoy_runtime::store_key(cluster);
                    let renewed = self.targets.rediscover(&cluster_key, seen, ownership).await;
                    renewed.map_err(|error| problem(reason::CLUSTER_UNREACHABLE, error.to_string()))?;
                    continue;
                }
                Err(problems) => break Err(problems),
                Ok(wanted) => wanted,
            };
            let found = look(&seen.target, wanted).await;
            live = found.map_err(|(at, error)| problem(reason::APPLY_FAILED, format!("{at}: {error}")))?;
            self.name_owners(&mut live);
            break plan(&facts.input(&live));
        };
        let planned = match planned {
            Ok(planned) => planned,
            Err(Problems(problems)) => {
                let all = problems.iter().map(|found| problem(reason_of(found), found.to_string()));
                preview.problems.extend(all);
                return Ok(());
            }
        };
        let progress = progress(release, &delivered, is_begun, chosen.is_rollback, &live);
        preview.operation = progress.as_ref().map(|progress| progress.operation);
        self.try_out(
            gathered,
            &planned,
            (chosen, secrets),
            seen,
            (progress.as_ref(), &anew, &delivered.bundle_digest),
            preview,
        )
        .await;
        Ok(())
    }

    async fn try_out(
        &self,
        gathered: Gathered<'_>,
        planned: &Plan,
        (chosen, secrets): (&Chosen, &SecretValues),
        seen: &Seen,
        (progress, anew, delivered): (Option<&DeliveryProgress>, &str, &str),
        preview: &mut ReleasePreview,
    ) {
        let spec = &gathered.release.spec;
        let takes_secrets = takes_secret_values(gathered.release);
        let mask = |text: &str| secrets.masked(text);
        let cluster = gathered.release.shard_key();
        let was = self.preparer.kept_bundle(delivered, &**gathered.ownership).await.ok().flatten();
        let bundles: Vec<&Ready> = was.as_deref().into_iter().chain([&*chosen.bundle]).collect();
        let places = joined(&bundles);
        let made_of = self.made_of(gathered, chosen);
        let now = self.clock.monotonic();
        let known = self.known.get(gathered.key, &made_of, now);
        let model = self.clusters_seen.model(&cluster);
        let is_as_it_was = |apply: &Apply| {
            let (digest, said) = known.get(&apply.target.key)?;
            let (at, key) = (&apply.target, &apply.target.key);
            let kind = WatchedKind::new(key.group.as_str(), at.version.as_str(), key.kind.as_str());
            let name = (key.namespace.clone(), key.name.clone());
            let model = model.as_ref()?.lock();
            match model.view(&kind, &name) {
                View::Present(seen) if seen.resource_version == said.version && *digest == apply.digest => {
                    Some(said.clone())
                }
                _ => None,
            }
        };
        let tells_all = gathered.purpose == Purpose::Diff;
        let options = TryOptions {
            tells_all,
            turns: &seen.turns,
            known: tells_all.then_some(&is_as_it_was as _),
            force: spec.conflict_policy() == ConflictPolicy::Force,
            release_uid: gathered.release.metadata.uid.as_deref().unwrap_or_default(),
            kinds: &seen.capabilities.kinds,
            most: MOST_ASKED,
            mask: Mask {
                text: &mask,
                hides_before: takes_secrets,
                // Files of anyone can say a Secret's value in other words, which nothing tracks.
                hides_after: takes_secrets
                    && (gathered.given.is_some()
                        || chosen.is_rollback && chosen.bundle.secret_places.is_none()),
                places: &places,
            },
        };
        let mut tried = try_out(&seen.target, planned, &options).await;
        // What others ask about again is what is delivered.
        let is_kept = tells_all && gathered.given.is_none() && gathered.ownership.check().is_ok();
        if is_kept {
            self.known.put((gathered.key, &cluster), made_of, now, std::mem::take(&mut tried.said));
        }
        if let Some(error) = &tried.stopped {
            let message = format!("the target was not asked what it would make of all objects: {error}");
            preview.problems.push(problem(reason::CLUSTER_UNREACHABLE, message));
        }
        if tried.left_out > 0 {
            let message = format!(
                "the target was asked about {MOST_ASKED} objects, and not about the other {}",
                tried.left_out
            );
            preview.remarks.push(message);
        }
        let waits = spec.waits_for_health();
        let told = PlanPreview::of(planned, progress, waits, &tried.objects, anew);
        preview.problems.extend(refused(&told.objects));
        preview.counts = told.counts;
        preview.steps = told.steps;
        preview.objects = told.objects;
        for object in preview.objects.iter_mut().filter(|object| object.action != PreviewAction::Keep) {
            if let Some(diff) = take(&mut tried.diffs, object) {
                object.diff = diff.into_text();
            }
        }
        if waits && !tells_all && preview.objects.iter().any(|object| object.step.is_some()) {
            let timeout = spec.apply_timeout();
            preview
                .remarks
                .push(format!("the delivery is done when all objects are healthy, within {timeout}"));
        }
    }

    /// All that an answer of the target depends on but the object itself.
    fn made_of(&self, gathered: Gathered<'_>, chosen: &Chosen) -> String {
        let Gathered { release, .. } = gathered;
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let generation = release.metadata.generation.unwrap_or_default();
        format!("{uid} {generation} {} {}", chosen.bundle.digest, release.shard_key())
    }

    /// What the inventory says.
    pub(super) fn delivered(&self, key: &StoreKey, release: &Release) -> Delivered {
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let mut delivered = Delivered { is_new: true, ..Delivered::default() };
        let cluster = release.shard_key();
        let part_at = |part: usize| {
            let cluster = (cluster.namespace.as_str(), cluster.name.as_str());
            let name = inventory_name_in(&key.namespace, &key.name, cluster, part);
            let found = self.inventories.get(&StoreKey::new(key.namespace.as_str(), name))?;
            (found.spec.release_ref.uid == uid && !uid.is_empty()).then_some(found)
        };
        for part in 0.. {
            let Some(found) = part_at(part) else { break };
            if part == 0 {
                delivered.is_new = false;
                delivered.bundle_digest.clone_from(&found.spec.bundle_digest);
                delivered.progress.clone_from(&found.spec.delivery);
            }
            delivered.entries.extend(found.spec.entries.iter().map(Entry::from_api));
        }
        delivered
    }

    fn name_owners(&self, live: &mut BTreeMap<ObjectKey, Live>) {
        for found in live.values_mut() {
            if let Live::Present(object) = found
                && let Some(uid) = &object.release_uid
            {
                let owners = self.releases.filter(|release| release.metadata.uid.as_ref() == Some(uid));
                let owner = owners.first();
                object.owner =
                    owner.map(|owner| format!("the Release {}", convoy_runtime::store_key(&**owner)));
            }
        }
    }
}

/// What a plan's input borrows from.
struct Facts<'a> {
    id: &'a ReleaseId,
    policy: &'a Policy,
    delivered: &'a Delivered,
    seen: &'a Seen,
    chosen: &'a Chosen,
    is_begun: bool,
}

impl Facts<'_> {
    fn input<'b>(&'b self, live: &'b BTreeMap<ObjectKey, Live>) -> Input<'b> {
        Input {
            release: self.id,
            rendered: &self.chosen.bundle.objects,
            hooks: &self.chosen.bundle.hooks,
            inventory: &self.delivered.entries,
            kinds: &self.seen.capabilities.kinds,
            policy: self.policy,
            live,
            is_begun: self.is_begun,
        }
    }
}

/// What is told of an object.
fn take(diffs: &mut BTreeMap<ObjectKey, Masked>, object: &PreviewObject) -> Option<Masked> {
    let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
    let key = ObjectKey {
        group: group.to_owned(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    diffs.remove(&key)
}

/// What the target would refuse; objects that it refuses in the same words are named together.
fn refused(objects: &[PreviewObject]) -> Vec<PreviewProblem> {
    const NAMED: usize = 3;
    let mut by_words: Vec<(&str, Vec<String>)> = Vec::new();
    for object in objects.iter().filter(|object| !object.problem.is_empty()) {
        let name = object.named();
        match by_words.iter_mut().find(|(words, _)| *words == object.problem) {
            Some((_, names)) => names.push(name),
            None => by_words.push((&object.problem, vec![name])),
        }
    }
    by_words
        .into_iter()
        .map(|(words, names)| {
            let more = names.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = names.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
            problem(reason::APPLY_REJECTED, format!("{named}{more}: {words}"))
        })
        .collect()
}

/// The earlier revision that is delivered instead of this bundle of the source, if it gives one.
fn rollback(release: &Release, bundle: Option<&str>) -> Option<RollbackStatus> {
    let (mut status, _) = renewed(release, &release.status.clone().unwrap_or_default());
    if let Some(bundle) = bundle {
        arrived(&mut status, bundle);
    }
    status.rollback.map(|rollback| *rollback)
}

/// How far the delivery would have come when it begins.
fn progress(
    release: &Release,
    delivered: &Delivered,
    is_begun: bool,
    is_rollback: bool,
    live: &BTreeMap<ObjectKey, Live>,
) -> Option<DeliveryProgress> {
    if is_begun {
        return delivered.progress.clone();
    }
    let mut operation = operation(delivered.progress.as_ref(), delivered.is_new, is_rollback);
    if operation == Operation::Install && carries_on(release, live) {
        operation = Operation::Upgrade;
    }
    Some(DeliveryProgress { operation, ..DeliveryProgress::default() })
}

/// Which objects would be applied although nothing else says so, and why.
fn reapply(release: &Release) -> (Reapply, String) {
    let status = release.status.clone().unwrap_or_default();
    let is_drifted = condition_status(&status.conditions, condition_type::DRIFTED) == ConditionStatus::True;
    if is_forced(release, &status) {
        (Reapply::All, format!("the annotation {} asks to apply all anew", annotation::FORCE_AT))
    } else if is_drifted && release.spec.drift_mode() == DriftMode::Correct {
        (Reapply::of_drifted(&status.drifted_objects), "objects drifted, and are applied anew".to_owned())
    } else {
        (Reapply::None, String::new())
    }
}

fn is_unknown_kind(problems: &[Problem]) -> bool {
    problems.iter().any(|problem| matches!(problem, Problem::UnknownKind { .. }))
}

fn reason_of(problem: &Problem) -> &'static str {
    match problem {
        Problem::EmptyBundle { .. } => reason::EMPTY_BUNDLE,
        Problem::OwnedByOther { .. } | Problem::OwnedByHelm { .. } => reason::APPLY_CONFLICT,
        _ => reason::PLAN_FAILED,
    }
}
