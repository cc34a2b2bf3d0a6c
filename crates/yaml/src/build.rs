use std::borrow::Cow;

/// A kind of value that YAML is read into, without a value in between.
pub trait Build: Sized {
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
