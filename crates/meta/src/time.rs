//! metav1.Time and metav1.MicroTime, and ages as kubectl prints them.

use jiff::Timestamp;

/// A time that is not RFC 3339.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not an RFC 3339 time")]
pub struct TimeError {
    text: String,
    #[source]
    source: jiff::Error,
}

/// Whole seconds, as metav1.Time is written: `2026-01-31T10:00:00Z`. Fractions are dropped.
pub fn format(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Six digits of fraction, as metav1.MicroTime is written: `2026-01-31T10:00:00.000000Z`.
pub fn format_micro(time: Timestamp) -> String {
    let micros = time.subsec_nanosecond().rem_euclid(1_000_000_000) / 1000;
    format!("{}.{micros:06}Z", time.strftime("%Y-%m-%dT%H:%M:%S"))
}

/// Reads either form, with any offset.
///
/// # Errors
/// When the text is not RFC 3339 or out of range.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    text.parse().map_err(|source| TimeError { text: text.chars().take(64).collect(), source })
}

/// The age that kubectl prints in an AGE column: `5s`, `3m20s`, `4h`, `2d3h`, `400d`, and
/// `<invalid>` for a time more than a second ahead.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    human_duration(now.duration_since(since).as_secs())
}

/// A number of seconds as `k8s.io/apimachinery/pkg/util/duration.HumanDuration` shortens it.
pub fn human_duration(seconds: i64) -> String {
    fn pair(big: i64, big_unit: &str, small: i64, small_unit: &str) -> String {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => pair(days, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => pair(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_metav1_writes_them() {
        let time = parse("2026-01-31T12:00:00.123456789+02:00").unwrap();
        assert_eq!(format(time), "2026-01-31T10:00:00Z");
        assert_eq!(format_micro(time), "2026-01-31T10:00:00.123456Z");
        assert_eq!(format_micro(parse("2026-01-31T10:00:00Z").unwrap()), "2026-01-31T10:00:00.000000Z");
        assert!(parse("yesterday").is_err());
    }

    /// Values from client-go's own duration.HumanDuration.
    #[test]
    fn ages_are_shortened_as_kubectl_shortens_them() {
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (8 * 3600 + 100, "8h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (8 * 86_400, "8d"),
            (729 * 86_400, "729d"),
            (731 * 86_400, "2y1d"),
            (9 * 365 * 86_400, "9y"),
        ];
        for (seconds, want) in table {
            assert_eq!(human_duration(seconds), want, "{seconds}");
        }
    }
}
