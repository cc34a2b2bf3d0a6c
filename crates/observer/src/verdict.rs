//! What is to be said of one Release.

use std::collections::BTreeSet;
use std::time::Duration;

use convoy_api::{
    ConditionStatus, DriftMode, DriftedObject, MAX_DRIFTED_FIELDS, MAX_DRIFTED_OBJECTS, field_manager, reason,
};
use convoy_health::{Health, State, summarize};
use convoy_runtime::StoreKey;

use crate::fault::Fault;
use crate::model::{
    Baseline, Delivered, LAG, Model, ObjectName, Outcome, Tested, Tracked, View, WatchedKind,
};

/// What is said of an object that a dry run can tell more of.
const CHANGED: &str = "was changed";
/// What could have been tried again and was not is looked at again after this span: no look follows on the other.
const SOON: Duration = Duration::from_secs(5);
/// Objects that a message names.
const NAMED: usize = 5;
/// Fields of one object that a message names.
const NAMED_FIELDS: usize = 3;

/// What is to be said of one Release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) healthy: Finding,
    /// None when nobody wants to know.
    pub(crate) drifted: Option<Finding>,
    pub(crate) drifted_objects: Vec<DriftedObject>,
    pub(crate) healthy_objects: usize,
    /// Set when all that this bundle holds was seen as it was applied, or after.
    pub(crate) bundle_digest: Option<String>,
    /// The write of objects that this is about, under the same condition.
    pub(crate) apply: Option<String>,
    /// The verdict may become another by time alone: look again after this span.
    pub(crate) look_again: Option<Duration>,
    /// Watches have only begun, or lag behind what was just applied: it is better to say nothing now than to
    /// take back what was said before.
    pub(crate) is_premature: bool,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) status: ConditionStatus,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// One object's part in the verdict.
struct Judged {
    name: String,
    health: Health,
    drift: Option<Drift>,
    /// Why its watch is broken.
    fault: Option<&'static str>,
    /// The watch shows the object as it was applied, or later.
    is_seen: bool,
    /// Time alone will change this.
    is_waiting: bool,
    /// The watch has not shown enough to judge by.
    is_premature: bool,
}

/// How an object drifted.
struct Drift {
    what: &'static str,
    /// Why no dry run confirmed it, and after which span it is tried again.
    doubt: Option<(String, Duration)>,
    object: DriftedObject,
}

impl Judged {
    fn premature(self) -> Self {
        Self { is_premature: true, ..self }
    }
}

/// Judges one Release; nothing when the cluster holds nothing of it.
pub(crate) fn judge(model: &Model, release: &StoreKey, mode: DriftMode, now: Duration) -> Option<Verdict> {
    let delivered = model.delivered(release)?;
    let is_compared = mode != DriftMode::Ignore;
    if let Some(why) = &model.unreachable {
        return Some(unreachable(why, is_compared));
    }
    let objects = delivered.objects.iter().filter(|(_, tracked)| !tracked.is_hook);
    let judged: Vec<Judged> = objects.map(|(id, tracked)| judge_one(model, id, tracked, now)).collect();
    let lag = judged.iter().any(|object| object.is_waiting).then_some(LAG);
    let doubts = judged.iter().filter_map(|object| object.drift.as_ref()?.doubt.as_ref());
    let look_again = doubts.map(|(_, span)| *span).filter(|_| is_compared).chain(lag).min();
    let is_all_seen = judged.iter().all(|object| object.is_seen);
    Some(Verdict {
        healthy: with_hooks(healthy(&judged), ended_hooks(model, delivered)),
        drifted: is_compared.then(|| drifted(&judged)),
        drifted_objects: match is_compared {
            true => {
                let drifts = judged.iter().filter_map(|object| Some(object.drift.as_ref()?.object.clone()));
                drifts.take(MAX_DRIFTED_OBJECTS).collect()
            }
            false => Vec::new(),
        },
        healthy_objects: judged.iter().filter(|object| object.health.state == State::Healthy).count(),
        bundle_digest: digest_of(delivered).filter(|_| is_all_seen),
        apply: delivered.apply.clone().filter(|_| is_all_seen),
        look_again,
        is_premature: judged.iter().any(|object| object.is_premature),
    })
}

/// How each object of a Release is; none when the cluster holds nothing of it.
pub(crate) fn health_of_each(
    model: &Model,
    release: &StoreKey,
    now: Duration,
) -> Option<Vec<(WatchedKind, ObjectName, Health)>> {
    let objects = model.delivered(release)?.objects.iter().filter(|(_, tracked)| !tracked.is_hook);
    let health = |(id, tracked): (&(WatchedKind, ObjectName), &Tracked)| {
        (id.0.clone(), id.1.clone(), judge_one(model, id, tracked, now).health)
    };
    Some(objects.map(health).collect())
}

/// The objects of a Release that seem to have been changed and that no dry run was made of as they are, with their
/// versions; as many as are told of.
pub(crate) fn suspects(
    model: &Model,
    release: &StoreKey,
    now: Duration,
) -> Vec<((WatchedKind, ObjectName), String)> {
    let delivered = model.delivered(release).into_iter();
    let objects = delivered.flat_map(|delivered| &delivered.objects).filter(|(_, tracked)| !tracked.is_hook);
    let suspected = objects.filter_map(|(id, tracked)| {
        let View::Present(seen) = model.view(&id.0, &id.1) else { return None };
        let version = &seen.resource_version;
        let is_tested = tracked.tested.as_ref().is_some_and(|tested| tested.holds(version, now));
        let is_suspected =
            !is_tested && judge_one(model, id, tracked, now).drift.is_some_and(|drift| drift.what == CHANGED);
        is_suspected.then(|| (id.clone(), version.clone()))
    });
    suspected.take(MAX_DRIFTED_OBJECTS).collect()
}

impl Tested {
    /// Whether it still says something of that version.
    fn holds(&self, version: &str, now: Duration) -> bool {
        let is_over = matches!(self.outcome, Outcome::Untried { until, .. } if until <= now);
        self.version == version && !is_over
    }
}

fn digest_of(delivered: &Delivered) -> Option<String> {
    Some(delivered.bundle_digest.clone()).filter(|digest| !digest.is_empty())
}

fn unreachable(why: &str, is_compared: bool) -> Verdict {
    let finding = || Finding {
        status: ConditionStatus::Unknown,
        reason: reason::CLUSTER_UNREACHABLE,
        message: format!("the cluster cannot be watched: {why}"),
    };
    Verdict {
        healthy: finding(),
        drifted: is_compared.then(finding),
        drifted_objects: Vec::new(),
        healthy_objects: 0,
        bundle_digest: None,
        apply: None,
        look_again: None,
        is_premature: false,
    }
}

fn judge_one(model: &Model, id: &(WatchedKind, ObjectName), tracked: &Tracked, now: Duration) -> Judged {
    let (kind, object) = id;
    let (namespace, name) = object;
    let slash = if namespace.is_empty() { "" } else { "/" };
    let drift_of = |what: &'static str, manager: Option<&str>, fields: Vec<String>| {
        let object = DriftedObject {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            manager: manager.map(str::to_owned),
            fields,
        };
        Some(Drift { what, doubt: None, object })
    };
    let drift = |what: &'static str| drift_of(what, None, Vec::new());
    let judged = |health: Health, drift: Option<Drift>, is_seen: bool, is_waiting: bool| Judged {
        name: format!("{} {namespace}{slash}{name}", kind.kind),
        health,
        drift,
        fault: None,
        is_seen,
        is_waiting,
        is_premature: false,
    };
    // The watch may not have shown yet what was applied a moment ago.
    let may_lag = tracked.baseline == Baseline::None && now.saturating_sub(tracked.since) < LAG;
    match model.view(kind, object) {
        View::Broken(fault) => {
            let health = Health::unknown(format!("{kind} cannot be watched ({fault})"));
            Judged { fault: Some(fault.reason), ..judged(health, None, false, false) }
        }
        View::NotYet => judged(Health::unknown("it was not looked at yet"), None, false, false).premature(),
        View::Absent if !tracked.is_applied() => {
            judged(Health::unknown("it is being applied"), None, false, false)
        }
        View::Absent if may_lag => {
            judged(Health::unknown("it was not seen yet"), None, false, true).premature()
        }
        View::Absent => judged(Health::missing(), drift("was deleted"), true, false),
        View::Present(seen) if !tracked.is_applied() => judged(seen.health.clone(), None, false, false),
        View::Present(seen)
            if may_lag && (seen.uid != tracked.uid || tracked.is_before_apply(&seen.resource_version)) =>
        {
            judged(Health::unknown("it was not seen as it was applied yet"), None, false, true).premature()
        }
        View::Present(seen) if seen.uid != tracked.uid => {
            judged(seen.health.clone(), drift("was deleted and made again"), true, false)
        }
        // It is being listed anew.
        View::Present(seen) if !model.is_seen_with_rules(kind, object, seen) => {
            judged(seen.health.clone(), None, false, false).premature()
        }
        View::Present(seen) => {
            let changes = match &tracked.baseline {
                Baseline::Fields(owned) if owned.is_changed(&seen.owned) => {
                    Some(owned.changes(&seen.owned, MAX_DRIFTED_FIELDS))
                }
                Baseline::None | Baseline::Fields(_) => None,
                Baseline::Doubtful => Some(Vec::new()),
            };
            let writer = seen.last_writer.as_deref();
            let mut change = changes.and_then(|fields| drift_of(CHANGED, writer, fields));
            let tested = tracked.tested.as_ref().filter(|tested| tested.version == seen.resource_version);
            match (&mut change, tested.map(|tested| &tested.outcome)) {
                (Some(change), Some(Outcome::Confirmed(fields))) => change.object.fields.clone_from(fields),
                (Some(change), Some(Outcome::Untried { why, until })) => {
                    change.doubt = Some((why.clone(), until.saturating_sub(now).max(SOON)));
                }
                _ => {}
            }
            judged(seen.health.clone(), change, true, false)
        }
    }
}

fn healthy(judged: &[Judged]) -> Finding {
    let summary = summarize(judged.iter().map(|object| (object.name.as_str(), &object.health)));
    let (status, reason) = match summary.state {
        State::Healthy | State::Suspended => (ConditionStatus::True, reason::HEALTHY),
        State::Unknown => (ConditionStatus::Unknown, why_unknown(judged)),
        State::Progressing => (ConditionStatus::False, reason::PROGRESSING),
        State::Missing => (ConditionStatus::False, reason::MISSING),
        State::Degraded => (ConditionStatus::False, reason::DEGRADED),
    };
    Finding { status, reason, message: summary.message }
}

/// What keeps objects from being seen.
fn why_unknown(judged: &[Judged]) -> &'static str {
    Fault::worst(judged.iter().filter_map(|object| object.fault)).unwrap_or(reason::UNKNOWN)
}

/// How many objects of hooks have ended while a hook is waited for.
fn ended_hooks(model: &Model, delivered: &Delivered) -> usize {
    let has_ended = |((kind, object), tracked): &(&(WatchedKind, ObjectName), &Tracked)| {
        let view = model.view(kind, object);
        // Another uid, or none yet: it is that of an earlier run.
        tracked.is_hook && matches!(view, View::Present(seen) if seen.has_ended && seen.uid == tracked.uid)
    };
    delivered.objects.iter().filter(has_ended).count()
}

/// Says it, so that the status changes and who waits for the hook looks: it is no part of the health.
fn with_hooks(finding: Finding, ended: usize) -> Finding {
    match ended {
        0 => finding,
        ended => {
            Finding { message: format!("{}; hooks that have ended: {ended}", finding.message), ..finding }
        }
    }
}

fn drifted(judged: &[Judged]) -> Finding {
    let in_words = |object: &Judged| {
        let Drift { what, doubt, object: drifted } = object.drift.as_ref()?;
        let by = drifted.manager.as_ref().map(|manager| {
            format!(" by the field manager {manager:?} after {:?} applied it", field_manager::TARGET)
        });
        let fields = match drifted.fields.as_slice() {
            [] => String::new(),
            fields => {
                let named =
                    fields.iter().take(NAMED_FIELDS).map(String::as_str).collect::<Vec<_>>().join(", ");
                format!(" at {named}{}", if fields.len() > NAMED_FIELDS { " and more" } else { "" })
            }
        };
        let doubt = doubt.as_ref().map(|(why, _)| format!(" (no dry run has confirmed it: {why})"));
        let (by, doubt) = (by.unwrap_or_default(), doubt.unwrap_or_default());
        Some(format!("{} {what}{fields}{by}{doubt}", object.name))
    };
    let mut changes: Vec<String> = judged.iter().filter_map(in_words).collect();
    if !changes.is_empty() {
        let more = changes.len().saturating_sub(NAMED);
        changes.truncate(NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        return Finding {
            status: ConditionStatus::True,
            reason: reason::CHANGED_ON_TARGET,
            message: format!("{}{more}", changes.join("; ")),
        };
    }
    let unseen = judged.iter().filter(|object| !object.is_seen).count();
    if unseen > 0 {
        let broken: BTreeSet<&str> = judged
            .iter()
            .filter(|object| object.fault.is_some())
            .map(|o| o.health.message.as_str())
            .collect();
        let mut message =
            format!("{unseen} of {} objects were not seen as they were applied yet", judged.len());
        for (index, why) in broken.iter().take(NAMED).enumerate() {
            message.push_str(if index == 0 { ": " } else { "; " });
            message.push_str(why);
        }
        return Finding { status: ConditionStatus::Unknown, reason: why_unknown(judged), message };
    }
    Finding {
        status: ConditionStatus::False,
        reason: reason::IN_SYNC,
        message: format!("{} objects are as they were applied", judged.len()),
    }
}

#[cfg(test)]
mod tests;
