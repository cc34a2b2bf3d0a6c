//! The public face of a parsed schema.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use convoy_meta::FieldError;
use serde_json::{Map, Value};

use crate::node::{Additional, Node, NodeId, Slot};
use crate::parse::Parser;

/// How deep a schema or a value may be nested. Deeper values are refused by `validate` and left
/// alone by `default`; deeper schemas are refused.
pub const MAX_DEPTH: usize = 128;

/// Why a schema could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A schema is neither an object nor a boolean where one is allowed.
    #[error("{path}: a schema must be a JSON object")]
    NotAnObject {
        /// Where in the schema.
        path: String,
    },
    /// A keyword has a value of the wrong type.
    #[error("{path}: {keyword} must be {expected}")]
    Keyword {
        /// Where in the schema.
        path: String,
        /// The keyword.
        keyword: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// `type` is none of the six that OpenAPI knows.
    #[error("{path}: type {name:?} is unknown; use object, array, string, integer, number or boolean")]
    UnknownType {
        /// Where in the schema.
        path: String,
        /// The type.
        name: String,
    },
    /// `$ref` names a definition that is not there.
    #[error("{path}: the definition {name:?} does not exist")]
    UnknownDefinition {
        /// Where in the schema.
        path: String,
        /// The definition.
        name: String,
    },
    /// `pattern` is not a regular expression.
    #[error("{path}: the pattern {pattern:?} is not a regular expression")]
    Pattern {
        /// Where in the schema.
        path: String,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: Box<regex::Error>,
    },
    /// The schema is nested deeper than [`MAX_DEPTH`].
    #[error("{path}: nested deeper than {MAX_DEPTH} levels")]
    TooDeep {
        /// Where in the schema.
        path: String,
    },
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Unique scalars, merged by value.
    Set,
    /// Objects, merged by their keys.
    Map,
}

/// The named schemas of an API, which may refer to each other: `components.schemas` of an OpenAPI v3
/// document.
#[derive(Clone, Default)]
pub struct Definitions {
    nodes: Arc<[Node]>,
    names: Arc<BTreeMap<String, NodeId>>,
}

impl fmt::Debug for Definitions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Definitions").field("names", &self.names.len()).finish_non_exhaustive()
    }
}

impl Definitions {
    /// Parses all of `schemas`.
    ///
    /// Unlike in a CustomResourceDefinition, an `object` without `properties` and without
    /// `additionalProperties` keeps all its fields: such is how Kubernetes describes free-form values.
    ///
    /// # Errors
    /// When a schema is malformed or refers to a definition that is not among `schemas`.
    pub fn new(schemas: &Map<String, Value>) -> Result<Self, SchemaError> {
        let parser = Parser::definitions(schemas)?;
        Ok(Self { nodes: parser.nodes.into(), names: Arc::new(parser.names) })
    }

    /// The schema of one definition, such as `io.k8s.api.apps.v1.Deployment`.
    pub fn structural(&self, name: &str) -> Option<Structural> {
        let root = *self.names.get(name)?;
        Some(Structural { nodes: Arc::clone(&self.nodes), root, is_resource: true })
    }

    /// The names of all definitions, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }
}

/// One schema, ready for use. Cheap to clone.
#[derive(Clone)]
pub struct Structural {
    pub(crate) nodes: Arc<[Node]>,
    pub(crate) root: NodeId,
    /// Whether values are whole objects, so that apiVersion, kind and metadata are always known.
    pub(crate) is_resource: bool,
}

impl fmt::Debug for Structural {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Structural").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Structural {
    /// A schema that stands alone, such as `spec.versions[].schema.openAPIV3Schema` of a
    /// CustomResourceDefinition, or one made from Rust types. Values are whole objects.
    ///
    /// # Errors
    /// When the schema is malformed or contains a `$ref`.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let (nodes, root) = Parser::standalone(schema)?;
        Ok(Self { nodes: nodes.into(), root, is_resource: true })
    }

    /// A schema that keeps every field and accepts every object.
    pub fn permissive() -> Self {
        let node = Node { preserve_unknown: true, ..Node::default() };
        Self { nodes: Arc::from([node]), root: 0, is_resource: true }
    }

    /// The schema of the field at `path`, for example `["spec"]`; the values of a map or the items of
    /// a list are named by any name, such as `"*"`. It describes a part, not a whole object.
    pub fn at(&self, path: &[&str]) -> Option<Self> {
        let mut root = self.root;
        for name in path {
            let node = self.node(root);
            root = match (node.properties.get(*name), &node.additional, &node.items) {
                (Some(slot), _, _) => slot.node,
                (None, Additional::Schema(slot), _) => slot.node,
                (None, _, Some(slot)) => slot.node,
                _ => return None,
            };
        }
        Some(Self { nodes: Arc::clone(&self.nodes), root, is_resource: false })
    }

    /// Whether the schema declares a property of that name at its root.
    pub fn has_property(&self, name: &str) -> bool {
        self.node(self.root).properties.contains_key(name)
    }

    /// Sets the schema's defaults wherever a field is absent, or null though it may not be.
    pub fn default(&self, value: &mut Value) {
        crate::default::apply(self, value);
    }

    /// Removes the fields that the schema does not know. apiVersion, kind and metadata stay at the
    /// root and in embedded objects. Returns the removed paths, sorted: `spec.foo`, `spec.list[0].bar`.
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        crate::prune::remove(self, value)
    }

    /// The paths that [`Self::prune`] would remove.
    pub fn unknown_fields(&self, value: &Value) -> Vec<String> {
        crate::prune::unknown(self, value)
    }

    /// All that is wrong with `value`. Unknown fields are not wrong.
    ///
    /// The texts are those of kube-apiserver for custom resources; problems that concern no single
    /// field have the path `<nil>` there, and here.
    pub fn validate(&self, value: &Value) -> Vec<FieldError> {
        let mut errors = crate::validate::check(self, value);
        errors.extend(crate::lists::check(self, value));
        errors
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(crate) fn slot_node(&self, slot: &Slot) -> &Node {
        &self.nodes[slot.node]
    }
}
