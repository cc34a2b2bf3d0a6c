//! Checks that do not belong to one resource.

use async_trait::async_trait;
use convoy_meta::Status;
use serde_json::Value;

use crate::{RequestContext, Resource};

/// The write that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// A write before it is made.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    pub context: &'a RequestContext,
    pub resource: &'a Resource,
    pub operation: Operation,
    /// Empty for the main resource.
    pub subresource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
    /// The object as it would be stored; `None` for a deletion.
    pub object: Option<&'a Value>,
    /// The object as it is stored; `None` for a creation.
    pub old: Option<&'a Value>,
}

/// A check of every write of every resource: namespace lifecycle, limits, policies.
#[async_trait]
pub trait Admission: Send + Sync + std::fmt::Debug {
    /// Changes an object before it is validated.
    ///
    /// # Errors
    /// The answer that refuses the write.
    async fn mutate(&self, request: AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        let _ = (request, object);
        Ok(())
    }

    /// Says whether the write may be made.
    ///
    /// # Errors
    /// The answer that refuses it.
    async fn validate(&self, request: AdmissionRequest<'_>) -> Result<(), Status> {
        let _ = request;
        Ok(())
    }
}
