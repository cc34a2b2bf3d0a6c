//! Values as Go's `fmt` prints them, since they stand in Kubernetes' messages.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// A value in a message: strings as `%q`, numbers as `%v`, the rest as JSON.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) => show_number(number),
        other => other.to_string(),
    }
}

/// A number as `%v`.
pub(crate) fn show_number(number: &Number) -> String {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), _, _) => integer.to_string(),
        (_, Some(integer), _) => integer.to_string(),
        (_, _, Some(float)) => show_float(float),
        _ => number.to_string(),
    }
}

/// A float64 as `%v`: shortest form, with an exponent below 1e-4 and from 1e21 on.
pub(crate) fn show_float(float: f64) -> String {
    if float == 0.0 || !float.is_finite() {
        return if float == 0.0 { "0".to_owned() } else { float.to_string() };
    }
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// A string as `%q`.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0b' => quoted.push_str("\\v"),
            '\x0c' => quoted.push_str("\\f"),
            control if control.is_control() && (control as u32) < 0x80 => {
                let _ = write!(quoted, "\\x{:02x}", control as u32);
            }
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", control as u32);
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_printed_as_go_prints_them() {
        let table = [
            (0.5, "0.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (-2.0, "-2"),
        ];
        for (float, want) in table {
            assert_eq!(show_float(float), want);
        }
    }

    #[test]
    fn strings_are_quoted_as_go_quotes_them() {
        assert_eq!(quote("a\u{1}\n\u{7f}é"), r#""a\x01\n\x7fé""#);
    }
}
