//! Patches with the objects and texts that kube-apiserver's libraries answer to them.

use convoy_smd::{JsonPatchError, MAX_OPERATIONS, SchemaSet, json_patch, merge_patch, strategic_merge_patch};
use serde_json::{Value, json};

fn data() -> Value {
    serde_json::from_str(include_str!("data/patches.json")).unwrap_or_default()
}

fn check(kind: &str, apply: impl Fn(&Value, &mut Value, Value) -> Result<(), String>) {
    let data = data();
    let cases = data[kind].as_array().map(Vec::as_slice).unwrap_or_default();
    assert!(!cases.is_empty());
    for case in cases {
        let mut object = case["object"].clone();
        let got = apply(case, &mut object, case["patch"].clone());
        match case.get("error") {
            Some(error) => assert_eq!(got.err().as_deref(), error.as_str(), "{}", case["name"]),
            None => {
                assert_eq!(got, Ok(()), "{}", case["name"]);
                assert_eq!(object, case["want"], "{}", case["name"]);
            }
        }
    }
}

#[test]
fn json_patches_do_as_in_kubernetes() {
    check("json_patch", |_, object, patch| json_patch(object, &patch).map_err(|e| e.to_string()));
}

#[test]
fn merge_patches_do_as_in_kubernetes() {
    check("merge_patch", |_, object, patch| merge_patch(object, patch).map_err(|e| e.to_string()));
}

#[test]
fn strategic_merge_patches_do_as_in_kubernetes() {
    let schemas = SchemaSet::from_openapi(&data()["components"]).unwrap();
    check("strategic", |case, object, patch| {
        let schema = schemas.get(case["type"].as_str().unwrap_or_default()).unwrap();
        strategic_merge_patch(&schema, object, patch).map_err(|e| e.to_string())
    });
}

#[test]
fn json_patches_have_a_limited_number_of_operations() {
    let operation = json!({"op": "test", "path": "/a", "value": 1});
    let mut object = json!({"a": 1});
    let most = Value::Array(vec![operation.clone(); MAX_OPERATIONS]);
    assert_eq!(json_patch(&mut object, &most), Ok(()));
    let more = Value::Array(vec![operation; MAX_OPERATIONS + 1]);
    assert_eq!(json_patch(&mut object, &more), Err(JsonPatchError::TooManyOperations { got: 10_001 }));
}

#[test]
fn json_patches_may_not_blow_an_object_up_by_copies() {
    let mut object = json!({"a": "x".repeat(100_000)});
    let copies: Vec<_> =
        (0..40).map(|at| json!({"op": "copy", "from": "/a", "path": format!("/c{at}")})).collect();
    let error = json_patch(&mut object, &Value::Array(copies)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Unable to complete the copy, the accumulated size increase of copy is 3200064, exceeding the limit \
         3145728"
    );
}
