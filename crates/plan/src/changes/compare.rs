//! Two objects side by side.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::keys::{Keys, Named};

/// Fields that no manifest has.
const OF_THE_SERVER: [&str; 7] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "uid",
    "selfLink",
    "deletionTimestamp",
];

/// Deepest nesting that is compared field by field; what is deeper is compared whole.
const MAX_DEPTH: usize = 64;

/// A place in two objects.
pub(super) enum Node<'a> {
    Same(&'a Value),
    Changed(Option<&'a Value>, Option<&'a Value>),
    Map(Vec<(&'a str, Node<'a>)>),
    /// Items with what is shown of their place, such as `[name=web]`.
    List(Vec<(String, Node<'a>)>),
}

/// Where a node is.
#[derive(Clone)]
pub(super) struct Pair {
    /// As people name it.
    pub(super) shown: String,
    /// As a JSON pointer has it; of items of lists only that they are some.
    pub(super) segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Field(String),
    Item,
}

impl Pair {
    pub(super) fn root() -> Self {
        Self { shown: String::new(), segments: Vec::new() }
    }

    pub(super) fn field(&self, name: &str) -> Self {
        let mut segments = self.segments.clone();
        segments.push(Segment::Field(name.to_owned()));
        Self { shown: joined(&self.shown, name), segments }
    }

    pub(super) fn item(&self, label: &str) -> Self {
        let mut segments = self.segments.clone();
        segments.push(Segment::Item);
        Self { shown: format!("{}{label}", self.shown), segments }
    }

    /// Whether no manifest has it.
    pub(super) fn is_of_the_server(&self) -> bool {
        match self.segments.as_slice() {
            [Segment::Field(root)] => root == "status",
            [Segment::Field(root), Segment::Field(name)] => {
                root == "metadata" && OF_THE_SERVER.contains(&name.as_str())
            }
            _ => false,
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    let is_plain =
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/'));
    match (path.is_empty(), is_plain) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{name:?}]"),
    }
}

/// Compares an object with what it would be.
pub(super) fn compare<'a>(before: Option<&'a Value>, after: Option<&'a Value>) -> Node<'a> {
    let keys = Keys::learned(&[before, after]);
    let empty: &'a Map<String, Value> = empty();
    let map = |value: Option<&'a Value>| value.and_then(Value::as_object).unwrap_or(empty);
    fields(map(before), map(after), &Pair::root(), &keys)
}

fn empty() -> &'static Map<String, Value> {
    static EMPTY: std::sync::OnceLock<Map<String, Value>> = std::sync::OnceLock::new();
    EMPTY.get_or_init(Map::new)
}

fn values<'a>(before: Option<&'a Value>, after: Option<&'a Value>, at: &Pair, keys: &Keys) -> Node<'a> {
    match (before, after) {
        (Some(before), Some(after)) if before == after => Node::Same(after),
        (before, after) if at.segments.len() > MAX_DEPTH => Node::Changed(before, after),
        (Some(Value::Object(before)), Some(Value::Object(after))) => fields(before, after, at, keys),
        (Some(Value::Array(befores)), Some(Value::Array(afters))) => {
            items(befores, afters, at, keys).unwrap_or(Node::Changed(before, after))
        }
        (before, after) => Node::Changed(before, after),
    }
}

fn fields<'a>(
    before: &'a Map<String, Value>,
    after: &'a Map<String, Value>,
    at: &Pair,
    keys: &Keys,
) -> Node<'a> {
    let names: BTreeSet<&'a String> = before.keys().chain(after.keys()).collect();
    let mut nodes = Vec::new();
    for name in names {
        let at = at.field(name);
        if !at.is_of_the_server() {
            nodes.push((name.as_str(), values(before.get(name), after.get(name), &at, keys)));
        }
    }
    Node::Map(nodes)
}

/// The items by what names them, in the order in which they would be; none when the lists can only be told as a whole.
fn items<'a>(before: &'a [Value], after: &'a [Value], at: &Pair, keys: &Keys) -> Option<Node<'a>> {
    if let Some(Named { before: old, after: new }) = keys.named(at, before, after) {
        let gone = old.iter().filter(|(label, _)| !new.iter().any(|(other, _)| other == label));
        let mut nodes: Vec<(String, Node<'a>)> = Vec::new();
        for (label, item) in &new {
            let earlier = old.iter().find(|(other, _)| other == label).map(|(_, item)| *item);
            nodes.push((label.clone(), values(earlier, Some(item), &at.item(label), keys)));
        }
        for (label, item) in gone {
            nodes.push((label.clone(), Node::Changed(Some(item), None)));
        }
        return Some(Node::List(nodes));
    }
    if before.len() != after.len() {
        return None;
    }
    let pairs = before.iter().zip(after).enumerate();
    let node = |(index, (before, after))| {
        let label = format!("[{index}]");
        let node = values(Some(before), Some(after), &at.item(&label), keys);
        (label, node)
    };
    Some(Node::List(pairs.map(node).collect()))
}
