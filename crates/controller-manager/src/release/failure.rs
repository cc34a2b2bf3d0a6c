//! What a failed delivery and a wish to go back lead to. Pure.
//!
//! What is known of both stands in the Release's status, so that another replica goes on where this one was: the
//! delivery that failed and how often, and the earlier revision that is delivered instead. Another spec, another
//! bundle of the source or a request takes it away, and all begins anew.

use std::time::Duration;

use convoy_api::{
    ConditionStatus, FailureAction, FailureStatus, HistoryEntry, Outcome, ReleaseSpec, ReleaseStatus,
    RollbackStatus, condition_status, condition_type,
};
use convoy_prepare::back_to;
pub(crate) use convoy_prepare::{arrived, is_forced, renewed};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::status::{BundleFacts, whole_second};

/// No clock of another replica makes a retry later than this.
const LONGEST_WAIT: Duration = Duration::from_secs(1800);

/// A delivery that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed<'a> {
    pub(crate) bundle: &'a BundleFacts,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// Whether it will fail in the same way whenever it is tried.
    pub(crate) is_terminal: bool,
    /// The pause before the next try, if there is one.
    pub(crate) wait: Duration,
}

/// What a failure leads to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Consequence {
    pub(crate) failure: Box<FailureStatus>,
    /// The revision to go back to.
    pub(crate) rollback: Option<Box<RollbackStatus>>,
}

impl Consequence {
    /// Whether nothing more is tried.
    pub(crate) fn is_final(&self) -> bool {
        self.failure.next_time.is_none() && self.rollback.is_none()
    }
}

/// Counts one more failure and decides what it leads to.
pub(crate) fn after(
    spec: &ReleaseSpec,
    status: &ReleaseStatus,
    failed: &Failed<'_>,
    now: Timestamp,
) -> Consequence {
    let digest = failed.bundle.digest.as_str();
    let before = status.failure.as_ref().filter(|failure| failure.bundle_digest == digest);
    let count = before.map_or(0, |failure| failure.count).saturating_add(1);
    let action = spec.failure_action();
    let retries = spec.failure_retries().map(i64::from);
    // Retry goes on, slowly: the target may have changed.
    let is_over = retries.is_some_and(|retries| count > retries)
        || (failed.is_terminal && action != FailureAction::Retry);
    let next = SignedDuration::try_from(failed.wait).ok().and_then(|wait| now.checked_add(wait).ok());
    let failure = Box::new(FailureStatus {
        revision: before.map_or(0, |failure| failure.revision),
        source_revision: failed.bundle.revision.clone(),
        bundle_digest: digest.to_owned(),
        reason: failed.reason.to_owned(),
        message: failed.message.chars().take(1024).collect(),
        count,
        last_time: Some(Time(whole_second(now))),
        next_time: next.filter(|_| !is_over).map(|next| Time(whole_second(next))),
    });
    let healthy = status
        .history
        .iter()
        .find(|entry| entry.outcome == Outcome::Succeeded && entry.bundle_digest != digest)
        .filter(|_| is_over && action == FailureAction::Rollback);
    let rollback = healthy.map(|entry| Box::new(back_to(entry, digest)));
    Consequence { failure, rollback }
}

/// What there is to say of a delivery that failed, beyond why.
pub(crate) fn remark(spec: &ReleaseSpec, failure: &FailureStatus) -> String {
    let count = failure.count;
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    match (&failure.next_time, spec.failure_retries(), spec.failure_action()) {
        (Some(_), Some(retries), _) => format!("try {count} of {} failed", i64::from(retries) + 1),
        (None, _, FailureAction::Rollback) => {
            format!("it failed {times}, and there is no earlier healthy revision to go back to")
        }
        (Some(_) | None, ..) => format!("it failed {times}"),
    }
}

/// What is to be done about a bundle that has failed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It has not failed.
    First,
    /// It is tried again now.
    Again,
    /// It is tried again after a while.
    Waits(Duration),
    /// It is not tried again.
    Over,
}

/// Whether it is a failed bundle's turn to be tried.
pub(crate) fn turn(status: &ReleaseStatus, bundle: &str, now: Timestamp) -> Turn {
    let Some(failure) = status.failure.as_ref().filter(|failure| failure.bundle_digest == bundle) else {
        return Turn::First;
    };
    // It was tried again, and its health is waited for.
    if is_applied(status, bundle) && status.last_applied_time > failure.last_time {
        return Turn::First;
    }
    match &failure.next_time {
        None => Turn::Over,
        Some(Time(next)) if *next > now => {
            Turn::Waits(next.duration_since(now).unsigned_abs().min(LONGEST_WAIT))
        }
        Some(_) => Turn::Again,
    }
}

/// Whether a bundle is wholly on the target: if it failed, health did not come.
pub(crate) fn is_applied(status: &ReleaseStatus, bundle: &str) -> bool {
    status.bundle_digest.as_deref() == Some(bundle)
        && condition_status(&status.conditions, condition_type::APPLIED) == ConditionStatus::True
}

/// The history within its limit. The last healthy revision before the newest stays: it is what a rollback goes back
/// to.
pub(crate) fn bounded(history: &mut Vec<HistoryEntry>, limit: usize) {
    if history.len() <= limit {
        return;
    }
    let newest = history.first().map(|entry| entry.bundle_digest.clone()).unwrap_or_default();
    let is_healthy =
        |entry: &HistoryEntry| entry.outcome == Outcome::Succeeded && entry.bundle_digest != newest;
    let dropped = history.split_off(limit);
    if !history.iter().any(is_healthy) {
        history.extend(dropped.into_iter().find(is_healthy));
    }
}

#[cfg(test)]
mod tests;
