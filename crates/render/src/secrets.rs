use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use convoy_helm::{Data, HelmVersion, Values, read_values};

use crate::ValuesText;

/// Shorter values are not masked: they would blot out half of a message and hide nothing.
const SHORTEST: usize = 4;
const MASK: &str = "***";

/// Values that came from Secrets, to be kept out of messages and out of what is shown of objects: templates and
/// schemas quote what they fail on, and put values wherever they like.
#[derive(Clone, Default)]
pub struct SecretValues(Vec<String>);

impl std::fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secret values", self.0.len())
    }
}

impl SecretValues {
    /// The values of those texts that are of Secrets, as they are and in base64, as Secrets have them.
    pub fn of(texts: &[ValuesText]) -> Self {
        let mut secrets = Self::default();
        for text in texts.iter().filter(|text| text.is_secret) {
            // What goes to a path goes there as it is.
            if text.target_path.is_some() {
                let whole = String::from_utf8_lossy(&text.text).into_owned();
                secrets.learn(&Values::from([("".into(), Data::String(whole.into()))]));
                continue;
            }
            match read_values(&text.text, HelmVersion::V4) {
                Ok(values) => secrets.learn(&values),
                // What is no YAML is not shown either.
                Err(_) => secrets.0.push(String::from_utf8_lossy(&text.text).trim().to_owned()),
            }
        }
        let encoded = secrets.0.iter().flat_map(|text| {
            // Text may have had a line end when it was encoded.
            let with_end = format!("{text}\n");
            [STANDARD.encode(text), STANDARD_NO_PAD.encode(text), STANDARD.encode(with_end)]
        });
        let encoded: Vec<String> = encoded.collect();
        secrets.0.extend(encoded);
        secrets.settle();
        secrets
    }

    /// Takes in all strings and numbers of some values.
    pub(crate) fn learn(&mut self, values: &Values) {
        let mut open: Vec<&Data> = values.values().collect();
        while let Some(value) = open.pop() {
            match value {
                Data::String(text) => {
                    let text = text.to_string();
                    // Messages may show a text line by line, or quoted.
                    let quoted = text.escape_debug().to_string();
                    self.0.extend(
                        text.lines().chain([text.as_str(), &quoted]).map(|part| part.trim().to_owned()),
                    );
                }
                Data::Int(number) => self.0.push(number.to_string()),
                Data::Float(number) => self.0.push(number.to_string()),
                Data::List(items) => open.extend(items),
                Data::Map(map) => open.extend(map.values()),
                Data::Null | Data::Bool(_) => {}
            }
        }
        self.settle();
    }

    fn settle(&mut self) {
        self.0.retain(|text| text.len() >= SHORTEST);
        // The longest first: one value may be part of another.
        self.0.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.0.dedup();
    }

    /// The text with all values masked.
    pub fn masked(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_in_base64_is_masked_too_and_what_is_no_secret_is_not() {
        let text = |text: &str, is_secret| ValuesText {
            from: String::new(),
            text: text.into(),
            target_path: None,
            is_secret,
        };
        let secrets =
            SecretValues::of(&[text("a: CANARY-1", true), text("b: plain", false), text("[", true)]);
        let encoded = STANDARD.encode("CANARY-1");
        assert_eq!(secrets.masked(&format!("CANARY-1 plain {encoded}")), "*** plain ***");
        assert!(!format!("{secrets:?}").contains("CANARY"));
    }

    #[test]
    fn values_are_masked_wherever_they_stand() {
        let mut secrets = SecretValues::default();
        let values =
            json!({"b": ["CANARY", "CANARY-2"], "n": 123_456, "short": "ab", "key": "line 1\nline 2"});
        secrets.learn(&Values::from([("a".into(), Data::from(&values))]));
        let text = "at <fail \"CANARY-2\">: CANARY and 123456, ab, \"line 1\\nline 2\", line 2";
        assert_eq!(secrets.masked(text), "at <fail \"***\">: *** and ***, ab, \"***\", ***");
    }
}
