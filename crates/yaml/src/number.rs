//! Numbers as Go's `strconv.FormatFloat` writes them.

/// Format `g` with the shortest digits, as the YAML of a float has it but for the names of the infinities.
pub fn format_g(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    shortest_g(&format!("{value:e}"), || format!("{value}"))
}

/// The key that `sigs.k8s.io/yaml` makes of a float: format `g`, 32 bits.
pub(crate) fn float_key(value: f64) -> String {
    let single = value as f32;
    if single.is_nan() {
        return ".nan".to_owned();
    }
    if single.is_infinite() {
        return if single > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    shortest_g(&format!("{single:e}"), || format!("{single}"))
}

/// `scientific` is Rust's form with the shortest digits, like `1.5e-7`.
fn shortest_g(scientific: &str, decimal: impl FnOnce() -> String) -> String {
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // For the shortest digits Go chooses as if the precision were 6.
    if (-4..6).contains(&exponent) {
        decimal()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}
