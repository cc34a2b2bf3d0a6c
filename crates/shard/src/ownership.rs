//! What a write has to ask before it starts.

use std::fmt;
use std::pin::Pin;

/// This replica may not write for the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica does not own shard {shard} (any more)")]
pub struct NotOwner {
    /// The shard.
    pub shard: u32,
}

/// A write that has started. The shard is not released before all permits were dropped.
pub struct WritePermit {
    _held: Box<dyn Send + Sync>,
}

impl WritePermit {
    /// A permit that drops `held` when it ends.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl fmt::Debug for WritePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WritePermit").finish_non_exhaustive()
    }
}

/// The ownership of one shard in one term, as it was when the work began. A shard that was lost and
/// gained again has another term: what began in the old one may not write in the new one.
///
/// It answers from memory and from this machine's clocks alone, so that a replica that hangs, sleeps
/// or is cut off stops by itself.
pub trait Ownership: Send + Sync + fmt::Debug {
    /// The shard.
    fn shard(&self) -> u32;

    /// The term: `leaseTransitions` of the shard's lease when it was acquired. Writes carry it.
    fn epoch(&self) -> u64;

    /// Whether a write may start now.
    ///
    /// # Errors
    /// [`NotOwner`] when the shard belongs to another replica, is being handed over, or that cannot be told.
    fn check(&self) -> Result<(), NotOwner>;

    /// Like [`Ownership::check`], for a write that starts now: hold the permit until the answer is there.
    ///
    /// # Errors
    /// As [`Ownership::check`].
    fn begin(&self) -> Result<WritePermit, NotOwner>;

    /// Waits until what is under way must be given up. Poll it before the request, so that a process
    /// that hung in between gives up first.
    fn lost<'a>(&'a self) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

/// The ownership of a process that can have no peer; for tests and one-off commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysOwn;

impl Ownership for AlwaysOwn {
    fn shard(&self) -> u32 {
        0
    }

    fn epoch(&self) -> u64 {
        0
    }

    fn check(&self) -> Result<(), NotOwner> {
        Ok(())
    }

    fn begin(&self) -> Result<WritePermit, NotOwner> {
        Ok(WritePermit::new(()))
    }

    fn lost<'a>(&'a self) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(std::future::pending())
    }
}
