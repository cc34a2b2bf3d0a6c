use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::git_repository::ArtifactStatus;

/// The files of a source at one revision, whole and in memory: what is fetched, stored and rendered.
///
/// A path is relative, separated by `/`, without empty, `.` and `..` segments. Folders are implied, and
/// there are no links: who fetches resolves them. Contents are shared, so a clone is cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    revision: String,
    digest: String,
    files: BTreeMap<String, Bytes>,
}

impl Artifact {
    /// An artifact of these files; computes the digest, which reads all contents once.
    pub fn new(revision: impl Into<String>, files: BTreeMap<String, Bytes>) -> Self {
        Self { revision: revision.into(), digest: tree_digest(&files), files }
    }

    /// Where the files came from, for example `main@sha1:5f2c…`.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// `sha256:<hex>` over the files, see [`tree_digest`].
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Path to content, in byte order of the paths.
    pub fn files(&self) -> &BTreeMap<String, Bytes> {
        &self.files
    }

    /// Bytes of all files together.
    pub fn size(&self) -> u64 {
        self.files.values().map(|content| content.len() as u64).sum()
    }

    /// The artifact as a source's status names it.
    pub fn status(&self) -> ArtifactStatus {
        ArtifactStatus {
            revision: self.revision.clone(),
            digest: self.digest.clone(),
            size: i64::try_from(self.size()).unwrap_or(i64::MAX),
            files: i64::try_from(self.files.len()).unwrap_or(i64::MAX),
        }
    }
}

/// `sha256:<hex>` over the canonical form of a file tree: for each file in byte order of the paths, the
/// length of the path, the path, the length of the content (both 64 bit, big endian) and the content.
/// Equal trees have equal digests, whatever revision they came from.
pub fn tree_digest(files: &BTreeMap<String, Bytes>) -> String {
    let mut hash = Sha256::new();
    for (path, content) in files {
        for part in [path.as_bytes(), content] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().fold(String::from("sha256:"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> BTreeMap<String, Bytes> {
        files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Bytes::copy_from_slice(text.as_bytes())))
            .collect()
    }

    /// Computed with `printf '\0\0\0\0\0\0\0\1a\0\0\0\0\0\0\0\2hi' | sha256sum`.
    #[test]
    fn the_digest_is_sha256_of_the_canonical_form() {
        let want = "sha256:fbf8b8180086611c970968c7cbebaa0242e3191e2f805bfb6e4fc5ce9169cd0e";
        assert_eq!(tree_digest(&tree(&[("a", "hi")])), want);
    }

    #[test]
    fn what_belongs_to_path_and_what_to_content_matters() {
        let digests = [
            tree(&[("ab", "c")]),
            tree(&[("a", "bc")]),
            tree(&[("a", ""), ("bc", "")]),
            tree(&[("a", "b"), ("c", "")]),
            tree(&[]),
        ]
        .map(|files| tree_digest(&files));
        let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
    }

    #[test]
    fn the_revision_is_not_part_of_the_digest() {
        let files = tree(&[("a", "hi")]);
        let one = Artifact::new("main@sha1:1", files.clone());
        let two = Artifact::new("main@sha1:2", files);
        assert_eq!(one.digest(), two.digest());
        assert_eq!((one.status().size, one.status().files), (2, 1));
    }
}
