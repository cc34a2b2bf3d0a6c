//! The node's loop: pods that are to run are started, those that are to end are ended, and the API server is told.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::container::Pod;
use super::{NODE, Shared};

const TURN: Duration = Duration::from_millis(150);
/// How often the node says that it is there; after 40 s without a word its pods are not ready.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Runs until it is told to stop.
pub(super) fn run(shared: &Shared, stop: &mpsc::Receiver<()>) {
    let mut last_heartbeat: Option<Instant> = None;
    let mut numbers = 0;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
    let _ = shared.client.send("POST", "/api/v1/nodes", "application/json", &node);
    loop {
        if last_heartbeat.is_none_or(|last| last.elapsed() > HEARTBEAT) {
            heartbeat(shared);
            last_heartbeat = Some(Instant::now());
        }
        if let Some(listed) = list(shared, "/api/v1/pods") {
            look(shared, &listed, &mut numbers);
        }
        if let Some(services) = list(shared, "/api/v1/services") {
            shared.services.follow(&services, &shared.pods.lock());
        }
        match stop.recv_timeout(TURN) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}

fn list(shared: &Shared, path: &str) -> Option<Vec<Value>> {
    let answer = shared.client.get(path).ok()?;
    (answer.status == 200).then(|| answer.json()["items"].as_array().cloned().unwrap_or_default())
}

fn heartbeat(shared: &Shared) {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({"status": {"conditions": [{
        "type": "Ready", "status": "True", "reason": "Runs", "message": "it runs",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }]}});
    let path = format!("/api/v1/nodes/{NODE}/status");
    let _ = shared.client.send("PATCH", &path, "application/strategic-merge-patch+json", &status);
}

fn look(shared: &Shared, listed: &[Value], numbers: &mut u16) {
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let there: BTreeSet<String> = listed.iter().map(uid).collect();
    let hosts = shared.services.hosts();
    let mut pods = shared.pods.lock();
    // Deleted without grace.
    pods.retain(|uid, _| there.contains(uid));
    for object in listed {
        let is_ending = object["metadata"]["deletionTimestamp"].is_string();
        match pods.get_mut(&uid(object)) {
            None if is_ending => remove(shared, object),
            None => {
                *numbers += 1;
                if let Some(pod) = Pod::admit(shared, object, *numbers) {
                    pods.insert(uid(object), pod);
                }
            }
            Some(pod) if is_ending => {
                if pod.end(object) {
                    pods.remove(&uid(object));
                    remove(shared, object);
                }
            }
            Some(pod) => {
                pod.look(shared, &hosts);
                tell(shared, object, pod);
            }
        }
    }
}

/// Writes a pod's status when it changed.
fn tell(shared: &Shared, object: &Value, pod: &mut Pod) {
    let status = pod.status();
    if pod.told.as_ref() == Some(&status) {
        return;
    }
    let (namespace, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}/status",
        namespace.as_str().unwrap_or_default(),
        name.as_str().unwrap_or_default()
    );
    let patch = json!({"status": status});
    let answer = shared.client.send("PATCH", &path, "application/merge-patch+json", &patch);
    if answer.is_ok_and(|answer| answer.status == 200) {
        pod.told = Some(status);
    }
}

fn remove(shared: &Shared, object: &Value) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let path = format!("/api/v1/namespaces/{}/pods/{}", text("/metadata/namespace"), text("/metadata/name"));
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "preconditions": {"uid": text("/metadata/uid")},
    });
    let _ = shared.client.send("DELETE", &path, "application/json", &options);
}
