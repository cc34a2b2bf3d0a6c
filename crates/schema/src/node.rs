//! The parsed form of a schema: nodes in one table that refer to each other by number, so that the
//! definitions of an API may be recursive.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

use crate::format::Format;
use crate::structural::ListType;

pub(crate) type NodeId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// A place where a schema is used. The default belongs to the place, not to the schema: two fields
/// may share a definition and differ in the default.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) node: NodeId,
    pub(crate) default: Option<Value>,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Additional {
    /// Not mentioned: unknown fields are pruned but valid.
    #[default]
    Absent,
    Allowed,
    Denied,
    Schema(Slot),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: Option<Type>,
    pub(crate) int_or_string: bool,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) list_type: Option<ListType>,
    pub(crate) list_map_keys: Vec<String>,
    pub(crate) properties: BTreeMap<String, Slot>,
    pub(crate) items: Option<Slot>,
    pub(crate) additional: Additional,
    pub(crate) constraints: Option<Box<Constraints>>,
}

/// What only validation looks at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constraints {
    pub(crate) format: Option<String>,
    pub(crate) known_format: Option<Format>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<Number>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) required: Vec<String>,
    pub(crate) one_of_values: Vec<Value>,
    pub(crate) all_of: Vec<NodeId>,
    pub(crate) any_of: Vec<NodeId>,
    pub(crate) one_of: Vec<NodeId>,
    pub(crate) not: Option<NodeId>,
}

#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) exclusive: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// As written in the schema; it stands in messages.
    pub(crate) source: String,
    pub(crate) regex: Regex,
}
