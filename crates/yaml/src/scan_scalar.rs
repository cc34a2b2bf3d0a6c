//! Scalars: plain, quoted and block.

use crate::Error;
use crate::scanner::Scanner;
use crate::token::{Mark, Token, TokenKind};
use std::borrow::Cow;

/// Bytes that can be copied in a plain scalar without a look at what follows them.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        table[byte] = !matches!(byte as u8, b':' | b',' | b'?' | b'[' | b']' | b'{' | b'}');
        byte += 1;
    }
    table
};

/// A value that is a slice of the text for as long as nothing in it reads other than it is written.
struct Value<'a> {
    text: &'a str,
    /// Where the slice starts, and up to where it was taken.
    start: usize,
    end: usize,
    owned: Option<String>,
}

impl<'a> Value<'a> {
    fn new(text: &'a str, start: usize) -> Self {
        Self { text, start, end: start, owned: None }
    }

    /// Takes the text from `from` to `to`; what lies between the end and `from` must have been taken by
    /// [`Self::push`] or must be wanted verbatim.
    fn take(&mut self, from: usize, to: usize) {
        if let Some(owned) = &mut self.owned {
            owned.push_str(self.text.get(from..to).unwrap_or_default());
        }
        self.end = to;
    }

    /// From here on the value is not a slice of the text.
    fn push(&mut self, s: &str) {
        let text = self.text.get(self.start..self.end).unwrap_or_default();
        self.owned.get_or_insert_with(|| text.to_owned()).push_str(s);
    }

    fn finish(self) -> Cow<'a, str> {
        match self.owned {
            Some(owned) => Cow::Owned(owned),
            None => Cow::Borrowed(self.text.get(self.start..self.end).unwrap_or_default()),
        }
    }
}

/// How line breaks between two words read: one is a space, more are one less.
fn push_folded(value: &mut Value<'_>, first: &str, rest: &str) {
    if first == "\n" {
        value.push(if rest.is_empty() { " " } else { rest });
    } else {
        value.push(first);
        value.push(rest);
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn scan_plain_scalar(&mut self) -> Result<Token<'a>, Error> {
        let indent = self.indent + 1;
        let start = self.mark();
        let mut end = start;
        let mut value = Value::new(self.text, self.at);
        let mut first_break = "";
        let mut more_breaks = String::new();
        let mut after_break = false;
        let mut blanks = self.at..self.at;
        loop {
            if self.column() == 0 && self.bytes.is_document_indicator(self.at) {
                break;
            }
            if self.bytes.at(self.at) == b'#' {
                break;
            }
            let word = self.at;
            self.skip_plain_word();
            if self.at > word {
                if after_break {
                    push_folded(&mut value, first_break, &more_breaks);
                    more_breaks.clear();
                    after_break = false;
                } else if !blanks.is_empty() {
                    value.take(blanks.start, blanks.end);
                }
                blanks = self.at..self.at;
                value.take(word, self.at);
                end = self.mark();
            }
            if !(self.bytes.is_blank(self.at) || self.bytes.is_break(self.at)) {
                break;
            }
            let blank_start = self.at;
            loop {
                if self.bytes.is_blank(self.at) {
                    let column = self.column() as isize;
                    if after_break && column < indent && self.bytes.at(self.at) == b'\t' {
                        return Err(self.error(start, "found a tab character that violates indentation"));
                    }
                    self.step_ascii(1);
                    if !after_break {
                        blanks = blank_start..self.at;
                    }
                } else if self.bytes.is_break(self.at) {
                    let reads = self.step_break();
                    if after_break {
                        more_breaks.push_str(reads);
                    } else {
                        first_break = reads;
                        after_break = true;
                    }
                } else {
                    break;
                }
            }
            if self.flow_level == 0 && (self.column() as isize) < indent {
                break;
            }
        }
        if after_break {
            self.simple_key_allowed = true;
        }
        Ok(Token { kind: TokenKind::Scalar { value: value.finish(), plain: true }, start, end })
    }

    fn skip_plain_word(&mut self) {
        loop {
            let byte = self.bytes.at(self.at);
            if PLAIN.get(usize::from(byte)).copied().unwrap_or(false) {
                self.step_ascii(1);
                continue;
            }
            match byte {
                b':' if self.bytes.is_blank_or_end(self.at + 1) => return,
                b':' => self.step_ascii(1),
                b',' | b'?' | b'[' | b']' | b'{' | b'}' => {
                    if self.flow_level > 0 {
                        return;
                    }
                    self.step_ascii(1);
                }
                _ if self.bytes.is_blank_or_end(self.at) => return,
                _ => self.step(),
            }
        }
    }

    pub(super) fn scan_quoted_scalar(&mut self, single: bool) -> Result<Token<'a>, Error> {
        let start = self.mark();
        self.step_ascii(1);
        let quote = if single { b'\'' } else { b'"' };
        let mut value = Value::new(self.text, self.at);
        loop {
            if self.column() == 0 && self.bytes.is_document_indicator(self.at) {
                return Err(self.error(start, "found unexpected document indicator"));
            }
            if self.bytes.is_end(self.at) {
                return Err(self.error(start, "found unexpected end of stream"));
            }
            let mut after_break = self.scan_quoted_word(single, start, &mut value)?;
            if self.bytes.at(self.at) == quote {
                break;
            }
            let blanks = self.at;
            let mut first_break = "";
            let mut more_breaks = String::new();
            loop {
                if self.bytes.is_blank(self.at) {
                    self.step_ascii(1);
                } else if self.bytes.is_break(self.at) {
                    let reads = self.step_break();
                    if after_break {
                        more_breaks.push_str(reads);
                    } else {
                        first_break = reads;
                        after_break = true;
                    }
                } else {
                    break;
                }
            }
            if after_break {
                push_folded(&mut value, first_break, &more_breaks);
            } else {
                value.take(blanks, self.at);
            }
        }
        self.step_ascii(1);
        let end = self.mark();
        Ok(Token { kind: TokenKind::Scalar { value: value.finish(), plain: false }, start, end })
    }

    /// Up to a blank, a line break or the closing quote; true after an escaped line break.
    fn scan_quoted_word(&mut self, single: bool, start: Mark, value: &mut Value<'a>) -> Result<bool, Error> {
        let mut from = self.at;
        loop {
            match self.bytes.at(self.at) {
                b'\'' if single => {
                    if self.bytes.at(self.at + 1) != b'\'' {
                        break;
                    }
                    value.take(from, self.at);
                    value.push("'");
                    self.step_ascii(2);
                    from = self.at;
                }
                b'"' if !single => break,
                b'\\' if !single => {
                    value.take(from, self.at);
                    if self.bytes.is_break(self.at + 1) {
                        value.push("");
                        self.step_ascii(1);
                        self.step_break();
                        return Ok(true);
                    }
                    let c = self.scan_escape(start)?;
                    value.push(c.encode_utf8(&mut [0; 4]));
                    from = self.at;
                }
                0x21..0x80 => self.step_ascii(1),
                _ if self.bytes.is_blank_or_end(self.at) => break,
                _ => self.step(),
            }
        }
        value.take(from, self.at);
        Ok(false)
    }

    fn scan_escape(&mut self, start: Mark) -> Result<char, Error> {
        let (c, digits) = match self.bytes.at(self.at + 1) {
            b'0' => ('\0', 0),
            b'a' => ('\x07', 0),
            b'b' => ('\x08', 0),
            b't' | b'\t' => ('\t', 0),
            b'n' => ('\n', 0),
            b'v' => ('\x0b', 0),
            b'f' => ('\x0c', 0),
            b'r' => ('\r', 0),
            b'e' => ('\x1b', 0),
            b' ' => (' ', 0),
            b'"' => ('"', 0),
            b'\'' => ('\'', 0),
            b'\\' => ('\\', 0),
            b'N' => ('\u{85}', 0),
            b'_' => ('\u{a0}', 0),
            b'L' => ('\u{2028}', 0),
            b'P' => ('\u{2029}', 0),
            b'x' => ('\0', 2),
            b'u' => ('\0', 4),
            b'U' => ('\0', 8),
            _ => return Err(self.error(start, "found unknown escape character")),
        };
        self.step_ascii(2);
        if digits == 0 {
            return Ok(c);
        }
        let mut code: u32 = 0;
        for i in 0..digits {
            let Some(digit) = char::from(self.bytes.at(self.at + i)).to_digit(16) else {
                return Err(self.error(start, "did not find expected hexdecimal number"));
            };
            code = (code << 4) | digit;
        }
        let Some(c) = char::from_u32(code) else {
            return Err(self.error(start, "found invalid Unicode character escape code"));
        };
        self.step_ascii(digits);
        Ok(c)
    }

    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<Token<'a>, Error> {
        let start = self.mark();
        self.step_ascii(1);
        let (chomping, increment) = self.scan_block_header(start)?;
        self.skip_blanks();
        self.skip_comment();
        if !self.bytes.is_break_or_end(self.at) {
            return Err(self.error(start, "did not find expected comment or line break"));
        }
        if self.bytes.is_break(self.at) {
            self.step_break();
        }
        let mut end = self.mark();
        let mut indent = match increment {
            0 => 0,
            _ => self.indent.max(0).unsigned_abs() + increment,
        };
        let mut value = String::new();
        let mut first_break = "";
        let mut more_breaks = String::new();
        self.scan_block_breaks(&mut indent, &mut more_breaks, start, &mut end)?;
        let mut was_blank = false;
        while self.column() == indent && !self.bytes.is_end(self.at) {
            let is_blank = self.bytes.is_blank(self.at);
            if !literal && !was_blank && !is_blank && first_break == "\n" {
                if more_breaks.is_empty() {
                    value.push(' ');
                }
            } else {
                value.push_str(first_break);
            }
            value.push_str(&more_breaks);
            more_breaks.clear();
            was_blank = is_blank;
            let from = self.at;
            self.skip_to_line_end();
            value.push_str(self.text.get(from..self.at).unwrap_or_default());
            first_break = if self.bytes.is_break(self.at) { self.step_break() } else { "" };
            self.scan_block_breaks(&mut indent, &mut more_breaks, start, &mut end)?;
        }
        if chomping != Chomping::Strip {
            value.push_str(first_break);
        }
        if chomping == Chomping::Keep {
            value.push_str(&more_breaks);
        }
        Ok(Token { kind: TokenKind::Scalar { value: Cow::Owned(value), plain: false }, start, end })
    }

    fn scan_block_header(&mut self, start: Mark) -> Result<(Chomping, usize), Error> {
        let mut chomping = Chomping::Clip;
        let mut increment = 0;
        let mut seen_chomping = false;
        let mut seen_increment = false;
        loop {
            match self.bytes.at(self.at) {
                b'+' if !seen_chomping => (chomping, seen_chomping) = (Chomping::Keep, true),
                b'-' if !seen_chomping => (chomping, seen_chomping) = (Chomping::Strip, true),
                b'0' if !seen_increment => {
                    return Err(self.error(start, "found an indentation indicator equal to 0"));
                }
                digit @ b'1'..=b'9' if !seen_increment => {
                    (increment, seen_increment) = (usize::from(digit - b'0'), true);
                }
                _ => return Ok((chomping, increment)),
            }
            self.step_ascii(1);
        }
    }

    /// Steps over indentation and empty lines; finds the indentation when it is not known yet (0).
    fn scan_block_breaks(
        &mut self,
        indent: &mut usize,
        breaks: &mut String,
        start: Mark,
        end: &mut Mark,
    ) -> Result<(), Error> {
        *end = self.mark();
        let mut max_indent = 0;
        loop {
            while (*indent == 0 || self.column() < *indent) && self.bytes.at(self.at) == b' ' {
                self.step_ascii(1);
            }
            max_indent = max_indent.max(self.column());
            if (*indent == 0 || self.column() < *indent) && self.bytes.at(self.at) == b'\t' {
                return Err(self.error(start, "found a tab character where an indentation space is expected"));
            }
            if !self.bytes.is_break(self.at) {
                break;
            }
            breaks.push_str(self.step_break());
            *end = self.mark();
        }
        if *indent == 0 {
            *indent = max_indent.max((self.indent + 1).unsigned_abs()).max(1);
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}
