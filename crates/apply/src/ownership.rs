//! Who may write to a target.

use std::fmt;

use async_trait::async_trait;

/// This replica does not own the cluster any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica no longer owns the cluster")]
pub struct NotOwner;

/// Says whether this replica may write to a target. It is asked before every request that changes
/// something, and it must answer from memory.
#[async_trait]
pub trait Ownership: Send + Sync + fmt::Debug {
    /// Whether a write may start now.
    ///
    /// # Errors
    /// When the cluster belongs to another replica, or that cannot be told.
    fn check(&self) -> Result<(), NotOwner>;

    /// Waits until ownership is lost; what is under way then is given up.
    async fn lost(&self);
}

/// The ownership of a process that is alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysOwn;

#[async_trait]
impl Ownership for AlwaysOwn {
    fn check(&self) -> Result<(), NotOwner> {
        Ok(())
    }

    async fn lost(&self) {
        std::future::pending::<()>().await;
    }
}
