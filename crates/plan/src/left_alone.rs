//! What of an object is left as it is on the target: rules of `spec.drift.ignore`.
//!
//! Server-side apply removes a field that its only owner no longer sends, and takes over a field that is sent with
//! force. So what is left alone is neither left out nor sent as the source has it: of it exactly that is sent which
//! convoy alone owns now, with the value that it has now. What another owns, too, is left out: it stays, and is the
//! other's from then on.

mod fields;

use std::collections::BTreeMap;

use convoy_api::{IgnoreRule, IgnoreTarget, label, pointer_segments};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use self::fields::{Owners, entries, has_keys, item_of, keys_of};
pub use self::fields::{field_of, names_item};
use crate::ObjectKey;
use crate::digest::in_text;

/// What of one object is left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftAlone {
    paths: Vec<Vec<String>>,
    managers: Vec<String>,
}

impl LeftAlone {
    /// What rules say of an object with these labels; none when they say nothing.
    pub fn of(rules: &[IgnoreRule], key: &ObjectKey, labels: &BTreeMap<String, String>) -> Option<Self> {
        let mut all = Self::default();
        for rule in rules {
            if rule.target.as_ref().is_some_and(|target| !is_meant(target, key, labels)) {
                continue;
            }
            // What the API server would refuse may come from one that does not know how.
            let paths = rule.paths.iter().filter(|path| convoy_api::pointer_fault(path).is_none());
            all.paths.extend(paths.map(|path| pointer_segments(path)));
            all.managers.extend(rule.managers.iter().cloned());
        }
        all.paths.sort_unstable();
        all.paths.dedup();
        all.managers.sort_unstable();
        all.managers.dedup();
        (!all.paths.is_empty() || !all.managers.is_empty()).then_some(all)
    }

    /// The digest of an object of which this is left alone: it is applied anew when that becomes another.
    pub(crate) fn digest(&self, of_object: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(of_object);
        for path in &self.paths {
            hash.update(format!("path {path:?}\n"));
        }
        for manager in &self.managers {
            hash.update(format!("manager {manager:?}\n"));
        }
        in_text(&hash.finalize())
    }

    /// The paths, in parts.
    pub fn paths(&self) -> impl Iterator<Item = &[String]> {
        self.paths.iter().map(Vec::as_slice)
    }

    /// Whether what a field manager set is left alone.
    pub fn is_by(&self, manager: &str) -> bool {
        self.managers.iter().any(|one| one == manager)
    }

    /// Whether what any field manager set is left alone.
    pub fn has_managers(&self) -> bool {
        !self.managers.is_empty()
    }

    /// What `manager` applies to an object that is there.
    pub fn applied(&self, desired: &Value, live: &Value, manager: &str) -> Value {
        let mut sent = desired.clone();
        let owners = Owners::of(live, manager);
        for path in &self.paths {
            leave(&mut sent, live, &owners, path);
        }
        for fields in self.set_by_others(live) {
            let_go(&mut sent, fields);
        }
        named(sent, desired)
    }

    /// What an object that is there is replaced with.
    pub fn replaced(&self, desired: &Value, live: &Value) -> Value {
        let mut sent = desired.clone();
        for path in &self.paths {
            put(&mut sent, live, path);
        }
        for fields in self.set_by_others(live) {
            keep(&mut sent, live, fields);
        }
        named(sent, desired)
    }

    fn set_by_others<'a>(&'a self, live: &'a Value) -> impl Iterator<Item = &'a Map<String, Value>> {
        let is_left = |entry: &&Value| entry["manager"].as_str().is_some_and(|name| self.is_by(name));
        entries(live).filter(is_left).filter_map(|entry| entry.get("fieldsV1")?.as_object())
    }
}

fn is_meant(target: &IgnoreTarget, key: &ObjectKey, labels: &BTreeMap<String, String>) -> bool {
    let is = |want: &Option<String>, have: &str| want.as_deref().is_none_or(|want| want == have);
    is(&target.group, &key.group)
        && is(&target.kind, &key.kind)
        && is(&target.name, &key.name)
        && is(&target.namespace, &key.namespace)
        && target.label_selector.as_ref().is_none_or(|selector| selector.matches(labels))
}

/// What tells which object it is, and whose, is never left alone.
fn named(mut sent: Value, desired: &Value) -> Value {
    for field in ["apiVersion", "kind"] {
        sent[field] = desired[field].clone();
    }
    for field in ["name", "namespace"] {
        if let Some(value) = desired["metadata"].get(field) {
            sent["metadata"][field] = value.clone();
        }
    }
    for name in [label::MANAGED_BY, label::RELEASE_UID] {
        if let Some(value) = desired["metadata"]["labels"].get(name) {
            let labels = &mut sent["metadata"]["labels"];
            if !labels.is_object() {
                *labels = Value::Object(Map::new());
            }
            labels[name] = value.clone();
        }
    }
    sent
}

/// Makes of what is sent at a path what its sender alone owns there.
fn leave(sent: &mut Value, live: &Value, owners: &Owners<'_>, path: &[String]) {
    let Some((part, rest)) = path.split_first() else { return };
    match (sent, live) {
        (Value::Object(sent), Value::Object(there)) => {
            let owners = owners.child(&format!("f:{part}"));
            let Some(live) = there.get(part) else {
                // It is not there, and that is left alone, too.
                match (rest.is_empty(), sent.get_mut(part)) {
                    (true, _) => drop(sent.remove(part)),
                    (false, Some(child)) => remove_field(child, rest),
                    (false, None) => {}
                }
                return;
            };
            if rest.is_empty() {
                match owned(live, &owners) {
                    Some(value) => drop(sent.insert(part.clone(), value)),
                    None => drop(sent.remove(part)),
                }
            } else if owners.is_atomic() {
                if let Some(sent) = sent.get_mut(part) {
                    put(sent, live, rest);
                }
            } else if let Some(sent) = sent.get_mut(part) {
                leave(sent, live, &owners, rest);
            } else if !owners.own.is_empty()
                && let Some(mut empty) = empty_like(live)
            {
                // The source has it no more; that its owner lets go of it would remove it.
                leave(&mut empty, live, &owners, rest);
                if empty != empty_like(live).unwrap_or_default() {
                    sent.insert(part.clone(), empty);
                }
            }
        }
        (Value::Array(sent), Value::Array(there)) => {
            let Some(index) = item_of(sent, part) else {
                let live_item = item_of(there, part).filter(|_| rest.is_empty() && part.contains('='));
                let kept = live_item
                    .and_then(|index| there.get(index))
                    .and_then(|item| owned(item, &owners.item(live, item)).filter(|kept| !kept.is_null()));
                sent.extend(kept);
                return;
            };
            let Some(own) = sent.get(index) else { return };
            // The same item may stand elsewhere on the target. One that is not there is made as the source has it.
            let same = |keys: &Map<String, Value>| has_keys(own, keys);
            let elements = owners.own.iter().chain(&owners.others).flat_map(|set| set.keys());
            let by_keys = elements
                .filter(|element| keys_of(element).is_some_and(|keys| same(&keys)))
                .find_map(|element| fields::field_of(live, element));
            let is_associative =
                owners.own.iter().chain(&owners.others).any(|set| set.keys().any(|k| k.starts_with("k:")));
            let by_place = || item_of(there, part).and_then(|index| there.get(index));
            let live_item = if is_associative { by_keys } else { by_place() };
            let Some(live_item) = live_item else { return };
            let owners = owners.item(live, live_item);
            if !rest.is_empty() {
                if let Some(sent) = sent.get_mut(index) {
                    leave(sent, live_item, &owners, rest);
                }
                return;
            }
            match owned(live_item, &owners) {
                Some(value) => {
                    if let Some(sent) = sent.get_mut(index) {
                        *sent = value;
                    }
                }
                None => drop(sent.remove(index)),
            }
        }
        _ => {}
    }
}

fn empty_like(value: &Value) -> Option<Value> {
    match value {
        Value::Object(_) => Some(Value::Object(Map::new())),
        Value::Array(_) => Some(Value::Array(Vec::new())),
        _ => None,
    }
}

/// What of a live value is owned by the one manager alone.
fn owned(live: &Value, owners: &Owners<'_>) -> Option<Value> {
    if owners.own.is_empty() {
        return None;
    }
    if owners.is_atomic() {
        return owners.others.is_empty().then(|| live.clone());
    }
    let itself = || empty_like(live).filter(|_| owners.is_sole());
    match live {
        Value::Object(map) => {
            let mut kept = Map::new();
            for element in owners.own_elements() {
                let Some((name, value)) =
                    element.strip_prefix("f:").and_then(|name| Some((name, map.get(name)?)))
                else {
                    continue;
                };
                if let Some(value) = owned(value, &owners.child(element)) {
                    kept.insert(name.to_owned(), value);
                }
            }
            if kept.is_empty() { itself() } else { Some(Value::Object(kept)) }
        }
        Value::Array(_) => {
            let mut kept = Vec::new();
            for element in owners.own_elements() {
                let Some(item) = field_of(live, element) else { continue };
                let Some(mut value) = owned(item, &owners.child(element)) else { continue };
                if let (Some(keys), Value::Object(value)) = (keys_of(element), &mut value) {
                    for key in keys.keys() {
                        value.extend(item.get(key).map(|found| (key.clone(), found.clone())));
                    }
                }
                kept.push(value);
            }
            if kept.is_empty() { itself() } else { Some(Value::Array(kept)) }
        }
        _ => None,
    }
}

/// Removes what a path names, where it is there.
pub fn remove_field(value: &mut Value, path: &[String]) {
    let Some((part, rest)) = path.split_first() else { return };
    match value {
        Value::Object(map) if rest.is_empty() => drop(map.remove(part)),
        Value::Object(map) => {
            if let Some(child) = map.get_mut(part) {
                remove_field(child, rest);
            }
        }
        Value::Array(items) => {
            let Some(index) = item_of(items, part) else { return };
            if rest.is_empty() {
                items.remove(index);
            } else if let Some(item) = items.get_mut(index) {
                remove_field(item, rest);
            }
        }
        _ => {}
    }
}

/// Puts what is live at a path into what is sent.
fn put(sent: &mut Value, live: &Value, path: &[String]) {
    let Some((part, rest)) = path.split_first() else {
        sent.clone_from(live);
        return;
    };
    match (sent, live) {
        (Value::Object(sent), Value::Object(there)) => match there.get(part) {
            Some(live) => {
                if !sent.contains_key(part) && (rest.is_empty() || has(live, rest)) {
                    sent.insert(part.clone(), empty_like(live).unwrap_or_default());
                }
                if let Some(sent) = sent.get_mut(part) {
                    put(sent, live, rest);
                }
            }
            None if rest.is_empty() => drop(sent.remove(part)),
            None => {
                if let Some(sent) = sent.get_mut(part) {
                    remove_field(sent, rest);
                }
            }
        },
        (Value::Array(sent), Value::Array(there)) => {
            let live = item_of(there, part).and_then(|index| there.get(index));
            match (item_of(sent, part), live) {
                (Some(index), Some(live)) => {
                    if let Some(sent) = sent.get_mut(index) {
                        put(sent, live, rest);
                    }
                }
                (None, Some(live)) if rest.is_empty() => sent.push(live.clone()),
                _ => {}
            }
        }
        _ => {}
    }
}

fn has(value: &Value, path: &[String]) -> bool {
    let Some((part, rest)) = path.split_first() else { return true };
    let child = match value {
        Value::Array(items) => item_of(items, part).and_then(|index| items.get(index)),
        value => value.get(part),
    };
    child.is_some_and(|child| has(child, rest))
}

/// Leaves out of what is sent what another set. The keys of an item stay with what is left of it.
fn let_go(sent: &mut Value, fields: &Map<String, Value>) {
    for (element, below) in fields {
        let below = below.as_object().filter(|below| !below.is_empty());
        match sent {
            Value::Object(map) => {
                let Some(name) = element.strip_prefix("f:") else { continue };
                let (Some(below), Some(value)) = (below, map.get_mut(name)) else {
                    if below.is_none() {
                        map.remove(name);
                    }
                    continue;
                };
                let was_empty = empty_like(value).as_ref() == Some(value);
                let_go(value, below);
                if !was_empty && empty_like(value).as_ref() == Some(value) {
                    map.remove(name);
                }
            }
            Value::Array(items) => match keys_of(element) {
                Some(keys) => {
                    let item = items.iter_mut().find(|item| has_keys(item, &keys));
                    if let (Some(item), Some(below)) = (item, below) {
                        let mut below = below.clone();
                        below.retain(|name, _| {
                            name.strip_prefix("f:").is_none_or(|name| !keys.contains_key(name))
                        });
                        let_go(item, &below);
                    }
                }
                None => {
                    let wanted = element.strip_prefix("v:").map(serde_json::from_str::<Value>);
                    if let Some(Ok(wanted)) = wanted {
                        items.retain(|item| *item != wanted);
                    }
                }
            },
            _ => {}
        }
    }
}

/// Puts what another set into what is sent.
fn keep(sent: &mut Value, live: &Value, fields: &Map<String, Value>) {
    for (element, below) in fields {
        let Some(value) = field_of(live, element) else { continue };
        let below = below.as_object().filter(|below| !below.is_empty());
        match sent {
            Value::Object(map) => {
                let Some(name) = element.strip_prefix("f:") else { continue };
                match below {
                    None => drop(map.insert(name.to_owned(), value.clone())),
                    Some(below) => {
                        let empty = || empty_like(value).unwrap_or_default();
                        keep(map.entry(name).or_insert_with(empty), value, below);
                    }
                }
            }
            Value::Array(items) => match (keys_of(element), below) {
                (Some(keys), Some(below)) => match items.iter_mut().find(|item| has_keys(item, &keys)) {
                    Some(item) => keep(item, value, below),
                    None => items.push(value.clone()),
                },
                _ if !items.contains(value) => items.push(value.clone()),
                _ => {}
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
