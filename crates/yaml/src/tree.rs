//! Events to a tree of nodes, as an arena: anchors are known, nothing is resolved or expanded yet.

use crate::parser::{EventKind, Parser};
use crate::token::Mark;
use crate::{Error, MAX_DEPTH};
use std::borrow::Cow;
use std::collections::HashMap;

/// So many nodes are read before it is asked whether to stop.
pub(crate) const ASKED_AFTER: usize = 1 << 12;

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
    pub(crate) fn read(
        parser: &mut Parser<'a>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Option<(Self, NodeId)>, Error> {
        if !matches!(parser.next_event()?.kind, EventKind::DocumentStart) {
            return Ok(None);
        }
        let mut tree = Self::default();
        // The collections that are open, each with the child that came last.
        let mut open: Vec<(NodeId, Option<NodeId>)> = Vec::new();
        loop {
            let event = parser.next_event()?;
            if tree.nodes.len() % ASKED_AFTER == ASKED_AFTER - 1 && stopped() {
                return Err(Error::Stopped);
            }
            let mark = event.start;
            let id = match event.kind {
                EventKind::SequenceEnd | EventKind::MappingEnd => {
                    open.pop();
                    if open.is_empty() {
                        break;
                    }
                    continue;
                }
                EventKind::DocumentStart | EventKind::DocumentEnd | EventKind::StreamEnd => break,
                EventKind::Scalar { value, plain } => {
                    tree.push(NodeKind::Scalar { value, tag: event.tag, plain }, mark, event.anchor)
                }
                EventKind::Alias(name) => match tree.anchors.get(name) {
                    Some(&target) => tree.push(NodeKind::Alias { name, target }, mark, None),
                    None => return Err(error(format!("unknown anchor '{name}' referenced"), mark)),
                },
                EventKind::SequenceStart => {
                    let id = tree.push(NodeKind::Sequence { first: None }, mark, event.anchor);
                    tree.link(&mut open, id);
                    open.push((id, None));
                    id
                }
                EventKind::MappingStart => {
                    let id = tree.push(NodeKind::Mapping { first: None }, mark, event.anchor);
                    tree.link(&mut open, id);
                    open.push((id, None));
                    id
                }
            };
            if open.len() > MAX_DEPTH {
                return Err(error(format!("exceeded max depth of {MAX_DEPTH}"), mark));
            }
            if open.last().is_none_or(|(parent, _)| *parent != id) {
                tree.link(&mut open, id);
                if open.is_empty() {
                    break;
                }
            }
        }
        // The end of the document is part of it: what stands after its content must be readable.
        parser.next_event()?;
        Ok((!tree.nodes.is_empty()).then_some((tree, 0)))
    }

    fn push(&mut self, kind: NodeKind<'a>, mark: Mark, anchor: Option<&'a str>) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node { kind, line: mark.line + 1, column: mark.column + 1, next: None });
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        id
    }

    /// Makes a node the last child of the collection that is open.
    fn link(&mut self, open: &mut [(NodeId, Option<NodeId>)], id: NodeId) {
        let Some((parent, last)) = open.last_mut() else { return };
        if let Some(node) = last.and_then(|last| self.nodes.get_mut(last)) {
            node.next = Some(id);
        } else if let Some(NodeKind::Sequence { first } | NodeKind::Mapping { first }) =
            self.nodes.get_mut(*parent).map(|node| &mut node.kind)
        {
            *first = Some(id);
        }
        *last = Some(id);
    }
}

fn error(problem: impl Into<String>, mark: Mark) -> Error {
    Error::Value { problem: problem.into(), line: mark.line + 1, column: mark.column + 1 }
}
