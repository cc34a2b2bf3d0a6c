//! What of an object is shown to nobody.

use std::collections::BTreeSet;

use convoy_api::{annotation, pointer_segments};
use serde_json::Value;

use super::compare::{Node, Pair, Segment};
use super::{HIDDEN, LAST_APPLIED, Mask, Sides};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
    /// It is the same on both.
    Both,
}

/// What is hidden in one object.
pub(super) struct Hiding<'a> {
    pub(super) mask: Mask<'a>,
    is_secret: bool,
    desired: Option<&'a Value>,
    /// The places that the object itself says are sensitive.
    paths: Vec<Vec<String>>,
    /// All values of the bundle; only where it matters which values are known.
    known: BTreeSet<String>,
}

impl<'a> Hiding<'a> {
    pub(super) fn of(sides: &Sides<'a>, mask: Mask<'a>) -> Self {
        let all = [sides.before, sides.after, sides.desired];
        let objects = || all.iter().copied().flatten();
        let mut known = BTreeSet::new();
        if mask.hides_before
            && let Some(desired) = sides.desired
        {
            learn(desired, &mut known);
        }
        Self {
            mask,
            is_secret: objects().any(|object| object["kind"] == "Secret"),
            desired: sides.desired,
            paths: objects().flat_map(|object| sensitive_paths(object).chain(places(object, mask))).collect(),
            known,
        }
    }

    /// Whether a place is hidden with all that is below it.
    fn hides(&self, at: &Pair) -> bool {
        let is_at = |path: &Vec<String>| {
            path.len() <= at.segments.len()
                && path.iter().zip(&at.segments).all(|(wanted, segment)| match segment {
                    // Which item of a list that was, before or after, is not worth a leak.
                    Segment::Item => true,
                    Segment::Field(name) => wanted == "*" || wanted == name,
                })
        };
        if self.paths.iter().any(is_at) {
            return true;
        }
        let field = |index: usize| match at.segments.get(index) {
            Some(Segment::Field(name)) => name.as_str(),
            Some(Segment::Item) | None => "",
        };
        let is_metadata = field(0) == "metadata";
        if is_metadata && field(1) == "annotations" && field(2) == LAST_APPLIED {
            return true;
        }
        if !self.is_secret || at.segments.is_empty() {
            return false;
        }
        match field(0) {
            "metadata" if at.segments.len() >= 3 && matches!(field(1), "annotations" | "labels") => {
                let own = self.desired.and_then(|desired| desired["metadata"][field(1)].as_object());
                !own.is_some_and(|own| own.contains_key(field(2)))
            }
            "apiVersion" | "kind" | "type" | "immutable" | "metadata" => false,
            "data" | "stringData" => at.segments.len() > 1,
            _ => true,
        }
    }

    /// Whether a place is hidden with all that is below it, when it is of this form.
    pub(super) fn hides_node(&self, node: &Node<'_>, at: &Pair) -> bool {
        match node {
            Node::Same(_) | Node::Changed(..) => false,
            Node::List(_) => self.hides(at) || self.is_secret && is_data(at),
            Node::Map(_) => self.hides(at),
        }
    }

    /// What may be shown of a value: the names of its fields, and those of its values that are not secret.
    pub(super) fn shown(&self, value: &Value, at: &Pair, side: Side) -> Value {
        if self.hides(at) {
            return HIDDEN.into();
        }
        match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (name, value, at.field(name)))
                .filter(|(_, _, at)| !at.is_of_the_server())
                .map(|(name, value, at)| ((self.mask.text)(name), self.shown(value, &at, side)))
                .collect(),
            // A Secret's data is a map; of what it is else not even the length is told.
            _ if self.is_secret && is_data(at) => HIDDEN.into(),
            Value::Array(items) => items.iter().map(|item| self.shown(item, &at.item("[]"), side)).collect(),
            Value::Bool(_) | Value::Null => value.clone(),
            Value::String(_) | Value::Number(_) if self.is_unknown(value, side) => HIDDEN.into(),
            Value::String(text) => (self.mask.text)(text).into(),
            Value::Number(number) => {
                let text = number.to_string();
                let masked = (self.mask.text)(&text);
                if masked == text { value.clone() } else { masked.into() }
            }
        }
    }

    /// Whether a value may be an earlier one that came from a Secret.
    fn is_unknown(&self, value: &Value, side: Side) -> bool {
        match side {
            Side::Before => self.mask.hides_before,
            Side::After => self.mask.hides_after,
            Side::Both => {
                self.mask.hides_after || self.mask.hides_before && !self.known.contains(&value.to_string())
            }
        }
    }
}

fn is_data(at: &Pair) -> bool {
    matches!(at.segments.as_slice(), [Segment::Field(name)] if name == "data" || name == "stringData")
}

fn learn(value: &Value, known: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| learn(value, known)),
        Value::Array(items) => items.iter().for_each(|value| learn(value, known)),
        value => _ = known.insert(value.to_string()),
    }
}

/// Where values of Secrets stand in an object.
fn places<'a>(object: &Value, mask: Mask<'a>) -> impl Iterator<Item = Vec<String>> + use<'a> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]));
    mask.places.get(&name).into_iter().flatten().map(|pointer| pointer_segments(pointer))
}

/// What the annotation of an object names: JSON pointers, divided by commas, spaces or line ends.
fn sensitive_paths(object: &Value) -> impl Iterator<Item = Vec<String>> + '_ {
    let text = object["metadata"]["annotations"][annotation::SENSITIVE_PATHS].as_str().unwrap_or_default();
    let pointers = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|pointer| !pointer.is_empty());
    pointers.map(|pointer| {
        // What lacks its slash is meant as if it had it: to hide too much is the lesser fault.
        let pointer = if pointer.starts_with('/') { pointer.to_owned() } else { format!("/{pointer}") };
        pointer_segments(&pointer)
    })
}
