//! Garbage collection: dependents go when their owners are gone, owners wait for dependents that they
//! were told to wait for.
//!
//! [`Graph`] is a pure picture of who owns whom, fed with what is in the storage; it says what to do.
//! [`GarbageCollector`] feeds it from one watch of the whole storage, in the order of revisions, so that
//! an owner that is not in the graph is known not to exist, and carries out what it says.

mod collector;
mod graph;

pub use collector::GarbageCollector;
pub use graph::{Action, Graph, Node, Owner};
