//! Quantities in the one form in which kube-apiserver prints them: `1024Mi` is `1Gi`, `0.5` is `500m`.

use serde_json::Value;

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(i32, &str); 10] =
    [(18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""), (-3, "m"), (-6, "u"), (-9, "n")];

/// Brings a quantity to its form, in place; what is none stays as it is.
pub(crate) fn canonicalise(value: &mut Value) {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Some(form) = canonical(&text) {
        *value = Value::String(form);
    }
}

/// The canonical form; `None` for what is no quantity or too large.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (digits, suffix) = unsigned.split_at(end);
    // In units of 1e-9; finer parts are rounded up.
    let mut nanos = parse(digits)?;

    if let Some(power) = BINARY.iter().position(|it| *it == suffix).filter(|power| *power > 0) {
        nanos = nanos.checked_mul(1_i128.checked_shl(u32::try_from(power * 10).ok()?)?)?;
        const ONE: i128 = 1_000_000_000;
        if nanos % ONE == 0 && nanos / ONE >= 1024 {
            let mut whole = nanos / ONE;
            let mut power = 0;
            while whole % 1024 == 0 && power + 1 < BINARY.len() {
                whole /= 1024;
                power += 1;
            }
            return Some(format!("{sign}{whole}{}", BINARY.get(power)?));
        }
        return Some(format!("{sign}{}", decimal(nanos, false)?));
    }
    let exponent = match DECIMAL.iter().find(|(_, it)| *it == suffix) {
        Some((exponent, _)) => *exponent,
        None => suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
    };
    let exponential = suffix.starts_with(['e', 'E']) && suffix.len() > 1;
    if exponent >= 0 {
        nanos = nanos.checked_mul(10_i128.checked_pow(u32::try_from(exponent).ok()?)?)?;
    } else {
        let factor = 10_i128.checked_pow(exponent.unsigned_abs())?;
        nanos = nanos.checked_add(factor - 1)? / factor;
    }
    Some(format!("{sign}{}", decimal(nanos, exponential)?))
}

fn parse(digits: &str) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 20 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let kept: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let finer = fraction.chars().skip(9).any(|digit| digit != '0');
    whole.checked_mul(1_000_000_000)?.checked_add(kept.parse::<i128>().ok()?)?.checked_add(i128::from(finer))
}

/// The largest suffix that needs no fraction.
fn decimal(nanos: i128, exponential: bool) -> Option<String> {
    if nanos == 0 {
        return Some("0".to_owned());
    }
    for (exponent, suffix) in DECIMAL {
        let unit = 10_i128.checked_pow(u32::try_from(exponent + 9).ok()?)?;
        if nanos % unit == 0 {
            let number = nanos / unit;
            return Some(match (exponential, exponent) {
                (true, 0) | (false, _) => format!("{number}{suffix}"),
                (true, exponent) => format!("{number}e{exponent}"),
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of kube-apiserver.
    #[test]
    fn quantities_take_the_form_that_kube_apiserver_prints() {
        let table = [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000Mi", "1000Mi"),
            ("1000M", "1G"),
            ("100", "100"),
            ("2000", "2k"),
            ("0", "0"),
            ("512Ki", "512Ki"),
            ("1e3", "1e3"),
            ("-1", "-1"),
            ("0.1", "100m"),
            ("128974848", "128974848"),
            ("1Ki", "1Ki"),
        ];
        for (text, want) in table {
            assert_eq!(canonical(text).as_deref(), Some(want), "{text}");
        }
        for text in ["", "a", "1.2.3", "1Zi", "."] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
