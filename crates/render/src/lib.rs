//! From an [`Artifact`](convoy_api::Artifact) to a [`Bundle`] of objects, and the store that keeps both.
//!
//! [`render`] is a pure function of its [`RenderInput`]: it runs no program, asks no network and reads no
//! file but those of the artifact. [`render_key`] names the result before it is made, so that a thousand
//! clusters with equal inputs render once.
//!
//! [`RenderStore`] keeps artifacts and bundles by the digest of their content, and for each render key the
//! digest of its bundle. It is shared by all replicas; what it loses is fetched or rendered again. What nothing
//! references is [collected](RenderStore::collect).
//!
//! A bundle's objects are as they were rendered: lists are not flattened and namespaces not defaulted,
//! because that needs to know which kinds the target has (`convoy-plan`).

mod blob;
mod bundle;
mod charts;
mod collect;
mod dependencies;
mod digest;
mod entropy;
mod error;
mod folder;
mod helm;
mod input;
mod kept;
mod manifests;
mod places;
mod s3;
mod secrets;
mod shelf;
mod store;

pub use bundle::{Bundle, Hook, RenderedObject};
pub use charts::Charts;
pub use collect::{Collected, References};
pub use error::RenderError;
pub use input::{RenderInput, Stop, TargetFacts, ValuesText, render, render_key};
pub use kept::Kept;
pub use places::SecretPlaces;
pub use s3::{S3Environment, S3Error, S3Options};
pub use secrets::SecretValues;
pub use store::{OpenStoreError, RenderStore, StoreError};
