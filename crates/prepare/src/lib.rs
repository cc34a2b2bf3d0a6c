//! From a Release and its source to a bundle that is ready to be planned.
//!
//! Who delivers a Release and who only shows what would be delivered prepare it with the same code:
//! [`Preparer`] reads the values that the Release names, renders its artifact for its target, and keeps
//! what was rendered, by all that it depends on. [`scope`] says what the Release's spec means for a plan.

#![warn(missing_docs)]

mod access;
mod dependency;
mod prepare;
mod reader;
mod recent;
mod rollback;
mod scope;
mod secrets;
mod sources;

pub use access::{may_use, names_own_cluster, not_allowed};
pub use dependency::is_ready;
pub use prepare::{PrepareError, Preparer, Ready, Resolved, hooks_of};
pub use reader::{HostReader, ReadError, in_words};
pub use rollback::{arrived, back_to, is_forced, renewed};
pub use scope::{
    ADOPT, acts_as, carries_on, has_annotation, helm_release, name_of, namespace_of, operation, scope,
};
pub use secrets::{secrets_in, takes_secret_values};
pub use sources::{KnownSources, Unresolved, git_artifact, name_of_artifact, name_of_chart};
