use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::rc::Rc;

use bytes::{Buf as _, Bytes};
use russh::client::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::runtime::Handle;

use super::{Session, of};
use crate::error::Failure;
use crate::exchange::Shared;

/// Bytes that are kept of what the server says beside the protocol: why it gives nothing, mostly.
const MAX_SAID: usize = 512;
/// Bytes that are written at once.
const MAX_WRITE: usize = 32 << 10;

/// What the reader and the writer of one channel have in common.
struct Link {
    runtime: Handle,
    /// The connection ends with it.
    _session: Session,
    shared: Shared,
}

impl Link {
    /// Waits for something of the connection, but no longer than the fetch has time.
    fn wait<T>(&self, what: impl Future<Output = T>) -> io::Result<T> {
        let job = &self.shared.job;
        let done = self.runtime.block_on(async {
            tokio::select! {
                biased;
                failure = job.over() => Err(failure),
                done = what => Ok(done),
            }
        });
        done.map_err(|failure| self.shared.fail_io(failure))
    }
}

/// What `git-upload-pack` says.
pub(crate) struct Reader {
    link: Rc<Link>,
    channel: ChannelReadHalf,
    unread: Bytes,
    said: Vec<u8>,
    is_at_end: bool,
    has_read: bool,
}

/// What `git-upload-pack` listens to.
pub(crate) struct Writer {
    link: Rc<Link>,
    channel: RefCell<ChannelWriteHalf<Msg>>,
}

pub(super) fn split(
    runtime: Handle,
    session: Session,
    channel: Channel<Msg>,
    shared: &Shared,
) -> (Reader, Writer) {
    let link = Rc::new(Link { runtime, _session: session, shared: shared.clone() });
    let (read, write) = channel.split();
    let reader = Reader {
        link: Rc::clone(&link),
        channel: read,
        unread: Bytes::new(),
        said: Vec::new(),
        is_at_end: false,
        has_read: false,
    };
    (reader, Writer { link, channel: RefCell::new(write) })
}

impl Reader {
    /// More of what is said; at the end, nothing.
    fn receive(&mut self) -> io::Result<()> {
        while self.unread.is_empty() && !self.is_at_end {
            let message = self.link.wait(self.channel.wait())?;
            match message {
                Some(ChannelMsg::Data { data }) => {
                    self.count(data.len())?;
                    self.has_read |= !data.is_empty();
                    self.unread = data;
                }
                Some(ChannelMsg::ExtendedData { data, .. }) => {
                    self.count(data.len())?;
                    let room = MAX_SAID.saturating_sub(self.said.len());
                    self.said.extend_from_slice(data.get(..room.min(data.len())).unwrap_or_default());
                }
                // The program may have ended by now, but what it said of why can still be on its way.
                Some(ChannelMsg::Eof) if self.has_read => self.is_at_end = true,
                Some(ChannelMsg::Close) | None => {
                    self.is_at_end = true;
                    if !self.has_read {
                        return Err(self.refused());
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        let shared = &self.link.shared;
        let mut budget = shared.budget.get();
        let Some(left) = budget.left.checked_sub(bytes as u64) else {
            return Err(shared.fail_io(Failure::TooMuch { what: budget.what, limit: budget.limit }));
        };
        budget.left = left;
        shared.budget.set(budget);
        Ok(())
    }

    fn refused(&self) -> io::Error {
        let said = String::from_utf8_lossy(&self.said);
        let said: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let detail =
            if said.is_empty() { "it says nothing of why".to_owned() } else { format!("it says {said:?}") };
        self.link.shared.fail_io(Failure::SshRefused { detail })
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive()?;
        let length = self.unread.len().min(buffer.len());
        self.unread.copy_to_slice(buffer.get_mut(..length).unwrap_or_default());
        Ok(length)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = bytes.get(..MAX_WRITE.min(bytes.len())).unwrap_or_default();
        let channel = self.channel.borrow();
        let sent = self.link.wait(channel.data_bytes(Bytes::copy_from_slice(part)))?;
        sent.map_err(|error| self.link.shared.fail_io(of(error)))?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
