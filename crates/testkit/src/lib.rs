//! Real parts for convoy's tests.
//!
//! [`ControlPlane`] is a real etcd and kube-apiserver (and kube-controller-manager on request) of its
//! own, in a temporary folder, stopped when dropped, also when the test process dies. The programs are
//! those that `cargo xtask kubernetes` builds; a test that needs them begins with
//! [`ControlPlane::start_or_leave_out`] so that it is named, not failed, where they are missing.

#![allow(clippy::disallowed_methods, reason = "tests start programs and wait for them by the real clock")]

pub mod audit;
mod certificates;
mod control_plane;
mod etcd;
mod faulty_link;
mod git_server;
mod https;
mod kwok;
mod leases;
mod left_out;
mod oci_registry;
mod otlp_receiver;
mod process;
mod programs;
mod s3_server;
mod ssh_server;
mod web_server;
pub mod writers;

pub use certificates::{Authority, Identity};
pub use control_plane::{ControlPlane, Options, Part, StartError};
pub use etcd::Etcd;
pub use faulty_link::{FaultyLink, LinkMode};
pub use git_server::GitServer;
pub use https::{HttpsClient, Response};
pub use kwok::{Kwok, NODE};
pub use leases::{LeaseHistory, Sighting};
pub use left_out::leave_out;
pub use oci_registry::OciRegistry;
pub use otlp_receiver::{OtlpReceiver, OtlpRequest};
pub use process::{PipedProcess, Process};
pub use programs::{ProgramMissing, program};
pub use s3_server::S3Server;
pub use ssh_server::SshServer;
pub use web_server::{WebAnswer, WebRequest, WebServer};
