use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::field::{condition, text};
use crate::health::Health;

/// How long no node may take a Pod before it counts as failed; kstatus has the same.
const SCHEDULE_WINDOW: SignedDuration = SignedDuration::from_secs(15);

/// Whether a container that waits for this reason will not start by itself, or not soon.
fn is_stuck(reason: &str) -> bool {
    reason.ends_with("BackOff")
        || reason.ends_with("Error")
        || reason.starts_with("Err")
        || reason == "InvalidImageName"
}

pub(crate) fn pod(object: &Value, now: Timestamp) -> Health {
    match text(object, "/status/phase") {
        "Succeeded" => Health::healthy(),
        "Failed" => {
            let reason = text(object, "/status/reason");
            let message = text(object, "/status/message");
            let fallback = if message.is_empty() { "a container ended with an error" } else { message };
            Health::degraded(if reason.is_empty() { "PodFailed" } else { reason }, fallback)
        }
        phase => match stuck_container(object) {
            Some(health) => health,
            None if phase == "Running" => running(object),
            None => pending(object, now),
        },
    }
}

fn running(object: &Value) -> Health {
    match condition(object, "Ready") {
        Some(ready) if ready.is("True") => Health::healthy(),
        Some(ready) if !ready.message().is_empty() => Health::progressing(ready.reason(), ready.message()),
        _ => Health::progressing("PodNotReady", "it runs but is not ready"),
    }
}

fn pending(object: &Value, now: Timestamp) -> Health {
    let unschedulable =
        condition(object, "PodScheduled").filter(|scheduled| scheduled.reason() == "Unschedulable");
    let Some(scheduled) = unschedulable else {
        return Health::progressing("PodPending", "it has not started yet");
    };
    let since: Option<Timestamp> = scheduled.since().parse().ok();
    let message = if scheduled.message().is_empty() { "no node takes it" } else { scheduled.message() };
    match since {
        Some(since) if now.duration_since(since) <= SCHEDULE_WINDOW => {
            Health::progressing("Unschedulable", message)
        }
        _ => Health::degraded("Unschedulable", message),
    }
}

fn stuck_container(object: &Value) -> Option<Health> {
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = statuses.iter().filter_map(|pointer| object.pointer(pointer)?.as_array()).flatten();
    containers.into_iter().find_map(|container| {
        let reason = text(container, "/state/waiting/reason");
        is_stuck(reason).then(|| {
            let (name, detail) = (text(container, "/name"), text(container, "/state/waiting/message"));
            let colon = if detail.is_empty() { "" } else { ": " };
            Health::degraded(reason, format!("container {name} does not start ({reason}){colon}{detail}"))
        })
    })
}
