//! Resource versions and continue tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::field_error::FieldError;
use crate::status::Status;

/// Reads a resource version. Empty is `None` ("the most recent"); convoy's are decimal numbers.
///
/// # Errors
/// 400, as Kubernetes words it, for anything but a decimal number.
pub fn parse_resource_version(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None };
    number.map(Some).ok_or_else(|| {
        let error = FieldError::invalid("resourceVersion", text, go_number_error(text));
        Status::bad_request(format!("{error}"))
    })
}

fn go_number_error(text: &str) -> String {
    let why = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        "value out of range"
    } else {
        "invalid syntax"
    };
    format!("strconv.ParseUint: parsing {}: {why}", crate::field_error::go_quote(text))
}

/// Where a list in pages goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision of the first page; `None` goes on at the most recent, inconsistently.
    pub revision: Option<u64>,
    /// The key to start at, relative to the listed prefix.
    pub start_key: String,
}

#[derive(Serialize, Deserialize)]
struct Encoded {
    v: String,
    rv: i64,
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
const MAX_TOKEN_BYTES: usize = 4096;

impl ContinueToken {
    /// As text that a client hands back unread.
    pub fn encode(&self) -> String {
        let rv = self.revision.map_or(-1, |rv| i64::try_from(rv).unwrap_or(i64::MAX));
        let encoded = Encoded { v: TOKEN_VERSION.into(), rv, start: self.start_key.clone() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&encoded).unwrap_or_default())
    }

    /// Reads what [`ContinueToken::encode`] wrote.
    ///
    /// # Errors
    /// 400 for a token that this server never gave out, among them keys that would leave the prefix.
    pub fn decode(text: &str) -> Result<Self, Status> {
        let refused = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        if text.len() > MAX_TOKEN_BYTES {
            return Err(refused("too long"));
        }
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| refused("not base64"))?;
        let encoded: Encoded = serde_json::from_slice(&bytes).map_err(|_| refused("not a token"))?;
        if encoded.v != TOKEN_VERSION {
            return Err(refused("unknown version"));
        }
        let revision = match encoded.rv {
            -1 => None,
            0 => return Err(refused("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")),
            rv => Some(u64::try_from(rv).map_err(|_| refused("negative resourceVersion"))?),
        };
        let climbs = encoded.start.split('/').any(|part| part == "..");
        if encoded.start.is_empty() || climbs {
            return Err(refused("incorrect start key"));
        }
        Ok(Self { revision, start_key: encoded.start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_versions_are_decimal_numbers() {
        assert_eq!(parse_resource_version("").unwrap(), None);
        assert_eq!(parse_resource_version("0").unwrap(), Some(0));
        assert_eq!(parse_resource_version("42").unwrap(), Some(42));
        for bad in ["-1", "+1", "x", "1.5", "99999999999999999999"] {
            let status = parse_resource_version(bad).unwrap_err();
            assert_eq!(status.code, 400, "{bad}");
        }
    }

    #[test]
    fn a_continue_token_reads_back() {
        for revision in [None, Some(7)] {
            let token = ContinueToken { revision, start_key: "ns/a\0".into() };
            assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        }
    }

    #[test]
    fn a_tampered_continue_token_is_refused() {
        let climbing = ContinueToken { revision: Some(1), start_key: "../secrets/a".into() }.encode();
        let huge = "A".repeat(5000);
        for bad in ["", "!!", "e30", climbing.as_str(), huge.as_str()] {
            assert_eq!(ContinueToken::decode(bad).unwrap_err().code, 400, "{bad}");
        }
    }
}
