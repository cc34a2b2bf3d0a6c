//! What unhealthy objects have made: ReplicaSets and Pods, read from the target to explain why they are not well.

use std::collections::BTreeMap;

use convoy_api::{HealthChild, HealthObject, ReleaseHealth};
use convoy_apply::{RequestError, Target};
use convoy_health::{HealthRules, State};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Semaphore;

/// Objects that are explained in one answer.
const MOST_EXPLAINED: usize = 20;
/// ReplicaSets and Pods that are read of one object.
const MOST_READ: usize = 100;
/// Children that are told of one object; the worst.
const MOST_TOLD: usize = 10;
/// Objects whose events are read in one answer.
const MOST_WITH_EVENTS: usize = 10;

/// Kinds that make Pods: group, kind, the resource, and whether ReplicaSets stand between.
const MAKERS: [(&str, &str, &str, bool); 5] = [
    ("apps", "Deployment", "deployments", true),
    ("apps", "StatefulSet", "statefulsets", false),
    ("apps", "DaemonSet", "daemonsets", false),
    ("apps", "ReplicaSet", "replicasets", false),
    ("batch", "Job", "jobs", false),
];

/// An object whose children explain it.
pub(super) struct Explained {
    resource: &'static str,
    by_replica_sets: bool,
}

impl Explained {
    fn of(object: &HealthObject) -> Option<Self> {
        let is_bad = ["Progressing", "Degraded"].contains(&object.state.as_str());
        let (group, _) = object.api_version.split_once('/')?;
        let (_, _, resource, by_replica_sets) =
            MAKERS.into_iter().find(|(of, kind, _, _)| *of == group && *kind == object.kind && is_bad)?;
        Some(Self { resource, by_replica_sets })
    }

    /// Whether an object is one.
    pub(super) fn is_one(object: &HealthObject) -> bool {
        Self::of(object).is_some()
    }
}

/// Reads the children of what is not well.
pub(super) async fn explain(
    target: &Target,
    turns: &Semaphore,
    rules: &HealthRules,
    told: &mut ReleaseHealth,
    now: Timestamp,
) {
    let judge = Judge { rules, now };
    let mut events = Events { left: MOST_WITH_EVENTS };
    let mut left = MOST_EXPLAINED;
    let mut remarks = Vec::new();
    for object in &mut told.objects {
        let Some(explained) = Explained::of(object) else { continue };
        if left == 0 {
            remarks.push(format!("only {MOST_EXPLAINED} objects are explained"));
            break;
        }
        left -= 1;
        // It is never closed.
        let _turn = turns.acquire().await;
        if let Err(error) = explain_one(target, object, &explained, &mut events, &judge).await {
            remarks.push(format!("what the {} has made could not be read: {error}", object.named()));
            if error.class.concerns_the_whole_target() {
                break;
            }
        }
    }
    told.remarks.extend(remarks);
}

async fn explain_one(
    target: &Target,
    object: &mut HealthObject,
    explained: &Explained,
    events: &mut Events,
    judge: &Judge<'_>,
) -> Result<(), RequestError> {
    let (namespace, base) = (object.namespace.clone(), format!("/apis/{}", object.api_version));
    let live =
        target.read(&format!("{base}/namespaces/{namespace}/{}/{}", explained.resource, object.name)).await?;
    let Some(selector) = selector(&live["spec"]["selector"]) else { return Ok(()) };
    let mut makers = BTreeMap::from([(uid(&live).to_owned(), String::new())]);
    let mut children = Vec::new();
    if explained.by_replica_sets {
        let path =
            format!("{base}/namespaces/{namespace}/replicasets?labelSelector={selector}&limit={MOST_READ}");
        for set in owned(&target.read(&path).await?, &makers) {
            let replicas = |pointer: &str| set.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
            if replicas("/spec/replicas") == 0 && replicas("/status/replicas") == 0 {
                continue;
            }
            children.push(replica_set(&set, judge));
            makers.insert(uid(&set).to_owned(), name(&set).to_owned());
        }
    }
    let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}&limit={MOST_READ}");
    let pods = owned(&target.read(&path).await?, &makers);
    let has_pods = !pods.is_empty();
    for pod in pods {
        let mut child = child(&pod, "Pod", judge).0;
        child.owner = owner(&pod, &makers).cloned().unwrap_or_default();
        if child.state != State::Healthy.as_str() && child.reason != "Unschedulable" {
            events.add(target, &namespace, uid(&pod), &mut child.message).await;
        }
        children.push(child);
    }
    if !has_pods && !children.iter().any(|child| child.reason == FAILED_CREATE) {
        // A quota or a policy that lets no Pod be made is told of in events alone.
        events.add(target, &namespace, uid(&live), &mut object.message).await;
    }
    children.sort_by_key(|child| (child.kind == "Pod", child.state == State::Healthy.as_str()));
    children.truncate(MOST_TOLD);
    object.children = children;
    Ok(())
}

/// Why a ReplicaSet makes no Pods, in its condition.
const FAILED_CREATE: &str = "FailedCreate";

/// Says how an object is: by a HealthRuleSet where one names its kind.
struct Judge<'a> {
    rules: &'a HealthRules,
    now: Timestamp,
}

fn replica_set(set: &Value, judge: &Judge<'_>) -> HealthChild {
    let (mut child, is_by_rule) = child(set, "ReplicaSet", judge);
    if is_by_rule {
        return child;
    }
    let conditions = set.pointer("/status/conditions").and_then(Value::as_array);
    let failure = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "ReplicaFailure" && condition["status"] == "True");
    if let Some(failure) = failure {
        State::Degraded.as_str().clone_into(&mut child.state);
        failure["reason"].as_str().unwrap_or(FAILED_CREATE).clone_into(&mut child.reason);
        failure["message"].as_str().unwrap_or_default().clone_into(&mut child.message);
    }
    child
}

/// A child, and whether a HealthRuleSet judged it.
fn child(object: &Value, kind: &str, judge: &Judge<'_>) -> (HealthChild, bool) {
    let mut object = object.clone();
    // Items of lists do not say what they are.
    object["kind"] = kind.into();
    object["apiVersion"] = if kind == "Pod" { "v1".into() } else { "apps/v1".into() };
    let health = judge.rules.health_of(&object, judge.now);
    let is_by_rule = judge.rules.names(&object);
    let child = HealthChild {
        kind: kind.to_owned(),
        name: name(&object).to_owned(),
        owner: String::new(),
        state: health.state.as_str().to_owned(),
        reason: health.reason,
        message: health.message,
    };
    (child, is_by_rule)
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The name of who made an object, empty for the object that is explained; none when none of these did.
fn owner<'a>(object: &Value, makers: &'a BTreeMap<String, String>) -> Option<&'a String> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().find_map(|owner| makers.get(owner["uid"].as_str()?))
}

fn owned(list: &Value, makers: &BTreeMap<String, String>) -> Vec<Value> {
    let items = list["items"].as_array();
    items.into_iter().flatten().filter(|item| owner(item, makers).is_some()).cloned().collect()
}

/// A label selector as a query has it; none when it selects nothing, or cannot be said.
fn selector(selector: &Value) -> Option<String> {
    let mut parts = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str()?));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str()?;
        let values: Option<Vec<&str>> =
            expression["values"].as_array().map(|all| all.iter().filter_map(Value::as_str).collect());
        let values = values.unwrap_or_default().join(",");
        parts.push(match expression["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!parts.is_empty()).then(|| escaped(&parts.join(",")))
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

/// Reads warnings about objects, not of too many.
struct Events {
    left: usize,
}

impl Events {
    /// Adds the newest warning about an object to a message. Nobody needs to be allowed to see events.
    async fn add(&mut self, target: &Target, namespace: &str, uid: &str, message: &mut String) {
        if self.left == 0 || uid.is_empty() {
            return;
        }
        self.left -= 1;
        let fields = escaped(&format!("involvedObject.uid={uid},type=Warning"));
        let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector={fields}&limit={MOST_READ}");
        let Ok(list) = target.read(&path).await else { return };
        if let Some(warning) = newest(&list)
            && !message.contains(&warning)
        {
            if !message.is_empty() {
                message.push_str("; ");
            }
            message.push_str(&warning);
        }
    }
}

/// The newest warning of a list of events.
fn newest(list: &Value) -> Option<String> {
    let time = |event: &Value| {
        let of = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        of("/series/lastObservedTime")
            .or_else(|| of("/lastTimestamp"))
            .or_else(|| of("/eventTime"))
            .or_else(|| of("/metadata/creationTimestamp"))
    };
    let warnings = list["items"].as_array().into_iter().flatten().filter(|event| event["type"] == "Warning");
    let newest = warnings.max_by_key(|event| time(event))?;
    let (reason, message) =
        (newest["reason"].as_str().unwrap_or_default(), newest["message"].as_str()?.trim());
    Some(format!("{reason}: {message}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_is_said_as_a_query_has_it() {
        let all = json!({
            "matchLabels": {"app.kubernetes.io/name": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "x", "operator": "DoesNotExist"},
            ],
        });
        let said = "app.kubernetes.io%2Fname%3Dweb%2Ctier%20in%20%28a%2Cb%29%2C%21x";
        assert_eq!(selector(&all).as_deref(), Some(said));
        // Nothing selected is not all of the namespace.
        assert_eq!(selector(&json!({})), None);
        assert_eq!(selector(&json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]})), None);
    }

    #[test]
    fn a_quota_and_the_newest_warning_are_told() {
        let set = json!({
            "metadata": {"name": "web-1"}, "spec": {"replicas": 1},
            "status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": "pods \"web-1-x\" is forbidden: exceeded quota: q"}]},
        });
        let now = Timestamp::UNIX_EPOCH;
        let told = replica_set(&set, &Judge { rules: &HealthRules::default(), now });
        assert_eq!((told.state.as_str(), told.reason.as_str()), ("Degraded", "FailedCreate"));
        assert!(told.message.contains("exceeded quota"), "{}", told.message);
        // A rule of one's own says otherwise.
        let spec = convoy_api::HealthRuleSetSpec {
            rules: vec![convoy_api::HealthRule {
                group: "apps".to_owned(),
                kind: "ReplicaSet".to_owned(),
                suspended: Some("object.spec.replicas == 1".to_owned()),
                ..convoy_api::HealthRule::default()
            }],
        };
        let rules = HealthRules::of([("own", &spec)]);
        assert_eq!(replica_set(&set, &Judge { rules: &rules, now }).state, "Suspended");
        let event = |time: &str, message: &str| json!({"type": "Warning", "reason": "Unhealthy", "lastTimestamp": time, "message": message});
        let list = json!({"items": [
            event("2026-01-01T00:00:02Z", "Readiness probe failed: 500"), event("2026-01-01T00:00:01Z", "older"),
            {"type": "Normal", "lastTimestamp": "2026-01-01T00:00:03Z", "message": "Pulled"},
        ]});
        assert_eq!(newest(&list).as_deref(), Some("Unhealthy: Readiness probe failed: 500"));
    }
}
