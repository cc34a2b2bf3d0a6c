//! Forgets history that is older than an interval, together with everybody else who uses the etcd.

use std::time::Duration;

use bytes::Bytes;

use super::client::{Client, Failure, Operation};
use super::wire::{Compare, PutRequest, RangeRequest, Request, Response, TxnRequest, TxnResponse};
use super::{compact, op, revision_of};

/// The key at which kube-apiserver's replicas agree on who compacts; convoy's do so with them.
const KEY: &[u8] = b"compact_rev_key";

/// Compacts every `interval` up to where the store was an interval before, until it is dropped. Of several that run, one
/// does it: who finds the key at the version that it knows.
pub(super) async fn run(client: &Client, interval: Duration) {
    let (mut version, mut revision) = (0, 0);
    loop {
        tokio::time::sleep(interval).await;
        match turn(client, version, revision).await {
            Ok((next, now)) => (version, revision) = (next, now),
            Err(error) => tracing::warn!(%error, "compacting etcd failed; it is tried again"),
        }
    }
}

/// One turn: answers with the key's version and the store's revision now.
async fn turn(client: &Client, version: i64, revision: i64) -> Result<(i64, i64), crate::StorageError> {
    let key = Bytes::from_static(KEY);
    let put = PutRequest { key: key.clone(), value: revision.to_string().into() };
    let range = RangeRequest { key: key.clone(), ..RangeRequest::default() };
    let request = TxnRequest {
        compare: vec![Compare::version(key, version)],
        success: vec![op(Request::Put(put))],
        failure: vec![op(Request::Range(range))],
    };
    let answer: Result<TxnResponse, Failure> = client.write(Operation::Txn, request).await;
    let answer = answer.map_err(Failure::into_error)?;
    let now = revision_of(answer.header.as_ref());
    if !answer.succeeded {
        let found = answer.responses.into_iter().find_map(|response| match response.response {
            Some(Response::Range(range)) => range.kvs.into_iter().next(),
            _ => None,
        });
        return Ok((found.map_or(0, |found| found.version), now));
    }
    if revision > 0 {
        compact(client, revision).await?;
        tracing::debug!(revision, "compacted etcd");
    }
    Ok((version + 1, now))
}
