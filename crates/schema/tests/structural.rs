//! Structural schemas do what kube-apiserver's do.
//!
//! The cases were made at random; the expected values are the answers of k8s.io/apiextensions-apiserver
//! v0.36.3 (structural schema, pruning, defaulting, validation, list types).

use convoy_schema::Structural;
use serde_json::Value;

const CASES: &str = include_str!("structural.json");

/// Go prints 2.0 as 2.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, left)| right.get(name).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

#[test]
fn random_schemas_prune_default_and_validate_as_in_kubernetes() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() > 50);
    let mut wrong = Vec::new();
    for (index, case) in cases.iter().enumerate().filter(|(_, case)| case["error"].is_null()) {
        let schema = Structural::new(&case["schema"]).unwrap();
        let value = &case["value"];
        let mut check = |what: &str, found: Value, want: &Value| {
            if !same(&found, want) {
                wrong.push(format!(
                    "case {index}, {what}:\n  {} on {value}\n  want {want}\n   got {found}",
                    case["schema"]
                ));
            }
        };
        check("unknown", schema.unknown_fields(value).into(), &case["unknown"]);
        let mut pruned = value.clone();
        schema.prune(&mut pruned);
        check("pruned", pruned, &case["pruned"]);
        let mut defaulted = value.clone();
        schema.default(&mut defaulted);
        check("defaulted", defaulted, &case["defaulted"]);
        let mut errors: Vec<String> = schema.validate(value).iter().map(ToString::to_string).collect();
        errors.sort();
        check("errors", errors.into(), &case["errors"]);
    }
    assert!(
        wrong.is_empty(),
        "{} differences\n{}",
        wrong.len(),
        wrong.iter().take(12).cloned().collect::<Vec<_>>().join("\n")
    );
}
