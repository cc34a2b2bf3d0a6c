//! Splits a template's text into tokens, in one pass and without copying.
//!
//! The rules are those of Go's text/template/parse: what is a token, where `{{-` and `-}}` trim, and
//! which texts are refused with which words.

use memchr::{memchr_iter, memmem};

use crate::quote::quote;
use crate::rune::{decode_rune, is_digit, is_letter, is_print};

const LEFT: &[u8] = b"{{";
const RIGHT: &[u8] = b"}}";

/// What a token is. The order matters: all after `Keyword` are keywords.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The lexer's [`Lexer::error`].
    Error,
    Bool,
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Keyword,
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

/// A token: `text[start..end]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Reads tokens on demand.
#[derive(Debug)]
pub(crate) struct Lexer<'t> {
    text: &'t [u8],
    pos: usize,
    start: usize,
    inside_action: bool,
    paren_depth: usize,
    /// `break` and `continue` are keywords unless functions of these names are there.
    pub(crate) break_ok: bool,
    pub(crate) continue_ok: bool,
    error: String,
    left: memmem::Finder<'static>,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            pos: 0,
            start: 0,
            inside_action: false,
            paren_depth: 0,
            break_ok: true,
            continue_ok: true,
            error: String::new(),
            left: memmem::Finder::new(LEFT),
        }
    }

    /// The bytes of a token.
    pub(crate) fn bytes(&self, token: Token) -> &'t [u8] {
        self.text.get(token.start..token.end).unwrap_or_default()
    }

    /// The line on which a position is, from 1.
    pub(crate) fn line(&self, pos: usize) -> u32 {
        let before = self.text.get(..pos).unwrap_or(self.text);
        u32::try_from(memchr_iter(b'\n', before).count()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// How Go names a token in an error text.
    pub(crate) fn describe(&self, token: Token) -> String {
        let bytes = self.bytes(token);
        match token.kind {
            Kind::Eof => "EOF".into(),
            Kind::Error => self.error.clone(),
            kind if kind > Kind::Keyword => format!("<{}>", String::from_utf8_lossy(bytes)),
            _ if bytes.len() > 10 => {
                let mut cut = 0;
                for _ in 0..10 {
                    cut += bytes.get(cut..).and_then(decode_rune).map_or(0, |(_, width)| width);
                }
                let head = quote(bytes.get(..cut).unwrap_or(bytes));
                format!("{}...", String::from_utf8_lossy(&head))
            }
            _ => String::from_utf8_lossy(&quote(bytes)).into_owned(),
        }
    }

    fn rest(&self) -> &'t [u8] {
        self.text.get(self.pos..).unwrap_or_default()
    }

    fn after(&self, offset: usize) -> &'t [u8] {
        self.text.get(self.pos + offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        decode_rune(self.rest()).map(|(rune, _)| rune)
    }

    fn next(&mut self) -> Option<char> {
        let (rune, width) = decode_rune(self.rest())?;
        self.pos += width;
        Some(rune)
    }

    fn emit(&mut self, kind: Kind) -> Token {
        let token = Token { kind, start: self.start, end: self.pos };
        self.start = self.pos;
        token
    }

    fn fail(&mut self, message: impl Into<String>) -> Token {
        self.error = message.into();
        let token = Token { kind: Kind::Error, start: self.start, end: self.start };
        self.pos = self.text.len();
        self.start = self.pos;
        token
    }

    /// The next token; `Eof` for ever at the end.
    pub(crate) fn next_token(&mut self) -> Token {
        if self.inside_action { self.action() } else { self.text_or_delim() }
    }

    fn text_or_delim(&mut self) -> Token {
        loop {
            let Some(ahead) = self.left.find(self.rest()) else {
                self.pos = self.text.len();
                if self.pos > self.start {
                    return self.emit(Kind::Text);
                }
                return self.emit(Kind::Eof);
            };
            if ahead > 0 {
                let delim = self.pos + ahead;
                self.pos = delim;
                let body = self.text.get(self.start..delim).unwrap_or_default();
                let trimmed =
                    if has_left_trim(self.after(LEFT.len())) { trim_end(body).len() } else { body.len() };
                let token = Token { kind: Kind::Text, start: self.start, end: self.start + trimmed };
                self.start = delim;
                if trimmed > 0 {
                    return token;
                }
            }
            // At a left delimiter, perhaps with a trim marker.
            self.pos += LEFT.len();
            let marker = if has_left_trim(self.rest()) { 2 } else { 0 };
            if self.after(marker).starts_with(b"/*") {
                self.pos += marker;
                self.start = self.pos;
                if let Some(error) = self.comment() {
                    return error;
                }
                continue;
            }
            let token = self.emit(Kind::LeftDelim);
            self.inside_action = true;
            self.pos += marker;
            self.start = self.pos;
            self.paren_depth = 0;
            return token;
        }
    }

    // Skips a comment; gives a token only when it is broken.
    fn comment(&mut self) -> Option<Token> {
        self.pos += 2;
        let Some(end) = memmem::find(self.rest(), b"*/") else {
            return Some(self.fail("unclosed comment"));
        };
        self.pos += end + 2;
        let Some(trim) = self.at_right_delim() else {
            return Some(self.fail("comment ends before closing delimiter"));
        };
        if trim {
            self.pos += 2;
        }
        self.pos += RIGHT.len();
        if trim {
            self.skip_space();
        }
        self.start = self.pos;
        None
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.pos += rest.len() - trim_start(rest).len();
    }

    // Whether a right delimiter is here, and whether it trims.
    fn at_right_delim(&self) -> Option<bool> {
        if has_right_trim(self.rest()) && self.after(2).starts_with(RIGHT) {
            return Some(true);
        }
        self.rest().starts_with(RIGHT).then_some(false)
    }

    fn right_delim(&mut self, trim: bool) -> Token {
        if trim {
            self.pos += 2;
            self.start = self.pos;
        }
        self.pos += RIGHT.len();
        let token = self.emit(Kind::RightDelim);
        if trim {
            self.skip_space();
            self.start = self.pos;
        }
        self.inside_action = false;
        token
    }

    fn action(&mut self) -> Token {
        if let Some(trim) = self.at_right_delim() {
            if self.paren_depth == 0 {
                return self.right_delim(trim);
            }
            return self.fail("unclosed left paren");
        }
        let Some(rune) = self.next() else { return self.fail("unclosed action") };
        match rune {
            ' ' | '\t' | '\r' | '\n' => self.space(),
            '=' => self.emit(Kind::Assign),
            ':' => {
                if self.next() == Some('=') {
                    self.emit(Kind::Declare)
                } else {
                    self.fail("expected :=")
                }
            }
            '|' => self.emit(Kind::Pipe),
            '"' => self.quoted('"', Kind::String, "unterminated quoted string"),
            '`' => self.raw_string(),
            '\'' => self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '$' => self.field_or_variable(Kind::Variable),
            '.' if self.rest().first().is_some_and(|b| !b.is_ascii_digit()) => {
                self.field_or_variable(Kind::Field)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.pos -= 1;
                self.number()
            }
            '(' => {
                self.paren_depth += 1;
                self.emit(Kind::LeftParen)
            }
            ')' => match self.paren_depth.checked_sub(1) {
                Some(depth) => {
                    self.paren_depth = depth;
                    self.emit(Kind::RightParen)
                }
                None => self.fail("unexpected right paren"),
            },
            _ if is_alphanumeric(rune) => self.identifier(),
            _ if rune.is_ascii() && is_print(rune) => self.emit(Kind::Char),
            _ => {
                let shown = code_point(rune);
                self.fail(format!("unrecognized character in action: {shown}"))
            }
        }
    }

    // A run of space; the last of it may belong to a trimming right delimiter.
    fn space(&mut self) -> Token {
        while self.rest().first().is_some_and(|b| is_space(*b)) {
            self.pos += 1;
        }
        let last = self.pos - 1;
        let tail = self.text.get(last..).unwrap_or_default();
        if has_right_trim(tail) && tail.get(2..).is_some_and(|t| t.starts_with(RIGHT)) {
            self.pos = last;
            if self.pos == self.start {
                return self.right_delim(true);
            }
        }
        self.emit(Kind::Space)
    }

    fn identifier(&mut self) -> Token {
        let next = self.skip_alphanumeric();
        if !self.at_terminator() {
            return self.bad_character(next);
        }
        let word = self.text.get(self.start..self.pos).unwrap_or_default();
        let kind = match word {
            b"block" => Kind::Block,
            b"break" if self.break_ok => Kind::Break,
            b"continue" if self.continue_ok => Kind::Continue,
            b"define" => Kind::Define,
            b"else" => Kind::Else,
            b"end" => Kind::End,
            b"if" => Kind::If,
            b"range" => Kind::Range,
            b"nil" => Kind::Nil,
            b"template" => Kind::Template,
            b"with" => Kind::With,
            b"true" | b"false" => Kind::Bool,
            _ => Kind::Identifier,
        };
        self.emit(kind)
    }

    fn field_or_variable(&mut self, kind: Kind) -> Token {
        if self.at_terminator() {
            return self.emit(if kind == Kind::Variable { kind } else { Kind::Dot });
        }
        let next = self.skip_alphanumeric();
        if !self.at_terminator() {
            return self.bad_character(next);
        }
        self.emit(kind)
    }

    // Skips letters and digits; gives the rune after them.
    fn skip_alphanumeric(&mut self) -> Option<char> {
        loop {
            match decode_rune(self.rest()) {
                Some((rune, width)) if is_alphanumeric(rune) => self.pos += width,
                other => return other.map(|(rune, _)| rune),
            }
        }
    }

    fn bad_character(&mut self, rune: Option<char>) -> Token {
        let shown = rune.map_or_else(|| "U+FFFFFFFFFFFFFFFF".to_owned(), code_point);
        self.fail(format!("bad character {shown}"))
    }

    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(_) => self.rest().starts_with(RIGHT),
        }
    }

    fn quoted(&mut self, mark: char, kind: Kind, unterminated: &str) -> Token {
        loop {
            match self.next() {
                Some('\\') => {
                    if matches!(self.next(), None | Some('\n')) {
                        return self.fail(unterminated);
                    }
                }
                None | Some('\n') => return self.fail(unterminated),
                Some(rune) if rune == mark => return self.emit(kind),
                Some(_) => {}
            }
        }
    }

    fn raw_string(&mut self) -> Token {
        match memchr::memchr(b'`', self.rest()) {
            Some(end) => {
                self.pos += end + 1;
                self.emit(Kind::RawString)
            }
            None => self.fail("unterminated raw quoted string"),
        }
    }

    fn number(&mut self) -> Token {
        if !self.scan_number() {
            return self.bad_number();
        }
        if matches!(self.rest().first(), Some(b'+' | b'-')) {
            // A complex number: no spaces, and it ends in `i`.
            if !self.scan_number() || self.text.get(self.pos - 1) != Some(&b'i') {
                return self.bad_number();
            }
            return self.emit(Kind::Complex);
        }
        self.emit(Kind::Number)
    }

    fn bad_number(&mut self) -> Token {
        let text = quote(self.text.get(self.start..self.pos).unwrap_or_default());
        self.fail(format!("bad number syntax: {}", String::from_utf8_lossy(&text)))
    }

    fn accept(&mut self, valid: &[u8]) -> bool {
        let found = self.rest().first().is_some_and(|b| valid.contains(b));
        if found {
            self.pos += 1;
        }
        found
    }

    fn accept_run(&mut self, valid: &[u8]) {
        while self.accept(valid) {}
    }

    fn scan_number(&mut self) -> bool {
        self.accept(b"+-");
        let mut digits: &[u8] = b"0123456789_";
        if self.accept(b"0") {
            if self.accept(b"xX") {
                digits = b"0123456789abcdefABCDEF_";
            } else if self.accept(b"oO") {
                digits = b"01234567_";
            } else if self.accept(b"bB") {
                digits = b"01_";
            }
        }
        self.accept_run(digits);
        if self.accept(b".") {
            self.accept_run(digits);
        }
        if digits.len() == 11 && self.accept(b"eE") {
            self.accept(b"+-");
            self.accept_run(b"0123456789_");
        }
        if digits.len() == 23 && self.accept(b"pP") {
            self.accept(b"+-");
            self.accept_run(b"0123456789_");
        }
        self.accept(b"i");
        match decode_rune(self.rest()) {
            Some((rune, width)) if is_alphanumeric(rune) => {
                self.pos += width;
                false
            }
            _ => true,
        }
    }
}

// Go's `%#U`.
fn code_point(rune: char) -> String {
    let code = u32::from(rune);
    if is_print(rune) { format!("U+{code:04X} '{rune}'") } else { format!("U+{code:04X}") }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_alphanumeric(rune: char) -> bool {
    rune == '_' || is_letter(rune) || is_digit(rune)
}

fn has_left_trim(bytes: &[u8]) -> bool {
    matches!(bytes, [b'-', space, ..] if is_space(*space))
}

fn has_right_trim(bytes: &[u8]) -> bool {
    matches!(bytes, [space, b'-', ..] if is_space(*space))
}

fn trim_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|b| !is_space(*b)).map_or(0, |at| at + 1);
    bytes.get(..end).unwrap_or_default()
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|b| !is_space(*b)).unwrap_or(bytes.len());
    bytes.get(start..).unwrap_or_default()
}
