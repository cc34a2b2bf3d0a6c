//! The `format` keyword: texts that have to be addresses, dates, names and the like.

use crate::functions::{check_time, check_url, compile_pattern};
use convoy_gotemplate::quote;
use std::net::Ipv6Addr;

/// A format that is checked; others are taken for notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Regex,
    JsonPointer,
    RelativeJsonPointer,
    Uuid,
    Duration,
    Period,
    Ipv4,
    Ipv6,
    Hostname,
    Email,
    Date,
    Time,
    DateTime,
    Uri,
    Iri,
    UriReference,
    IriReference,
    UriTemplate,
    Semver,
}

const NAMES: [(&str, Format); 19] = [
    ("regex", Format::Regex),
    ("json-pointer", Format::JsonPointer),
    ("relative-json-pointer", Format::RelativeJsonPointer),
    ("uuid", Format::Uuid),
    ("duration", Format::Duration),
    ("period", Format::Period),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("hostname", Format::Hostname),
    ("email", Format::Email),
    ("date", Format::Date),
    ("time", Format::Time),
    ("date-time", Format::DateTime),
    ("uri", Format::Uri),
    ("iri", Format::Iri),
    ("uri-reference", Format::UriReference),
    ("iri-reference", Format::IriReference),
    ("uri-template", Format::UriTemplate),
    ("semver", Format::Semver),
];

type Checked = Result<(), String>;

fn fail(text: &str) -> Checked {
    Err(text.to_owned())
}

impl Format {
    pub(super) fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// Whether a text has the format.
    ///
    /// # Errors
    /// Helm's text.
    pub(super) fn check(self, text: &str) -> Checked {
        match self {
            Self::Regex => compile_pattern(text).map(|_| ()),
            Self::JsonPointer => json_pointer(text),
            Self::RelativeJsonPointer => relative_json_pointer(text),
            Self::Uuid => uuid(text),
            Self::Duration => duration(text),
            Self::Period => period(text),
            Self::Ipv4 => ipv4(text),
            Self::Ipv6 => ipv6(text),
            Self::Hostname => hostname(text),
            Self::Email => email(text),
            Self::Date => date(text),
            Self::Time => time(text),
            Self::DateTime => date_time(text),
            Self::Uri | Self::Iri => match url(text)? {
                true => Ok(()),
                false => fail("relative url"),
            },
            Self::UriReference | Self::IriReference if text.contains('\\') => fail("contains \\"),
            Self::UriReference | Self::IriReference | Self::UriTemplate => url(text).map(|_| ()),
            Self::Semver => semver(text),
        }
    }
}

fn rune(c: char) -> String {
    let quoted = String::from_utf8_lossy(&quote(c.to_string().as_bytes())).into_owned();
    let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned();
    match c {
        '"' => "'\"'".to_owned(),
        '\'' => "'\\''".to_owned(),
        _ => format!("'{inner}'"),
    }
}

fn invalid<T>(c: char) -> Result<T, String> {
    Err(format!("invalid character {}", rune(c)))
}

fn json_pointer(text: &str) -> Checked {
    if text.is_empty() {
        return Ok(());
    }
    let Some(rest) = text.strip_prefix('/') else { return fail("not starting with /") };
    for part in rest.split('/') {
        let mut is_escape = false;
        for c in part.chars() {
            if is_escape && c != '0' && c != '1' {
                return fail("~ must be followed by 0 or 1");
            }
            is_escape = !is_escape && c == '~';
        }
        if is_escape {
            return fail("~ must be followed by 0 or 1");
        }
    }
    Ok(())
}

fn relative_json_pointer(text: &str) -> Checked {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return fail("must start with non-negative integer");
    }
    if digits > 1 && text.starts_with('0') {
        return fail("starts with zero");
    }
    match text.get(digits..).unwrap_or_default() {
        "#" => Ok(()),
        rest => json_pointer(rest),
    }
}

fn uuid(text: &str) -> Checked {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let groups: Vec<&str> = text.split('-').collect();
    if groups.len() != GROUPS.len() {
        return fail("must have 5 elements");
    }
    for (at, (group, length)) in groups.iter().zip(GROUPS).enumerate() {
        if group.len() != length {
            return Err(format!("element {} must be {length} characters long", at + 1));
        }
        if let Some(c) = group.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("non-hex character {}", rune(c)));
        }
    }
    Ok(())
}

fn duration(text: &str) -> Checked {
    let Some(text) = text.strip_prefix('P') else { return fail("must start with P") };
    if text.is_empty() {
        return fail("nothing after P");
    }
    if let Some(weeks) = text.strip_suffix('W') {
        return match weeks {
            "" => fail("no number in week"),
            weeks if weeks.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
            _ => fail("invalid week"),
        };
    }
    for (at, part) in text.split('T').enumerate() {
        if at != 0 && part.is_empty() {
            return fail("no time elements");
        }
        let all = match at {
            0 => "YMD",
            1 => "HMS",
            _ => return fail("more than one T"),
        };
        let (mut units, mut rest) = (all, part);
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return fail("missing number");
            }
            rest = rest.get(digits..).unwrap_or_default();
            let Some(unit) = rest.chars().next() else { return fail("missing unit") };
            match units.find(unit) {
                Some(found) => units = units.get(found + 1..).unwrap_or_default(),
                None if all.contains(unit) => return Err(format!("unit {} out of order", rune(unit))),
                None => return Err(format!("invalid unit {}", rune(unit))),
            }
            rest = rest.get(unit.len_utf8()..).unwrap_or_default();
        }
    }
    Ok(())
}

fn period(text: &str) -> Checked {
    let Some((start, end)) = text.split_once('/') else { return fail("missing slash") };
    let says = |what: &'static str| move |error: String| format!("invalid {what}: {error}");
    if start.starts_with('P') {
        duration(start).map_err(says("start duration"))?;
        return date_time(end).map_err(says("end date-time"));
    }
    date_time(start).map_err(says("start date-time"))?;
    if end.starts_with('P') {
        return duration(end).map_err(says("end duration"));
    }
    date_time(end).map_err(says("end date-time"))
}

fn ipv4(text: &str) -> Checked {
    let groups: Vec<&str> = text.split('.').collect();
    if groups.len() != 4 {
        return fail("expected four decimals");
    }
    for group in groups {
        if group.len() > 1 && group.starts_with('0') {
            return fail("leading zeros");
        }
        match group.parse::<i64>() {
            Ok(0..=255) => {}
            Ok(_) => return fail("decimal must be between 0 and 255"),
            Err(error) => {
                let is_large = matches!(
                    error.kind(),
                    std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow
                );
                let problem = if is_large { "value out of range" } else { "invalid syntax" };
                let shown = quote(group.as_bytes());
                return Err(format!("strconv.Atoi: parsing {}: {problem}", String::from_utf8_lossy(&shown)));
            }
        }
    }
    Ok(())
}

fn ipv6(text: &str) -> Checked {
    if !text.contains(':') {
        return fail("missing colon");
    }
    let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    let shown = String::from_utf8_lossy(&quote(text.as_bytes())).into_owned();
    if zone == Some("") {
        return Err(format!("ParseAddr({shown}): zone must be a non-empty string"));
    }
    if address.parse::<Ipv6Addr>().is_err() {
        return Err(format!("ParseAddr({shown}): unable to parse IP"));
    }
    if zone.is_some() { fail("zone id is not a part of ipv6 address") } else { Ok(()) }
}

fn hostname(text: &str) -> Checked {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > 253 {
        return fail("more than 253 characters long");
    }
    for label in text.split('.') {
        if label.is_empty() || label.len() > 63 {
            return fail("label must be 1 to 63 characters long");
        }
        if label.starts_with('-') {
            return fail("label starts with hyphen");
        }
        if label.ends_with('-') {
            return fail("label ends with hyphen");
        }
        if let Some(c) = label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
            return invalid(c);
        }
    }
    Ok(())
}

fn email(text: &str) -> Checked {
    if text.len() > 254 {
        return fail("more than 255 characters long");
    }
    let Some((local, domain)) = text.rsplit_once('@') else { return fail("missing @") };
    if local.len() > 64 {
        return fail("local part more than 64 characters long");
    }
    if local.len() > 1 && local.starts_with('"') {
        let mut inner = local.chars();
        inner.next();
        inner.next_back();
        if inner.as_str().contains(['\\', '"']) {
            return fail("backslash and quote are not allowed within quoted local part");
        }
    } else {
        if local.starts_with('.') {
            return fail("starts with dot");
        }
        if local.ends_with('.') {
            return fail("ends with dot");
        }
        if local.contains("..") {
            return fail("consecutive dots");
        }
        let is_fine = |c: char| c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(c);
        if let Some(c) = local.chars().find(|c| !is_fine(*c)) {
            return invalid(c);
        }
    }
    if let Some(address) = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match address.strip_prefix("IPv6:") {
            Some(address) => ipv6(address).map_err(|error| format!("invalid ipv6 address: {error}")),
            None => ipv4(address).map_err(|error| format!("invalid ipv4 address: {error}")),
        };
    }
    hostname(domain).map_err(|error| format!("invalid domain: {error}"))
}

fn date(text: &str) -> Checked {
    check_time("2006-01-02", text)
}

fn time(text: &str) -> Checked {
    if text.len() < 9 {
        return fail("less than 9 characters long");
    }
    let bytes = text.as_bytes();
    if bytes.get(2) != Some(&b':') || bytes.get(5) != Some(&b':') {
        return fail("missing colon in correct place");
    }
    let number = |text: Option<&str>, what: &str| match text.map(str::parse::<i64>) {
        Some(Ok(number)) if number >= 0 => Ok(number),
        Some(Ok(_)) => Err(format!("non-positive {what}")),
        _ => Err(format!("invalid {what}")),
    };
    let what = "hour/min/sec";
    let (mut hours, mut minutes) = (number(text.get(..2), what)?, number(text.get(3..5), what)?);
    let seconds = number(text.get(6..8), what)?;
    if hours > 23 || minutes > 59 || seconds > 60 {
        return fail("hour/min/sec out of range");
    }
    let mut rest = text.get(8..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return fail("no digits in second fraction");
        }
        rest = fraction.get(digits..).unwrap_or_default();
    }
    if rest != "z" && rest != "Z" {
        if rest.len() != 6 {
            return fail("offset must be 6 characters long");
        }
        let sign = match rest.as_bytes().first() {
            Some(b'+') => -1,
            Some(b'-') => 1,
            _ => return fail("offset must begin with plus/minus"),
        };
        if rest.as_bytes().get(3) != Some(&b':') {
            return fail("missing colon in offset in correct place");
        }
        let what = "hour/min in offset";
        let (zone_hours, zone_minutes) = (number(rest.get(1..3), what)?, number(rest.get(4..6), what)?);
        if zone_hours > 23 || zone_minutes > 59 {
            return fail("hour/min in offset out of range");
        }
        let mut total = hours * 60 + minutes + sign * (zone_hours * 60 + zone_minutes);
        if total < 0 {
            total += 24 * 60;
        }
        (hours, minutes) = (total / 60, total % 60);
    }
    if seconds >= 60 && (hours != 23 || minutes != 59) {
        return fail("invalid leap second");
    }
    Ok(())
}

fn date_time(text: &str) -> Checked {
    if text.len() < 20 {
        return fail("less than 20 characters long");
    }
    if !matches!(text.as_bytes().get(10), Some(b't' | b'T')) {
        return fail("11th character must be t or T");
    }
    date(text.get(..10).unwrap_or_default()).map_err(|error| format!("invalid date element: {error}"))?;
    time(text.get(11..).unwrap_or_default()).map_err(|error| format!("invalid time element: {error}"))
}

/// Whether it has a scheme.
fn url(text: &str) -> Result<bool, String> {
    let (is_absolute, host, name) = check_url(text)?;
    if name.contains(':') {
        if !host.contains('[') || !host.contains(']') {
            return Err("ipv6 address not enclosed in brackets".to_owned());
        }
        ipv6(&name).map_err(|error| format!("invalid ipv6 address: {error}"))?;
    }
    Ok(is_absolute)
}

fn semver(text: &str) -> Checked {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    if let Some(build) = build {
        if build.is_empty() {
            return fail("build is empty");
        }
        for part in build.split('.') {
            if part.is_empty() {
                return fail("build identifier is empty");
            }
            if let Some(c) = part.chars().find(|c| !is_part(*c)) {
                return Err(format!("invalid character {} in build identifier", rune(c)));
            }
        }
    }
    let (core, before) = text.split_once('-').map_or((text, None), |(core, before)| (core, Some(before)));
    for part in before.iter().flat_map(|before| before.split('.')) {
        if part.is_empty() {
            return fail("pre-release identifier is empty");
        }
        if let Some(c) = part.chars().find(|c| !is_part(*c)) {
            return Err(format!("invalid character {} in pre-release identifier", rune(c)));
        }
        if part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit()) {
            return fail("pre-release numeric identifier starts with zero");
        }
    }
    let numbers: Vec<&str> = core.split('.').collect();
    if numbers.len() != 3 {
        return fail("versionCore must have 3 numbers separated by dot");
    }
    for (name, number) in ["major", "minor", "patch"].iter().zip(numbers) {
        if number.is_empty() {
            return Err(format!("{name} is empty"));
        }
        if number.len() > 1 && number.starts_with('0') {
            return Err(format!("{name} starts with zero"));
        }
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("{name} contains non-digit"));
        }
    }
    Ok(())
}
