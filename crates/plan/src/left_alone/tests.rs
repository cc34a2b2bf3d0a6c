use convoy_api::Selector;
use serde_json::json;

use super::*;

fn key(group: &str, kind: &str, name: &str) -> ObjectKey {
    ObjectKey { group: group.into(), kind: kind.into(), namespace: "web".into(), name: name.into() }
}

fn rule(paths: &[&str], managers: &[&str]) -> IgnoreRule {
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    IgnoreRule { target: None, paths: texts(paths), managers: texts(managers) }
}

fn left(paths: &[&str], managers: &[&str]) -> LeftAlone {
    LeftAlone::of(&[rule(paths, managers)], &key("apps", "Deployment", "web"), &BTreeMap::new()).unwrap()
}

fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
}

fn desired(replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "web", "labels": {
            "app.kubernetes.io/managed-by": "convoy", "convoy.kumodo.io/release-uid": "u",
        }},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [
            {"name": "web", "image": image, "args": ["a", "b"]},
        ]}}},
    })
}

fn own_fields() -> Value {
    json!({
        "f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}, "f:convoy.kumodo.io/release-uid": {}}},
        "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {}},
        }}}},
    })
}

/// A Deployment on the target, as convoy applied it but for what is changed in it.
fn live(replicas: i64, managers: Vec<Value>) -> Value {
    let mut live = desired(replicas, "web:1");
    live["metadata"]["managedFields"] = managers.into();
    live
}

fn without(mut fields: Value, path: &str, name: &str) -> Value {
    fields.pointer_mut(path).unwrap().as_object_mut().unwrap().remove(name);
    fields
}

#[test]
fn a_field_that_only_convoy_owns_is_sent_with_the_value_that_it_has() {
    let live = live(4, vec![entry("convoy", "Apply", &own_fields())]);
    let sent = left(&["/spec/replicas"], &[]).applied(&desired(2, "web:2"), &live, "convoy");
    assert_eq!(sent, desired(4, "web:2"));
    // The source has it no more: it stays all the same, rather than become what the server fills in.
    let mut wanted = desired(2, "web:2");
    wanted["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(left(&["/spec/replicas"], &[]).applied(&wanted, &live, "convoy"), desired(4, "web:2"));
}

#[test]
fn a_field_that_another_owns_is_left_out_whether_convoy_owns_it_still_or_not() {
    let hpa = entry("hpa", "Update", &json!({"f:spec": {"f:replicas": {}}}));
    let mut wanted = desired(2, "web:2");
    for own in [own_fields(), without(own_fields(), "/f:spec", "f:replicas")] {
        let live = live(5, vec![entry("convoy", "Apply", &own), hpa.clone()]);
        for rules in [left(&["/spec/replicas"], &[]), left(&[], &["hpa"])] {
            let sent = rules.applied(&desired(2, "web:2"), &live, "convoy");
            wanted["spec"].as_object_mut().unwrap().remove("replicas");
            assert_eq!(sent, wanted, "{rules:?}");
            assert_eq!(rules.replaced(&desired(2, "web:2"), &live), desired(5, "web:2"), "{rules:?}");
        }
        let other = left(&[], &["another"]);
        assert_eq!(other.applied(&desired(2, "web:2"), &live, "convoy"), desired(2, "web:2"));
    }
}

#[test]
fn what_is_not_there_stays_away_and_what_is_new_is_as_the_source_has_it() {
    let mut live = live(2, vec![entry("convoy", "Apply", &without(own_fields(), "/f:spec", "f:replicas"))]);
    live["spec"].as_object_mut().unwrap().remove("replicas");
    let mut wanted = desired(2, "web:1");
    let second = json!({"name": "new", "image": "new:1"});
    wanted["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().push(second);
    let paths = ["/spec/replicas", "/spec/template/spec/containers/name=new/image", "/spec/paused/x"];
    let sent = left(&paths, &[]).applied(&wanted, &live, "convoy");
    wanted["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(sent, wanted);
}

#[test]
fn items_are_found_by_their_fields_wherever_they_stand() {
    let injected = json!({"name": "proxy", "image": "proxy:1"});
    let mut live = live(2, vec![entry("convoy", "Apply", &own_fields())]);
    let containers = live["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
    containers[0]["image"] = json!("web:by-hand");
    containers.insert(0, injected);
    for path in ["/spec/template/spec/containers/name=web/image", "/spec/template/spec/containers/0/image"] {
        let sent = left(&[path], &[]).applied(&desired(2, "web:9"), &live, "convoy");
        assert_eq!(sent, desired(2, "web:by-hand"), "{path}");
    }
    // A list that is one value for its owner.
    live["spec"]["template"]["spec"]["containers"][1]["args"] = json!(["a", "hand"]);
    let args = "/spec/template/spec/containers/name=web/args/1";
    let mut wanted = desired(2, "web:9");
    let sent = left(&[args], &[]).applied(&wanted, &live, "convoy");
    wanted["spec"]["template"]["spec"]["containers"][0]["args"][1] = json!("hand");
    assert_eq!(sent, wanted);
}

#[test]
fn what_a_manager_set_in_an_item_is_left_out_and_its_keys_stay() {
    let updater = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
        "k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}},
    }}}}});
    let managers = vec![entry("convoy", "Apply", &own_fields()), entry("image-updater", "Update", &updater)];
    let mut live = live(2, managers);
    live["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:7");
    let sent = left(&[], &["image-updater"]).applied(&desired(2, "web:2"), &live, "convoy");
    assert_eq!(sent["spec"]["template"]["spec"]["containers"], json!([{"name": "web", "args": ["a", "b"]}]));
    assert_eq!(sent["spec"]["replicas"], 2);
}

#[test]
fn whose_an_object_is_is_never_left_alone() {
    let labels = json!({"f:metadata": {"f:labels": {
        ".": {}, "f:app.kubernetes.io/managed-by": {}, "f:convoy.kumodo.io/release-uid": {}, "f:team": {},
    }}});
    let managers = vec![entry("convoy", "Apply", &own_fields()), entry("kubectl-label", "Update", &labels)];
    let mut live = live(2, managers);
    live["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "hand", "team": "a"});
    for rules in [left(&["/metadata/labels"], &[]), left(&[], &["kubectl-label"])] {
        let sent = rules.applied(&desired(2, "web:1"), &live, "convoy");
        assert_eq!(sent, desired(2, "web:1"), "{rules:?}");
        let replaced = rules.replaced(&desired(2, "web:1"), &live);
        assert_eq!(replaced["metadata"]["labels"]["app.kubernetes.io/managed-by"], "convoy");
        assert_eq!(replaced["metadata"]["labels"]["team"], "a", "{rules:?}");
    }
}

#[test]
fn rules_are_for_the_objects_that_they_choose() {
    let labels = BTreeMap::from([("tier".to_owned(), "web".to_owned())]);
    let of = |target: IgnoreTarget, labels: &BTreeMap<String, String>| {
        let rules = [IgnoreRule { target: Some(target), ..rule(&["/spec/replicas"], &[]) }];
        LeftAlone::of(&rules, &key("apps", "Deployment", "web"), labels).is_some()
    };
    let text = |text: &str| Some(text.to_owned());
    let any = IgnoreTarget::default;
    assert!(of(any(), &labels));
    assert!(of(IgnoreTarget { group: text("apps"), kind: text("Deployment"), ..any() }, &labels));
    assert!(!of(IgnoreTarget { group: text(""), ..any() }, &labels));
    assert!(!of(IgnoreTarget { name: text("other"), ..any() }, &labels));
    assert!(!of(IgnoreTarget { namespace: text("other"), ..any() }, &labels));
    let selector = Selector { match_labels: labels.clone(), ..Selector::default() };
    assert!(of(IgnoreTarget { label_selector: Some(selector.clone()), ..any() }, &labels));
    assert!(!of(IgnoreTarget { label_selector: Some(selector), ..any() }, &BTreeMap::new()));
    assert!(!of(IgnoreTarget { kind: text("StatefulSet"), ..any() }, &labels));
    for (operator, values, is_chosen) in
        [("In", &["db", "web"][..], true), ("NotIn", &["web"], false), ("Exists", &[], true)]
    {
        let expression = json!({"key": "tier", "operator": operator, "values": values});
        let selector = serde_json::from_value(json!({"matchExpressions": [expression]})).unwrap();
        let target = IgnoreTarget { label_selector: Some(selector), ..any() };
        assert_eq!(of(target, &labels), is_chosen, "{operator}");
    }
    assert_ne!(left(&["/a"], &[]).digest("x"), left(&["/b"], &[]).digest("x"));
}

#[test]
fn objects_and_sets_of_any_shape_are_looked_at() {
    let wanted = desired(2, "web:1");
    for live in [
        json!(null),
        json!([]),
        json!({"metadata": {"managedFields": [1, {"manager": "convoy", "operation": "Apply", "fieldsV1": {"k:{": {"v:": {}}, "f:spec": 3}}]}}),
        json!({"spec": [1, 2], "metadata": {"managedFields": [entry("hpa", "Update", &json!({"f:spec": {"i:0": {}, "k:{}": {}}}))]}}),
    ] {
        for rules in [left(&["/spec/replicas", "/spec/0/x", "/data"], &["hpa"]), left(&["/spec"], &[])] {
            rules.applied(&wanted, &live, "convoy");
            rules.replaced(&wanted, &live);
        }
    }
}
