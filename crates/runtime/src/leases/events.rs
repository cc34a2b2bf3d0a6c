//! Kubernetes Events about leases, as far as the API server takes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{Clock, ProcessIdentity};

/// For so long takeovers from one holder are gathered into one Event.
const GATHER: Duration = Duration::from_secs(1);

/// What an Event tells.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// A shard was taken from a holder whose lease had ended.
    TakenOver { shard: u32, lease: String, from: String, silent: Duration },
    /// Anything else that people should see to.
    Warning { lease: String, reason: &'static str, message: String },
}

/// Writes Events until the sender is dropped.
pub(super) struct EventWriter {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) identity: ProcessIdentity,
    pub(super) clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Takeover {
    shards: Vec<u32>,
    lease: String,
    silent: Duration,
}

impl EventWriter {
    pub(super) async fn run(self, mut told: mpsc::Receiver<Told>) {
        while let Some(first) = told.recv().await {
            let mut takeovers: BTreeMap<String, Takeover> = BTreeMap::new();
            let until = self.clock.monotonic() + GATHER;
            let mut next = Some(first);
            while let Some(told_now) = next {
                match told_now {
                    Told::TakenOver { shard, lease, from, silent } => {
                        let takeover = takeovers.entry(from).or_default();
                        takeover.shards.push(shard);
                        takeover.lease = lease;
                        takeover.silent = takeover.silent.max(silent);
                    }
                    Told::Warning { lease, reason, message } => {
                        self.write(&lease, "Warning", reason, &message).await;
                    }
                }
                next = tokio::select! {
                    more = told.recv() => more,
                    () = self.clock.sleep_until(until) => None,
                };
            }
            for (from, mut takeover) in takeovers {
                takeover.shards.sort_unstable();
                let shards: Vec<String> = takeover.shards.iter().map(u32::to_string).collect();
                let message = format!(
                    "{} took over shards {} of {from}, whose leases had not been renewed for {} s",
                    self.identity.replica_id,
                    shards.join(", "),
                    takeover.silent.as_secs(),
                );
                self.write(&takeover.lease, "Normal", "TakenOver", &message).await;
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "Events about leases are no work of a shard")]
    async fn write(&self, lease: &str, kind: &str, reason: &str, message: &str) {
        let now = self.clock.now();
        let second = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let component = format!("convoy-{}", self.identity.process);
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            // Names need only be their own: the time in nanoseconds is.
            "metadata": { "namespace": self.namespace, "name": format!("{lease}.{:x}", now.as_nanosecond()) },
            "involvedObject": {
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "namespace": self.namespace, "name": lease,
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": { "component": component },
            "reportingComponent": component,
            "reportingInstance": self.identity.replica_id,
            "firstTimestamp": second, "lastTimestamp": second, "count": 1,
        });
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Event>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let created = match serde_json::from_value(event) {
            Ok(event) => api.create(&PostParams::default(), &event).await.map(|_| ()),
            Err(error) => Err(kube::Error::SerdeError(error)),
        };
        if let Err(error) = created {
            tracing::debug!(lease, error = %error, "cannot write an event");
        }
    }
}
