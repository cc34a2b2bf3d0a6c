//! The lease loop: what [`convoy_shard::Protocol`] decides is carried out here.
//!
//! | module | what it is |
//! |---|---|
//! | `drive` | events in, actions out; on any [`LeaseApi`], any clock, any executor |
//! | `kube` | the leases of a Kubernetes API server |
//! | `object` | Lease objects, to and from `convoy_shard::Lease`; pure |
//! | `peers` | what lists show of the shard leases of a process kind |
//! | `report` | logs, readiness; with `metrics` and `events` |
//! | `thread` | all of it on a thread of its own |

mod drive;
mod events;
mod kube;
mod metrics;
mod object;
mod peers;
mod report;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_thread;
mod thread;

pub use drive::{Ended, LeaseApi, LeaseReport, ListFailed, Listed, drive};
pub use kube::KubeLeases;
pub use object::{parse as read_lease, resource as lease_resource};
pub use peers::PeerLeases;
pub use thread::{LeaseOptions, Leases, LeasesError, start_leases};
