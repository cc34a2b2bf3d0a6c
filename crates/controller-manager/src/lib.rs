//! The controllers of convoy.
//!
//! | module | what it does |
//! |---|---|
//! | `git_repository` | fetches a repository, keeps its artifact in the render store |
//! | `cluster` | keeps contact with a target: client, discovery, conditions |
//! | `release` | renders, plans, applies, prunes; deletes |
//! | `host` | writes to convoy's own API server |
//! | `targets` | the targets that are in contact |
//! | `run` | stores, queues and tasks |
//!
//! Each controller gathers what it needs, decides by pure functions, and acts.

mod cluster;
mod git_repository;
mod host;
mod release;
mod run;
mod targets;

pub use run::{Options, RunError, run};
