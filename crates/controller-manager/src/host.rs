//! Convoy's own API server: what is read there, and the writer.

use std::fmt;

use convoy_api::{Cluster, Kind, Release, ReleaseInventory, field_manager, label};
use convoy_apply::NotOwner;
pub(crate) use convoy_prepare::in_words;
use convoy_prepare::{HostReader, ReadError};
use convoy_runtime::{HostWriteError, HostWriter, Shards, StoreKey, resource_of};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use serde::de::DeserializeOwned;

/// A write or read of a host object that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The object is not what its name says.
    #[error("using {kind} {object}: {by}")]
    Taken { kind: &'static str, object: StoreKey, by: String },
    #[error(transparent)]
    Write(#[from] HostWriteError),
}

impl HostError {
    /// Whether the object is not what it was when it was read, or is gone: its own event brings the
    /// next look.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, HostError::Write(error) if error.is_stale())
    }

    /// Whether nothing was written because the shard is another replica's.
    pub(crate) fn is_not_owner(&self) -> bool {
        matches!(self, HostError::Write(error) if error.is_not_owner())
    }

    /// For work that was given up before a write to the host was tried.
    pub(crate) fn not_owner(shard: u32) -> Self {
        HostError::Write(NotOwner { shard }.into())
    }
}

/// Convoy's own API server, for the controllers.
#[derive(Clone)]
pub(crate) struct Host {
    client: Client,
    /// Secrets and ConfigMaps.
    pub(crate) reader: HostReader,
    /// What may write there.
    pub(crate) writer: HostWriter,
}

impl Host {
    pub(crate) fn new(client: Client, replica: String, shards: Shards) -> Self {
        let writer = HostWriter::new(client.clone(), field_manager::CONTROLLER_MANAGER, replica, shards);
        Self { reader: HostReader::new(client.clone()), client, writer }
    }

    fn api<K: Kind>(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = resource_of::<K>();
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    fn failed(kind: &'static str, key: &StoreKey) -> impl Fn(kube::Error) -> HostError + use<> {
        let failed = ReadError::of(kind, key);
        move |error| failed(error).into()
    }

    async fn get<K: Kind + DeserializeOwned>(&self, key: &StoreKey) -> Result<Option<K>, HostError> {
        let failed = Self::failed(K::KIND, key);
        let Some(object) = self.api::<K>(&key.namespace).get_opt(&key.name).await.map_err(&failed)? else {
            return Ok(None);
        };
        let decoded = serde_json::to_value(object).and_then(serde_json::from_value);
        decoded.map(Some).map_err(|error| failed(kube::Error::SerdeError(error)))
    }

    /// One inventory as it is now; none when it does not exist.
    pub(crate) async fn inventory(&self, key: &StoreKey) -> Result<Option<ReleaseInventory>, HostError> {
        self.get(key).await
    }

    /// A Release as it is now; none when it does not exist.
    pub(crate) async fn release(&self, key: &StoreKey) -> Result<Option<Release>, HostError> {
        self.get(key).await
    }

    /// Whether a Cluster exists now.
    pub(crate) async fn has_cluster(&self, key: &StoreKey) -> Result<bool, HostError> {
        Ok(self.get::<Cluster>(key).await?.is_some())
    }

    /// Whether a namespace is being deleted, and with it all that is in it.
    pub(crate) async fn is_namespace_ending(&self, namespace: &str) -> Result<bool, HostError> {
        let key = StoreKey::new("", namespace);
        let found = Api::<Namespace>::all(self.client.clone()).get_opt(namespace).await;
        let found = found.map_err(Self::failed("Namespace", &key))?;
        Ok(found.is_some_and(|found| found.metadata.deletion_timestamp.is_some()))
    }

    /// The objects of a kind in all namespaces.
    pub(crate) fn all<K: Kind>(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource_of::<K>())
    }

    /// The uid of a namespace; none when it does not exist.
    pub(crate) async fn namespace_uid(&self, namespace: &str) -> Result<Option<String>, ReadError> {
        let key = StoreKey::new("", namespace);
        let found = Api::<Namespace>::all(self.client.clone()).get_opt(namespace).await;
        let found = found.map_err(ReadError::of("Namespace", &key))?;
        Ok(found.and_then(|found| found.metadata.uid))
    }

    /// The names of all inventories of a Release that there are now, whosever shard they are in.
    pub(crate) async fn inventories_of(
        &self,
        release: &StoreKey,
        uid: &str,
    ) -> Result<Vec<String>, HostError> {
        let params = ListParams::default().labels(&format!("{}={uid}", label::INVENTORY_OF));
        let listed = self.api::<ReleaseInventory>(&release.namespace).list_metadata(&params).await;
        let listed = listed.map_err(Self::failed("the ReleaseInventories of", release))?;
        Ok(listed.items.into_iter().filter_map(|item| item.metadata.name).collect())
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("writer", &self.writer).finish_non_exhaustive()
    }
}
