//! Carries out plans on target clusters.
//!
//! [`Target`] is the only client of convoy that writes to a target. It asks an [`Ownership`] before
//! every request that changes something, so that a replica that lost a cluster writes nothing more.
//! [`apply_waves`] and [`prune`] carry out a plan and answer with what became of each object.
//! [`try_out`] asks what a plan would do, without effect.
//! [`RequestError`] says what a failed request means: worth trying again, or for whom to mend what.

mod capabilities;
mod classify;
mod established;
mod execute;
mod foreign;
mod hook;
mod prune;
mod scrub;
mod target;
mod transport;
mod try_out;

pub use capabilities::Capabilities;
pub use classify::{Class, RequestError, RequestErrors};
pub use convoy_shard::{AlwaysOwn, NotOwner, Ownership, WritePermit};
pub use execute::{ApplyOptions, Failure, Report, apply_waves, look};
pub use hook::{HookOptions, HookSeen, Made, has_ended};
pub use prune::{PruneNote, PruneOptions, prune};
pub use scrub::SecretsIn;
pub use target::{Applied, LiveMeta, Requests, ServiceAccount, Target};
pub use transport::{Pace, Patience, Transport, over_client};
pub use try_out::{Knows, Said, TriedOut, TryOptions, try_out, would_become};
