//! Leases as Kubernetes stores them, to and from [`convoy_shard::Lease`].

use std::num::NonZeroU32;
use std::time::Duration;

use convoy_shard::{Lease, LeaseKey, MemberInfo, MemberState, ProcessKind, Settings, annotation};
use jiff::fmt::temporal::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde_json::{Map, Value, json};

/// `spec.leaseTransitions` is an int32. A lease that came there stays there, rather than start again.
const MOST_TRANSITIONS: i64 = i32::MAX as i64;
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "convoy");

/// Leases, without the types of k8s-openapi: one lease with a number out of range must not make all of
/// them unreadable.
pub fn resource() -> ApiResource {
    ApiResource {
        group: "coordination.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "coordination.k8s.io/v1".to_owned(),
        kind: "Lease".to_owned(),
        plural: "leases".to_owned(),
    }
}

/// The lease, when its name is one of the process kind's. Whatever stands in it is read as far as it
/// makes sense.
pub fn parse(process: ProcessKind, object: &DynamicObject) -> Option<Lease> {
    let metadata = &object.metadata;
    let key = LeaseKey::parse(process, metadata.name.as_deref()?)?;
    let spec = object.data.get("spec").unwrap_or(&Value::Null);
    let noted = |name: &str| metadata.annotations.as_ref()?.get(name).cloned();
    let member = matches!(key, LeaseKey::Member(_)).then(|| MemberInfo {
        shards: noted(annotation::SHARDS).and_then(|text| text.parse::<NonZeroU32>().ok()),
        assignment: noted(annotation::ASSIGNMENT),
        renew_interval: noted(annotation::RENEW_INTERVAL)
            .and_then(|text| text.parse().ok())
            .map(Duration::from_millis),
        // One that does not say acts, for all that others know.
        state: match noted(annotation::STATE).as_deref() {
            Some("waiting") => MemberState::Waiting,
            _ => MemberState::Acting,
        },
    });
    let transitions = spec["leaseTransitions"].as_i64().unwrap_or(0).clamp(0, MOST_TRANSITIONS);
    Some(Lease {
        key,
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        holder: spec["holderIdentity"].as_str().filter(|holder| !holder.trim().is_empty()).map(str::to_owned),
        boot_id: noted(annotation::BOOT_ID),
        duration_seconds: spec["leaseDurationSeconds"].as_i64(),
        transitions: u64::try_from(transitions).unwrap_or(0),
        acquired: time(&spec["acquireTime"]),
        renewed: time(&spec["renewTime"]),
        member,
    })
}

fn time(value: &Value) -> Option<Duration> {
    let time: Timestamp = value.as_str()?.parse().ok()?;
    Duration::try_from(time.duration_since(Timestamp::UNIX_EPOCH)).ok()
}

/// Microseconds, as MicroTime has them.
fn text(time: Duration) -> Option<String> {
    let time = Timestamp::UNIX_EPOCH.checked_add(SignedDuration::try_from(time).ok()?).ok()?;
    Some(DateTimePrinter::new().precision(Some(6)).timestamp_to_string(&time))
}

/// The object to write: what others put on the stored one, `base`, stays.
pub(super) fn build(
    settings: &Settings,
    namespace: &str,
    lease: &Lease,
    base: Option<DynamicObject>,
) -> DynamicObject {
    let name = lease.key.name(settings);
    let mut object = base.unwrap_or_else(|| DynamicObject::new(&name, &resource()));
    let present = |text: &String| (!text.is_empty()).then(|| text.clone());
    let old = std::mem::take(&mut object.metadata);
    let mut annotations = old.annotations.unwrap_or_default();
    let mut note = |name: &str, value: Option<String>| match value {
        Some(value) => _ = annotations.insert(name.to_owned(), value),
        None => _ = annotations.remove(name),
    };
    note(annotation::BOOT_ID, lease.boot_id.clone());
    if let Some(member) = &lease.member {
        note(annotation::SHARDS, member.shards.map(|shards| shards.to_string()));
        note(annotation::ASSIGNMENT, member.assignment.clone());
        note(annotation::RENEW_INTERVAL, member.renew_interval.map(|span| span.as_millis().to_string()));
        note(annotation::STATE, Some(member.state.as_str().to_owned()));
        note(annotation::ADDRESS, settings.advertised.clone());
    }
    let mut labels = old.labels.unwrap_or_default();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    object.metadata = ObjectMeta {
        name: Some(name),
        namespace: Some(namespace.to_owned()),
        uid: present(&lease.uid),
        resource_version: present(&lease.resource_version),
        annotations: Some(annotations),
        labels: Some(labels),
        finalizers: old.finalizers,
        owner_references: old.owner_references,
        ..ObjectMeta::default()
    };
    let mut spec = match object.data.get_mut("spec").map(Value::take) {
        Some(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    let mut set = |name: &str, value: Option<Value>| match value {
        Some(value) => _ = spec.insert(name.to_owned(), value),
        None => _ = spec.remove(name),
    };
    set("holderIdentity", lease.holder.clone().map(Value::from));
    set("leaseDurationSeconds", lease.duration_seconds.map(Value::from));
    let transitions = i64::try_from(lease.transitions).unwrap_or(MOST_TRANSITIONS).min(MOST_TRANSITIONS);
    set("leaseTransitions", Some(transitions.into()));
    set("acquireTime", lease.acquired.and_then(text).map(Value::from));
    set("renewTime", lease.renewed.and_then(text).map(Value::from));
    object.data = json!({ "spec": spec });
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_lease_says_where_its_replica_is_asked_and_a_shard_lease_does_not() {
        let settings = Settings { advertised: Some("10.0.0.7:8443".to_owned()), ..settings() };
        let base = stored("x", &json!({annotation::ADDRESS: "old:1"}), &Value::Null);
        let lease =
            |key, member| Lease { key, member, ..read(&stored("convoy-cm-shard-1", &json!({}), &json!({}))) };
        let member =
            MemberInfo { shards: None, assignment: None, renew_interval: None, state: MemberState::Acting };
        let member = lease(LeaseKey::Member("cm-0".into()), Some(member));
        let address = |settings: &Settings, lease| {
            let built = build(settings, "n", lease, Some(base.clone()));
            built.metadata.annotations.unwrap().get(annotation::ADDRESS).cloned()
        };
        assert_eq!(address(&settings, &member).as_deref(), Some("10.0.0.7:8443"));
        assert_eq!(
            address(&self::settings(), &member),
            None,
            "one that is not asked any more does not say where"
        );
        let shard = build(&settings, "n", &lease(LeaseKey::Shard(1), None), None);
        assert!(!shard.metadata.annotations.unwrap().contains_key(annotation::ADDRESS));
    }

    fn settings() -> Settings {
        Settings::new(ProcessKind::ControllerManager, "cm-0", "boot-1")
    }

    fn stored(name: &str, annotations: &Value, spec: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "n", "uid": "u", "resourceVersion": "7",
                "labels": {"team": "a"}, "annotations": annotations},
            "spec": spec,
        }))
        .unwrap()
    }

    fn read(object: &DynamicObject) -> Lease {
        parse(ProcessKind::ControllerManager, object).unwrap()
    }

    #[test]
    fn sc32_a_lease_is_read_as_it_was_written_and_keeps_what_others_put_there() {
        let member = MemberInfo {
            shards: NonZeroU32::new(32),
            assignment: Some("modulo".to_owned()),
            renew_interval: Some(Duration::from_millis(10_500)),
            state: MemberState::Waiting,
        };
        for (key, member) in [(LeaseKey::Shard(31), None), (LeaseKey::Member("cm-0".into()), Some(member))] {
            let lease = Lease {
                key,
                uid: "u".into(),
                resource_version: "7".into(),
                holder: Some("cm-0".into()),
                boot_id: Some("boot-1".into()),
                duration_seconds: Some(30),
                transitions: 5,
                acquired: Some(Duration::from_micros(1_764_450_000_123_456)),
                renewed: Some(Duration::from_micros(1_764_450_001_000_000)),
                member,
            };
            let name = lease.key.name(&settings());
            let base =
                stored(&name, &json!({"other.io/x": "y"}), &json!({"strategy": "OldestEmulationVersion"}));
            let object = build(&settings(), "n", &lease, Some(base));
            assert_eq!(read(&object), lease);
            assert_eq!(object.metadata.name.as_deref(), Some(name.as_str()));
            let labels = object.metadata.labels.as_ref().unwrap();
            assert_eq!((labels["team"].as_str(), labels[MANAGED_BY.0].as_str()), ("a", "convoy"));
            assert_eq!(object.metadata.annotations.as_ref().unwrap()["other.io/x"], "y");
            assert_eq!(object.data["spec"]["strategy"], "OldestEmulationVersion");
            assert_eq!(object.data["spec"]["renewTime"], "2025-11-29T21:00:01.000000Z");

            let released = Lease { holder: None, boot_id: None, ..lease };
            let object = build(&settings(), "n", &released, Some(object));
            assert_eq!(read(&object), released);
            assert!(object.data["spec"].get("holderIdentity").is_none());
        }
    }

    #[test]
    fn hostile_values_are_read_without_harm() {
        let spec = json!({"holderIdentity": "  ", "leaseDurationSeconds": 0, "leaseTransitions": -3,
            "renewTime": "9999-12-30T00:00:00.000000Z", "acquireTime": "-009999-01-01T00:00:00Z"});
        let lease = read(&stored("convoy-cm-shard-0", &json!({}), &spec));
        assert_eq!((lease.holder, lease.duration_seconds, lease.transitions), (None, Some(0), 0));
        assert!(lease.renewed.is_some() && lease.acquired.is_none());
        let spec = json!({"holderIdentity": 7, "leaseDurationSeconds": 2_147_483_648_i64,
            "leaseTransitions": u64::MAX, "renewTime": {}, "acquireTime": "yesterday"});
        let lease = read(&stored("convoy-cm-shard-0", &json!({}), &spec));
        assert_eq!((lease.holder.clone(), lease.duration_seconds), (None, Some(2_147_483_648)));
        assert_eq!((lease.renewed, lease.acquired), (None, None));
        // A term that cannot be counted on is written as the last that can.
        let lease = Lease { transitions: u64::MAX, ..lease };
        assert_eq!(build(&settings(), "n", &lease, None).data["spec"]["leaseTransitions"], i32::MAX);
        for spec in [json!(null), json!([]), json!("x")] {
            assert_eq!(read(&stored("convoy-cm-shard-0", &json!({}), &spec)).holder, None);
        }
        let annotations =
            json!({annotation::SHARDS: "0", annotation::RENEW_INTERVAL: "-1", annotation::STATE: "?"});
        let member = read(&stored("convoy-cm-member-x", &annotations, &json!({}))).member.unwrap();
        assert_eq!((member.shards, member.renew_interval, member.state), (None, None, MemberState::Acting));
        assert!(parse(ProcessKind::Observer, &stored("convoy-cm-shard-0", &json!({}), &json!({}))).is_none());
    }
}
