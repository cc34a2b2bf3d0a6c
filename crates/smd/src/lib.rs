//! Structured merge diff: server-side apply, managedFields and the three kinds of patch, as
//! Kubernetes computes them.
//!
//! Everything works on [`serde_json::Value`] and is pure: time is an argument, nothing is read or
//! written.
//!
//! - [`Schema`] says how the fields of a kind merge; made from OpenAPI v3 or a CRD's schema.
//! - [`FieldManager`] carries out an apply and records who owns which field at every write.
//! - [`merge_patch()`], [`json_patch()`] and [`strategic_merge_patch()`] change an object by a patch.
//!
//! The reference is `sigs.k8s.io/structured-merge-diff/v6` and
//! `k8s.io/apimachinery/pkg/util/managedfields`; the tests compare with values taken from them.

#![warn(missing_docs)]

mod field_manager;
mod json_patch;
mod last_applied;
mod managed;
mod merge_patch;
mod path;
mod schema;
mod set;
mod strategic;
mod typed;
mod value;

pub use field_manager::{ApplyError, Conflict, Conflicts, FieldManager};
pub use json_patch::{JsonPatchError, MAX_COPIED_BYTES, MAX_OPERATIONS, json_patch};
pub use merge_patch::{MergePatchError, merge_patch};
pub use path::{PathElement, Scalar};
pub use schema::{Schema, SchemaError, SchemaSet};
pub use set::{FieldsError, Set};
pub use strategic::{StrategicPatchError, strategic_merge_patch};

/// Levels of nesting that objects, field sets and schemas may have.
pub const MAX_DEPTH: usize = 256;
