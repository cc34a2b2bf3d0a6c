//! What is wrong with a value, and how it is said.

use super::instance;
use convoy_gotemplate::{Value, quote, sprintf};
use serde_json::Value as Json;

/// A violation, with those that led to it.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    /// JSON pointer of the value.
    pub(super) at: String,
    pub(super) kind: Kind,
    pub(super) causes: Vec<Violation>,
}

/// What kind of violation.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A keyword's own text.
    Text(String),
    /// What a reference leads to is violated; not shown when there is one cause.
    Reference,
    /// Several violations of one schema; taken apart where it is handed on.
    Group,
}

impl Violation {
    /// The text of a whole validation against the schema at `location`.
    pub(super) fn list(causes: &[Self], location: &str) -> String {
        let mut text = format!("jsonschema validation failed with {}", quoted(location));
        causes.iter().for_each(|cause| cause.show(1, &mut text));
        text
    }

    fn show(&self, indent: usize, text: &mut String) {
        let is_shown = !(matches!(self.kind, Kind::Reference) && self.causes.len() == 1);
        if is_shown {
            text.push('\n');
            text.push_str(&"  ".repeat(indent - 1));
            text.push_str("- at ");
            text.push_str(&quoted(&self.at));
            text.push_str(": ");
            text.push_str(match &self.kind {
                Kind::Text(own) => own,
                Kind::Reference | Kind::Group => "validation failed",
            });
        }
        let indent = indent + usize::from(is_shown);
        self.causes.iter().for_each(|cause| cause.show(indent, text));
    }
}

/// In single quotes, otherwise as Go's `%q`.
pub(super) fn quoted(text: &str) -> String {
    let quoted = String::from_utf8_lossy(&quote(text.as_bytes())).into_owned();
    let quoted = quoted.replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", quoted.get(1..quoted.len() - 1).unwrap_or_default())
}

/// Names in quotes, with commas.
pub(super) fn all_quoted<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    names.into_iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

/// A value that is neither a list nor a map.
pub(super) fn display(value: &Json) -> String {
    match value {
        Json::Null => "<nil>".to_owned(),
        Json::String(text) => quoted(text),
        Json::Array(_) | Json::Object(_) => "value".to_owned(),
        other => other.to_string(),
    }
}

/// A count with commas between its thousands.
pub(super) fn count(count: usize) -> String {
    grouped(&count.to_string())
}

/// A number in the English form that Go's x/text gives it.
pub(super) fn number(value: &Json) -> String {
    let value = instance::float(value);
    let text = sprintf(b"%v", &[Value::Float64(value)], 4096).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let Some((mantissa, exponent)) = text.split_once('e') else { return grouped(&text) };
    let raised = exponent.chars().filter_map(|c| match c {
        '-' => Some('⁻'),
        '0' => Some('⁰'),
        '1' => Some('¹'),
        '2' => Some('²'),
        '3' => Some('³'),
        '4'..='9' => char::from_u32(0x2074 + (u32::from(c) - u32::from('4'))),
        _ => None,
    });
    format!("{mantissa}×10{}", raised.collect::<String>())
}

fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut out = sign.to_owned();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_english() {
        // Printed by golang.org/x/text's message.NewPrinter(language.English) with %v.
        let table = [
            (0.0, "0"),
            (99_999.0, "99,999"),
            (1.5, "1.5"),
            (-1234.5, "-1,234.5"),
            (1_234_567.891_234_567, "1.234567891234567×10⁰⁶"),
            (1e6, "1×10⁰⁶"),
            (1e21, "1×10²¹"),
            (1e-5, "1×10⁻⁰⁵"),
            (0.300_000_000_000_000_04, "0.30000000000000004"),
        ];
        for (value, text) in table {
            assert_eq!(number(&Json::from(value)), text);
        }
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
