use std::collections::BTreeMap;

use serde_json::json;

use super::*;

fn plain(text: &str) -> String {
    text.replace("CANARY", "***")
}

static NO_PLACES: BTreeMap<String, Vec<String>> = BTreeMap::new();

const MASK: Mask<'_> = Mask { text: &plain, hides_before: false, hides_after: false, places: &NO_PLACES };

fn lines(before: &Value, after: &Value) -> Vec<String> {
    let text = |masked: Option<Masked>| masked.map_or("-".to_owned(), Masked::into_text);
    let changes = Changes::between(before, after, MASK);
    changes
        .fields
        .into_iter()
        .map(|change| format!("{}: {} → {}", change.path, text(change.before), text(change.after)))
        .collect()
}

#[test]
fn fields_are_named_as_people_name_them() {
    let deployment = |image: &str, replicas: u64, version: &str| {
        json!({
            "kind": "Deployment",
            "metadata": {"name": "web", "resourceVersion": version, "labels": {"app.kubernetes.io/name": image}},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [
                {"name": "a", "image": "x"}, {"name": "web", "image": image},
            ]}}},
            "status": {"replicas": replicas},
        })
    };
    assert_eq!(
        lines(&deployment("i:1", 1, "7"), &deployment("i:2", 2, "8")),
        [
            "metadata.labels[\"app.kubernetes.io/name\"]: \"i:1\" → \"i:2\"",
            "spec.replicas: 1 → 2",
            "spec.template.spec.containers[name=web].image: \"i:1\" → \"i:2\"",
        ]
    );
    let moved =
        |names: &[&str]| json!({"spec": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
    assert!(
        lines(&moved(&["a", "b"]), &moved(&["b", "a"])).is_empty(),
        "items are told apart by their names"
    );
    assert_eq!(lines(&json!({"a": [1]}), &json!({"a": [1, 2], "b": {}})), ["a: [1] → [1,2]", "b: - → {}"]);
}

#[test]
fn what_is_secret_is_hidden_wherever_it_stands() {
    let secret = |value: &str| {
        json!({
            "kind": "Secret", "type": "Opaque", "stringData": {"password": value}, "data": {"d": value},
            "metadata": {"annotations": {LAST_APPLIED: format!("{{\"data\":\"{value}\"}}"), "note": value}},
            "odd": value,
        })
    };
    let told = lines(&secret("CANARY-1"), &secret("CANARY-2")).join("\n");
    assert!(!told.contains("CANARY"), "{told}");
    assert!(told.contains("stringData.password: (hidden) → (hidden)"), "{told}");
    assert!(told.contains("metadata.annotations.note: \"***-1\" → \"***-2\""), "{told}");
    // As a whole, too, and in other kinds.
    let bare = json!({"kind": "Secret"});
    let told = lines(&bare, &secret("CANARY")).join("\n");
    assert!(!told.contains("CANARY") && told.contains(&format!("{LAST_APPLIED}\":\"(hidden)\"")), "{told}");
    let map =
        |value: &str| json!({"kind": "ConfigMap", "data": {"a": format!("{}CANARY", value.repeat(200))}});
    let told = lines(&map("x"), &map("y")).join("\n");
    assert!(!told.contains("CANARY") && told.ends_with('…'), "{told}");
    // An earlier value of a Secret is not known as one.
    let hides = Mask { hides_before: true, ..MASK };
    let changes = Changes::between(&json!({"a": "OLD"}), &json!({"a": "new"}), hides);
    assert_eq!(format!("{:?}", changes.fields[0].before), "Some((hidden))");
    assert_eq!(format!("{:?}", changes.fields[0].after), "Some(\"new\")");
}

#[test]
fn the_number_of_fields_is_bounded() {
    let many: serde_json::Map<String, Value> = (0..100).map(|n| (format!("f{n}"), json!(n))).collect();
    let changes = Changes::between(&json!({}), &many.into(), MASK);
    assert_eq!((changes.fields.len(), changes.omitted), (MOST, 100 - MOST));
}

fn unified(before: &Value, after: &Value, mask: Mask<'_>) -> String {
    let sides = Sides { before: Some(before), after: Some(after), desired: Some(after) };
    sides.unified(mask).into_text()
}

#[test]
fn a_change_is_told_as_lines_and_what_moved_is_no_change() {
    let deployment = |containers: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "generation": 1},
            "spec": {"replicas": 2, "template": {"spec": {"containers": containers}}},
        })
    };
    let before =
        deployment(json!([{"name": "a", "image": "x"}, {"name": "web", "image": "i:1", "args": ["-v"]}]));
    let after = deployment(
        json!([{"name": "web", "image": "i:2", "args": ["-v", "-q"]}, {"name": "a", "image": "x"}]),
    );
    let told = unified(&before, &after, MASK);
    assert!(told.contains("-        image: i:1\n") && told.contains("+        - -q\n"), "{told}");
    assert!(!told.contains("-      - image: x") && !told.contains("+      - image: x"), "{told}");
    let mut moved = after.clone();
    moved["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().reverse();
    assert_eq!(unified(&after, &moved, MASK), "");
    let text = |lines: &[&str]| json!({"kind": "ConfigMap", "data": {"conf": lines.join("\n")}});
    let told = unified(&text(&["a", "b", "c", ""]), &text(&["a", "B", "c", ""]), MASK);
    assert_eq!(
        told,
        "@@ -1,6 +1,6 @@\n data:\n   conf: |\n     a\n-    b\n+    B\n     c\n kind: ConfigMap\n"
    );
}

#[test]
fn a_new_object_is_told_whole_and_one_that_goes_too() {
    let map =
        json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "1"}, "status": {}, "data": {"a": "1"}});
    let new = Sides { before: None, after: Some(&map), desired: Some(&map) };
    let want = "@@ -0,0 +1,5 @@\n+data:\n+  a: \"1\"\n+kind: ConfigMap\n+metadata:\n+  name: a\n";
    assert_eq!(new.unified(MASK).into_text(), want);
    let gone = Sides { before: Some(&map), after: None, desired: None };
    assert_eq!(gone.unified(MASK).into_text(), want.replace('+', "-").replace("-0,0 -1,5", "-1,5 +0,0"));
    assert_eq!(
        manifest(&map, MASK).into_text(),
        "data:\n  a: \"1\"\nkind: ConfigMap\nmetadata:\n  name: a\n"
    );
}

#[test]
fn items_are_told_apart_by_what_the_managed_fields_say() {
    let fields =
        json!({"f:spec": {"f:rules": {"k:{\"host\":\"a\",\"zone\":1}": {}}, "f:tags": {"v:\"x\"": {}}}});
    let object = |rules: Value, tags: Value| {
        json!({
            "kind": "Odd", "metadata": {"managedFields": [{"manager": "m", "fieldsV1": fields}]},
            "spec": {"rules": rules, "tags": tags},
        })
    };
    let rule = |host: &str, zone: u64, port: u64| json!({"host": host, "zone": zone, "port": port});
    let before = object(json!([rule("a", 1, 80), rule("a", 2, 81)]), json!(["x", "y"]));
    let after = object(json!([rule("a", 2, 81), rule("a", 1, 8080)]), json!(["y", "x"]));
    assert_eq!(lines(&before, &after), ["spec.rules[host=a,zone=1].port: 80 → 8080"]);
    let ports = |ports: Value| json!({"kind": "Service", "spec": {"ports": ports}});
    let before = ports(json!([{"port": 53, "protocol": "UDP"}, {"port": 53}]));
    let after = ports(json!([{"port": 53, "targetPort": 5353}, {"port": 53, "protocol": "UDP"}]));
    assert_eq!(lines(&before, &after), ["spec.ports[port=53,protocol=TCP].targetPort: - → 5353"]);
}

#[test]
fn hidden_values_that_differ_are_told_apart_from_equal_ones_without_a_word_of_them() {
    let secret = |a: &str, b: &str| json!({"kind": "Secret", "data": {"a": a, "b": b}});
    let told = unified(&secret("CANARY-1", "same"), &secret("CANARY-22222", "same"), MASK);
    let want = "@@ -1,4 +1,4 @@\n data:\n-  a: (hidden) # before\n+  a: (hidden) # after\n   b: (hidden)\n kind: Secret\n";
    assert_eq!(told, want);
}

#[test]
fn the_metadata_of_a_secret_that_others_wrote_is_hidden() {
    let secret = |more: &str| {
        let mut annotations = json!({"own": "shown"});
        if !more.is_empty() {
            annotations[more] = json!("CANARY-205");
        }
        json!({"kind": "Secret", "metadata": {"annotations": annotations}, "data": {"a": "CANARY-205"}})
    };
    let (live, desired) = (secret("token"), secret(""));
    let sides = Sides { before: Some(&live), after: None, desired: Some(&desired) };
    let told = sides.unified(Mask { text: &str::to_owned, ..MASK }).into_text();
    assert!(told.contains("own: shown") && told.contains("token: (hidden)"), "{told}");
    assert!(!told.contains("CANARY"), "{told}");
}

#[test]
fn what_an_object_says_is_sensitive_is_hidden() {
    let object = |value: &str| {
        json!({
            "kind": "Credential",
            "metadata": {"annotations": {"convoy.kumodo.io/sensitive-paths": "/spec/password, /spec/users/*/token\nspec/keys"}},
            "spec": {
                "plain": "shown", "password": value, "keys": [value],
                "users": [{"name": "n", "token": {value: value}}], "more": {"token": "shown-too"},
            },
        })
    };
    let mask = Mask { text: &str::to_owned, ..MASK };
    let (before, after) = (object("CANARY-1"), object("CANARY-2"));
    let told = unified(&before, &after, mask);
    assert!(!told.contains("CANARY"), "{told}");
    assert!(told.contains("+  password: (hidden) # after"), "{told}");
    let fields = format!("{:?}", Changes::between(&before, &after, mask));
    assert!(!fields.contains("CANARY") && fields.contains("spec.password"), "{fields}");
    let whole = manifest(&after, mask).into_text();
    assert!(
        !whole.contains("CANARY") && whole.contains("plain: shown") && whole.contains("shown-too"),
        "{whole}"
    );
}

#[test]
fn earlier_values_are_shown_only_where_the_bundle_has_them() {
    let hides = Mask { hides_before: true, ..MASK };
    let object = |extra: &str, size: u64| json!({"kind": "ConfigMap", "data": {"extra": extra, "own": "mine", "size": size}});
    let desired = json!({"kind": "ConfigMap", "data": {"own": "mine", "size": 2}});
    let (before, after) = (object("OLD", 1), object("OLD", 2));
    let told = Sides { before: Some(&before), after: Some(&after), desired: Some(&desired) };
    let told = told.unified(hides).into_text();
    assert!(
        told.contains("own: mine") && told.contains("extra: (hidden)") && !told.contains("OLD"),
        "{told}"
    );
    assert!(told.contains("-  size: (hidden)") && told.contains("+  size: 2"), "{told}");
}

#[test]
fn places_of_values_from_secrets_are_hidden_on_both_sides() {
    let places =
        BTreeMap::from([("ConfigMap/a".to_owned(), vec!["/data/url".to_owned(), "/spec/list/1".to_owned()])]);
    let mask = Mask { text: &str::to_owned, places: &places, ..MASK };
    let object = |value: &str| json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"url": value, "k": "shown"}, "spec": {"list": ["x", value]}});
    let told = unified(&object("CANARY-1"), &object("CANARY-2"), mask);
    assert!(!told.contains("CANARY") && told.contains("k: shown"), "{told}");
    let other = json!({"kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"url": "shown"}});
    assert!(manifest(&other, mask).into_text().contains("url: shown"));
}
