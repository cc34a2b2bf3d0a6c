//! Schemas of Kubernetes objects.
//!
//! - [`Structural`]: one schema, made from the OpenAPI v3 JSON of a CustomResourceDefinition or from
//!   the [`Definitions`] of an API. It sets defaults, removes or names unknown fields, and validates,
//!   in the words of kube-apiserver.
//! - [`FieldError`]: what is wrong with which field.
//!
//! Everything here is pure: no clock, no files, no network. Recursion is bounded by [`MAX_DEPTH`].

mod default;
mod field_error;
mod format;
mod go;
mod lists;
mod node;
mod parse;
mod pattern;
mod prune;
mod structural;
mod validate;

pub use field_error::{FieldError, Reason};
pub use structural::{Definitions, ListType, MAX_DEPTH, SchemaError, Structural};
