//! What differs between two objects of one schema.

use std::borrow::Cow;

use serde_json::Value;

use super::validate::scalar_problem;
use super::{Deduced, Errors, Shape, as_list, as_map, deduce, invalid_atom, item_element, resolve};
use crate::path::PathElement;
use crate::schema::{Arena, Atom, List, Map, Scalar, Schema, TypeId};
use crate::set::Set;
use crate::value;

/// The fields in which two objects differ.
#[derive(Debug, Default)]
pub(crate) struct Comparison<'a> {
    pub(crate) removed: Set<'a>,
    pub(crate) modified: Set<'a>,
    pub(crate) added: Set<'a>,
}

/// Compares two objects.
///
/// # Errors
/// Items of an associative list that have no key.
pub(crate) fn compare<'a>(
    schema: &'a Schema,
    left: &'a Value,
    right: &'a Value,
) -> Result<Comparison<'a>, Errors> {
    let mut walk = Walk { arena: schema.arena(), errors: Errors::default() };
    let delta = walk.value(Some(left), Some(right), schema.root());
    walk.errors.ok()?;
    Ok(delta.below)
}

/// The difference at one place: of the place itself, and below it.
#[derive(Default)]
struct Delta<'a> {
    removed: bool,
    modified: bool,
    added: bool,
    below: Comparison<'a>,
}

impl<'a> Delta<'a> {
    fn add_to(self, comparison: &mut Comparison<'a>, element: PathElement<'a>) {
        let Delta { removed, modified, added, below } = self;
        if added || !below.added.is_empty() {
            comparison.added.push(element.clone(), added, below.added);
        }
        if modified || !below.modified.is_empty() {
            comparison.modified.push(element.clone(), modified, below.modified);
        }
        if removed || !below.removed.is_empty() {
            comparison.removed.push(element, removed, below.removed);
        }
    }

    fn join(&mut self, other: Delta<'a>) {
        self.removed |= other.removed;
        self.modified |= other.modified;
        self.added |= other.added;
        let mut below = Comparison::default();
        std::mem::swap(&mut below, &mut self.below);
        self.below = Comparison {
            removed: below.removed.union(other.below.removed),
            modified: below.modified.union(other.below.modified),
            added: below.added.union(other.below.added),
        };
    }

    fn leaf(left: Option<&Value>, right: Option<&Value>) -> Self {
        let mut delta = Self::default();
        match (left, right) {
            (None, _) => delta.added = true,
            (_, None) => delta.removed = true,
            (Some(left), Some(right)) => delta.modified = !value::equal(left, right),
        }
        delta
    }
}

struct Walk<'a> {
    arena: &'a Arena,
    errors: Errors,
}

impl<'a> Walk<'a> {
    /// At least one side is there.
    fn value(&mut self, left: Option<&'a Value>, right: Option<&'a Value>, id: TypeId) -> Delta<'a> {
        let atom = match resolve(self.arena, id) {
            Ok(atom) => atom,
            Err(problem) => {
                self.errors.add(problem);
                return Delta::default();
            }
        };
        let (of_left, of_right) = (deduce(atom, left), deduce(atom, right));
        let (mut delta, leaf) = if right.is_none() {
            self.shape(atom, of_left, left, right)
        } else if left.is_none() || of_left.same(of_right, atom) {
            self.shape(atom, of_right, left, right)
        } else {
            let (mut both, _) = self.shape(atom, of_left, left, right);
            let (delta, leaf) = self.shape(atom, of_right, left, right);
            both.join(delta);
            (both, leaf)
        };
        if !leaf {
            delta.added |= left.is_none();
            delta.removed |= left.is_some() && right.is_none();
        }
        delta
    }

    /// The difference, and whether the place is a leaf.
    fn shape(
        &mut self,
        atom: &'a Atom,
        deduced: Deduced,
        left: Option<&'a Value>,
        right: Option<&'a Value>,
    ) -> (Delta<'a>, bool) {
        match deduced.shape(atom) {
            Shape::Map(map) => {
                let empty = |side| as_map(side).is_none_or(|members| members.is_empty());
                if map.atomic || (empty(left) && empty(right)) {
                    return (Delta::leaf(left, right), true);
                }
                (self.map(map, left, right), false)
            }
            Shape::Scalar(scalar) => self.scalar(scalar, left, right),
            Shape::List(list) => {
                let empty = |side| as_list(side).is_none_or(|items| items.is_empty());
                if list.atomic || (empty(left) && empty(right)) {
                    return (Delta::leaf(left, right), true);
                }
                (self.list(list, left, right), false)
            }
            Shape::Nothing => {
                self.errors.add(invalid_atom(atom));
                (Delta::default(), false)
            }
        }
    }

    fn scalar(
        &mut self,
        scalar: Scalar,
        left: Option<&'a Value>,
        right: Option<&'a Value>,
    ) -> (Delta<'a>, bool) {
        let problem = |side: Option<&Value>| side.and_then(|value| scalar_problem(scalar, value));
        if let (Some(left), Some(right)) = (problem(left), problem(right)) {
            self.errors.add(format!("lhs: {left}"));
            self.errors.add(format!("rhs: {right}"));
            return (Delta::default(), false);
        }
        (Delta::leaf(left, right), true)
    }

    fn below(
        &mut self,
        comparison: &mut Comparison<'a>,
        element: PathElement<'a>,
        (left, right): (Option<&'a Value>, Option<&'a Value>),
        id: TypeId,
    ) {
        let above = std::mem::take(&mut self.errors);
        let delta = self.value(left, right, id);
        let below = std::mem::replace(&mut self.errors, above);
        self.errors.take(below, &element);
        delta.add_to(comparison, element);
    }

    fn map(&mut self, map: &'a Map, left: Option<&'a Value>, right: Option<&'a Value>) -> Delta<'a> {
        let mut delta = Delta::default();
        let mut lefts = as_map(left).into_iter().flatten().peekable();
        let mut rights = as_map(right).into_iter().flatten().peekable();
        loop {
            // Both sides come sorted by name.
            let name = match (lefts.peek(), rights.peek()) {
                (None, None) => return delta,
                (Some((name, _)), None) | (None, Some((name, _))) => *name,
                (Some((left, _)), Some((right, _))) => left.min(right),
            };
            let left = lefts.next_if(|(candidate, _)| *candidate == name).map(|(_, value)| value);
            let right = rights.next_if(|(candidate, _)| *candidate == name).map(|(_, value)| value);
            self.below(
                &mut delta.below,
                PathElement::Field(Cow::Borrowed(name)),
                (left, right),
                map.type_of(name),
            );
        }
    }

    fn list(&mut self, list: &'a List, left: Option<&'a Value>, right: Option<&'a Value>) -> Delta<'a> {
        let mut delta = Delta::default();
        let lefts = self.named(list, left);
        let rights = self.named(list, right);
        let (mut lefts, mut rights) = (lefts.as_slice(), rights.as_slice());
        loop {
            let element = match (lefts.first(), rights.first()) {
                (None, None) => return delta,
                (Some((element, _)), None) | (None, Some((element, _))) => element.clone(),
                (Some((left, _)), Some((right, _))) => left.min(right).clone(),
            };
            let of_left = split_same(&mut lefts, &element);
            let of_right = split_same(&mut rights, &element);
            self.same_name(list, element, of_left, of_right, &mut delta.below);
        }
    }

    /// The items of a list by name, sorted, those of the same name in their order.
    fn named(&mut self, list: &'a List, value: Option<&'a Value>) -> Vec<(PathElement<'a>, &'a Value)> {
        let items = as_list(value).map(Vec::as_slice).unwrap_or_default();
        let mut named = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            match item_element(self.arena, list, item) {
                Ok(element) => named.push((element, item)),
                Err(problem) => self.errors.add(format!("element {at}: {problem}")),
            }
        }
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        named
    }

    /// Items of the same name count as one leaf while there are several of them.
    fn same_name(
        &mut self,
        list: &'a List,
        element: PathElement<'a>,
        left: &[(PathElement<'a>, &'a Value)],
        right: &[(PathElement<'a>, &'a Value)],
        comparison: &mut Comparison<'a>,
    ) {
        let mut marker = Delta::default();
        let compared = match (left, right) {
            ([], []) => return,
            ([] | [_], [] | [_]) => {
                Some((left.first().map(|(_, item)| *item), right.first().map(|(_, item)| *item)))
            }
            ([_, _, ..], [_, _, ..]) => {
                let equal = left.len() == right.len()
                    && left.iter().zip(right).all(|((_, left), (_, right))| value::equal(left, right));
                marker.modified = !equal;
                None
            }
            ([_, _, ..], right) => {
                marker.removed = true;
                right.first().map(|(_, item)| (None, Some(*item)))
            }
            (left, [_, _, ..]) => {
                marker.added = true;
                left.first().map(|(_, item)| (Some(*item), None))
            }
        };
        let mut both = Comparison::default();
        if let Some(sides) = compared {
            self.below(&mut both, element.clone(), sides, list.element);
        }
        let mut marked = Comparison::default();
        marker.add_to(&mut marked, element);
        for (into, both, marked) in [
            (&mut comparison.removed, both.removed, marked.removed),
            (&mut comparison.modified, both.modified, marked.modified),
            (&mut comparison.added, both.added, marked.added),
        ] {
            for node in both.union(marked).into_nodes() {
                into.push(node.element, node.member, node.children);
            }
        }
    }
}

fn split_same<'s, 'a>(
    items: &mut &'s [(PathElement<'a>, &'a Value)],
    element: &PathElement<'a>,
) -> &'s [(PathElement<'a>, &'a Value)] {
    let same = items.iter().take_while(|(candidate, _)| candidate == element).count();
    let (head, tail) = items.split_at(same);
    *items = tail;
    head
}
