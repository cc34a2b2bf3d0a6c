//! The bytes of a stream as text: byte order marks, UTF-16, and the characters that YAML allows.

use crate::Error;
use std::borrow::Cow;

/// The text up to the first byte that cannot be read, and what is wrong with that byte.
pub(crate) struct Input<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) bad: Option<&'static str>,
}

/// The library reads this many bytes at a time, and complains about a byte when it reads its block, before it
/// has looked at the rest of the block. Errors before the block win, errors inside it do not.
const BLOCK: usize = 512;

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.len() > crate::MAX_BYTES {
            return Err(Error::TooLarge { bytes: bytes.len() });
        }
        match bytes {
            [0xff, 0xfe, rest @ ..] => Ok(from_utf16(rest, u16::from_le_bytes)),
            [0xfe, 0xff, rest @ ..] => Ok(from_utf16(rest, u16::from_be_bytes)),
            [0xef, 0xbb, 0xbf, rest @ ..] => Ok(from_utf8(rest, 3)),
            _ => Ok(from_utf8(bytes, 0)),
        }
    }
}

fn from_utf8(bytes: &[u8], skipped: usize) -> Input<'_> {
    let (valid, mut bad) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let problem = utf8_problem(bytes.get(error.valid_up_to()..).unwrap_or_default());
            (std::str::from_utf8(good).unwrap_or_default(), Some((error.valid_up_to(), problem)))
        }
    };
    if let Some(at) = first_forbidden(valid) {
        bad = Some((at, "control characters are not allowed"));
    }
    match bad {
        None => Input { text: Cow::Borrowed(valid), bad: None },
        Some((at, problem)) => {
            let mut end = ((at + skipped) / BLOCK * BLOCK).saturating_sub(skipped);
            while !valid.is_char_boundary(end) {
                end -= 1;
            }
            Input { text: Cow::Borrowed(valid.get(..end).unwrap_or_default()), bad: Some(problem) }
        }
    }
}

fn utf8_problem(bytes: &[u8]) -> &'static str {
    let width = match bytes.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    let Some(rest) = bytes.get(1..width) else { return "incomplete UTF-8 octet sequence" };
    if rest.iter().any(|byte| byte & 0xc0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }
    let lead = bytes.first().map_or(0, |byte| u32::from(*byte) & (0x7f >> width));
    let value = rest.iter().fold(lead, |value, byte| (value << 6) | (u32::from(*byte) & 0x3f));
    match (width, value) {
        (2, 0..0x80) | (3, 0..0x800) | (4, 0..0x1_0000) => "invalid length of a UTF-8 sequence",
        _ => "invalid Unicode character",
    }
}

/// Where the first character stands that may not stand in a YAML stream.
pub(crate) fn first_forbidden(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            0x20..=0x7e | b'\t' | b'\n' | b'\r' => {}
            0xc2 if matches!(bytes.get(at + 1), Some(0x80..=0x84 | 0x86..=0x9f)) => return Some(at),
            0xef if bytes.get(at + 1) == Some(&0xbf) && bytes.get(at + 2) >= Some(&0xbe) => return Some(at),
            0x80.. => {}
            _ => return Some(at),
        }
        at += 1;
    }
    None
}

fn from_utf16(bytes: &[u8], join: fn([u8; 2]) -> u16) -> Input<'static> {
    let units = bytes.chunks_exact(2).map(|pair| join([pair[0], pair[1]]));
    let mut text = String::new();
    let mut bad = None;
    for unit in char::decode_utf16(units) {
        match unit {
            Ok(c) => text.push(c),
            Err(error) if (0xdc00..0xe000).contains(&error.unpaired_surrogate()) => {
                bad = Some("unexpected low surrogate area");
                break;
            }
            Err(_) => {
                bad = Some("expected low surrogate area");
                break;
            }
        }
    }
    if bad.is_none() && bytes.len() % 2 == 1 {
        bad = Some("incomplete UTF-16 character");
    }
    if let Some(at) = first_forbidden(&text) {
        text.truncate(at);
        bad = Some("control characters are not allowed");
    }
    Input { text: Cow::Owned(text), bad }
}
