//! Kinds that run Pods in numbers.

use serde_json::Value;

use crate::field::{condition, condition_true, count, flag, number, text};
use crate::health::{Health, State};

/// `spec.replicas`, whose default is 1.
fn wanted(object: &Value) -> i64 {
    number(object, "/spec/replicas").unwrap_or(1)
}

/// "`have` of `want` Pods are `what`", when there are too few.
fn too_few(have: i64, want: i64, reason: &str, what: &str) -> Option<Health> {
    (have < want).then(|| Health::progressing(reason, format!("{have} of {want} Pods are {what}")))
}

/// Pods of the old kind that are still there.
fn too_many(have: i64, want: i64) -> Option<Health> {
    (have > want)
        .then(|| Health::progressing("PodsTerminating", format!("{} old Pods are still there", have - want)))
}

/// The controller has not written a status yet.
fn unseen(object: &Value) -> Option<Health> {
    let has_status = object.pointer("/status/observedGeneration").is_some();
    let has_generation = object.pointer("/metadata/generation").is_some();
    (has_generation && !has_status).then(|| {
        Health::progressing("LatestGenerationNotObserved", "its controller has not looked at it yet")
    })
}

pub(crate) fn deployment(object: &Value) -> Health {
    if let Some(health) = unseen(object) {
        return health;
    }
    let progressing = condition(object, "Progressing");
    if let Some(failed) = progressing.filter(|progressing| progressing.reason() == "ProgressDeadlineExceeded")
    {
        return Health::degraded(failed.reason(), failed.message());
    }
    let want = wanted(object);
    let [replicas, updated, ready, available] =
        ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
            .map(|field| count(object, &format!("/status/{field}")));
    let is_paused = flag(object, "/spec/paused");
    let rolling = too_few(replicas, want, "LessReplicas", "created")
        .or_else(|| too_few(updated, want, "LessUpdated", "of the newest revision"))
        .or_else(|| too_many(replicas, want))
        .or_else(|| too_few(available, updated, "LessAvailable", "available"))
        .or_else(|| too_few(ready, want, "LessReady", "ready"));
    if let Some(rolling) = rolling {
        return match is_paused {
            true => Health::new(State::Suspended, "Paused", format!("it is paused: {}", rolling.message)),
            false => rolling,
        };
    }
    if !is_paused && progressing.is_some_and(|condition| condition.is("False")) {
        return Health::progressing("ReplicaSetNotAvailable", "its newest ReplicaSet is not available");
    }
    match condition(object, "Available") {
        Some(available) if available.is("True") => Health::healthy(),
        Some(available) => Health::progressing(available.reason(), available.message()),
        None => Health::progressing("NotAvailable", "it does not say yet that it is available"),
    }
}

pub(crate) fn stateful_set(object: &Value) -> Health {
    if let Some(health) = unseen(object) {
        return health;
    }
    let want = wanted(object);
    let [replicas, updated, ready, current] =
        ["replicas", "updatedReplicas", "readyReplicas", "currentReplicas"]
            .map(|field| count(object, &format!("/status/{field}")));
    let counted = too_few(replicas, want, "LessReplicas", "created")
        .or_else(|| too_few(ready, want, "LessReady", "ready"))
        .or_else(|| too_many(replicas, want));
    if let Some(health) = counted {
        return health;
    }
    let is_rolled_out = text(object, "/status/updateRevision") == text(object, "/status/currentRevision");
    if text(object, "/spec/updateStrategy/type") == "OnDelete" {
        return match is_rolled_out {
            true => Health::healthy(),
            false => Health::new(
                State::Healthy,
                "OnDelete",
                "its update strategy is OnDelete: Pods of the old revision wait for somebody to delete them",
            ),
        };
    }
    // Pods below the partition keep the old revision on purpose.
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    let to_update = want.saturating_sub(partition).max(0);
    let have = if is_rolled_out { current.max(updated) } else { updated };
    too_few(have, to_update, "LessUpdated", "of the newest revision").unwrap_or_else(Health::healthy)
}

pub(crate) fn daemon_set(object: &Value) -> Health {
    if let Some(health) = unseen(object) {
        return health;
    }
    let Some(want) = number(object, "/status/desiredNumberScheduled") else {
        return Health::progressing("LatestGenerationNotObserved", "its controller has not looked at it yet");
    };
    let [scheduled, updated, available, ready] =
        ["currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady"]
            .map(|field| count(object, &format!("/status/{field}")));
    let is_on_delete = text(object, "/spec/updateStrategy/type") == "OnDelete";
    too_few(scheduled, want, "LessScheduled", "created")
        .or_else(|| too_few(updated, want, "LessUpdated", "of the newest revision").filter(|_| !is_on_delete))
        .or_else(|| too_few(available, want, "LessAvailable", "available"))
        .or_else(|| too_few(ready, want, "LessReady", "ready"))
        .unwrap_or_else(Health::healthy)
}

pub(crate) fn replica_set(object: &Value) -> Health {
    if let Some(health) = unseen(object) {
        return health;
    }
    if let Some(failure) = condition_true(object, "ReplicaFailure") {
        return Health::progressing(failure.reason(), failure.message());
    }
    let want = wanted(object);
    let [replicas, available, ready] = ["replicas", "availableReplicas", "readyReplicas"]
        .map(|field| count(object, &format!("/status/{field}")));
    too_few(replicas, want, "LessReplicas", "created")
        .or_else(|| too_few(available, want, "LessAvailable", "available"))
        .or_else(|| too_few(ready, want, "LessReady", "ready"))
        .or_else(|| too_many(replicas, want))
        .unwrap_or_else(Health::healthy)
}
