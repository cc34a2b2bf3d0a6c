//! What names the items of a list, so that one that moved is known as the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::compare::{Pair, Segment};

/// Deepest nesting of managed fields that is read.
const MAX_DEPTH: usize = 64;

/// What names the items of well-known lists whose managed fields say nothing: the last field, and its keys.
const WELL_KNOWN: [(&str, &[&str]); 7] = [
    ("ports", &["containerPort", "protocol"]),
    ("ports", &["port", "protocol"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("hostAliases", &["ip"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("conditions", &["type"]),
];

/// What names the items of an object's lists, as its managed fields say.
#[derive(Default)]
pub(super) struct Keys {
    /// By place; no keys when the items name themselves, as in a set.
    learned: BTreeMap<Vec<String>, BTreeSet<String>>,
}

type Labelled<'a> = Vec<(String, &'a Value)>;

/// The items of two lists with their names.
pub(super) struct Named<'a> {
    pub(super) before: Labelled<'a>,
    pub(super) after: Labelled<'a>,
}

impl Keys {
    /// What the managed fields of these objects say.
    pub(super) fn learned(objects: &[Option<&Value>]) -> Self {
        let mut keys = Self::default();
        for object in objects.iter().copied().flatten() {
            let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
            for entry in entries.into_iter().flatten() {
                if let Some(fields) = entry.get("fieldsV1").and_then(Value::as_object) {
                    keys.learn(fields, &mut Vec::new());
                }
            }
        }
        keys
    }

    fn learn(&mut self, fields: &Map<String, Value>, at: &mut Vec<String>) {
        if at.len() > MAX_DEPTH {
            return;
        }
        for (name, below) in fields {
            let step = match name.split_once(':') {
                Some(("f", field)) => field.to_owned(),
                Some(("k", item)) => {
                    if let Ok(Value::Object(item)) = serde_json::from_str(item) {
                        self.learned
                            .entry(at.clone())
                            .or_default()
                            .extend(item.into_iter().map(|(key, _)| key));
                    }
                    String::new()
                }
                Some(("v", _)) => {
                    self.learned.entry(at.clone()).or_default();
                    continue;
                }
                _ => continue,
            };
            if let Value::Object(below) = below {
                at.push(step);
                self.learn(below, at);
                at.pop();
            }
        }
    }

    /// The items of two lists by name; none when nothing names them, or two have one name.
    pub(super) fn named<'a>(&self, at: &Pair, before: &'a [Value], after: &'a [Value]) -> Option<Named<'a>> {
        let both =
            |keys: &[&str]| Some(Named { before: labelled(before, keys)?, after: labelled(after, keys)? });
        let place: Vec<String> = at
            .segments
            .iter()
            .map(|segment| match segment {
                Segment::Field(name) => name.clone(),
                Segment::Item => String::new(),
            })
            .collect();
        if let Some(keys) = self.learned.get(&place) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            if let Some(named) = both(&keys) {
                return Some(named);
            }
        }
        let last = place.last().map(String::as_str).unwrap_or_default();
        let known = WELL_KNOWN.iter().filter(|(list, _)| *list == last).map(|(_, keys)| *keys);
        std::iter::once(["name"].as_slice()).chain(known).find_map(both)
    }
}

/// Items with labels such as `[name=web]`; none when one has no such keys, or two have the same.
fn labelled<'a>(items: &'a [Value], keys: &[&str]) -> Option<Labelled<'a>> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        let label = if keys.is_empty() { of_itself(item)? } else { of_keys(item, keys)? };
        if !seen.insert(label.clone()) {
            return None;
        }
        all.push((label, item));
    }
    Some(all)
}

/// The label of an item of a set.
fn of_itself(item: &Value) -> Option<String> {
    (!item.is_object() && !item.is_array()).then(|| format!("[{}]", text(item)))
}

fn of_keys(item: &Value, keys: &[&str]) -> Option<String> {
    let item = item.as_object()?;
    let mut has_one = false;
    let parts: Vec<String> = keys
        .iter()
        .filter_map(|key| {
            let value = match (item.get(*key), *key) {
                (Some(value), _) => text(value),
                // What the API defaults does not name anything alone.
                (None, "protocol") => return Some("protocol=TCP".to_owned()),
                (None, _) => return None,
            };
            has_one = true;
            Some(format!("{key}={value}"))
        })
        .collect();
    (has_one && parts.len() == keys.len()).then(|| format!("[{}]", parts.join(",")))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
