//! Numbers as Go's strconv reads and writes them.

/// Go's `strconv.ParseInt(text, 0, 64)` and `ParseUint`: prefixes `0x`, `0o`, `0b`, `0` and underscores.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (text.get(2..)?, 16),
        [b'0', b'o' | b'O', ..] => (text.get(2..)?, 8),
        [b'0', b'b' | b'B', ..] => (text.get(2..)?, 2),
        [b'0', _, ..] => (text.get(1..)?, 8),
        _ => (text, 10),
    };
    let plain: String;
    let digits = if digits.contains('_') {
        if !underscores_fit(text) {
            return None;
        }
        plain = digits.replace('_', "");
        &plain
    } else {
        digits
    };
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// Go's `strconv.ParseInt(text, 0, 64)`.
pub fn parse_int(text: &str) -> Option<i64> {
    if let Some(rest) = text.strip_prefix('-') {
        let magnitude = parse_uint(rest)?;
        return 0i64.checked_sub_unsigned(magnitude);
    }
    i64::try_from(parse_uint(text.strip_prefix('+').unwrap_or(text))?).ok()
}

fn underscores_fit(text: &str) -> bool {
    // Underscores stand between digits or right after a base prefix.
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (body, mut before, hex) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], '0', true),
        [b'0', b'o' | b'O' | b'b' | b'B', ..] => (&text[2..], '0', false),
        _ => (text, '^', false),
    };
    for c in body.chars() {
        if c.is_ascii_digit() || hex && c.is_ascii_hexdigit() {
            before = '0';
        } else if c == '_' {
            if before != '0' {
                return false;
            }
            before = '_';
        } else {
            if before == '_' {
                return false;
            }
            before = '!';
        }
    }
    before != '_'
}

/// Go's `strconv.ParseFloat(text, 64)`; `None` for what is no number or out of range.
pub fn parse_float(text: &str) -> Option<f64> {
    let plain: String;
    let text = if text.contains('_') {
        if !underscores_fit(text) {
            return None;
        }
        plain = text.replace('_', "");
        &plain
    } else {
        text
    };
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => {
            return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        "nan" if unsigned.len() == text.len() => return Some(f64::NAN),
        lower if lower.starts_with("0x") => {
            let value = parse_hex_float(lower.get(2..)?)?;
            return Some(if text.starts_with('-') { -value } else { value });
        }
        _ => {}
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    text.parse::<f64>().ok().filter(|f| f.is_finite())
}

fn parse_hex_float(body: &str) -> Option<f64> {
    let (mantissa, exponent) = body.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let number = u64::from_str_radix(&digits, 16).ok()?;
    #[allow(clippy::cast_precision_loss)]
    let value =
        number as f64 * 2f64.powi(exponent.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?);
    value.is_finite().then_some(value)
}

/// The shortest decimal digits that read back as `value` (finite, not negative) and where the point
/// stands: 0.`digits` × 10^`point`. Zero has no digits.
fn shortest(value: f64) -> (Vec<u8>, i32) {
    if value == 0.0 {
        return (Vec::new(), 0);
    }
    split_exponent(&format!("{value:e}"))
}

fn split_exponent(text: &str) -> (Vec<u8>, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    (digits, exponent.parse::<i32>().unwrap_or(0) + 1)
}

/// Go's `strconv.FormatFloat(value, verb, precision, 64)` with verbs `e`, `E`, `f`, `g`, `G`; a
/// negative precision is the shortest that reads back.
pub fn format_float(value: f64, verb: char, precision: i32) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.into();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let magnitude = value.abs();
    let body = match verb {
        'e' | 'E' => {
            let text = if precision < 0 {
                exponent_form(&shortest(magnitude), None)
            } else {
                let places = usize::try_from(precision).unwrap_or(0);
                exponent_form(&split_exponent(&format!("{magnitude:.places$e}")), Some(places))
            };
            if verb == 'E' { text.to_uppercase() } else { text }
        }
        'f' | 'F' => {
            if precision < 0 {
                plain_form(&shortest(magnitude))
            } else {
                let places = usize::try_from(precision).unwrap_or(0);
                format!("{magnitude:.places$}")
            }
        }
        _ => {
            let text = general(magnitude, precision);
            if verb == 'G' { text.to_uppercase() } else { text }
        }
    };
    format!("{sign}{body}")
}

fn general(magnitude: f64, precision: i32) -> String {
    let (digits, threshold) = if precision < 0 {
        (shortest(magnitude), 6)
    } else {
        let wanted = precision.max(1);
        let places = usize::try_from(wanted - 1).unwrap_or(0);
        let mut rounded = if magnitude == 0.0 {
            (Vec::new(), 0)
        } else {
            split_exponent(&format!("{magnitude:.places$e}"))
        };
        while rounded.0.last() == Some(&b'0') {
            rounded.0.pop();
        }
        (rounded, wanted)
    };
    let count = i32::try_from(digits.0.len()).unwrap_or(i32::MAX);
    let mut limit = threshold;
    if precision >= 0 && limit > count && count >= digits.1 {
        limit = count;
    }
    let exponent = digits.1 - 1;
    if !digits.0.is_empty() && (exponent < -4 || exponent >= limit) {
        exponent_form(&digits, None)
    } else {
        plain_form(&digits)
    }
}

fn exponent_form((digits, point): &(Vec<u8>, i32), places: Option<usize>) -> String {
    let mut out = String::new();
    let mut rest = digits.iter().map(|b| *b as char);
    out.push(rest.next().unwrap_or('0'));
    let fraction: String = rest.collect();
    let fraction = match places {
        Some(places) => format!("{fraction:0<places$}"),
        None => fraction,
    };
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(&fraction);
    }
    let exponent = if digits.iter().all(|d| *d == b'0') { 0 } else { point - 1 };
    out.push('e');
    out.push(if exponent < 0 { '-' } else { '+' });
    out.push_str(&format!("{:02}", exponent.abs()));
    out
}

fn plain_form((digits, point): &(Vec<u8>, i32)) -> String {
    let text = String::from_utf8_lossy(digits);
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if digits.is_empty() {
        return "0".into();
    }
    if *point <= 0 {
        let zeros = usize::try_from(-point).unwrap_or(0);
        return format!("0.{}{text}", "0".repeat(zeros));
    }
    if *point >= count {
        let zeros = usize::try_from(point - count).unwrap_or(0);
        return format!("{text}{}", "0".repeat(zeros));
    }
    let (whole, fraction) = text.split_at(usize::try_from(*point).unwrap_or(0));
    format!("{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_go_writes_them() {
        let cases = [
            (0.0, 'g', -1, "0"),
            (-0.0, 'g', -1, "-0"),
            (1.0, 'g', -1, "1"),
            (100_000.0, 'g', -1, "100000"),
            (1_000_000.0, 'g', -1, "1e+06"),
            (1_048_576.0, 'g', -1, "1.048576e+06"),
            (0.0001, 'g', -1, "0.0001"),
            (0.00001, 'g', -1, "1e-05"),
            (3.25, 'f', 0, "3"),
            (2.5, 'f', 0, "2"),
            (1e21, 'f', -1, "1000000000000000000000"),
            (0.000_123, 'f', -1, "0.000123"),
            (1234.5678, 'e', 3, "1.235e+03"),
            (0.0, 'e', 2, "0.00e+00"),
            (1234.5678, 'g', 3, "1.23e+03"),
            (1234.5678, 'g', 10, "1234.5678"),
            (100.0, 'g', 3, "100"),
            (f64::INFINITY, 'g', -1, "+Inf"),
        ];
        for (value, verb, precision, want) in cases {
            assert_eq!(format_float(value, verb, precision), want, "{value} {verb} {precision}");
        }
    }

    #[test]
    fn integers_are_read_with_prefixes_and_underscores() {
        assert_eq!(parse_int("0x1F"), Some(31));
        assert_eq!(parse_int("017"), Some(15));
        assert_eq!(parse_int("-0b11"), Some(-3));
        assert_eq!(parse_int("1_000"), Some(1000));
        assert_eq!(parse_int("1__0"), None);
        assert_eq!(parse_int("089"), None);
        assert_eq!(parse_int("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_int("9223372036854775808"), None);
        assert_eq!(parse_float("0x1p-2"), Some(0.25));
        assert_eq!(parse_float("1e400"), None);
    }
}
