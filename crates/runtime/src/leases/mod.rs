//! The lease loop: what [`convoy_shard::Protocol`] decides is carried out here.
//!
//! | module | what it is |
//! |---|---|
//! | `drive` | events in, actions out; on any [`LeaseApi`], any clock, any executor |

mod drive;
#[cfg(test)]
mod tests;

pub use drive::{Ended, LeaseApi, LeaseReport, ListFailed, Listed, drive};
