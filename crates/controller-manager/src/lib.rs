//! The controllers of convoy.
//!
//! | module | what it does |
//! |---|---|
//! | `git_repository` | fetches a repository, keeps its artifact in the render store |
//! | `cluster` | keeps contact with a target: client, discovery, conditions |
//! | `release` | renders, plans, applies, prunes; deletes |
//! | `duties` | which shards' work is this replica's, and in which term it began |
//! | `follow` | what happens when shards come and go |
//! | `observers` | shards that no observer holds |
//! | `host` | convoy's own API server |
//! | `targets` | the targets that are in contact |
//! | `run` | stores, queues and tasks |
//!
//! Each controller gathers what it needs, decides by pure functions, and acts.

mod cluster;
mod duties;
mod follow;
mod git_repository;
mod host;
mod observers;
mod release;
mod run;
mod targets;

pub use observers::ObserverLeases;
pub use run::{Options, RunError, run};
