//! The resources that servers are made of: convoy's own kinds, and Kubernetes' built-in ones.

pub mod built_in;
mod columns;
pub mod convoy;
mod core_strategies;
mod epochs;
pub mod observed;
pub mod reviews;
pub mod rollback;
mod rules;
pub mod shard_holder;
pub(crate) mod shard_label;
pub mod sharding;
mod workload_columns;

pub use built_in::{built_in, core};
