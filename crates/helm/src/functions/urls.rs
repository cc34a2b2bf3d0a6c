//! `urlParse`, `urlJoin`: Go's net/url.

use convoy_gotemplate::{Call, FuncError, Map, Str, Value, quote};

use super::arguments::{Outcome, map, string, text};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Path,
    Host,
    User,
    Fragment,
}

#[derive(Default)]
struct Url {
    scheme: String,
    opaque: String,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    host: Vec<u8>,
    path: Vec<u8>,
    raw_path: Vec<u8>,
    query: Vec<u8>,
    fragment: Vec<u8>,
    raw_fragment: Vec<u8>,
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&quote(bytes)).into_owned()
}

fn must_escape(byte: u8, place: Place) -> bool {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => false,
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match place {
            Place::Path => byte == b'?',
            Place::User => matches!(byte, b'@' | b'/' | b'?' | b':'),
            Place::Host => !matches!(byte, b'$' | b'&' | b'+' | b',' | b';' | b'=' | b':'),
            Place::Fragment => false,
        },
        b'!' | b'(' | b')' | b'*' if place == Place::Fragment => false,
        b'!' | b'\'' | b'(' | b')' | b'*' | b'[' | b']' | b'<' | b'>' | b'"' if place == Place::Host => false,
        _ => true,
    }
}

fn escape(bytes: &[u8], place: Place) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        if must_escape(*byte, place) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(*byte);
        }
    }
    out
}

fn unescape(bytes: &[u8], place: Place) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'%' {
            let pair = bytes.get(at + 1..at + 3).and_then(|p| std::str::from_utf8(p).ok());
            let code = pair
                .and_then(|p| u8::from_str_radix(p, 16).ok())
                .filter(|_| bytes.get(at + 1) != Some(&b'+'));
            let Some(code) = code else {
                let shown = bytes.get(at..bytes.len().min(at + 3)).unwrap_or_default();
                return Err(format!("invalid URL escape {}", show(shown)));
            };
            if place == Place::Host && code < 0x80 && code != b'%' {
                return Err(format!(
                    "invalid URL escape {}",
                    show(bytes.get(at..at + 3).unwrap_or_default())
                ));
            }
            out.push(code);
            at += 3;
            continue;
        }
        if place == Place::Host && *byte < 0x80 && must_escape(*byte, Place::Host) {
            return Err(format!("invalid character {} in host name", show(&[*byte])));
        }
        out.push(*byte);
        at += 1;
    }
    Ok(out)
}

fn cut(bytes: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(at, bytes) {
        Some(found) => (bytes.get(..found).unwrap_or_default(), bytes.get(found + 1..)),
        None => (bytes, None),
    }
}

fn parse(raw: &[u8]) -> Result<Url, String> {
    let fail = |why: String| format!("parse {}: {why}", show(raw));
    let (body, fragment) = cut(raw, b'#');
    let mut url = parse_body(body).map_err(fail)?;
    if let Some(fragment) = fragment {
        url.fragment = unescape(fragment, Place::Fragment).map_err(fail)?;
        if escape(&url.fragment, Place::Fragment) != fragment {
            url.raw_fragment = fragment.to_vec();
        }
    }
    Ok(url)
}

/// Whether an address has a scheme; its host with the port, and without.
///
/// # Errors
/// Go's text.
pub(crate) fn check_url(text: &str) -> Result<(bool, String, String), String> {
    let url = parse(text.as_bytes())?;
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((!url.scheme.is_empty(), shown(&url.host), shown(url.hostname())))
}

fn parse_body(raw: &[u8]) -> Result<Url, String> {
    if raw.iter().any(|b| *b < 0x20 || *b == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    let mut url = Url::default();
    if raw == b"*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, rest) = scheme(raw)?;
    url.scheme = String::from_utf8_lossy(scheme).to_ascii_lowercase();
    let (rest, query) = cut(rest, b'?');
    url.query = query.unwrap_or_default().to_vec();
    let mut rest = rest;
    if rest.first() != Some(&b'/') {
        if !url.scheme.is_empty() {
            url.opaque = String::from_utf8_lossy(rest).into_owned();
            return Ok(url);
        }
        let (first, _) = cut(rest, b'/');
        if first.contains(&b':') {
            return Err("first path segment in URL cannot contain colon".into());
        }
    }
    if (!url.scheme.is_empty() || !rest.starts_with(b"///")) && rest.starts_with(b"//") {
        let after = rest.get(2..).unwrap_or_default();
        let end = memchr::memchr(b'/', after).unwrap_or(after.len());
        let (authority, path) = after.split_at_checked(end).unwrap_or((after, &[]));
        rest = path;
        parse_authority(&mut url, authority)?;
    }
    url.path = unescape(rest, Place::Path)?;
    if escape(&url.path, Place::Path) != rest {
        url.raw_path = rest.to_vec();
    }
    Ok(url)
}

fn scheme(raw: &[u8]) -> Result<(&[u8], &[u8]), String> {
    for (at, byte) in raw.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((raw.get(..at).unwrap_or_default(), raw.get(at + 1..).unwrap_or_default())),
            _ => break,
        }
    }
    Ok((&[], raw))
}

fn parse_authority(url: &mut Url, authority: &[u8]) -> Result<(), String> {
    let (user, host) = match memchr::memrchr(b'@', authority) {
        Some(at) => (authority.get(..at), authority.get(at + 1..).unwrap_or_default()),
        None => (None, authority),
    };
    url.host = parse_host(host)?;
    if let Some(user) = user {
        let fine = |b: &u8| b.is_ascii_alphanumeric() || br"-._:~!$&'()*+,;=%@".contains(b);
        if !user.iter().all(fine) {
            return Err("net/url: invalid userinfo".into());
        }
        let (name, password) = cut(user, b':');
        let password = password.map(|p| unescape(p, Place::User)).transpose()?;
        url.user = Some((unescape(name, Place::User)?, password));
    }
    Ok(())
}

fn parse_host(host: &[u8]) -> Result<Vec<u8>, String> {
    let port = if host.first() == Some(&b'[') {
        let Some(close) = memchr::memrchr(b']', host) else { return Err("missing ']' in host".into()) };
        host.get(close + 1..).unwrap_or_default()
    } else {
        memchr::memrchr(b':', host).and_then(|at| host.get(at..)).unwrap_or_default()
    };
    let valid = match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !valid {
        return Err(format!("invalid port {} after host", show(port)));
    }
    unescape(host, Place::Host)
}

impl Url {
    fn hostname(&self) -> &[u8] {
        let host = &self.host[..];
        let without_port = match memchr::memrchr(b':', host) {
            Some(at) if host.get(at + 1..).is_some_and(|p| p.iter().all(u8::is_ascii_digit)) => {
                host.get(..at)
            }
            _ => None,
        };
        let host = without_port.unwrap_or(host);
        host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]")).unwrap_or(host)
    }

    fn userinfo(&self) -> Vec<u8> {
        match &self.user {
            None => Vec::new(),
            Some((name, None)) => escape(name, Place::User),
            Some((name, Some(password))) => {
                [escape(name, Place::User), b":".to_vec(), escape(password, Place::User)].concat()
            }
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(self.scheme.as_bytes());
            out.push(b':');
        }
        if self.opaque.is_empty() {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
                    out.extend_from_slice(b"//");
                }
                if self.user.is_some() {
                    out.extend_from_slice(&self.userinfo());
                    out.push(b'@');
                }
                out.extend_from_slice(&escape(&self.host, Place::Host));
            }
            let path = if self.raw_path.is_empty() {
                escape(&self.path, Place::Path)
            } else {
                self.raw_path.clone()
            };
            if path.first().is_some_and(|b| *b != b'/') && !self.host.is_empty() {
                out.push(b'/');
            }
            if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
                out.extend_from_slice(b"./");
            }
            out.extend_from_slice(&path);
        } else {
            out.extend_from_slice(self.opaque.as_bytes());
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend_from_slice(&escape(&self.fragment, Place::Fragment));
        }
        out
    }
}

pub(super) fn url_parse(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let url = parse(&text(args, 0)).map_err(|e| FuncError::new(format!("unable to parse url: {e}")))?;
    Ok(Value::Map(Map::from_iter([
        ("scheme", Value::from(url.scheme.as_str())),
        ("host", Value::string(&url.host[..])),
        ("hostname", Value::string(url.hostname())),
        ("path", Value::string(&url.path[..])),
        ("query", Value::string(&url.query[..])),
        ("opaque", Value::from(url.opaque.as_str())),
        ("fragment", Value::string(&url.fragment[..])),
        ("userinfo", Value::string(url.userinfo())),
    ])))
}

fn part(source: &Map, key: &str) -> Result<Str, FuncError> {
    match source.get(key.as_bytes()) {
        None => Ok(Str::default()),
        Some(Value::String(text)) => Ok(text),
        Some(Value::Nil) => Err(super::arguments::nil_pointer()),
        Some(other) => Err(FuncError::new(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind().name()
        ))),
    }
}

pub(super) fn url_join(_: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let source = map(args, 0);
    let mut url = Url {
        scheme: part(&source, "scheme")?.to_string(),
        host: part(&source, "host")?.to_vec(),
        path: part(&source, "path")?.to_vec(),
        query: part(&source, "query")?.to_vec(),
        opaque: part(&source, "opaque")?.to_string(),
        fragment: part(&source, "fragment")?.to_vec(),
        ..Url::default()
    };
    let user = part(&source, "userinfo")?;
    if !user.is_empty() {
        let with_user = [b"proto://", &user[..], b"@host"].concat();
        let parsed = parse(&with_user)
            .map_err(|e| FuncError::new(format!("unable to parse userinfo in dict: {e}")))?;
        url.user = parsed.user;
    }
    string(url.to_bytes())
}
