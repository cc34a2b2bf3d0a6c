//! Path elements: how one field, list item or set member is named.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::value;

/// One step of a path, as `fieldsV1` writes it.
///
/// Borrows from the objects and schemas that it was made from where that is possible.
#[derive(Clone, Debug)]
pub enum PathElement<'a> {
    /// `f:<name>`: a field of a struct or map.
    Field(Cow<'a, str>),
    /// `k:{…}`: the item of a list that has these keys, sorted by name.
    Key(Arc<[(Cow<'a, str>, Scalar<'a>)]>),
    /// `v:<value>`: a member of a set.
    Value(Scalar<'a>),
    /// `i:<index>`: an item of a list by its position.
    Index(i64),
}

/// A value in a path, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Scalar<'a> {
    /// A value of an object or of a schema.
    Borrowed(&'a Value),
    /// A value that was parsed.
    Shared(Arc<Value>),
}

impl Scalar<'_> {
    /// The value itself.
    pub fn value(&self) -> &Value {
        match self {
            Scalar::Borrowed(value) => value,
            Scalar::Shared(value) => value,
        }
    }

    fn into_owned(self) -> Scalar<'static> {
        match self {
            Scalar::Borrowed(value) => Scalar::Shared(Arc::new(value.clone())),
            Scalar::Shared(value) => Scalar::Shared(value),
        }
    }
}

impl<'a> PathElement<'a> {
    /// Reads an element as `fieldsV1` writes it; `Ok(None)` for a kind of element that is not known,
    /// which readers skip.
    pub(crate) fn parse(text: &'a str) -> Result<Option<Self>, String> {
        let bytes = text.as_bytes();
        let (Some(&kind), Some(&colon)) = (bytes.first(), bytes.get(1)) else {
            return Err("key must be 2 characters long:".to_owned());
        };
        let rest = match text.get(2..) {
            Some(rest) if colon == b':' => rest,
            _ => return Err(format!("missing colon: {text}")),
        };
        Ok(Some(match kind {
            b'f' => PathElement::Field(Cow::Borrowed(rest)),
            b'v' => PathElement::Value(Scalar::Shared(Arc::new(parse_json(rest)?))),
            b'k' => match parse_json(rest)? {
                Value::Object(keys) => PathElement::Key(
                    keys.into_iter()
                        .map(|(name, value)| (Cow::Owned(name), Scalar::Shared(Arc::new(value))))
                        .collect(),
                ),
                other => return Err(format!("expect object, got {}", value::type_name(&other))),
            },
            b'i' => PathElement::Index(
                rest.parse()
                    .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", value::quote(rest)))?,
            ),
            _ => return Ok(None),
        }))
    }

    /// The element as `fieldsV1` writes it.
    pub(crate) fn serialized(&self) -> String {
        match self {
            PathElement::Field(name) => {
                let mut out = String::with_capacity(name.len() + 2);
                out.push_str("f:");
                out.push_str(name);
                out
            }
            PathElement::Key(keys) => {
                let mut out = String::from("k:{");
                for (at, (name, scalar)) in keys.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    value::write_string(&mut out, name, false);
                    out.push(':');
                    value::write_json(&mut out, scalar.value());
                }
                out.push('}');
                out
            }
            PathElement::Value(scalar) => {
                let mut out = String::from("v:");
                value::write_json(&mut out, scalar.value());
                out
            }
            PathElement::Index(index) => format!("i:{index}"),
        }
    }

    /// The same element without borrows.
    pub fn into_owned(self) -> PathElement<'static> {
        match self {
            PathElement::Field(name) => PathElement::Field(Cow::Owned(name.into_owned())),
            PathElement::Key(keys) => PathElement::Key(
                keys.iter()
                    .map(|(name, scalar)| {
                        (Cow::Owned(name.clone().into_owned()), scalar.clone().into_owned())
                    })
                    .collect(),
            ),
            PathElement::Value(scalar) => PathElement::Value(scalar.into_owned()),
            PathElement::Index(index) => PathElement::Index(index),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error} in {}", value::quote(text)))
}

impl Ord for PathElement<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.as_bytes().cmp(b.as_bytes()),
            (PathElement::Key(a), PathElement::Key(b)) => {
                for ((a_name, a), (b_name, b)) in a.iter().zip(b.iter()) {
                    let order = a_name.cmp(b_name).then_with(|| value::compare(a.value(), b.value()));
                    if order.is_ne() {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
            (PathElement::Value(a), PathElement::Value(b)) => value::compare(a.value(), b.value()),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for PathElement<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement<'_> {}

/// As messages print it: `.name`, `[name="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(keys) => {
                f.write_str("[")?;
                for (at, (name, scalar)) in keys.iter().enumerate() {
                    if at > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{name}={}", value::in_path(scalar.value()))?;
                }
                f.write_str("]")
            }
            PathElement::Value(scalar) => write!(f, "[={}]", value::in_path(scalar.value())),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}
