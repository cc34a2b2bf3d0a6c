//! Objects come out of the sandbox as they come out of a real kube-apiserver.

#![allow(clippy::disallowed_methods, reason = "tests live in real time")]
#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod cluster;

use std::time::Duration;

use convoy_testkit::{ControlPlane, HttpsClient, Options};
use serde_json::Value;

const OBJECTS: &str = include_str!("objects.json");

/// Leaves out what differs between any two clusters.
fn comparable(mut object: Value) -> Value {
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object.as_object_mut().unwrap().remove("status");
    for entry in object["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
        entry["time"] = Value::Null;
    }
    if object["kind"] == "Service" {
        for field in ["clusterIP", "clusterIPs"] {
            if object["spec"][field].is_string() || object["spec"][field].is_array() {
                object["spec"][field] = Value::from("an address");
            }
        }
        for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
            if port["nodePort"].is_number() {
                port["nodePort"] = Value::from("a port");
            }
        }
    }
    let text = object.to_string();
    // The uid of a Job is in its labels.
    match object.pointer("/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid") {
        Some(Value::String(uid)) => serde_json::from_str(&text.replace(uid, "a uid")).unwrap(),
        _ => object,
    }
}

fn create(client: &HttpsClient, object: &Value) -> (u16, Value) {
    let answer = client.send("POST", &cluster::collection(object), "application/json", object).unwrap();
    (answer.status, answer.json())
}

/// The paths at which two values differ.
fn differences(path: &str, left: &Value, right: &Value, into: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left_fields), Value::Object(right_fields)) => {
            let names: std::collections::BTreeSet<&String> =
                left_fields.keys().chain(right_fields.keys()).collect();
            for name in names {
                let absent = Value::from("(absent)");
                let (left, right) =
                    (left_fields.get(name).unwrap_or(&absent), right_fields.get(name).unwrap_or(&absent));
                differences(&format!("{path}.{name}"), left, right, into);
            }
        }
        (Value::Array(left_items), Value::Array(right_items)) if left_items.len() == right_items.len() => {
            for (index, (left, right)) in left_items.iter().zip(right_items).enumerate() {
                differences(&format!("{path}[{index}]"), left, right, into);
            }
        }
        _ if left == right => {}
        _ => into.push(format!("{path}: real {left}, sandbox {right}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_stored_as_the_real_kube_apiserver_stores_them() {
    let Some(real) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let one = cluster::start(Duration::ZERO).await;
    let objects: Vec<Value> = serde_json::from_str(OBJECTS).unwrap();
    let mut wrong = Vec::new();
    for object in objects {
        let name =
            format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let (real_code, expected) = create(real.client(), &object);
        let (sandbox_client, copy) = (one.client.clone(), object.clone());
        let (code, found) =
            tokio::task::spawn_blocking(move || create(&sandbox_client, &copy)).await.unwrap();
        if (code, real_code) != (201, 201) {
            // A wrong type is refused by both, by the one as it decodes and by the other as it validates.
            if code != real_code && (code < 400 || real_code < 400) {
                wrong.push(format!(
                    "{name}: real {real_code} {}, sandbox {code} {}",
                    expected["message"], found["message"]
                ));
            }
            continue;
        }
        differences(&name, &comparable(expected), &comparable(found), &mut wrong);
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    one.sandbox.stop().await;
}

/// An apply to a path, with its answer.
fn apply(client: &HttpsClient, path: &str, object: &Value, uid: &str) -> (u16, Value) {
    let mut object = object.clone();
    if !uid.is_empty() {
        object["metadata"]["uid"] = uid.into();
    }
    let path = format!("{path}?fieldManager=test&force=true");
    let answer = client.send("PATCH", &path, "application/apply-patch+yaml", &object).unwrap();
    (answer.status, answer.json())
}

/// What a server answers to applies that name a uid, in words, with the uids left out.
fn applies_with_uids(client: &HttpsClient) -> Vec<(String, u16, String)> {
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    assert_eq!(apply(client, definitions, &definition, "").0, 201);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    while client.get(widgets).unwrap().status != 200 {
        assert!(std::time::Instant::now() < deadline, "the Widgets are not served");
        std::thread::sleep(Duration::from_millis(50));
    }
    let objects = [
        ("/api/v1/namespaces/default/configmaps/a", "v1", "ConfigMap"),
        ("/api/v1/namespaces/uids", "v1", "Namespace"),
        ("/apis/apps/v1/namespaces/default/deployments/a", "apps/v1", "Deployment"),
        ("/apis/example.com/v1/namespaces/default/widgets/a", "example.com/v1", "Widget"),
    ];
    let mut answers = Vec::new();
    for (path, version, kind) in objects {
        let name = path.rsplit('/').next().unwrap();
        let mut object = serde_json::json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": {"a": "1"}}});
        if kind == "Deployment" {
            let labels = serde_json::json!({"app": "a"});
            object["spec"] = serde_json::json!({"selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}});
        }
        let mut note = |what: &str, (code, answer): (u16, Value), uid: &str| {
            let message = answer["message"].as_str().unwrap_or_default();
            let message = message.replace("another", "UID");
            let message = if uid.is_empty() { message } else { message.replace(uid, "THE-UID") };
            answers.push((format!("{kind}: {what}"), code, message));
        };
        note("of a uid, absent", apply(client, path, &object, "another"), "");
        let (code, made) = apply(client, path, &object, "");
        assert_eq!(code, 201, "{made}");
        let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
        note("of its own uid, the same", apply(client, path, &object, &uid), &uid);
        if kind == "ConfigMap" {
            // Others write the status of the other kinds.
            let (_, after) = apply(client, path, &object, &uid);
            assert_eq!(after["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"], "no write");
        }
        object["metadata"]["labels"]["a"] = "2".into();
        note("of its own uid, changed", apply(client, path, &object, &uid), &uid);
        note("of another uid", apply(client, path, &object, "another"), &uid);
        if kind != "Namespace" {
            let options = serde_json::json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            assert!(client.send("DELETE", path, "application/json", &options).unwrap().status < 300);
            note("of its uid, deleted", apply(client, path, &object, &uid), &uid);
            assert_eq!(client.get(path).unwrap().status, 404, "{kind} is created anew");
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_that_names_a_uid_creates_nothing_on_either() {
    let one = cluster::start(Duration::ZERO).await;
    let client = one.client.clone();
    let found = tokio::task::spawn_blocking(move || applies_with_uids(&client)).await.unwrap();
    let refused = found.iter().filter(|(what, ..)| !what.contains("its own uid"));
    // Another object is a field that cannot be changed, an object that is gone is a precondition.
    let code_of = |what: &str| if what.ends_with("of another uid") { 422 } else { 409 };
    assert!(refused.clone().count() > 8, "{found:#?}");
    assert!(refused.clone().all(|(what, code, _)| *code == code_of(what)), "{found:#?}");
    one.sandbox.stop().await;
    let Some(real) = ControlPlane::start_or_leave_out(&Options::default()) else { return };
    let expected = applies_with_uids(real.client());
    assert_eq!(found, expected);
}
