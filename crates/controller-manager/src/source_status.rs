//! What the statuses of all sources have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use convoy_api::{
    Condition, ConditionStatus, Kind, LocalReference, annotation, condition_type, find_condition, reason,
    set_condition,
};
use convoy_apply::Ownership;
use convoy_runtime::traces::{self, TRACES};
use convoy_runtime::{EventKind, Next, StoreKey};
use convoy_source::{Class, FetchError};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::Empty;

use crate::host::{Host, HostError, in_words};

/// What a look at a source came to.
pub(crate) enum Outcome<T> {
    /// It is there; `message` says what.
    Fetched {
        found: T,
        message: String,
    },
    /// It is not; what was found last stays.
    Failed {
        reason: &'static str,
        message: String,
        is_transient: bool,
    },
    Suspended,
}

impl<T> Outcome<T> {
    /// That of a request that failed.
    pub(crate) fn of_failure(error: &FetchError) -> Self {
        Outcome::Failed {
            reason: error.reason(),
            message: in_words(error),
            is_transient: error.class() == Class::Transient,
        }
    }

    /// When to look again.
    pub(crate) fn next(&self, interval: Duration) -> Next {
        match self {
            Outcome::Failed { is_transient: true, .. } => Next::Retry,
            Outcome::Failed { .. } | Outcome::Fetched { .. } => Next::After(interval),
            Outcome::Suspended => Next::Done,
        }
    }
}

/// A fetch of a source, in a span of its own.
pub(crate) async fn traced<T>(
    kind: &'static str,
    source: &StoreKey,
    fetch: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    let span = tracing::info_span!(target: TRACES, "fetch", convoy.kind = kind, convoy.object = %source, otel.status_code = Empty);
    traces::traced(span, fetch, |outcome| matches!(outcome, Outcome::Failed { .. })).await
}

/// What the Secret of a source holds; none when it names none. An outcome, when there is no such Secret.
pub(crate) async fn secret<T>(
    host: &Host,
    source: &StoreKey,
    reference: Option<&LocalReference>,
) -> Result<Result<Option<BTreeMap<String, Vec<u8>>>, Outcome<T>>, HostError> {
    let Some(reference) = reference else { return Ok(Ok(None)) };
    let at = StoreKey::new(source.namespace.as_str(), reference.name.as_str());
    let data = host.reader.secret(&at).await?;
    Ok(data.map(Some).ok_or_else(|| Outcome::Failed {
        reason: reason::DEPENDENCY_NOT_FOUND,
        message: format!("there is no Secret {at}, which spec.secretRef names; create it"),
        is_transient: true,
    }))
}

/// Says in the conditions what a look came to.
pub(crate) fn say<T>(conditions: &mut Vec<Condition>, outcome: &Outcome<T>, generation: i64, now: Timestamp) {
    conditions.retain(|condition| condition.type_ != condition_type::STALLED);
    let (status, reason, message) = match outcome {
        Outcome::Fetched { message, .. } => (ConditionStatus::True, reason::SUCCEEDED, message.as_str()),
        Outcome::Failed { reason, message, .. } => (ConditionStatus::False, *reason, message.as_str()),
        Outcome::Suspended => {
            let message = "spec.suspend is true; Releases keep the artifact that is there";
            (ConditionStatus::False, reason::SUSPENDED, message)
        }
    };
    set_condition(conditions, condition_type::READY, status, reason, message, generation, now);
    if let Outcome::Failed { reason, is_transient: false, .. } = outcome {
        let message = "it is looked at again after spec.interval, and when the spec changes";
        let status = ConditionStatus::True;
        set_condition(conditions, condition_type::STALLED, status, reason, message, generation, now);
    }
}

/// The value of the annotation that asks for a look now.
pub(crate) fn asked<K: Kind>(object: &K) -> Option<String> {
    object.metadata().annotations.as_ref()?.get(annotation::RECONCILE_AT).cloned()
}

/// The status fields to write; none when they stand there already.
pub(crate) fn news<S: PartialEq + Serialize>(old: &S, new: &S) -> Option<Map<String, Value>> {
    if new == old {
        return None;
    }
    match serde_json::to_value(new) {
        Ok(Value::Object(status)) => Some(status),
        _ => None,
    }
}

/// An event, when Ready has changed its mind or its reason.
pub(crate) async fn event<K: Kind>(
    host: &Host,
    ownership: &dyn Ownership,
    object: &K,
    (old, new): (&[Condition], &[Condition]),
    now: Timestamp,
) {
    let Some(ready) = find_condition(new, condition_type::READY) else { return };
    let before = find_condition(old, condition_type::READY);
    if before.is_some_and(|before| before.status == ready.status && before.reason == ready.reason) {
        return;
    }
    let is_good = ready.status == ConditionStatus::True.as_str() || ready.reason == reason::SUSPENDED;
    let kind = if is_good { EventKind::Normal } else { EventKind::Warning };
    host.writer.event(ownership, object, (kind, &ready.reason, &ready.message), now).await;
}
