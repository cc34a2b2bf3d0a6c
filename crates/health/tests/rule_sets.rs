//! HealthRuleSets: objects by the rules that users write.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use std::collections::BTreeSet;

use convoy_api::HealthRuleSetSpec;
use convoy_health::{Health, HealthRules, RuleSets, State, rule_faults};
use jiff::Timestamp;
use serde_json::{Value, json};

fn spec(rules: &Value) -> HealthRuleSetSpec {
    serde_json::from_value(json!({"rules": rules})).unwrap()
}

fn look(rules: &Value, object: &Value) -> Health {
    HealthRules::of([("own", &spec(rules))]).health_of(object, Timestamp::UNIX_EPOCH)
}

fn widget(status: &Value) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"generation": 2}, "status": status})
}

#[test]
fn the_first_expression_that_is_true_decides() {
    let rules = || {
        json!([{
            "group": "example.org", "kind": "Widget",
            "healthy": "object.status.state == 'up'",
            "progressing": "object.status.state == 'rising'",
            "degraded": "object.status.errors > 3",
            "suspended": "object.status.state == 'off'",
            "message": "'it is ' + object.status.state",
        }])
    };
    for (status, expected) in [
        (json!({"state": "up"}), State::Healthy),
        (json!({"state": "up", "errors": 4}), State::Degraded),
        (json!({"state": "rising", "errors": 0}), State::Progressing),
        (json!({"state": "off"}), State::Suspended),
        (json!({"state": "odd"}), State::Progressing),
        (json!({}), State::Progressing),
        (json!({"state": "up", "observedGeneration": 1}), State::Progressing),
    ] {
        assert_eq!(look(&rules(), &widget(&status)).state, expected, "{status}");
    }
    let health = look(&rules(), &widget(&json!({"state": "odd"})));
    assert_eq!((health.reason.as_str(), health.message.as_str()), ("HealthRule", "it is odd"));
    let mute = look(&rules(), &widget(&json!({})));
    assert_eq!(mute.message, "by the HealthRuleSet own it is progressing");
    let mut dying = widget(&json!({"state": "up"}));
    dying["metadata"]["deletionTimestamp"] = json!("2026-11-01T12:00:00Z");
    assert_eq!(look(&rules(), &dying).reason, "Terminating");
}

#[test]
fn a_rule_stands_in_for_the_built_in_one_of_its_kind_and_versions_alone() {
    let failing =
        json!([{"group": "cert-manager.io", "kind": "Issuer", "versions": ["v1"], "degraded": "true"}]);
    let issuer = |version: &str| {
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        json!({"apiVersion": version, "kind": "Issuer", "status": {"conditions": conditions}})
    };
    assert_eq!(look(&failing, &issuer("cert-manager.io/v1")).state, State::Degraded);
    assert_eq!(look(&failing, &issuer("cert-manager.io/v2")).state, State::Healthy);
    assert_eq!(look(&failing, &issuer("other.io/v1")).state, State::Healthy);
    let never_failing = json!([{"group": "apps", "kind": "Deployment", "degraded": "false"}]);
    let failed = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"conditions": [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
    ]}});
    assert_eq!(look(&never_failing, &failed).state, State::Healthy);
    assert_eq!(look(&json!([]), &failed).state, State::Degraded);
}

#[test]
fn what_cannot_be_told_is_unknown_and_what_cannot_run_is_left_out() {
    let rules = |expression: &str| json!([{"group": "example.org", "kind": "Widget", "healthy": expression}]);
    let health = look(&rules("object.status.state"), &widget(&json!({"state": "up"})));
    assert_eq!(health.state, State::Unknown);
    assert!(health.message.contains("healthy of the HealthRuleSet own"), "{health:?}");
    assert_eq!(look(&rules("object."), &widget(&json!({}))).state, State::Healthy);
    let bad =
        spec(&json!([{"kind": "A", "healthy": "true"}, {"kind": "B", "healthy": "true", "message": "x"}]));
    let faults = rule_faults(&bad);
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].field, "spec.rules[1].message");
    assert!(faults[0].why.contains("\"x\""), "{faults:?}");
}

#[test]
fn the_data_of_a_secret_cannot_be_said() {
    let rule = |message: &str| json!([{"kind": "Secret", "degraded": "true", "message": message}]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "CANARY"}},
        "data": {"a": "CANARY"}, "stringData": {"a": "CANARY"},
    });
    for message in [
        "object.data.a",
        "object.stringData.a",
        "object.metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
    ] {
        let health = look(&rule(message), &secret);
        assert!(health.state == State::Degraded && !health.message.contains("CANARY"), "{health:?}");
    }
    assert_eq!(look(&rule("object.metadata.name"), &secret).message, "s");
}

#[test]
fn a_change_names_the_kinds_that_it_is_about_and_the_first_set_by_name_holds() {
    let sets = RuleSets::default();
    let rule = |kind: &str, state: &str| json!({"group": "example.org", "kind": kind, state: "true"});
    let names = |kinds: &[&str]| -> BTreeSet<(String, String)> {
        kinds.iter().map(|kind| ("example.org".to_owned(), (*kind).to_owned())).collect()
    };
    let first = spec(&json!([rule("Widget", "degraded"), rule("Box", "degraded")]));
    assert_eq!(sets.set("b", Some(&first)), names(&["Widget", "Box"]));
    assert_eq!(sets.set("b", Some(&first)), names(&[]));
    assert_eq!(sets.set("a", Some(&spec(&json!([rule("Widget", "suspended")])))), names(&["Widget"]));
    let state = || sets.rules().health_of(&widget(&json!({})), Timestamp::UNIX_EPOCH).state;
    assert_eq!(state(), State::Suspended);
    assert_eq!(sets.set("a", None), names(&["Widget"]));
    assert_eq!(state(), State::Degraded);
    let changed = spec(&json!([rule("Widget", "degraded"), rule("Box", "suspended")]));
    assert_eq!(sets.set("b", Some(&changed)), names(&["Box"]));
}
