//! Writes, and what became of one whose answer was lost.
//!
//! A member that dies, or a leader that changes, may leave a write without an answer that was carried out, or that is carried
//! out later. The history of the key tells: what followed the revision that the write expected is either it or another's.
//! A write that expects a revision can be sent again as long as the key is at that revision, since it can only succeed once.
//! A create cannot: if it succeeded and somebody deleted the object since, a second one would bring it back. So it is said
//! that nothing is known.

use std::time::Duration;

use bytes::Bytes;

use super::client::{Failure, Operation};
use super::wire::{
    self, Compare, DeleteRangeRequest, PutRequest, RangeRequest, Request, Response, TxnRequest, TxnResponse,
};
use super::{Shared, op, revision_of};
use crate::{KeyValue, StorageError};

/// How long a write may take, with finding out what became of it.
const WRITE: Duration = Duration::from_secs(20);
/// How often a write is sent again whose answer was lost.
const AGAIN: usize = 3;
/// How many later writes of a key are looked through for a lost one.
const LATER_WRITES: usize = 8;

#[derive(Debug, Clone)]
pub(super) enum Write {
    Create { value: Bytes },
    Update { expected: u64, value: Bytes },
    Delete { expected: u64 },
}

/// A write that was carried out.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) revision: u64,
    pub(super) previous: Option<KeyValue>,
}

/// What the history says about a write without an answer.
enum Found {
    Done(Done),
    /// Not yet, at least; it can be sent again.
    Pending,
    /// Another write came first.
    Beaten(StorageError),
    Unclear,
}

impl Write {
    fn expected(&self) -> u64 {
        match self {
            Self::Create { .. } => 0,
            Self::Update { expected, .. } | Self::Delete { expected } => *expected,
        }
    }

    fn request(&self, key: &Bytes) -> TxnRequest {
        let range = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let success = match self {
            Self::Create { value } | Self::Update { value, .. } => {
                Request::Put(PutRequest { key: key.clone(), value: value.clone() })
            }
            Self::Delete { .. } => {
                Request::DeleteRange(DeleteRangeRequest { key: key.clone(), prev_kv: true })
            }
        };
        let expected = i64::try_from(self.expected()).unwrap_or(i64::MAX);
        TxnRequest {
            compare: vec![Compare::mod_revision(key.clone(), expected)],
            success: vec![op(success)],
            failure: vec![op(Request::Range(range))],
        }
    }

    /// The refusal of a write, given what is at the key.
    fn refused(&self, key: &str, current: Option<KeyValue>) -> StorageError {
        match (self, current) {
            (Self::Create { .. }, Some(current)) => StorageError::AlreadyExists { current },
            (Self::Update { expected, .. } | Self::Delete { expected }, Some(current)) => {
                StorageError::Conflict { expected: *expected, current }
            }
            (_, None) => StorageError::NotFound { key: key.to_owned() },
        }
    }

    fn is_value(&self, found: &Bytes) -> bool {
        match self {
            Self::Create { value } | Self::Update { value, .. } => value == found,
            Self::Delete { .. } => false,
        }
    }
}

impl Shared {
    pub(super) async fn carry_out(&self, key: &str, write: &Write) -> Result<Done, StorageError> {
        match tokio::time::timeout(WRITE, self.pursue(key, write)).await {
            Ok(done) => done,
            Err(_) => {
                let reason = format!("no answer in {} s", WRITE.as_secs());
                Err(Failure::Unknown(reason).into_write_error())
            }
        }
    }

    async fn pursue(&self, key: &str, write: &Write) -> Result<Done, StorageError> {
        let encoded = self.encode(key);
        let mut sent = 0;
        // Whether an earlier sending may have been carried out.
        let mut is_unclear = false;
        loop {
            sent += 1;
            let answer: Result<TxnResponse, Failure> =
                self.client.write(Operation::Txn, write.request(&encoded)).await;
            let failure = match answer {
                Ok(answer) if answer.succeeded || !is_unclear => return self.told(key, write, answer),
                // This one was refused, perhaps because of the one before.
                Ok(_) => Failure::Unknown("its answer was lost".to_owned()),
                Err(Failure::Unknown(reason)) => Failure::Unknown(reason),
                Err(Failure::NotSent(reason)) if is_unclear => Failure::Unknown(reason),
                Err(Failure::Refused(StorageError::TooLarge { what, .. })) => {
                    return Err(too_large(what, write));
                }
                Err(failure) => return Err(failure.into_error()),
            };
            is_unclear = true;
            match self.what_became_of(key, &encoded, write).await {
                Ok(Found::Done(done)) => {
                    tracing::info!(
                        key,
                        revision = done.revision,
                        "a write whose answer was lost was carried out"
                    );
                    return Ok(done);
                }
                Ok(Found::Beaten(error)) => return Err(error),
                Ok(Found::Pending) if sent <= AGAIN => {}
                Ok(Found::Pending | Found::Unclear) | Err(_) => return Err(failure.into_write_error()),
            }
        }
    }

    /// What etcd told about a write.
    fn told(&self, key: &str, write: &Write, answer: TxnResponse) -> Result<Done, StorageError> {
        let revision = u64::try_from(revision_of(answer.header.as_ref())).unwrap_or_default();
        let found = answer.responses.into_iter().find_map(|response| match response.response? {
            Response::Range(range) => range.kvs.into_iter().next(),
            Response::DeleteRange(deleted) => deleted.prev_kvs.into_iter().next(),
            Response::Put(_) => None,
        });
        let found = found.and_then(|found| self.key_value(found));
        match answer.succeeded {
            true => Ok(Done { revision, previous: found }),
            false => Err(write.refused(key, found)),
        }
    }

    async fn what_became_of(&self, key: &str, encoded: &Bytes, write: &Write) -> Result<Found, Failure> {
        let expected = write.expected();
        let (current, mut at) = self.key_at(encoded, 0).await?;
        let revision = |found: &wire::KeyValue| u64::try_from(found.mod_revision).unwrap_or_default();
        let is_pending = current.as_ref().map_or(0, &revision) == expected;
        if is_pending {
            return Ok(match write {
                Write::Create { .. } => Found::Unclear,
                Write::Update { .. } | Write::Delete { .. } => Found::Pending,
            });
        }
        if let Write::Delete { .. } = write {
            return self.was_deleted(key, encoded, write, current, at).await;
        }
        let refused = write.refused(key, current.clone().and_then(|found| self.key_value(found)));
        let mut found = current;
        for _ in 0..LATER_WRITES {
            let Some(one) = found else { return Ok(Found::Unclear) };
            if revision(&one) == expected {
                // All that followed it were others.
                return Ok(Found::Beaten(refused));
            }
            if write.is_value(&one.value) {
                return Ok(Found::Done(Done { revision: revision(&one), previous: None }));
            }
            if one.create_revision == one.mod_revision && expected == 0 {
                // Created by another, and ours may have been there before.
                return Ok(Found::Unclear);
            }
            at = one.mod_revision - 1;
            (found, _) = self.key_at(encoded, at).await?;
        }
        Ok(Found::Unclear)
    }

    /// Whether the key is gone because of a delete, which is the same whoever made it.
    async fn was_deleted(
        &self,
        key: &str,
        encoded: &Bytes,
        write: &Write,
        current: Option<wire::KeyValue>,
        now: i64,
    ) -> Result<Found, Failure> {
        let expected = i64::try_from(write.expected()).unwrap_or(i64::MAX);
        let (before, _) = self.key_at(encoded, expected).await?;
        let Some(before) = before.filter(|before| before.mod_revision == expected) else {
            return Ok(Found::Unclear);
        };
        // The key had this revision until the one at which it did not.
        let (mut had, mut had_not) = (expected, now);
        while had_not - had > 1 {
            let middle = had + (had_not - had) / 2;
            match self.key_at(encoded, middle).await?.0 {
                Some(found) if found.mod_revision == expected => had = middle,
                _ => had_not = middle,
            }
        }
        let (after, _) = self.key_at(encoded, had_not).await?;
        if after.is_some() {
            return Ok(Found::Beaten(write.refused(key, current.and_then(|found| self.key_value(found)))));
        }
        let revision = u64::try_from(had_not).unwrap_or_default();
        Ok(Found::Done(Done { revision, previous: self.key_value(before) }))
    }

    /// What is at a key at a revision, 0 for now, and the revision of the store.
    async fn key_at(&self, key: &Bytes, revision: i64) -> Result<(Option<wire::KeyValue>, i64), Failure> {
        let request = RangeRequest { key: key.clone(), revision, ..RangeRequest::default() };
        let answer = self.range(request).await?;
        let now = revision_of(answer.header.as_ref());
        Ok((answer.kvs.into_iter().next(), now))
    }
}

fn too_large(what: &'static str, write: &Write) -> StorageError {
    let size = match write {
        Write::Create { value } | Write::Update { value, .. } => value.len(),
        Write::Delete { .. } => 0,
    };
    // What etcd takes is set there (`--max-request-bytes`) and not told.
    StorageError::TooLarge { what, size, limit: 1536 * 1024 }
}
