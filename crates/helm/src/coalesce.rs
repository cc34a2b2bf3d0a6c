//! How a chart's values, its parents' and the user's come together.
//!
//! The rules are Helm's, down to which maps are shared: globals of a parent and of its children are the
//! same map below their first level, so what one child adds there the others see.

use crate::tree::Node;
use crate::version::HelmVersion;
use crate::watch::Watch;
use convoy_gotemplate::{List, Map, Str, Value, sprintf};
use std::collections::BTreeSet;

pub(crate) const GLOBAL: &str = "global";

/// Whether null removes a key (for a render) or is kept (while dependencies are looked at).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    Remove,
    Keep,
}

/// Whether a chart's own nulls go as well: Helm 3 keeps those that nobody gave a value.
fn removes_defaults(node: &Node<'_>, nulls: Nulls) -> bool {
    nulls == Nulls::Remove && node.chart.helm == HelmVersion::V4
}

/// A value of a parent that cannot hold the values of its subchart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("type mismatch on {chart}: {found}")]
pub struct TypeMismatch {
    /// Name of the subchart.
    pub chart: String,
    /// What stands there, as Go prints it with `%t`.
    pub found: String,
}

/// The values of a chart and all charts in it, given those of the user, which stay as they are.
pub(crate) fn coalesce_values(node: &Node<'_>, values: &Map, nulls: Nulls) -> Result<Map, TypeMismatch> {
    let values = deep_copy(values, node.watch);
    coalesce(node, &values, nulls)?;
    Ok(values)
}

pub(crate) fn deep_copy(map: &Map, watch: &Watch<'_>) -> Map {
    // A copy of the whole is quicker than building it anew.
    let mut entries = map.borrow().clone();
    for value in entries.values_mut().take_while(|_| !watch.turn()) {
        if matches!(value, Value::Map(_) | Value::List(_)) {
            *value = deep_copy_value(value, watch);
        }
    }
    Map::new(entries)
}

fn deep_copy_value(value: &Value, watch: &Watch<'_>) -> Value {
    match value {
        Value::Map(map) => Value::Map(deep_copy(map, watch)),
        Value::List(list) => {
            let list = list.borrow();
            let items = list.iter().take_while(|_| !watch.turn());
            Value::List(List::new(items.map(|item| deep_copy_value(item, watch)).collect()))
        }
        other => other.clone(),
    }
}

fn shallow_copy(map: &Map) -> Map {
    Map::new(map.borrow().clone())
}

fn coalesce(node: &Node<'_>, values: &Map, nulls: Nulls) -> Result<(), TypeMismatch> {
    coalesce_own(node, values, nulls);
    for child in &node.dependencies {
        let name = child.metadata.name.as_str();
        let child_values = match values.get(name.as_bytes()) {
            None => {
                let map = Map::default();
                values.insert(name.into(), Value::Map(map.clone()));
                map
            }
            Some(Value::Map(map)) => map,
            Some(other) => return Err(TypeMismatch { chart: name.to_owned(), found: print_bool(&other) }),
        };
        coalesce_globals(&child_values, values);
        coalesce(child, &child_values, nulls)?;
    }
    Ok(())
}

/// Go's `%t` of what is not a map.
fn print_bool(value: &Value) -> String {
    let text = sprintf(b"%t", std::slice::from_ref(value), 4096).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Gives a child the globals of its parent: the parent's win, tables are merged.
fn coalesce_globals(child: &Map, parent: &Map) {
    let globals = |map: &Map| match map.get(GLOBAL.as_bytes()) {
        None => Some(Map::default()),
        Some(Value::Map(map)) => Some(map),
        Some(_) => None,
    };
    let (Some(own), Some(given)) = (globals(child), globals(parent)) else { return };
    for (key, value) in given.entries() {
        match value {
            Value::Map(table) => {
                let table = shallow_copy(&table);
                match own.get(&key) {
                    None => own.insert(key, Value::Map(table)),
                    Some(Value::Map(own_table)) => {
                        coalesce_tables(&table, &own_table, Nulls::Keep);
                        own.insert(key, Value::Map(table));
                    }
                    Some(_) => {}
                }
            }
            value => {
                if !matches!(own.get(&key), Some(Value::Map(_))) {
                    own.insert(key, value);
                }
            }
        }
    }
    child.insert(GLOBAL.into(), Value::Map(own));
}

/// Puts a chart's own values under those it was given.
fn coalesce_own(node: &Node<'_>, values: &Map, nulls: Nulls) {
    let defaults = deep_copy(&node.values, node.watch);
    for (key, default) in defaults.entries() {
        match (values.get(&key), default) {
            (Some(Value::Nil), _) if nulls == Nulls::Remove => {
                values.remove(&key);
            }
            (Some(Value::Map(given)), Value::Map(default)) => {
                let is_child = node.dependencies.iter().any(|child| child.metadata.name.as_bytes() == &*key);
                let nulls = if is_child { Nulls::Keep } else { nulls };
                if removes_defaults(node, nulls) {
                    remove_nulls(&default);
                }
                coalesce_tables(&given, &default, nulls);
            }
            (Some(_), _) => {}
            (None, default) => {
                if removes_defaults(node, nulls) {
                    match &default {
                        Value::Nil => continue,
                        Value::Map(table) => remove_nulls(table),
                        _ => {}
                    }
                }
                values.insert(key, default);
            }
        }
    }
}

/// Lays `over` under what `table` has; both may change, and may share maps afterwards.
pub(crate) fn coalesce_tables(table: &Map, over: &Map, nulls: Nulls) {
    let not_null: BTreeSet<Str> =
        over.borrow().iter().filter(|(_, value)| !value.is_nil()).map(|(key, _)| key.clone()).collect();
    let nulled: Vec<Str> =
        table.borrow().iter().filter(|(_, value)| value.is_nil()).map(|(key, _)| key.clone()).collect();
    for key in nulled {
        over.insert(key, Value::Nil);
    }
    for (key, value) in over.entries() {
        match (table.get(&key), value) {
            (Some(Value::Nil), _) if nulls == Nulls::Remove && not_null.contains(&key) => {
                table.remove(&key);
            }
            (None, value) => table.insert(key, value),
            (Some(Value::Map(inner)), Value::Map(value)) => coalesce_tables(&inner, &value, nulls),
            (Some(_), _) => {}
        }
    }
}

fn remove_nulls(table: &Map) {
    for (key, value) in table.entries() {
        match value {
            Value::Nil => {
                table.remove(&key);
            }
            Value::Map(inner) => remove_nulls(&inner),
            _ => {}
        }
    }
}

/// The table at a path; `None` when a part of it is no table.
pub(crate) fn table<'p>(values: &Map, path: impl IntoIterator<Item = &'p str>) -> Option<Map> {
    let mut table = values.clone();
    for part in path {
        match table.get(part.as_bytes()) {
            Some(Value::Map(inner)) => table = inner,
            _ => return None,
        }
    }
    Some(table)
}

/// The value at a path, unless it is a table.
pub(crate) fn path_value(values: &Map, path: &str) -> Option<Value> {
    let (folder, name) = match path.rsplit_once('.') {
        Some((folder, name)) => (table(values, folder.split('.'))?, name),
        None => (values.clone(), path),
    };
    folder.get(name.as_bytes()).filter(|value| !matches!(value, Value::Map(_)))
}
