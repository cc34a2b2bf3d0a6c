use convoy_helm::{Data, Values};

/// Shorter values are not masked: they would blot out half of a message and hide nothing.
const SHORTEST: usize = 4;
const MASK: &str = "***";

/// Values that came from Secrets, to be kept out of messages: templates and schemas quote what they fail on.
#[derive(Default)]
pub(crate) struct SecretValues(Vec<String>);

impl SecretValues {
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
        self.0.retain(|text| text.len() >= SHORTEST);
        // The longest first: one value may be part of another.
        self.0.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.0.dedup();
    }

    /// The text with all values masked.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
