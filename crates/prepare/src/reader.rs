//! What is read of convoy's own API server to prepare a Release.

use std::collections::BTreeMap;
use std::fmt;

use convoy_runtime::StoreKey;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::Client;
use kube::api::Api;

/// A read of a host object that failed.
#[derive(Debug, thiserror::Error)]
#[error("reading {kind} {object}")]
pub struct ReadError {
    /// What was read.
    pub kind: &'static str,
    /// Its name.
    pub object: StoreKey,
    /// Why it failed.
    #[source]
    pub source: Box<kube::Error>,
}

impl ReadError {
    /// What names the object in an error of the client.
    pub fn of(kind: &'static str, key: &StoreKey) -> impl Fn(kube::Error) -> ReadError + use<> {
        let object = key.clone();
        move |error| ReadError { kind, object: object.clone(), source: Box::new(error) }
    }
}

/// Reads what no store keeps.
#[derive(Clone)]
pub struct HostReader {
    client: Client,
}

impl HostReader {
    /// Reads through `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The data of a Secret; none when it does not exist.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn secret(&self, key: &StoreKey) -> Result<Option<BTreeMap<String, Vec<u8>>>, ReadError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let secret = api.get_opt(&key.name).await.map_err(ReadError::of("Secret", key))?;
        Ok(secret.map(|secret| {
            secret.data.unwrap_or_default().into_iter().map(|(name, value)| (name, value.0)).collect()
        }))
    }

    /// The data of a ConfigMap; none when it does not exist.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn config_map(&self, key: &StoreKey) -> Result<Option<BTreeMap<String, Vec<u8>>>, ReadError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.namespace);
        let map = api.get_opt(&key.name).await.map_err(ReadError::of("ConfigMap", key))?;
        Ok(map.map(|map| {
            let text = map.data.unwrap_or_default().into_iter().map(|(name, text)| (name, text.into_bytes()));
            let binary = map.binary_data.unwrap_or_default().into_iter().map(|(name, value)| (name, value.0));
            text.chain(binary).collect()
        }))
    }
}

impl HostReader {
    /// The labels of a namespace; none when it does not exist.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn namespace_labels(&self, name: &str) -> Result<Option<BTreeMap<String, String>>, ReadError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let failed = ReadError::of("Namespace", &StoreKey::new("", name));
        let found = api.get_opt(name).await.map_err(failed)?;
        Ok(found.map(|namespace| namespace.metadata.labels.unwrap_or_default()))
    }
}

impl fmt::Debug for HostReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostReader").finish_non_exhaustive()
    }
}

/// An error with its causes in one line.
pub fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some libraries repeat their cause in their own text.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
