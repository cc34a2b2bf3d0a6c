//! Nodes as Go prints their values with `%#v`, for messages.

use crate::decode::{Decoder, Key};
use crate::number::format_g;
use crate::resolve::Plain;
use crate::tree::{NodeId, NodeKind};
use crate::{Error, MAX_DEPTH};
use std::collections::BTreeMap;
use std::fmt::Write as _;

impl Decoder<'_, '_> {
    /// `None` for null, whose name depends on the place.
    pub(super) fn go_syntax(&mut self, id: NodeId, depth: usize) -> Result<Option<String>, Error> {
        let node = self.node(id)?;
        self.count(node)?;
        if depth > MAX_DEPTH {
            return Ok(Some("...".to_owned()));
        }
        let inner = |text: Option<String>| text.unwrap_or_else(|| "interface {}(nil)".to_owned());
        Ok(Some(match &node.kind {
            NodeKind::Scalar { value, tag, plain } => {
                match self.plain(node, value, tag.as_deref(), *plain)? {
                    Plain::Null => return Ok(None),
                    Plain::Bool(value) => value.to_string(),
                    Plain::Int(value) => value.to_string(),
                    Plain::Uint(value) => format!("{value:#x}"),
                    Plain::Float(value) => format_g(value),
                    Plain::Timestamp | Plain::Str => quote(value),
                }
            }
            NodeKind::Sequence { first } => {
                let mut items = Vec::new();
                let mut next = *first;
                while let Some(id) = next {
                    items.push(inner(self.go_syntax(id, depth + 1)?));
                    next = self.node(id)?.next;
                }
                format!("[]interface {{}}{{{}}}", items.join(", "))
            }
            NodeKind::Mapping { first } => {
                let mut entries = BTreeMap::new();
                let mut next = *first;
                while let Some(key) = next {
                    let Some(value) = self.node(key)?.next else { break };
                    next = self.node(value)?.next;
                    let key = self.key(key, depth + 1)?.go_syntax();
                    let value = inner(self.go_syntax(value, depth + 1)?);
                    entries.insert(key, value);
                }
                let entries: Vec<String> =
                    entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
                format!("map[interface {{}}]interface {{}}{{{}}}", entries.join(", "))
            }
            NodeKind::Alias { name, target } => {
                self.enter_alias(id, node, name)?;
                let text = self.go_syntax(*target, depth + 1)?;
                self.open_aliases.pop();
                return Ok(text);
            }
        }))
    }
}

impl Key<'_> {
    /// Keys of different types differ here too.
    pub(super) fn go_syntax(&self) -> String {
        match self {
            Self::Str(value) => quote(value),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => format!("{value:#x}"),
            Self::Float(value) => format_g(*value),
            Self::Bool(value) => value.to_string(),
            Self::Null => "interface {}(nil)".to_owned(),
        }
    }
}

/// Go's `strconv.Quote`.
fn quote(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0b' => quoted.push_str("\\v"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\0'..='\x1f' | '\x7f' => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(c));
            }
            '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
