//! An applied object merged into the live one.

use serde_json::Value;

use super::{Errors, Shape, deduce, invalid_atom, item_element, resolve};
use crate::path::PathElement;
use crate::schema::{Arena, List, Map, Schema, TypeId};

/// Merges `applied` into `object`, both valid by the schema: scalars, atomic lists and atomic maps of
/// `applied` replace, the rest is united.
///
/// # Errors
/// Items of an associative list of `applied` have no key or the same.
pub(crate) fn merge(schema: &Schema, object: &mut Value, applied: &Value) -> Result<(), Errors> {
    let mut errors = Errors::default();
    value(schema.arena(), schema.root(), object, applied, &mut errors);
    errors.ok()
}

fn value(arena: &Arena, id: TypeId, left: &mut Value, right: &Value, errors: &mut Errors) {
    let atom = match resolve(arena, id) {
        Ok(atom) => atom,
        Err(problem) => return errors.add(problem),
    };
    match (deduce(atom, Some(right)).shape(atom), left, right) {
        (Shape::Map(map), Value::Object(left), Value::Object(right)) if !map.atomic => {
            members(arena, map, left, right, errors);
        }
        // Null and the empty map leave what is there.
        (Shape::Map(map), Value::Object(left), _) if !map.atomic && !left.is_empty() => {}
        (Shape::List(list), Value::Array(left), Value::Array(right)) if !list.atomic => {
            items(arena, list, left, right, errors);
        }
        (Shape::List(list), Value::Array(left), _) if !list.atomic && !left.is_empty() => {}
        (Shape::Nothing, _, _) => errors.add(invalid_atom(atom)),
        (_, left, right) => right.clone_into(left),
    }
}

fn members(
    arena: &Arena,
    map: &Map,
    left: &mut serde_json::Map<String, Value>,
    right: &serde_json::Map<String, Value>,
    errors: &mut Errors,
) {
    for (name, member) in right {
        match left.get_mut(name) {
            Some(existing) => {
                let mut below = Errors::default();
                value(arena, map.type_of(name), existing, member, &mut below);
                if !below.is_empty() {
                    errors.take(below, &PathElement::Field(name.into()));
                }
            }
            None => {
                left.insert(name.clone(), member.clone());
            }
        }
    }
}

/// Where an item of the merged list comes from.
#[derive(Clone, Copy)]
enum Source {
    Left(usize),
    Right(usize),
    Both(usize, usize),
}

fn items(arena: &Arena, list: &List, left: &mut Vec<Value>, right: &[Value], errors: &mut Errors) {
    if right.is_empty() {
        return;
    }
    let order = match order(arena, list, left, right) {
        Ok(order) => order,
        Err(problems) => return errors.join(problems),
    };
    let mut merged = Vec::with_capacity(order.len());
    let mut take = |at: usize| left.get_mut(at).map(Value::take).unwrap_or_default();
    for source in order {
        match source {
            Source::Left(at) => merged.push(take(at)),
            Source::Right(at) => merged.extend(right.get(at).cloned()),
            Source::Both(at, of) => {
                let mut item = take(at);
                if let Some(right) = right.get(of) {
                    // Kubernetes drops the errors of items here; valid lists have none.
                    value(arena, list.element, &mut item, right, &mut Errors::default());
                }
                merged.push(item);
            }
        }
    }
    *left = merged;
}

/// The items on either side that have an item of the same name on the other.
struct Matches {
    /// For every item on the left its equal on the right.
    of_left: Vec<Option<usize>>,
    /// For every item on the right: is it on the left, and where if it is there once.
    of_right: Vec<Option<Option<usize>>>,
}

fn names<'a>(
    arena: &'a Arena,
    list: &'a List,
    items: &'a [Value],
    problems: &mut Errors,
) -> Vec<(PathElement<'a>, usize)> {
    let mut names = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        match item_element(arena, list, item) {
            Ok(element) => names.push((element, at)),
            Err(problem) => problems.add(format!("element {at}: {problem}")),
        }
    }
    names.sort_by(|(a, _), (b, _)| a.cmp(b));
    names
}

fn matches(arena: &Arena, list: &List, left: &[Value], right: &[Value]) -> Result<Matches, Errors> {
    let mut problems = Errors::default();
    let rights = names(arena, list, right, &mut problems);
    for pair in rights.windows(2) {
        if let [(a, _), (b, _)] = pair
            && a == b
        {
            problems.add(format!("duplicate entries for key {b}"));
        }
    }
    let lefts = names(arena, list, left, &mut problems);
    problems.ok()?;
    let mut matches = Matches { of_left: vec![None; left.len()], of_right: vec![None; right.len()] };
    let mut rest = rights.iter().peekable();
    for (element, at) in &lefts {
        while rest.next_if(|(candidate, _)| candidate < element).is_some() {}
        let Some((_, of)) = rest.peek().filter(|(candidate, _)| candidate == element) else { continue };
        if let Some(slot) = matches.of_left.get_mut(*at) {
            *slot = Some(*of);
        }
        if let Some(slot) = matches.of_right.get_mut(*of) {
            // An item that is there several times is not merged with.
            *slot = Some(if slot.is_none() { Some(*at) } else { None });
        }
    }
    Ok(matches)
}

/// The order of the merged list: that of the right where items are shared, items of the left alone
/// staying before the shared item that they stood before.
fn order(arena: &Arena, list: &List, left: &[Value], right: &[Value]) -> Result<Vec<Source>, Errors> {
    let Matches { of_left, of_right } = matches(arena, list, left, right)?;
    let mut shared = (0..right.len()).filter(|at| of_right.get(*at).is_some_and(Option::is_some));
    let mut next_shared = shared.next();
    let mut merged = vec![false; right.len()];
    let mut order = Vec::with_capacity(left.len().max(right.len()));
    let from_right = |at: usize| match of_right.get(at).copied().flatten().flatten() {
        Some(left) => Source::Both(left, at),
        None => Source::Right(at),
    };
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        let here = of_left.get(l).copied().flatten();
        if l < left.len() && r < right.len() {
            if here == Some(r) {
                order.push(from_right(r));
                mark(&mut merged, r);
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            // Shared, but not the item that is due.
            if here.is_some() && next_shared.is_some() && next_shared != here {
                l += 1;
                continue;
            }
        }
        if l < left.len() {
            match here {
                None => {
                    order.push(Source::Left(l));
                    l += 1;
                    continue;
                }
                Some(at) if merged.get(at) == Some(&true) => l += 1,
                Some(_) => {}
            }
        }
        if r < right.len() {
            order.push(from_right(r));
            mark(&mut merged, r);
            if next_shared == Some(r) {
                next_shared = shared.next();
            }
            r += 1;
        }
    }
    Ok(order)
}

fn mark(merged: &mut [bool], at: usize) {
    if let Some(slot) = merged.get_mut(at) {
        *slot = true;
    }
}
