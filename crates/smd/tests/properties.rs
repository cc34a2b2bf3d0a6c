//! What holds for all field sets, objects and patches.

#![allow(clippy::unwrap_used, reason = "a test that meets broken data should fail")]

use convoy_smd::{
    FieldManager, MAX_DEPTH, Schema, SchemaError, Set, json_patch, merge_patch, strategic_merge_patch,
};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A `fieldsV1` over few names, so that two of them overlap.
fn fields() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "f:a",
        "f:b",
        "f:c",
        "v:1",
        "v:10",
        "v:2",
        "v:\"1\"",
        "v:true",
        "k:{\"name\":\"a\"}",
        "k:{\"name\":\"b\",\"port\":80}",
        "k:{\"port\":443}",
        "k:{\"port\":80}",
        "i:0",
        "i:10",
        "i:9",
    ]);
    let leaf = Just(json!({}));
    leaf.prop_recursive(4, 24, 4, move |below| {
        prop::collection::btree_map(name.clone(), (below, any::<bool>()), 0..4).prop_map(|members| {
            let mut map = serde_json::Map::new();
            for (name, (mut below, own)) in members {
                if own && below.as_object().is_some_and(|below| !below.is_empty()) {
                    below["."] = json!({});
                }
                map.insert(name.to_owned(), below);
            }
            Value::Object(map)
        })
    })
}

fn set(fields: &Value) -> Set<'_> {
    Set::from_fields_v1(fields).unwrap_or_default()
}

fn json() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec!["a", "b", "name", "$patch", "delete", "spec", "f:a", "Apply", ""]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..90_i64).prop_map(Value::from),
        Just(json!(1.5)),
        text.clone().prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "a",
        "b",
        "name",
        "spec",
        "metadata",
        "managedFields",
        "apiVersion",
        "kind",
        "manager",
        "operation",
        "fieldsType",
        "fieldsV1",
        "time",
        "$patch",
        "$retainKeys",
        "$setElementOrder/a",
        "$deleteFromPrimitiveList/b",
        "op",
        "path",
        "from",
        "value",
        "annotations",
        "kubectl.kubernetes.io/last-applied-configuration",
    ]);
    leaf.prop_recursive(5, 40, 5, move |below| {
        prop_oneof![
            prop::collection::vec(below.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), below, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn manager() -> FieldManager {
    let item =
        json!({"type": "object", "properties": {"name": {"type": "string"}, "a": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": {"type": "array", "items": item, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name"},
            "b": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge"}}},
        "a": {"x-kubernetes-preserve-unknown-fields": true}}});
    FieldManager {
        schema: Schema::from_structural(&schema, true).unwrap(),
        api_version: "v1".into(),
        kind: "K".into(),
        subresource: String::new(),
        reset_fields: Vec::new(),
    }
}

proptest! {
    #[test]
    fn fields_that_are_read_are_written_the_same(fields in fields()) {
        let text = set(&fields).to_fields_v1_text();
        prop_assert_eq!(&set(&fields).to_fields_v1(), &fields);
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), fields);
    }

    #[test]
    fn set_operations_agree_with_those_on_lists_of_paths(a in fields(), b in fields()) {
        let (a, b) = (set(&a), set(&b));
        let (of_a, of_b) = (a.paths(), b.paths());
        let sorted = |mut paths: Vec<String>| { paths.sort(); paths };
        let both = |keep: &dyn Fn(bool, bool) -> bool| {
            let mut all: Vec<_> = of_a.iter().chain(&of_b).cloned().collect();
            all.sort();
            all.dedup();
            all.retain(|path| keep(of_a.contains(path), of_b.contains(path)));
            all
        };
        prop_assert_eq!(sorted(a.clone().union(b.clone()).paths()), both(&|a, b| a || b));
        prop_assert_eq!(sorted(a.intersection(&b).paths()), both(&|a, b| a && b));
        prop_assert_eq!(sorted(a.difference(&b).paths()), both(&|a, b| a && !b));
        prop_assert_eq!(a.is_subset(&b), a.difference(&b).is_empty());
        prop_assert_eq!(a.len(), of_a.len());
        prop_assert_eq!(a.leaves().is_subset(&a), true);
    }

    #[test]
    fn no_input_makes_an_apply_or_update_panic(live in json(), new in json(), force: bool) {
        let fields = manager();
        let named = |mut object: Value| {
            if let Some(object) = object.as_object_mut() {
                object.insert("apiVersion".into(), json!("v1"));
                object.insert("kind".into(), json!("K"));
            }
            object
        };
        let (live, new) = (named(live), named(new));
        let _ = fields.update(Some(&live), new.clone(), "u", Timestamp::UNIX_EPOCH);
        let _ = fields.update(None, new.clone(), "u", Timestamp::UNIX_EPOCH);
        let created = fields.apply(None, &new, "kubectl", force, Timestamp::UNIX_EPOCH);
        let _ = fields.apply(Some(&live), &new, "kubectl", force, Timestamp::UNIX_EPOCH);
        if let Ok(created) = created {
            let again = fields.apply(Some(&created), &new, "kubectl", force, Timestamp::UNIX_EPOCH);
            prop_assert_eq!(again.unwrap(), created);
        }
    }

    #[test]
    fn no_input_makes_a_patch_panic(mut object in json(), patch in json()) {
        let _ = json_patch(&mut object.clone(), &patch);
        let _ = json_patch(&mut object.clone(), &json!([patch]));
        let _ = merge_patch(&mut object.clone(), patch.clone());
        let _ = strategic_merge_patch(&manager().schema, &mut object, patch);
    }

    #[test]
    fn no_input_makes_a_schema_panic(schema in json(), object in json()) {
        let components = json!({"x": schema});
        if let Ok(schema) = Schema::from_openapi(&components, "x") {
            let fields = FieldManager { schema, ..manager() };
            let _ = fields.update(None, object, "u", Timestamp::UNIX_EPOCH);
        }
    }
}

fn nested(depth: usize, leaf: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(leaf, |below, _| wrap(below))
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    let fields = manager();
    let deep = |depth| {
        let below = nested(depth, json!(1), |below| json!({ "x": below }));
        json!({"apiVersion": "v1", "kind": "K", "a": below})
    };
    let now = Timestamp::UNIX_EPOCH;
    assert!(fields.apply(None, &deep(MAX_DEPTH - 2), "m", false, now).is_ok());
    let error = fields.apply(None, &deep(MAX_DEPTH + 1), "m", false, now).unwrap_err();
    assert!(error.to_string().ends_with(": nested deeper than 256 levels"), "{error}");
    let stored = fields.update(None, deep(MAX_DEPTH + 1), "m", now);
    assert_eq!(stored.pointer("/metadata/managedFields"), None);

    let owned = nested(MAX_DEPTH + 1, json!({}), |below| json!({ "f:x": below }));
    assert_eq!(
        Set::from_fields_v1(&owned).unwrap_err().to_string(),
        "fields are nested deeper than 256 levels"
    );
    let patch = nested(MAX_DEPTH + 2, json!({"y": null}), |below| json!({ "x": below }));
    assert!(merge_patch(&mut json!({}), patch.clone()).is_err());
    assert!(strategic_merge_patch(&fields.schema, &mut json!({}), patch).is_err());
    let schema = nested(
        MAX_DEPTH + 2,
        json!({"type": "string"}),
        |below| json!({"type": "object", "properties": {"x": below}}),
    );
    assert!(matches!(Schema::from_structural(&schema, false), Err(SchemaError::TooLarge { .. })));
}

#[test]
fn schemas_that_kubernetes_has_no_meaning_for_are_refused() {
    let error = |schema: Value| {
        let components = json!({"x": {"type": "object", "properties": {"y": schema}}});
        Schema::from_openapi(&components, "x").unwrap_err().to_string()
    };
    let list = |extension: &str, value: &str| {
        let mut schema = json!({"type": "array", "items": {"type": "string"}});
        schema[extension] = json!(value);
        schema
    };
    assert_eq!(error(list("x-kubernetes-list-type", "bag")), "inlined in x: unknown list type bag");
    assert_eq!(error(list("x-kubernetes-list-type", "map")), "inlined in x: missing map keys");
    assert_eq!(
        error(list("x-kubernetes-patch-strategy", "blend")),
        "inlined in x: unknown patch strategy blend"
    );
    assert_eq!(
        error(json!({"type": "object", "x-kubernetes-map-type": "bag"})),
        "inlined in x: unknown map type bag"
    );
    assert_eq!(error(json!({"type": "array"})), "inlined in x: `items` must be specified on arrays");
    assert_eq!(error(json!({"type": "blob"})), "inlined in x: unrecognized type: 'blob'");
    let missing = Schema::from_openapi(&json!({}), "x").unwrap_err();
    assert_eq!(missing.to_string(), "there is no schema named \"x\"");
}

#[test]
fn fields_are_written_in_the_order_that_kubernetes_has() {
    let fields = json!({
        "f:b": {}, "f:a": {".": {}, "k:{\"port\":443}": {".": {}, "f:port": {}}, "k:{\"port\":80}": {}},
        "f:c": {"v:10": {}, "v:2": {}, "v:\"x\"": {}, "v:true": {}},
        "f:d": {"i:10": {}, "i:9": {}},
        "q:unknown": {}
    });
    assert_eq!(
        set(&fields).to_fields_v1_text(),
        "{\"f:a\":{\".\":{},\"k:{\\\"port\\\":80}\":{},\"k:{\\\"port\\\":443}\":{\".\":{},\"f:port\":{}}},\
         \"f:b\":{},\"f:c\":{\"v:2\":{},\"v:10\":{},\"v:\\\"x\\\"\":{},\"v:true\":{}},\
         \"f:d\":{\"i:9\":{},\"i:10\":{}}}"
    );
    for (wrong, why) in [
        (json!({"f": {}}), "parsing key as path element: key must be 2 characters long:"),
        (json!({"foo": {}}), "parsing key as path element: missing colon: foo"),
        (json!({"f:a": 1}), "expected an object of fields, got int64"),
        (json!({"i:x": {}}), "parsing key as path element: strconv.Atoi: parsing \"x\": invalid syntax"),
    ] {
        assert_eq!(Set::from_fields_v1(&wrong).unwrap_err().to_string(), why);
    }
}
