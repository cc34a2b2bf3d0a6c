//! Go's `time.Duration`: nanoseconds, read and written as `1h2m3.5s`.

use std::fmt;

pub(super) const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR.unsigned_abs();

/// Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Duration(pub(super) i64);

/// Go's `time.ParseDuration`.
///
/// # Errors
/// Go's text.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let quoted = || String::from_utf8_lossy(&convoy_gotemplate::quote(text.as_bytes())).into_owned();
    let invalid = || format!("time: invalid duration {}", quoted());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration(0));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let size: u64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND.unsigned_abs(),
            "m" => MINUTE.unsigned_abs(),
            "h" => HOUR.unsigned_abs(),
            "" => return Err(format!("time: missing unit in duration {}", quoted())),
            _ => {
                let unit = convoy_gotemplate::quote(unit.as_bytes());
                return Err(format!(
                    "time: unknown unit {} in duration {}",
                    String::from_utf8_lossy(&unit),
                    quoted()
                ));
            }
        };
        let number: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        let mut part = number.checked_mul(size).ok_or_else(invalid)?;
        if !fraction.is_empty() {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let extra = (format!("0.{fraction}").parse().unwrap_or(0.0) * size as f64) as u64;
            part = part.checked_add(extra).ok_or_else(invalid)?;
        }
        total = total.checked_add(part).filter(|t| *t <= 1 << 63).ok_or_else(invalid)?;
        rest = next;
    }
    let signed = if negative { 0i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
    signed.map(Duration).ok_or_else(invalid)
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.unsigned_abs();
        if total == 0 {
            return f.write_str("0s");
        }
        let mut out = String::new();
        if total < SECOND.unsigned_abs() {
            let (unit, size) = match total {
                0..1_000 => ("ns", 1),
                1_000..1_000_000 => ("µs", 1_000),
                _ => ("ms", 1_000_000),
            };
            out.push_str(&with_fraction(total, size));
            out.push_str(unit);
        } else {
            let minutes = total / MINUTE.unsigned_abs();
            let seconds = with_fraction(total % MINUTE.unsigned_abs(), SECOND.unsigned_abs());
            if minutes >= 60 {
                out.push_str(&format!("{}h", minutes / 60));
            }
            if minutes > 0 {
                out.push_str(&format!("{}m", minutes % 60));
            }
            out.push_str(&format!("{seconds}s"));
        }
        write!(f, "{}{out}", if self.0 < 0 { "-" } else { "" })
    }
}

fn with_fraction(total: u64, size: u64) -> String {
    let digits = size.ilog10() as usize;
    let fraction = if digits == 0 { String::new() } else { format!("{:0digits$}", total % size) };
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}", total / size)
}

impl Duration {
    /// Rounded to seconds, halves away from zero.
    pub(super) fn round_to_seconds(self) -> Self {
        let rest = self.0 % SECOND;
        let whole = self.0 - rest;
        if rest.abs() * 2 < SECOND {
            return Self(whole);
        }
        Self(whole.saturating_add(SECOND * rest.signum()))
    }

    /// Sprig's `durationRound`: how many of the largest unit that fits more than once.
    pub(super) fn largest_unit(self) -> String {
        let total = self.0.unsigned_abs();
        let units = [
            (365 * DAY, "y"),
            (30 * DAY, "mo"),
            (DAY, "d"),
            (HOUR.unsigned_abs(), "h"),
            (MINUTE.unsigned_abs(), "m"),
            (SECOND.unsigned_abs(), "s"),
        ];
        units
            .into_iter()
            .find(|(size, _)| total > *size)
            .map_or_else(|| "0s".to_owned(), |(size, name)| format!("{}{name}", total / size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_and_read_as_go_does() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (-3_600_000_000_000, "-1h0m0s"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(Duration(nanoseconds).to_string(), text);
            assert_eq!(parse(text), Ok(Duration(nanoseconds)));
        }
        assert_eq!(parse("1.5h30m"), Ok(Duration(2 * HOUR)));
        assert_eq!(parse("3"), Err("time: missing unit in duration \"3\"".into()));
        assert_eq!(parse("1x"), Err("time: unknown unit \"x\" in duration \"1x\"".into()));
        assert_eq!(parse(""), Err("time: invalid duration \"\"".into()));
    }
}
