//! Says in the status of each HealthRuleSet whether its rules are in force.

use std::sync::Arc;

use convoy_api::{
    ConditionStatus, HealthRuleSet, HealthRuleSetStatus, condition_type, reason, set_condition,
};
use convoy_health::{RuleFault, rule_faults};
use convoy_runtime::{Clock, HostWriter, Next, Sharded as _, Shards, Store, StoreKey};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::watches::describe;

/// Faults that a message names.
const NAMED: usize = 5;

/// Writes statuses of HealthRuleSets.
pub(crate) struct RuleSetStatuses {
    pub(crate) host: HostWriter,
    pub(crate) sets: Store<HealthRuleSet>,
    pub(crate) shards: Shards,
    pub(crate) clock: Arc<dyn Clock>,
}

impl RuleSetStatuses {
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let Some(set) = self.sets.get(&key) else { return Next::Done };
        // Another replica's; when the shard is gained, all of it is queued.
        let Ok(ownership) = self.shards.guard(set.shard(&self.shards)) else { return Next::Done };
        let Some(patch) = patch(&set, self.clock.now()) else { return Next::Done };
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        match self.host.apply_status::<HealthRuleSet>(&*ownership, &key, uid, &patch).await {
            Ok(_) => Next::Done,
            // It is another replica's, or its own events bring the next look.
            Err(error) if error.is_not_owner() || error.is_stale() => Next::Done,
            Err(error) => {
                tracing::warn!(set = %key, error = describe(&error), "cannot write the status of a HealthRuleSet");
                Next::Retry
            }
        }
    }
}

/// The status to write; nothing when it stands there already.
fn patch(set: &HealthRuleSet, now: Timestamp) -> Option<Map<String, Value>> {
    let generation = set.metadata.generation.unwrap_or_default();
    let current = set.status.clone().unwrap_or_default();
    let faults = rule_faults(&set.spec);
    let (status, reason, message) = match faults.as_slice() {
        [] => {
            let message = format!("{} rules are in force", set.spec.rules.len());
            (ConditionStatus::True, reason::SUCCEEDED, message)
        }
        faults => (ConditionStatus::False, reason::INVALID_SPEC, in_words(faults)),
    };
    let mut new =
        HealthRuleSetStatus { observed_generation: Some(generation), conditions: current.conditions.clone() };
    set_condition(&mut new.conditions, condition_type::READY, status, reason, message, generation, now);
    if new == current {
        return None;
    }
    let mut fields = Map::new();
    fields.insert("observedGeneration".to_owned(), json!(new.observed_generation));
    fields.insert("conditions".to_owned(), json!(new.conditions));
    Some(fields)
}

fn in_words(faults: &[RuleFault]) -> String {
    let named: Vec<String> =
        faults.iter().take(NAMED).map(|fault| format!("{}: {}", fault.field, fault.why)).collect();
    let more = faults.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("rules that cannot be evaluated are left out: {}{more}", named.join("; "))
}

#[cfg(test)]
mod tests {
    use convoy_api::decode;

    use super::*;

    fn set(healthy: &str, status: &Value) -> HealthRuleSet {
        let rules = json!([{"group": "example.org", "kind": "Widget", "healthy": healthy}]);
        decode(&json!({"metadata": {"name": "own", "generation": 2}, "spec": {"rules": rules}, "status": status}))
            .unwrap()
    }

    #[test]
    fn it_is_ready_when_all_can_be_evaluated_and_said_once() {
        let said = patch(&set("true", &json!({})), Timestamp::UNIX_EPOCH).map(Value::Object).unwrap();
        assert_eq!(said["observedGeneration"], 2);
        assert_eq!(said["conditions"][0]["reason"], "Succeeded");
        assert_eq!(patch(&set("true", &said), Timestamp::MAX), None);
        let said = patch(&set("object.", &said), Timestamp::UNIX_EPOCH).map(Value::Object).unwrap();
        let ready = &said["conditions"][0];
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("InvalidSpec")));
        assert!(ready["message"].as_str().unwrap().contains("spec.rules[0].healthy: "), "{ready}");
    }
}
