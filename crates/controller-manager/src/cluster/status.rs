use std::sync::Arc;

use convoy_api::{
    Cluster, ClusterStatus, ConditionStatus, annotation, condition_type, reason, set_condition,
};
use convoy_apply::Capabilities;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value};

/// The conditions that the controller-manager writes.
const OURS: [&str; 2] = [condition_type::REACHABLE, condition_type::READY];

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

/// How old the time of the last contact has to be to be brought up to date: it is no reason to write all the time.
const CONTACT_STEP: SignedDuration = SignedDuration::from_mins(5);

/// The status fields to write; none when they stand there already. `is_fresh` when the outcome is of a look that was just
/// made.
pub(crate) fn patch(
    cluster: &Cluster,
    (outcome, is_fresh): (&Outcome, bool),
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
            let is_old = |last: &Time| now.duration_since(last.0) >= CONTACT_STEP;
            if is_fresh && old.last_contact.as_ref().is_none_or(is_old) {
                new.last_contact = Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
            }
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
    // The others are the observer's: who applies them owns them as well, and they could not be taken back.
    new.conditions.retain(|condition| OURS.contains(&condition.type_.as_str()));
    match serde_json::to_value(&new) {
        Ok(Value::Object(status)) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_observers_condition_is_left_to_it() {
        let observed = serde_json::json!({
            "type": "Observed", "status": "False", "reason": "WatchFailed", "message": "m",
            "lastTransitionTime": "1970-01-01T00:00:01Z",
        });
        let mut cluster = Cluster::default();
        let status = serde_json::json!({"conditions": [observed]});
        cluster.status = Some(serde_json::from_value(status).unwrap());
        let in_contact = Outcome::InContact(Arc::default());
        let said = patch(&cluster, (&in_contact, true), 1, Timestamp::UNIX_EPOCH).unwrap();
        let types: Vec<_> =
            said["conditions"].as_array().unwrap().iter().map(|it| it["type"].clone()).collect();
        assert_eq!(types, ["Reachable", "Ready"]);
        // With what the observer said beside it there is nothing new.
        let mut conditions = said["conditions"].as_array().unwrap().clone();
        conditions.insert(0, observed);
        let stored = Value::Object(Map::from_iter(
            said.into_iter().chain([("conditions".to_owned(), Value::Array(conditions))]),
        ));
        cluster.status = Some(serde_json::from_value(stored).unwrap());
        assert_eq!(patch(&cluster, (&in_contact, true), 1, Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn the_last_contact_is_told_when_it_is_looked_and_not_all_the_time() {
        let in_contact = Outcome::InContact(Arc::default());
        let gone = Outcome::NoContact { reason: reason::CLUSTER_UNREACHABLE, message: String::new() };
        let mut cluster = Cluster::default();
        let mut told = |outcome: &Outcome, is_fresh: bool, second: i64| {
            let now = Timestamp::from_millisecond(second * 1000 + 700).unwrap();
            if let Some(status) = patch(&cluster, (outcome, is_fresh), 1, now) {
                cluster.status = Some(serde_json::from_value(Value::Object(status)).unwrap());
            }
            cluster.status.clone().unwrap_or_default().last_contact.map(|last| last.0.as_second())
        };
        assert_eq!(told(&gone, true, 1), None);
        assert_eq!(told(&in_contact, true, 10), Some(10));
        assert_eq!(told(&in_contact, true, 309), Some(10));
        assert_eq!(told(&in_contact, true, 310), Some(310));
        // Its Releases were counted: nobody asked the target.
        assert_eq!(told(&in_contact, false, 9000), Some(310));
        assert_eq!(told(&gone, true, 9000), Some(310));
        assert_eq!(told(&in_contact, true, 9001), Some(9001));
    }
}
