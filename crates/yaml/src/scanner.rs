//! Text to tokens. The rules are libyaml's, with the limits and messages of Go's package.

use crate::Error;
use crate::chars::{Bytes, width};
use crate::token::{Mark, Token, TokenKind};
use std::collections::VecDeque;

/// Depth of flow collections and of block collections that Go's package accepts.
const MAX_LEVEL: usize = 10_000;
/// A key without `?` must end within this many characters.
const MAX_SIMPLE_KEY: usize = 1024;

pub(crate) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: Bytes<'a>,
    pub(super) bad: Option<&'static str>,
    pub(super) at: usize,
    line: usize,
    line_start: usize,
    /// Bytes that are not the first of their character: before `at`, and before `line_start`.
    continued: usize,
    line_continued: usize,

    tokens: VecDeque<Token<'a>>,
    tokens_parsed: usize,
    head_is_ready: bool,

    pub(super) flow_level: usize,
    /// Column of the current block collection; -1 outside of one.
    pub(super) indent: isize,
    indents: Vec<isize>,
    pub(super) simple_key_allowed: bool,
    simple_keys: Vec<SimpleKey>,
    stream_ended: bool,
}

/// A place where a key may have begun: known only once the `:` is seen.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    /// Known as a key that keeps its token from being handed out; closing an empty collection takes this from
    /// the key that the collection itself may be.
    holds: bool,
    token: usize,
    mark: Mark,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, bad: Option<&'static str>) -> Self {
        Self {
            text,
            bytes: Bytes(text.as_bytes()),
            bad,
            at: 0,
            line: 0,
            line_start: 0,
            continued: 0,
            line_continued: 0,
            tokens: VecDeque::with_capacity(16),
            tokens_parsed: 0,
            head_is_ready: false,
            flow_level: 0,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            stream_ended: false,
        }
    }

    /// The next token; after the end of the stream, its end again.
    pub(crate) fn peek(&mut self) -> Result<&Token<'a>, Error> {
        if !self.head_is_ready {
            self.fetch_more()?;
        }
        let mark = self.mark();
        self.tokens.front().ok_or_else(|| syntax("unexpected end of stream", mark, mark))
    }

    pub(crate) fn skip(&mut self) {
        if matches!(self.tokens.front(), Some(Token { kind: TokenKind::StreamEnd, .. })) {
            return;
        }
        self.take();
    }

    pub(crate) fn take(&mut self) -> Option<Token<'a>> {
        self.head_is_ready = false;
        self.tokens_parsed += 1;
        self.tokens.pop_front()
    }

    #[inline]
    pub(super) fn column(&self) -> usize {
        (self.at - self.line_start) - (self.continued - self.line_continued)
    }

    #[inline]
    pub(super) fn mark(&self) -> Mark {
        Mark { index: self.at - self.continued, line: self.line, column: self.column() }
    }

    /// Steps over one character.
    #[inline]
    pub(super) fn step(&mut self) {
        let width = width(self.bytes.at(self.at));
        self.at += width;
        self.continued += width - 1;
    }

    /// Steps over characters of one byte each.
    #[inline]
    pub(super) fn step_ascii(&mut self, count: usize) {
        self.at += count;
    }

    /// Steps over a line break and says how it reads in a value.
    pub(super) fn step_break(&mut self) -> &'static str {
        let (width, reads) = match self.bytes.at(self.at) {
            b'\r' if self.bytes.at(self.at + 1) == b'\n' => (2, "\n"),
            b'\r' | b'\n' => (1, "\n"),
            0xc2 => (2, "\n"),
            _ if self.bytes.at(self.at + 2) == 0xa8 => (3, "\u{2028}"),
            _ => (3, "\u{2029}"),
        };
        self.continued += match self.bytes.at(self.at) {
            0x80.. => width - 1,
            _ => 0,
        };
        self.at += width;
        self.line += 1;
        self.line_start = self.at;
        self.line_continued = self.continued;
        reads
    }

    pub(super) fn skip_blanks(&mut self) {
        while self.bytes.is_blank(self.at) {
            self.step_ascii(1);
        }
    }

    pub(super) fn skip_comment(&mut self) {
        if self.bytes.at(self.at) == b'#' {
            self.skip_to_line_end();
        }
    }

    /// Steps over everything up to a line break or the end of the text.
    pub(super) fn skip_to_line_end(&mut self) {
        loop {
            let rest = self.bytes.0.get(self.at..).unwrap_or_default();
            let plain = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r' | 0x80..));
            self.step_ascii(plain.unwrap_or(rest.len()));
            if self.bytes.is_break_or_end(self.at) {
                return;
            }
            self.step();
        }
    }

    pub(super) fn error(&self, context: Mark, problem: impl Into<String>) -> Error {
        match self.bad {
            Some(bad) if self.bytes.is_end(self.at) => self.unreadable(bad),
            _ => syntax(problem, self.mark(), context),
        }
    }

    fn unreadable(&self, bad: &str) -> Error {
        let mark = self.mark();
        Error::Syntax {
            problem: bad.to_owned(),
            reported_line: 0,
            line: mark.line + 1,
            column: mark.column + 1,
        }
    }

    fn fetch_more(&mut self) -> Result<(), Error> {
        loop {
            if !self.tokens.is_empty() {
                // The head may still turn out to be a key, and a KEY token then goes before it.
                let first = self.simple_keys.partition_point(|key| key.token < self.tokens_parsed);
                let candidate = (first..self.simple_keys.len())
                    .take_while(|i| {
                        self.simple_keys.get(*i).is_some_and(|key| key.token == self.tokens_parsed)
                    })
                    .find(|i| self.simple_keys.get(*i).is_some_and(|key| key.possible && key.holds));
                match candidate {
                    None => break,
                    Some(i) => {
                        if !self.simple_key_is_valid(i)? {
                            break;
                        }
                    }
                }
            }
            self.fetch_next()?;
            if let Some(bad) = self.bad
                && self.bytes.is_end(self.at)
            {
                return Err(self.unreadable(bad));
            }
        }
        self.head_is_ready = true;
        Ok(())
    }

    fn fetch_next(&mut self) -> Result<(), Error> {
        self.scan_to_next_token();
        if let Some(bad) = self.bad
            && self.bytes.is_end(self.at)
        {
            return Err(self.unreadable(bad));
        }
        let column = self.column();
        self.unroll_indent(column as isize);

        let bytes = self.bytes;
        let at = self.at;
        if bytes.is_end(at) {
            return self.fetch_stream_end();
        }
        if column == 0 {
            if bytes.at(at) == b'%' {
                return self.fetch_directive();
            }
            if bytes.is_document_indicator(at) {
                return self.fetch_document_indicator(bytes.at(at) == b'-');
            }
        }
        let in_flow = self.flow_level > 0;
        match bytes.at(at) {
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.push_indicator(TokenKind::FlowEntry);
                Ok(())
            }
            b'-' if bytes.is_blank_or_end(at + 1) => self.fetch_block_entry(),
            b'?' if in_flow || bytes.is_blank_or_end(at + 1) => self.fetch_key(),
            b':' if in_flow || bytes.is_blank_or_end(at + 1) => self.fetch_value(),
            b'*' | b'&' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                let token = self.scan_anchor(bytes.at(at) == b'*')?;
                self.tokens.push_back(token);
                Ok(())
            }
            b'!' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                let token = self.scan_tag()?;
                self.tokens.push_back(token);
                Ok(())
            }
            b'|' | b'>' if !in_flow => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                let token = self.scan_block_scalar(bytes.at(at) == b'|')?;
                self.tokens.push_back(token);
                Ok(())
            }
            b'\'' | b'"' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                let token = self.scan_quoted_scalar(bytes.at(at) == b'\'')?;
                self.tokens.push_back(token);
                Ok(())
            }
            first => {
                let starts_plain = match first {
                    b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => false,
                    b'-' => !bytes.is_blank(at + 1),
                    b'?' | b':' => !in_flow && !bytes.is_blank_or_end(at + 1),
                    _ => !bytes.is_blank_or_end(at),
                };
                if !starts_plain {
                    let mark = self.mark();
                    return Err(self.error(mark, "found character that cannot start any token"));
                }
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                let token = self.scan_plain_scalar()?;
                self.tokens.push_back(token);
                Ok(())
            }
        }
    }

    fn scan_to_next_token(&mut self) {
        if self.at == 0 && self.text.starts_with('\u{feff}') {
            self.step();
        }
        loop {
            loop {
                match self.bytes.at(self.at) {
                    b' ' => self.step_ascii(1),
                    // A tab may not indent, nor stand between an indicator and a nested block collection.
                    b'\t' if self.flow_level > 0 || !self.simple_key_allowed => self.step_ascii(1),
                    _ => break,
                }
            }
            self.skip_comment();
            if !self.bytes.is_break(self.at) {
                return;
            }
            self.step_break();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    fn simple_key_is_valid(&mut self, i: usize) -> Result<bool, Error> {
        let mark = self.mark();
        let Some(key) = self.simple_keys.get_mut(i).filter(|key| key.possible) else { return Ok(false) };
        if key.mark.line < mark.line || key.mark.index + MAX_SIMPLE_KEY < mark.index {
            let start = key.mark;
            if key.required {
                return Err(self.error(start, "could not find expected ':'"));
            }
            key.possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn next_token_number(&self) -> usize {
        self.tokens_parsed + self.tokens.len()
    }

    fn save_simple_key(&mut self) -> Result<(), Error> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        self.remove_simple_key()?;
        let mark = self.mark();
        let key = SimpleKey {
            possible: true,
            holds: true,
            required: self.flow_level == 0 && self.indent == mark.column as isize,
            token: self.next_token_number(),
            mark,
        };
        if let Some(last) = self.simple_keys.last_mut() {
            *last = key;
        }
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Result<(), Error> {
        let Some(key) = self.simple_keys.last_mut().filter(|key| key.possible) else { return Ok(()) };
        if key.required {
            let start = key.mark;
            return Err(self.error(start, "could not find expected ':'"));
        }
        key.possible = false;
        Ok(())
    }

    fn insert(&mut self, number: Option<usize>, kind: TokenKind<'a>, mark: Mark) {
        let at =
            number.and_then(|number| number.checked_sub(self.tokens_parsed)).unwrap_or(self.tokens.len());
        self.tokens.insert(at.min(self.tokens.len()), Token { kind, start: mark, end: mark });
    }

    fn push_indicator(&mut self, kind: TokenKind<'a>) {
        let start = self.mark();
        self.step_ascii(1);
        let end = self.mark();
        self.tokens.push_back(Token { kind, start, end });
    }

    /// Opens a block collection when the column is right of the current one.
    fn roll_indent(
        &mut self,
        column: usize,
        number: Option<usize>,
        kind: TokenKind<'a>,
        mark: Mark,
    ) -> Result<(), Error> {
        if self.flow_level > 0 || self.indent >= column as isize {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column as isize;
        if self.indents.len() > MAX_LEVEL {
            let context = self.simple_keys.last().map_or(mark, |key| key.mark);
            return Err(self.error(context, format!("exceeded max depth of {MAX_LEVEL}")));
        }
        self.insert(number, kind, mark);
        Ok(())
    }

    /// Closes the block collections that are right of the column.
    fn unroll_indent(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            let mark = self.mark();
            self.tokens.push_back(Token { kind: TokenKind::BlockEnd, start: mark, end: mark });
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch_stream_end(&mut self) -> Result<(), Error> {
        if self.column() != 0 {
            self.line += 1;
            self.line_start = self.at;
            self.line_continued = self.continued;
        }
        if !self.stream_ended {
            self.unroll_indent(-1);
            self.remove_simple_key()?;
            self.simple_key_allowed = false;
            self.stream_ended = true;
        }
        let mark = self.mark();
        self.tokens.push_back(Token { kind: TokenKind::StreamEnd, start: mark, end: mark });
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), Error> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let token = self.scan_directive()?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_document_indicator(&mut self, starts: bool) -> Result<(), Error> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark();
        self.step_ascii(3);
        let kind = if starts { TokenKind::DocumentStart } else { TokenKind::DocumentEnd };
        let end = self.mark();
        self.tokens.push_back(Token { kind, start, end });
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: TokenKind<'a>) -> Result<(), Error> {
        self.save_simple_key()?;
        let mark = self.mark();
        self.simple_keys.push(SimpleKey { token: self.next_token_number(), mark, ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_LEVEL {
            return Err(self.error(mark, format!("exceeded max depth of {MAX_LEVEL}")));
        }
        self.simple_key_allowed = true;
        self.push_indicator(kind);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenKind<'a>) -> Result<(), Error> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let (Some(closed), Some(outer)) = (self.simple_keys.pop(), self.simple_keys.last_mut())
                && closed.token == outer.token
            {
                outer.holds = false;
            }
        }
        self.simple_key_allowed = false;
        self.push_indicator(kind);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Error> {
        if self.flow_level == 0 {
            let mark = self.mark();
            if !self.simple_key_allowed {
                return Err(self.error(mark, "block sequence entries are not allowed in this context"));
            }
            self.roll_indent(mark.column, None, TokenKind::BlockSequenceStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(TokenKind::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Error> {
        if self.flow_level == 0 {
            let mark = self.mark();
            if !self.simple_key_allowed {
                return Err(self.error(mark, "mapping keys are not allowed in this context"));
            }
            self.roll_indent(mark.column, None, TokenKind::BlockMappingStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.push_indicator(TokenKind::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        let last = self.simple_keys.len().saturating_sub(1);
        if self.simple_key_is_valid(last)? {
            let key = self.simple_keys.get(last).copied().unwrap_or_default();
            self.insert(Some(key.token), TokenKind::Key, key.mark);
            self.roll_indent(key.mark.column, Some(key.token), TokenKind::BlockMappingStart, key.mark)?;
            if let Some(key) = self.simple_keys.last_mut() {
                key.possible = false;
            }
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                let mark = self.mark();
                if !self.simple_key_allowed {
                    return Err(self.error(mark, "mapping values are not allowed in this context"));
                }
                self.roll_indent(mark.column, None, TokenKind::BlockMappingStart, mark)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.push_indicator(TokenKind::Value);
        Ok(())
    }
}

/// The error of a scanner: Go's text names the line of the problem, but not the first line.
pub(super) fn syntax(problem: impl Into<String>, mark: Mark, context: Mark) -> Error {
    let reported_line = if mark.line != 0 { mark.line + 1 } else { context.line };
    Error::Syntax { problem: problem.into(), reported_line, line: mark.line + 1, column: mark.column + 1 }
}
