//! Kubernetes' object model as convoy speaks it: metadata, Status, Table, selectors, options, names.
//!
//! Objects are [`serde_json::Value`]; [`Object`] reads and writes their metadata. Everything here is
//! pure: time and identity are arguments.

#![warn(missing_docs)]

pub mod field_error;
pub mod fields;
pub mod gvk;
pub mod labels;
pub mod object;
pub mod object_validation;
pub mod options;
pub mod query;
pub mod resource_version;
pub mod status;
pub mod table;
pub mod time;
pub mod validation;

pub use field_error::{FieldError, FieldErrorKind};
pub use fields::FieldSelector;
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use labels::LabelSelector;
pub use object::{Object, OwnerReference};
pub use options::{
    CreateOptions, DeleteOptions, FieldValidation, GetOptions, ListOptions, PatchOptions, Preconditions,
    PropagationPolicy, ResourceVersionMatch, UpdateOptions,
};
pub use query::Query;
pub use resource_version::ContinueToken;
pub use status::{Reason, Status, StatusCause, StatusDetails};
pub use table::{Table, TableColumn, TableRow};
