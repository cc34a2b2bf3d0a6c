//! One record of the log: kind, revision of the record it replaces, key and value.

use std::sync::Arc;

use bytes::Bytes;

use crate::EventKind;

/// kind (1), replaced revision (8), length of the key (4)
const HEADER: usize = 13;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: EventKind,
    /// Revision of the record that this one replaces; 0 if the key did not exist.
    pub(super) replaces: u64,
    pub(super) key: Arc<str>,
    /// Empty for a deletion.
    pub(super) value: Bytes,
}

impl Record {
    pub(super) fn size(&self) -> usize {
        HEADER + self.key.len() + self.value.len()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size());
        bytes.push(match self.kind {
            EventKind::Created => 1,
            EventKind::Updated => 2,
            EventKind::Deleted => 3,
        });
        bytes.extend_from_slice(&self.replaces.to_le_bytes());
        // Keys are checked to be far shorter.
        bytes.extend_from_slice(&u32::try_from(self.key.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(self.key.as_bytes());
        bytes.extend_from_slice(&self.value);
        bytes
    }

    /// `None` if the bytes are no record.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let kind = match kind {
            1 => EventKind::Created,
            2 => EventKind::Updated,
            3 => EventKind::Deleted,
            _ => return None,
        };
        let (replaces, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (key, value) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        Some(Self {
            kind,
            replaces: u64::from_le_bytes(*replaces),
            key: std::str::from_utf8(key).ok()?.into(),
            value: Bytes::copy_from_slice(value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_as_written_and_never_when_cut_short() {
        let record = Record {
            kind: EventKind::Updated,
            replaces: 7,
            key: "/registry/é".into(),
            value: Bytes::from_static(b"{}"),
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes).as_ref(), Some(&record));
        let header = HEADER + record.key.len();
        for end in 0..header {
            assert_eq!(Record::decode(&bytes[..end]), None, "cut at {end}");
        }
        assert_eq!(Record::decode(&[9; 40]), None);
    }
}
