//! Functions on dictionaries. `set`, `unset`, `merge` and `mergeOverwrite` change theirs in place.

use std::collections::BTreeMap;

use convoy_gotemplate::{Call, FuncError, Limit, List, MAX_NESTING, Map, Str, Value};

use super::arguments::{COPY, ENTRY, ITEM, MAP, Outcome, any, list, map, text};
use super::lists::names;
use super::text::strval;

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

/// Puts a value into a map that templates share.
///
/// # Errors
/// Go's panic for a nil map.
pub(super) fn insert(call: &mut Call<'_, '_>, map: &Map, key: Str, value: Value) -> Result<(), FuncError> {
    if map.is_nil() {
        return Err(FuncError::new("assignment to entry in nil map"));
    }
    call.charge(key.len() + ENTRY)?;
    if matches!(value, Value::Map(_) | Value::List(_)) {
        call.mutated(map);
    }
    map.insert(key, value);
    Ok(())
}

pub(super) fn dict(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    call.charge(MAP + args.len() / 2 * ENTRY)?;
    let mut entries = BTreeMap::new();
    for pair in args.chunks(2) {
        let key = strval(call, &any(pair, 0))?;
        entries.insert(key, pair.get(1).cloned().unwrap_or_else(|| Value::from("")));
    }
    Ok(Value::Map(Map::new(entries)))
}

pub(super) fn get(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(map(args, 0).get(&text(args, 1)).unwrap_or_else(|| Value::from("")))
}

pub(super) fn set(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let target = map(args, 0);
    insert(call, &target, text(args, 1), any(args, 2))?;
    Ok(Value::Map(target))
}

pub(super) fn unset(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let target = map(args, 0);
    target.remove(&text(args, 1));
    Ok(Value::Map(target))
}

pub(super) fn has_key(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    Ok(Value::Bool(map(args, 0).contains_key(&text(args, 1))))
}

pub(super) fn pluck(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let key = text(args, 0);
    list((1..args.len()).filter_map(|index| map(args, index).get(&key)).collect())
}

// Go gives keys and values in random order; sorted is one of these orders.
pub(super) fn keys(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    for index in 0..args.len() {
        call.charge(map(args, index).len() * COPY)?;
    }
    Ok(Value::List(List::strings((0..args.len()).flat_map(|index| map(args, index).keys()))))
}

pub(super) fn values(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    call.charge(map(args, 0).len() * COPY)?;
    list(map(args, 0).entries().into_iter().map(|(_, value)| value).collect())
}

pub(super) fn pick(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    call.charge(MAP + args.len() * ENTRY)?;
    let source = map(args, 0);
    let picked =
        names(args, 1).into_iter().filter_map(|key| source.get(&key).map(|value| (key, value))).collect();
    Ok(Value::Map(Map::new(picked)))
}

pub(super) fn omit(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let omitted = names(args, 1);
    call.charge(MAP + map(args, 0).len() * ENTRY)?;
    call.steps(map(args, 0).len().saturating_mul(omitted.len()) as u64 / 4)?;
    let kept = map(args, 0).entries().into_iter().filter(|(key, _)| !omitted.contains(key)).collect();
    Ok(Value::Map(Map::new(kept)))
}

pub(super) fn dig(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let [path @ .., default, source] = args else {
        return Err(FuncError::new("dig needs at least three arguments"));
    };
    if path.is_empty() {
        return Err(FuncError::new("dig needs at least three arguments"));
    }
    let keys = path
        .iter()
        .map(|key| match key {
            Value::String(key) => Ok(key.clone()),
            other => Err(conversion(other, "string")),
        })
        .collect::<Result<Vec<_>, _>>();
    let mut at = dictionary(source)?;
    let keys = keys?;
    for (index, key) in keys.iter().enumerate() {
        let Some(found) = at.get(key) else { return Ok(default.clone()) };
        if index + 1 == keys.len() {
            return Ok(found);
        }
        at = dictionary(&found)?;
    }
    Ok(default.clone())
}

fn dictionary(value: &Value) -> Result<Map, FuncError> {
    match value {
        Value::Map(map) if map.name().is_none() && map.elem() == convoy_gotemplate::Elem::Any => {
            Ok(map.clone())
        }
        other => Err(conversion(other, "map[string]interface {}")),
    }
}

// Go's failed type assertion.
fn conversion(value: &Value, wanted: &str) -> FuncError {
    let found = if value.is_nil() { "nil".into() } else { value.type_name() };
    FuncError::new(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
}

pub(super) fn deep_copy(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let value = any(args, 0);
    if value.is_nil() {
        return Err(FuncError::new("reflect: call of reflect.Value.Type on zero Value"));
    }
    copied(call, &value, 0)
}

fn copied(call: &mut Call<'_, '_>, value: &Value, depth: usize) -> Outcome {
    if depth > MAX_NESTING {
        return Err(FuncError::limit(Limit::Nesting));
    }
    Ok(match value {
        Value::List(list) => {
            let items = list.to_vec();
            call.charge(MAP / 4 + items.len() * ITEM)?;
            let items =
                items.iter().map(|item| copied(call, item, depth + 1)).collect::<Result<Vec<_>, _>>()?;
            Value::List(if list.is_nil() { list.clone() } else { List::with_elem(list.elem(), items) })
        }
        Value::Map(map) => {
            let entries = map.entries();
            call.charge(MAP + entries.len() * ENTRY)?;
            let mut copies = BTreeMap::new();
            for (key, item) in entries {
                copies.insert(key, copied(call, &item, depth + 1)?);
            }
            Value::Map(match map.name() {
                _ if map.is_nil() => map.clone(),
                Some(name) => Map::named(name, copies),
                None => Map::with_elem(map.elem(), copies),
            })
        }
        other => other.clone(),
    })
}

pub(super) fn merge(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    merge_all(call, args, false)
}

pub(super) fn merge_overwrite(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    merge_all(call, args, true)
}

fn merge_all(call: &mut Call<'_, '_>, args: &[Value], overwrite: bool) -> Outcome {
    let mut target = map(args, 0);
    for index in 1..args.len() {
        let source = map(args, index);
        if target.is_nil() && !source.is_nil() {
            target = Map::default();
        }
        merge_into(call, &target, &source, overwrite, 0)?;
    }
    Ok(Value::Map(target))
}

// What mergo does to maps in maps. Values that are not merged are shared with the source, so a later
// merge into the target changes the source too, as in Go.
fn merge_into(
    call: &mut Call<'_, '_>,
    target: &Map,
    source: &Map,
    overwrite: bool,
    depth: usize,
) -> Result<(), FuncError> {
    if depth > MAX_NESTING {
        return Err(FuncError::limit(Limit::Nesting));
    }
    // A map merged into itself stays as it is.
    if target.same(source) {
        return Ok(());
    }
    call.steps(1 + source.len() as u64)?;
    // Go keeps one snapshot of "the target was empty" only per slice, and looks again each time.
    for (key, new) in source.entries() {
        let old = target.get(&key);
        if new.is_nil() {
            if overwrite {
                insert(call, target, key, Value::Nil)?;
            }
            continue;
        }
        match (&new, &old) {
            (Value::Map(new_map), Some(Value::Map(old_map))) => {
                merge_into(call, old_map, new_map, overwrite, depth + 1)?;
            }
            (Value::List(_), _) if !source.is_empty() && (overwrite || target.is_empty()) => {
                insert(call, target, key.clone(), new.clone())?;
            }
            (Value::List(new_list), None | Some(Value::Nil)) => {
                insert(call, target, key.clone(), Value::List(List::with_elem(new_list.elem(), Vec::new())))?;
            }
            _ => {}
        }
        if let Some(old) = &old
            && old.truth()
        {
            if matches!(new, Value::List(_)) || matches!((&new, old), (Value::Map(_), Value::Map(_))) {
                continue;
            }
            if overwrite {
                insert(call, target, key, new)?;
            }
            continue;
        }
        insert(call, target, key, new)?;
    }
    Ok(())
}
