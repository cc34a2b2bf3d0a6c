//! Writes to convoy's own API server.

use std::collections::BTreeMap;

use convoy_api::{Kind, ReleaseInventory, encode, field_manager, finalizer};
use convoy_runtime::StoreKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
};
use serde_json::{Map, Value, json};

/// A write or read of a host object that failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} {kind} {object}")]
pub(crate) struct HostError {
    action: &'static str,
    kind: &'static str,
    object: StoreKey,
    #[source]
    source: Box<kube::Error>,
}

impl HostError {
    /// An object that is not what its name says.
    pub(crate) fn taken(kind: &'static str, object: StoreKey, by: String) -> Self {
        let source = Box::new(kube::Error::Service(by.into()));
        HostError { action: "using", kind, object, source }
    }

    /// Whether there is no such object.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(&*self.source, kube::Error::Api(status) if status.code == 404)
    }

    /// Whether the object is not what it was when it was read, or is gone: its own event brings the
    /// next look.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(&*self.source, kube::Error::Api(status) if matches!(status.code, 404 | 409))
    }
}

/// Convoy's own API server, for the controllers.
#[derive(Clone)]
pub(crate) struct Host {
    client: Client,
    replica: String,
}

impl Host {
    pub(crate) fn new(client: Client, replica: String) -> Self {
        Self { client, replica }
    }

    /// The replica that writes.
    pub(crate) fn replica(&self) -> &str {
        &self.replica
    }

    fn api<K: Kind>(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: K::GROUP.to_owned(),
            version: K::VERSION.to_owned(),
            api_version: K::API_VERSION.to_owned(),
            kind: K::KIND.to_owned(),
            plural: K::URL_PATH_SEGMENT.to_owned(),
        };
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    fn failed<K: Kind>(action: &'static str, key: &StoreKey) -> impl FnOnce(kube::Error) -> HostError {
        let object = key.clone();
        move |error| HostError { action, kind: K::KIND, object, source: Box::new(error) }
    }

    /// Applies the status fields that the controller-manager owns.
    pub(crate) async fn apply_status<K: Kind>(
        &self,
        key: &StoreKey,
        uid: &str,
        status: &Map<String, Value>,
    ) -> Result<(), HostError> {
        let patch = json!({
            "apiVersion": K::API_VERSION,
            "kind": K::KIND,
            // The uid makes the write fail when the object was deleted and made again meanwhile.
            "metadata": { "namespace": key.namespace, "name": key.name, "uid": uid },
            "status": status,
        });
        let params = PatchParams::apply(field_manager::CONTROLLER_MANAGER).force();
        self.api::<K>(&key.namespace)
            .patch_status(&key.name, &params, &Patch::Apply(&patch))
            .await
            .map(|_| ())
            .map_err(Self::failed::<K>("writing the status of", key))
    }

    /// Sets the finalizers of an object, if it is still as it was read.
    pub(crate) async fn set_finalizers<K: Kind>(
        &self,
        key: &StoreKey,
        resource_version: &str,
        finalizers: &[String],
    ) -> Result<(), HostError> {
        let patch = json!({"metadata": {"resourceVersion": resource_version, "finalizers": finalizers}});
        let params = PatchParams {
            field_manager: Some(field_manager::CONTROLLER_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        self.api::<K>(&key.namespace)
            .patch(&key.name, &params, &Patch::Merge(&patch))
            .await
            .map(|_| ())
            .map_err(Self::failed::<K>("writing the finalizers of", key))
    }

    /// One inventory as it is now; none when it does not exist.
    pub(crate) async fn inventory(&self, key: &StoreKey) -> Result<Option<ReleaseInventory>, HostError> {
        let failed = Self::failed::<ReleaseInventory>("reading", key);
        match self.api::<ReleaseInventory>(&key.namespace).get_opt(&key.name).await {
            Ok(None) => Ok(None),
            Ok(Some(object)) => {
                let decoded = serde_json::to_value(object).and_then(serde_json::from_value);
                decoded.map(Some).map_err(|error| failed(kube::Error::SerdeError(error)))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Creates or replaces an inventory; one with a resourceVersion replaces only that version.
    /// Answers with the inventory as it is stored.
    pub(crate) async fn put_inventory(
        &self,
        inventory: &ReleaseInventory,
    ) -> Result<ReleaseInventory, HostError> {
        let key = convoy_runtime::store_key(inventory);
        let failed = Self::failed::<ReleaseInventory>("writing", &key);
        let api = self.api::<ReleaseInventory>(&key.namespace);
        let params = PostParams {
            field_manager: Some(field_manager::CONTROLLER_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let written = async {
            let object: DynamicObject =
                serde_json::from_value(encode(inventory)).map_err(kube::Error::SerdeError)?;
            let stored = if inventory.metadata.resource_version.is_some() {
                api.replace(&key.name, &params, &object).await?
            } else {
                api.create(&params, &object).await?
            };
            serde_json::to_value(stored).and_then(serde_json::from_value).map_err(kube::Error::SerdeError)
        };
        written.await.map_err(failed)
    }

    /// Deletes an inventory, if it still is the one that was read; gone already is fine.
    pub(crate) async fn delete_inventory(&self, inventory: &ReleaseInventory) -> Result<(), HostError> {
        let key = convoy_runtime::store_key(inventory);
        let mut released = inventory.clone();
        let finalizers = released.metadata.finalizers.get_or_insert_default();
        finalizers.retain(|name| name != finalizer::INVENTORY);
        let released = match self.put_inventory(&released).await {
            Ok(released) => released,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        if released.metadata.deletion_timestamp.is_some() {
            // Somebody else deleted it; without its finalizer it is gone.
            return Ok(());
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: released.metadata.uid.clone(),
                resource_version: released.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        match self.api::<ReleaseInventory>(&key.namespace).delete(&key.name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(Self::failed::<ReleaseInventory>("deleting", &key)(error)),
        }
    }

    /// The data of a Secret; none when it does not exist.
    pub(crate) async fn secret(
        &self,
        key: &StoreKey,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>, HostError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let secret = api.get_opt(&key.name).await.map_err(|source| HostError {
            action: "reading",
            kind: "Secret",
            object: key.clone(),
            source: Box::new(source),
        })?;
        Ok(secret.map(|secret| {
            secret.data.unwrap_or_default().into_iter().map(|(name, value)| (name, value.0)).collect()
        }))
    }

    /// The data of a ConfigMap; none when it does not exist.
    pub(crate) async fn config_map(
        &self,
        key: &StoreKey,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>, HostError> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.namespace);
        let map = api.get_opt(&key.name).await.map_err(|source| HostError {
            action: "reading",
            kind: "ConfigMap",
            object: key.clone(),
            source: Box::new(source),
        })?;
        Ok(map.map(|map| {
            let text = map.data.unwrap_or_default().into_iter().map(|(name, text)| (name, text.into_bytes()));
            let binary = map.binary_data.unwrap_or_default().into_iter().map(|(name, value)| (name, value.0));
            text.chain(binary).collect()
        }))
    }

    /// Creates an event about an object. That it fails is logged and harms nothing.
    pub(crate) async fn event<K: Kind>(
        &self,
        object: &K,
        kind: EventKind,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) {
        let metadata = object.metadata();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        // Events' names need only be their own: the time in nanoseconds is.
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "namespace": namespace, "name": format!("{name}.{:x}", now.as_nanosecond()) },
            "involvedObject": {
                "apiVersion": K::API_VERSION, "kind": K::KIND, "namespace": namespace, "name": name,
                "uid": metadata.uid, "resourceVersion": metadata.resource_version,
            },
            "type": kind.as_str(),
            "reason": reason,
            "message": message,
            "source": { "component": field_manager::CONTROLLER_MANAGER },
            "reportingComponent": field_manager::CONTROLLER_MANAGER,
            "reportingInstance": self.replica,
            "firstTimestamp": whole_second(now), "lastTimestamp": whole_second(now), "count": 1,
        });
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Event>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &resource);
        let created = match serde_json::from_value(event) {
            Ok(event) => api.create(&PostParams::default(), &event).await.map(|_| ()),
            Err(error) => Err(kube::Error::SerdeError(error)),
        };
        if let Err(error) = created {
            tracing::debug!(object = %name, error = %error, "cannot write an event");
        }
    }
}

/// Whether an event is about something that is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Normal,
    Warning,
}

impl EventKind {
    fn as_str(self) -> &'static str {
        match self {
            EventKind::Normal => "Normal",
            EventKind::Warning => "Warning",
        }
    }
}

fn whole_second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// An error with its causes in one line.
pub(crate) fn in_words(error: &dyn std::error::Error) -> String {
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
