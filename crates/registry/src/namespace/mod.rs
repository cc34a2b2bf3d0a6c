//! Namespaces: what is special about them, who may be created in them, and how one is emptied.

mod controller;
mod lifecycle;
mod strategy;

pub use controller::{NamespaceController, Progress, next_step};
pub use lifecycle::{NamespaceLifecycle, NamespaceLookup, NamespaceState, StoredNamespaces};
pub use strategy::{NamespaceStrategy, namespaces};
