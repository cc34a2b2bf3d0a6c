//! From a verdict to the status fields to write.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use convoy_api::{Condition, DriftMode, Release, condition_type, find_condition, reason, set_condition};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use crate::verdict::{Finding, Verdict};

/// A look that is told of is in the cache only a moment later.
const SOONEST_LOOK: Duration = Duration::from_secs(1);

/// Who writes.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) replica: String,
    pub(crate) shard: u32,
    pub(crate) epoch: u64,
}

/// The status fields to apply under the observer's name; nothing when the Release says all of it already.
///
/// Without a verdict what was said before stays. `missing` is what to say of the controller-manager when the
/// Release has none.
pub(crate) fn patch(
    release: &Release,
    verdict: Option<&Verdict>,
    missing: Option<&Finding>,
    writer: &Writer,
    now: Timestamp,
) -> Option<Map<String, Value>> {
    let current = release.status.clone().unwrap_or_default();
    // What is on the target was applied for this generation, not for the newest.
    let generation = current.observed_generation.or(release.metadata.generation).unwrap_or_default();
    let said = |type_: &str| find_condition(&current.conditions, type_);
    let ready_is_ours = said(condition_type::READY).is_some_and(|c| c.reason == reason::CONTROLLER_MISSING);
    let ready = match missing {
        Some(finding) if !ready_is_ours => {
            condition(&current.conditions, condition_type::READY, finding, generation, now)
        }
        // It stays until the controller-manager takes it back: without it here, it would be removed.
        _ => said(condition_type::READY).filter(|_| ready_is_ours).cloned(),
    };
    let is_ignored = release.spec.drift_mode() == DriftMode::Ignore;
    let (healthy, drifted, drifted_objects, healthy_objects, digest) = match verdict {
        Some(verdict) => (
            condition(&current.conditions, condition_type::HEALTHY, &verdict.healthy, generation, now),
            verdict.drifted.as_ref().and_then(|drifted| {
                condition(&current.conditions, condition_type::DRIFTED, drifted, generation, now)
            }),
            verdict.drifted_objects.clone(),
            Some(i64::try_from(verdict.healthy_objects).unwrap_or(i64::MAX)),
            verdict.bundle_digest.clone(),
        ),
        None => (
            said(condition_type::HEALTHY).cloned(),
            said(condition_type::DRIFTED).filter(|_| !is_ignored).cloned(),
            if is_ignored { Vec::new() } else { current.drifted_objects.clone() },
            current.healthy_objects,
            current.observed_bundle_digest.clone(),
        ),
    };
    let apply = verdict.map_or_else(|| current.observed_apply.clone(), |verdict| verdict.apply.clone());
    let conditions: Vec<Condition> = [healthy, drifted, ready].into_iter().flatten().collect();
    let is_taken_back = is_ignored && said(condition_type::DRIFTED).is_some();
    let told = current.observer.as_ref().and_then(|observer| observer.last_look_time.clone());
    let is_look = verdict.is_some_and(is_look);
    let is_look_due = is_look && until_told(release, now).is_zero();
    let is_said = !is_taken_back
        && current.drifted_objects == drifted_objects
        && conditions.iter().all(|new| find_condition(&current.conditions, &new.type_) == Some(new));
    let is_written_by_us = current.observer.as_ref().is_some_and(|by| {
        by.replica == writer.replica
            && by.shard == i64::from(writer.shard)
            && u64::try_from(by.epoch) == Ok(writer.epoch)
    });
    if is_said
        && (verdict.is_none() || is_written_by_us && !is_look_due)
        && current.healthy_objects == healthy_objects
        && current.observed_bundle_digest == digest
        && current.observed_apply == apply
    {
        return None;
    }
    let mut status = Map::new();
    status.insert("conditions".to_owned(), json!(conditions));
    let mut by = json!({"replica": writer.replica, "shard": writer.shard, "epoch": writer.epoch});
    if let Some(at) = if is_look { Some(whole_second(now)) } else { told } {
        by["lastLookTime"] = json!(at);
    }
    status.insert("observer".to_owned(), by);
    if !drifted_objects.is_empty() {
        status.insert("driftedObjects".to_owned(), json!(drifted_objects));
    }
    if let Some(healthy_objects) = healthy_objects {
        status.insert("healthyObjects".to_owned(), json!(healthy_objects));
    }
    if let Some(digest) = &digest {
        status.insert("observedBundleDigest".to_owned(), json!(digest));
    }
    if let Some(apply) = &apply {
        status.insert("observedApply".to_owned(), json!(apply));
    }
    Some(status)
}

/// Whether a verdict comes of a look at the target: one about a cluster that cannot be reached is none.
fn is_look(verdict: &Verdict) -> bool {
    verdict.healthy.reason != reason::CLUSTER_UNREACHABLE
}

/// How long a look at a Release that finds nothing new need not be told: once in an interval, so that looks are rarely
/// writes, and each Release at another time of it, so that those that were looked at together are not written together.
fn until_told(release: &Release, now: Timestamp) -> Duration {
    let observer = release.status.as_ref().and_then(|status| status.observer.as_ref());
    let Some(Time(told)) = observer.and_then(|observer| observer.last_look_time.as_ref()) else {
        return Duration::ZERO;
    };
    let interval = release.spec.interval().as_std();
    let due = told_at(release, interval, *told);
    Duration::try_from(due.duration_since(now)).unwrap_or_default().min(interval)
}

/// The first moment after `told` that is the Release's own one of an interval.
fn told_at(release: &Release, interval: Duration, told: Timestamp) -> Timestamp {
    let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
    let mut hasher = DefaultHasher::new();
    release.metadata.uid.hash(&mut hasher);
    let own = i64::try_from(hasher.finish() % interval.unsigned_abs()).unwrap_or_default();
    let since = told.as_millisecond().saturating_sub(own).rem_euclid(interval);
    told.saturating_add(SignedDuration::from_millis(interval - since)).unwrap_or(told)
}

/// When to look again, so that a Release at rest says in time that it was looked at; never for a verdict that comes of
/// no look.
pub(crate) fn next_look(release: &Release, verdict: Option<&Verdict>, now: Timestamp) -> Option<Duration> {
    verdict.filter(|verdict| is_look(verdict)).map(|_| until_told(release, now).max(SOONEST_LOOK))
}

fn whole_second(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

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
            drifted: Some(finding(drifted, if drifted { "ChangedOnTarget" } else { "InSync" })),
            drifted_objects: Vec::new(),
            healthy_objects: 2,
            bundle_digest: bundle.map(str::to_owned),
            apply: bundle.map(|_| "web.prod#1".to_owned()),
            look_again: None,
            is_premature: false,
        }
    }

    fn release(status: &Value) -> Release {
        decode(&json!({"metadata": {"name": "web", "namespace": "team", "uid": "u", "generation": 3}, "status": status})).unwrap()
    }

    fn writer() -> Writer {
        Writer { replica: "obs-0".to_owned(), shard: 7, epoch: 4 }
    }

    fn condition(type_: &str, status: &str, reason: &str) -> Value {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "m", "observedGeneration": 3,
            "lastTransitionTime": "1970-01-01T00:01:40Z",
        })
    }

    #[test]
    fn only_news_is_written_and_times_of_transition_stay() {
        let patch = |release: &Release, verdict: &Verdict, writer: &Writer, second| {
            super::patch(release, Some(verdict), None, writer, at(second)).map(Value::Object)
        };
        let first = patch(&release(&json!({})), &verdict(false, Some("b1")), &writer(), 100).unwrap();
        assert_eq!(
            first,
            json!({
                "conditions": [condition("Healthy", "True", "Healthy"), condition("Drifted", "False", "InSync")],
                "healthyObjects": 2,
                "observedBundleDigest": "b1",
                "observedApply": "web.prod#1",
                "observer": {"replica": "obs-0", "shard": 7, "epoch": 4, "lastLookTime": "1970-01-01T00:01:40Z"},
            })
        );
        let written = release(&first);
        assert_eq!(patch(&written, &verdict(false, Some("b1")), &writer(), 200), None);

        let drift = patch(&written, &verdict(true, Some("b1")), &writer(), 200).unwrap();
        let times: Vec<_> =
            drift["conditions"].as_array().unwrap().iter().map(|c| c["lastTransitionTime"].clone()).collect();
        assert_eq!(times, ["1970-01-01T00:01:40Z", "1970-01-01T00:03:20Z"]);

        let again = Verdict { apply: Some("web.prod#2".to_owned()), ..verdict(false, Some("b1")) };
        assert_eq!(patch(&written, &again, &writer(), 200).unwrap()["observedApply"], "web.prod#2");
        let unseen = patch(&written, &verdict(false, None), &writer(), 200).unwrap();
        assert_eq!(unseen.get("observedBundleDigest"), None);
        for other in [Writer { replica: "obs-1".to_owned(), ..writer() }, Writer { epoch: 5, ..writer() }] {
            assert!(patch(&written, &verdict(false, Some("b1")), &other, 200).is_some());
        }
    }

    #[test]
    fn i12_the_age_of_what_is_said_is_told_with_each_news_and_else_once_in_an_interval() {
        let patch = |status: &Value, verdict: &Verdict, second| {
            super::patch(&release(status), Some(verdict), None, &writer(), at(second)).map(Value::Object)
        };
        let next = |status: &Value, verdict: &Verdict, second| {
            next_look(&release(status), Some(verdict), at(second)).map(|wait| wait.as_secs())
        };
        let looked = |status: &Value| status["observer"]["lastLookTime"].clone();
        let calm = verdict(false, Some("b1"));
        let first = patch(&json!({}), &calm, 100).unwrap();
        // The interval is ten minutes, and when in it this Release is told of is its own.
        let due = told_at(&release(&first), Duration::from_secs(600), at(100)).as_second() + 1;
        assert!(due > 100 && due <= 701, "{due}");
        assert_eq!((patch(&first, &calm, due - 2), next(&first, &calm, due - 2)), (None, Some(1)));
        let again = patch(&first, &calm, due).unwrap();
        assert_eq!((looked(&again), &again["conditions"]), (json!(at(due)), &first["conditions"]));
        assert_eq!(patch(&again, &calm, due + 1), None);
        assert_eq!(patch(&again, &calm, due + 598), None);
        assert!(patch(&again, &calm, due + 601).is_some());
        let news = patch(&again, &verdict(true, Some("b1")), 800).unwrap();
        assert_eq!(looked(&news), "1970-01-01T00:13:20Z");

        // Who does not reach the cluster has not looked, however often it says so.
        let unreachable = Finding {
            status: ConditionStatus::Unknown,
            reason: reason::CLUSTER_UNREACHABLE,
            message: "m".to_owned(),
        };
        let cut_off = Verdict { healthy: unreachable, ..verdict(false, None) };
        let said = patch(&news, &cut_off, 900).unwrap();
        assert_eq!(looked(&said), looked(&news));
        assert_eq!((patch(&said, &cut_off, 9000), next(&said, &cut_off, 9000)), (None, None));
        assert_eq!(next_look(&release(&said), None, at(9000)), None);
    }

    #[test]
    fn releases_that_were_looked_at_together_are_told_of_all_over_the_interval() {
        let interval = Duration::from_secs(600);
        let due = |number: u32| {
            let mut release = release(&json!({}));
            release.metadata.uid = Some(format!("u-{number}"));
            told_at(&release, interval, at(1000)).as_second()
        };
        let mut minutes = [0_u32; 10];
        for number in 0..1000 {
            let wait = due(number) - 1000;
            minutes[usize::try_from(wait / 60).unwrap().min(9)] += 1;
        }
        assert!(minutes.iter().all(|count| (60..150).contains(count)), "{minutes:?}");
    }

    #[test]
    fn what_nobody_wants_to_know_is_taken_back_and_not_said_again() {
        let object = json!({"kind": "ConfigMap", "name": "a", "manager": "hand"});
        let drifted = json!({
            "conditions": [
                condition("Healthy", "True", "Healthy"), condition("Drifted", "True", "ChangedOnTarget"),
            ],
            "healthyObjects": 2, "observedBundleDigest": "b1", "observedApply": "web.prod#1", "driftedObjects": [object],
            "observer": {"replica": "obs-0", "shard": 7, "epoch": 4, "lastLookTime": "1970-01-01T00:01:40Z"},
        });
        let ignoring = |status: &Value| {
            let mut release = release(status);
            release.spec.drift =
                Some(convoy_api::DriftPolicy { mode: Some(DriftMode::Ignore), ignore: Vec::new() });
            release
        };
        let nothing = Verdict { drifted: None, ..verdict(false, Some("b1")) };
        for verdict in [Some(&nothing), None] {
            let patch = |status: &Value| super::patch(&ignoring(status), verdict, None, &writer(), at(200));
            let said = patch(&drifted).map(Value::Object).unwrap();
            assert_eq!(said["conditions"], json!([condition("Healthy", "True", "Healthy")]));
            assert_eq!(said.get("driftedObjects"), None);
            assert_eq!(patch(&said), None);
        }
    }

    #[test]
    fn i12_a_missing_controller_takes_ready_and_leaves_all_else_until_it_is_back() {
        let stored = json!({
            "conditions": [
                condition("Ready", "True", "Succeeded"), condition("Healthy", "True", "Healthy"),
                condition("Drifted", "False", "InSync"),
            ],
            "healthyObjects": 2, "observedBundleDigest": "b1",
            "observer": {"replica": "obs-9", "shard": 7, "epoch": 3},
        });
        let missing = Finding {
            status: ConditionStatus::Unknown,
            reason: reason::CONTROLLER_MISSING,
            message: "m".to_owned(),
        };
        let patch = |status: &Value, missing, second| {
            super::patch(&release(status), None, missing, &writer(), at(second)).map(Value::Object)
        };
        assert_eq!(patch(&stored, None, 100), None, "without a verdict there is nothing to say");
        let said = patch(&stored, Some(&missing), 100).unwrap();
        assert_eq!(
            said,
            json!({
                "conditions": [
                    condition("Healthy", "True", "Healthy"), condition("Drifted", "False", "InSync"),
                    condition("Ready", "Unknown", "ControllerMissing"),
                ],
                "healthyObjects": 2, "observedBundleDigest": "b1",
                "observer": {"replica": "obs-0", "shard": 7, "epoch": 4},
            })
        );
        // Said once; another since does not make it new.
        let later = Finding { message: "since then".to_owned(), ..missing };
        assert_eq!(patch(&said, Some(&later), 500), None);
        // The controller is back and has not written yet: what else is said does not remove the condition.
        let drift = super::patch(&release(&said), Some(&verdict(true, Some("b1"))), None, &writer(), at(500))
            .unwrap();
        assert_eq!(drift["conditions"][2], condition("Ready", "Unknown", "ControllerMissing"));
        // It has written: the condition is not ours any more.
        let drift =
            super::patch(&release(&stored), Some(&verdict(true, Some("b1"))), None, &writer(), at(500))
                .unwrap();
        assert_eq!(drift["conditions"].as_array().unwrap().len(), 2);
    }
}
