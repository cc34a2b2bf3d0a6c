//! Asking a target what a plan would do, without effect: every request is a read or a dry run.

use std::collections::{BTreeMap, BTreeSet};

use convoy_api::field_manager;
use convoy_plan::{Apply, ApplyReason, Changes, Kinds, Mask, ObjectKey, Plan, Stage, Tried};
use futures::StreamExt as _;

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
        .map(|apply| async move { (apply, tried(target, apply, options, own).await) })
        .collect();
    let mut outcomes = futures::stream::iter(work).buffer_unordered(CONCURRENCY);
    while let Some((apply, outcome)) = outcomes.next().await {
        match outcome {
            Ok(Some(tried)) => {
                out.objects.insert(apply.target.key.clone(), tried);
            }
            Ok(None) => {}
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

/// What the target says of one object; none when that tells nothing. An error is one of the whole target.
async fn tried(
    target: &Target,
    apply: &Apply,
    options: &TryOptions<'_>,
    own_namespaces: &BTreeSet<&str>,
) -> Result<Option<Tried>, RequestError> {
    let error = match asked(target, apply, options).await {
        Ok(tried) => return Ok(tried),
        Err(error) => error,
    };
    Ok(match &error.class {
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
    })
}

async fn asked(
    target: &Target,
    apply: &Apply,
    options: &TryOptions<'_>,
) -> Result<Option<Tried>, RequestError> {
    let at = &apply.target;
    if apply.create_only {
        target.dry_run(at, &apply.object, DryRun::Create).await?;
        return Ok(None);
    }
    let object = of_uid(apply);
    let how = DryRun::Apply { force: options.force };
    if apply.uid.is_empty() && apply.reason == ApplyReason::Create {
        target.dry_run(at, &object, how).await?;
        return Ok(None);
    }
    let live = target.get(&at.path(), Some(at)).await?;
    let object = match &apply.left {
        Some(left) => left.applied(&object, &live, field_manager::TARGET),
        None => object.into_owned(),
    };
    let after = target.dry_run(at, &object, how).await?;
    Ok(Some(Tried::Taken(Changes::between(&live, &after, options.mask))))
}
