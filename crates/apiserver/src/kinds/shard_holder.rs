//! `--observer-routing=owner`: the observer that holds the Release's shard is found by the leases and asked itself.

use std::sync::Arc;

use async_trait::async_trait;
use convoy_meta::{GetOptions, Object as _, Reason, Status};
use convoy_registry::Registry;
use convoy_runtime::{ProxiedAnswer, ProxiedRequest, ProxyAddress, ProxyClient, StoreKey};
use convoy_shard::{LeaseKey, ProcessKind, Settings, annotation, shard_of};
use http::StatusCode;
use serde_json::Value;

use super::previews::{Observers, unavailable};

/// How often the holder is looked up anew when the one that was asked is not it any more.
const LOOKS: usize = 3;
/// After how many seconds to ask again while nobody holds the shard.
const ASK_AGAIN: u32 = 5;

/// Asks the holder of a Release's shard. The leases are this server's own.
#[derive(Debug)]
pub struct ShardHolder {
    /// Asks.
    pub client: ProxyClient,
    /// Whose objects the leases are.
    pub registry: Arc<Registry>,
    /// `--lease-namespace` of the observers.
    pub lease_namespace: String,
    /// `--shards`.
    pub shards: std::num::NonZeroU32,
    /// What the certificate of every observer is for.
    pub server_name: String,
}

/// The replica that holds a shard, and where it is asked.
struct Holder {
    replica: String,
    address: ProxyAddress,
}

impl ShardHolder {
    async fn lease(&self, key: &LeaseKey) -> Result<Option<Value>, Status> {
        let resource = self.registry.table().find("coordination.k8s.io", "v1", "leases");
        let resource = resource.ok_or_else(Status::unknown_resource)?;
        let name = key.name(&Settings::new(ProcessKind::Observer, "", ""));
        match self.registry.get(&resource, &self.lease_namespace, &name, &GetOptions::default()).await {
            Ok(found) => Ok(Some(found.to_value())),
            Err(status) if status.reason() == Reason::NotFound => Ok(None),
            Err(status) => Err(status),
        }
    }

    async fn holder(&self, shard: u32) -> Result<Holder, Status> {
        let gap = |message: String| {
            let mut status = Status::service_unavailable(message);
            status.details.get_or_insert_default().retry_after_seconds = ASK_AGAIN;
            status
        };
        let lease = self.lease(&LeaseKey::Shard(shard)).await?;
        let holder = lease.as_ref().and_then(|lease| lease.pointer("/spec/holderIdentity")?.as_str());
        let Some(replica) = holder.filter(|holder| !holder.is_empty()).map(str::to_owned) else {
            return Err(gap(format!("no observer holds shard {shard} now")));
        };
        let member = self.lease(&LeaseKey::Member(replica.clone())).await?;
        let address = member.as_ref().and_then(|member| member.annotation(annotation::ADDRESS));
        let Some(address) = address else {
            let why = format!(
                "the observer {replica}, which holds shard {shard}, does not say where it is asked: run it with \
                 --client-ca-file and --advertise-address"
            );
            return Err(gap(why));
        };
        let address: ProxyAddress =
            address.parse().map_err(|why| gap(format!("the address of the observer {replica}: {why}")))?;
        let address = ProxyAddress { server_name: Some(self.server_name.clone()), ..address };
        Ok(Holder { replica, address })
    }
}

#[async_trait]
impl Observers for ShardHolder {
    async fn ask(&self, cluster: &StoreKey, request: ProxiedRequest) -> Result<ProxiedAnswer, Status> {
        let shard = shard_of(&cluster.namespace, &cluster.name, self.shards);
        let mut asked: Option<(String, Status)> = None;
        for _ in 0..LOOKS {
            let Holder { replica, address } = self.holder(shard).await?;
            if let Some((before, said)) = asked.take_if(|(before, _)| *before == replica) {
                // Its lease still says that it holds the shard: another holder comes when that has ended.
                tracing::debug!(replica = before, shard, "the holder of a shard does not answer for it");
                return Err(said);
            }
            let said = match self.client.ask(&address, request.clone()).await {
                Ok(answer) if answer.code != StatusCode::NOT_FOUND => return Ok(answer),
                // It lost the shard a moment ago.
                Ok(_) => {
                    let mut status = Status::service_unavailable(format!(
                        "shard {shard} of the Release is being handed over by the observer {replica}"
                    ));
                    status.details.get_or_insert_default().retry_after_seconds = ASK_AGAIN;
                    status
                }
                Err(error) => unavailable(&error),
            };
            asked = Some((replica, said));
        }
        Err(asked.map_or_else(|| Status::service_unavailable("no observer answers"), |(_, said)| said))
    }
}
