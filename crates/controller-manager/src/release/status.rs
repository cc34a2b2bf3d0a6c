//! What the status of a Release says. Pure.

use std::time::Duration;

use convoy_api::{
    ClusterReference, ConditionStatus, FailureStatus, HistoryEntry, Outcome, PlanStatus, Release,
    ReleaseStatus, RollbackStatus, WriterStatus, annotation, condition_type, reason, set_condition,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::decide::HealthGate;
use super::deliver::Waiting;
use super::failure;
use crate::sources::Unresolved;

mod fields;

pub(crate) use fields::{is_shown_older, known, owned};

/// The longest notes of a chart that a status holds, in bytes; the bundle holds them whole.
const LONGEST_NOTES: usize = 16 * 1024;
/// The longest text about what a delivery waits for, in bytes.
const LONGEST_WAIT: usize = 4096;

/// The beginning of a text that may be longer than a status should hold.
fn beginning(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// How far a look at a Release came, and what stopped it.
#[derive(Debug)]
pub(crate) enum Reached {
    /// Nothing is done on purpose.
    Suspended { message: String },
    /// Something the spec names is not there or not ready.
    Resolved { reason: &'static str, message: String, is_terminal: bool },
    /// There is no bundle.
    Rendered { revision: String, reason: &'static str, message: String, is_terminal: bool },
    /// A delivery that failed waits for its turn, or for ever: nothing is new.
    Held,
    /// The bundle is not, or not wholly, on the target.
    Planned { bundle: BundleFacts, reason: &'static str, message: String, is_terminal: bool, course: Course },
    /// A part of the bundle is on the target, and the rest waits.
    Between { bundle: BundleFacts, waiting: Waiting, course: Course },
    /// The bundle is on the target.
    Applied { bundle: BundleFacts, gate: HealthGate, message: String, course: Course },
    /// The Release is being deleted, and something is in the way.
    Deleting { reason: &'static str, message: String },
}

/// What stands in the status of failures and rollbacks after a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Course {
    pub(crate) failure: Option<Box<FailureStatus>>,
    pub(crate) rollback: Option<Box<RollbackStatus>>,
}

impl Course {
    pub(crate) fn of(status: &ReleaseStatus) -> Self {
        Self { failure: status.failure.clone(), rollback: status.rollback.clone() }
    }
}

/// Why the source gives no bundle, while an earlier one is worked on.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// The revision that does not render.
    pub(crate) revision: Option<String>,
    pub(crate) is_terminal: bool,
}

/// A bundle that was tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct BundleFacts {
    pub(crate) revision: String,
    pub(crate) digest: String,
    pub(crate) notes: Option<String>,
    pub(crate) objects: usize,
    pub(crate) inventories: Vec<String>,
    /// Whether something was written to the target now.
    pub(crate) is_fresh: bool,
    /// Namespace on the target of objects that name none.
    pub(crate) namespace: String,
    /// The revision in the history that is gone back to.
    pub(crate) rollback_to: Option<i64>,
    /// Why it is not the source's newest.
    pub(crate) trouble: Option<Trouble>,
    /// Names the last write of objects.
    pub(crate) apply: Option<String>,
    /// The Cluster that it goes to.
    pub(crate) cluster: Option<ClusterReference>,
    /// Who changes again and again what is put right.
    pub(crate) fight: Option<String>,
}

impl BundleFacts {
    /// Whether an entry of the history is about this delivery.
    fn is_of(&self, entry: &HistoryEntry) -> bool {
        // The same bundle in another namespace is another delivery: going back there goes back to that namespace. So is the
        // same on another cluster.
        let is_there = entry.target_namespace.as_deref().unwrap_or_default() == self.namespace
            && entry.cluster_ref.as_ref().is_none_or(|cluster| self.cluster.as_ref() == Some(cluster));
        entry.bundle_digest == self.digest && entry.rollback_to == self.rollback_to && is_there
    }
}

/// The status after `old`.
pub(crate) fn next(
    release: &Release,
    old: &ReleaseStatus,
    reached: &Reached,
    writer: &WriterStatus,
    now: Timestamp,
) -> ReleaseStatus {
    let generation = release.metadata.generation.unwrap_or_default();
    let (mut new, _) = failure::renewed(release, old);
    let last_look_time = last_look(release, old.controller.as_ref(), writer, now);
    new.controller = Some(WriterStatus { last_look_time: Some(last_look_time), ..writer.clone() });
    if matches!(reached, Reached::Planned { .. } | Reached::Between { .. } | Reached::Applied { .. }) {
        let annotations = release.metadata.annotations.as_ref();
        new.last_handled_force_at = annotations.and_then(|all| all.get(annotation::FORCE_AT)).cloned();
    }
    if !matches!(reached, Reached::Held) {
        new.plan = None;
    }
    let mut say = Conditions { new: &mut new, generation, now };
    match reached {
        Reached::Suspended { message } => {
            say.clear(&[condition_type::RECONCILING, condition_type::STALLED]);
            say.set(condition_type::READY, ConditionStatus::False, reason::SUSPENDED, message);
        }
        Reached::Resolved { reason, message, is_terminal } => say.failed(reason, message, *is_terminal),
        Reached::Rendered { revision, reason, message, is_terminal } => {
            say.set(condition_type::RENDERED, ConditionStatus::False, reason, message);
            say.failed(reason, message, *is_terminal);
            new.last_attempted_revision = Some(revision.clone());
        }
        Reached::Held => {}
        Reached::Planned { bundle, reason, message, is_terminal, course } => {
            say.source(bundle);
            say.set(condition_type::APPLIED, ConditionStatus::False, reason, message);
            new.objects = i64::try_from(bundle.objects).ok();
            new.inventories.clone_from(&bundle.inventories);
            record(&mut new.history, bundle, Outcome::Failed, message, now);
            take(&mut new, course);
            let mut say = Conditions { new: &mut new, generation, now };
            match (bundle.rollback_to, &course.rollback) {
                (Some(to), _) => {
                    say.failed(reason, &format!("going back to revision {to}: {message}"), *is_terminal);
                }
                (None, Some(rollback)) => say.goes_back(rollback),
                (None, None) => say.failed(reason, message, *is_terminal),
            }
        }
        Reached::Between { bundle, waiting, course } => {
            say.source(bundle);
            let outcome = between(&mut say, bundle, waiting);
            let message = match &waiting.gate {
                HealthGate::Closed { message, .. } | HealthGate::Waiting { message, .. } => message.as_str(),
                HealthGate::Open | HealthGate::Unknown { .. } => "",
            };
            let waits_for = beginning(message, LONGEST_WAIT);
            let (next, remaining) = (waiting.step.clone(), waiting.remaining.clone());
            new.plan = Some(Box::new(PlanStatus { next, remaining, waits_for }));
            record(&mut new.history, bundle, outcome, message, now);
            take(&mut new, course);
            if bundle.rollback_to.is_some() {
                Conditions { new: &mut new, generation, now }.goes_back_now(message);
            }
        }
        Reached::Applied { bundle, gate, message, course } => {
            say.source(bundle);
            let outcome = match gate {
                HealthGate::Open => Outcome::Succeeded,
                HealthGate::Closed { is_over: true, .. } => Outcome::Failed,
                HealthGate::Waiting { .. } | HealthGate::Unknown { .. } | HealthGate::Closed { .. } => {
                    Outcome::Progressing
                }
            };
            let said = match gate {
                HealthGate::Closed { message, .. } => message.as_str(),
                _ => message.as_str(),
            };
            record(&mut new.history, bundle, outcome, said, now);
            take(&mut new, course);
            applied(&mut Conditions { new: &mut new, generation, now }, bundle, gate, message);
        }
        Reached::Deleting { reason, message } => {
            say.clear(&[condition_type::STALLED]);
            say.set(condition_type::READY, ConditionStatus::False, reason, message);
            say.set(
                condition_type::RECONCILING,
                ConditionStatus::True,
                reason::DELETING,
                "the Release is being deleted",
            );
        }
    }
    failure::bounded(&mut new.history, release.spec.history_limit());
    new
}

/// Takes over what stands of failures and rollbacks. The failed delivery has its revision now.
fn take(new: &mut ReleaseStatus, course: &Course) {
    new.rollback.clone_from(&course.rollback);
    new.failure.clone_from(&course.failure);
    let newest = new.history.first();
    if let (Some(failure), Some(newest)) = (&mut new.failure, newest)
        && failure.revision == 0
        && failure.bundle_digest == newest.bundle_digest
    {
        failure.revision = newest.revision;
    }
}

/// Says that the source cannot be looked at anew, or takes that back.
pub(crate) fn fetched(
    status: &mut ReleaseStatus,
    trouble: Option<&Unresolved>,
    generation: i64,
    now: Timestamp,
) {
    let mut say = Conditions { new: status, generation, now };
    match trouble {
        Some(trouble) => {
            say.set(condition_type::FETCHED, ConditionStatus::False, trouble.reason, &trouble.message);
        }
        None => say.clear(&[condition_type::FETCHED]),
    }
}

/// When this look is to be known: at once in a new term, else only when the last that is known of is as old
/// as the interval, so that a look that finds nothing new is rarely a write.
fn last_look(release: &Release, old: Option<&WriterStatus>, writer: &WriterStatus, now: Timestamp) -> Time {
    let is_same = |old: &&WriterStatus| {
        (&old.replica, old.shard, old.epoch) == (&writer.replica, writer.shard, writer.epoch)
    };
    let known = old.filter(is_same).and_then(|old| old.last_look_time.clone());
    match known {
        Some(Time(known)) if now.duration_since(known).unsigned_abs() < release.spec.interval().as_std() => {
            Time(known)
        }
        _ => Time(whole_second(now)),
    }
}

/// Whether a look makes [`last_look`] say something new.
pub(crate) fn is_look_due(
    release: &Release,
    status: &ReleaseStatus,
    writer: &WriterStatus,
    now: Timestamp,
) -> bool {
    let old = status.controller.as_ref();
    let told = old.and_then(|old| old.last_look_time.as_ref());
    told != Some(&last_look(release, old, writer, now))
}

/// How long after `now` a look makes [`last_look`] say something new.
pub(crate) fn look_is_due(release: &Release, writer: Option<&WriterStatus>, now: Timestamp) -> Duration {
    let interval = release.spec.interval().as_std();
    let Some(Time(known)) = writer.and_then(|writer| writer.last_look_time.as_ref()) else { return interval };
    interval.saturating_sub(now.duration_since(*known).unsigned_abs()).max(Duration::from_secs(1))
}

fn between(say: &mut Conditions<'_>, bundle: &BundleFacts, waiting: &Waiting) -> Outcome {
    say.clear(&[condition_type::STALLED]);
    say.new.objects = i64::try_from(bundle.objects).ok();
    say.new.inventories.clone_from(&bundle.inventories);
    let (reason, message, outcome) = match &waiting.gate {
        HealthGate::Closed { reason, message, .. } | HealthGate::Unknown { reason, message } => {
            (reason.as_str(), message.as_str(), Outcome::Progressing)
        }
        HealthGate::Waiting { message, .. } => (waiting.reason, message.as_str(), Outcome::Progressing),
        HealthGate::Open => (waiting.reason, "", Outcome::Progressing),
    };
    say.set(condition_type::APPLIED, ConditionStatus::False, reason::PROGRESSING, message);
    say.set(condition_type::READY, ConditionStatus::False, reason, message);
    say.set(condition_type::RECONCILING, ConditionStatus::True, reason::PROGRESSING, message);
    outcome
}

/// A condition that stays is set and not cleared before: it keeps its time, so that a look that finds nothing new
/// writes nothing.
fn applied(say: &mut Conditions<'_>, bundle: &BundleFacts, gate: &HealthGate, message: &str) {
    say.set(condition_type::APPLIED, ConditionStatus::True, reason::SUCCEEDED, message);
    let is_new = say.new.bundle_digest.as_deref() != Some(&bundle.digest);
    if bundle.is_fresh || is_new || say.new.last_applied_time.is_none() {
        say.new.last_applied_time = Some(Time(whole_second(say.now)));
    }
    say.new.source_revision = Some(bundle.revision.clone());
    say.new.bundle_digest = Some(bundle.digest.clone());
    say.new.last_apply.clone_from(&bundle.apply);
    say.new.objects = i64::try_from(bundle.objects).ok();
    say.new.inventories.clone_from(&bundle.inventories);
    say.new.notes = bundle.notes.as_deref().map(|notes| beginning(notes, LONGEST_NOTES));
    match gate {
        HealthGate::Open if bundle.rollback_to.is_some() => say.went_back(),
        HealthGate::Open => {
            if let Some(trouble) = &bundle.trouble {
                return say.failed(trouble.reason, &trouble.message, trouble.is_terminal);
            }
            say.clear(&[condition_type::RECONCILING, condition_type::STALLED]);
            let objects = if bundle.objects == 1 {
                "1 object".to_owned()
            } else {
                format!("{} objects", bundle.objects)
            };
            let fight = bundle.fight.as_ref().map_or_else(String::new, |fight| format!("; {fight}"));
            let message = format!("{}, {objects}{fight}", bundle.revision);
            say.set(condition_type::READY, ConditionStatus::True, reason::SUCCEEDED, &message);
        }
        HealthGate::Waiting { message, .. } if bundle.rollback_to.is_some() => say.goes_back_now(message),
        HealthGate::Waiting { message, .. } => {
            say.clear(&[condition_type::STALLED]);
            say.set(condition_type::READY, ConditionStatus::False, reason::WAITING_FOR_HEALTH, message);
            say.set(condition_type::RECONCILING, ConditionStatus::True, reason::PROGRESSING, message);
        }
        HealthGate::Closed { reason, message, .. } => {
            if let Some(to) = bundle.rollback_to {
                say.clear(&[condition_type::RECONCILING, condition_type::STALLED]);
                let message = format!("revision {to}, which was gone back to, is not healthy: {message}");
                return say.set(condition_type::READY, ConditionStatus::False, reason, &message);
            }
            if let Some(rollback) = say.new.rollback.clone() {
                return say.goes_back(&rollback);
            }
            let failed =
                say.new.failure.as_ref().filter(|failure| failure.bundle_digest == bundle.digest).cloned();
            match failed {
                Some(failure) => say.failed(reason, message, failure.next_time.is_none()),
                None => {
                    say.clear(&[condition_type::RECONCILING, condition_type::STALLED]);
                    say.set(condition_type::READY, ConditionStatus::False, reason, message);
                }
            }
        }
        HealthGate::Unknown { reason, message } => {
            say.clear(&[condition_type::RECONCILING, condition_type::STALLED]);
            say.set(condition_type::READY, ConditionStatus::Unknown, reason, message);
        }
    }
}

struct Conditions<'a> {
    new: &'a mut ReleaseStatus,
    generation: i64,
    now: Timestamp,
}

impl Conditions<'_> {
    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        set_condition(&mut self.new.conditions, type_, status, reason, message, self.generation, self.now);
    }

    fn clear(&mut self, types: &[&str]) {
        self.new.conditions.retain(|condition| !types.contains(&condition.type_.as_str()));
    }

    /// What the source came to: the bundle, or why there is another one.
    fn source(&mut self, bundle: &BundleFacts) {
        match &bundle.trouble {
            Some(Trouble { reason, message, revision: Some(revision), .. }) => {
                self.set(condition_type::RENDERED, ConditionStatus::False, reason, message);
                self.new.last_attempted_revision = Some(revision.clone());
            }
            Some(_) => {}
            // What is not delivered rendered, too, and its condition says so already.
            None if bundle.rollback_to.is_some() => {}
            None => {
                self.set(
                    condition_type::RENDERED,
                    ConditionStatus::True,
                    reason::SUCCEEDED,
                    &bundle.revision,
                );
                self.new.last_attempted_revision = Some(bundle.revision.clone());
            }
        }
    }

    /// Which delivery failed and why, in words.
    fn why_back(&self) -> String {
        self.new.failure.as_ref().map_or_else(
            || "as was asked for".to_owned(),
            |failed| {
                format!(
                    "because revision {} ({}) failed: {}: {}",
                    failed.revision, failed.source_revision, failed.reason, failed.message
                )
            },
        )
    }

    /// Where a revision was that is gone back to, when that is elsewhere: it is delivered to where the Release is now.
    fn was_elsewhere(&self, rollback: &RollbackStatus) -> String {
        let here = self.new.history.first().and_then(|newest| newest.cluster_ref.as_ref());
        match (&rollback.cluster_ref, here) {
            (Some(then), Some(here)) if then != here => {
                let name = |cluster: &ClusterReference| {
                    let namespace = cluster.namespace.as_ref().map(|namespace| format!("{namespace}/"));
                    format!("{}{}", namespace.unwrap_or_default(), cluster.name)
                };
                format!(
                    "; it was on the Cluster {}, and goes to {}, which spec.clusterRef names now",
                    name(then),
                    name(here)
                )
            }
            _ => String::new(),
        }
    }

    /// It was decided to go back.
    fn goes_back(&mut self, rollback: &RollbackStatus) {
        let message = format!(
            "going back to revision {} ({}), {}{}",
            rollback.revision,
            rollback.source_revision,
            self.why_back(),
            self.was_elsewhere(rollback),
        );
        self.clear(&[condition_type::STALLED]);
        self.set(condition_type::READY, ConditionStatus::False, reason::ROLLING_BACK, &message);
        self.set(condition_type::RECONCILING, ConditionStatus::True, reason::ROLLING_BACK, &message);
    }

    /// It is gone back, and health is waited for.
    fn goes_back_now(&mut self, waits: &str) {
        let Some(rollback) = self.new.rollback.clone() else { return };
        self.goes_back(&rollback);
        self.set(condition_type::RECONCILING, ConditionStatus::True, reason::ROLLING_BACK, waits);
    }

    /// An earlier revision is on the target and healthy.
    fn went_back(&mut self) {
        let Some(rollback) = self.new.rollback.clone() else { return };
        let (to, source) = (rollback.revision, &rollback.source_revision);
        let why = format!("{}{}", self.why_back(), self.was_elsewhere(&rollback));
        self.clear(&[condition_type::RECONCILING]);
        if rollback.requested {
            self.clear(&[condition_type::STALLED]);
            let message = format!(
                "revision {to} ({source}) is on the target, {why}; it stays until the source or the spec changes"
            );
            self.set(condition_type::READY, ConditionStatus::True, reason::ROLLED_BACK, &message);
        } else {
            let message = format!(
                "went back to revision {to} ({source}), {why}; it stays until the source or the spec changes"
            );
            self.set(condition_type::READY, ConditionStatus::False, reason::ROLLED_BACK, &message);
            let message = "the failed revision is not tried again until the source or the spec changes, or \
                           convoy.kumodo.io/reconcile-at asks for it";
            self.set(condition_type::STALLED, ConditionStatus::True, reason::ROLLED_BACK, message);
        }
    }

    fn failed(&mut self, reason: &str, message: &str, is_terminal: bool) {
        self.set(condition_type::READY, ConditionStatus::False, reason, message);
        if is_terminal {
            self.clear(&[condition_type::RECONCILING]);
            let message = "nothing more happens until the source, the spec or the target changes";
            self.set(condition_type::STALLED, ConditionStatus::True, reason, message);
        } else {
            self.clear(&[condition_type::STALLED]);
            self.set(
                condition_type::RECONCILING,
                ConditionStatus::True,
                reason::PROGRESSING,
                "it will be tried again",
            );
        }
    }
}

/// Notes in the history what became of a bundle. A bundle that was the last to be tried keeps its
/// entry; one that comes back after another gets a new one.
fn record(
    history: &mut Vec<HistoryEntry>,
    bundle: &BundleFacts,
    outcome: Outcome,
    message: &str,
    now: Timestamp,
) {
    let now = Time(whole_second(now));
    let is_last = history.first().is_some_and(|last| bundle.is_of(last));
    if !is_last {
        if let Some(last) = history.first_mut().filter(|last| last.outcome == Outcome::Progressing) {
            last.outcome = Outcome::Superseded;
            last.finished = Some(now.clone());
        }
        let revision = history.first().map_or(0, |last| last.revision).saturating_add(1);
        history.insert(
            0,
            HistoryEntry {
                revision,
                source_revision: bundle.revision.clone(),
                bundle_digest: bundle.digest.clone(),
                cluster_ref: bundle.cluster.clone(),
                target_namespace: Some(bundle.namespace.clone()).filter(|name| !name.is_empty()),
                rollback_to: bundle.rollback_to,
                started: Some(now.clone()),
                ..HistoryEntry::default()
            },
        );
    }
    let Some(entry) = history.first_mut() else { return };
    // A delivery that succeeded stays so: what comes after is another story, told by the conditions.
    if entry.outcome == Outcome::Succeeded {
        return;
    }
    let is_over = outcome != Outcome::Progressing;
    if is_over && (entry.outcome != outcome || entry.finished.is_none()) {
        entry.finished = Some(now);
    } else if !is_over {
        entry.finished = None;
    }
    entry.outcome = outcome;
    // The history is for people who look back; the conditions hold the whole text.
    const LONGEST: usize = 256;
    entry.message = match bundle.rollback_to {
        Some(to) => format!("rollback to {to}: {message}"),
        None => message.to_owned(),
    };
    entry.message = entry.message.chars().take(LONGEST).collect();
}

/// Whether the newest delivery succeeded with this bundle.
pub(crate) fn has_succeeded(status: &ReleaseStatus, bundle: &BundleFacts) -> bool {
    status.history.first().is_some_and(|last| bundle.is_of(last) && last.outcome == Outcome::Succeeded)
}

pub(crate) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests_of_rollback;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use convoy_api::find_condition;

    use super::*;

    fn release() -> Release {
        let mut release = Release::default();
        release.metadata.generation = Some(3);
        release.spec.history_limit = Some(2);
        release
    }

    fn bundle(digest: &str) -> BundleFacts {
        BundleFacts {
            revision: format!("main@sha1:{digest}"),
            digest: digest.to_owned(),
            notes: None,
            objects: 2,
            inventories: vec!["web.prod".to_owned()],
            is_fresh: true,
            ..BundleFacts::default()
        }
    }

    fn writer() -> WriterStatus {
        WriterStatus { replica: "cm-0".to_owned(), shard: 7, epoch: 3, last_look_time: None }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(status: &ReleaseStatus) -> (String, String) {
        let ready = find_condition(&status.conditions, "Ready").unwrap();
        (ready.status.clone(), ready.reason.clone())
    }

    fn waiting() -> HealthGate {
        HealthGate::Waiting { message: "1 of 2".to_owned(), remaining: Duration::from_secs(1) }
    }

    fn applied(digest: &str, gate: HealthGate) -> Reached {
        let (message, course) = ("2 created".to_owned(), Course::default());
        Reached::Applied { bundle: bundle(digest), gate, message, course }
    }

    #[test]
    fn a_delivery_goes_from_waiting_to_ready_and_its_history_entry_with_it() {
        let first = next(&release(), &ReleaseStatus::default(), &applied("a", waiting()), &writer(), at(1));
        assert_eq!(ready(&first), ("False".to_owned(), "WaitingForHealth".to_owned()));
        assert_eq!(first.history[0].outcome, Outcome::Progressing);
        let second = next(&release(), &first, &applied("a", HealthGate::Open), &writer(), at(5));
        assert_eq!(ready(&second), ("True".to_owned(), "Succeeded".to_owned()));
        assert_eq!((second.history.len(), second.history[0].outcome), (1, Outcome::Succeeded));
        assert_eq!(second.history[0].finished, Some(Time(at(5))));
        assert!(find_condition(&second.conditions, "Reconciling").is_none());
    }

    #[test]
    fn a_failed_try_leaves_what_is_on_the_target_in_the_status() {
        let good =
            next(&release(), &ReleaseStatus::default(), &applied("a", HealthGate::Open), &writer(), at(1));
        let broken = Reached::Rendered {
            revision: "main@sha1:b".to_owned(),
            reason: reason::RENDER_FAILED,
            message: "templates/x.yaml:3".to_owned(),
            is_terminal: true,
        };
        let bad = next(&release(), &good, &broken, &writer(), at(2));
        assert_eq!(bad.source_revision.as_deref(), Some("main@sha1:a"));
        assert_eq!(bad.last_attempted_revision.as_deref(), Some("main@sha1:b"));
        assert_eq!((bad.bundle_digest.as_deref(), bad.objects), (Some("a"), Some(2)));
        assert_eq!(ready(&bad), ("False".to_owned(), "RenderFailed".to_owned()));
        assert!(find_condition(&bad.conditions, "Stalled").is_some());
        assert_eq!(bad.history, good.history);
    }

    #[test]
    fn history_is_bounded_and_a_bundle_that_comes_back_is_a_new_revision() {
        let mut status = ReleaseStatus::default();
        for (second, digest) in ["a", "b", "a"].into_iter().enumerate() {
            let gate = if digest == "b" { waiting() } else { HealthGate::Open };
            status = next(&release(), &status, &applied(digest, gate), &writer(), at(second as i64));
        }
        let shown: Vec<(i64, &str, Outcome)> =
            status.history.iter().map(|e| (e.revision, e.bundle_digest.as_str(), e.outcome)).collect();
        assert_eq!(shown, [(3, "a", Outcome::Succeeded), (2, "b", Outcome::Superseded)]);
    }

    /// etcd takes no object above 1.5 MiB, and a status is written whole.
    #[test]
    fn a_status_stays_small_whatever_there_is_to_say() {
        let endless = "ü".repeat(500_000);
        let mut release = release();
        release.spec.history_limit = Some(50);
        let mut status = ReleaseStatus::default();
        for number in 0..200 {
            let facts = BundleFacts { notes: Some(endless.clone()), ..bundle(&format!("{number}")) };
            let reached = match number % 3 {
                0 => Reached::Applied {
                    bundle: facts,
                    gate: HealthGate::Waiting { message: endless.clone(), remaining: Duration::ZERO },
                    message: endless.clone(),
                    course: Course::default(),
                },
                1 => Reached::Between {
                    bundle: facts,
                    waiting: Waiting {
                        step: "wave 1".to_owned(),
                        remaining: String::new(),
                        reason: reason::WAITING_FOR_HEALTH,
                        gate: HealthGate::Waiting { message: endless.clone(), remaining: Duration::ZERO },
                        next: Duration::ZERO,
                    },
                    course: Course::default(),
                },
                _ => {
                    let failed = failure::Failed {
                        bundle: &facts,
                        reason: reason::APPLY_REJECTED,
                        message: &endless,
                        is_terminal: false,
                        wait: Duration::from_secs(1),
                    };
                    let failure = failure::after(&release.spec, &status, &failed, at(number)).failure;
                    let course = Course { failure: Some(failure), rollback: None };
                    let (reason, message) = (reason::APPLY_REJECTED, endless.clone());
                    Reached::Planned { bundle: facts, reason, message, is_terminal: false, course }
                }
            };
            status = next(&release, &status, &reached, &writer(), at(number));
        }
        assert_eq!(status.history.len(), 50);
        let stored = serde_json::to_string(&status).unwrap().len();
        assert!(stored < 128 * 1024, "{stored}");
    }

    #[test]
    fn the_same_again_writes_nothing_and_the_observers_fields_are_never_ours() {
        let mut first =
            next(&release(), &ReleaseStatus::default(), &applied("a", HealthGate::Open), &writer(), at(1));
        set_condition(&mut first.conditions, "Healthy", ConditionStatus::True, "Healthy", "", 3, at(1));
        first.healthy_objects = Some(2);
        let mut unchanged = bundle("a");
        unchanged.is_fresh = false;
        let (message, course) = ("2 created".to_owned(), Course::default());
        let reached = Reached::Applied { bundle: unchanged, gate: HealthGate::Open, message, course };
        let second = next(&release(), &first, &reached, &writer(), at(99));
        assert_eq!(owned(&second), owned(&first));
        assert!(!owned(&first).contains_key("healthyObjects"));
        assert!(!serde_json::to_string(&owned(&first)).unwrap().contains("\"Healthy\""));
        let mut stale = release();
        stale.metadata.resource_version = Some("9".to_owned());
        stale.status = Some(ReleaseStatus { healthy_objects: Some(1), ..ReleaseStatus::default() });
        let merged = known(&stale, Some(&("10".to_owned(), first.clone())));
        assert_eq!((merged.healthy_objects, merged.history.len()), (Some(1), 1));
        assert!(find_condition(&merged.conditions, "Healthy").is_none());
    }

    #[test]
    fn i12_a_look_in_a_new_term_is_told_at_once_and_else_once_an_interval() {
        let look = |old: &ReleaseStatus, epoch: i64, second: i64| {
            let mut unchanged = bundle("a");
            unchanged.is_fresh = false;
            let reached = Reached::Applied {
                bundle: unchanged,
                gate: HealthGate::Open,
                message: "2 created".to_owned(),
                course: Course::default(),
            };
            next(&release(), old, &reached, &WriterStatus { epoch, ..writer() }, at(second))
        };
        let told = |status: &ReleaseStatus| {
            let controller = status.controller.clone().unwrap();
            (controller.epoch, controller.last_look_time.unwrap().0.as_second())
        };
        let first = look(&ReleaseStatus::default(), 3, 1);
        assert_eq!(told(&look(&first, 3, 600)), (3, 1));
        assert_eq!(told(&look(&first, 3, 601)), (3, 601));
        assert_eq!(told(&look(&first, 4, 2)), (4, 2));
    }

    #[test]
    fn sc05_what_another_replica_wrote_later_is_not_taken_for_what_we_wrote() {
        let ours = next(&release(), &ReleaseStatus::default(), &applied("a", waiting()), &writer(), at(1));
        let theirs = WriterStatus { shard: 9, ..writer() };
        let theirs = next(&release(), &ours, &applied("b", HealthGate::Open), &theirs, at(2));
        let mut shown = release();
        shown.status = Some(theirs.clone());
        shown.metadata.resource_version = Some("11".to_owned());
        let written = ("10".to_owned(), ours);
        assert_eq!(known(&shown, Some(&written)), theirs);
        shown.metadata.resource_version = Some("9".to_owned());
        assert_eq!(known(&shown, Some(&written)).controller.unwrap().shard, 7);
    }

    #[test]
    fn i12_a_look_in_between_does_not_put_off_the_one_that_is_to_be_known() {
        let release = release();
        let interval = release.spec.interval().as_std();
        let known = WriterStatus { last_look_time: Some(Time(at(100))), ..writer() };
        let due = |now| look_is_due(&release, Some(&known), at(now));
        let seconds = i64::try_from(interval.as_secs()).unwrap();
        assert_eq!(due(100), interval);
        assert_eq!(due(100 + seconds - 7), Duration::from_secs(7));
        assert_eq!(due(100 + seconds), Duration::from_secs(1));
        let then = at(100 + seconds);
        assert_eq!(last_look(&release, Some(&known), &writer(), then), Time(then), "it is written then");
    }
}
