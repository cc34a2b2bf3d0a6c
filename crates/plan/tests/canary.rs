//! A canary in every place of a manifest that is secret, in many generated manifests: nothing that is told of them has it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;

use convoy_plan::{Mask, Rendered, Sides, manifest};
use proptest::prelude::*;
use serde_json::{Value, json};

const CANARY: &str = "CANARY-8315";

/// Ordinary content, in which nothing is secret.
fn ordinary() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z0-9 \n:#'\"-]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z./~-]{1,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A value that is the canary, or has it somewhere.
fn secret() -> impl Strategy<Value = Value> {
    let text = "[a-z\n]{0,5}".prop_map(|more| Value::from(format!("{more}{CANARY}{more}")));
    prop_oneof![
        text.clone(),
        (text.clone(), ordinary()).prop_map(|(text, other)| json!({"a": other, "b": [text]})),
        text.prop_map(|text| json!([{"name": text, "x": 1}, {"name": "b", "token": text}])),
    ]
}

/// An object with canaries in every place that is secret in it.
fn object() -> impl Strategy<Value = Value> {
    (ordinary(), secret(), secret(), secret(), any::<bool>(), any::<bool>()).prop_map(
        |(plain, a, b, c, is_secret, is_odd)| {
            let last = json!({"data": {"a": CANARY}}).to_string();
            let mut object = json!({
                "apiVersion": "v1", "kind": if is_secret { "Secret" } else { "Credential" },
                "metadata": {
                    "name": "x", "resourceVersion": "7", "managedFields": [],
                    "annotations": {
                        "kubectl.kubernetes.io/last-applied-configuration": last,
                        "convoy.kumodo.io/sensitive-paths": "/spec/password /spec/users/*/token",
                    },
                },
                "status": {"was": CANARY},
            });
            if is_secret {
                object["metadata"]["annotations"]["foreign"] = CANARY.into();
                object["metadata"]["labels"] = json!({"foreign": CANARY});
                object["data"] = if is_odd { a } else { json!({"k": a}) };
                object["stringData"] = json!({"k": b});
                object["odd"] = c;
            } else {
                object["spec"] = json!({"plain": plain, "password": a, "users": [{"name": "n", "token": b}]});
                object["from"] = json!({"secret": c, "plain": plain});
            }
            object
        },
    )
}

/// The same object as the bundle has it.
fn desired(object: &Value) -> Value {
    let mut desired = object.clone();
    let metadata = desired["metadata"].as_object_mut().unwrap();
    metadata.remove("labels");
    let annotations = metadata["annotations"].as_object_mut().unwrap();
    annotations.remove("foreign");
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    desired
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_canary_is_in_what_is_told(before in object(), after in object(), hides_before in any::<bool>()) {
        let places = BTreeMap::from([("Credential/x".to_owned(), vec!["/from/secret".to_owned()])]);
        let mask = Mask { text: &str::to_owned, hides_before, hides_after: false, places: &places };
        let bundle = desired(&after);
        for (old, new) in [(Some(&before), Some(&after)), (None, Some(&after)), (Some(&before), None)] {
            let sides = Sides { before: old, after: new, desired: new.map(|_| &bundle) };
            let (told, fields) = (sides.unified(mask).into_text(), format!("{:?}", sides.changes(mask)));
            prop_assert!(!told.contains("CANARY"), "{told}");
            prop_assert!(!fields.contains("CANARY"), "{fields}");
        }
        let rendered = Rendered { source: "a.yaml".to_owned(), object: bundle.clone(), early: false };
        let panicked = std::panic::catch_unwind(|| panic!("{rendered:?}")).unwrap_err();
        let message = panicked.downcast_ref::<String>().unwrap();
        prop_assert!(message.contains("a.yaml") && !message.contains("CANARY"), "{message}");
        let whole = manifest(&bundle, mask).into_text();
        prop_assert!(!whole.contains("CANARY"), "{whole}");
    }

    #[test]
    fn what_is_told_of_a_change_is_whether_there_is_one(before in ordinary(), after in ordinary()) {
        let places = BTreeMap::new();
        let mask = Mask { text: &str::to_owned, hides_before: false, hides_after: false, places: &places };
        let wrap = |value: &Value| json!({"kind": "Odd", "spec": {"a": value}});
        let (old, new) = (wrap(&before), wrap(&after));
        let sides = Sides { before: Some(&old), after: Some(&new), desired: Some(&new) };
        let told = sides.unified(mask).into_text();
        if before == after {
            prop_assert_eq!(told, "");
        } else {
            prop_assert_eq!(told.is_empty(), sides.changes(mask).is_empty());
        }
    }
}
