//! Asking a target what a plan would do, without effect: every request is a read or a dry run.

use std::collections::{BTreeMap, BTreeSet};

use convoy_api::field_manager;
use convoy_plan::{
    Apply, ApplyReason, Kinds, Mask, Masked, ObjectKey, ObjectRef, Plan, Prune, Sides, Stage, Tried,
};
use futures::StreamExt as _;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::execute::{may_recreate, of_uid};
use crate::prune::would_prune;
use crate::target::DryRun;
use crate::{Class, PruneOptions, RequestError, Target};

const CONCURRENCY: usize = 8;

/// How a plan is tried out.
pub struct TryOptions<'a> {
    /// Whether fields of other field managers are taken over.
    pub force: bool,
    /// The uid of the Release; only objects that carry it are deleted.
    pub release_uid: &'a str,
    /// What the target serves.
    pub kinds: &'a Kinds,
    /// How many objects are asked about at most.
    pub most: usize,
    /// Hides values that came from Secrets.
    pub mask: Mask<'a>,
    /// Whether all that would change is told as lines, too, also of objects that are made or go.
    pub tells_all: bool,
    /// Objects that are asked about at a time by all who ask this target.
    pub turns: &'a Semaphore,
    /// What the target said before, when it would say the same now: it is not asked again.
    pub known: Option<&'a Knows<'a>>,
}

/// Tells what is known of an object.
pub type Knows<'a> = dyn Fn(&Apply) -> Option<Said> + Sync + 'a;

/// What a target said of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// What would become of it; none when that tells nothing.
    pub tried: Option<Tried>,
    /// All that would change.
    pub diff: Masked,
    /// The resourceVersion of what was there; empty when nothing was.
    pub version: String,
}

impl std::fmt::Debug for TryOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TryOptions").field("force", &self.force).finish_non_exhaustive()
    }
}

/// What a target said of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriedOut {
    /// By object; what could not be asked about, or was not, is missing.
    pub objects: BTreeMap<ObjectKey, Tried>,
    /// All that would change, by object, when it was to be told.
    pub diffs: BTreeMap<ObjectKey, Masked>,
    /// What was asked now of objects that are there, with the digests of what is wanted.
    pub said: Vec<(ObjectKey, String, Said)>,
    /// Why the target was not asked about the rest.
    pub stopped: Option<RequestError>,
    /// How many objects were left out for their number.
    pub left_out: usize,
}

/// Asks a target what it would make of a plan. What cannot be asked about is left out: objects of kinds, and in
/// namespaces, that only the plan brings.
pub async fn try_out(target: &Target, plan: &Plan, options: &TryOptions<'_>) -> TriedOut {
    let mut out = TriedOut::default();
    let is_namespace = |key: &ObjectKey| key.group.is_empty() && key.kind == "Namespace";
    let namespaces = plan.members.iter().map(|member| &member.target.key).filter(|key| is_namespace(key));
    let own_namespaces: BTreeSet<&str> = namespaces.map(|key| key.name.as_str()).collect();
    let new_namespaces: BTreeSet<&str> = plan
        .applies()
        .filter(|(stage, apply)| *stage == Stage::Namespaces && apply.reason == ApplyReason::Create)
        .map(|(_, apply)| apply.target.key.name.as_str())
        .collect();
    let can_be_asked = |apply: &&Apply| {
        let (at, key) = (&apply.target, &apply.target.key);
        !new_namespaces.contains(key.namespace.as_str())
            && options.kinds.get(&key.group, &at.version, &key.kind).is_some_and(|fact| !fact.from_bundle)
    };
    let applies = plan.applies().map(|(_, apply)| apply).chain(plan.hooks.iter().map(|hook| &hook.apply));
    let applies: Vec<&Apply> = applies.filter(can_be_asked).collect();
    out.left_out = (applies.len() + plan.prunes.len()).saturating_sub(options.most);
    let shown = applies.get(..options.most).unwrap_or(applies.as_slice());
    let own = &own_namespaces;
    let work: Vec<_> = shown
        .iter()
        .copied()
        .map(|apply| async move {
            if let Some(said) = options.known.and_then(|known| known(apply)) {
                return (apply, false, Ok(said));
            }
            // It is never closed.
            let _turn = options.turns.acquire().await;
            (apply, true, said(target, apply, options, own).await)
        })
        .collect();
    let mut outcomes = futures::stream::iter(work).buffer_unordered(CONCURRENCY);
    while let Some((apply, is_new, outcome)) = outcomes.next().await {
        let key = &apply.target.key;
        match outcome {
            Ok(said) => {
                if is_new && !said.version.is_empty() {
                    out.said.push((key.clone(), apply.digest.clone(), said.clone()));
                }
                out.diffs.insert(key.clone(), said.diff);
                if let Some(tried) = said.tried {
                    out.objects.insert(key.clone(), tried);
                }
            }
            Err(error) => {
                out.stopped = Some(error);
                return out;
            }
        }
    }
    drop(outcomes);
    let rest = options.most.saturating_sub(shown.len());
    let prunes = plan.prunes.get(..rest).unwrap_or(plan.prunes.as_slice());
    for (key, outcome) in
        would_prune(target, prunes, &PruneOptions { release_uid: options.release_uid }).await
    {
        match outcome {
            Ok(None) if options.tells_all => {
                if let Some(diff) = leaving(target, prunes, &key, options).await {
                    out.diffs.insert(key, diff);
                }
            }
            Ok(None) => {}
            Ok(Some(note)) => {
                out.objects.insert(key, Tried::Stays(note.to_string()));
            }
            Err(error) if error.class.concerns_the_whole_target() => {
                out.stopped = Some(error);
                return out;
            }
            Err(error) => {
                out.objects.insert(key, Tried::Refused(error.to_string()));
            }
        }
    }
    out
}

/// All that goes with an object; none when it is not there.
async fn leaving(
    target: &Target,
    prunes: &[Prune],
    key: &ObjectKey,
    options: &TryOptions<'_>,
) -> Option<Masked> {
    let at: &ObjectRef = &prunes.iter().find(|prune| prune.target.key == *key)?.target;
    if at.plural.is_empty() {
        return None;
    }
    let _turn = options.turns.acquire().await;
    let live = target.get(&at.path(), Some(at)).await.ok()?;
    Some(Sides { before: Some(&live), after: None, desired: None }.unified(options.mask))
}

/// What the target says of one object. An error is one of the whole target.
async fn said(
    target: &Target,
    apply: &Apply,
    options: &TryOptions<'_>,
    own_namespaces: &BTreeSet<&str>,
) -> Result<Said, RequestError> {
    let mut live = None;
    let error = match asked(target, apply, options, &mut live).await {
        Ok(said) => return Ok(said),
        Err(error) => error,
    };
    let tried = match &error.class {
        class if class.concerns_the_whole_target() => return Err(error),
        // Another has it, and that is all that is wanted, or it is seen when the hook runs.
        Class::Precondition if apply.create_only => None,
        Class::UidMismatch | Class::NotFound => Some(Tried::Gone),
        Class::NamespaceMissing if own_namespaces.contains(apply.target.key.namespace.as_str()) => {
            Some(Tried::Gone).filter(|_| apply.reason != ApplyReason::Create)
        }
        Class::NamespaceMissing => Some(Tried::Refused(format!(
            "the namespace {} does not exist; create it, or set spec.createNamespace",
            apply.target.key.namespace
        ))),
        // Its definition is new, or went; the plan brings it.
        Class::KindUnknown => None,
        _ if may_recreate(apply, &error) => Some(Tried::Recreated(error.message)),
        _ => Some(Tried::Refused(error.to_string())),
    };
    // What it would be, as far as that is known: as the bundle has it.
    let diff = match &tried {
        Some(Tried::Refused(_)) => Masked::default(),
        _ => told(options, live.as_ref(), &apply.object, &apply.object),
    };
    Ok(Said { tried, diff, version: String::new() })
}

fn told(options: &TryOptions<'_>, before: Option<&Value>, after: &Value, desired: &Value) -> Masked {
    if !options.tells_all {
        return Masked::default();
    }
    Sides { before, after: Some(after), desired: Some(desired) }.unified(options.mask)
}

/// What an apply would make of an object that is there, without effect; what is there goes into `found`. With `force`
/// fields of others are taken over.
///
/// # Errors
/// See [`Class`].
pub async fn would_become(
    target: &Target,
    apply: &Apply,
    force: bool,
    found: &mut Option<Value>,
) -> Result<Value, RequestError> {
    let (at, object) = (&apply.target, of_uid(apply));
    let live = &*found.insert(target.get(&at.path(), Some(at)).await?);
    let object = match &apply.left {
        Some(left) => left.applied(&object, live, field_manager::TARGET),
        None => object.into_owned(),
    };
    target.dry_run(at, &object, DryRun::Apply { force }).await
}

async fn asked(
    target: &Target,
    apply: &Apply,
    options: &TryOptions<'_>,
    found: &mut Option<Value>,
) -> Result<Said, RequestError> {
    let at = &apply.target;
    let made = |after: &Value| Said { diff: told(options, None, after, &apply.object), ..Said::default() };
    if apply.create_only {
        return Ok(made(&target.dry_run(at, &apply.object, DryRun::Create).await?));
    }
    let object = of_uid(apply);
    let how = DryRun::Apply { force: options.force };
    if apply.uid.is_empty() && apply.reason == ApplyReason::Create {
        return Ok(made(&target.dry_run(at, &object, how).await?));
    }
    let after = would_become(target, apply, options.force, found).await?;
    let live = &*found.get_or_insert_default();
    let sides = Sides { before: Some(live), after: Some(&after), desired: Some(&apply.object) };
    let diff = if options.tells_all { sides.unified(options.mask) } else { Masked::default() };
    let version = live["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    Ok(Said { tried: Some(Tried::Taken(sides.changes(options.mask))), diff, version })
}
