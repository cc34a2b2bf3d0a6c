use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A kind of value that YAML is read into, without a value in between.
pub trait Build: Sized {
    /// Whether it can hold infinite numbers and NaN; without, they are an error as in JSON.
    const INFINITE: bool = false;

    /// `null`, `~` and nothing at all.
    fn null() -> Self;
    /// A boolean, also written `yes`, `no`, `on`, `off`, `y` and `n`.
    fn boolean(value: bool) -> Self;
    /// A whole number that fits 64 bits with a sign.
    fn integer(value: i64) -> Self;
    /// A whole number that only fits 64 bits without a sign.
    fn unsigned(value: u64) -> Self;
    /// Any other number.
    fn float(value: f64) -> Self;
    /// A string.
    fn string(value: &str) -> Self;
    /// A sequence.
    fn sequence(items: Vec<Self>) -> Self;
    /// A mapping. A key may occur more than once: the last one counts.
    fn mapping(entries: Vec<(Cow<'_, str>, Self)>) -> Self;
}

impl Build for serde_json::Value {
    fn null() -> Self {
        Self::Null
    }

    fn boolean(value: bool) -> Self {
        Self::Bool(value)
    }

    fn integer(value: i64) -> Self {
        Self::from(value)
    }

    fn unsigned(value: u64) -> Self {
        Self::from(value)
    }

    /// A whole number is one also when it is written with a point or an exponent: Go's JSON encoder writes
    /// `1.0` as `1`.
    fn float(value: f64) -> Self {
        match whole(value) {
            Some(Whole::Signed(value)) => Self::from(value),
            Some(Whole::Unsigned(value)) => Self::from(value),
            None => Self::from(value),
        }
    }

    fn string(value: &str) -> Self {
        Self::String(value.to_owned())
    }

    fn sequence(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn mapping(entries: Vec<(Cow<'_, str>, Self)>) -> Self {
        Self::Object(entries.into_iter().map(|(key, value)| (key.into_owned(), value)).collect())
    }
}

pub(crate) enum Whole {
    Signed(i64),
    Unsigned(u64),
}

/// The whole number that a float is in JSON text as Go writes it, if it fits 64 bits.
pub(crate) fn whole(value: f64) -> Option<Whole> {
    if value.fract() != 0.0 || value.abs() >= 1e21 {
        return None;
    }
    let text = format!("{value}");
    text.parse().map(Whole::Signed).ok().or_else(|| text.parse().map(Whole::Unsigned).ok())
}

/// A value as Go prints it with `%#v`.
pub(crate) struct GoSyntax(pub(crate) String);

impl Build for GoSyntax {
    const INFINITE: bool = true;

    fn null() -> Self {
        Self("interface {}(nil)".to_owned())
    }

    fn boolean(value: bool) -> Self {
        Self(value.to_string())
    }

    fn integer(value: i64) -> Self {
        Self(value.to_string())
    }

    fn unsigned(value: u64) -> Self {
        Self(format!("{value:#x}"))
    }

    fn float(value: f64) -> Self {
        Self(crate::number::format_g(value))
    }

    fn string(value: &str) -> Self {
        let mut quoted = String::with_capacity(value.len() + 2);
        quoted.push('"');
        for c in value.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\x07' => quoted.push_str("\\a"),
                '\x08' => quoted.push_str("\\b"),
                '\x0b' => quoted.push_str("\\v"),
                '\x0c' => quoted.push_str("\\f"),
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\0'..=' ' | '\x7f' if c != ' ' => {
                    let _ = write!(quoted, "\\x{:02x}", u32::from(c));
                }
                '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                    let _ = write!(quoted, "\\u{:04x}", u32::from(c));
                }
                _ => quoted.push(c),
            }
        }
        quoted.push('"');
        Self(quoted)
    }

    fn sequence(items: Vec<Self>) -> Self {
        let items: Vec<String> = items.into_iter().map(|item| item.0).collect();
        Self(format!("[]interface {{}}{{{}}}", items.join(", ")))
    }

    fn mapping(entries: Vec<(Cow<'_, str>, Self)>) -> Self {
        let entries: BTreeMap<_, _> = entries.into_iter().collect();
        let entries: Vec<String> =
            entries.into_iter().map(|(key, value)| format!("{}:{}", Self::string(&key).0, value.0)).collect();
        Self(format!("map[interface {{}}]interface {{}}{{{}}}", entries.join(", ")))
    }
}
