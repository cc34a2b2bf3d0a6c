//! The one way to write convoy's own objects.

use std::fmt;

use convoy_api::{Kind, ReleaseInventory, cause, encode, finalizer};
use convoy_shard::{NotOwner, Ownership};
use jiff::Timestamp;
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::Status;
use serde_json::{Map, Value, json};

use crate::{Shards, StoreKey, resource_of, store_key};

/// A write to convoy's own API server that failed, or that was not made.
#[derive(Debug, thiserror::Error)]
pub enum HostWriteError {
    /// The shard is not this replica's (any more).
    #[error(transparent)]
    NotOwner(#[from] NotOwner),
    /// The API server said no, or nothing.
    #[error("{action} {kind} {object}")]
    Failed {
        /// What was tried.
        action: &'static str,
        /// The kind of the object.
        kind: &'static str,
        /// The object.
        object: StoreKey,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

impl HostWriteError {
    /// Whether nothing was written because the shard is another replica's. The work is that replica's:
    /// there is nothing to report and nothing to try again.
    pub fn is_not_owner(&self) -> bool {
        match self {
            HostWriteError::NotOwner(_) => true,
            HostWriteError::Failed { source, .. } => {
                matches!(&**source, kube::Error::Api(status) if later_epoch(status).is_some())
            }
        }
    }

    /// Whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the object is not what it was when it was read, or is gone: its own event brings the
    /// next look.
    pub fn is_stale(&self) -> bool {
        matches!(self.code(), Some(404 | 409))
    }

    fn code(&self) -> Option<u16> {
        match self {
            HostWriteError::Failed { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            HostWriteError::NotOwner(_) => None,
        }
    }
}

/// The epoch that a refusal names as later than that of the write.
fn later_epoch(status: &Status) -> Option<u64> {
    let causes = &status.details.as_ref()?.causes;
    let cause = causes.iter().find(|found| found.reason == cause::OLDER_EPOCH)?;
    cause.message.parse().ok()
}

/// Whether an event is about something that is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It is.
    Normal,
    /// It is not.
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

/// Writes statuses, finalizers, inventories and events to convoy's own API server. Every request asks the
/// [`Ownership`] of the object's shard first, and is given up when that is lost meanwhile. There is no
/// other way: `clippy.toml` bans those of the client itself.
#[derive(Clone)]
pub struct HostWriter {
    client: Client,
    field_manager: &'static str,
    replica: String,
    shards: Shards,
}

impl HostWriter {
    /// A writer that writes as `field_manager`. Epochs later than our own, which refusals tell, go to
    /// `shards`.
    pub fn new(client: Client, field_manager: &'static str, replica: String, shards: Shards) -> Self {
        Self { client, field_manager, replica, shards }
    }

    /// The replica that writes.
    pub fn replica(&self) -> &str {
        &self.replica
    }

    fn api<K: Kind>(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = resource_of::<K>();
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    async fn write<K: Kind, T>(
        &self,
        ownership: &dyn Ownership,
        (action, key): (&'static str, &StoreKey),
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, HostWriteError> {
        let _permit = ownership.begin()?;
        let answer = tokio::select! {
            // First, so that a process that hung after the check gives up before it sends.
            biased;
            () = ownership.lost() => return Err(NotOwner { shard: ownership.shard() }.into()),
            answer = request => answer,
        };
        if let Err(kube::Error::Api(status)) = &answer
            && let Some(epoch) = later_epoch(status)
        {
            self.shards.saw_epoch(ownership.shard(), epoch);
        }
        answer.map_err(|error| HostWriteError::Failed {
            action,
            kind: K::KIND,
            object: key.clone(),
            source: Box::new(error),
        })
    }

    fn post(&self) -> PostParams {
        PostParams { field_manager: Some(self.field_manager.to_owned()), ..PostParams::default() }
    }

    /// Applies the status fields that are the field manager's; `uid` makes the write fail when the object
    /// was deleted and made again meanwhile. Answers with the object's resourceVersion.
    ///
    /// # Errors
    /// See [`HostWriteError`].
    #[expect(clippy::disallowed_methods, reason = "the one writer: it asks for ownership")]
    pub async fn apply_status<K: Kind>(
        &self,
        ownership: &dyn Ownership,
        key: &StoreKey,
        uid: &str,
        status: &Map<String, Value>,
    ) -> Result<String, HostWriteError> {
        let mut patch = json!({
            "apiVersion": K::API_VERSION,
            "kind": K::KIND,
            "metadata": { "name": key.name, "uid": uid },
            "status": status,
        });
        if !key.namespace.is_empty() {
            patch["metadata"]["namespace"] = json!(key.namespace);
        }
        let params = PatchParams::apply(self.field_manager).force();
        let patch = Patch::Apply(&patch);
        let api = self.api::<K>(&key.namespace);
        let request = api.patch_status(&key.name, &params, &patch);
        let stored = self.write::<K, _>(ownership, ("writing the status of", key), request).await?;
        Ok(stored.metadata.resource_version.unwrap_or_default())
    }

    /// Sets the finalizers of an object, if it is still as it was read.
    ///
    /// # Errors
    /// See [`HostWriteError`].
    #[expect(clippy::disallowed_methods, reason = "the one writer: it asks for ownership")]
    pub async fn set_finalizers<K: Kind>(
        &self,
        ownership: &dyn Ownership,
        key: &StoreKey,
        resource_version: &str,
        finalizers: &[String],
    ) -> Result<(), HostWriteError> {
        let patch = json!({"metadata": {"resourceVersion": resource_version, "finalizers": finalizers}});
        let params =
            PatchParams { field_manager: Some(self.field_manager.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(&patch);
        let api = self.api::<K>(&key.namespace);
        let request = api.patch(&key.name, &params, &patch);
        self.write::<K, _>(ownership, ("writing the finalizers of", key), request).await.map(|_| ())
    }

    /// Creates or replaces an inventory; one with a resourceVersion replaces only that version.
    /// Answers with the inventory as it is stored.
    ///
    /// # Errors
    /// See [`HostWriteError`].
    #[expect(clippy::disallowed_methods, reason = "the one writer: it asks for ownership")]
    pub async fn put_inventory(
        &self,
        ownership: &dyn Ownership,
        inventory: &ReleaseInventory,
    ) -> Result<ReleaseInventory, HostWriteError> {
        let key = store_key(inventory);
        let api = self.api::<ReleaseInventory>(&key.namespace);
        let params = self.post();
        let request = async {
            let object: DynamicObject =
                serde_json::from_value(encode(inventory)).map_err(kube::Error::SerdeError)?;
            let stored = if inventory.metadata.resource_version.is_some() {
                api.replace(&key.name, &params, &object).await?
            } else {
                api.create(&params, &object).await?
            };
            serde_json::to_value(stored).and_then(serde_json::from_value).map_err(kube::Error::SerdeError)
        };
        self.write::<ReleaseInventory, _>(ownership, ("writing", &key), request).await
    }

    /// Deletes an inventory, if it still is the one that was read; gone already is fine.
    ///
    /// # Errors
    /// See [`HostWriteError`].
    #[expect(clippy::disallowed_methods, reason = "the one writer: it asks for ownership")]
    pub async fn delete_inventory(
        &self,
        ownership: &dyn Ownership,
        inventory: &ReleaseInventory,
    ) -> Result<(), HostWriteError> {
        let key = store_key(inventory);
        let mut released = inventory.clone();
        let finalizers = released.metadata.finalizers.get_or_insert_default();
        finalizers.retain(|name| name != finalizer::INVENTORY);
        let released = match self.put_inventory(ownership, &released).await {
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
        let api = self.api::<ReleaseInventory>(&key.namespace);
        let request = api.delete(&key.name, &params);
        match self.write::<ReleaseInventory, _>(ownership, ("deleting", &key), request).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates an event about an object. That it fails is logged and harms nothing.
    #[expect(clippy::disallowed_methods, reason = "the one writer: it asks for ownership")]
    pub async fn event<K: Kind>(
        &self,
        ownership: &dyn Ownership,
        object: &K,
        (kind, reason, message): (EventKind, &str, &str),
        now: Timestamp,
    ) {
        let key = store_key(object);
        let metadata = object.metadata();
        // Events' names need only be their own: the time in nanoseconds is.
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "namespace": key.namespace, "name": format!("{}.{:x}", key.name, now.as_nanosecond()),
            },
            "involvedObject": {
                "apiVersion": K::API_VERSION, "kind": K::KIND, "namespace": key.namespace, "name": key.name,
                "uid": metadata.uid, "resourceVersion": metadata.resource_version,
            },
            "type": kind.as_str(),
            "reason": reason,
            "message": message,
            "source": { "component": self.field_manager },
            "reportingComponent": self.field_manager,
            "reportingInstance": self.replica,
            "firstTimestamp": whole_second(now), "lastTimestamp": whole_second(now), "count": 1,
        });
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Event>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
        let request = async {
            let event = serde_json::from_value(event).map_err(kube::Error::SerdeError)?;
            api.create(&PostParams::default(), &event).await
        };
        if let Err(error) = self.write::<K, _>(ownership, ("writing an event about", &key), request).await {
            tracing::debug!(object = %key, error = %error, "cannot write an event");
        }
    }
}

impl fmt::Debug for HostWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostWriter")
            .field("field_manager", &self.field_manager)
            .field("replica", &self.replica)
            .finish_non_exhaustive()
    }
}

fn whole_second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;
    use std::sync::Arc;
    use std::time::Duration;

    use convoy_api::Release;
    use convoy_shard::Held;
    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use tokio::sync::Notify;

    use super::*;
    use crate::shards::TermUpdate;
    use crate::{Clock as _, ManualClock};

    /// A server that notes each request, and answers with `answer`, or never when that is none.
    struct Host {
        writer: HostWriter,
        requests: Arc<Mutex<Vec<String>>>,
        arrived: Arc<Notify>,
        clock: ManualClock,
        shards: Shards,
    }

    impl Host {
        fn new(answer: Option<(u16, Value)>) -> Self {
            let requests: Arc<Mutex<Vec<String>>> = Arc::default();
            let arrived = Arc::new(Notify::new());
            let (log, tell) = (Arc::clone(&requests), Arc::clone(&arrived));
            let service = tower::service_fn(move |request: Request<Body>| {
                log.lock().push(format!("{} {}", request.method(), request.uri().path()));
                tell.notify_one();
                let answer = answer.clone();
                async move {
                    let Some((code, body)) = answer else { return std::future::pending().await };
                    let body = Body::from(body.to_string().into_bytes());
                    Response::builder().status(code).header("content-type", "application/json").body(body)
                }
            });
            let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
            let shards = Shards::new(NonZeroU32::new(4).unwrap(), Arc::new(clock.clone()));
            let client = Client::new(service, "default");
            let writer = HostWriter::new(client, "convoy-test", "cm-0".to_owned(), shards.clone());
            Self { writer, requests, arrived, clock, shards }
        }

        fn holds(&self, epoch: u64) {
            let now = self.clock.moment();
            let held = Held::new(epoch, now);
            let held = BTreeMap::from([(1, held)]);
            let (write_until, hold_until) = (Duration::from_secs(20), Duration::from_secs(25));
            self.shards.update(&TermUpdate { held: &held, write_until, hold_until }, now);
        }

        async fn apply(&self, ownership: &dyn Ownership) -> Result<String, HostWriteError> {
            let key = StoreKey::new("team", "web");
            self.writer.apply_status::<Release>(ownership, &key, "u-1", &Map::new()).await
        }
    }

    fn stored() -> Value {
        json!({
            "apiVersion": "convoy.kumodo.io/v1alpha1", "kind": "Release",
            "metadata": {"namespace": "team", "name": "web", "resourceVersion": "12"},
        })
    }

    #[tokio::test]
    async fn i1_nothing_is_sent_without_ownership_nor_in_a_later_term() {
        let host = Host::new(Some((200, stored())));
        host.holds(3);
        let guard = host.shards.guard(1).unwrap();
        assert_eq!(host.apply(&*guard).await.unwrap(), "12");
        host.holds(4);
        let error = host.apply(&*guard).await.unwrap_err();
        assert!(error.is_not_owner() && !error.is_stale(), "{error}");
        let guard = host.shards.guard(1).unwrap();
        host.clock.advance(Duration::from_secs(20));
        assert!(host.apply(&*guard).await.unwrap_err().is_not_owner(), "the lease was not renewed");
        let path = "/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releases/web/status";
        assert_eq!(*host.requests.lock(), [format!("PATCH {path}")]);
    }

    #[tokio::test]
    async fn i1_a_write_under_way_is_given_up_when_the_shard_is_lost() {
        let host = Arc::new(Host::new(None));
        host.holds(3);
        let guard = host.shards.guard(1).unwrap();
        let under_way = tokio::spawn({
            let host = Arc::clone(&host);
            async move { host.apply(&*guard).await }
        });
        host.arrived.notified().await;
        host.clock.advance(Duration::from_secs(25));
        let outcome = tokio::time::timeout(Duration::from_secs(10), under_way).await.unwrap().unwrap();
        assert!(outcome.unwrap_err().is_not_owner());
    }

    #[tokio::test]
    async fn i5_a_refused_epoch_is_told_to_who_renews_the_lease() {
        let refusal = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict",
            "message": "a later epoch wrote",
            "details": {"causes": [{"reason": cause::OLDER_EPOCH, "message": "7",
                                    "field": "status.controller.epoch"}]},
        });
        let host = Host::new(Some((409, refusal)));
        host.holds(3);
        let guard = host.shards.guard(1).unwrap();
        assert!(host.apply(&*guard).await.unwrap_err().is_not_owner());
        assert_eq!(host.shards.take_epoch_seen(), Some((1, 7)));
        let plain = Host::new(Some((409, json!({"kind": "Status", "code": 409, "status": "Failure"}))));
        plain.holds(3);
        let guard = plain.shards.guard(1).unwrap();
        let error = plain.apply(&*guard).await.unwrap_err();
        assert!(error.is_stale() && !error.is_not_owner());
        assert!(plain.shards.take_epoch_seen().is_none());
    }
}
