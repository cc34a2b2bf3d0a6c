//! Directives, anchors, aliases and tags.

use crate::Error;
use crate::chars::width;
use crate::scanner::Scanner;
use crate::token::{Mark, Token, TokenKind};
use std::borrow::Cow;

impl<'a> Scanner<'a> {
    pub(super) fn scan_directive(&mut self) -> Result<Token<'a>, Error> {
        let start = self.mark();
        self.step_ascii(1);
        let from = self.at;
        while self.bytes.is_word(self.at) {
            self.step_ascii(1);
        }
        let name = self.text.get(from..self.at).unwrap_or_default();
        if name.is_empty() {
            return Err(self.error(start, "could not find expected directive name"));
        }
        if !self.bytes.is_blank_or_end(self.at) {
            return Err(self.error(start, "found unexpected non-alphabetical character"));
        }
        let kind = match name {
            "YAML" => {
                self.skip_blanks();
                let major = self.scan_version_number(start)?;
                if self.bytes.at(self.at) != b'.' {
                    return Err(self.error(start, "did not find expected digit or '.' character"));
                }
                self.step_ascii(1);
                let minor = self.scan_version_number(start)?;
                TokenKind::VersionDirective { major, minor }
            }
            "TAG" => {
                self.skip_blanks();
                let handle = self.scan_tag_handle(true, start)?;
                if !self.bytes.is_blank(self.at) {
                    return Err(self.error(start, "did not find expected whitespace"));
                }
                self.skip_blanks();
                let prefix = self.scan_tag_uri("", start)?;
                if !self.bytes.is_blank_or_end(self.at) {
                    return Err(self.error(start, "did not find expected whitespace or line break"));
                }
                TokenKind::TagDirective { handle, prefix }
            }
            _ => return Err(self.error(start, "found unknown directive name")),
        };
        let end = self.mark();
        self.skip_blanks();
        self.skip_comment();
        if !self.bytes.is_break_or_end(self.at) {
            return Err(self.error(start, "did not find expected comment or line break"));
        }
        if self.bytes.is_break(self.at) {
            self.step_break();
        }
        Ok(Token { kind, start, end })
    }

    fn scan_version_number(&mut self, start: Mark) -> Result<u8, Error> {
        let mut value = 0;
        let mut length = 0;
        while let digit @ b'0'..=b'9' = self.bytes.at(self.at) {
            length += 1;
            if length > 2 {
                return Err(self.error(start, "found extremely long version number"));
            }
            value = value * 10 + (digit - b'0');
            self.step_ascii(1);
        }
        if length == 0 {
            return Err(self.error(start, "did not find expected version number"));
        }
        Ok(value)
    }

    pub(super) fn scan_anchor(&mut self, alias: bool) -> Result<Token<'a>, Error> {
        let start = self.mark();
        self.step_ascii(1);
        let from = self.at;
        while self.bytes.is_word(self.at) {
            self.step_ascii(1);
        }
        let end = self.mark();
        let name = self.text.get(from..self.at).unwrap_or_default();
        let ends = self.bytes.is_blank_or_end(self.at)
            || matches!(self.bytes.at(self.at), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return Err(self.error(start, "did not find expected alphabetic or numeric character"));
        }
        let kind = if alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) };
        Ok(Token { kind, start, end })
    }

    pub(super) fn scan_tag(&mut self) -> Result<Token<'a>, Error> {
        let start = self.mark();
        let (handle, suffix) = if self.bytes.at(self.at + 1) == b'<' {
            self.step_ascii(2);
            let suffix = self.scan_tag_uri("", start)?;
            if self.bytes.at(self.at) != b'>' {
                return Err(self.error(start, "did not find the expected '>'"));
            }
            self.step_ascii(1);
            ("", suffix)
        } else {
            let handle = self.scan_tag_handle(false, start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                (handle, self.scan_tag_uri("", start)?)
            } else {
                match self.scan_tag_uri(handle, start)? {
                    suffix if suffix.is_empty() => ("", Cow::Borrowed("!")),
                    suffix => ("!", suffix),
                }
            }
        };
        if !self.bytes.is_blank_or_end(self.at) {
            return Err(self.error(start, "did not find expected whitespace or line break"));
        }
        let end = self.mark();
        Ok(Token { kind: TokenKind::Tag { handle, suffix }, start, end })
    }

    fn scan_tag_handle(&mut self, directive: bool, start: Mark) -> Result<&'a str, Error> {
        if self.bytes.at(self.at) != b'!' {
            return Err(self.error(start, "did not find expected '!'"));
        }
        let from = self.at;
        self.step_ascii(1);
        while self.bytes.is_word(self.at) {
            self.step_ascii(1);
        }
        if self.bytes.at(self.at) == b'!' {
            self.step_ascii(1);
        } else if directive && self.at - from > 1 {
            return Err(self.error(start, "did not find expected '!'"));
        }
        Ok(self.text.get(from..self.at).unwrap_or_default())
    }

    /// The rest of a tag, after a head that was taken for a handle and was none.
    fn scan_tag_uri(&mut self, head: &'a str, start: Mark) -> Result<Cow<'a, str>, Error> {
        let mut uri = head.get(1..).unwrap_or_default().as_bytes().to_vec();
        let mut seen = !head.is_empty();
        loop {
            match self.bytes.at(self.at) {
                b'%' => self.scan_uri_escapes(start, &mut uri)?,
                byte @ (b';' | b'/' | b'?' | b':' | b'@' | b'&' | b'=' | b'+' | b'$' | b',' | b'.' | b'!'
                | b'~' | b'*' | b'\'' | b'(' | b')' | b'[' | b']') => {
                    uri.push(byte);
                    self.step_ascii(1);
                }
                byte if self.bytes.is_word(self.at) => {
                    uri.push(byte);
                    self.step_ascii(1);
                }
                _ => break,
            }
            seen = true;
        }
        if !seen {
            return Err(self.error(start, "did not find expected tag URI"));
        }
        Ok(Cow::Owned(String::from_utf8_lossy(&uri).into_owned()))
    }

    fn scan_uri_escapes(&mut self, start: Mark, uri: &mut Vec<u8>) -> Result<(), Error> {
        let mut left = 0;
        loop {
            let high = char::from(self.bytes.at(self.at + 1)).to_digit(16);
            let low = char::from(self.bytes.at(self.at + 2)).to_digit(16);
            let (b'%', Some(high), Some(low)) = (self.bytes.at(self.at), high, low) else {
                return Err(self.error(start, "did not find URI escaped octet"));
            };
            let octet = (high * 16 + low) as u8;
            if left == 0 {
                if matches!(octet, 0x80..=0xbf | 0xf8..) {
                    return Err(self.error(start, "found an incorrect leading UTF-8 octet"));
                }
                left = width(octet);
            } else if octet & 0xc0 != 0x80 {
                return Err(self.error(start, "found an incorrect trailing UTF-8 octet"));
            }
            uri.push(octet);
            self.step_ascii(3);
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
    }
}
