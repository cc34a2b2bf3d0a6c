//! `--observer-routing=owner`: the observer that holds the Release's shard is found by the leases and asked itself.

use std::sync::Arc;

use async_trait::async_trait;
use convoy_meta::{GetOptions, Object as _, Reason, Status};
use convoy_registry::Registry;
use convoy_runtime::{ProxiedAnswer, ProxiedRequest, ProxyAddress, ProxyClient, StoreKey};
use convoy_shard::{LeaseKey, ProcessKind, Settings, annotation, shard_of};
use http::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;

use super::observed::{Observers, unavailable};

/// How often the holder is looked up anew when the one that was asked is not it any more.
const LOOKS: usize = 3;
/// After how many seconds to ask again while nobody holds the shard.
const ASK_AGAIN: u32 = 5;

/// Where the leases are.
#[derive(Clone)]
pub enum Leases {
    /// Among this server's own objects.
    Own(Arc<Registry>),
    /// At the API server in front.
    OfHost(kube::Client),
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own(_) => "Own",
            Self::OfHost(_) => "OfHost",
        })
    }
}

impl Leases {
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
        match self {
            Self::Own(registry) => {
                let resource = registry.table().find("coordination.k8s.io", "v1", "leases");
                let resource = resource.ok_or_else(Status::unknown_resource)?;
                match registry.get(&resource, namespace, name, &GetOptions::default()).await {
                    Ok(found) => Ok(Some(found.to_value())),
                    Err(status) if status.reason() == Reason::NotFound => Ok(None),
                    Err(status) => Err(status),
                }
            }
            Self::OfHost(client) => {
                let leases: kube::Api<Lease> = kube::Api::namespaced(client.clone(), namespace);
                let found = leases.get_opt(name).await.map_err(|error| {
                    tracing::warn!(%error, namespace, name, "a lease of an observer cannot be read");
                    Status::service_unavailable("the leases of the observers cannot be read")
                })?;
                Ok(found.and_then(|lease| serde_json::to_value(lease).ok()))
            }
        }
    }
}

/// Asks the holder of a Release's shard.
#[derive(Debug)]
pub struct ShardHolder {
    /// Asks.
    pub client: ProxyClient,
    /// Where the leases are.
    pub leases: Leases,
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
        let name = key.name(&Settings::new(ProcessKind::Observer, "", ""));
        self.leases.get(&self.lease_namespace, &name).await
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
