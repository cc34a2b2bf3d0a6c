//! Behaviour of the registry, with texts and codes as kube-apiserver 1.36 gives them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod deleting;
mod fixture;
mod lifecycle;
mod reading;
mod writing;
