//! Carrying out the waves of a plan.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use convoy_api::field_manager;
use convoy_plan::{Apply, ApplyReason, Fate, LeftAlone, Live, ObjectKey, ObjectRef, Plan, Stage};
use futures::StreamExt as _;
use serde_json::Value;
use tokio::time::Instant;

use crate::{Applied, Class, LiveMeta, RequestError, Target};

/// How many objects of a wave are applied at a time.
const CONCURRENCY: usize = 8;
/// How often an object of a kind that was just Established is tried again when its API server does
/// not serve it yet: of several API servers each learns of it in its own time.
const FRESH_KIND_TRIES: u32 = 20;
const FRESH_KIND_PAUSE: Duration = Duration::from_millis(250);
/// How often an object that changes while it is to be replaced is looked at again.
const REPLACE_TRIES: u32 = 4;
/// How often an object of which something is left alone is looked at again because it changed meanwhile: its controllers
/// may be about to write to it.
const LEFT_ALONE_TRIES: u32 = 8;
const FIRST_RECREATE_PAUSE: Duration = Duration::from_millis(20);

/// How a plan is applied.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions {
    /// Whether fields of other field managers are taken over.
    pub force: bool,
    /// How long to wait for CustomResourceDefinitions.
    pub establish_patience: Duration,
    /// How long to wait for an object to go that is to be made anew.
    pub recreate_patience: Duration,
}

/// A request of a plan that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The object.
    pub key: ObjectKey,
    /// The file it came from; empty for a prune.
    pub source: String,
    /// What went wrong.
    pub error: RequestError,
}

/// What became of the objects of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By object; objects that were not tried are missing.
    pub fates: BTreeMap<ObjectKey, Fate>,
    /// What went wrong.
    pub failures: Vec<Failure>,
    /// How many objects were not tried because of a failure.
    pub not_tried: usize,
}

impl Report {
    /// Whether all went well.
    pub fn is_success(&self) -> bool {
        self.failures.is_empty() && self.not_tried == 0
    }

    /// Whether nothing but another revision can help.
    pub fn is_terminal(&self) -> bool {
        !self.failures.is_empty() && self.failures.iter().all(|failure| failure.error.class.is_terminal())
    }

    /// Whether objects that were to be changed were not there, and the target can be asked to create them: the next
    /// plan does.
    pub fn has_gone(&self) -> bool {
        self.failures.iter().any(|failure| failure.error.class == Class::UidMismatch)
            && !self.failures.iter().any(|failure| failure.error.class.concerns_the_whole_target())
    }

    fn fail(&mut self, apply: &Apply, error: RequestError) {
        let fate = match &error.class {
            Class::UidMismatch => Fate::Gone,
            class if class.is_unanswered() => Fate::Failed,
            _ => Fate::Refused,
        };
        self.fates.insert(apply.target.key.clone(), fate);
        self.failures.push(Failure { key: apply.target.key.clone(), source: apply.source.clone(), error });
    }
}

/// Looks at the live state of objects.
///
/// # Errors
/// The first that failed.
pub async fn look(
    target: &Target,
    objects: Vec<ObjectRef>,
) -> Result<BTreeMap<ObjectKey, Live>, (ObjectKey, RequestError)> {
    let work: Vec<_> = objects
        .into_iter()
        .map(|at| async move {
            let live = target.look(&at).await;
            (at.key, live)
        })
        .collect();
    let mut looks = futures::stream::iter(work).buffer_unordered(CONCURRENCY);
    let mut found = BTreeMap::new();
    while let Some((key, live)) = looks.next().await {
        match live {
            Ok(live) => found.insert(key, live),
            Err(error) => return Err((key, error)),
        };
    }
    Ok(found)
}

/// Applies the waves of a plan in order. An object that fails does not hold back the others, unless
/// they need it (its namespace, its kind) or would fare the same (the target is gone). The first
/// object goes alone, so that a release that is forbidden altogether changes nothing.
pub async fn apply_waves(target: &Target, plan: &Plan, options: &ApplyOptions) -> Report {
    let mut report = Report::default();
    let total = plan.applies().count();
    let mut tried = 0;
    let mut missing = Missing::default();
    let fresh_kinds: BTreeSet<(String, String)> = plan
        .applies()
        .filter(|(stage, _)| *stage == Stage::Definitions)
        .filter_map(|(_, apply)| kind_of_definition(apply))
        .collect();
    for wave in &plan.waves {
        let (ready, blocked): (Vec<&Apply>, Vec<&Apply>) =
            wave.applies.iter().partition(|apply| !missing.blocks(&apply.target.key));
        tracing::debug!(stage = ?wave.stage, objects = ready.len(), blocked = blocked.len(), "applying a wave");
        let (first, rest) = match ready.split_first() {
            Some((first, rest)) if tried == 0 => (Some(*first), rest),
            _ => (None, ready.as_slice()),
        };
        for group in [first.as_slice(), rest] {
            tried += apply_group(target, group, options, &fresh_kinds, &mut report).await;
            if must_stop(&report, tried) {
                report.not_tried = total - tried;
                return report;
            }
        }
        if wave.stage == Stage::Definitions {
            await_definitions(target, &ready, options, &mut report).await;
        }
        missing.learn(&ready, &report);
    }
    report.not_tried = total - tried;
    report
}

/// Whether the rest would fare the same.
fn must_stop(report: &Report, tried: usize) -> bool {
    report.failures.iter().any(|failure| failure.error.class.concerns_the_whole_target())
        || (tried == 1 && report.failures.iter().any(|failure| failure.error.class == Class::Forbidden))
}

/// Applies objects that do not depend on each other; answers with how many were tried.
async fn apply_group(
    target: &Target,
    group: &[&Apply],
    options: &ApplyOptions,
    fresh_kinds: &BTreeSet<(String, String)>,
    report: &mut Report,
) -> usize {
    let mut tried = 0;
    let begun: Vec<AtomicBool> = group.iter().map(|_| AtomicBool::new(false)).collect();
    let work: Vec<_> = group
        .iter()
        .copied()
        .zip(&begun)
        .map(|(apply, begun)| async move {
            begun.store(true, Ordering::Relaxed);
            let key = &apply.target.key;
            let is_fresh = fresh_kinds.contains(&(key.group.clone(), key.kind.clone()));
            (apply, apply_one(target, apply, options, is_fresh).await)
        })
        .collect();
    let mut applies = futures::stream::iter(work).buffered(CONCURRENCY);
    while let Some((apply, outcome)) = applies.next().await {
        tried += 1;
        match outcome {
            // Another made it in between, and has what was wanted of it. When an earlier request may have made it, the
            // next look says whose it is.
            Err(error)
                if apply.create_only
                    && apply.reason == ApplyReason::Create
                    && error.class == Class::Precondition =>
            {
                report.fates.insert(apply.target.key.clone(), Fate::Forgotten);
            }
            Ok((Applied { uid, resource_version, created }, is_whole)) => {
                // Without a digest the next plan applies it.
                let digest = if is_whole { apply.digest.clone() } else { String::new() };
                let fate = Fate::Applied { uid, digest, resource_version, created };
                report.fates.insert(apply.target.key.clone(), fate);
            }
            Err(error) => {
                let stop = error.class.concerns_the_whole_target();
                report.fail(apply, error);
                if stop {
                    break;
                }
            }
        }
    }
    drop(applies);
    // What is under way is given up, but may still reach the target.
    for (apply, begun) in group.iter().zip(&begun) {
        if begun.load(Ordering::Relaxed) {
            report.fates.entry(apply.target.key.clone()).or_insert(Fate::Failed);
        }
    }
    tried
}

/// Applies one object; says whether that was all that is to be done about it.
async fn apply_one(
    target: &Target,
    apply: &Apply,
    options: &ApplyOptions,
    is_fresh: bool,
) -> Result<(Applied, bool), RequestError> {
    if !apply.create_only {
        return Ok((apply_existing(target, apply, options, is_fresh).await?, true));
    }
    let created = target.create(&apply.target, &apply.object).await?;
    if !apply.take_over {
        return Ok((created, true));
    }
    // What was created is nobody's to keep: only once it is applied it is convoy's.
    let existing = Apply { uid: created.uid.clone(), create_only: false, ..apply.clone() };
    match apply_existing(target, &existing, options, is_fresh).await {
        Ok(applied) => Ok((Applied { created: true, ..applied }, true)),
        // That it was created is not forgotten.
        Err(_) => Ok((created, false)),
    }
}

async fn apply_existing(
    target: &Target,
    apply: &Apply,
    options: &ApplyOptions,
    is_fresh: bool,
) -> Result<Applied, RequestError> {
    if apply.take_over {
        take_over(target, apply).await?;
    }
    let left = apply.left.as_ref().filter(|_| !apply.uid.is_empty());
    let mut looks_left = LEFT_ALONE_TRIES;
    let mut tries_left = if is_fresh { FRESH_KIND_TRIES } else { 0 };
    loop {
        if apply.replace && !apply.uid.is_empty() {
            match replace(target, apply).await {
                Ok(()) => {}
                Err(error) if may_recreate(apply, &error) => return recreate(target, apply, options).await,
                Err(error) => return Err(error),
            }
        }
        let object = match left {
            Some(left) => Cow::Owned(around(target, apply, left).await?),
            None => of_uid(apply),
        };
        match target.apply(&apply.target, &object, options.force).await {
            // It changed since it was looked at: what is left alone may be something else.
            Err(error) if left.is_some() && error.class == Class::Precondition && looks_left > 0 => {
                looks_left -= 1;
            }
            Err(error) if error.class == Class::KindUnknown && tries_left > 0 => {
                tries_left -= 1;
                tokio::time::sleep(FRESH_KIND_PAUSE).await;
            }
            Err(error) if may_recreate(apply, &error) => return recreate(target, apply, options).await,
            outcome => return outcome,
        }
    }
}

pub(crate) fn may_recreate(apply: &Apply, error: &RequestError) -> bool {
    let key = &apply.target.key;
    // With these all that is in them, or is of them, would go.
    let holds_others = matches!(key.kind.as_str(), "Namespace" | "CustomResourceDefinition");
    apply.recreate && !holds_others && error.class == Class::Invalid { immutable: true }
}

/// The object that an apply is of.
async fn meant(target: &Target, apply: &Apply) -> Result<LiveMeta, RequestError> {
    match target.metadata(&apply.target).await? {
        Some(live) if live.uid == apply.uid || apply.uid.is_empty() => Ok(live),
        _ => Err(RequestError::new(Class::UidMismatch, "it was deleted, or made anew, meanwhile".to_owned())),
    }
}

/// Makes the fields convoy's own that earlier tools wrote, so that the apply that follows removes those that are not
/// wanted.
async fn take_over(target: &Target, apply: &Apply) -> Result<(), RequestError> {
    let mut tries_left = REPLACE_TRIES;
    loop {
        let live = meant(target, apply).await?;
        let Some(fields) = &live.taken_over else { return Ok(()) };
        match target.set_managed_fields(&apply.target, &live.resource_version, fields).await {
            // It changed since: look again.
            Err(error) if error.class == Class::Precondition && tries_left > 0 => tries_left -= 1,
            outcome => return outcome,
        }
    }
}

/// What is sent of an object that is there and of which something is left alone. It names the version that was looked
/// at, so that nothing is taken back that another writes meanwhile.
async fn around(target: &Target, apply: &Apply, left: &LeftAlone) -> Result<Value, RequestError> {
    let live = whole(target, apply).await?;
    let mut object = left.applied(&apply.object, &live, field_manager::TARGET);
    object["metadata"]["uid"] = live["metadata"]["uid"].clone();
    object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    Ok(object)
}

/// The object that an apply is of, with all its fields.
async fn whole(target: &Target, apply: &Apply) -> Result<Value, RequestError> {
    let gone = || RequestError::new(Class::UidMismatch, "it was deleted, or made anew, meanwhile".to_owned());
    match target.get(&apply.target.path(), Some(&apply.target)).await {
        Ok(live) if live["metadata"]["uid"] == apply.uid.as_str() => Ok(live),
        Ok(_) => Err(gone()),
        Err(error) if matches!(error.class, Class::NotFound | Class::NamespaceMissing) => Err(gone()),
        Err(error) => Err(error),
    }
}

/// Replaces what others added. The server-side apply that follows makes the fields convoy's own.
async fn replace(target: &Target, apply: &Apply) -> Result<(), RequestError> {
    let mut tries_left = REPLACE_TRIES;
    loop {
        let mut object = apply.object.clone();
        match &apply.left {
            Some(left) => {
                let live = whole(target, apply).await?;
                object = left.replaced(&object, &live);
                object["metadata"]["uid"] = live["metadata"]["uid"].clone();
                object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            }
            None => {
                let live = meant(target, apply).await?;
                object["metadata"]["uid"] = live.uid.into();
                object["metadata"]["resourceVersion"] = live.resource_version.into();
            }
        }
        match target.replace(&apply.target, &object).await {
            // It changed since: look again.
            Err(error) if error.class == Class::Precondition && tries_left > 0 => tries_left -= 1,
            Err(error) if error.class == Class::NotFound => {
                return Err(RequestError { class: Class::UidMismatch, ..error });
            }
            outcome => return outcome.map(|_| ()),
        }
    }
}

/// Deletes the object and makes it anew once it is gone. A crash in between loses nothing: the next plan finds it
/// gone, and creates it.
async fn recreate(target: &Target, apply: &Apply, options: &ApplyOptions) -> Result<Applied, RequestError> {
    let mut live = meant(target, apply).await?;
    let deadline = Instant::now() + options.recreate_patience;
    let mut pause = FIRST_RECREATE_PAUSE;
    let mut is_deleted = live.terminating;
    loop {
        if !is_deleted {
            match target.delete(&apply.target, &live).await {
                Ok(()) => is_deleted = true,
                Err(error) if error.class == Class::NotFound => break,
                // It changed since it was looked at.
                Err(error) if error.class == Class::Precondition && Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
        match target.metadata(&apply.target).await? {
            Some(found) if found.uid == live.uid => live = found,
            _ => break,
        }
        if Instant::now() + pause > deadline {
            let message = format!(
                "a field that cannot change was changed; the object is being deleted to be made anew, and is still \
                 there after {} s: see its finalizers",
                options.recreate_patience.as_secs()
            );
            return Err(RequestError::new(Class::Denied, message));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
    target.apply(&apply.target, &apply.object, options.force).await
}

/// The object with the uid that it is to have, so that an apply that arrives late, when the object is gone, creates
/// none.
pub(crate) fn of_uid(apply: &Apply) -> Cow<'_, Value> {
    if apply.uid.is_empty() {
        return Cow::Borrowed(&apply.object);
    }
    let mut object = apply.object.clone();
    object["metadata"]["uid"] = apply.uid.as_str().into();
    Cow::Owned(object)
}

async fn await_definitions(target: &Target, applied: &[&Apply], options: &ApplyOptions, report: &mut Report) {
    let waits = applied
        .iter()
        .filter(|apply| matches!(report.fates.get(&apply.target.key), Some(Fate::Applied { .. })))
        .map(|apply| async move {
            (*apply, target.await_established(&apply.target, options.establish_patience).await)
        });
    for (apply, outcome) in futures::future::join_all(waits).await {
        if let Err(error) = outcome {
            report.fail(apply, error);
        }
    }
}

/// The kind that a CustomResourceDefinition brings, as (group, kind).
fn kind_of_definition(apply: &Apply) -> Option<(String, String)> {
    let text = |pointer| apply.object.pointer(pointer).and_then(serde_json::Value::as_str).map(str::to_owned);
    Some((text("/spec/group")?, text("/spec/names/kind")?))
}

/// What later waves cannot do without and is not there.
#[derive(Default)]
struct Missing {
    namespaces: BTreeSet<String>,
    kinds: BTreeSet<(String, String)>,
}

impl Missing {
    fn learn(&mut self, applied: &[&Apply], report: &Report) {
        for apply in applied {
            if matches!(report.fates.get(&apply.target.key), Some(Fate::Applied { .. } | Fate::Forgotten)) {
                continue;
            }
            let key = &apply.target.key;
            if key.group.is_empty() && key.kind == "Namespace" {
                self.namespaces.insert(key.name.clone());
            } else if key.kind == "CustomResourceDefinition" {
                self.kinds.extend(kind_of_definition(apply));
            }
        }
    }

    fn blocks(&self, key: &ObjectKey) -> bool {
        self.namespaces.contains(&key.namespace)
            || self.kinds.contains(&(key.group.clone(), key.kind.clone()))
    }
}
