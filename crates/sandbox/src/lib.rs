//! Simulated target clusters, many in one process.
//!
//! Each cluster is a Kubernetes API of its own: a port, a certificate authority, a kubeconfig, a store in
//! memory. It takes every built-in kind with kube-apiserver's defaults, and CustomResourceDefinitions;
//! namespaces empty themselves, garbage is collected. No containers run: [`workload`] says how
//! Deployments and the like become Ready after a time, or fail when an annotation says so.

mod admission;
mod cluster;
mod custom_resources;
mod defaults;
mod empties;
mod quantity;
mod resources;
mod reviews;
mod sandbox;
mod scale;
mod simulator;
mod strategy;
mod tables;
pub mod workload;

pub use cluster::{CLUSTER_ANNOTATION, Cluster, StartError, Unserved};
pub use sandbox::{Options, Sandbox};
