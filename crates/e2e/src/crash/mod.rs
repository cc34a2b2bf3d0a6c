//! The crash matrix: one delivery after another, and in each one write that goes wrong.
//!
//! A Release is installed, upgraded and deleted. A [`proxy`] counts the writes of the controller-manager to both
//! API servers, so that every point at which it can be interrupted has a number, and spoils one of them: the
//! process dies before or after it, the answer is lost, or the server refuses. What has to be true afterwards is in
//! [`world`]; [`matrix`] goes through the points and the faults.

pub mod matrix;
pub mod proxy;
pub mod world;
