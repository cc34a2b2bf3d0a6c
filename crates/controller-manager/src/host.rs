//! The API server that holds convoy's objects: reading what the stores do not hold, and writing status.

use std::collections::BTreeMap;

use convoy_api::{API_VERSION, Kind, field_manager};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// Why the API server did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// Reading failed.
    #[error("reading {what}")]
    Read {
        what: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// Writing failed.
    #[error("writing {what}")]
    Write {
        what: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// A client of the API server that holds convoy's objects.
#[derive(Clone)]
pub(crate) struct Host {
    client: Client,
}

impl Host {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The data of a Secret; `None` when there is no such Secret.
    pub(crate) async fn secret_data(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>, HostError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = secrets.get_opt(name).await.map_err(|source| HostError::Read {
            what: format!("Secret {namespace}/{name}"),
            source: Box::new(source),
        })?;
        Ok(secret.map(|secret| {
            secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
        }))
    }

    /// Applies status fields under the controller-manager's field manager. Fields that it applied before
    /// and that are not there now are removed. An object that is gone, or was made anew, is no error.
    pub(crate) async fn apply_status<K>(&self, object: &K, status: &Value) -> Result<(), HostError>
    where
        K: Kind + k8s_openapi::Resource<Scope = NamespaceResourceScope>,
    {
        let meta = object.metadata();
        let name = meta.name.as_deref().unwrap_or_default();
        let patch = json!({
            "apiVersion": API_VERSION,
            "kind": K::KIND,
            // The uid makes the write fail when the object was deleted and made again meanwhile.
            "metadata": {"name": name, "namespace": meta.namespace, "uid": meta.uid},
            "status": status,
        });
        let resource = ApiResource::erase::<K>(&());
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let parameters = PatchParams::apply(field_manager::CONTROLLER_MANAGER).force();
        match api.patch_status(name, &parameters, &Patch::Apply(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(()),
            Err(source) => Err(HostError::Write {
                what: format!("the status of {} {}", K::KIND, object.object_ref()),
                source: Box::new(source),
            }),
        }
    }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some libraries repeat their cause in their own text.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
