use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A span of time as users write it: Go's duration syntax (`90s`, `1h30m`, `1.5h`, `250ms`), never
/// negative and at most [`Duration::MAX`]. See `time.ParseDuration` of Go's standard library; the units
/// `us` and `ns` are left out because nothing in convoy is that quick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(std::time::Duration);

/// Why a text is no duration. The text itself is in the message: durations hold no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: {why}; write for example 30s, 10m or 1h30m")]
pub struct ParseDurationError {
    text: String,
    why: &'static str,
}

impl Duration {
    /// The longest span: one year of 365 days. It keeps every `now + duration` far from overflow.
    pub const MAX: Duration = Duration::from_secs(365 * 24 * 3600);

    /// A span of whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(std::time::Duration::from_secs(seconds))
    }

    /// The same span in the standard library's type.
    pub const fn as_std(self) -> std::time::Duration {
        self.0
    }
}

const UNITS_MS: [(&str, f64); 4] = [("ms", 1.0), ("h", 3_600_000.0), ("m", 60_000.0), ("s", 1000.0)];

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |why| ParseDurationError { text: text.chars().take(64).collect(), why };
        if text == "0" {
            return Ok(Self::from_secs(0));
        }
        if text.is_empty() {
            return Err(fail("it is empty"));
        }
        if text.starts_with('-') {
            return Err(fail("it is negative"));
        }
        let mut rest = text;
        let mut millis = 0.0_f64;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, tail) = rest.split_at(end);
            let (unit, factor) = UNITS_MS
                .iter()
                .find(|(unit, _)| tail.starts_with(unit))
                .ok_or_else(|| fail("each number needs one of the units h, m, s, ms"))?;
            let number: f64 = number.parse().map_err(|_| fail("a number is malformed"))?;
            millis += number * factor;
            rest = tail.get(unit.len()..).unwrap_or_default();
        }
        if millis > Self::MAX.0.as_millis() as f64 {
            return Err(fail("it is longer than a year"));
        }
        Ok(Self(std::time::Duration::from_millis(millis.round() as u64)))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
        let (seconds, fraction) = (millis / 1000 % 60, millis % 1000);
        if millis == 0 {
            return f.write_str("0s");
        }
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if seconds > 0 {
            write!(f, "{seconds}s")?;
        }
        if fraction > 0 {
            write!(f, "{fraction}ms")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "string",
            "maxLength": 32,
            "pattern": r"^(0|([0-9]+(\.[0-9]+)?(h|m|s|ms))+)$",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in
            [("0", 0), ("0s", 0), ("90s", 90_000), ("1h30m", 5_400_000), ("1.5h", 5_400_000), ("250ms", 250)]
        {
            let parsed: Duration = text.parse().unwrap();
            assert_eq!(parsed.as_std().as_millis(), millis, "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_the_reason() {
        for text in ["", "1x", "-1s", "9999999h", "1e400s", "10", "s", "1..5s", "1h 30m", "٣s"] {
            let error = text.parse::<Duration>().unwrap_err().to_string();
            assert!(error.contains("is not a duration"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(millis in 0u64..=31_536_000_000) {
            let duration = Duration(std::time::Duration::from_millis(millis));
            prop_assert_eq!(duration.to_string().parse::<Duration>().unwrap(), duration);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Duration>();
        }
    }
}
