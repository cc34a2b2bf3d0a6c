//! What is wrong with a field, in the words of Kubernetes.

use std::fmt;

use serde_json::Value;

use crate::go;

/// Why a field was refused. The names are those of Kubernetes' `field.ErrorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The object that the field names does not exist.
    NotFound,
    /// A required value is missing.
    Required,
    /// The value appears twice where it must be unique.
    Duplicate,
    /// The value is malformed or out of bounds.
    Invalid,
    /// The value is none of those allowed.
    NotSupported,
    /// The value is well formed but not permitted here.
    Forbidden,
    /// The string is too long; the value is not repeated in the message.
    TooLong,
    /// The string is too short; the value is not repeated in the message.
    TooShort,
    /// There are too many items.
    TooMany,
    /// There are too few items.
    TooFew,
    /// The value has another type than the schema says.
    TypeInvalid,
    /// Not the fault of the value.
    Internal,
}

impl Reason {
    /// The machine-readable reason, as it stands in `status.details.causes[].reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn phrase(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal)
    }
}

/// One problem with one field. Its `Display` is `<field>: <body>`, as in a Kubernetes Status message.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct FieldError {
    /// The path, such as `spec.template.spec.containers[0].image`; `<nil>` when no single field is meant.
    pub field: String,
    /// Why it was refused.
    pub reason: Reason,
    /// The refused value; `None` prints no value.
    pub value: Option<Value>,
    /// What would be right. May be empty.
    pub detail: String,
}

impl FieldError {
    /// An error with all its parts.
    pub fn new(field: impl Into<String>, reason: Reason, value: Value, detail: impl Into<String>) -> Self {
        Self { field: field.into(), reason, value: Some(value), detail: detail.into() }
    }

    /// `Required value`.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), reason: Reason::Required, value: None, detail: detail.into() }
    }

    /// `Invalid value`.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(field, Reason::Invalid, value.into(), detail)
    }

    /// `Forbidden`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { field: field.into(), reason: Reason::Forbidden, value: None, detail: detail.into() }
    }

    /// `Duplicate value`.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, Reason::Duplicate, value.into(), "")
    }

    /// `Unsupported value`, naming the supported ones.
    pub fn not_supported<S: AsRef<str>>(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = S>,
    ) -> Self {
        let quoted: Vec<String> = supported.into_iter().map(|one| go::quote(one.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(field, Reason::NotSupported, value.into(), detail)
    }

    /// `Too long`, of at most `max` bytes.
    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self {
            field: field.into(),
            reason: Reason::TooLong,
            value: None,
            detail: format!("may not be more than {max} {unit}"),
        }
    }

    /// `Too many`: `actual` items of at most `max`.
    pub fn too_many(field: impl Into<String>, actual: u64, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(field, Reason::TooMany, actual.into(), format!("must have at most {max} {unit}"))
    }

    /// The message without the field: what stands in `status.details.causes[].message`.
    pub fn body(&self) -> String {
        let mut body = self.reason.phrase().to_owned();
        if let Some(value) = self.value.as_ref().filter(|_| self.reason.shows_value()) {
            body.push_str(": ");
            body.push_str(&go::show(value));
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.body())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_read_as_kubernetes_writes_them() {
        let table = [
            (FieldError::required("spec.name", ""), "spec.name: Required value"),
            (FieldError::invalid("spec.n", 3, "must be less"), "spec.n: Invalid value: 3: must be less"),
            (FieldError::invalid("spec.s", "a\"b", "bad"), r#"spec.s: Invalid value: "a\"b": bad"#),
            (FieldError::invalid("a", json!({"k": [1]}), "bad"), r#"a: Invalid value: {"k":[1]}: bad"#),
            (FieldError::invalid("a", Value::Null, "bad"), "a: Invalid value: null: bad"),
            (FieldError::too_long("a", 1), "a: Too long: may not be more than 1 byte"),
            (FieldError::too_many("a", 3, 2), "a: Too many: 3: must have at most 2 items"),
            (FieldError::duplicate("a[1]", "x"), r#"a[1]: Duplicate value: "x""#),
            (
                FieldError::not_supported("a", "x", ["b", "c"]),
                r#"a: Unsupported value: "x": supported values: "b", "c""#,
            ),
            (FieldError::forbidden("a", "may not change"), "a: Forbidden: may not change"),
        ];
        for (error, want) in table {
            assert_eq!(error.to_string(), want);
        }
    }
}
