//! Cases from the field about what a comparison shows, by their numbers.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use convoy_plan::{Mask, Sides};
use serde_json::{Value, json};

/// What is told of an object in both forms, without values that a Release takes from Secrets.
fn told(before: &Value, after: &Value, desired: &Value) -> String {
    let places = BTreeMap::new();
    let mask = Mask { text: &str::to_owned, hides_before: false, hides_after: false, places: &places };
    let sides = Sides { before: Some(before), after: Some(after), desired: Some(desired) };
    let changes = sides.changes(mask);
    let fields: Vec<String> = changes
        .fields
        .iter()
        .map(|change| format!("{}: {:?} -> {:?}", change.path, change.before, change.after))
        .collect();
    format!("{}{}", sides.unified(mask).into_text(), fields.join("\n"))
}

#[track_caller]
fn check(told: &str, has: &[&str]) {
    assert!(!told.contains("CANARY"), "{told}");
    for part in has {
        assert!(told.contains(part), "{part:?} is missing: {told}");
    }
}

/// A definition whose manifest has a status and the server's metadata: what the server made of these is no difference.
#[test]
fn case_116_status_and_the_servers_metadata_are_no_difference() {
    let desired = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cups.kitchen.example", "creationTimestamp": null, "generation": 9},
        "spec": {"group": "kitchen.example", "scope": "Cluster"},
        "status": {"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": []},
    });
    let live = |version: &str, stored: Value| {
        let mut live = desired.clone();
        live["metadata"] = json!({"name": "cups.kitchen.example", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1,
            "resourceVersion": version, "uid": version, "managedFields": [{"manager": version}], "selfLink": version});
        live["status"] = json!({"acceptedNames": {"kind": "Cup", "plural": "cups"}, "conditions": [{"type": version}],
            "storedVersions": stored});
        live
    };
    assert_eq!(told(&live("1", json!(["v1"])), &live("2", json!(["v1", "v2"])), &desired), "");
}

/// What `kubectl apply` keeps of a whole Secret, also when it is no JSON.
#[test]
fn case_202_the_annotation_of_kubectl_tells_nothing_of_a_secret() {
    let wanted = |password: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "labels": {"tier": "new"}},
            "stringData": {"password": password}})
    };
    for (kept, after_kept) in [
        (
            r#"{"stringData": {"password": "CANARY-was"}}"#,
            Some(r#"{"stringData": {"password": "CANARY-was"}}"#),
        ),
        ("{no JSON, and CANARY-was in it", None),
        ("CANARY-was", Some("CANARY-is")),
    ] {
        let of = |kept: Option<&str>, labels: Value, data: &str| {
            let annotations =
                kept.map(|kept| json!({"kubectl.kubernetes.io/last-applied-configuration": kept}));
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "labels": labels, "annotations": annotations},
                "data": {"password": data}})
        };
        let (before, after) =
            (of(Some(kept), json!({}), "CANARYwas="), of(after_kept, json!({"tier": "new"}), "CANARYis="));
        let said = told(&before, &after, &wanted("CANARY-is"));
        check(
            &said,
            &[
                "+    tier: new",
                "-  password: (hidden) # before\n+  password: (hidden) # after\n",
                "data.password",
            ],
        );
    }
}

/// The comparison is made of what is really there: a text that looks like a mask is a text.
#[test]
fn case_203_what_looks_like_a_mask_is_compared_and_shown_as_it_is() {
    let map = |a: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": a}});
    for text in ["++++++++", "*** (after)", "(hidden)", "(hidden) # before"] {
        assert_eq!(told(&map(text), &map(text), &map(text)), "");
        let said = told(&map("plain"), &map(text), &map(text));
        assert!(said.contains("-  a: plain\n") && said.contains(text), "{said}");
    }
    // Of a Secret equal and changed content are told apart, though both are shown alike.
    let secret = |data: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": data}});
    assert_eq!(told(&secret("CANARY"), &secret("CANARY"), &secret("CANARY")), "");
    check(
        &told(&secret("(hidden)"), &secret("CANARY"), &secret("CANARY")),
        &["(hidden) # before", "(hidden) # after"],
    );
}

/// Tokens that others keep in a Secret's annotations, and a kind whose objects say what of them is secret.
#[test]
fn case_205_annotations_of_others_and_fields_that_an_object_calls_sensitive_are_hidden() {
    let secret = |annotations: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "annotations": annotations}, "data": {}});
    let before = secret(json!({"platform.example/token.value": "CANARY-1", "note": "seen"}));
    let after = secret(json!({"platform.example/token.value": "CANARY-2", "note": "seen anew"}));
    let said = told(&before, &after, &secret(json!({"note": "seen anew"})));
    check(
        &said,
        &["-    note: seen\n", "+    note: seen anew\n", "platform.example/token.value: (hidden) # before"],
    );

    let login = |user: &str, password: &str| {
        json!({"apiVersion": "access.example/v1", "kind": "Login",
            "metadata": {"name": "l", "annotations": {"convoy.kumodo.io/sensitive-paths": "/spec/password"}},
            "spec": {"user": user, "password": password}})
    };
    let (before, after) = (login("ann", "CANARY-1"), login("ben", "CANARY-2"));
    check(&told(&before, &after, &after), &["-  user: ann\n+  user: ben\n", "password: (hidden) # before"]);
    // Whoever changed it on the target cannot make it be shown by taking the annotation away.
    let mut bare = before;
    bare["metadata"]["annotations"] = json!({});
    check(&told(&bare, &after, &after), &["password: (hidden) # before"]);
}
