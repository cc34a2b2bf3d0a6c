//! From a bundle and an inventory to a plan.

use std::collections::{BTreeMap, BTreeSet};

use convoy_api::{DriftedObject, IgnoreRule, MAX_DRIFTED_OBJECTS};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::desired::label_namespace;
use crate::digest::in_text;
use crate::hooks::ends;
use crate::order::rank;
use crate::{
    Desired, Entry, HelmRelease, Hook, How, Kinds, LateWrites, LeftAlone, ObjectKey, ObjectRef, Problem,
    Problems, Rendered, RenderedHook, Stage, is_guarded, is_protected_namespace, normalize, stage_of,
};

/// Below this count of objects a prune is never called large.
const LARGE_PRUNE: usize = 20;

/// The annotation of a Release that allows a large prune.
const ALLOW_PRUNE_ANNOTATION: &str = "convoy.kumodo.io/allow-prune";

/// Which Release a plan is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseId {
    /// Its uid.
    pub uid: String,
    /// Its namespace on the host.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What the Release's spec says about applying and pruning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Namespace of namespaced objects that name none.
    pub target_namespace: Option<String>,
    /// Whether the target namespace is created when it is missing.
    pub create_namespace: bool,
    /// Labels of the target namespace, when convoy creates it.
    pub namespace_labels: BTreeMap<String, String>,
    /// Whether objects that left the bundle are pruned.
    pub prune: bool,
    /// Whether more than half of a large inventory may be pruned at once.
    pub allow_large_prune: bool,
    /// Whether an object of another Release, or of another Helm release, may be taken over.
    pub adopt: bool,
    /// The Helm release that this Release carries on: its objects are taken over without a word.
    pub helm_release: Option<HelmRelease>,
    /// Which objects are applied although nothing says that they changed.
    pub reapply: Reapply,
    /// What of objects is left as it is on the target.
    pub ignore: Vec<IgnoreRule>,
}

/// Which objects are applied although their digest is recorded as applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reapply {
    /// None.
    #[default]
    None,
    /// These: they drifted.
    Drifted(BTreeSet<ObjectKey>),
    /// All: it was asked for, or it is not known which drifted.
    All,
    /// All but these, which were applied since that was asked for.
    AllBut(BTreeSet<ObjectKey>),
}

impl Reapply {
    /// The objects that the observer names; all when it does not name all.
    pub fn of_drifted(objects: &[DriftedObject]) -> Self {
        if objects.is_empty() || objects.len() >= MAX_DRIFTED_OBJECTS {
            return Self::All;
        }
        let key = |object: &DriftedObject| ObjectKey {
            group: object.group.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        };
        Self::Drifted(objects.iter().map(key).collect())
    }

    /// What is left to be applied anew once these are applied.
    #[must_use]
    pub fn after<'a>(self, applied: impl Iterator<Item = &'a ObjectKey>) -> Self {
        match self {
            Self::None => Self::None,
            Self::Drifted(mut keys) => {
                for key in applied {
                    keys.remove(key);
                }
                if keys.is_empty() { Self::None } else { Self::Drifted(keys) }
            }
            Self::All => Self::AllBut(applied.cloned().collect()),
            Self::AllBut(mut done) => {
                done.extend(applied.cloned());
                Self::AllBut(done)
            }
        }
    }
}

/// What a look at the target found of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Live {
    /// It does not exist, or its kind or namespace does not yet.
    Absent,
    /// It exists.
    Present(LiveObject),
}

/// The facts of an existing object that a plan needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveObject {
    /// Its uid.
    pub uid: String,
    /// The release-uid label, when it has one.
    pub release_uid: Option<String>,
    /// The owning Release in words, when the caller knows it.
    pub owner: Option<String>,
    /// The Helm release that it says it belongs to.
    pub helm_release: Option<HelmRelease>,
    /// Whether earlier tools wrote fields of it; see [`taken_over`](crate::taken_over).
    pub is_handed_over: bool,
    /// Whether convoy applied the release-uid label, as against somebody who wrote it by hand.
    pub is_labelled_by_convoy: bool,
}

/// All that a plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The Release.
    pub release: &'a ReleaseId,
    /// The rendered documents, in order.
    pub rendered: &'a [Rendered],
    /// A chart's hooks, in Helm's order of installation.
    pub hooks: &'a [RenderedHook],
    /// What was applied before.
    pub inventory: &'a [Entry],
    /// What the target serves.
    pub kinds: &'a Kinds,
    /// What the Release's spec says.
    pub policy: &'a Policy,
    /// What a look at the objects of [`keys_to_look_at`] found; objects that are missing here count
    /// as absent.
    pub live: &'a BTreeMap<ObjectKey, Live>,
    /// Whether the delivery of this very bundle was begun before.
    pub is_begun: bool,
}

/// What will be done to a target, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The objects to apply, in order.
    pub waves: Vec<Wave>,
    /// A chart's hooks, in the order in which those of one event run.
    pub hooks: Vec<Hook>,
    /// All objects that are wanted on the target, applied now or before.
    pub members: Vec<Member>,
    /// The objects to prune after all waves went well, in order.
    pub prunes: Vec<Prune>,
    /// The objects that no request is made for.
    pub keeps: Vec<Keep>,
    /// Digest of the plan: equal plans have equal digests. `sha256:` and 64
    /// hexadecimal digits.
    pub digest: String,
}

/// An object that is wanted on the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The wave that it is applied in.
    pub wave: i32,
    /// Where it is.
    pub target: ObjectRef,
}

/// Objects of one wave and stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Wave {
    /// Whether they go before all waves, and before a chart's hooks run.
    pub early: bool,
    /// The number of the wave.
    pub number: i32,
    /// The stage.
    pub stage: Stage,
    /// Its objects, in the order of their kinds and of the bundle.
    pub applies: Vec<Apply>,
}

/// One object to apply.
#[derive(Clone, PartialEq)]
pub struct Apply {
    /// Where it goes.
    pub target: ObjectRef,
    /// What is sent.
    pub object: Value,
    /// Digest of the object.
    pub digest: String,
    /// Why.
    pub reason: ApplyReason,
    /// The file it came from.
    pub source: String,
    /// The uid of the object that is changed, which the target is told, so that it never creates another one;
    /// empty when the object is to be created.
    pub uid: String,
    /// Whether the fields that earlier tools wrote become convoy's first.
    pub take_over: bool,
    /// Whether it is only wanted to exist: when another makes it at the same time, it is theirs.
    pub create_only: bool,
    /// Whether what others added to it is to go.
    pub replace: bool,
    /// Whether it may be deleted and made anew when a field that cannot change was changed.
    pub recreate: bool,
    /// The wave that it is applied in.
    pub wave: i32,
    /// Whether a chart's hook makes it.
    pub hook: bool,
    /// What of it is left as it is when it is there.
    pub left: Option<LeftAlone>,
}

/// Without the content, which may be secret: what a panic says is written to logs.
impl std::fmt::Debug for Apply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apply")
            .field("target", &self.target)
            .field("digest", &self.digest)
            .field("reason", &self.reason)
            .field("source", &self.source)
            .field("uid", &self.uid)
            .field("wave", &self.wave)
            .field("hook", &self.hook)
            .finish_non_exhaustive()
    }
}

/// Why an object is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyReason {
    /// It is new in the bundle and does not exist.
    Create,
    /// It is new in the bundle, and exists without an owner.
    Adopt,
    /// The bundle has other content for it than was applied.
    Changed,
    /// An earlier apply was begun and never confirmed.
    Unconfirmed,
    /// It was changed on the target.
    Drifted,
    /// All objects are to be applied.
    Requested,
}

/// One object to delete, when the checks on the live object allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// The object; the resource name is empty when the target does not serve the kind.
    pub target: ObjectRef,
    /// The uid under which it was applied; empty when no apply was confirmed.
    pub uid: String,
    /// Whether it may only go when convoy created it and nothing foreign depends on it.
    pub guarded: bool,
    /// Whether convoy created it.
    pub created: bool,
    /// The wave that it was applied in.
    pub wave: i32,
    /// Why.
    pub reason: PruneReason,
}

/// Why an object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneReason {
    /// It left the bundle.
    LeftBundle,
    /// Its Release is deleted.
    ReleaseDeleted,
    /// The target does not serve its kind; when fresh discovery says the same, it is gone.
    KindGone,
    /// It is of a chart's hook that has ended, and whose delete policy says so.
    HookEnded,
}

/// One object that is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The object.
    pub key: ObjectKey,
    /// Why.
    pub reason: KeepReason,
}

/// Why an object is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// What was applied is what is wanted.
    Unchanged,
    /// The manifest asks to ignore it.
    Ignored,
    /// The namespace of `createNamespace` exists already.
    NamespaceExists,
    /// It is only wanted to be there, and it is.
    Exists,
    /// It left the bundle, but the Release does not prune.
    PruneOff,
    /// It left the bundle, but a cluster cannot be without it.
    Protected,
    /// It is gone, and only kept because an unanswered request may still create it.
    MayComeLate,
    /// A chart's hook made it.
    Hook,
}

struct Draft {
    desired: Vec<Desired>,
    hooks: Vec<Hook>,
    kinds: Kinds,
}

/// The objects whose live state a plan depends on: those that are new in the bundle, and those that drifted, since another
/// Release may have taken them. Empty when nothing is new, so that an unchanged Release costs no request.
///
/// # Errors
/// All problems of the bundle.
pub fn keys_to_look_at(input: &Input<'_>) -> Result<Vec<ObjectRef>, Problems> {
    let draft = draft(input)?;
    let entries = by_key(input.inventory);
    let others_change = others_change(input, &entries, &draft.desired);
    let is_new = |object: &Desired| {
        let is_unknown = is_unclaimed(entries.get(&object.target.key).copied());
        !object.ignored
            && kept_unseen(input, &entries, object, others_change).is_none()
            && (is_unknown || object.how == How::IfNotPresent || has_drifted(input, &object.target.key))
    };
    Ok(draft
        .desired
        .iter()
        .filter(|object| is_new(object))
        // What the target does not serve yet cannot be there.
        .filter(|object| {
            let (target, key) = (&object.target, &object.target.key);
            draft.kinds.get(&key.group, &target.version, &key.kind).is_some_and(|fact| !fact.from_bundle)
        })
        .map(|object| object.target.clone())
        .collect())
}

/// Makes the plan.
///
/// # Errors
/// All problems found; then nothing may be applied and nothing pruned.
pub fn plan(input: &Input<'_>) -> Result<Plan, Problems> {
    let Draft { desired, hooks, kinds } = draft(input)?;
    let entries = by_key(input.inventory);
    let mut problems = Vec::new();
    let mut keeps = Vec::new();
    let mut applies: Vec<(bool, Stage, usize, Apply)> = Vec::new();
    let members = desired.iter().filter(|object| !object.ignored);
    let members =
        members.map(|object| Member { wave: object.wave, target: object.target.clone() }).collect::<Vec<_>>();
    let others_change = others_change(input, &entries, &desired);
    let in_bundle: BTreeSet<ObjectKey> = desired.iter().map(|object| object.target.key.clone()).collect();
    for object in desired {
        let key = &object.target.key;
        if let Some(reason) = kept_unseen(input, &entries, &object, others_change) {
            keeps.push(Keep { key: key.clone(), reason });
            continue;
        }
        match apply_reason(input, &entries, &object) {
            Ok(Some(reason)) => {
                let Desired {
                    target, object, digest, left, source, implied, how, recreate, wave, early, ..
                } = object;
                let entry = entries.get(&target.key).copied();
                let is_there = matches!(input.live.get(&target.key), Some(Live::Present(_)));
                let create_only = match how {
                    How::IfNotPresent => !is_there,
                    How::Apply | How::Replace => implied && is_unclaimed(entry) && !is_there,
                };
                let stage = stage_of(&target.key.group, &target.key.kind);
                let rank = rank(&target.key.group, &target.key.kind);
                let uid = match create_only {
                    true => String::new(),
                    false => uid_of(entry, input.live.get(&target.key)),
                };
                let replace = how == How::Replace;
                let live = input.live.get(&target.key);
                // What is written to an object of the Release by hand is not handed over.
                let is_handed_over = !has_drifted(input, &target.key)
                    && matches!(live, Some(Live::Present(live)) if live.is_handed_over);
                // It is created, not applied: a label that is changed would be no drift, one that goes would stay.
                let has_labels = !input.policy.namespace_labels.is_empty();
                let take_over = is_handed_over || (implied && (!create_only || has_labels));
                let apply = Apply {
                    target,
                    object,
                    digest,
                    reason,
                    source,
                    uid,
                    take_over,
                    create_only,
                    replace,
                    recreate,
                    wave,
                    hook: false,
                    left,
                };
                applies.push((!early, stage, rank, apply));
            }
            Ok(None) => {
                let reason = if object.implied { KeepReason::NamespaceExists } else { KeepReason::Exists };
                keeps.push(Keep { key: key.clone(), reason });
            }
            Err(problem) => problems.push(problem),
        }
    }
    let mut prunes = Vec::new();
    for entry in input.inventory.iter().filter(|entry| !in_bundle.contains(&entry.key)) {
        match prune_of(entry, &kinds, PruneReason::LeftBundle) {
            _ if entry.gone => {
                keeps.push(Keep { key: entry.key.clone(), reason: KeepReason::MayComeLate });
            }
            _ if entry.hook && !has_served(entry, &hooks) => {
                keeps.push(Keep { key: entry.key.clone(), reason: KeepReason::Hook });
            }
            Some(_) if !input.policy.prune => {
                keeps.push(Keep { key: entry.key.clone(), reason: KeepReason::PruneOff });
            }
            Some(prune) => prunes.push(prune),
            None => keeps.push(Keep { key: entry.key.clone(), reason: KeepReason::Protected }),
        }
    }
    let applied = there(input.inventory);
    if prunes.len() > LARGE_PRUNE && prunes.len() * 2 > applied && !input.policy.allow_large_prune {
        problems.push(Problem::LargePrune {
            pruned: prunes.len(),
            applied,
            annotation: ALLOW_PRUNE_ANNOTATION,
        });
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    sort_prunes(&mut prunes);
    // The sort is stable: inside a kind the order of the bundle stays.
    applies.sort_by_key(|(late, stage, rank, apply)| (*late, apply.wave, *stage, *rank));
    let mut waves: Vec<Wave> = Vec::new();
    for (late, stage, _, apply) in applies {
        let is_same = |wave: &&mut Wave| (!wave.early, wave.number, wave.stage) == (late, apply.wave, stage);
        match waves.last_mut().filter(is_same) {
            Some(wave) => wave.applies.push(apply),
            None => waves.push(Wave { early: !late, number: apply.wave, stage, applies: vec![apply] }),
        }
    }
    let hooks = Hook::with_entries(hooks, input.inventory, &kinds);
    let digest = plan_digest(&waves, &prunes);
    Ok(Plan { waves, hooks, members, prunes, keeps, digest })
}

impl Apply {
    /// Whether a request of it can create the object. With a uid the target creates nothing.
    pub fn may_create(&self) -> bool {
        self.uid.is_empty() || self.recreate
    }
}

impl Plan {
    /// The plan that removes all that an inventory names, for a Release that is deleted. Guarded and
    /// protected objects are treated as in [`plan`].
    pub fn for_deletion(inventory: &[Entry], kinds: &Kinds, late: LateWrites) -> Plan {
        Self::pruning(inventory.iter(), kinds, late)
    }

    /// The plan that looks for what unanswered requests created after it was seen to be gone, and removes it.
    pub fn for_late_writes(inventory: &[Entry], kinds: &Kinds, late: LateWrites) -> Plan {
        Self::pruning(inventory.iter().filter(|entry| entry.gone), kinds, late)
    }

    fn pruning<'a>(inventory: impl Iterator<Item = &'a Entry>, kinds: &Kinds, late: LateWrites) -> Plan {
        let mut prunes = Vec::new();
        let mut keeps = Vec::new();
        for entry in inventory {
            if entry.gone && late == LateWrites::Possible {
                keeps.push(Keep { key: entry.key.clone(), reason: KeepReason::MayComeLate });
                continue;
            }
            match prune_of(entry, kinds, PruneReason::ReleaseDeleted) {
                Some(prune) => prunes.push(prune),
                None => keeps.push(Keep { key: entry.key.clone(), reason: KeepReason::Protected }),
            }
        }
        sort_prunes(&mut prunes);
        let digest = plan_digest(&[], &prunes);
        Plan { waves: Vec::new(), hooks: Vec::new(), members: Vec::new(), prunes, keeps, digest }
    }

    /// All objects to apply, with their stages, in order.
    pub fn applies(&self) -> impl Iterator<Item = (Stage, &Apply)> {
        self.waves.iter().flat_map(|wave| wave.applies.iter().map(|apply| (wave.stage, apply)))
    }

    /// Whether carrying it out makes no request.
    pub fn is_empty(&self) -> bool {
        self.waves.is_empty() && self.prunes.is_empty()
    }
}

fn draft(input: &Input<'_>) -> Result<Draft, Problems> {
    let mut kinds = input.kinds.clone();
    let (mut desired, mut problems) = normalize(input.rendered, &mut kinds, input.release, input.policy);
    for namespace in desired.iter_mut().filter(|object| object.implied) {
        let entry = input.inventory.iter().find(|entry| entry.key == namespace.target.key);
        // One that was found there is not convoy's to label.
        if entry.is_none_or(|entry| entry.uid.is_empty() || entry.created) {
            problems.extend(label_namespace(namespace, &input.policy.namespace_labels));
        }
    }
    let (hooks, faults) = Hook::all_of(input.hooks, &kinds, input.release, input.policy);
    problems.extend(faults);
    let has_objects = desired.iter().any(|object| !object.implied) || !problems.is_empty();
    let applied = there(input.inventory);
    if !has_objects && applied > 0 {
        problems.push(Problem::EmptyBundle { applied });
    }
    if problems.is_empty() { Ok(Draft { desired, hooks, kinds }) } else { Err(Problems(problems)) }
}

/// How many objects are, or may be, wanted on the target.
fn there(inventory: &[Entry]) -> usize {
    inventory.iter().filter(|entry| !entry.gone && !entry.hook).count()
}

/// Whether a hook's object is of use to nobody: what ran to its end, of a hook that is not in the bundle any more.
fn has_served(entry: &Entry, hooks: &[Hook]) -> bool {
    ends(&entry.key) && !hooks.iter().any(|hook| hook.apply.target.key == entry.key)
}

/// The entries of what is on the target: an object that is gone and comes back is a new one.
fn by_key(inventory: &[Entry]) -> BTreeMap<&ObjectKey, &Entry> {
    inventory.iter().filter(|entry| !entry.gone).map(|entry| (&entry.key, entry)).collect()
}

fn is_unclaimed(entry: Option<&Entry>) -> bool {
    entry.is_none_or(|entry| entry.uid.is_empty())
}

/// The uid that an apply names: that of the entry, or else of the object that was seen.
fn uid_of(entry: Option<&Entry>, live: Option<&Live>) -> String {
    match (entry, live) {
        (Some(entry), _) if !entry.uid.is_empty() => entry.uid.clone(),
        (_, Some(Live::Present(live))) => live.uid.clone(),
        _ => String::new(),
    }
}

fn unchanged_reason(
    input: &Input<'_>,
    entries: &BTreeMap<&ObjectKey, &Entry>,
    object: &Desired,
) -> Option<KeepReason> {
    let entry = entries.get(&object.target.key)?;
    let asked = is_asked(input, &object.target.key);
    let applied =
        !entry.uid.is_empty() && entry.digest == object.digest && entry.version == object.target.version;
    (applied && !asked).then_some(KeepReason::Unchanged)
}

/// Whether objects are to be written that are not only wanted to exist.
fn others_change(input: &Input<'_>, entries: &BTreeMap<&ObjectKey, &Entry>, desired: &[Desired]) -> bool {
    desired.iter().any(|object| {
        !object.implied
            && !object.ignored
            && object.how != How::IfNotPresent
            && unchanged_reason(input, entries, object).is_none()
    })
}

/// Why an object is left as it is without a look at it. What is only wanted to exist is looked for when the bundle
/// is new, or something else is written; else it would be looked for each time.
fn kept_unseen(
    input: &Input<'_>,
    entries: &BTreeMap<&ObjectKey, &Entry>,
    object: &Desired,
    others_change: bool,
) -> Option<KeepReason> {
    let key = &object.target.key;
    let entry = entries.get(key).copied();
    if object.ignored {
        Some(KeepReason::Ignored)
    } else if object.implied && !others_change && entry.is_none() {
        Some(KeepReason::NamespaceExists)
    } else if object.how == How::IfNotPresent {
        let is_settled = match entry {
            Some(entry) => !is_unclaimed(Some(entry)) && !entry.digest.is_empty(),
            None => input.is_begun && !others_change,
        };
        (is_settled && !is_asked(input, key)).then_some(KeepReason::Exists)
    } else {
        unchanged_reason(input, entries, object)
    }
}

/// Whether an object is to be applied although its digest is recorded as applied.
fn is_asked(input: &Input<'_>, key: &ObjectKey) -> bool {
    match &input.policy.reapply {
        Reapply::None => false,
        Reapply::Drifted(keys) => keys.contains(key),
        Reapply::All => true,
        Reapply::AllBut(done) => !done.contains(key),
    }
}

/// Why an object is applied; none when it is only wanted to exist, and does.
fn apply_reason(
    input: &Input<'_>,
    entries: &BTreeMap<&ObjectKey, &Entry>,
    object: &Desired,
) -> Result<Option<ApplyReason>, Problem> {
    let key = &object.target.key;
    let entry = entries.get(key).copied();
    let is_optional = object.how == How::IfNotPresent;
    if let Some(entry) = entry.filter(|entry| !is_unclaimed(Some(entry)) && !is_optional) {
        if has_drifted(input, key)
            && let Some(Live::Present(live)) = input.live.get(key)
            && live.is_labelled_by_convoy
        {
            refuse_others(input, key, live)?;
        }
        return Ok(Some(match &input.policy.reapply {
            _ if entry.digest.is_empty() => ApplyReason::Unconfirmed,
            _ if entry.digest != object.digest => ApplyReason::Changed,
            Reapply::Drifted(keys) if keys.contains(key) => ApplyReason::Drifted,
            Reapply::All | Reapply::AllBut(_) => ApplyReason::Requested,
            Reapply::None | Reapply::Drifted(_) => ApplyReason::Changed,
        }));
    }
    let unconfirmed = if entry.is_some() { ApplyReason::Unconfirmed } else { ApplyReason::Create };
    let Some(Live::Present(live)) = input.live.get(key) else { return Ok(Some(unconfirmed)) };
    match &live.release_uid {
        // It is as convoy made it, or as somebody changed it since.
        Some(uid)
            if *uid == input.release.uid
                && is_optional
                && entry.is_some_and(|entry| entry.uid == live.uid && !entry.digest.is_empty()) =>
        {
            Ok(None)
        }
        Some(uid) if *uid == input.release.uid => Ok(Some(ApplyReason::Unconfirmed)),
        // An implied Namespace is only wanted to exist; several Releases may want the same.
        _ if object.implied || is_optional => Ok(None),
        Some(_) if !input.policy.adopt => refuse_others(input, key, live).map(|()| None),
        None if !input.policy.adopt && is_of_another_helm_release(input, live) => {
            let helm = live.helm_release.clone().unwrap_or_default();
            Err(Problem::OwnedByHelm {
                key: Box::new(key.clone()),
                name: helm.name,
                namespace: helm.namespace,
            })
        }
        _ => Ok(Some(ApplyReason::Adopt)),
    }
}

/// Whether the observer says that an object is not as it was applied.
fn has_drifted(input: &Input<'_>, key: &ObjectKey) -> bool {
    matches!(&input.policy.reapply, Reapply::Drifted(keys) if keys.contains(key))
}

/// Names the other Release that an object bears, unless it may be taken from that.
fn refuse_others(input: &Input<'_>, key: &ObjectKey, live: &LiveObject) -> Result<(), Problem> {
    match &live.release_uid {
        Some(uid) if *uid != input.release.uid && !input.policy.adopt => Err(Problem::OwnedByOther {
            key: key.clone(),
            owner: live.owner.clone().unwrap_or_else(|| format!("the Release with the uid {uid}")),
        }),
        _ => Ok(()),
    }
}

fn is_of_another_helm_release(input: &Input<'_>, live: &LiveObject) -> bool {
    live.helm_release.is_some() && live.helm_release != input.policy.helm_release
}

pub(crate) fn prune_of(entry: &Entry, kinds: &Kinds, reason: PruneReason) -> Option<Prune> {
    let key = &entry.key;
    if key.group.is_empty() && key.kind == "Namespace" && is_protected_namespace(&key.name) {
        return None;
    }
    let served = kinds
        .any_version(&key.group, &key.kind, &entry.version)
        .filter(|(_, fact)| !fact.from_bundle)
        .map(|(version, fact)| (version.to_owned(), fact.plural.clone()));
    let reason = if served.is_some() { reason } else { PruneReason::KindGone };
    let (version, plural) = served.unwrap_or_else(|| (entry.version.clone(), String::new()));
    Some(Prune {
        target: ObjectRef { key: key.clone(), version, plural },
        // What a late request made anew has another uid, and goes as well.
        uid: if entry.unanswered { String::new() } else { entry.uid.clone() },
        guarded: is_guarded(&key.group, &key.kind),
        created: entry.created,
        wave: entry.wave,
        reason,
    })
}

/// Against the order of application, so that what others need goes last.
fn sort_prunes(prunes: &mut [Prune]) {
    prunes.sort_by(|a, b| {
        let place = |prune: &Prune| {
            let key = &prune.target.key;
            (prune.wave, stage_of(&key.group, &key.kind), rank(&key.group, &key.kind))
        };
        place(b).cmp(&place(a)).then_with(|| a.target.key.cmp(&b.target.key))
    });
}

fn plan_digest(waves: &[Wave], prunes: &[Prune]) -> String {
    let mut hash = Sha256::new();
    for apply in waves.iter().flat_map(|wave| &wave.applies) {
        hash.update(format!("apply {} {} {}\n", apply.target.api_version(), apply.target, apply.digest));
    }
    for prune in prunes {
        hash.update(format!("prune {} {}\n", prune.target, prune.uid));
    }
    in_text(&hash.finalize())
}
