//! What is wrong with one field of an object, worded as Kubernetes words it.

use std::fmt;

use serde_json::Value;

/// One fault of one field. Printed, it reads `spec.url: Required value: detail`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The path of the field: `spec.containers[0].name`, `metadata.labels`.
    pub path: String,
    /// What sort of fault it is.
    pub kind: FieldErrorKind,
    /// The value found; printed for the kinds of which Kubernetes prints it.
    pub value: Option<Value>,
    /// What would be right; may be empty.
    pub detail: String,
}

/// Sorts of faults, as `k8s.io/apimachinery/pkg/util/validation/field` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A value that refers to something that does not exist.
    NotFound,
    /// A value that must be given.
    Required,
    /// A value that must be unique and is not.
    Duplicate,
    /// A malformed value.
    Invalid,
    /// A value that is none of the known ones.
    NotSupported,
    /// A value that is well formed but not allowed here.
    Forbidden,
    /// A value that is too long.
    TooLong,
    /// A list or map with too many entries.
    TooMany,
    /// A failure that is not the user's fault.
    Internal,
    /// A value of the wrong type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// The words that start the message.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// The `reason` of the cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn prints_value(self) -> bool {
        matches!(
            self,
            Self::NotFound | Self::Duplicate | Self::Invalid | Self::NotSupported | Self::TypeInvalid
        )
    }
}

impl FieldError {
    /// A fault of any sort.
    pub fn new(
        kind: FieldErrorKind,
        path: impl Into<String>,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), kind, value, detail: detail.into() }
    }

    /// `Required value`.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, None, detail)
    }

    /// `Invalid value: <value>: <detail>`.
    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, Some(value.into()), detail)
    }

    /// `Invalid value: <value>: <detail>` for a value of the wrong type.
    pub fn type_invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, Some(value.into()), detail)
    }

    /// `Forbidden: <detail>`.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, None, detail)
    }

    /// `Duplicate value: <value>`.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, Some(value.into()), "")
    }

    /// `Not found: <value>`.
    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, path, Some(value.into()), "")
    }

    /// `Unsupported value: <value>: supported values: "a", "b"`.
    pub fn not_supported(path: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|s| go_quote(s)).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(FieldErrorKind::NotSupported, path, Some(value.into()), detail)
    }

    /// `Too long: may not be more than <max> bytes`.
    pub fn too_long(path: impl Into<String>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(FieldErrorKind::TooLong, path, None, format!("may not be more than {max} {unit}"))
    }

    /// `Too many: <actual>: must have at most <max> items`.
    pub fn too_many(path: impl Into<String>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(FieldErrorKind::TooMany, path, None, format!("{actual}: must have at most {max} {unit}"))
    }

    /// The message without the path: what the cause of a Status says.
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if self.kind.prints_value() {
            text.push_str(": ");
            text.push_str(&go_value(self.value.as_ref().unwrap_or(&Value::Null)));
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Number(number) if number.is_f64() => go_float(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// A number as Go's `%v` prints a float64: without a fraction when it is whole, and with an exponent
/// below 1e-4 and from 1e21 on.
pub fn go_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..21).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// `text` as Go's `%q` quotes it: printable Unicode as it is, the rest as escapes.
pub fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || c == '\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if ('\u{80}'..='\u{a0}').contains(&c) || c == '\u{ad}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_errors_read_as_kubernetes_writes_them() {
        let table = [
            (FieldError::required("spec.url", ""), "spec.url: Required value"),
            (FieldError::invalid("spec.n", 3, "must be even"), "spec.n: Invalid value: 3: must be even"),
            (FieldError::invalid("a", "x\"y", "no"), r#"a: Invalid value: "x\"y": no"#),
            (
                FieldError::not_supported("m", "x", &["A", "B"]),
                r#"m: Unsupported value: "x": supported values: "A", "B""#,
            ),
            (FieldError::too_long("l", 1), "l: Too long: may not be more than 1 byte"),
            (FieldError::too_many("l", 3, 2), "l: Too many: 3: must have at most 2 items"),
            (FieldError::invalid("f", 1e21, "no"), "f: Invalid value: 1e+21: no"),
            (FieldError::invalid("f", 2.0, "no"), "f: Invalid value: 2: no"),
            (FieldError::invalid("f", 1.5e-7, "no"), "f: Invalid value: 1.5e-07: no"),
            (FieldError::too_long("l", 63), "l: Too long: may not be more than 63 bytes"),
            (FieldError::forbidden("f", "field is immutable"), "f: Forbidden: field is immutable"),
            (FieldError::duplicate("d[1]", "x"), "d[1]: Duplicate value: \"x\""),
        ];
        for (error, want) in table {
            assert_eq!(error.to_string(), want);
        }
    }
}
