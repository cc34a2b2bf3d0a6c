//! Kubernetes' FieldsV1: who owns which fields.
//!
//! A set of fields is a tree of keys: `f:<field>`, `k:<keys of a list's item>`, `v:<value of a set's item>`,
//! `i:<index>`, and `.` for the element itself where it has others below it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The value that an element of FieldsV1 names.
pub fn field_of<'a>(value: &'a Value, element: &str) -> Option<&'a Value> {
    let (sort, rest) = element.split_once(':')?;
    match sort {
        "f" => value.get(rest),
        "i" => value.get(rest.parse::<usize>().ok()?),
        "v" => {
            let wanted: Value = serde_json::from_str(rest).ok()?;
            value.as_array()?.iter().find(|item| **item == wanted)
        }
        "k" => {
            let keys = keys_of(element)?;
            value.as_array()?.iter().find(|item| has_keys(item, &keys))
        }
        _ => None,
    }
}

/// The keys of an item of an associative list.
pub(super) fn keys_of(element: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(element.strip_prefix("k:")?).ok()
}

/// Whether an item has these keys; one that it does not say may be one that the server fills in.
pub(super) fn has_keys(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter().all(|(key, want)| item.get(key).is_none_or(|found| found == want))
}

/// Whether a part of a JSON pointer names the item of a list at a place.
pub fn names_item(part: &str, index: usize, item: &Value) -> bool {
    if part.parse() == Ok(index) {
        return true;
    }
    part.contains('=')
        && part.split(',').all(|pair| {
            let Some((key, want)) = pair.split_once('=') else { return false };
            match item.get(key) {
                Some(Value::String(text)) => text == want,
                Some(Value::Bool(value)) => (if *value { "true" } else { "false" }) == want,
                Some(Value::Number(number)) => {
                    serde_json::from_str::<Value>(want).is_ok_and(|want| want.as_number() == Some(number))
                }
                _ => false,
            }
        })
}

/// The item of a list that a part of a JSON pointer names.
pub(super) fn item_of(items: &[Value], part: &str) -> Option<usize> {
    items.iter().enumerate().position(|(index, item)| names_item(part, index, item))
}

/// What the one manager and all others own, from one place of an object downwards.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners<'a> {
    pub(super) own: Vec<&'a Map<String, Value>>,
    pub(super) others: Vec<&'a Map<String, Value>>,
}

impl<'a> Owners<'a> {
    /// Of a live object; `manager` is the one that applies.
    pub(super) fn of(live: &'a Value, manager: &str) -> Self {
        let mut owners = Self::default();
        for entry in entries(live) {
            let Some(fields) = entry.get("fieldsV1").and_then(Value::as_object) else { continue };
            match entry["manager"] == manager && entry["operation"] == "Apply" {
                true => owners.own.push(fields),
                false => owners.others.push(fields),
            }
        }
        owners
    }

    pub(super) fn child(&self, element: &str) -> Self {
        let below = |sets: &[&'a Map<String, Value>]| {
            sets.iter().filter_map(|set| set.get(element)?.as_object()).collect()
        };
        Self { own: below(&self.own), others: below(&self.others) }
    }

    /// What is owned of one item of a live list.
    pub(super) fn item(&self, list: &'a Value, item: &'a Value) -> Self {
        let mut all = Self::default();
        let names: BTreeSet<&str> =
            self.own.iter().chain(&self.others).flat_map(|set| set.keys()).map(String::as_str).collect();
        for name in names {
            if field_of(list, name).is_some_and(|found| std::ptr::eq(found, item)) {
                let child = self.child(name);
                all.own.extend(child.own);
                all.others.extend(child.others);
            }
        }
        all
    }

    /// The elements below that are owned.
    pub(super) fn own_elements(&self) -> BTreeSet<&'a str> {
        self.own.iter().flat_map(|set| set.keys()).map(String::as_str).filter(|name| *name != ".").collect()
    }

    /// Whether all that is here is owned as one: nothing below is owned by itself.
    pub(super) fn is_atomic(&self) -> bool {
        !self.own.is_empty() && self.own.iter().all(|set| set.is_empty())
    }

    /// Whether the element itself is owned, and by nobody else.
    pub(super) fn is_sole(&self) -> bool {
        let names_itself = |set: &&&Map<String, Value>| set.is_empty() || set.contains_key(".");
        self.own.iter().any(|set| names_itself(&set)) && !self.others.iter().any(|set| names_itself(&set))
    }
}

/// The entries of metadata.managedFields.
pub(super) fn entries(live: &Value) -> impl Iterator<Item = &Value> {
    live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
}
