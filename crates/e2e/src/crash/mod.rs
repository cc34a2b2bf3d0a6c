//! The crash matrix: one delivery after another, and in each one step that goes wrong.
//!
//! A Release is installed, upgraded and deleted. A [`script`] counts what the controller-manager asks of the world
//! outside (requests to its source, reads and writes of the render store, writes to both API servers), so that every
//! point at which it can be interrupted has a number, and spoils one of them: the
//! process dies before or after it, the answer is lost, or the server refuses. What has to be true afterwards is in
//! [`world`]; [`matrix`] goes through the points and the faults.

pub mod inside;
pub mod matrix;
pub mod proxy;
pub mod repository;
pub mod script;
pub mod source;
pub mod store;
pub mod supply;
pub mod world;
