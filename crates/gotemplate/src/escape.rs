//! Escaping for HTML, JavaScript and URL queries, as text/template and net/url do it.

use crate::rune::{decode_rune, is_print};

/// Go's `template.HTMLEscape`.
pub fn html_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            0 => out.extend_from_slice("\u{FFFD}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            other => out.push(*other),
        }
    }
    out
}

/// Go's `template.JSEscape`.
pub(crate) fn js_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((rune, width)) = decode_rune(rest) {
        let (head, tail) = rest.split_at_checked(width).unwrap_or((rest, &[]));
        match rune {
            '\\' => out.extend_from_slice(b"\\\\"),
            '\'' => out.extend_from_slice(b"\\'"),
            '"' => out.extend_from_slice(b"\\\""),
            '<' => out.extend_from_slice(b"\\u003C"),
            '>' => out.extend_from_slice(b"\\u003E"),
            '&' => out.extend_from_slice(b"\\u0026"),
            '=' => out.extend_from_slice(b"\\u003D"),
            _ if rune < ' ' || !rune.is_ascii() && !is_print(rune) => {
                out.extend_from_slice(format!("\\u{:04X}", u32::from(rune)).as_bytes());
            }
            _ => out.extend_from_slice(head),
        }
        rest = tail;
    }
    out
}

/// Go's `url.QueryEscape`.
pub fn query_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            b' ' => out.push(b'+'),
            other => out.extend_from_slice(format!("%{other:02X}").as_bytes()),
        }
    }
    out
}
