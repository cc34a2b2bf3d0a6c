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
