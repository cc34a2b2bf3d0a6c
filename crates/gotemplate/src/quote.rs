//! Go's quoted strings: `strconv.Quote` and its kin.

use std::borrow::Cow;

use crate::rune::{RUNE_ERROR, decode_rune, is_print, push_rune};

/// `strconv.Quote`: a Go literal in double quotes.
pub fn quote(text: &[u8]) -> Vec<u8> {
    quote_with(text, b'"', false)
}

/// `strconv.QuoteToASCII`.
pub fn quote_ascii(text: &[u8]) -> Vec<u8> {
    quote_with(text, b'"', true)
}

/// `strconv.QuoteRune` and `strconv.QuoteRuneToASCII`.
pub(crate) fn quote_rune(rune: char, ascii: bool) -> Vec<u8> {
    let mut out = vec![b'\''];
    push_escaped(&mut out, rune, b'\'', ascii);
    out.push(b'\'');
    out
}

fn quote_with(text: &[u8], mark: u8, ascii: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(mark);
    let mut rest = text;
    while let Some((rune, width)) = decode_rune(rest) {
        match rest.first() {
            Some(byte) if rune == RUNE_ERROR && width == 1 => {
                out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            _ => push_escaped(&mut out, rune, mark, ascii),
        }
        rest = rest.get(width..).unwrap_or_default();
    }
    out.push(mark);
    out
}

fn push_escaped(out: &mut Vec<u8>, rune: char, mark: u8, ascii: bool) {
    if rune == mark as char || rune == '\\' {
        out.push(b'\\');
        push_rune(out, rune);
        return;
    }
    if (rune.is_ascii() || !ascii) && is_print(rune) {
        push_rune(out, rune);
        return;
    }
    let escape = match rune {
        '\x07' => "\\a",
        '\x08' => "\\b",
        '\x0c' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\x0b' => "\\v",
        _ => {
            let code = rune as u32;
            let text = match code {
                0..0x20 | 0x7f => format!("\\x{code:02x}"),
                0..0x1_0000 => format!("\\u{code:04x}"),
                _ => format!("\\U{code:08x}"),
            };
            out.extend_from_slice(text.as_bytes());
            return;
        }
    };
    out.extend_from_slice(escape.as_bytes());
}

/// `strconv.CanBackquote`: whether `%#q` may use a raw literal.
pub(crate) fn can_backquote(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some((rune, width)) = decode_rune(rest) {
        let bad = match rune {
            RUNE_ERROR => width == 1,
            '\u{FEFF}' | '`' | '\x7f' => true,
            '\t' => false,
            _ => rune < ' ',
        };
        if bad {
            return false;
        }
        rest = rest.get(width..).unwrap_or_default();
    }
    true
}

/// `strconv.Unquote` of a literal in double or back quotes, marks included. `None` is Go's
/// `invalid syntax`.
pub(crate) fn unquote(literal: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (mark, inner) = match literal {
        [first, inner @ .., last] if first == last => (*first, inner),
        _ => return None,
    };
    if mark == b'`' {
        if memchr::memchr(b'\r', inner).is_none() {
            return Some(inner.into());
        }
        return Some(inner.iter().copied().filter(|b| *b != b'\r').collect());
    }
    if memchr::memchr3(b'\\', b'\n', mark, inner).is_none() {
        return Some(inner.into());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        let (unit, tail) = unquote_unit(rest, mark)?;
        match unit {
            Unit::Rune(rune) => push_rune(&mut out, rune),
            Unit::Byte(byte) => out.push(byte),
        }
        rest = tail;
    }
    Some(out.into())
}

/// `strconv.Unquote` of a character constant: the rune's number.
pub(crate) fn unquote_char(literal: &[u8]) -> Result<i64, String> {
    let inner = literal.get(1..).unwrap_or_default();
    match unquote_unit(inner, b'\'') {
        None => Err("invalid syntax".into()),
        Some((_, tail)) if tail != b"'" => {
            Err(format!("malformed character constant: {}", String::from_utf8_lossy(literal)))
        }
        Some((Unit::Rune(rune), _)) => Ok(i64::from(u32::from(rune))),
        Some((Unit::Byte(byte), _)) => Ok(i64::from(byte)),
    }
}

enum Unit {
    Rune(char),
    Byte(u8),
}

fn unquote_unit(bytes: &[u8], mark: u8) -> Option<(Unit, &[u8])> {
    let (rune, width) = decode_rune(bytes)?;
    let rest = bytes.get(width..)?;
    if rune != '\\' {
        if rune == mark as char || rune == '\n' {
            return None;
        }
        // A byte that is no UTF-8 stays as it is.
        let unit = match bytes.first() {
            Some(byte) if rune == RUNE_ERROR && width == 1 => Unit::Byte(*byte),
            _ => Unit::Rune(rune),
        };
        return Some((unit, rest));
    }
    let (escape, rest) = rest.split_first()?;
    let simple = match escape {
        b'a' => '\x07',
        b'b' => '\x08',
        b'f' => '\x0c',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'v' => '\x0b',
        b'\\' => '\\',
        b'\'' | b'"' if *escape == mark => mark as char,
        b'x' => {
            return digits(rest, 2, 16).and_then(|(n, rest)| Some((Unit::Byte(u8::try_from(n).ok()?), rest)));
        }
        b'u' | b'U' => {
            let (code, rest) = digits(rest, if *escape == b'u' { 4 } else { 8 }, 16)?;
            return Some((Unit::Rune(char::from_u32(code)?), rest));
        }
        b'0'..=b'7' => {
            let (code, rest) = digits(bytes.get(1..)?, 3, 8)?;
            return Some((Unit::Byte(u8::try_from(code).ok()?), rest));
        }
        _ => return None,
    };
    Some((Unit::Rune(simple), rest))
}

fn digits(bytes: &[u8], count: usize, radix: u32) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_at_checked(count)?;
    let mut number: u32 = 0;
    for byte in head {
        number = number.checked_mul(radix)?.checked_add((*byte as char).to_digit(radix)?)?;
    }
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_escapes_what_go_escapes() {
        let cases: &[(&[u8], &str)] = &[
            (b"plain", r#""plain""#),
            (b"a\"b\\c", r#""a\"b\\c""#),
            (b"\x00\x1f\x7f\n\t\x07", r#""\x00\x1f\x7f\n\t\a""#),
            ("é☺\u{2028}\u{FEFF}".as_bytes(), "\"é☺\\u2028\\ufeff\""),
            (b"\xff\xc3", r#""\xff\xc3""#),
            ("\u{10FFFF}".as_bytes(), r#""\U0010ffff""#),
        ];
        for (text, want) in cases {
            assert_eq!(String::from_utf8_lossy(&quote(text)), *want);
        }
        assert_eq!(quote_ascii("é".as_bytes()), b"\"\\u00e9\"");
    }

    #[test]
    fn unquoting_reverses_quoting_and_refuses_the_rest() {
        assert_eq!(*unquote(br#""a\tb\x41\u00e9\101""#).unwrap(), *"a\tbAéA".as_bytes());
        assert_eq!(*unquote(b"`a\\n\r`").unwrap(), *b"a\\n");
        assert_eq!(*unquote(b"\"\xffa'b`\"").unwrap(), *b"\xffa'b`");
        for bad in
            [&br#""\q""#[..], br#""\'""#, br#""\ud800""#, br#""\400""#, br#"""#, b"\"\n\"", br#""a"b""#]
        {
            assert_eq!(unquote(bad), None, "{}", String::from_utf8_lossy(bad));
        }
        assert_eq!(unquote_char(br"'\''"), Ok(39));
        assert_eq!(unquote_char("'é'".as_bytes()), Ok(233));
        assert_eq!(unquote_char(b"'ab'"), Err("malformed character constant: 'ab'".into()));
    }
}
