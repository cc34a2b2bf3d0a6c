//! The string formats that kube-apiserver checks in custom resources; it ignores all others.
//!
//! `isbn`, `creditcard`, `ssn`, `rgbcolor` and `bsonobjectid`, which kube-apiserver also knows, are
//! ignored here.

use std::net::{IpAddr, Ipv6Addr};

/// A known string format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    /// A UUID; for a version other than 0 also the digit that says so.
    Uuid(u8),
    Byte,
    Password,
    Date,
    DateTime,
    Duration,
    HexColor,
    ShortName,
    LongName,
}

impl Format {
    /// Dashes in a format's name mean nothing.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name.replace('-', "").as_str() {
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid(0),
            "uuid3" => Self::Uuid(3),
            "uuid4" => Self::Uuid(4),
            "uuid5" => Self::Uuid(5),
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "hexcolor" => Self::HexColor,
            "k8sshortname" => Self::ShortName,
            "k8slongname" => Self::LongName,
            _ => return None,
        })
    }

    pub(crate) fn matches(self, text: &str) -> bool {
        match self {
            Self::Uri => is_request_uri(text),
            Self::Email => is_email(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => is_ipv4(text),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Mac => is_mac(text),
            Self::Uuid(version) => is_uuid(text, version),
            Self::Byte => is_base64(text),
            Self::Password => true,
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text),
            Self::Duration => is_duration(text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            Self::ShortName => text.len() <= 63 && is_short_name(text),
            Self::LongName => text.len() <= 253 && text.split('.').all(is_short_name),
        }
    }
}

/// An absolute path, or a URI with a scheme; no control characters or broken escapes.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    let escapes_hold = text
        .split('%')
        .skip(1)
        .all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()));
    let path = text.split('?').next().unwrap_or(text);
    if path == "*" {
        return true;
    }
    if path.starts_with('/') {
        return escapes_hold;
    }
    let Some((scheme, rest)) = path.split_once(':') else { return false };
    let scheme_holds = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !scheme_holds || !escapes_hold {
        return false;
    }
    match rest.strip_prefix("//") {
        None => true,
        Some(rest) => {
            let authority = rest.split('/').next().unwrap_or(rest);
            let host = authority.rsplit('@').next().unwrap_or(authority);
            let port = match host.rfind(']') {
                Some(end) => host.get(end + 1..).unwrap_or_default(),
                None => host.find(':').and_then(|colon| host.get(colon..)).unwrap_or_default(),
            };
            let port_holds = port.is_empty()
                || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
            port_holds && !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}'])
        }
    }
}

/// An address, also in the form `Name <address>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(open), Some(inner)) => inner.get(open + 1..).unwrap_or_default(),
        (None, None) => text,
        _ => return false,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atoms = |part: &str| {
        !part.is_empty()
            && part.split('.').all(|atom| {
                let allowed =
                    |c: char| c.is_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c);
                !atom.is_empty() && atom.chars().all(allowed)
            })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || atoms(local)) && atoms(domain)
}

fn is_hostname(text: &str) -> bool {
    // Symbols such as emoji are allowed, control characters, punctuation and blanks are not.
    let allowed = |c: char| {
        c.is_ascii_alphanumeric()
            || c == '-'
            || "$+<=>^`|~".contains(c)
            || (!c.is_ascii() && !c.is_whitespace())
    };
    let labels: Vec<&str> = text.split('.').collect();
    text.len() <= 255
        && labels.iter().all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && label.chars().all(allowed)
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
        && match labels.as_slice() {
            // A name without dots may have one dash, after its first character.
            [only] => {
                let mut rest = only.chars();
                rest.next();
                let rest = rest.as_str();
                !rest.strip_prefix('-').unwrap_or(rest).contains('-')
            }
            [.., top] => top.chars().count() >= 2 && top.chars().all(char::is_alphabetic),
            [] => false,
        }
}

/// Leading zeros are tolerated.
fn is_ipv4(text: &str) -> bool {
    let octets: Vec<&str> = text.split('.').collect();
    let is_octet = |octet: &&str| {
        !octet.is_empty() && octet.bytes().all(|byte| byte.is_ascii_digit()) && octet.parse::<u8>().is_ok()
    };
    let mapped = || text.contains('.') && text.parse::<Ipv6Addr>().is_ok();
    (octets.len() == 4 && octets.iter().all(is_octet)) || mapped()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => 128,
        _ if is_ipv4(address) => 32,
        _ => return false,
    };
    !bits.is_empty()
        && bits.bytes().all(|byte| byte.is_ascii_digit())
        && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, digits: usize| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    let pairs = |separator: char| {
        let parts: Vec<&str> = text.split(separator).collect();
        matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(|part| hex(part, 2))
    };
    let fours: Vec<&str> = text.split('.').collect();
    pairs(':') || pairs('-') || (matches!(fours.len(), 3 | 4 | 10) && fours.iter().all(|part| hex(part, 4)))
}

/// Each of the four dashes may be left out.
fn is_uuid(text: &str, version: u8) -> bool {
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        match byte {
            b'-' if matches!(digits.len(), 8 | 12 | 16 | 20) => {}
            _ if byte.is_ascii_hexdigit() => digits.push(byte.to_ascii_lowercase()),
            _ => return false,
        }
    }
    let version_holds = version == 0 || digits.get(12) == Some(&(b'0' + version));
    let variant_holds =
        !matches!(version, 4 | 5) || digits.get(16).is_some_and(|digit| b"89ab".contains(digit));
    digits.len() == 32 && !text.contains("--") && version_holds && variant_holds
}

/// Padded, standard alphabet, not empty.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

fn is_date(text: &str) -> bool {
    let (Some(year), Some(month), Some(day)) = (text.get(..4), text.get(5..7), text.get(8..)) else {
        return false;
    };
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let (Ok(year), Ok(month), Ok(day)) = (year.parse::<u32>(), month.parse::<u32>(), day.parse::<u32>())
    else {
        return false;
    };
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    shape && (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let (Some(clock), Some(rest)) = (time.get(..8), time.get(8..)) else { return false };
    let two_digits = |part: &str, most: u8| {
        part.len() == 2
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u8>().is_ok_and(|n| n <= most)
    };
    let clock: Vec<&str> = clock.split(':').collect();
    let clock_holds = match clock.as_slice() {
        [hours, minutes, seconds] => {
            two_digits(hours, 23) && two_digits(minutes, 59) && two_digits(seconds, 59)
        }
        _ => false,
    };
    let digits = rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let zone = if digits > 0 { rest.get(digits + 1..).unwrap_or_default() } else { rest };
    let zone_holds = zone == "z"
        || match (zone.get(..1), zone.get(1..3), zone.get(3..4), zone.get(4..)) {
            (Some("+" | "-"), Some(hours), Some(":"), Some(minutes)) => {
                two_digits(hours, 99) && two_digits(minutes, 99)
            }
            _ => false,
        };
    is_date(date) && clock_holds && zone_holds
}

/// Go's durations, and words such as `3 days`.
fn is_duration(text: &str) -> bool {
    if text == "0" {
        return true;
    }
    const EXACT: [&str; 12] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const PREFIXES: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = rest
            .get(start..)
            .unwrap_or_default()
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let blanks = rest.trim_start();
        let end =
            blanks.find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ' || c == 'μ')).unwrap_or(blanks.len());
        let unit = blanks.get(..end).unwrap_or_default().to_lowercase();
        found |= EXACT.contains(&unit.as_str()) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix));
        rest = blanks.get(end..).unwrap_or_default();
    }
    found
}

fn is_short_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of kube-openapi's `strfmt`.
    #[test]
    fn formats_accept_what_kubernetes_accepts() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("uri", &["http://a.b/c?d", "/x", "mailto:a@b"], &["", "a b", "x/y", "http://a%zz"]),
            ("email", &["a@b", "A B <a@b.c>", "\"a b\"@c"], &["a", "@b", "a b@c", "a@b@"]),
            (
                "hostname",
                &["a", "a.example", "1a", "a-b", "my-host.example"],
                &["", "my-host", "-a", "a..b", "a_b", "a.1"],
            ),
            ("ipv4", &["1.2.3.4", "01.2.3.4"], &["1.2.3", "1.2.3.256", "::1"]),
            ("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4", "::g"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "a/1"]),
            ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23:45:67:89", "g1:23:45:67:89:ab"]),
            (
                "uuid",
                &["F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6", "f81d4fae7dec11d0a76500a0c91e6bf6"],
                &["f81d", ""],
            ),
            ("uuid4", &["f81d4fae-7dec-41d0-a765-00a0c91e6bf6"], &["f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]),
            ("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ", "Y Q="]),
            ("date", &["2024-02-29"], &["2023-02-29", "2024-2-9", "2024-13-01"]),
            (
                "date-time",
                &["2024-02-29T10:11:12Z", "2024-02-29t10:11:12.5+01:00"],
                &["2024-02-29", "2024-02-29T24:00:00Z"],
            ),
            ("duration", &["5m", "1h30m", "3 days", "-1.5h", "0"], &["", "5", "x"]),
            ("k8s-short-name", &["a-b"], &["A", "-a", "a.b"]),
            ("k8s-long-name", &["a-b.c"], &["a..b"]),
            ("hexcolor", &["#fff", "FFFFFF"], &["#ff", "#ggg"]),
        ];
        for (name, good, bad) in table {
            let format = Format::parse(name).unwrap();
            for text in *good {
                assert!(format.matches(text), "{name} must accept {text:?}");
            }
            for text in *bad {
                assert!(!format.matches(text), "{name} must refuse {text:?}");
            }
        }
    }
}
