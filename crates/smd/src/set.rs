//! Sets of fields: the trie behind `fieldsV1`.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::MAX_DEPTH;
use crate::path::PathElement;
use crate::schema::{Arena, TypeId};
use crate::value;

/// A set of paths. A path may be a member without those above or below it being members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set<'a> {
    /// Sorted by element; every node is a member or has children.
    nodes: Vec<Node<'a>>,
}

/// What the set says about one element of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node<'a> {
    pub(crate) element: PathElement<'a>,
    pub(crate) member: bool,
    pub(crate) children: Set<'a>,
}

impl<'a> Node<'a> {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

/// Why a `fieldsV1` cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldsError {
    /// A key is none that `fieldsV1` has.
    #[error("parsing key as path element: {0}")]
    Key(String),
    /// Something else than an object stands where an object should.
    #[error("expected an object of fields, got {0}")]
    NotAnObject(&'static str),
    /// Nested too deep.
    #[error("fields are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl<'a> Set<'a> {
    /// Whether no path is a member.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Members of the set.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.children.len()).sum()
    }

    /// Reads the value of a `fieldsV1`. Elements of an unknown kind are skipped.
    ///
    /// # Errors
    /// [`FieldsError`], when it is not of the form that Kubernetes writes.
    pub fn from_fields_v1(fields: &'a Value) -> Result<Self, FieldsError> {
        let (set, _) = Self::read(fields, 0)?;
        Ok(set)
    }

    fn read(fields: &'a Value, depth: usize) -> Result<(Self, bool), FieldsError> {
        let map = match fields {
            Value::Object(map) => map,
            Value::Null => return Ok((Self::default(), true)),
            other => return Err(FieldsError::NotAnObject(value::type_name(other))),
        };
        if depth > MAX_DEPTH {
            return Err(FieldsError::TooDeep);
        }
        let mut member = false;
        let mut nodes = Vec::with_capacity(map.len());
        for (key, below) in map {
            if key == "." {
                member = true;
                continue;
            }
            let Some(element) = PathElement::parse(key).map_err(FieldsError::Key)? else { continue };
            let (children, member) = Self::read(below, depth + 1)?;
            nodes.push(Node { element, member, children });
        }
        let mut set = Self { nodes };
        set.normalize();
        let member = member || set.is_empty();
        Ok((set, member))
    }

    /// The value of a `fieldsV1`. Kubernetes writes the keys of an object in an order of its own, see
    /// [`Set::to_fields_v1_text`]; as a [`Value`] they are sorted as text.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.to_map(false))
    }

    fn to_map(&self, dot: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if dot {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for node in &self.nodes {
            let below = node.children.to_map(node.member && !node.children.is_empty());
            map.insert(node.element.serialized(), Value::Object(below));
        }
        map
    }

    /// The `fieldsV1` byte for byte as Kubernetes writes it.
    pub fn to_fields_v1_text(&self) -> String {
        let mut out = String::new();
        self.write(false, &mut out);
        out
    }

    fn write(&self, dot: bool, out: &mut String) {
        out.push('{');
        if dot {
            out.push_str("\".\":{}");
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if at > 0 || dot {
                out.push(',');
            }
            value::write_string(out, &node.element.serialized(), false);
            out.push(':');
            node.children.write(node.member && !node.children.is_empty(), out);
        }
        out.push('}');
    }

    /// Sorts nodes that were pushed in any order and joins those of the same element.
    pub(crate) fn normalize(&mut self) {
        if self.nodes.is_sorted_by(|a, b| a.element < b.element) {
            return;
        }
        self.nodes.sort_by(|a, b| a.element.cmp(&b.element));
        self.nodes.dedup_by(|later, first| {
            let same = later.element == first.element;
            if same {
                first.member |= later.member;
                let children = std::mem::take(&mut first.children);
                first.children = children.union(std::mem::take(&mut later.children));
            }
            same
        });
    }

    /// Appends a node; the caller keeps the order or calls [`Set::normalize`].
    pub(crate) fn push(&mut self, element: PathElement<'a>, member: bool, children: Set<'a>) {
        if member || !children.is_empty() {
            self.nodes.push(Node { element, member, children });
        }
    }

    pub(crate) fn into_nodes(self) -> Vec<Node<'a>> {
        self.nodes
    }

    pub(crate) fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    pub(crate) fn nodes_mut(&mut self) -> &mut [Node<'a>] {
        &mut self.nodes
    }

    pub(crate) fn node(&self, element: &PathElement<'_>) -> Option<&Node<'a>> {
        // Lifetimes of elements are covariant, so comparing with a shorter one is fine.
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.nodes.get(at)
    }

    /// Whether the path is a member.
    pub fn has(&self, path: &[PathElement<'_>]) -> bool {
        let Some((last, above)) = path.split_last() else { return false };
        let mut set = self;
        for element in above {
            match set.node(element) {
                Some(node) => set = &node.children,
                None => return false,
            }
        }
        set.node(last).is_some_and(|node| node.member)
    }

    /// Adds a path; an empty one is ignored.
    pub fn insert(&mut self, path: &[PathElement<'a>]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(first)) {
            Ok(at) => at,
            Err(at) => {
                self.nodes
                    .insert(at, Node { element: first.clone(), member: false, children: Set::default() });
                at
            }
        };
        if let Some(node) = self.nodes.get_mut(at) {
            if rest.is_empty() {
                node.member = true;
            } else {
                node.children.insert(rest);
            }
        }
    }

    /// Paths in either set.
    #[must_use]
    pub fn union(self, other: Set<'a>) -> Set<'a> {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut right = other.nodes.into_iter().peekable();
        for mut node in self.nodes {
            while let Some(earlier) = right.next_if(|candidate| candidate.element < node.element) {
                nodes.push(earlier);
            }
            if let Some(same) = right.next_if(|candidate| candidate.element == node.element) {
                node.member |= same.member;
                node.children = node.children.union(same.children);
            }
            nodes.push(node);
        }
        nodes.extend(right);
        Set { nodes }
    }

    /// Pairs every node of this set with the other's node of the same element.
    fn zip<'s, 'o, 'b>(
        &'s self,
        other: &'o Set<'b>,
    ) -> impl Iterator<Item = (&'s Node<'a>, Option<&'o Node<'b>>)> {
        let mut rest = other.nodes.iter().peekable();
        self.nodes.iter().map(move |node| {
            loop {
                match rest.peek().map(|candidate| candidate.element.cmp(&node.element)) {
                    Some(Ordering::Less) => {
                        rest.next();
                    }
                    Some(Ordering::Equal) => return (node, rest.next()),
                    Some(Ordering::Greater) | None => return (node, None),
                }
            }
        })
    }

    /// Paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Set<'_>) -> Set<'a> {
        let mut out = Set::default();
        for (node, other) in self.zip(other) {
            if let Some(other) = other {
                let member = node.member && other.member;
                out.push_if(node, member, || node.children.intersection(&other.children));
            }
        }
        out
    }

    fn push_if(&mut self, node: &Node<'a>, member: bool, children: impl FnOnce() -> Set<'a>) {
        let children = if node.children.is_empty() { Set::default() } else { children() };
        if member || !children.is_empty() {
            self.nodes.push(Node { element: node.element.clone(), member, children });
        }
    }

    /// Paths in this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Set<'_>) -> Set<'a> {
        let mut out = Set::default();
        for (node, other) in self.zip(other) {
            match other {
                None => out.nodes.push(node.clone()),
                Some(other) => {
                    out.push_if(node, node.member && !other.member, || {
                        node.children.difference(&other.children)
                    });
                }
            }
        }
        out
    }

    /// Removes the other set's paths from this one.
    pub(crate) fn subtract(&mut self, other: &Set<'_>) {
        if self.is_empty() || other.is_empty() {
            return;
        }
        let mut rest = other.nodes.iter().peekable();
        self.nodes.retain_mut(|node| {
            while rest.next_if(|candidate| candidate.element < node.element).is_some() {}
            if let Some(other) = rest.next_if(|candidate| candidate.element == node.element) {
                node.member &= !other.member;
                node.children.subtract(&other.children);
            }
            !node.is_empty()
        });
    }

    /// Removes the other set's paths from this one with everything below them.
    pub(crate) fn subtract_recursively(&mut self, other: &Set<'_>) {
        if self.is_empty() || other.is_empty() {
            return;
        }
        let mut rest = other.nodes.iter().peekable();
        self.nodes.retain_mut(|node| {
            while rest.next_if(|candidate| candidate.element < node.element).is_some() {}
            if let Some(other) = rest.next_if(|candidate| candidate.element == node.element) {
                if other.member {
                    return false;
                }
                node.children.subtract_recursively(&other.children);
            }
            !node.is_empty()
        });
    }

    /// Whether every path of this set is in the other.
    pub fn is_subset(&self, other: &Set<'_>) -> bool {
        self.zip(other).all(|(node, other)| match other {
            None => false,
            Some(other) => (!node.member || other.member) && node.children.is_subset(&other.children),
        })
    }

    /// Members without members below them.
    #[must_use]
    pub fn leaves(&self) -> Set<'a> {
        let mut out = Set::default();
        for node in &self.nodes {
            out.push_if(node, node.member && node.children.is_empty(), || node.children.leaves());
        }
        out
    }

    /// Makes every named field of a struct that has members below it a member itself.
    pub(crate) fn ensure_named_fields(&mut self, arena: &Arena, id: TypeId) {
        let atom = arena.atom(id);
        for node in &mut self.nodes {
            if node.children.is_empty() {
                continue;
            }
            let below = match (&node.element, &atom.map, &atom.list) {
                (PathElement::Field(name), Some(map), _) => match map.field(name) {
                    Some(field) => {
                        node.member = true;
                        field.id
                    }
                    None => map.element,
                },
                (PathElement::Key(_), _, Some(list)) => list.element,
                _ => TypeId::NONE,
            };
            node.children.ensure_named_fields(arena, below);
        }
    }

    /// Calls `visit` with every member's path: members of a level first, then what is below them.
    pub(crate) fn visit<'s>(
        &'s self,
        path: &mut Vec<&'s PathElement<'a>>,
        visit: &mut impl FnMut(&[&PathElement<'a>]),
    ) {
        for node in self.nodes.iter().filter(|node| node.member) {
            path.push(&node.element);
            visit(path);
            path.pop();
        }
        for node in &self.nodes {
            path.push(&node.element);
            node.children.visit(path, visit);
            path.pop();
        }
    }

    /// The paths of all members as messages print them, such as `.spec.replicas`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.visit(&mut Vec::new(), &mut |path| {
            paths.push(path.iter().map(ToString::to_string).collect());
        });
        paths
    }

    /// The same set without borrows.
    pub fn into_owned(self) -> Set<'static> {
        Set {
            nodes: self
                .nodes
                .into_iter()
                .map(|node| Node {
                    element: node.element.into_owned(),
                    member: node.member,
                    children: node.children.into_owned(),
                })
                .collect(),
        }
    }
}
