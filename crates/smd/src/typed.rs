//! Values walked along their schema: validation, field sets, merge, comparison and removal.

mod compare;
mod field_set;
mod merge;
mod reconcile;
mod remove;
mod validate;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value};

use crate::path::{PathElement, Scalar as PathScalar};
use crate::schema::{Arena, Atom, List, Map, Resolved, TypeId};
use crate::value::{self, Kind};

pub(crate) use compare::{Comparison, compare};
pub(crate) use field_set::field_set;
pub(crate) use merge::merge;
pub(crate) use reconcile::reconcile;
pub(crate) use remove::remove;
pub(crate) use validate::validate;

/// Everything that is wrong with a value, in the order of its fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Errors(Vec<Problem>);

#[derive(Debug, PartialEq, Eq)]
struct Problem {
    path: String,
    message: String,
}

impl Errors {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, message: impl Into<String>) {
        self.0.push(Problem { path: String::new(), message: message.into() });
    }

    /// Takes over the errors of a part of the value, which lies at `element`.
    fn take(&mut self, mut below: Errors, element: &PathElement<'_>) {
        if below.0.is_empty() {
            return;
        }
        let prefix = element.to_string();
        for problem in &mut below.0 {
            problem.path.insert_str(0, &prefix);
        }
        self.0.append(&mut below.0);
    }

    fn join(&mut self, mut other: Errors) {
        self.0.append(&mut other.0);
    }

    fn ok(self) -> Result<(), Errors> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, problem: &Problem| match problem.path.as_str() {
            "" => f.write_str(&problem.message),
            path => write!(f, "{path}: {}", problem.message),
        };
        if let [only] = self.0.as_slice() {
            return write(f, only);
        }
        f.write_str("errors:")?;
        for problem in &self.0 {
            f.write_str("\n  ")?;
            write(f, problem)?;
        }
        Ok(())
    }
}

/// The part of an atom that a value is walked by.
#[derive(Clone, Copy)]
enum Shape<'s> {
    Map(&'s Map),
    Scalar(crate::schema::Scalar),
    List(&'s List),
    /// The atom allows nothing.
    Nothing,
}

/// The shapes that an atom allows for this value: its own kind if the atom has it, else all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deduced {
    Scalar,
    List,
    Map,
    Any,
}

fn deduce(atom: &Atom, value: Option<&Value>) -> Deduced {
    match value.map(value::kind) {
        Some(Kind::Number | Kind::String | Kind::Bool) if atom.scalar.is_some() => Deduced::Scalar,
        Some(Kind::List) if atom.list.is_some() => Deduced::List,
        Some(Kind::Map) if atom.map.is_some() => Deduced::Map,
        _ => Deduced::Any,
    }
}

impl Deduced {
    /// Whether both leave the same shapes of this atom.
    fn same(self, other: Deduced, atom: &Atom) -> bool {
        let narrowed = |deduced| match deduced {
            Deduced::Scalar => (true, false, false),
            Deduced::List => (false, true, false),
            Deduced::Map => (false, false, true),
            Deduced::Any => (atom.scalar.is_some(), atom.list.is_some(), atom.map.is_some()),
        };
        self == other || narrowed(self) == narrowed(other)
    }

    fn shape(self, atom: &Atom) -> Shape<'_> {
        let map = atom.map.as_deref().filter(|_| matches!(self, Deduced::Map | Deduced::Any));
        let scalar = atom.scalar.filter(|_| matches!(self, Deduced::Scalar | Deduced::Any));
        let list = atom.list.as_deref().filter(|_| matches!(self, Deduced::List | Deduced::Any));
        match (map, scalar, list) {
            (Some(map), _, _) => Shape::Map(map),
            (None, Some(scalar), _) => Shape::Scalar(scalar),
            (None, None, Some(list)) => Shape::List(list),
            (None, None, None) => Shape::Nothing,
        }
    }
}

fn resolve(arena: &Arena, id: TypeId) -> Result<&Atom, String> {
    match arena.resolve(id) {
        Resolved::Atom(atom) => Ok(atom),
        Resolved::Missing(name) => Err(format!("schema error: no type found matching: {name}")),
    }
}

fn invalid_atom(atom: &Atom) -> String {
    match &atom.name {
        Some(name) => format!("schema error: invalid atom: named type: {name}"),
        None => "schema error: invalid atom: inlined".to_owned(),
    }
}

fn shape<'s>(arena: &'s Arena, id: TypeId, value: &Value) -> Shape<'s> {
    let atom = arena.atom(id);
    deduce(atom, Some(value)).shape(atom)
}

fn as_map(value: Option<&Value>) -> Option<&JsonMap<String, Value>> {
    value.and_then(Value::as_object)
}

fn as_list(value: Option<&Value>) -> Option<&Vec<Value>> {
    value.and_then(Value::as_array)
}

/// How an item of a list is named in paths. The list must not be atomic.
fn item_element<'a>(arena: &'a Arena, list: &'a List, item: &'a Value) -> Result<PathElement<'a>, String> {
    if list.atomic {
        return Err("invalid indexing of non-associative list".to_owned());
    }
    if list.keys.is_empty() {
        return match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(PathElement::Value(PathScalar::Borrowed(scalar))),
        };
    }
    let item = match item {
        Value::Object(item) => item,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    if let [name] = &*list.keys
        && let Some(value) = item.get(&**name)
    {
        return Ok(PathElement::Key(Arc::new([(Cow::Borrowed(&**name), PathScalar::Borrowed(value))])));
    }
    let mut keys: Vec<(Cow<'a, str>, PathScalar<'a>)> = Vec::with_capacity(list.keys.len());
    for name in &list.keys {
        let value = match item.get(&**name) {
            Some(value) => Some(value),
            None => {
                let map = arena.atom(list.element).map.as_deref().ok_or_else(|| {
                    format!(
                        "couldn't find default value for {name}: associative list may not have non-map types"
                    )
                })?;
                map.field(name).and_then(|field| field.default.as_deref())
            }
        };
        if let Some(value) = value {
            keys.push((Cow::Borrowed(&**name), PathScalar::Borrowed(value)));
        }
    }
    if keys.is_empty() {
        let names: Vec<_> = list.keys.iter().map(|name| value::quote(name)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
             default values for any key fields)",
            names.join(" ")
        ));
    }
    keys.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(PathElement::Key(keys.into()))
}
