//! Nodes to values: types, aliases, merge keys, duplicate keys, and keys as JSON has them.

use crate::build::Build;
use crate::error::DuplicateKey;
use crate::number::format_g;
use crate::resolve::{Plain, TAG_PREFIX, resolve};
use crate::tree::{ASKED_AFTER, Node, NodeId, NodeKind, Tree};
use crate::{Error, MAX_DEPTH};
use std::borrow::Cow;
use std::collections::HashSet;

/// How to read a text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Report keys that stand twice in one mapping, as `sigs.k8s.io/yaml.UnmarshalStrict` does. Without it the
    /// last one wins.
    pub strict: bool,
}

pub(crate) struct Decoder<'t, 'a> {
    tree: &'t Tree<'a>,
    strict: bool,
    stopped: &'t dyn Fn() -> bool,
    duplicates: Vec<DuplicateKey>,
    /// Found only after Go's package has read the whole document: keys, then numbers.
    key_error: Option<Error>,
    number_error: Option<Error>,
    pub(super) open_aliases: Vec<NodeId>,
    decoded: usize,
    aliased: usize,
}

pub(super) enum Key<'t> {
    Str(Cow<'t, str>),
    Int(i64),
    Uint(u64),
    Float(f64),
    Bool(bool),
    Null,
}

impl<'t, 'a> Decoder<'t, 'a> {
    pub(crate) fn decode<V: Build>(
        tree: &'t Tree<'a>,
        root: NodeId,
        options: Options,
        stopped: &'t dyn Fn() -> bool,
    ) -> Result<V, Error> {
        let mut decoder = Self {
            tree,
            strict: options.strict,
            stopped,
            duplicates: Vec::new(),
            key_error: None,
            number_error: None,
            open_aliases: Vec::new(),
            decoded: 1,
            aliased: 0,
        };
        let value = decoder.value(root, 0)?;
        if !decoder.duplicates.is_empty() {
            return Err(Error::Duplicates { keys: decoder.duplicates });
        }
        match decoder.key_error.or(decoder.number_error) {
            Some(error) => Err(error),
            None => Ok(value),
        }
    }

    pub(super) fn node(&self, id: NodeId) -> Result<&'t Node<'a>, Error> {
        self.tree.nodes.get(id).ok_or_else(|| Error::Value {
            problem: "internal error: unknown node".to_owned(),
            line: 0,
            column: 0,
        })
    }

    /// Counts one value; documents that are mostly made of aliases are refused, the more the larger they are.
    pub(super) fn count(&mut self, node: &Node<'a>) -> Result<(), Error> {
        const LOW: usize = 400_000;
        const HIGH: usize = 4_000_000;
        self.decoded += 1;
        if self.decoded.is_multiple_of(ASKED_AFTER) && (self.stopped)() {
            return Err(Error::Stopped);
        }
        if self.open_aliases.is_empty() {
            return Ok(());
        }
        self.aliased += 1;
        let allowed = match self.decoded {
            ..=LOW => 0.99,
            HIGH.. => 0.10,
            decoded => 0.99 - 0.89 * ((decoded - LOW) as f64 / (HIGH - LOW) as f64),
        };
        if self.aliased > 100 && self.decoded > 1000 && self.aliased as f64 / self.decoded as f64 > allowed {
            return Err(value_error(node, "document contains excessive aliasing".to_owned()));
        }
        Ok(())
    }

    fn value<V: Build>(&mut self, id: NodeId, depth: usize) -> Result<V, Error> {
        let node = self.node(id)?;
        if depth > MAX_DEPTH {
            return Err(value_error(node, format!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.count(node)?;
        match &node.kind {
            NodeKind::Scalar { value, tag, plain } => self.scalar(node, value, tag.as_deref(), *plain),
            NodeKind::Sequence { first } => {
                let mut items = Vec::new();
                let mut next = *first;
                while let Some(id) = next {
                    items.push(self.value(id, depth + 1)?);
                    next = self.node(id)?.next;
                }
                Ok(V::sequence(items))
            }
            NodeKind::Mapping { first } => {
                let mut entries = Vec::new();
                let mut seen = HashSet::new();
                self.mapping(*first, depth, &mut entries, &mut seen)?;
                Ok(V::mapping(entries))
            }
            NodeKind::Alias { name, target } => {
                self.enter_alias(id, node, name)?;
                let value = self.value(*target, depth + 1)?;
                self.open_aliases.pop();
                Ok(value)
            }
        }
    }

    pub(super) fn enter_alias(&mut self, id: NodeId, node: &Node<'a>, name: &str) -> Result<(), Error> {
        if self.open_aliases.contains(&id) {
            return Err(value_error(node, format!("anchor '{name}' value contains itself")));
        }
        self.open_aliases.push(id);
        Ok(())
    }

    fn mapping<V: Build>(
        &mut self,
        first: Option<NodeId>,
        depth: usize,
        entries: &mut Vec<(Cow<'t, str>, V)>,
        seen: &mut HashSet<String>,
    ) -> Result<(), Error> {
        let mut next = first;
        while let Some(key_id) = next {
            let key_node = self.node(key_id)?;
            let Some(value_id) = key_node.next else { break };
            let value_node = self.node(value_id)?;
            next = value_node.next;
            if is_merge(key_node) {
                self.merge(value_id, depth + 1, entries, seen)?;
                continue;
            }
            let key = self.key(key_id, depth + 1)?;
            let value: V = self.value(value_id, depth + 1)?;
            if self.strict && !seen.insert(key.go_syntax()) {
                self.duplicates.push(DuplicateKey {
                    key: if matches!(key, Key::Null) { "<nil>".to_owned() } else { key.go_syntax() },
                    line: value_node.line,
                    column: value_node.column,
                });
                continue;
            }
            match key.into_json() {
                Ok(key) => entries.push((key, value)),
                Err(what) => {
                    if self.key_error.is_none() {
                        let value = self.go_syntax(value_id, depth)?.unwrap_or_else(|| "<nil>".to_owned());
                        let problem = format!("unsupported map key of type: {what}, value: {value}");
                        let (line, column) = (key_node.line, key_node.column);
                        self.key_error = Some(Error::Json { problem, line, column });
                    }
                }
            }
        }
        Ok(())
    }

    /// `<<`: the entries of other mappings, at this place in the order; the first of a list wins.
    fn merge<V: Build>(
        &mut self,
        id: NodeId,
        depth: usize,
        entries: &mut Vec<(Cow<'t, str>, V)>,
        seen: &mut HashSet<String>,
    ) -> Result<(), Error> {
        let node = self.node(id)?;
        if depth > MAX_DEPTH {
            return Err(value_error(node, format!("exceeded max depth of {MAX_DEPTH}")));
        }
        match &node.kind {
            NodeKind::Sequence { first } => {
                let mut items = Vec::new();
                let mut next = *first;
                while let Some(item) = next {
                    items.push(item);
                    next = self.node(item)?.next;
                }
                for item in items.into_iter().rev() {
                    self.merge_one(item, depth, entries, seen)?;
                }
                Ok(())
            }
            _ => self.merge_one(id, depth, entries, seen),
        }
    }

    fn merge_one<V: Build>(
        &mut self,
        id: NodeId,
        depth: usize,
        entries: &mut Vec<(Cow<'t, str>, V)>,
        seen: &mut HashSet<String>,
    ) -> Result<(), Error> {
        let node = self.node(id)?;
        self.count(node)?;
        let (first, aliased) = match &node.kind {
            NodeKind::Mapping { first } => (*first, false),
            NodeKind::Alias { name, target } => match &self.node(*target)?.kind {
                NodeKind::Mapping { first } => {
                    self.enter_alias(id, node, name)?;
                    self.count(node)?;
                    (*first, true)
                }
                _ => return Err(want_map(node)),
            },
            _ => return Err(want_map(node)),
        };
        self.mapping(first, depth + 1, entries, seen)?;
        if aliased {
            self.open_aliases.pop();
        }
        Ok(())
    }

    pub(super) fn key(&mut self, id: NodeId, depth: usize) -> Result<Key<'t>, Error> {
        let node = self.node(id)?;
        self.count(node)?;
        match &node.kind {
            NodeKind::Scalar { value, tag, plain } => {
                let value = value.as_ref();
                Ok(match self.plain(node, value, tag.as_deref(), *plain)? {
                    Plain::Null => Key::Null,
                    Plain::Bool(value) => Key::Bool(value),
                    Plain::Int(value) => Key::Int(value),
                    Plain::Uint(value) => Key::Uint(value),
                    Plain::Float(value) => Key::Float(value),
                    Plain::Timestamp | Plain::Str => match tag.as_deref().and_then(standard_tag) {
                        Some("binary") => Key::Str(Cow::Owned(self.binary(node, value)?)),
                        _ => Key::Str(Cow::Borrowed(value)),
                    },
                })
            }
            NodeKind::Alias { name, target } => {
                if depth > MAX_DEPTH {
                    return Err(value_error(node, format!("exceeded max depth of {MAX_DEPTH}")));
                }
                self.enter_alias(id, node, name)?;
                let key = self.key(*target, depth + 1)?;
                self.open_aliases.pop();
                Ok(key)
            }
            NodeKind::Sequence { .. } | NodeKind::Mapping { .. } => {
                let key = self.go_syntax(id, depth)?.unwrap_or_default();
                Err(value_error(node, format!("invalid map key: {key}")))
            }
        }
    }

    fn scalar<V: Build>(
        &mut self,
        node: &Node<'a>,
        value: &str,
        tag: Option<&str>,
        plain: bool,
    ) -> Result<V, Error> {
        Ok(match self.plain(node, value, tag, plain)? {
            Plain::Null => V::null(),
            Plain::Bool(value) => V::boolean(value),
            Plain::Int(value) => V::integer(value),
            Plain::Uint(value) => V::unsigned(value),
            Plain::Float(value) if value.is_finite() => V::float(value),
            Plain::Float(value) => {
                let problem = format!("json: unsupported value: {}", format_g(value));
                let (line, column) = (node.line, node.column);
                self.number_error.get_or_insert(Error::Json { problem, line, column });
                V::null()
            }
            Plain::Timestamp | Plain::Str => match tag.and_then(standard_tag) {
                Some("binary") => V::string(&self.binary(node, value)?),
                _ => V::string(value),
            },
        })
    }

    /// The type of a scalar by its tag and text.
    pub(super) fn plain(
        &self,
        node: &Node<'a>,
        value: &str,
        tag: Option<&str>,
        plain: bool,
    ) -> Result<Plain, Error> {
        let Some(tag) = tag else {
            return Ok(if plain { resolve(value, true) } else { Plain::Str });
        };
        let wanted = match standard_tag(tag) {
            Some(name @ ("bool" | "int" | "float" | "null" | "timestamp")) => name,
            _ => return Ok(Plain::Str),
        };
        let found = resolve(value, wanted == "timestamp");
        match (wanted, found) {
            ("float", Plain::Int(int)) => Ok(Plain::Float(int as f64)),
            _ if found.tag().strip_prefix("!!") == Some(wanted) => Ok(found),
            _ => {
                let problem = format!("cannot decode {} `{value}` as a !!{wanted}", found.tag());
                Err(value_error(node, problem))
            }
        }
    }

    fn binary(&self, node: &Node<'a>, value: &str) -> Result<String, Error> {
        match crate::base64::decode(value) {
            Some(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            None => Err(value_error(node, "!!binary value contains invalid base64 data".to_owned())),
        }
    }
}

fn standard_tag(tag: &str) -> Option<&str> {
    tag.strip_prefix(TAG_PREFIX)
}

fn is_merge(node: &Node<'_>) -> bool {
    match &node.kind {
        NodeKind::Scalar { value, tag, plain } => {
            value == "<<" && (*plain || tag.as_deref().and_then(standard_tag) == Some("merge"))
        }
        _ => false,
    }
}

fn value_error(node: &Node<'_>, problem: String) -> Error {
    Error::Value { problem, line: node.line, column: node.column }
}

fn want_map(node: &Node<'_>) -> Error {
    value_error(node, "map merge requires map or sequence of maps as the value".to_owned())
}

impl<'t> Key<'t> {
    /// The key as `sigs.k8s.io/yaml` writes it to JSON; otherwise the type and the key for its message.
    fn into_json(self) -> Result<Cow<'t, str>, String> {
        match self {
            Self::Str(value) => Ok(value),
            Self::Int(value) => Ok(Cow::Owned(value.to_string())),
            Self::Bool(value) => Ok(Cow::Borrowed(if value { "true" } else { "false" })),
            Self::Float(value) => Ok(Cow::Owned(crate::number::float_key(value))),
            Self::Uint(value) => Err(format!("uint64, key: {}", format_args!("{value:#x}"))),
            Self::Null => Err("%!s(<nil>), key: <nil>".to_owned()),
        }
    }
}
