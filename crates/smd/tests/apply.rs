//! Scenarios of applies and updates. The objects, entries and texts that are wanted were taken from
//! `k8s.io/apimachinery/pkg/util/managedfields`, run over the same steps.

#![allow(clippy::unwrap_used, reason = "a test that meets broken data should fail")]

use convoy_smd::{ApplyError, FieldManager, Schema};
use serde_json::{Value, json};

fn text<'v>(step: &'v Value, name: &str) -> &'v str {
    step[name].as_str().unwrap_or_default()
}

fn step(schema: &Schema, live: Option<&Value>, step: &Value) -> Result<Value, ApplyError> {
    let reset_fields = serde_json::from_value(step["reset"].clone()).unwrap_or_default();
    let fields = FieldManager {
        schema: schema.clone(),
        api_version: "example.io/v1".into(),
        kind: "Widget".into(),
        subresource: text(step, "sub").into(),
        reset_fields,
    };
    let now = text(step, "now").parse().unwrap();
    if step["op"] == "apply" {
        let force = step["force"].as_bool().unwrap_or(false);
        return fields.apply(live, &step["object"], text(step, "manager"), force, now);
    }
    let new = match step.get("set") {
        None => step["object"].clone(),
        Some(set) => {
            let mut new = live.unwrap().clone();
            let mut place = &mut new;
            for name in set[0].as_array().unwrap() {
                place = &mut place[name.as_str().unwrap()];
            }
            *place = set[1].clone();
            new
        }
    };
    Ok(fields.update(live, new, text(step, "manager"), now))
}

#[test]
fn scenarios_end_as_in_kubernetes() {
    let data: Value = serde_json::from_str(include_str!("data/apply.json")).unwrap();
    let schema = Schema::from_openapi(&data["components"], text(&data, "kind")).unwrap();
    let mut steps = 0;
    for scenario in data["scenarios"].as_array().unwrap() {
        let mut live: Option<Value> = None;
        for (at, wanted) in scenario["steps"].as_array().unwrap().iter().enumerate() {
            let place = format!("{}, step {at}", scenario["name"]);
            match step(&schema, live.as_ref(), wanted) {
                Ok(mut object) => {
                    if at == 0 {
                        object["metadata"]["uid"] = json!("11");
                    }
                    assert_eq!(object, wanted["want"], "{place}");
                    live = Some(object);
                }
                Err(error) => {
                    assert_eq!(error.to_string(), text(wanted, "error"), "{place}");
                    let reason = match &error {
                        ApplyError::Conflict(conflicts) => {
                            let causes: Vec<_> = conflicts
                                .causes
                                .iter()
                                .map(|cause| json!([cause.message(), cause.field]))
                                .collect();
                            assert_eq!(json!(causes), wanted["causes"], "{place}");
                            "Conflict"
                        }
                        ApplyError::BadRequest(_) => "BadRequest",
                        _ => "",
                    };
                    assert_eq!(reason, text(wanted, "reason"), "{place}");
                }
            }
            steps += 1;
        }
    }
    assert!(steps > 70, "only {steps} steps were run");
}
