//! Digests of desired objects.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Digest of an object as it is sent: `sha256:` and 64 hexadecimal digits, of its JSON with sorted
/// keys and no blanks.
pub fn digest_of(object: &Value) -> String {
    // serde_json keeps maps sorted, so equal objects have equal bytes.
    in_text(&Sha256::digest(object.to_string().as_bytes()))
}

/// A SHA-256 as inventories and statuses spell it.
pub(crate) fn in_text(hash: &[u8]) -> String {
    use std::fmt::Write as _;
    hash.iter().fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
