//! Addresses of schemas: as much of RFC 3986 as references between them need.

/// What stands before and after the first `#`.
pub(super) fn split(reference: &str) -> (&str, &str) {
    reference.split_once('#').unwrap_or((reference, ""))
}

/// Percent-decoded; `None` when a percent sign is not followed by two digits.
pub(super) fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'%' {
            let hex = text.get(at + 1..at + 3)?;
            out.push(u8::from_str_radix(hex, 16).ok()?);
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// Percent-encoded as Go's `url.PathEscape` does, but for slashes.
pub(super) fn encode(pointer: &str) -> String {
    let mut out = String::with_capacity(pointer.len());
    for byte in pointer.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b'=' | b':' | b'@' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The parts of an address: scheme, authority with its slashes, path.
fn parts(address: &str) -> (Option<&str>, Option<&str>, &str) {
    let scheme = address.find(':').filter(|at| {
        let scheme = address.get(..*at).unwrap_or_default();
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    let (scheme, rest) = match scheme {
        Some(at) => (address.get(..at), address.get(at + 1..).unwrap_or_default()),
        None => (None, address),
    };
    match rest.strip_prefix("//") {
        Some(after) => {
            let end = after.find(['/', '?']).unwrap_or(after.len());
            (scheme, after.get(..end), after.get(end..).unwrap_or_default())
        }
        None => (scheme, None, rest),
    }
}

/// The scheme of an address.
pub(super) fn scheme(address: &str) -> Option<&str> {
    parts(address).0
}

/// A reference without a fragment, seen from a base.
pub(super) fn join(base: &str, reference: &str) -> String {
    let (scheme, authority, path) = parts(reference);
    if scheme.is_some() {
        return reference.to_owned();
    }
    let (base_scheme, base_authority, base_path) = parts(base);
    let base_scheme = base_scheme.unwrap_or_default();
    if let Some(authority) = authority {
        return format!("{base_scheme}://{authority}{path}");
    }
    if reference.is_empty() {
        return base.to_owned();
    }
    // A name (urn:…) has no folders.
    let Some(base_authority) = base_authority else { return format!("{base_scheme}:{path}") };
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        let folder = base_path.rfind('/').and_then(|at| base_path.get(..=at)).unwrap_or("/");
        format!("{folder}{path}")
    };
    format!("{base_scheme}://{base_authority}{}", without_dots(&path))
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                if kept.len() > 1 {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            part => kept.push(part),
        }
    }
    kept.join("/")
}

/// A key as a part of a JSON pointer.
pub(super) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A part of a JSON pointer as a key.
pub(super) fn unescape(part: &str) -> Option<String> {
    let mut out = String::with_capacity(part.len());
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        match c {
            '~' => match chars.next()? {
                '0' => out.push('~'),
                '1' => out.push('/'),
                _ => return None,
            },
            c => out.push(c),
        }
    }
    Some(out)
}
