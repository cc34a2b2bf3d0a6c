//! Simulated target clusters.
//!
//! Each is a Kubernetes API server of its own, reached over HTTPS with a kubeconfig: all built-in kinds
//! with kube-apiserver's defaults, and CRDs. No pod runs: a workload becomes ready, or fails, by what
//! [`simulation`] says.

mod builtin;
mod controller;
mod custom_resources;
mod defaults;
mod simulation;

pub use simulation::{FAIL_ANNOTATION, Simulated, simulate};
