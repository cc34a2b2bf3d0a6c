//! Whether a value fits its schema.

use serde_json::Value;

use super::{Errors, Shape, deduce, invalid_atom, item_element, resolve};
use crate::MAX_DEPTH;
use crate::path::PathElement;
use crate::schema::{Arena, List, Map, Scalar, Schema, TypeId};
use crate::value;

/// Checks an object against its schema.
///
/// # Errors
/// Unknown fields, values of another kind than declared, list items without or with the same keys
/// (these may pass), nesting deeper than [`MAX_DEPTH`].
pub(crate) fn validate(schema: &Schema, object: &Value, allow_duplicates: bool) -> Result<(), Errors> {
    let walk = Walk { arena: schema.arena(), allow_duplicates };
    let mut errors = Errors::default();
    walk.value(object, schema.root(), 0, &mut errors);
    errors.ok()
}

struct Walk<'s> {
    arena: &'s Arena,
    allow_duplicates: bool,
}

impl Walk<'_> {
    fn value(&self, value: &Value, id: TypeId, depth: usize, errors: &mut Errors) {
        if depth > MAX_DEPTH {
            return errors.add(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        let atom = match resolve(self.arena, id) {
            Ok(atom) => atom,
            Err(problem) => return errors.add(problem),
        };
        match deduce(atom, Some(value)).shape(atom) {
            Shape::Map(map) => self.map(map, value, depth, errors),
            Shape::Scalar(scalar) => {
                if let Some(problem) = scalar_problem(scalar, value) {
                    errors.add(problem);
                }
            }
            Shape::List(list) => self.list(list, value, depth, errors),
            Shape::Nothing => errors.add(invalid_atom(atom)),
        }
    }

    fn map(&self, map: &Map, value: &Value, depth: usize, errors: &mut Errors) {
        let members = match value {
            Value::Object(members) => members,
            Value::Null => return,
            other => return errors.add(format!("expected map, got &{{{}}}", value::plain(other))),
        };
        for (name, member) in members {
            let id = map.type_of(name);
            let mut below = Errors::default();
            if id.is_none() {
                below.add("field not declared in schema");
                errors.take(below, &PathElement::Field(name.into()));
                // What follows is as good as unchecked: the message about this field is enough.
                return;
            }
            self.value(member, id, depth + 1, &mut below);
            if !below.is_empty() {
                errors.take(below, &PathElement::Field(name.into()));
            }
        }
    }

    fn list(&self, list: &List, value: &Value, depth: usize, errors: &mut Errors) {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => return,
            other => return errors.add(format!("expected list, got &{{{}}}", value::plain(other))),
        };
        if list.atomic {
            for (at, item) in items.iter().enumerate() {
                let mut below = Errors::default();
                self.value(item, list.element, depth + 1, &mut below);
                if !below.is_empty() {
                    errors.take(below, &PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX)));
                }
            }
            return;
        }
        let mut seen = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let element = match item_element(self.arena, list, item) {
                Ok(element) => element,
                Err(problem) => return errors.add(format!("element {at}: {problem}")),
            };
            let mut below = Errors::default();
            self.value(item, list.element, depth + 1, &mut below);
            let place = seen.binary_search(&element);
            if place.is_ok() && !self.allow_duplicates {
                errors.add(format!("duplicate entries for key {element}"));
            }
            if !below.is_empty() {
                errors.take(below, &element);
            }
            if let Err(place) = place {
                seen.insert(place, element);
            }
        }
    }
}

/// Why a value is not of this scalar type; null always is.
pub(super) fn scalar_problem(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, other) => {
            Some(format!("expected numeric (int or float), got {}", value::type_name(other)))
        }
        (Scalar::String, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", value::source(other)))
        }
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", value::plain(other))),
        (Scalar::Untyped, other) => Some(format!("expected any scalar, got &{{{}}}", value::plain(other))),
    }
}
