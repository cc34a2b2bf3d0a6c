//! From a verdict to the status fields to write.

use convoy_api::{Condition, Release, condition_type, field_manager, find_condition, set_condition};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::verdict::{Finding, Verdict};

/// Who writes.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) replica: String,
    pub(crate) shard: u32,
}

/// The object to apply to the Release's `status` under [`field_manager::OBSERVER`]; nothing when the
/// Release says all of it already.
pub(crate) fn patch(release: &Release, verdict: &Verdict, writer: &Writer, now: Timestamp) -> Option<Value> {
    let current = release.status.clone().unwrap_or_default();
    // What is on the target was applied for this generation, not for the newest.
    let generation = current.observed_generation.or(release.metadata.generation).unwrap_or_default();
    let conditions: Vec<Condition> =
        [(condition_type::HEALTHY, &verdict.healthy), (condition_type::DRIFTED, &verdict.drifted)]
            .into_iter()
            .filter_map(|(type_, finding)| condition(&current.conditions, type_, finding, generation, now))
            .collect();
    let is_said = conditions.iter().all(|new| find_condition(&current.conditions, &new.type_) == Some(new));
    let healthy = i64::try_from(verdict.healthy_objects).unwrap_or(i64::MAX);
    let is_written_by_us = current
        .observer
        .as_ref()
        .is_some_and(|by| by.replica == writer.replica && by.shard == i64::from(writer.shard));
    if is_said
        && is_written_by_us
        && current.healthy_objects == Some(healthy)
        && current.observed_bundle_digest == verdict.bundle_digest
    {
        return None;
    }
    let mut status = Map::new();
    status.insert("conditions".to_owned(), json!(conditions));
    status.insert("healthyObjects".to_owned(), json!(healthy));
    status.insert("observer".to_owned(), json!({"replica": writer.replica, "shard": writer.shard}));
    if let Some(digest) = &verdict.bundle_digest {
        status.insert("observedBundleDigest".to_owned(), json!(digest));
    }
    Some(json!({
        "apiVersion": convoy_api::API_VERSION,
        "kind": "Release",
        // The uid makes the write fail when the Release was deleted and made again meanwhile.
        "metadata": {
            "name": release.metadata.name,
            "namespace": release.metadata.namespace,
            "uid": release.metadata.uid,
        },
        "status": status,
    }))
}

/// The field manager that [`patch`] is written under.
pub(crate) const MANAGER: &str = field_manager::OBSERVER;

/// The condition as it will stand there; its time of transition is the old one when its status is.
fn condition(
    current: &[Condition],
    type_: &str,
    finding: &Finding,
    generation: i64,
    now: Timestamp,
) -> Option<Condition> {
    let mut one: Vec<Condition> = find_condition(current, type_).into_iter().cloned().collect();
    set_condition(&mut one, type_, finding.status, finding.reason, finding.message.clone(), generation, now);
    one.pop()
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_api::{ConditionStatus, decode};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn verdict(drifted: bool, bundle: Option<&str>) -> Verdict {
        let finding = |status: bool, reason| Finding {
            status: ConditionStatus::from(status),
            reason,
            message: "m".to_owned(),
        };
        Verdict {
            healthy: finding(true, "Healthy"),
            drifted: finding(drifted, if drifted { "ChangedOnTarget" } else { "InSync" }),
            healthy_objects: 2,
            bundle_digest: bundle.map(str::to_owned),
            look_again: None,
            is_premature: false,
        }
    }

    fn release(status: &Value) -> Release {
        decode(&json!({"metadata": {"name": "web", "namespace": "team", "uid": "u", "generation": 3}, "status": status})).unwrap()
    }

    #[test]
    fn only_news_is_written_and_times_of_transition_stay() {
        let writer = Writer { replica: "obs-0".to_owned(), shard: 7 };
        let first = patch(&release(&json!({})), &verdict(false, Some("b1")), &writer, at(100)).unwrap();
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": "m", "observedGeneration": 3,
                "lastTransitionTime": "1970-01-01T00:01:40Z",
            })
        };
        assert_eq!(
            first,
            json!({
                "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release",
                "metadata": {"name": "web", "namespace": "team", "uid": "u"},
                "status": {
                    "conditions": [condition("Healthy", "True", "Healthy"), condition("Drifted", "False", "InSync")],
                    "healthyObjects": 2,
                    "observedBundleDigest": "b1",
                    "observer": {"replica": "obs-0", "shard": 7},
                },
            })
        );
        let written = release(&first["status"]);
        assert_eq!(patch(&written, &verdict(false, Some("b1")), &writer, at(200)), None);

        let drift = patch(&written, &verdict(true, Some("b1")), &writer, at(200)).unwrap();
        let times: Vec<_> = drift["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["lastTransitionTime"].clone())
            .collect();
        assert_eq!(times, ["1970-01-01T00:01:40Z", "1970-01-01T00:03:20Z"]);

        let unseen = patch(&written, &verdict(false, None), &writer, at(200)).unwrap();
        assert_eq!(unseen["status"].get("observedBundleDigest"), None);
        let other = Writer { replica: "obs-1".to_owned(), shard: 7 };
        assert!(patch(&written, &verdict(false, Some("b1")), &other, at(200)).is_some());
    }
}
