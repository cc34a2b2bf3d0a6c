//! Unknown fields: naming and removing them.

use serde_json::{Map, Value};

use crate::node::{Additional, Node};
use crate::structural::{MAX_DEPTH, Structural};

/// Known in every object, whatever its schema says.
const TYPE_AND_METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(crate) fn remove(schema: &Structural, value: &mut Value) -> Vec<String> {
    let mut paths = unknown(schema, value);
    if !paths.is_empty() {
        Remover { schema }.walk(Some(schema.node(schema.root)), value, schema.is_resource, false, 0);
    }
    paths.sort();
    paths
}

pub(crate) fn unknown(schema: &Structural, value: &Value) -> Vec<String> {
    let mut finder = Finder { schema, paths: Vec::new() };
    finder.walk(Some(schema.node(schema.root)), value, schema.is_resource, false, &mut String::new(), 0);
    finder.paths.sort();
    finder.paths
}

/// What a schema says about one field of an object.
enum Known<'a> {
    /// Left alone, with all that is in it.
    Kept,
    /// Looked into with this schema; `None` knows nothing.
    With(Option<&'a Node>),
    Unknown,
}

/// `keeping` is set inside a schema that preserves unknown fields: fields without a schema of their
/// own are kept with all they hold.
fn lookup<'a>(
    schema: &'a Structural,
    node: Option<&'a Node>,
    is_resource: bool,
    keeping: bool,
    name: &str,
) -> Known<'a> {
    let Some(node) = node else { return Known::Unknown };
    if (is_resource || node.embedded) && TYPE_AND_METADATA.contains(&name) {
        return Known::Kept;
    }
    if let Some(slot) = node.properties.get(name) {
        return Known::With(Some(schema.slot_node(slot)));
    }
    match &node.additional {
        Additional::Schema(slot) => Known::With(Some(schema.slot_node(slot))),
        Additional::Allowed => Known::With(None),
        Additional::Absent | Additional::Denied if keeping => Known::Kept,
        Additional::Absent | Additional::Denied => Known::Unknown,
    }
}

struct Finder<'a> {
    schema: &'a Structural,
    paths: Vec<String>,
}

impl Finder<'_> {
    fn walk(
        &mut self,
        node: Option<&Node>,
        value: &Value,
        is_resource: bool,
        keeping: bool,
        path: &mut String,
        depth: usize,
    ) {
        if depth > MAX_DEPTH {
            return;
        }
        let keeping = keeping_below(node, keeping);
        let length = path.len();
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    push_name(path, name);
                    match lookup(self.schema, node, is_resource, keeping, name) {
                        Known::Kept => {}
                        Known::With(below) => self.walk(below, field, false, false, path, depth + 1),
                        Known::Unknown => self.paths.push(path.clone()),
                    }
                    path.truncate(length);
                }
            }
            Value::Array(items) => {
                let below = node.and_then(|node| node.items.as_ref()).map(|slot| self.schema.slot_node(slot));
                if keeping && below.is_none() {
                    return;
                }
                for (index, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    self.walk(below, item, false, keeping, path, depth + 1);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

struct Remover<'a> {
    schema: &'a Structural,
}

impl Remover<'_> {
    fn walk(&self, node: Option<&Node>, value: &mut Value, is_resource: bool, keeping: bool, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let keeping = keeping_below(node, keeping);
        match value {
            Value::Object(fields) => self.fields(node, fields, is_resource, keeping, depth),
            Value::Array(items) => {
                let below = node.and_then(|node| node.items.as_ref()).map(|slot| self.schema.slot_node(slot));
                if keeping && below.is_none() {
                    return;
                }
                for item in items {
                    self.walk(below, item, false, keeping, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn fields(
        &self,
        node: Option<&Node>,
        fields: &mut Map<String, Value>,
        is_resource: bool,
        keeping: bool,
        depth: usize,
    ) {
        fields.retain(|name, field| match lookup(self.schema, node, is_resource, keeping, name) {
            Known::Kept => true,
            Known::With(below) => {
                self.walk(below, field, false, false, depth + 1);
                true
            }
            Known::Unknown => false,
        });
    }
}

/// Lists inside a preserving schema preserve, too, until a field with a schema of its own.
fn keeping_below(node: Option<&Node>, keeping: bool) -> bool {
    match node {
        Some(node) => keeping || node.preserve_unknown,
        None => keeping,
    }
}

fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}
