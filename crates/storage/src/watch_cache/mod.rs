//! The objects of one resource in memory, for lists and watches.
//!
//! A [`WatchCache`] follows one prefix of a [`Storage`](crate::Storage). Each object is read and
//! serialised once, when it enters; lists, watches and pages of the past hand out the same bytes. The
//! order of keys is kept in a persistent map, so a reader takes a snapshot in constant time and
//! nobody waits for a long list.
//!
//! Watchers are cursors over a bounded history of events: a slow one holds nothing and delays nobody,
//! and is ended when events it needs have left the history.

mod cache;
mod entry;
mod event;
mod state;
mod watcher;

pub use cache::{At, CacheError, CacheLimits, CachedList, WatchCache};
pub use entry::{Entry, EntryFormat};
pub use event::{Delivery, DeliveryKind, Selector};
pub use watcher::{From, Start, Watcher};
