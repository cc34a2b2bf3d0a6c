use std::sync::Arc;

use async_trait::async_trait;
use convoy_meta::{GroupResource, Object, Status, StatusCause};
use convoy_storage::Storage;
use serde_json::Value;

use crate::failure::storage_status;
use crate::{Admission, AdmissionRequest, Operation};

/// Namespaces that are never deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// What a namespace is for those who want to create something in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceState {
    Missing,
    Active,
    Terminating,
}

/// Where namespaces are looked up: in the own storage, or at the host cluster.
#[async_trait]
pub trait NamespaceLookup: Send + Sync + std::fmt::Debug {
    /// # Errors
    /// The answer to the request when the namespace cannot be looked up.
    async fn state(&self, name: &str) -> Result<NamespaceState, Status>;
}

/// The namespaces of the own storage.
#[derive(Debug)]
pub struct StoredNamespaces {
    storage: Arc<dyn Storage>,
}

impl StoredNamespaces {
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage }
    }
}

#[async_trait]
impl NamespaceLookup for StoredNamespaces {
    async fn state(&self, name: &str) -> Result<NamespaceState, Status> {
        let key = format!("/registry/namespaces/{name}");
        let read = self.storage.get(&key).await.map_err(|error| storage_status(&error))?;
        let Some(found) = read.found else { return Ok(NamespaceState::Missing) };
        // One that cannot be decoded is there, and nothing says that it is going.
        let namespace: Value = serde_json::from_slice(&found.value).unwrap_or_default();
        Ok(if namespace.is_deleting() { NamespaceState::Terminating } else { NamespaceState::Active })
    }
}

/// Refuses to create anything in a namespace that is missing or going, and to delete namespaces that must
/// stay.
#[derive(Debug)]
pub struct NamespaceLifecycle {
    lookup: Arc<dyn NamespaceLookup>,
}

impl NamespaceLifecycle {
    pub fn new(lookup: Arc<dyn NamespaceLookup>) -> Self {
        Self { lookup }
    }
}

#[async_trait]
impl Admission for NamespaceLifecycle {
    /// Before anything else is judged, as Kubernetes does.
    async fn mutate(&self, request: AdmissionRequest<'_>, _: &mut Value) -> Result<(), Status> {
        let AdmissionRequest { resource, operation, namespace, name, .. } = request;
        if operation != Operation::Create || !resource.namespaced() {
            return Ok(());
        }
        match self.lookup.state(namespace).await? {
            NamespaceState::Active => Ok(()),
            NamespaceState::Missing => {
                Err(Status::not_found(&GroupResource::new("", "namespaces"), namespace))
            }
            NamespaceState::Terminating => {
                let why = format!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                );
                let mut status = Status::forbidden(&resource.group_resource(), name, why);
                status.details.get_or_insert_default().causes.push(StatusCause {
                    reason: "NamespaceTerminating".to_owned(),
                    message: format!("namespace {namespace} is being terminated"),
                    field: "metadata.namespace".to_owned(),
                });
                Err(status)
            }
        }
    }

    async fn validate(&self, request: AdmissionRequest<'_>) -> Result<(), Status> {
        let AdmissionRequest { resource, operation, name, .. } = request;
        let immortal = operation == Operation::Delete
            && resource.group.is_empty()
            && resource.plural == "namespaces"
            && IMMORTAL.contains(&name);
        if immortal {
            return Err(Status::forbidden(
                &resource.group_resource(),
                name,
                "this namespace may not be deleted",
            ));
        }
        Ok(())
    }
}
