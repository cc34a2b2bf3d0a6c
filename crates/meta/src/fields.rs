//! Field selectors: `metadata.name=a,spec.clusterRef.name!=b`.

use std::fmt;

use serde_json::Value;

/// One requirement: a field that has, or has not, a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field's path as clients name it.
    pub field: String,
    /// Whether the field must have the value, or must not.
    pub equal: bool,
    /// The value.
    pub value: String,
}

/// Requirements that must all hold; none selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// A field selector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A term without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Syntax {
        /// The whole selector.
        selector: String,
        /// The term at fault.
        term: String,
    },
    /// A backslash before something that needs none.
    #[error("invalid field selector: invalid escape sequence: \\{0}")]
    Escape(char),
    /// A backslash at the end, or a comma or equals sign without one.
    #[error("invalid field selector: invalid value: contains unescaped character '{0}'")]
    Unescaped(char),
    /// The text is longer than any honest selector.
    #[error("the field selector is too long: at most {MAX_BYTES} bytes are read")]
    TooLong,
}

const MAX_BYTES: usize = 64 * 1024;

impl FieldSelector {
    /// The selector that selects everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Of requirements.
    pub fn new(requirements: Vec<FieldRequirement>) -> Self {
        Self { requirements }
    }

    /// Reads `a=b,c==d,e!=f`; a backslash escapes `\`, `,` and `=` in a value.
    ///
    /// # Errors
    /// When a term has no operator or a value is escaped wrongly.
    pub fn parse(text: &str) -> Result<Self, FieldSelectorError> {
        if text.len() > MAX_BYTES {
            return Err(FieldSelectorError::TooLong);
        }
        let mut requirements = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let (field, equal, value) = split_term(term)
                .ok_or_else(|| FieldSelectorError::Syntax { selector: text.into(), term: term.into() })?;
            requirements.push(FieldRequirement { field: field.into(), equal, value: unescape(value)? });
        }
        Ok(Self { requirements })
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, in order.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The one value that `field` must have, when the selector says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.field == field && r.equal).map(|r| r.value.as_str())
    }

    /// Whether fields, looked up by name, satisfy every requirement; an absent field is empty.
    pub fn matches_with(&self, lookup: impl Fn(&str) -> String) -> bool {
        self.requirements.iter().all(|r| (lookup(&r.field) == r.value) == r.equal)
    }

    /// Whether the fields of an object, found by their dotted path, satisfy every requirement.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_with(|field| field_text(object, field))
    }
}

/// The value at a dotted path as a selector compares it: strings as they are, numbers and booleans
/// printed, all else empty.
pub fn field_text(object: &Value, path: &str) -> String {
    let mut at = object;
    for part in path.split('.') {
        match at.get(part) {
            Some(next) => at = next,
            None => return String::new(),
        }
    }
    match at {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let operator = if requirement.equal { "=" } else { "!=" };
            write!(f, "{}{operator}{}", requirement.field, escape(&requirement.value))?;
        }
        Ok(())
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(text.get(start..index).unwrap_or_default());
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(text.get(start..).unwrap_or_default());
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (index, _) in term.char_indices() {
        let rest = term.get(index..)?;
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((term.get(..index)?, equal, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, FieldSelectorError> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(other) => return Err(FieldSelectorError::Escape(other)),
                None => return Err(FieldSelectorError::Unescaped('\\')),
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(c)),
            c => out.push(c),
        }
    }
    Ok(out)
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_selectors_match_as_kubernetes_matches_them() {
        let object = json!({"metadata": {"name": "a,b"}, "spec": {"n": 3, "on": true}});
        for (text, want) in [
            ("", true),
            ("metadata.name=a\\,b", true),
            ("metadata.name!=x,spec.n==3", true),
            ("spec.on=true", true),
            ("spec.absent=", true),
            ("spec.absent!=", false),
            ("spec.n=4", false),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap().matches(&object), want, "{text}");
        }
    }

    #[test]
    fn broken_field_selectors_are_refused() {
        for bad in ["a", "a=b=c", "a=\\x", "a=\\", "a=b,c"] {
            assert!(FieldSelector::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(
            FieldSelector::parse("abc").unwrap_err().to_string(),
            "invalid selector: 'abc'; can't understand 'abc'"
        );
    }

    #[test]
    fn a_field_selector_prints_what_reads_back() {
        let text = "a=x\\,y,b!=z";
        let selector = FieldSelector::parse(text).unwrap();
        assert_eq!(selector.to_string(), text);
        assert_eq!(selector.exact("a"), Some("x,y"));
        assert_eq!(selector.exact("b"), None);
    }
}
