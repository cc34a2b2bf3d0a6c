//! Leases of a Kubernetes API server.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use convoy_api::sharding;
use convoy_shard::{ApiServerShards, Lease, LeaseKey, ProcessKind, Settings, WriteError, WriteOp, Written};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams, Preconditions};
use parking_lot::Mutex;

use super::object::{build, parse, resource};
use super::{LeaseApi, ListFailed, Listed, PeerLeases};
use crate::Clock;

/// The leases of one namespace. It uses get, list, create, update and delete of leases, and get of `shardings`,
/// nothing else.
pub struct KubeLeases {
    api: Api<DynamicObject>,
    namespace: String,
    settings: Settings,
    clock: Arc<dyn Clock>,
    /// The leases of this process kind as last read, for what others put on them.
    stored: Mutex<BTreeMap<LeaseKey, DynamicObject>>,
    own: PeerLeases,
    other: PeerLeases,
    problem: Mutex<Option<String>>,
    shardings: Api<DynamicObject>,
    /// Why the API server did not say how many shards it counts when it was asked last.
    unsaid: Mutex<Option<String>>,
}

impl std::fmt::Debug for KubeLeases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeLeases").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl KubeLeases {
    /// The leases that the settings' process kind has in the namespace. Lists tell `own` and `other` what
    /// they show of the shard leases of this process kind and of the other.
    pub fn new(
        client: Client,
        namespace: &str,
        settings: Settings,
        clock: Arc<dyn Clock>,
        own: PeerLeases,
        other: PeerLeases,
    ) -> Self {
        Self {
            shardings: Api::all_with(client.clone(), &shardings()),
            unsaid: Mutex::default(),
            api: Api::namespaced_with(client, namespace, &resource()),
            namespace: namespace.to_owned(),
            settings,
            clock,
            stored: Mutex::default(),
            own,
            other,
            problem: Mutex::default(),
        }
    }

    /// Why the last request failed that failed for a reason that people must see to.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone().or_else(|| self.unsaid.lock().clone())
    }

    fn failed(&self, what: &str, error: &kube::Error) {
        let namespace = &self.namespace;
        let message = match error {
            kube::Error::Api(status) if status.code == 404 && status.message.contains("namespaces") => {
                format!(
                    "the lease namespace {namespace} does not exist: create it, or name another one with --lease-namespace"
                )
            }
            kube::Error::Api(status) => format!("cannot {what} in namespace {namespace}: {}", status.message),
            // It may hold addresses, no secrets.
            other => format!("cannot {what} in namespace {namespace}: {other}"),
        };
        let mut problem = self.problem.lock();
        if problem.as_ref() != Some(&message) {
            tracing::warn!("{message}");
            *problem = Some(message);
        }
    }

    /// Says once why the API server's count is not known.
    fn not_said(&self, message: String) {
        let mut unsaid = self.unsaid.lock();
        if unsaid.as_ref() != Some(&message) {
            tracing::warn!("{message}");
            *unsaid = Some(message);
        }
    }

    fn keep(&self, object: DynamicObject) -> Option<Arc<Lease>> {
        let lease = parse(self.settings.process, &object)?;
        let mut stored = self.stored.lock();
        let is_newer = stored.get(&lease.key).is_none_or(|known| {
            known.metadata.uid != object.metadata.uid || version(known) <= version(&object)
        });
        if is_newer {
            stored.insert(lease.key.clone(), object);
        }
        Some(Arc::new(lease))
    }

    /// The stored object that the write is about, in the version that the protocol saw.
    async fn base(&self, lease: &Lease, name: &str) -> Result<DynamicObject, kube::Error> {
        let known = self.stored.lock().get(&lease.key).cloned();
        let fits = |object: &DynamicObject| {
            object.metadata.resource_version.as_deref() == Some(&lease.resource_version)
        };
        match known.filter(fits) {
            Some(known) => Ok(known),
            None => self.api.get(name).await,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "leases are what ownership is made of")]
    async fn try_write(&self, op: WriteOp, lease: &Lease) -> Result<Written, kube::Error> {
        let name = lease.key.name(&self.settings);
        let stored = match op {
            WriteOp::Create => {
                let object = build(&self.settings, &self.namespace, lease, None);
                self.api.create(&PostParams::default(), &object).await?
            }
            WriteOp::Update => {
                let base = self.base(lease, &name).await?;
                let object = build(&self.settings, &self.namespace, lease, Some(base));
                self.api.replace(&name, &PostParams::default(), &object).await?
            }
            WriteOp::Delete => {
                let present = |text: &String| (!text.is_empty()).then(|| text.clone());
                let preconditions = Preconditions {
                    uid: present(&lease.uid),
                    resource_version: present(&lease.resource_version),
                };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                self.api.delete(&name, &params).await?;
                self.stored.lock().remove(&lease.key);
                return Ok(Written::Deleted);
            }
        };
        match self.keep(stored) {
            Some(lease) => Ok(Written::Stored(lease)),
            None => Err(kube::Error::Service("the answer is another lease".into())),
        }
    }
}

fn shardings() -> ApiResource {
    ApiResource {
        group: convoy_api::GROUP.to_owned(),
        version: convoy_api::VERSION.to_owned(),
        api_version: convoy_api::API_VERSION.to_owned(),
        kind: sharding::KIND.to_owned(),
        plural: sharding::PLURAL.to_owned(),
    }
}

fn version(object: &DynamicObject) -> u64 {
    object.metadata.resource_version.as_ref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn other_kind(process: ProcessKind) -> ProcessKind {
    match process {
        ProcessKind::ControllerManager => ProcessKind::Observer,
        ProcessKind::Observer => ProcessKind::ControllerManager,
    }
}

#[async_trait]
impl LeaseApi for KubeLeases {
    async fn list(&self, is_consistent: bool) -> Result<Listed, ListFailed> {
        let params = ListParams {
            resource_version: (!is_consistent).then(|| "0".to_owned()),
            ..ListParams::default()
        };
        let list = self.api.list(&params).await.map_err(|error| {
            self.failed("list leases", &error);
            ListFailed
        })?;
        let version = list.metadata.resource_version.as_ref().and_then(|text| text.parse().ok()).unwrap_or(0);
        let others: Vec<Lease> =
            list.items.iter().filter_map(|object| parse(other_kind(self.settings.process), object)).collect();
        let leases: Vec<Arc<Lease>> = list.items.into_iter().filter_map(|object| self.keep(object)).collect();
        if is_consistent {
            // Else leases of replicas that were long collected would be kept for ever.
            self.stored.lock().retain(|key, _| leases.iter().any(|lease| lease.key == *key));
        }
        let (least, now) = (self.settings.lease_duration, self.clock.moment());
        self.own.take_in(leases.iter().map(|lease| &**lease), version, is_consistent, least, now);
        self.other.take_in(others.iter(), version, is_consistent, least, now);
        Ok(Listed { version, leases })
    }

    async fn api_server_shards(&self) -> ApiServerShards {
        let what = "the API server does not say how many shards it counts, so that a difference from this \
                    replica's --shards would not be found";
        match self.shardings.get(sharding::NAME).await {
            Ok(object) => {
                *self.unsaid.lock() = None;
                let shards = object.data.pointer("/status/shards").and_then(serde_json::Value::as_u64);
                let shards = shards.and_then(|shards| u32::try_from(shards).ok()).and_then(NonZeroU32::new);
                shards.map_or(ApiServerShards::Unsaid, ApiServerShards::Count)
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                let message = &status.message;
                self.not_said(format!("{what}: {message}; it needs get of shardings.convoy.kumodo.io"));
                ApiServerShards::Unsaid
            }
            Err(error) => {
                self.not_said(format!("cannot ask the API server how many shards it counts: {error}"));
                ApiServerShards::NoAnswer
            }
        }
    }

    async fn write(&self, op: WriteOp, lease: &Lease) -> Result<Written, WriteError> {
        match self.try_write(op, lease).await {
            Ok(written) => {
                *self.problem.lock() = None;
                Ok(written)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Err(WriteError::Conflict),
            // A lease that is made is not found when its namespace is not there.
            Err(kube::Error::Api(status)) if status.code == 404 && op != WriteOp::Create => {
                Err(WriteError::Conflict)
            }
            Err(error) => {
                self.failed("write leases", &error);
                Err(WriteError::Failed)
            }
        }
    }
}
