//! What a client sent.

use serde_json::Value;

/// An object from a request, decoded.
#[derive(Debug, Clone, Default)]
pub struct Body {
    pub object: Value,
    /// Paths of fields that the text gave more than once, such as `spec.replicas`: only the decoder can
    /// see them. The last value counts.
    pub duplicates: Vec<String>,
}

impl From<Value> for Body {
    fn from(object: Value) -> Self {
        Self { object, duplicates: Vec::new() }
    }
}

/// A patch, by its media type.
#[derive(Debug, Clone)]
pub enum Patch {
    /// `application/json-patch+json`
    Json(Value),
    /// `application/merge-patch+json`
    Merge(Body),
    /// `application/strategic-merge-patch+json`
    Strategic(Body),
    /// `application/apply-patch+yaml`; `force` takes fields from other managers.
    Apply { body: Body, force: bool },
}
