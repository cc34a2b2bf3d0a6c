//! Says in a Cluster's condition `Observed` what of it cannot be watched.

use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Cluster, ConditionStatus, condition_type, find_condition, reason, set_condition};
use convoy_runtime::{Clock, HostWriter, LookedShards, Next, Sharded as _, Shards, Store, StoreKey};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::clusters::Clusters;
use crate::fault::Fault;
use crate::model::Model;
use crate::verdict::Finding;
use crate::watches::describe;

/// How long a fault stays before it is said: an API server that is started anew is none.
pub(crate) const SETTLED: Duration = Duration::from_secs(3);
/// Until the next look when a status was refused.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(1);
/// Kinds that a message names.
const NAMED: usize = 5;

/// Writes the observer's condition of Clusters.
pub(crate) struct ClusterStatuses {
    pub(crate) host: HostWriter,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) known: Store<Cluster>,
    pub(crate) looked: LookedShards,
    pub(crate) shards: Shards,
    pub(crate) clock: Arc<dyn Clock>,
}

impl ClusterStatuses {
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let Some(cluster) = self.known.get(&key) else { return Next::Done };
        let shard = cluster.shard(&self.shards);
        // Another replica's, or not looked at yet; all of a shard is queued when it was.
        let Ok(ownership) = self.shards.guard(shard) else { return Next::Done };
        if !self.looked.has_looked(shard, ownership.epoch()) || !self.clusters.is_built(shard) {
            return Next::Done;
        }
        let finding = match self.clusters.model(&key).map(|model| finding(&model.lock())) {
            Some(Observation::NotYet) => return Next::Done,
            Some(Observation::Faulty(finding)) => Some(finding),
            Some(Observation::Fine) | None => None,
        };
        let Some(patch) = patch(&cluster, finding.as_ref(), self.clock.now()) else { return Next::Done };
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        match self.host.apply_status::<Cluster>(&*ownership, &key, uid, &patch).await {
            Ok(_) => Next::Done,
            Err(error) if error.is_not_owner() => Next::Done,
            Err(error) if error.is_stale() => Next::Wait(AFTER_A_REFUSAL),
            Err(error) => {
                tracing::warn!(cluster = %key, error = describe(&error), "cannot write the condition Observed of a Cluster");
                Next::Retry
            }
        }
    }
}

/// Whether a Cluster says that something of it cannot be watched.
pub(crate) fn is_said(cluster: &Cluster) -> bool {
    observed(cluster).is_some()
}

fn observed(cluster: &Cluster) -> Option<&convoy_api::Condition> {
    let conditions = cluster.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
    find_condition(conditions, condition_type::OBSERVED)
}

/// How the watches of a cluster are.
#[derive(Debug, PartialEq, Eq)]
enum Observation {
    /// Some have not begun: what was said before stays.
    NotYet,
    Fine,
    Faulty(Finding),
}

fn finding(model: &Model) -> Observation {
    let faulty =
        |reason, message| Observation::Faulty(Finding { status: ConditionStatus::False, reason, message });
    if let Some(why) = &model.unreachable {
        return faulty(reason::CLUSTER_UNREACHABLE, format!("the cluster cannot be watched: {why}"));
    }
    if !model.is_settled() {
        return Observation::NotYet;
    }
    let faults = model.faults();
    let Some(worst) = Fault::worst(faults.iter().map(|(_, fault)| fault.reason)) else {
        return Observation::Fine;
    };
    let of_one = |(what, fault): &(String, &Fault)| format!("{what} cannot be watched ({fault})");
    let mut named: Vec<String> = faults.iter().take(NAMED).map(of_one).collect();
    let more = faults.len().saturating_sub(NAMED);
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    faulty(worst, named.join("; "))
}

/// The status fields to apply under the observer's name; nothing when the Cluster says it already.
fn patch(cluster: &Cluster, finding: Option<&Finding>, now: Timestamp) -> Option<Map<String, Value>> {
    let current = observed(cluster);
    let mut new = Vec::new();
    if let Some(Finding { status, reason, message }) = finding {
        new.extend(current.cloned());
        let generation = cluster.metadata.generation.unwrap_or_default();
        set_condition(&mut new, condition_type::OBSERVED, *status, reason, message.as_str(), generation, now);
    }
    // An empty list rather than none: what is left of a status nobody else has written is null, which kube-apiserver refuses.
    (new.first() != current).then(|| Map::from_iter([("conditions".to_owned(), json!(new))]))
}

#[cfg(test)]
mod tests {
    use convoy_api::{InventoryEntry, ReleaseInventory, decode};

    use super::*;
    use crate::model::WatchedKind;

    fn model(kinds: &[&str]) -> (Model, Vec<WatchedKind>) {
        let mut inventory = ReleaseInventory::default();
        let entry = |kind: &&str| InventoryEntry {
            group: "example.org".to_owned(),
            version: "v1".to_owned(),
            kind: (*kind).to_owned(),
            namespace: "prod".to_owned(),
            name: "a".to_owned(),
            ..InventoryEntry::default()
        };
        inventory.spec.entries = kinds.iter().map(entry).collect();
        let mut model = Model::default();
        model.set_inventories(&StoreKey::new("team", "web"), &[&inventory], Duration::ZERO);
        let kinds: Vec<_> = model.wanted_kinds().cloned().collect();
        kinds.iter().for_each(|kind| model.watch_started(kind));
        (model, kinds)
    }

    fn cluster(status: &Value) -> Cluster {
        let object =
            json!({"metadata": {"name": "c", "namespace": "team", "generation": 2}, "status": status});
        decode(&object).unwrap()
    }

    fn message(observation: &Observation) -> (&'static str, &str) {
        match observation {
            Observation::Faulty(finding) => (finding.reason, &finding.message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_said_before_each_watch_has_listed_or_failed_and_then_each_fault_by_its_kind() {
        let (mut model, kinds) = model(&["Boat", "Widget"]);
        let none = Default::default();
        assert_eq!(finding(&model), Observation::NotYet);
        model.listed(&kinds[0], None, &none);
        assert_eq!(finding(&model), Observation::NotYet);
        model.failed(&kinds[1], Fault::new(reason::KIND_NOT_SERVED, "gone"), Duration::ZERO);
        let gone = "Widget (example.org/v1) cannot be watched (KindNotServed: gone)";
        assert_eq!(message(&finding(&model)), ("KindNotServed", gone));
        // One of the other kind, in one namespace.
        model.watched_in(&kinds[0], &["prod".to_owned()].into());
        assert_eq!(finding(&model), Observation::NotYet);
        model.failed_in(&kinds[0], "prod", Fault::new(reason::WATCH_FORBIDDEN, "no"), Duration::ZERO);
        let both = format!(
            "Boat (example.org/v1) in the namespace prod cannot be watched (WatchForbidden: no); {gone}"
        );
        assert_eq!(message(&finding(&model)), ("WatchForbidden", both.as_str()));
        model.listed(&kinds[0], Some("prod"), &none);
        model.listed(&kinds[1], None, &none);
        assert_eq!(finding(&model), Observation::Fine);
        model.unreachable = Some("no route".to_owned());
        assert_eq!(
            message(&finding(&model)),
            ("ClusterUnreachable", "the cluster cannot be watched: no route")
        );
    }

    #[test]
    fn many_faults_are_counted_and_one_that_changes_its_words_only_is_no_news_for_a_while() {
        let names = ["A", "B", "C", "D", "E", "F", "G"];
        let (mut model, kinds) = model(&names);
        let fail = |model: &mut Model, text: &str, at: u64| {
            for kind in &kinds {
                model.failed(kind, Fault::new(reason::WATCH_FAILED, text), Duration::from_secs(at));
            }
            message(&finding(model)).1.to_owned()
        };
        let first = fail(&mut model, "one", 1);
        assert!(first.contains("A (example.org/v1)") && first.ends_with("; and 2 more"), "{first}");
        assert_eq!(fail(&mut model, "two", 30), first);
        assert!(fail(&mut model, "two", 3000).contains("two"));
    }

    #[test]
    fn it_is_written_when_it_is_news_and_taken_back_when_all_is_well() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let fault = |message: &str| Finding {
            status: ConditionStatus::False,
            reason: reason::WATCH_FAILED,
            message: message.to_owned(),
        };
        assert_eq!(patch(&cluster(&json!({})), None, at(1)), None);
        let said = Value::Object(patch(&cluster(&json!({})), Some(&fault("m")), at(1)).unwrap());
        assert_eq!(
            said,
            json!({"conditions": [{
                "type": "Observed", "status": "False", "reason": "WatchFailed", "message": "m",
                "observedGeneration": 2, "lastTransitionTime": "1970-01-01T00:00:01Z",
            }]})
        );
        assert!(is_said(&cluster(&said)));
        assert_eq!(patch(&cluster(&said), Some(&fault("m")), at(9)), None);
        assert!(patch(&cluster(&said), Some(&fault("n")), at(9)).is_some());
        assert_eq!(patch(&cluster(&said), None, at(9)).map(Value::Object), Some(json!({"conditions": []})));
    }
}
