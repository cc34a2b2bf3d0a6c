//! Tokens to events: the documents, collections and scalars of the text in order.

use crate::Error;
use crate::scanner::Scanner;
use crate::token::{Mark, TokenKind};
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventKind<'a>,
    pub(crate) anchor: Option<&'a str>,
    pub(crate) tag: Option<Cow<'a, str>>,
    pub(crate) start: Mark,
}

#[derive(Debug)]
pub(crate) enum EventKind<'a> {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(&'a str),
    /// `plain`: the value may be another type than a string.
    Scalar {
        value: Cow<'a, str>,
        plain: bool,
    },
    SequenceStart,
    SequenceEnd,
    MappingStart,
    MappingEnd,
}

#[derive(Debug, Clone, Copy)]
enum State {
    ImplicitDocumentStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceFirstEntry,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingFirstKey,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirstEntry,
    FlowSequenceEntry,
    FlowSequenceEntryMappingKey,
    FlowSequenceEntryMappingValue,
    FlowSequenceEntryMappingEnd,
    FlowMappingFirstKey,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

pub(crate) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: Vec<State>,
    marks: Vec<Mark>,
    tags: Vec<(&'a str, Cow<'a, str>)>,
}

/// What the next token is, without its content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    StreamEnd,
    Directive,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    Tag,
    Scalar,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, bad: Option<&'static str>) -> Self {
        Self {
            scanner: Scanner::new(text, bad),
            state: State::ImplicitDocumentStart,
            states: Vec::new(),
            marks: Vec::new(),
            tags: Vec::new(),
        }
    }

    pub(crate) fn next_event(&mut self) -> Result<Event<'a>, Error> {
        match self.state {
            State::ImplicitDocumentStart => self.document_start(true),
            State::DocumentStart => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(true, false),
            State::BlockSequenceFirstEntry => self.block_sequence_entry(true),
            State::BlockSequenceEntry => self.block_sequence_entry(false),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingFirstKey => self.block_mapping_key(true),
            State::BlockMappingKey => self.block_mapping_key(false),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirstEntry => self.flow_sequence_entry(true),
            State::FlowSequenceEntry => self.flow_sequence_entry(false),
            State::FlowSequenceEntryMappingKey => self.flow_sequence_entry_mapping_key(),
            State::FlowSequenceEntryMappingValue => self.flow_sequence_entry_mapping_value(),
            State::FlowSequenceEntryMappingEnd => {
                self.state = State::FlowSequenceEntry;
                let (_, start, _) = self.peek()?;
                Ok(event(EventKind::MappingEnd, start))
            }
            State::FlowMappingFirstKey => self.flow_mapping_key(true),
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(false),
            State::FlowMappingEmptyValue => self.flow_mapping_value(true),
            State::End => Ok(event(EventKind::StreamEnd, Mark::default())),
        }
    }

    fn peek(&mut self) -> Result<(Next, Mark, Mark), Error> {
        let token = self.scanner.peek()?;
        let next = match token.kind {
            TokenKind::StreamEnd => Next::StreamEnd,
            TokenKind::VersionDirective { .. } | TokenKind::TagDirective { .. } => Next::Directive,
            TokenKind::DocumentStart => Next::DocumentStart,
            TokenKind::DocumentEnd => Next::DocumentEnd,
            TokenKind::BlockSequenceStart => Next::BlockSequenceStart,
            TokenKind::BlockMappingStart => Next::BlockMappingStart,
            TokenKind::BlockEnd => Next::BlockEnd,
            TokenKind::FlowSequenceStart => Next::FlowSequenceStart,
            TokenKind::FlowSequenceEnd => Next::FlowSequenceEnd,
            TokenKind::FlowMappingStart => Next::FlowMappingStart,
            TokenKind::FlowMappingEnd => Next::FlowMappingEnd,
            TokenKind::BlockEntry => Next::BlockEntry,
            TokenKind::FlowEntry => Next::FlowEntry,
            TokenKind::Key => Next::Key,
            TokenKind::Value => Next::Value,
            TokenKind::Alias(_) => Next::Alias,
            TokenKind::Anchor(_) => Next::Anchor,
            TokenKind::Tag { .. } => Next::Tag,
            TokenKind::Scalar { .. } => Next::Scalar,
        };
        Ok((next, token.start, token.end))
    }

    fn skip(&mut self) {
        self.scanner.skip();
    }

    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    fn document_start(&mut self, implicit: bool) -> Result<Event<'a>, Error> {
        let (mut next, mut start, _) = self.peek()?;
        if !implicit {
            while next == Next::DocumentEnd {
                self.skip();
                (next, start, _) = self.peek()?;
            }
        }
        match next {
            Next::StreamEnd => {
                self.state = State::End;
                self.skip();
                return Ok(event(EventKind::StreamEnd, start));
            }
            Next::Directive | Next::DocumentStart => {}
            _ if implicit => {
                self.directives()?;
                self.states.push(State::DocumentEnd);
                self.state = State::BlockNode;
                return Ok(event(EventKind::DocumentStart, start));
            }
            _ => {}
        }
        self.directives()?;
        let (next, mark, _) = self.peek()?;
        if next != Next::DocumentStart {
            return Err(syntax("did not find expected <document start>", mark, Mark::default()));
        }
        self.states.push(State::DocumentEnd);
        self.state = State::DocumentContent;
        self.skip();
        Ok(event(EventKind::DocumentStart, start))
    }

    fn document_content(&mut self) -> Result<Event<'a>, Error> {
        let (next, start, _) = self.peek()?;
        match next {
            Next::Directive | Next::DocumentStart | Next::DocumentEnd | Next::StreamEnd => {
                self.pop_state();
                Ok(empty_scalar(start))
            }
            _ => self.node(true, false),
        }
    }

    fn document_end(&mut self) -> Result<Event<'a>, Error> {
        let (next, start, _) = self.peek()?;
        if next == Next::DocumentEnd {
            self.skip();
        }
        self.tags.clear();
        self.state = State::DocumentStart;
        Ok(event(EventKind::DocumentEnd, start))
    }

    fn directives(&mut self) -> Result<(), Error> {
        let mut version_seen = false;
        while let (Next::Directive, mark, _) = self.peek()? {
            match self.scanner.take().map(|token| token.kind) {
                Some(TokenKind::VersionDirective { major, minor }) => {
                    if version_seen {
                        return Err(syntax("found duplicate %YAML directive", mark, Mark::default()));
                    }
                    if (major, minor) != (1, 1) {
                        return Err(syntax("found incompatible YAML document", mark, Mark::default()));
                    }
                    version_seen = true;
                }
                Some(TokenKind::TagDirective { handle, prefix }) => {
                    if self.tags.iter().any(|(known, _)| *known == handle) {
                        return Err(syntax("found duplicate %TAG directive", mark, Mark::default()));
                    }
                    self.tags.push((handle, prefix));
                }
                _ => {}
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", crate::resolve::TAG_PREFIX)] {
            if !self.tags.iter().any(|(known, _)| *known == handle) {
                self.tags.push((handle, Cow::Borrowed(prefix)));
            }
        }
        Ok(())
    }

    /// `block`: block collections are possible here; `indentless`: a sequence that is not indented too.
    fn node(&mut self, block: bool, indentless: bool) -> Result<Event<'a>, Error> {
        let (mut next, start, _) = self.peek()?;
        if next == Next::Alias {
            self.pop_state();
            let name = match self.scanner.take().map(|token| token.kind) {
                Some(TokenKind::Alias(name)) => name,
                _ => "",
            };
            return Ok(event(EventKind::Alias(name), start));
        }
        let mut anchor = None;
        let mut tag = None;
        loop {
            if next == Next::Anchor && anchor.is_none() {
                if let Some(TokenKind::Anchor(name)) = self.scanner.take().map(|token| token.kind) {
                    anchor = Some(name);
                }
            } else if next == Next::Tag && tag.is_none() {
                let (_, mark, _) = self.peek()?;
                if let Some(TokenKind::Tag { handle, suffix }) = self.scanner.take().map(|token| token.kind) {
                    tag = Some((handle, suffix, mark));
                }
            } else {
                break;
            }
            (next, ..) = self.peek()?;
        }
        let tag = match tag {
            None => None,
            Some((handle, suffix, mark)) => Some(self.resolve_tag(handle, suffix, start, mark)?),
        };
        let kind = match next {
            Next::BlockEntry if indentless => {
                self.state = State::IndentlessSequenceEntry;
                EventKind::SequenceStart
            }
            Next::Scalar => {
                let (value, plain) = match self.scanner.take().map(|token| token.kind) {
                    Some(TokenKind::Scalar { value, plain }) => (value, plain),
                    _ => (Cow::Borrowed(""), true),
                };
                self.pop_state();
                let plain = match tag.as_deref() {
                    None => plain,
                    Some(tag) => tag == "!",
                };
                EventKind::Scalar { value, plain }
            }
            Next::FlowSequenceStart => {
                self.state = State::FlowSequenceFirstEntry;
                EventKind::SequenceStart
            }
            Next::FlowMappingStart => {
                self.state = State::FlowMappingFirstKey;
                EventKind::MappingStart
            }
            Next::BlockSequenceStart if block => {
                self.state = State::BlockSequenceFirstEntry;
                EventKind::SequenceStart
            }
            Next::BlockMappingStart if block => {
                self.state = State::BlockMappingFirstKey;
                EventKind::MappingStart
            }
            _ if anchor.is_some() || tag.is_some() => {
                self.pop_state();
                EventKind::Scalar { value: Cow::Borrowed(""), plain: tag.is_none() }
            }
            _ => {
                let (_, mark, _) = self.peek()?;
                return Err(syntax("did not find expected node content", mark, start));
            }
        };
        Ok(Event { kind, anchor, tag, start })
    }

    fn resolve_tag(
        &self,
        handle: &str,
        suffix: Cow<'a, str>,
        start: Mark,
        mark: Mark,
    ) -> Result<Cow<'a, str>, Error> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        match self.tags.iter().find(|(known, _)| *known == handle) {
            Some((_, prefix)) => Ok(Cow::Owned(format!("{prefix}{suffix}"))),
            None => Err(syntax("found undefined tag handle", mark, start)),
        }
    }

    fn open(&mut self, first: bool) -> Result<(), Error> {
        if first {
            let (_, start, _) = self.peek()?;
            self.marks.push(start);
            self.skip();
        }
        Ok(())
    }

    fn close(&mut self, kind: EventKind<'a>, start: Mark) -> Event<'a> {
        self.pop_state();
        self.marks.pop();
        self.skip();
        event(kind, start)
    }

    /// An error about the collection that is open.
    fn collection_error(&mut self, problem: &str, mark: Mark) -> Error {
        let context = self.marks.pop().unwrap_or_default();
        syntax(problem, mark, context)
    }

    fn block_sequence_entry(&mut self, first: bool) -> Result<Event<'a>, Error> {
        self.open(first)?;
        let (next, start, end) = self.peek()?;
        match next {
            Next::BlockEntry => {
                self.skip();
                let (next, ..) = self.peek()?;
                if matches!(next, Next::BlockEntry | Next::BlockEnd) {
                    self.state = State::BlockSequenceEntry;
                    return Ok(empty_scalar(end));
                }
                self.states.push(State::BlockSequenceEntry);
                self.node(true, false)
            }
            Next::BlockEnd => Ok(self.close(EventKind::SequenceEnd, start)),
            _ => Err(self.collection_error("did not find expected '-' indicator", start)),
        }
    }

    fn indentless_sequence_entry(&mut self) -> Result<Event<'a>, Error> {
        let (next, start, end) = self.peek()?;
        if next != Next::BlockEntry {
            self.pop_state();
            return Ok(event(EventKind::SequenceEnd, start));
        }
        self.skip();
        let (next, ..) = self.peek()?;
        if matches!(next, Next::BlockEntry | Next::Key | Next::Value | Next::BlockEnd) {
            self.state = State::IndentlessSequenceEntry;
            return Ok(empty_scalar(end));
        }
        self.states.push(State::IndentlessSequenceEntry);
        self.node(true, false)
    }

    fn block_mapping_key(&mut self, first: bool) -> Result<Event<'a>, Error> {
        self.open(first)?;
        let (next, start, end) = self.peek()?;
        match next {
            Next::Key => {
                self.skip();
                let (next, ..) = self.peek()?;
                if matches!(next, Next::Key | Next::Value | Next::BlockEnd) {
                    self.state = State::BlockMappingValue;
                    return Ok(empty_scalar(end));
                }
                self.states.push(State::BlockMappingValue);
                self.node(true, true)
            }
            Next::BlockEnd => Ok(self.close(EventKind::MappingEnd, start)),
            _ => Err(self.collection_error("did not find expected key", start)),
        }
    }

    fn block_mapping_value(&mut self) -> Result<Event<'a>, Error> {
        let (next, start, end) = self.peek()?;
        if next != Next::Value {
            self.state = State::BlockMappingKey;
            return Ok(empty_scalar(start));
        }
        self.skip();
        let (next, ..) = self.peek()?;
        if matches!(next, Next::Key | Next::Value | Next::BlockEnd) {
            self.state = State::BlockMappingKey;
            return Ok(empty_scalar(end));
        }
        self.states.push(State::BlockMappingKey);
        self.node(true, true)
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Result<Event<'a>, Error> {
        self.open(first)?;
        let (mut next, mut start, _) = self.peek()?;
        if next != Next::FlowSequenceEnd {
            if !first {
                if next != Next::FlowEntry {
                    return Err(self.collection_error("did not find expected ',' or ']'", start));
                }
                self.skip();
                (next, start, _) = self.peek()?;
            }
            if next == Next::Key {
                self.state = State::FlowSequenceEntryMappingKey;
                self.skip();
                return Ok(event(EventKind::MappingStart, start));
            }
            if next != Next::FlowSequenceEnd {
                self.states.push(State::FlowSequenceEntry);
                return self.node(false, false);
            }
        }
        Ok(self.close(EventKind::SequenceEnd, start))
    }

    fn flow_sequence_entry_mapping_key(&mut self) -> Result<Event<'a>, Error> {
        let (next, _, end) = self.peek()?;
        if !matches!(next, Next::Value | Next::FlowEntry | Next::FlowSequenceEnd) {
            self.states.push(State::FlowSequenceEntryMappingValue);
            return self.node(false, false);
        }
        self.skip();
        self.state = State::FlowSequenceEntryMappingValue;
        Ok(empty_scalar(end))
    }

    fn flow_sequence_entry_mapping_value(&mut self) -> Result<Event<'a>, Error> {
        let (next, start, _) = self.peek()?;
        if next == Next::Value {
            self.skip();
            let (next, ..) = self.peek()?;
            if !matches!(next, Next::FlowEntry | Next::FlowSequenceEnd) {
                self.states.push(State::FlowSequenceEntryMappingEnd);
                return self.node(false, false);
            }
        }
        self.state = State::FlowSequenceEntryMappingEnd;
        Ok(empty_scalar(start))
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<Event<'a>, Error> {
        self.open(first)?;
        let (mut next, mut start, _) = self.peek()?;
        if next != Next::FlowMappingEnd {
            if !first {
                if next != Next::FlowEntry {
                    return Err(self.collection_error("did not find expected ',' or '}'", start));
                }
                self.skip();
                (next, start, _) = self.peek()?;
            }
            if next == Next::Key {
                self.skip();
                (next, start, _) = self.peek()?;
                if matches!(next, Next::Value | Next::FlowEntry | Next::FlowMappingEnd) {
                    self.state = State::FlowMappingValue;
                    return Ok(empty_scalar(start));
                }
                self.states.push(State::FlowMappingValue);
                return self.node(false, false);
            }
            if next != Next::FlowMappingEnd {
                self.states.push(State::FlowMappingEmptyValue);
                return self.node(false, false);
            }
        }
        Ok(self.close(EventKind::MappingEnd, start))
    }

    fn flow_mapping_value(&mut self, empty: bool) -> Result<Event<'a>, Error> {
        let (next, mut start, _) = self.peek()?;
        if !empty && next == Next::Value {
            self.skip();
            let (next, mark, _) = self.peek()?;
            start = mark;
            if !matches!(next, Next::FlowEntry | Next::FlowMappingEnd) {
                self.states.push(State::FlowMappingKey);
                return self.node(false, false);
            }
        }
        self.state = State::FlowMappingKey;
        Ok(empty_scalar(start))
    }
}

fn event(kind: EventKind<'_>, start: Mark) -> Event<'_> {
    Event { kind, anchor: None, tag: None, start }
}

fn empty_scalar<'a>(start: Mark) -> Event<'a> {
    event(EventKind::Scalar { value: Cow::Borrowed(""), plain: true }, start)
}

/// The error of a parser: Go's text names the line before the problem.
fn syntax(problem: &str, mark: Mark, context: Mark) -> Error {
    let reported_line = if mark.line != 0 { mark.line } else { context.line };
    Error::Syntax { problem: problem.to_owned(), reported_line, line: mark.line + 1, column: mark.column + 1 }
}
