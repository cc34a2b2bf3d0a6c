//! The controllers of convoy.
//!
//! | module | what it does |
//! |---|---|
//! | `artifacts` | fetches what Releases want of registries |
//! | `git_repository` | fetches a repository, keeps its artifact in the render store |
//! | `helm_registry` | reads the index of a Helm repository |
//! | `oci_registry` | says whether an OCI registry answers |
//! | `sources` | the artifact that a Release names, whatever sort of source it comes from |
//! | `cluster` | keeps contact with a target: client, discovery, conditions |
//! | `release` | renders, plans, applies, prunes; deletes |
//! | `collection` | garbage collection of the render store |
//! | `duties` | which shards' work is this replica's, and in which term it began |
//! | `follow` | what happens when shards come and go |
//! | `observers` | shards that no observer holds |
//! | `host` | convoy's own API server |
//! | `looks` | looks one by one, for benchmarks |
//! | `targets` | the targets that are in contact |
//! | `run` | stores, queues and tasks |
//!
//! Each controller gathers what it needs, decides by pure functions, and acts.

mod access;
mod artifacts;
mod cluster;
mod collection;
mod duties;
mod follow;
mod git_repository;
mod helm_registry;
mod host;
#[doc(hidden)]
pub mod looks;
mod observers;
mod oci_registry;
mod release;
mod run;
mod source_status;
mod sources;
mod targets;

pub use collection::StoreCollection;
pub use observers::ObserverLeases;
pub use run::{Options, RunError, run};
