//! What health, drift and earlier failures ask for. Pure.

use std::time::Duration;

use convoy_api::{
    Condition, ConditionStatus, DriftMode, DriftedObject, ReleaseSpec, ReleaseStatus, condition_status,
    condition_type, field_manager, find_condition, reason,
};
use convoy_apply::{Class, Failure};
use convoy_runtime::Backoff;
use jiff::Timestamp;

use super::status::BundleFacts;

/// How long drift that comes back again and again is left alone.
const FIGHT: Backoff = Backoff { first: Duration::from_secs(10), longest: Duration::from_secs(600) };
/// Corrections that are made at once before a fight is suspected.
const FREE_CORRECTIONS: u32 = 3;
/// How many objects a message about a fight names.
const NAMED_OPPONENTS: usize = 3;
/// How long a target needs to pass a trouble by itself.
const TRANSIENT: Backoff = Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(120) };
/// How long someone needs to act on the target.
const SLOW: Backoff = Backoff { first: Duration::from_secs(30), longest: Duration::from_secs(300) };
/// How often what only another revision can mend is tried nevertheless: the target may have changed.
const TERMINAL: Duration = Duration::from_secs(1800);

/// What was tried in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// What was tried: generation, bundle, request to reconcile.
    pub(crate) attempt: String,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Until when not to try it again, in monotonic time.
    pub(crate) until: Duration,
}

impl Hold {
    /// The hold after one more failure of an attempt.
    pub(crate) fn after(old: Option<&Hold>, attempt: &str, failures: &[Failure], now: Duration) -> Hold {
        let count = old.filter(|old| old.attempt == attempt).map_or(1, |old| old.failures.saturating_add(1));
        let spread = attempt
            .bytes()
            .fold(u64::from(count), |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let throttled = failures.iter().find_map(|failure| match failure.error.class {
            Class::Throttled { retry_after } => retry_after,
            _ => None,
        });
        let wait = if let Some(asked_for) = throttled {
            asked_for
        } else if !failures.is_empty() && failures.iter().all(|failure| failure.error.class.is_terminal()) {
            TERMINAL
        } else if failures
            .iter()
            .any(|failure| !failure.error.class.is_slow() && !failure.error.class.is_terminal())
        {
            TRANSIENT.wait(count, spread)
        } else {
            SLOW.wait(count, spread)
        };
        Hold { attempt: attempt.to_owned(), failures: count, until: now.saturating_add(wait) }
    }

    /// The pause after a delivery that did not bring health in time, for the n-th time.
    pub(crate) fn of_health(count: u32) -> Duration {
        SLOW.wait(count, u64::from(count))
    }

    /// How long still not to try an attempt; none when it may be tried.
    pub(crate) fn remaining(&self, attempt: &str, now: Duration) -> Option<Duration> {
        (self.attempt == attempt && now < self.until).then(|| self.until.saturating_sub(now))
    }
}

/// Drift that was corrected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriftMemory {
    /// When it was corrected last, in monotonic time.
    corrected: Option<Duration>,
    /// Corrections with less than the longest back-off between them.
    streak: u32,
    /// Whether the observer has said since that there is none.
    is_cleared: bool,
    /// What was put right last, and who had changed it.
    opponents: Vec<String>,
}

/// What is to be done about drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriftAction {
    /// There is none, or it is only reported.
    Nothing,
    /// Apply again.
    Correct,
    /// It was corrected a moment ago, or something fights: look again after a while.
    Wait(Duration),
}

impl DriftMemory {
    /// Decides by what the observer says.
    pub(crate) fn decide(
        &mut self,
        spec: &ReleaseSpec,
        status: &ReleaseStatus,
        now: Duration,
    ) -> DriftAction {
        let is_drifted =
            condition_status(&status.conditions, condition_type::DRIFTED) == ConditionStatus::True;
        if !is_drifted {
            self.is_cleared = true;
            return DriftAction::Nothing;
        }
        if spec.drift_mode() != DriftMode::Correct {
            return DriftAction::Nothing;
        }
        let Some(corrected) = self.corrected else { return DriftAction::Correct };
        let since = now.saturating_sub(corrected);
        if since > FIGHT.longest || (self.is_cleared && self.streak < FREE_CORRECTIONS) {
            return DriftAction::Correct;
        }
        let wait =
            FIGHT.wait(self.streak.saturating_sub(FREE_CORRECTIONS - 1).max(1), u64::from(self.streak));
        if since >= wait { DriftAction::Correct } else { DriftAction::Wait(wait.saturating_sub(since)) }
    }

    /// What is said while something changes again and again what is put right; none when nothing does.
    pub(crate) fn fight(&self, now: Duration) -> Option<String> {
        let corrected = self.corrected.filter(|_| self.streak >= FREE_CORRECTIONS)?;
        if now.saturating_sub(corrected) > FIGHT.longest {
            return None;
        }
        let named: Vec<String> = self.opponents.iter().take(NAMED_OPPONENTS).cloned().collect();
        let more = self.opponents.len().saturating_sub(NAMED_OPPONENTS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Some(format!(
            "what {:?} applies is changed again and again: {}{more}; it is put right with growing pauses, until the \
             source leaves the field out, spec.drift.ignore names it, or the other one stops",
            field_manager::TARGET,
            named.join(", "),
        ))
    }

    /// Notes that it was corrected, and against whom.
    pub(crate) fn corrected(&mut self, status: &ReleaseStatus, now: Duration) {
        let in_words = |object: &DriftedObject| {
            let slash = if object.namespace.is_empty() { "" } else { "/" };
            let by = object.manager.as_ref().map_or_else(String::new, |manager| format!(" by {manager:?}"));
            format!("{} {}{slash}{}{by}", object.kind, object.namespace, object.name)
        };
        if !status.drifted_objects.is_empty() {
            self.opponents = status.drifted_objects.iter().map(in_words).collect();
        }
        let in_a_row = self.corrected.is_some_and(|last| now.saturating_sub(last) <= FIGHT.longest);
        self.streak = if in_a_row { self.streak.saturating_add(1) } else { 1 };
        self.corrected = Some(now);
        self.is_cleared = false;
    }
}

/// Whether what was delivered is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HealthGate {
    /// It is healthy, or not waited for.
    Open,
    /// It is waited for, for this long still.
    Waiting { message: String, remaining: Duration },
    /// It is not healthy. `is_over`: it had its time, so that this counts as a failure; else it still has `remaining`
    /// of it, or was healthy before.
    Closed { reason: String, message: String, is_over: bool, remaining: Duration },
    /// It cannot be told.
    Unknown { reason: String, message: String },
}

/// Judges a delivered bundle by what the observer says. `applied` is when it was applied.
pub(crate) fn health_gate(
    spec: &ReleaseSpec,
    status: &ReleaseStatus,
    bundle: &BundleFacts,
    applied: Timestamp,
    had_succeeded: bool,
    now: Timestamp,
) -> HealthGate {
    if !spec.waits_for_health() || bundle.objects == 0 {
        return HealthGate::Open;
    }
    let healthy = find_condition(&status.conditions, condition_type::HEALTHY);
    // The same bundle may have been there before, also on another cluster: only what was seen after the last write counts.
    // An observer of an older version does not say of which write it speaks.
    let is_of_last_write = status.observed_apply.is_none() || status.observed_apply == bundle.apply;
    let is_seen = status.observed_bundle_digest.as_deref() == Some(&bundle.digest) && is_of_last_write;
    let verdict = healthy.map(|condition| (condition.status.as_str(), condition));
    let waited = now.duration_since(applied).unsigned_abs();
    let remaining = spec.apply_timeout().as_std().saturating_sub(waited);
    // What the observer did not look at may well be healthy.
    let is_over = remaining.is_zero() && is_seen && !had_succeeded;
    let closed = |condition: &Condition| HealthGate::Closed {
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        is_over,
        remaining,
    };
    match verdict {
        Some(("True", _)) if is_seen => HealthGate::Open,
        Some(("False", condition)) if is_seen && condition.reason == reason::DEGRADED => closed(condition),
        Some(("Unknown", condition))
            if [reason::CLUSTER_UNREACHABLE, reason::OBSERVER_MISSING]
                .contains(&condition.reason.as_str()) =>
        {
            HealthGate::Unknown { reason: condition.reason.clone(), message: condition.message.clone() }
        }
        Some(("False", condition)) if is_seen && had_succeeded => closed(condition),
        // A replica of the observer that just took over has to look first.
        _ if had_succeeded && !is_seen => HealthGate::Open,
        _ if remaining.is_zero() => {
            let said = healthy
                .filter(|_| is_seen)
                .map_or("the observer has not seen them yet", |c| c.message.as_str());
            HealthGate::Closed {
                reason: reason::HEALTH_TIMEOUT.to_owned(),
                message: format!(
                    "the objects did not become healthy within {}: {said}",
                    spec.apply_timeout()
                ),
                is_over,
                remaining,
            }
        }
        _ => {
            let said =
                healthy.filter(|_| is_seen).map_or("they were applied a moment ago", |c| c.message.as_str());
            HealthGate::Waiting {
                message: format!("waiting for the objects to become healthy: {said}"),
                remaining,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use convoy_api::set_condition;
    use convoy_apply::RequestError;
    use convoy_plan::ObjectKey;

    use super::*;

    fn facts(objects: usize) -> BundleFacts {
        let apply = Some("web.prod#3".to_owned());
        BundleFacts { digest: "b".to_owned(), objects, apply, ..BundleFacts::default() }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn status(type_: &str, status: ConditionStatus, reason: &str, bundle: Option<&str>) -> ReleaseStatus {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, type_, status, reason, "words", 1, Timestamp::UNIX_EPOCH);
        ReleaseStatus {
            conditions,
            observed_bundle_digest: bundle.map(str::to_owned),
            ..ReleaseStatus::default()
        }
    }

    #[test]
    fn drift_is_corrected_at_once_unless_something_fights() {
        let spec = ReleaseSpec::default();
        let drifted = status("Drifted", ConditionStatus::True, "ChangedOnTarget", None);
        let drifted = ReleaseStatus {
            drifted_objects: vec![DriftedObject {
                kind: "ConfigMap".to_owned(),
                namespace: "web".to_owned(),
                name: "a".to_owned(),
                manager: Some("hand".to_owned()),
                ..DriftedObject::default()
            }],
            ..drifted
        };
        let in_sync = status("Drifted", ConditionStatus::False, "InSync", None);
        let mut memory = DriftMemory::default();
        let mut now = seconds(100);
        assert_eq!(memory.decide(&spec, &in_sync, now), DriftAction::Nothing);
        for _ in 0..3 {
            assert_eq!(memory.fight(now), None);
            assert_eq!(memory.decide(&spec, &drifted, now), DriftAction::Correct);
            memory.corrected(&drifted, now);
            // The observer has not looked again yet.
            assert!(matches!(memory.decide(&spec, &drifted, now), DriftAction::Wait(_)));
            now += seconds(1);
            assert_eq!(memory.decide(&spec, &in_sync, now), DriftAction::Nothing);
        }
        assert!(matches!(memory.decide(&spec, &drifted, now), DriftAction::Wait(wait) if wait > seconds(5)));
        // Both are named, and what they fight about.
        let said = memory.fight(now).unwrap();
        assert!(said.contains("\"convoy\"") && said.contains("ConfigMap web/a by \"hand\""), "{said}");
        now += seconds(700);
        assert_eq!(memory.fight(now), None);
        assert_eq!(memory.decide(&spec, &drifted, now), DriftAction::Correct);
    }

    #[test]
    fn drift_is_left_alone_when_the_spec_says_so() {
        let drifted = status("Drifted", ConditionStatus::True, "ChangedOnTarget", None);
        for (mode, want) in [
            (DriftMode::Correct, DriftAction::Correct),
            (DriftMode::Report, DriftAction::Nothing),
            (DriftMode::Ignore, DriftAction::Nothing),
        ] {
            let drift = Some(convoy_api::DriftPolicy { mode: Some(mode), ..Default::default() });
            let spec = ReleaseSpec { drift, ..ReleaseSpec::default() };
            assert_eq!(DriftMemory::default().decide(&spec, &drifted, seconds(100)), want);
        }
    }

    #[test]
    fn i12_health_that_nobody_sees_any_more_is_neither_waited_for_nor_failed() {
        let (spec, zero) = (ReleaseSpec::default(), Timestamp::UNIX_EPOCH);
        let long_after = zero + Duration::from_secs(3600);
        let gate = |reason: &str, had_succeeded: bool| {
            let status = status("Healthy", ConditionStatus::Unknown, reason, Some("b"));
            health_gate(&spec, &status, &facts(1), zero, had_succeeded, long_after)
        };
        for reason in [reason::OBSERVER_MISSING, reason::CLUSTER_UNREACHABLE] {
            for had_succeeded in [true, false] {
                let gate = gate(reason, had_succeeded);
                assert!(
                    matches!(&gate, HealthGate::Unknown { reason: said, .. } if said == reason),
                    "{gate:?}"
                );
            }
        }
    }

    #[test]
    fn a_failed_attempt_is_held_by_the_sort_of_its_failure_and_another_attempt_is_not() {
        let failure = |class: Class| Failure {
            key: ObjectKey {
                group: String::new(),
                kind: "ConfigMap".into(),
                namespace: "a".into(),
                name: "b".into(),
            },
            source: String::new(),
            error: RequestError { class, code: 0, message: String::new(), fields: Vec::new() },
        };
        let hold = |class: Class| Hold::after(None, "a", &[failure(class)], seconds(0));
        assert_eq!(hold(Class::Invalid { immutable: true }).until, TERMINAL);
        assert!(hold(Class::Transient).until <= seconds(3));
        assert!(hold(Class::NamespaceTerminating).until >= seconds(27));
        assert_eq!(hold(Class::Throttled { retry_after: Some(seconds(7)) }).until, seconds(7));
        let held = hold(Class::Forbidden);
        assert!(held.remaining("a", seconds(1)).is_some());
        assert_eq!(held.remaining("b", seconds(1)), None);
        assert_eq!(held.remaining("a", seconds(100)), None);
        let again = Hold::after(Some(&held), "a", &[failure(Class::Forbidden)], seconds(100));
        assert!(again.until - seconds(100) > seconds(40), "{again:?}");
    }

    /// The same bundle was there before: gone back to, applied anew, or on the cluster that the Release left.
    #[test]
    fn what_was_seen_before_the_last_write_opens_no_gate() {
        let spec = ReleaseSpec::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        for (condition, reason) in [(ConditionStatus::True, "Healthy"), (ConditionStatus::False, "Degraded")]
        {
            for earlier in ["web.prod#1", "web.prod#2", "web.other#3"] {
                let seen = ReleaseStatus {
                    observed_apply: Some(earlier.to_owned()),
                    ..status("Healthy", condition, reason, Some("b"))
                };
                let gate = health_gate(&spec, &seen, &facts(1), at(0), false, at(1));
                assert!(matches!(gate, HealthGate::Waiting { .. }), "{earlier}: {gate:?}");
            }
        }
        let seen = ReleaseStatus {
            observed_apply: Some("web.prod#3".to_owned()),
            ..status("Healthy", ConditionStatus::True, "Healthy", Some("b"))
        };
        assert_eq!(health_gate(&spec, &seen, &facts(1), at(0), false, at(1)), HealthGate::Open);
    }

    #[test]
    fn health_opens_the_gate_only_for_the_bundle_that_was_seen() {
        let spec = ReleaseSpec::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let gate = |status: &ReleaseStatus, had_succeeded, now| {
            health_gate(&spec, status, &facts(1), at(0), had_succeeded, at(now))
        };
        let healthy = status("Healthy", ConditionStatus::True, "Healthy", Some("b"));
        assert_eq!(gate(&healthy, false, 1), HealthGate::Open);
        let of_old = status("Healthy", ConditionStatus::True, "Healthy", Some("a"));
        assert!(
            matches!(gate(&of_old, false, 1), HealthGate::Waiting { remaining, .. } if remaining == seconds(299))
        );
        assert!(
            matches!(gate(&of_old, false, 301), HealthGate::Closed { reason, .. } if reason == "HealthTimeout")
        );
        let degraded = status("Healthy", ConditionStatus::False, "Degraded", Some("b"));
        assert!(
            matches!(gate(&degraded, false, 1), HealthGate::Closed { reason, is_over: false, .. } if reason == "Degraded")
        );
        assert!(matches!(gate(&degraded, false, 300), HealthGate::Closed { is_over: true, .. }));
        assert!(
            matches!(gate(&of_old, false, 301), HealthGate::Closed { is_over: false, .. }),
            "what the observer did not see is no failure"
        );
        let progressing = status("Healthy", ConditionStatus::False, "Progressing", Some("b"));
        assert!(matches!(gate(&progressing, false, 1), HealthGate::Waiting { .. }));
        assert!(matches!(gate(&progressing, false, 301), HealthGate::Closed { is_over: true, .. }));
        assert!(matches!(gate(&progressing, true, 301), HealthGate::Closed { is_over: false, .. }));
        let no_objects = health_gate(&spec, &of_old, &facts(0), at(0), false, at(1));
        assert_eq!(no_objects, HealthGate::Open);
    }
}
