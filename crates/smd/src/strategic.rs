//! Strategic merge patch: a merge patch that knows from the schema how lists merge.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::schema::{Arena, Field, PatchMeta, Schema, TypeId};
use crate::{MAX_DEPTH, value};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// Why a strategic merge patch cannot be applied. The texts are those of kube-apiserver.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StrategicPatchError {
    /// A directive has not the form that it should have: 400.
    #[error("invalid patch format of {0}")]
    Format(&'static str),
    /// A list to merge holds lists: 422.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The patch does not fit the schema or the object: 500, as kube-apiserver answers it.
    #[error("{0}")]
    Failed(String),
}

type Result<T> = std::result::Result<T, StrategicPatchError>;

/// Applies a strategic merge patch to an object.
///
/// The schema says for every list whether it merges and by which key
/// (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`). Understood are the directives
/// `$patch: delete | replace`, `$retainKeys`, `$setElementOrder/…` and `$deleteFromPrimitiveList/…`.
/// On an error the object may be changed in part: throw it away.
///
/// # Errors
/// [`StrategicPatchError`], by the first problem.
pub fn strategic_merge_patch(schema: &Schema, object: &mut Value, patch: Value) -> Result<()> {
    let walk = Walk { arena: schema.arena() };
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => walk.map(object, patch, schema.root(), 0),
        (object, patch) => {
            let wrong = if object.is_object() { &patch } else { object };
            Err(bad_type("map[string]interface {}", wrong))
        }
    }
}

fn failed(text: impl Into<String>) -> StrategicPatchError {
    StrategicPatchError::Failed(text.into())
}

fn bad_type(expected: &str, value: &Value) -> StrategicPatchError {
    let received = match value {
        Value::Null => "%!s(<nil>)",
        other => value::type_name(other),
    };
    failed(format!("expected a {expected}, but received a {received}"))
}

fn no_merge_key(item: &Map<String, Value>, key: &str) -> StrategicPatchError {
    let item = value::plain(&Value::Object(item.clone()));
    failed(format!("map: {item} does not contain declared merge key: {key}"))
}

fn bad_directive(directive: &Value, map: &Map<String, Value>) -> StrategicPatchError {
    let map = value::plain(&Value::Object(map.clone()));
    failed(format!("unknown patch type: {} in map: {map}", value::plain(directive)))
}

/// How a list is merged.
struct ListRule<'s> {
    element: TypeId,
    merge: bool,
    /// The field that tells items apart; none for lists of scalars.
    key: Option<&'s str>,
}

struct Walk<'s> {
    arena: &'s Arena,
}

impl<'s> Walk<'s> {
    fn field(&self, id: TypeId, name: &str) -> Result<&'s Field> {
        let atom = self.arena.atom(id);
        let fields = atom.map.as_deref().filter(|map| map.has_fields()).ok_or_else(|| {
            let kind = if atom.map.is_some() { "map" } else { "string" };
            failed(format!("merging an object in json but data type is not struct, instead is: {kind}"))
        })?;
        fields.field(name).or_else(|| fields.field_ignoring_case(name)).ok_or_else(|| {
            let of = atom.name.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default();
            failed(format!(
                "unable to find api field in struct {of} for the json field {}",
                value::quote(name)
            ))
        })
    }

    fn list_rule(&self, id: TypeId, name: &str) -> Result<ListRule<'s>> {
        let field = self.field(id, name)?;
        let list = self.arena.atom(field.id).list.as_deref();
        let list = list.ok_or_else(|| failed("expected slice or array type, but got: struct"))?;
        let meta = field.patch.as_deref();
        Ok(ListRule {
            element: list.element,
            merge: meta.is_some_and(|meta| meta.merge),
            key: meta.and_then(|meta| meta.merge_key.as_deref()),
        })
    }

    fn map(
        &self,
        original: &mut Map<String, Value>,
        mut patch: Map<String, Value>,
        id: TypeId,
        depth: usize,
    ) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(failed(format!("the patch is nested deeper than {MAX_DEPTH} levels")));
        }
        if let Some(directive) = patch.get(PATCH) {
            match directive.as_str() {
                Some("replace") => {
                    patch.remove(PATCH);
                    *original = patch;
                }
                Some("delete") => original.clear(),
                _ => return Err(bad_directive(directive, &patch)),
            }
            return Ok(());
        }
        retain_keys(original, &mut patch)?;
        self.ordered_lists(original, &mut patch, id, depth)?;
        for (key, value) in patch {
            let (key, delete) = match key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
                None => (key, false),
                Some(rest) => match rest.strip_prefix('/') {
                    Some(name) => (name.to_owned(), true),
                    None => return Err(StrategicPatchError::Format("primitive list")),
                },
            };
            if value.is_null() {
                original.remove(&key);
                continue;
            }
            self.member(original, key, value, delete, id, depth)?;
        }
        Ok(())
    }

    fn member(
        &self,
        original: &mut Map<String, Value>,
        key: String,
        value: Value,
        delete: bool,
        id: TypeId,
        depth: usize,
    ) -> Result<()> {
        match (original.get_mut(&key), value) {
            (Some(Value::Object(current)), Value::Object(patch)) => {
                let field = self.field(id, &key)?;
                if field.patch.as_deref().is_some_and(PatchMeta::replaces) {
                    *current = patch;
                    return Ok(());
                }
                self.map(current, patch, field.id, depth + 1)
            }
            (Some(Value::Array(current)), Value::Array(patch)) => {
                let rule = self.list_rule(id, &key)?;
                *current = self.list(std::mem::take(current), patch, &rule, delete, depth)?;
                Ok(())
            }
            (current, mut value) => {
                if delete {
                    return Ok(());
                }
                let same_kind = current
                    .as_deref()
                    .is_some_and(|current| value::type_name(current) == value::type_name(&value));
                if !same_kind {
                    discard_nulls(&mut value, depth)?;
                }
                match without_directives(value, depth)? {
                    Some(value) => original.insert(key, value),
                    None => original.remove(&key),
                };
                Ok(())
            }
        }
    }

    /// Lists that come with the order of their items.
    fn ordered_lists(
        &self,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
        id: TypeId,
        depth: usize,
    ) -> Result<()> {
        let keys: Vec<String> =
            patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
        for key in keys {
            let Some(order) = patch.remove(&key) else { continue };
            let Value::Array(order) = order else { return Err(bad_type("[]interface {}", &order)) };
            let name = key
                .strip_prefix(SET_ELEMENT_ORDER)
                .and_then(|rest| rest.strip_prefix('/'))
                .ok_or(StrategicPatchError::Format("setElementOrder list"))?;
            let current = taken_list(original.get(name))?;
            let change = taken_list(patch.get(name))?;
            let rule = self.list_rule(id, name)?;
            check_order(change, &order, rule.key)?;
            let live: Vec<Value> = current.cloned().unwrap_or_default();
            let live_order = match (change, rule.key.filter(|_| rule.merge)) {
                (Some(change), Some(key)) => live_order(&live, change, key),
                _ => live.clone(),
            };
            let merged = match (current.is_some(), change.cloned()) {
                (false, None) => continue,
                (true, None) => live,
                (false, Some(change)) => match without_directives(Value::Array(change), depth)? {
                    Some(Value::Array(list)) => list,
                    _ => continue,
                },
                (true, Some(change)) => self.list(live, change, &rule, false, depth)?,
            };
            let (patched, server_only) = partition(merged, &order, rule.key)?;
            let maps = element_kind(current.into_iter().chain(change))? == "map[string]interface {}";
            let both = in_order(patched, server_only, &order, &live_order, rule.key, maps)?;
            original.insert(name.to_owned(), Value::Array(both));
            patch.remove(name);
        }
        Ok(())
    }

    fn list(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        rule: &ListRule<'_>,
        delete: bool,
        depth: usize,
    ) -> Result<Vec<Value>> {
        if !rule.merge && !delete {
            return Ok(patch);
        }
        if original.is_empty() && patch.is_empty() {
            return Ok(original);
        }
        let maps = element_kind([&original, &patch])? == "map[string]interface {}";
        if !maps {
            if delete {
                let kept = original.into_iter().filter(|item| !patch.contains(item));
                return Ok(kept.collect());
            }
            let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
            for item in original.iter().chain(&patch) {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            let (patched, server_only) = partition(merged, &patch, rule.key)?;
            return in_order(patched, server_only, &patch, &original, rule.key, maps);
        }
        let key = rule.key.ok_or_else(|| failed("cannot merge lists without merge key for struct"))?;
        let (original, patch) = special_items(original, patch, key)?;
        let mut merged = original.clone();
        for item in &patch {
            let Value::Object(change) = item else { continue };
            let name = change.get(key).ok_or_else(|| no_merge_key(change, key))?;
            match find(&merged, key, name)? {
                Some(at) => {
                    if let Some(Value::Object(current)) = merged.get_mut(at) {
                        self.map(current, change.clone(), rule.element, depth + 1)?;
                    }
                }
                None => merged.push(item.clone()),
            }
        }
        let (patched, server_only) = partition(merged, &patch, Some(key))?;
        in_order(patched, server_only, &patch, &original, Some(key), maps)
    }
}

/// `$retainKeys`: the only members of the map that stay.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || StrategicPatchError::Format("retainKeys");
    let keys = keys.as_array().ok_or_else(bad)?;
    let retained = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    for (name, value) in &*patch {
        let directive = name.starts_with(DELETE_FROM_PRIMITIVE_LIST) || name.starts_with(SET_ELEMENT_ORDER);
        if !value.is_null() && !directive && !retained(name) {
            return Err(bad());
        }
    }
    original.retain(|name, _| retained(name));
    Ok(())
}

fn taken_list(value: Option<&Value>) -> Result<Option<&Vec<Value>>> {
    match value {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(bad_type("[]interface {}", other)),
    }
}

fn is_deletion(item: &Value) -> bool {
    item.get(PATCH).and_then(Value::as_str) == Some("delete")
}

/// Items of the patch must stand in the order that the patch gives. Directives may stand anywhere but,
/// other than deletions, not after the last item that the order names.
fn check_order(change: Option<&Vec<Value>>, order: &[Value], key: Option<&str>) -> Result<()> {
    let Some(change) = change.filter(|change| !change.is_empty() && !order.is_empty()) else {
        return Ok(());
    };
    if key.is_some()
        && let Some(other) = change.iter().find(|item| !item.is_object())
    {
        return Err(bad_type("map[string]interface {}", other));
    }
    let mut items = change.iter().filter(|item| key.is_none() || !is_deletion(item)).peekable();
    let mut order_rest = order.iter().peekable();
    while let (Some(item), Some(candidate)) = (items.peek(), order_rest.peek()) {
        if item.get(PATCH).is_some() {
            items.next();
            continue;
        }
        if same_item(item, candidate, key)? {
            items.next();
        }
        order_rest.next();
    }
    if items.peek().is_none() {
        return Ok(());
    }
    Err(failed(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
        value::plain(&Value::Array(change.clone())),
        value::plain(&Value::Array(order.to_vec()))
    )))
}

fn merge_key<'v>(item: &'v Value, key: &str) -> Result<&'v Value> {
    match item {
        Value::Object(map) => map.get(key).ok_or_else(|| no_merge_key(map, key)),
        other => Err(bad_type("map[string]interface {}", other)),
    }
}

fn same_item(item: &Value, candidate: &Value, key: Option<&str>) -> Result<bool> {
    let Some(key) = key else { return Ok(item == candidate) };
    Ok(merge_key(item, key)? == merge_key(candidate, key)?)
}

/// The one kind of all items, in Go's words.
fn element_kind<'v>(lists: impl IntoIterator<Item = &'v Vec<Value>>) -> Result<&'static str> {
    let lists: Vec<_> = lists.into_iter().collect();
    let mut kind = None;
    for item in lists.iter().copied().flatten() {
        let this = value::type_name(item);
        match kind {
            None if item.is_array() => return Err(StrategicPatchError::ListOfLists),
            None if item.is_null() => return Err(failed("a list to merge has a null element")),
            None => kind = Some(this),
            Some(kind) if kind != this => {
                let lists: Vec<_> =
                    lists.iter().map(|list| value::plain(&Value::Array((*list).clone()))).collect();
                return Err(failed(format!("list element types are not identical: [{}]", lists.join(" "))));
            }
            Some(_) => {}
        }
    }
    kind.ok_or_else(|| failed("no elements in any of the given slices"))
}

fn find(list: &[Value], key: &str, name: &Value) -> Result<Option<usize>> {
    for (at, item) in list.iter().enumerate() {
        let Value::Object(item) = item else {
            return Err(failed(format!("value for key {at} is not a map")));
        };
        if item.get(key) == Some(name) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Carries out the `$patch` items of a list; answers the list and the patch without them.
fn special_items(mut original: Vec<Value>, patch: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut replace = false;
    let mut plain = Vec::with_capacity(patch.len());
    for item in patch {
        let Some(directive) = item.get(PATCH) else {
            plain.push(item);
            continue;
        };
        let Value::Object(map) = &item else { continue };
        match directive.as_str() {
            Some("delete") => {
                let name = map.get(key).ok_or_else(|| no_merge_key(map, key))?;
                while let Some(at) = find(&original, key, name)? {
                    original.remove(at);
                }
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(failed("merging lists cannot yet be specified in the patch")),
            _ => return Err(bad_directive(directive, map)),
        }
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

/// Divides a list into the items that the other list names and the rest.
fn partition(merged: Vec<Value>, by: &[Value], key: Option<&str>) -> Result<(Vec<Value>, Vec<Value>)> {
    let (mut named, mut rest) = (Vec::new(), Vec::new());
    for item in merged {
        let found = match key {
            None => by.contains(&item),
            Some(key) => find(by, key, merge_key(&item, key)?)?.is_some(),
        };
        if found { named.push(item) } else { rest.push(item) }
    }
    Ok((named, rest))
}

/// The order of the live list after the merge: Kubernetes lets added items take the places that deleted
/// ones leave at its end.
fn live_order(live: &[Value], change: &[Value], key: &str) -> Vec<Value> {
    let same = |a: &Value, b: &Value| a.get(key).is_some() && a.get(key) == b.get(key);
    let deleted = |item: &&Value| change.iter().any(|other| is_deletion(other) && same(item, other));
    let mut order: Vec<Value> = live.iter().filter(|item| !deleted(item)).cloned().collect();
    if !change.iter().any(|item| item.get(PATCH).and_then(Value::as_str) == Some("replace")) {
        for item in change.iter().filter(|item| item.get(PATCH).is_none()) {
            if !order.iter().any(|other| same(item, other)) {
                order.push(item.clone());
            }
        }
    }
    order.truncate(live.len());
    order
}

/// The patched items in the order of the patch with the rest in its live order, interleaved as they
/// stand in the live list.
fn in_order(
    patched: Vec<Value>,
    server_only: Vec<Value>,
    patch_order: &[Value],
    live_order: &[Value],
    key: Option<&str>,
    maps: bool,
) -> Result<Vec<Value>> {
    let name = |item: &Value| -> Cow<'_, Value> {
        match key.filter(|_| maps) {
            None => Cow::Owned(item.clone()),
            Some(key) => Cow::Owned(item.get(key).cloned().unwrap_or_default()),
        }
    };
    let place = |order: &[Value], item: &Value| {
        let wanted = name(item);
        order.iter().position(|candidate| name(candidate) == wanted)
    };
    let sorted = |list: Vec<Value>, order: &[Value]| -> Result<Vec<Value>> {
        if let Some(key) = key.filter(|_| maps) {
            for item in list.iter().chain(order) {
                merge_key(item, key)?;
            }
        }
        let (deletions, mut list): (Vec<_>, Vec<_>) =
            list.into_iter().partition(|item| maps && is_deletion(item));
        list.sort_by_cached_key(|item| place(order, item));
        list.extend(deletions);
        Ok(list)
    };
    let patched = sorted(patched, patch_order)?;
    let server_only = sorted(server_only, live_order)?;
    let mut out = Vec::with_capacity(patched.len() + server_only.len());
    let mut patched = patched.into_iter().peekable();
    for item in server_only {
        let at = place(live_order, &item);
        while let Some(next) = patched.peek() {
            match (at, place(live_order, next)) {
                (Some(item), Some(next)) if item < next => break,
                _ => out.extend(patched.next()),
            }
        }
        out.push(item);
    }
    out.extend(patched);
    Ok(out)
}

fn discard_nulls(value: &mut Value, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(failed(format!("the patch is nested deeper than {MAX_DEPTH} levels")));
    }
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().try_for_each(|member| discard_nulls(member, depth + 1))
        }
        Value::Array(list) => list.iter_mut().try_for_each(|item| discard_nulls(item, depth + 1)),
        _ => Ok(()),
    }
}

/// A new value without the parts that are directives; `None` when it is one itself.
fn without_directives(value: Value, depth: usize) -> Result<Option<Value>> {
    if depth > MAX_DEPTH {
        return Err(failed(format!("the patch is nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(Some(match value {
        Value::Object(map) => {
            if map.contains_key(PATCH) {
                return Ok(None);
            }
            let mut kept = Map::new();
            for (key, member) in map {
                if let Some(member) = without_directives(member, depth + 1)? {
                    kept.insert(key, member);
                }
            }
            Value::Object(kept)
        }
        Value::Array(list) => {
            let mut kept = Vec::with_capacity(list.len());
            for item in list {
                kept.extend(without_directives(item, depth + 1)?);
            }
            Value::Array(kept)
        }
        scalar => scalar,
    }))
}
