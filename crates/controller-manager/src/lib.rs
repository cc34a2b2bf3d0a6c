//! Fetches sources, renders, plans, applies and prunes.
//!
//! One module for each controller. Each has a `mod.rs` (what wakes it, and what becomes of errors), a
//! `reconcile.rs` (gather, decide purely, act) and a `status.rs` (from what was found to the fields to
//! write; pure).
//!
//! | module | what it is |
//! |---|---|
//! | `git_repository` | fetches Git repositories into the render store |
//! | `host` | reading Secrets and writing status on the API server that holds convoy's objects |
//! | `run` | stores, queues and tasks of all controllers |

mod git_repository;
mod host;
mod run;

pub use run::{Options, RunError, run};
