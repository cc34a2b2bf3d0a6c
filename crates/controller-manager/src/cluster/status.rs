use std::sync::Arc;

use convoy_api::{
    Cluster, ClusterStatus, ConditionStatus, annotation, condition_type, reason, set_condition,
};
use convoy_apply::Capabilities;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// What a look at a Cluster came to.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    InContact(Arc<Capabilities>),
    /// The kubeconfig is not used.
    Refused {
        message: String,
    },
    /// The spec or what it names is not there.
    NotFound {
        reason: &'static str,
        message: String,
    },
    /// The target does not answer us.
    NoContact {
        reason: &'static str,
        message: String,
    },
    Suspended,
}

/// The status fields to write; none when they stand there already.
pub(crate) fn patch(
    cluster: &Cluster,
    outcome: &Outcome,
    releases: usize,
    now: Timestamp,
) -> Option<Map<String, Value>> {
    let old = cluster.status.clone().unwrap_or_default();
    let generation = cluster.metadata.generation.unwrap_or_default();
    let mut new = ClusterStatus {
        observed_generation: Some(generation),
        releases: i64::try_from(releases).ok(),
        ..old.clone()
    };
    let annotations = cluster.metadata.annotations.as_ref();
    new.last_handled_reconcile_at = annotations.and_then(|a| a.get(annotation::RECONCILE_AT)).cloned();
    let (reachable, ready, reason, message) = match outcome {
        Outcome::InContact(capabilities) => {
            new.kubernetes_version = Some(capabilities.version.clone());
            new.api_versions_digest = Some(capabilities.digest.clone());
            let message = format!("the API server answers; it is {}", capabilities.version);
            (ConditionStatus::True, ConditionStatus::True, reason::SUCCEEDED, message)
        }
        Outcome::Refused { message } => {
            (ConditionStatus::False, ConditionStatus::False, reason::KUBECONFIG_REFUSED, message.clone())
        }
        Outcome::NotFound { reason, message } | Outcome::NoContact { reason, message } => {
            (ConditionStatus::False, ConditionStatus::False, *reason, message.clone())
        }
        Outcome::Suspended => {
            let message = "spec.suspend is true; nothing is delivered, and what is there stays".to_owned();
            (ConditionStatus::Unknown, ConditionStatus::False, reason::SUSPENDED, message)
        }
    };
    let conditions = &mut new.conditions;
    set_condition(
        conditions,
        condition_type::REACHABLE,
        reachable,
        reason,
        message.as_str(),
        generation,
        now,
    );
    set_condition(conditions, condition_type::READY, ready, reason, message, generation, now);
    if new == old {
        return None;
    }
    match serde_json::to_value(&new) {
        Ok(Value::Object(status)) => Some(status),
        _ => None,
    }
}
