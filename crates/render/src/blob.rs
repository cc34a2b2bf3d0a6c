//! What one object of the store holds: `convoy1` and a line feed, the SHA-256 of the payload, and the
//! payload compressed with zstd.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

const MAGIC: &[u8] = b"convoy1\n";
const HEADER: usize = MAGIC.len() + 32;
/// The level at which zstd is about as quick as a disk.
const LEVEL: i32 = 3;

/// What is wrong with a stored object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BlobError {
    #[error("it is not in convoy's format")]
    Format,
    #[error("its content is cut or damaged")]
    Damaged,
    #[error("its content has more than {0} bytes")]
    TooLarge(u64),
}

pub(crate) fn seal(payload: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut blob = Vec::with_capacity(HEADER + payload.len() / 4);
    blob.extend_from_slice(MAGIC);
    blob.extend_from_slice(&Sha256::digest(payload));
    let mut encoder = zstd::Encoder::new(blob, LEVEL)?;
    encoder.write_all(payload)?;
    encoder.finish()
}

/// The payload and its digest, which was checked. Reads no more than `limit` bytes, however small the blob.
pub(crate) fn open(blob: &[u8], limit: u64) -> Result<(Bytes, String), BlobError> {
    let rest = blob.strip_prefix(MAGIC).ok_or(BlobError::Format)?;
    let (want, compressed) = rest.split_at_checked(32).ok_or(BlobError::Format)?;
    let mut payload = Vec::new();
    // What is in memory needs no buffer in between, which would take 128 KiB.
    let decoder = zstd::Decoder::with_buffer(compressed).map_err(|_| BlobError::Damaged)?;
    decoder.take(limit.saturating_add(1)).read_to_end(&mut payload).map_err(|_| BlobError::Damaged)?;
    if payload.len() as u64 > limit {
        return Err(BlobError::TooLarge(limit));
    }
    let found = Sha256::digest(&payload);
    if found.as_slice() != want {
        return Err(BlobError::Damaged);
    }
    Ok((payload.into(), crate::digest::text(&found)))
}

/// The canonical form of a file tree, over which its digest is made; see [`convoy_api::tree_digest`].
pub(crate) fn encode_files(files: &BTreeMap<String, Bytes>) -> Vec<u8> {
    let mut payload =
        Vec::with_capacity(files.iter().map(|(path, content)| path.len() + content.len() + 16).sum());
    for (path, content) in files {
        for part in [path.as_bytes(), content] {
            payload.extend_from_slice(&(part.len() as u64).to_be_bytes());
            payload.extend_from_slice(part);
        }
    }
    payload
}

/// The reverse of [`encode_files`]; contents share the payload's memory.
pub(crate) fn decode_files(mut payload: Bytes) -> Result<BTreeMap<String, Bytes>, BlobError> {
    let mut part = || -> Option<Bytes> {
        let length = payload.split_to_checked(8)?;
        let length = u64::from_be_bytes(length.as_ref().try_into().ok()?);
        payload.split_to_checked(usize::try_from(length).ok()?)
    };
    let mut files = BTreeMap::new();
    while let Some(path) = part() {
        let path = String::from_utf8(path.to_vec()).map_err(|_| BlobError::Damaged)?;
        files.insert(path, part().ok_or(BlobError::Damaged)?);
    }
    if payload.is_empty() { Ok(files) } else { Err(BlobError::Damaged) }
}

trait SplitChecked: Sized {
    fn split_to_checked(&mut self, at: usize) -> Option<Self>;
}

impl SplitChecked for Bytes {
    fn split_to_checked(&mut self, at: usize) -> Option<Self> {
        (at <= self.len()).then(|| self.split_to(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_sealed_opens_to_the_same(payload in prop::collection::vec(any::<u8>(), 0..2000)) {
            let (opened, digest) = open(&seal(&payload).unwrap(), 2000).unwrap();
            prop_assert_eq!(&opened[..], &payload[..]);
            prop_assert_eq!(digest, crate::digest::sha256(&payload));
        }

        #[test]
        fn any_changed_byte_is_found(payload in prop::collection::vec(any::<u8>(), 1..500), at: prop::sample::Index, flip in 1..=255_u8) {
            let mut blob = seal(&payload).unwrap();
            let at = at.index(blob.len());
            blob[at] ^= flip;
            // zstd's frame header has bits without meaning: such a change must give the same payload.
            if let Ok((opened, _)) = open(&blob, 2000) {
                prop_assert_eq!(&opened[..], &payload[..]);
            }
        }

        #[test]
        fn any_cut_is_found(payload in prop::collection::vec(any::<u8>(), 1..500), at: prop::sample::Index) {
            let blob = seal(&payload).unwrap();
            prop_assert!(open(&blob[..at.index(blob.len())], 2000).is_err());
        }

        #[test]
        fn files_come_back_as_they_were(files in prop::collection::btree_map("[a-z/]{0,9}", prop::collection::vec(any::<u8>(), 0..50), 0..9)) {
            let files: BTreeMap<String, Bytes> = files.into_iter().map(|(path, content)| (path, content.into())).collect();
            let payload = encode_files(&files);
            prop_assert_eq!(crate::digest::sha256(&payload), convoy_api::tree_digest(&files));
            prop_assert_eq!(decode_files(payload.into()).unwrap(), files);
        }

        #[test]
        fn bytes_that_are_no_files_are_an_error_or_a_tree(payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode_files(payload.into());
        }
    }

    #[test]
    fn a_small_blob_with_a_huge_content_is_refused() {
        let blob = seal(&vec![0; 10 << 20]).unwrap();
        assert!(blob.len() < 10_000);
        assert_eq!(open(&blob, 1 << 20), Err(BlobError::TooLarge(1 << 20)));
    }
}
