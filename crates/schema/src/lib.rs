//! Schemas of Kubernetes objects.
//!
//! - [`Structural`]: one schema, made from the OpenAPI v3 JSON of a CustomResourceDefinition or from
//!   the [`Definitions`] of an API. It sets defaults, removes or names unknown fields, and validates,
//!   in the words of kube-apiserver.
//! - [`catalogue`]: the built-in kinds of Kubernetes with their schemas, as a real kube-apiserver
//!   publishes them.
//! - [`openapi`]: the OpenAPI documents of an API server.
//!
//! Everything here is pure: no clock, no files, no network. Recursion is bounded by [`MAX_DEPTH`].

#![warn(missing_docs)]

mod catalogue;
mod default;
mod format;
mod lists;
mod node;
pub mod openapi;
mod parse;
mod pattern;
mod prune;
mod structural;
mod validate;

pub use catalogue::{BuiltIn, BuiltInColumn, BuiltInSubresource, Catalogue, catalogue};
pub use structural::{Definitions, ListType, MAX_DEPTH, SchemaError, Structural};
