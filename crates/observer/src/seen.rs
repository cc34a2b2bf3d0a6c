use std::sync::Arc;

use convoy_api::{IgnoreRule, Release, field_manager};
use convoy_apply::has_ended;
use convoy_health::{Health, HealthRules};
use convoy_plan::{LeftAlone, ObjectKey};
use jiff::Timestamp;
use serde_json::Value;

use crate::owned::{Gather, MAX_DEPTH, Owned, short, walk};

/// One live object in a few words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) health: Health,
    /// A Job or a Pod that has ended.
    pub(crate) has_ended: bool,
    pub(crate) owned: Owned,
    /// Somebody else wrote, other than to a subresource, after convoy last did.
    pub(crate) is_written_by_others: bool,
    /// The field manager that wrote last after convoy did, also to the scale.
    pub(crate) last_writer: Option<Box<str>>,
    /// Which rules it was looked at with; none when there are none.
    pub(crate) rules: Option<RulesMark>,
}

/// Tells rules apart.
pub(crate) type RulesMark = [u8; 8];

/// Looks at a live object that nothing is left alone of.
#[cfg(test)]
pub(crate) fn look(object: &Value, now: Timestamp) -> Seen {
    look_with(object, now, None, &HealthRules::default())
}

/// Looks at a live object.
pub(crate) fn look_with(object: &Value, now: Timestamp, rules: Option<&Rules>, health: &HealthRules) -> Seen {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let managers = managers.map(Vec::as_slice).unwrap_or_default();
    let (own, others): (Vec<_>, Vec<_>) = managers.iter().partition(|entry| is_convoys(entry));
    let left = rules.and_then(|rules| rules.of(object, &own));
    let own_time = own.iter().filter_map(|entry| time(entry)).max();
    let part =
        |entry: &Value| entry.get("subresource").and_then(Value::as_str).unwrap_or_default().to_owned();
    let counts = |entry: &&&Value| left.as_ref().is_none_or(|left| writes_elsewhere(entry, object, left));
    let others_time =
        others.iter().filter(|entry| part(entry).is_empty()).filter(counts).filter_map(|e| time(e)).max();
    let writers = others.iter().filter(|entry| matches!(part(entry).as_str(), "" | "scale")).filter(counts);
    let last_writer = writers
        .filter_map(|entry| Some((time(entry)?, entry.get("manager")?.as_str()?)))
        .filter(|(time, _)| Some(*time) >= own_time)
        .max_by_key(|(time, _)| *time)
        .map(|(_, manager)| manager.into());
    let own_fields = || own.iter().filter_map(|entry| entry.get("fieldsV1")?.as_object());

    let mut gather = Gather::default();
    let paths: Vec<&[String]> = left.iter().flat_map(LeftAlone::paths).collect();
    own_fields().for_each(|fields| gather.own(fields, object, &paths));
    if let Some(left) = &left {
        let is_left = |entry: &&&Value| entry["manager"].as_str().is_some_and(|name| left.is_by(name));
        let fields = others.iter().filter(is_left).filter_map(|entry| entry.get("fieldsV1")?.as_object());
        fields.for_each(|fields| gather.left(fields, object));
    }
    let owned = gather.done();
    Seen {
        uid: text("/metadata/uid"),
        resource_version: text("/metadata/resourceVersion"),
        health: health.health_of(object, now),
        has_ended: has_ended(object),
        owned,
        is_written_by_others: others_time > own_time,
        last_writer,
        rules: rules.map(Rules::mark),
    }
}

fn is_convoys(entry: &Value) -> bool {
    entry.get("manager").and_then(Value::as_str) == Some(field_manager::TARGET)
        && entry.get("operation").and_then(Value::as_str) == Some("Apply")
}

fn time(entry: &Value) -> Option<Timestamp> {
    entry.get("time")?.as_str()?.parse().ok()
}

/// Whether an entry of managedFields names a field that is not left alone.
fn writes_elsewhere(entry: &Value, object: &Value, left: &LeftAlone) -> bool {
    if entry["manager"].as_str().is_some_and(|name| left.is_by(name)) {
        return false;
    }
    let Some(fields) = entry.get("fieldsV1").and_then(Value::as_object) else { return true };
    let paths: Vec<&[String]> = left.paths().collect();
    let mut is_elsewhere = false;
    walk(fields, object, &paths, "", MAX_DEPTH, &mut |path, _| {
        // That there is something around what is left alone says nothing.
        is_elsewhere |= !path.ends_with("\0.");
    });
    is_elsewhere
}

/// The rules of one Release for what is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    rules: Vec<IgnoreRule>,
    mark: RulesMark,
}

impl Rules {
    /// None when there are none.
    pub(crate) fn of_release(release: &Release) -> Option<Arc<Self>> {
        let rules = release.spec.ignore_rules().to_vec();
        if rules.is_empty() {
            return None;
        }
        let text = serde_json::to_string(&rules).unwrap_or_default();
        Some(Arc::new(Self { mark: short(&text).to_be_bytes(), rules }))
    }

    pub(crate) fn mark(&self) -> RulesMark {
        self.mark
    }

    /// What they say of an object. Its labels are those that convoy gave it: they are the source's.
    fn of(&self, object: &Value, own: &[&Value]) -> Option<LeftAlone> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let key = ObjectKey {
            group: text("/apiVersion").split_once('/').map_or("", |(group, _)| group).to_owned(),
            kind: text("/kind").to_owned(),
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
        };
        let is_own = |name: &str| {
            let labels = own.iter().filter_map(|entry| entry.pointer("/fieldsV1/f:metadata/f:labels"));
            labels.filter_map(Value::as_object).any(|labels| labels.contains_key(&format!("f:{name}")))
        };
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels
            .filter(|(name, _)| is_own(name))
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        LeftAlone::of(&self.rules, &key, &labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-11-01T12:00:00Z".parse().unwrap()
    }

    fn entry(manager: &str, operation: &str, time: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn config_map() -> Value {
        let fields = json!({"f:data": {"f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:x": {}}}});
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "uid": "u", "resourceVersion": "7", "labels": {"x": "1"},
                "managedFields": [entry("convoy", "Apply", "2026-11-01T10:00:00Z", &fields)],
            },
            "data": {"a": "1", "b": "2"},
        })
    }

    fn owned(object: &Value) -> Owned {
        look(object, now()).owned
    }

    #[test]
    fn a_change_of_an_owned_value_or_of_the_owned_set_shows() {
        let before = config_map();
        let mut changed = vec![before.clone(); 4];
        changed[0]["data"]["a"] = json!("x");
        changed[1]["data"].as_object_mut().unwrap().remove("a");
        changed[2]
            .pointer_mut("/metadata/managedFields/0/fieldsV1/f:data")
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove("f:a");
        changed[3]["metadata"]["managedFields"] = json!([]);
        for after in changed {
            assert_ne!(owned(&before), owned(&after), "{after}");
        }
    }

    #[test]
    fn what_others_own_does_not_show() {
        let before = config_map();
        let mut after = before.clone();
        after["data"]["c"] = json!("theirs");
        after["metadata"]["annotations"] = json!({"note": "theirs"});
        after["metadata"]["resourceVersion"] = json!("9");
        after["status"] = json!({"x": 1});
        let fields = json!({"f:data": {"f:c": {}}});
        after["metadata"]["managedFields"].as_array_mut().unwrap().push(entry(
            "kubectl-edit",
            "Update",
            "2026-11-01T11:00:00Z",
            &fields,
        ));
        assert_eq!(owned(&before), owned(&after));
        assert!(!look(&before, now()).is_written_by_others);
        assert!(look(&after, now()).is_written_by_others);
        after["metadata"]["managedFields"][1]["subresource"] = json!("status");
        assert!(!look(&after, now()).is_written_by_others);
    }

    #[test]
    fn items_of_lists_are_found_by_key_value_and_index() {
        let fields = json!({"f:spec": {
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}},
            "f:finalizers": {"v:\"a/b\"": {}},
            "f:plain": {"i:1": {}},
            "f:map": {".": {}, "f:k": {}},
        }});
        let object = json!({
            "metadata": {"managedFields": [entry("convoy", "Apply", "2026-11-01T10:00:00Z", &fields)]},
            "spec": {
                "ports": [{"port": 81, "protocol": "TCP", "name": "o"}, {"port": 80, "protocol": "TCP", "name": "web"}],
                "finalizers": ["x/y", "a/b"], "plain": ["p", "q"], "map": {"k": 1, "other": 2},
            },
        });
        for (pointer, value) in [
            ("/spec/ports/1/name", json!("w")),
            ("/spec/ports/1/port", json!(82)),
            ("/spec/finalizers/1", json!("c/d")),
            ("/spec/plain/1", json!("r")),
            ("/spec/map/k", json!(3)),
        ] {
            let mut changed = object.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_ne!(owned(&object), owned(&changed), "{pointer}");
        }
        for (pointer, value) in
            [("/spec/ports/0/name", json!("w")), ("/spec/map/other", json!(3)), ("/spec/plain/0", json!("r"))]
        {
            let mut changed = object.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_eq!(owned(&object), owned(&changed), "{pointer}");
        }
    }

    fn rules(paths: &[&str], managers: &[&str]) -> Arc<Rules> {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        let rule = IgnoreRule { target: None, paths: texts(paths), managers: texts(managers) };
        let mut release = Release::default();
        release.spec.drift = Some(convoy_api::DriftPolicy { mode: None, ignore: vec![rule] });
        Rules::of_release(&release).unwrap()
    }

    #[test]
    fn what_a_path_leaves_alone_does_not_show_whoever_owns_it() {
        let rules = rules(&["/data/a"], &[]);
        let look = |object: &Value| look_with(object, now(), Some(&rules), &HealthRules::default());
        let before = config_map();
        let mut changed = before.clone();
        changed["data"]["a"] = json!("theirs");
        assert!(!look(&before).owned.is_changed(&look(&changed).owned));
        // Another took it.
        let fields = json!({"f:data": {"f:a": {}}});
        let managers = changed["metadata"]["managedFields"].as_array_mut().unwrap();
        managers[0]["fieldsV1"]["f:data"].as_object_mut().unwrap().remove("f:a");
        managers.push(entry("hpa", "Update", "2026-11-01T11:00:00Z", &fields));
        assert!(!look(&before).owned.is_changed(&look(&changed).owned));
        assert!(!look(&changed).is_written_by_others);
        assert_eq!(look(&changed).last_writer, None);
        changed["data"]["b"] = json!("theirs");
        assert!(look(&before).owned.is_changed(&look(&changed).owned));
    }

    #[test]
    fn a_set_that_only_holds_what_is_left_alone_is_as_good_as_none() {
        let rules = rules(&["/data/a"], &[]);
        let look = |object: &Value| look_with(object, now(), Some(&rules), &HealthRules::default()).owned;
        let mut before = config_map();
        before["metadata"]["managedFields"][0]["fieldsV1"] =
            json!({"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:x": {}}}});
        let mut after = before.clone();
        after["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:metadata": {"f:labels": {"f:x": {}}}});
        assert!(!look(&before).is_changed(&look(&after)));
    }

    #[test]
    fn what_a_manager_set_does_not_show_while_it_is_that_managers() {
        let rules = rules(&[], &["hpa"]);
        let look = |object: &Value| look_with(object, now(), Some(&rules), &HealthRules::default()).owned;
        let before = config_map();
        let mut after = before.clone();
        after["data"]["a"] = json!("theirs");
        let managers = after["metadata"]["managedFields"].as_array_mut().unwrap();
        managers[0]["fieldsV1"]["f:data"].as_object_mut().unwrap().remove("f:a");
        managers.push(entry("hpa", "Update", "2026-11-01T11:00:00Z", &json!({"f:data": {"f:a": {}}})));
        assert!(!look(&before).is_changed(&look(&after)));
        after["metadata"]["managedFields"][1]["manager"] = json!("somebody");
        assert!(look(&before).is_changed(&look(&after)));
        after["metadata"]["managedFields"].as_array_mut().unwrap().pop();
        assert!(look(&before).is_changed(&look(&after)), "nobody has it now");
    }

    #[test]
    fn who_wrote_last_is_named() {
        let mut object = config_map();
        assert_eq!(look(&object, now()).last_writer, None);
        let fields = json!({"f:data": {"f:a": {}}});
        let managers = object["metadata"]["managedFields"].as_array_mut().unwrap();
        managers.push(entry("early", "Update", "2026-11-01T09:00:00Z", &fields));
        managers.push(entry("late", "Update", "2026-11-01T11:00:00Z", &fields));
        managers.push(entry("later", "Update", "2026-11-01T11:30:00Z", &fields));
        managers[3]["subresource"] = json!("scale");
        managers.push(entry("latest", "Update", "2026-11-01T11:40:00Z", &fields));
        managers[4]["subresource"] = json!("status");
        assert_eq!(look(&object, now()).last_writer.as_deref(), Some("later"));
    }

    #[test]
    fn an_object_of_any_shape_is_looked_at() {
        for object in [
            json!(null),
            json!([]),
            json!({"metadata": 1}),
            json!({"metadata": {"managedFields": [1, {"manager": "convoy", "operation": "Apply", "fieldsV1": {"k:{": {"v:": {}}, "x": 3}}]}}),
        ] {
            look(&object, now());
            look_with(&object, now(), Some(&rules(&["/data/a", "/x/0"], &["hpa"])), &HealthRules::default());
        }
    }
}
