//! The generic registry of an API server.
//!
//! A [`ResourceDef`] says what a resource is: names, scope, schema, columns and a [`Strategy`] for what
//! is special about it. [`Registry`] carries out get, list, watch, create, update, patch, apply, delete
//! and delete collection on the resources of its [`ResourceTable`], which can change while the
//! server runs, and keeps them in a [`Storage`](convoy_storage::Storage). Failures are
//! [`Status`](convoy_meta::Status), ready to be sent.
//!
//! Who is asking and in which format is none of its business: authentication, authorisation,
//! negotiation and discovery are the server's.

mod admission;
mod body;
mod columns;
mod context;
mod create;
mod delete;
mod expiry;
mod failure;
pub mod garbage;
mod json_path;
mod metadata;
pub mod namespace;
mod patch_failure;
mod read;
mod registry;
mod resource;
mod resource_table;
mod server_fields;
mod strategy;
mod update;
mod write;

pub use admission::{Admission, AdmissionRequest, Operation};
pub use body::{Body, Patch};
pub use columns::PrinterColumn;
pub use context::{Identity, RandomIdentity, RequestContext, UserInfo};
pub use expiry::{Expiry, last_seen};
pub use failure::watch_status;
pub use registry::{DeleteOutcome, Listing, Registry, RegistryOptions, Written};
pub use resource::{Resource, ResourceDef, Scope, Subresource, Verb};
pub use resource_table::{ResourceTable, Resources};
pub use strategy::{DefaultStrategy, Strategy};
