//! A watch of etcd that outlives its connection: it goes on after the last revision that it delivered.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Streaming;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

use super::client::Failure;
use super::wire::{self, WatchAction, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};
use super::{Shared, revision_of};
use crate::{Batch, Event, EventKind, KeyValue, StorageError, Watch};

/// How long to wait for progress that was asked for before it is asked for again: etcd does not answer while a watch
/// is behind.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How long a member may take to begin a watch.
const BEGIN: Duration = Duration::from_secs(5);

pub(super) struct EtcdWatch {
    shared: Arc<Shared>,
    prefix: Arc<str>,
    /// All events up to here were delivered.
    cursor: u64,
    stream: Option<Stream>,
    /// Up to where somebody waits for this watch.
    wanted: watch::Receiver<u64>,
    closed: watch::Receiver<bool>,
    /// Times in a row that no stream was had.
    failed: usize,
    /// Whether a stream has stood before this one.
    is_resumed: bool,
    /// Events of a response that comes in parts.
    parts: Vec<Arc<Event>>,
}

struct Stream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
    ask_at: Instant,
}

impl std::fmt::Debug for EtcdWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdWatch").field("prefix", &self.prefix).field("cursor", &self.cursor).finish()
    }
}

impl EtcdWatch {
    pub(super) fn new(shared: Arc<Shared>, prefix: &str, from: u64) -> Self {
        let (wanted, closed) = (shared.wanted(prefix), shared.closed.subscribe());
        Self {
            shared,
            prefix: prefix.into(),
            cursor: from,
            stream: None,
            wanted,
            closed,
            failed: 0,
            is_resumed: false,
            parts: Vec::new(),
        }
    }

    /// Has a stream that delivers what follows the cursor.
    ///
    /// # Errors
    /// When the watch cannot go on, whatever is tried.
    pub(super) async fn begin(&mut self) -> Result<(), StorageError> {
        while self.stream.is_none() {
            match self.open().await {
                Ok(stream) => {
                    (self.stream, self.failed, self.is_resumed) = (Some(stream), 0, true);
                }
                Err(Failure::Refused(error)) => return Err(error),
                Err(failure) => {
                    self.failed += 1;
                    tracing::debug!(prefix = %self.prefix, ?failure, "a watch of etcd is not begun");
                    sleep(self.shared.client.pause(self.failed)).await;
                }
            }
        }
        Ok(())
    }

    async fn open(&self) -> Result<Stream, Failure> {
        if self.is_resumed {
            // An etcd that lost its data would let the watch wait for revisions that were already delivered.
            let now = self.shared.current().await?;
            if now < self.cursor {
                return Err(Failure::Refused(StorageError::Unavailable {
                    reason: format!(
                        "etcd is at revision {now}, but was at {} before: it has lost data",
                        self.cursor
                    ),
                    source: None,
                }));
            }
        }
        let (requests, receiver) = mpsc::channel(8);
        let (key, range_end) = self.shared.range_of(&self.prefix);
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: i64::try_from(self.cursor).unwrap_or(i64::MAX).saturating_add(1),
            progress_notify: true,
            prev_kv: true,
            fragment: true,
        };
        // The member answers when the first request is there.
        let create = WatchRequest { action: Some(WatchAction::Create(create)) };
        let _ = requests.try_send(create);
        let mut responses = self.shared.client.watch(ReceiverStream::new(receiver)).await?;
        match tokio::time::timeout(BEGIN, responses.message()).await {
            Ok(Ok(Some(response))) if response.created && !response.canceled => {}
            Ok(Ok(Some(response))) => return Err(self.canceled(&response)),
            Ok(Ok(None)) => return Err(Failure::Unknown("the stream ended".to_owned())),
            Ok(Err(status)) => return Err(self.shared.client.broken(&status)),
            Err(_) => {
                let status = tonic::Status::deadline_exceeded("no answer to the beginning of a watch");
                return Err(self.shared.client.broken(&status));
            }
        }
        Ok(Stream { requests, responses, ask_at: Instant::now() })
    }

    fn canceled(&self, response: &WatchResponse) -> Failure {
        if response.compact_revision > 0 {
            let oldest = u64::try_from(response.compact_revision).unwrap_or_default();
            return Failure::Refused(StorageError::Compacted { requested: self.cursor, oldest });
        }
        self.shared.client.broken(&tonic::Status::unavailable(response.cancel_reason.clone()))
    }

    /// What one response delivers; nothing while more parts of it are to come.
    fn take(&mut self, response: WatchResponse) -> Result<Option<Batch>, StorageError> {
        if response.canceled {
            self.stream = None;
            return match self.canceled(&response) {
                Failure::Refused(error) => Err(error),
                Failure::NotSent(_) | Failure::Unknown(_) => Ok(None),
            };
        }
        let is_progress = response.events.is_empty() && !response.created && self.parts.is_empty();
        if is_progress {
            let revision = revision_of(response.header.as_ref());
            let revision = u64::try_from(revision).unwrap_or_default();
            if revision <= self.cursor {
                return Ok(None);
            }
            self.cursor = revision;
            return Ok(Some(Batch { events: Vec::new(), revision }));
        }
        for event in response.events {
            if let Some(event) = self.event(event) {
                self.parts.push(Arc::new(event));
            }
        }
        if response.fragment {
            return Ok(None);
        }
        let events = std::mem::take(&mut self.parts);
        let Some(last) = events.last() else { return Ok(None) };
        self.cursor = last.revision;
        Ok(Some(Batch { revision: last.revision, events }))
    }

    fn event(&self, event: wire::Event) -> Option<Event> {
        let kv = event.kv?;
        let revision = u64::try_from(kv.mod_revision).ok()?;
        let key = self.shared.decode(&kv.key)?;
        let previous = event.prev_kv.and_then(|previous| self.shared.key_value(previous));
        let previous = previous.map(|previous| KeyValue { key: Arc::clone(&key), ..previous });
        let kind = match event.kind {
            1 => EventKind::Deleted,
            _ if kv.create_revision == kv.mod_revision => EventKind::Created,
            _ => EventKind::Updated,
        };
        let value = (kind != EventKind::Deleted).then_some(kv.value);
        Some(Event { kind, key, revision, value, previous })
    }
}

#[async_trait]
impl Watch for EtcdWatch {
    async fn next(&mut self) -> Result<Batch, StorageError> {
        loop {
            let mut closed = self.closed.clone();
            let mut closed = pin!(closed.wait_for(|closed| *closed));
            if self.stream.is_none() {
                self.parts.clear();
                tokio::select! {
                    biased;
                    _ = &mut closed => return Err(StorageError::closed()),
                    begun = self.begin() => begun?,
                }
            }
            let Some(stream) = &mut self.stream else { continue };
            let is_wanted = *self.wanted.borrow_and_update() > self.cursor;
            let received = tokio::select! {
                biased;
                _ = &mut closed => return Err(StorageError::closed()),
                received = stream.responses.message() => received,
                Ok(()) = self.wanted.changed(), if !is_wanted => continue,
                () = sleep_until(stream.ask_at), if is_wanted => {
                    let progress = WatchAction::Progress(WatchProgressRequest {});
                    let _ = stream.requests.try_send(WatchRequest { action: Some(progress) });
                    stream.ask_at = Instant::now() + ASK_AGAIN;
                    continue;
                }
            };
            match received {
                Ok(Some(response)) => {
                    let taken = self.take(response)?;
                    let is_reached = *self.wanted.borrow() <= self.cursor;
                    if let Some(stream) = self.stream.as_mut().filter(|_| is_reached) {
                        // Who waits next asks at once.
                        stream.ask_at = Instant::now();
                    }
                    if let Some(batch) = taken {
                        return Ok(batch);
                    }
                }
                Ok(None) => self.stream = None,
                Err(status) => {
                    tracing::debug!(prefix = %self.prefix, %status, "a watch of etcd broke off and is resumed");
                    self.stream = None;
                    if let Failure::Refused(error) = self.shared.client.broken(&status) {
                        return Err(error);
                    }
                }
            }
        }
    }
}
