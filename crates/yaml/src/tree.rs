//! Events to a tree of nodes, as an arena: anchors are known, nothing is resolved or expanded yet.

use crate::parser::{EventKind, Parser};
use crate::token::Mark;
use crate::{Error, MAX_DEPTH};
use std::borrow::Cow;
use std::collections::HashMap;

pub(crate) type NodeId = usize;

#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) kind: NodeKind<'a>,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) next: Option<NodeId>,
}

#[derive(Debug)]
pub(crate) enum NodeKind<'a> {
    Scalar {
        value: Cow<'a, str>,
        tag: Option<Cow<'a, str>>,
        plain: bool,
    },
    Sequence {
        first: Option<NodeId>,
    },
    /// Keys and values in turn.
    Mapping {
        first: Option<NodeId>,
    },
    Alias {
        name: &'a str,
        target: NodeId,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Tree<'a> {
    pub(crate) nodes: Vec<Node<'a>>,
    anchors: HashMap<&'a str, NodeId>,
}

impl<'a> Tree<'a> {
    /// The next document of the stream; `None` at its end.
    pub(crate) fn read(parser: &mut Parser<'a>) -> Result<Option<(Self, NodeId)>, Error> {
        if !matches!(parser.next_event()?.kind, EventKind::DocumentStart) {
            return Ok(None);
        }
        let mut tree = Self::default();
        let root = tree.node(parser, 0)?;
        // The end of the document is part of it: what stands after its content must be readable.
        parser.next_event()?;
        Ok(root.map(|root| (tree, root)))
    }

    fn push(&mut self, kind: NodeKind<'a>, mark: Mark, anchor: Option<&'a str>) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node { kind, line: mark.line + 1, column: mark.column + 1, next: None });
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        id
    }

    /// One node with all below it; `None` for the end of a collection.
    fn node(&mut self, parser: &mut Parser<'a>, depth: usize) -> Result<Option<NodeId>, Error> {
        let event = parser.next_event()?;
        let (line, column) = (event.start.line + 1, event.start.column + 1);
        if depth > MAX_DEPTH {
            let problem = format!("exceeded max depth of {MAX_DEPTH}");
            return Err(Error::Value { problem, line, column });
        }
        Ok(Some(match event.kind {
            EventKind::Scalar { value, plain } => {
                self.push(NodeKind::Scalar { value, tag: event.tag, plain }, event.start, event.anchor)
            }
            EventKind::Alias(name) => {
                let Some(&target) = self.anchors.get(name) else {
                    let problem = format!("unknown anchor '{name}' referenced");
                    return Err(Error::Value { problem, line, column });
                };
                self.push(NodeKind::Alias { name, target }, event.start, None)
            }
            EventKind::SequenceStart => {
                let id = self.push(NodeKind::Sequence { first: None }, event.start, event.anchor);
                self.children(id, parser, depth)?
            }
            EventKind::MappingStart => {
                let id = self.push(NodeKind::Mapping { first: None }, event.start, event.anchor);
                self.children(id, parser, depth)?
            }
            EventKind::SequenceEnd
            | EventKind::MappingEnd
            | EventKind::DocumentStart
            | EventKind::DocumentEnd
            | EventKind::StreamEnd => return Ok(None),
        }))
    }

    fn children(&mut self, id: NodeId, parser: &mut Parser<'a>, depth: usize) -> Result<NodeId, Error> {
        let mut last = None;
        while let Some(child) = self.node(parser, depth + 1)? {
            if let Some(last) = last.and_then(|last: NodeId| self.nodes.get_mut(last)) {
                last.next = Some(child);
            } else if let Some(NodeKind::Sequence { first } | NodeKind::Mapping { first }) =
                self.nodes.get_mut(id).map(|node| &mut node.kind)
            {
                *first = Some(child);
            }
            last = Some(child);
        }
        Ok(id)
    }
}
