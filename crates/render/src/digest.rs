use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// `sha256:<hex>` of some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    text(&Sha256::digest(bytes))
}

pub(crate) fn text(hash: &[u8]) -> String {
    hash.iter().fold(String::from("sha256:"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The hexadecimal part of a digest, if it is one: 64 lower-case digits. Anything else could be a path.
pub(crate) fn hex_of(digest: &str) -> Option<&str> {
    let hex = digest.strip_prefix("sha256:")?;
    let is_hex =
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    is_hex.then_some(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_become_names_in_the_store() {
        let digest = sha256(b"");
        assert_eq!(hex_of(&digest), Some("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
        for bad in
            ["", "sha256:", "sha256:../../etc/passwd", &digest.to_uppercase(), &digest[..70], "sha1:00"]
        {
            assert_eq!(hex_of(bad), None, "{bad}");
        }
    }
}
