//! What type a scalar has: YAML 1.1 as `go.yaml.in/yaml/v2` reads it.

use crate::timestamp::is_timestamp;

pub(crate) const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// A scalar by its text alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Plain {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Timestamp,
    Str,
}

impl Plain {
    /// As Go's messages name the type.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Int(_) | Self::Uint(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::Str => "!!str",
        }
    }
}

/// `timestamps`: whether a timestamp is one; without, it is what else it may be.
pub(crate) fn resolve(text: &str, timestamps: bool) -> Plain {
    let Some(&first) = text.as_bytes().first() else { return Plain::Null };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text),
        b'.' => match text {
            ".nan" | ".NaN" | ".NAN" => Plain::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" => Plain::Float(f64::INFINITY),
            _ => point(text),
        },
        b'0'..=b'9' => number(text, timestamps),
        b'+' | b'-' => match text {
            "+.inf" | "+.Inf" | "+.INF" => Plain::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Plain::Float(f64::NEG_INFINITY),
            _ => number(text, timestamps),
        },
        _ => Plain::Str,
    }
}

fn word(text: &str) -> Plain {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Plain::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Plain::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Plain::Null,
        _ => Plain::Str,
    }
}

/// A number that starts with its point: Go's `strconv.ParseFloat`, which allows `_` between digits.
fn point(text: &str) -> Plain {
    let bytes = text.as_bytes();
    let misplaced = |(i, byte): (usize, &u8)| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        *byte == b'_' && !(digit(i.checked_sub(1)) && digit(Some(i + 1)))
    };
    if bytes.iter().enumerate().any(misplaced) {
        return Plain::Str;
    }
    float(&text.replace('_', ""))
}

fn number(text: &str, timestamps: bool) -> Plain {
    if timestamps && is_timestamp(text) {
        return Plain::Timestamp;
    }
    let stripped;
    let plain = if text.contains('_') {
        stripped = text.replace('_', "");
        stripped.as_str()
    } else {
        text
    };
    let (negative, digits) = match plain.as_bytes().first() {
        Some(b'-') => (true, plain.get(1..).unwrap_or_default()),
        Some(b'+') => (false, plain.get(1..).unwrap_or_default()),
        _ => (false, plain),
    };
    let signed = digits.len() != plain.len();
    if let Some(magnitude) = magnitude(digits) {
        let limit = if negative { 1 << 63 } else { (1 << 63) - 1 };
        if magnitude <= limit {
            return Plain::Int(if negative { (magnitude as i64).wrapping_neg() } else { magnitude as i64 });
        }
        if !signed {
            return Plain::Uint(magnitude);
        }
    }
    let float = float(plain);
    if float != Plain::Str {
        return float;
    }
    // `0b` may be followed by a sign of its own.
    match plain.strip_prefix("0b").map(|binary| i64::from_str_radix(binary, 2)) {
        Some(Ok(int)) => Plain::Int(int),
        _ => Plain::Str,
    }
}

/// Go's base 0: `0x`, `0o`, `0b`, and a leading zero for octal.
fn magnitude(digits: &str) -> Option<u64> {
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, digits.get(2..)?),
        [b'0', b'o' | b'O', _, ..] => (8, digits.get(2..)?),
        [b'0', b'b' | b'B', _, ..] => (2, digits.get(2..)?),
        [b'0'] => return Some(0),
        [b'0', ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`, and not beyond the largest number.
fn float(text: &str) -> Plain {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(at);
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if whole == 0 && fraction == 0 {
            return Plain::Str;
        }
        at += 1 + fraction;
    } else if whole == 0 {
        return Plain::Str;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent == 0 {
            return Plain::Str;
        }
        at += 1 + sign + exponent;
    }
    if at != bytes.len() {
        return Plain::Str;
    }
    match text.parse::<f64>() {
        Ok(float) if float.is_finite() => Plain::Float(float),
        _ => Plain::Str,
    }
}
