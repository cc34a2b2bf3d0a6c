//! What the apiserver has an observer answer about a Release: `/preview`, `/diff`, `/history` and `/health`.
//!
//! For previews and diffs the Release is prepared and planned by the code that delivers it. The target is only read, or
//! asked without effect.
//!
//! | module | what it is |
//! |---|---|
//! | `bounded` | answers cut to a bearable length |
//! | `bystander` | answers of a replica that caches all Releases and owns others |
//! | `confirm` | dry runs of what seems to have drifted |
//! | `diff` | from a preview to a diff |
//! | `gather` | from a Release to its preview |
//! | `given` | files that stand for those of a Release's source |
//! | `health` | how the objects of a Release are |
//! | `children` | what unhealthy objects have made, to explain them |
//! | `history` | what was delivered of a Release |
//! | `known` | what targets said before |
//! | `targets` | clients of targets, and what these serve |

mod bounded;
mod bystander;
mod children;
mod confirm;
mod diff;
mod gather;
mod given;
mod health;
mod history;
mod known;
mod targets;

use std::sync::Arc;

use async_trait::async_trait;
use convoy_api::{
    Cluster, GROUP, GitRepository, HelmRegistry, OCIRegistry, Release, ReleaseDiff, ReleaseHealth,
    ReleaseHistory, ReleaseInventory, ReleasePreview, decode,
};
use convoy_apply::Ownership;
use convoy_meta::{GroupResource, Query, Reason, Status, StatusCause, StatusDetails};
use convoy_prepare::{HostReader, KnownSources, Preparer};
use convoy_render::RenderStore;
use convoy_runtime::leases::PeerLeases;
use convoy_runtime::{
    Answers, CacheScope, Clock, LookedShards, ProxiedAnswer, ProxiedRequest, ProxiedTls, Sharded as _,
    Shards, Store, StoreKey,
};
use http::{Method, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use self::bounded::bounded;
use self::bystander::Bystander;
use self::gather::{Gathered, Purpose};
use self::known::Known;
use self::targets::LookedAtTargets;
use crate::clusters::Clusters;

/// What an observer needs to answer the apiserver.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Where it is asked.
    pub listener: Arc<TcpListener>,
    /// Its certificate, and the CA of those who may ask.
    pub tls: ProxiedTls,
    /// The shard leases of the observers; none when there is but one.
    pub own: Option<PeerLeases>,
    /// The store of `--render-store-url`.
    pub store: RenderStore,
}

/// The stores that answers are made from.
pub(crate) struct Stores {
    pub(crate) releases: Store<Release>,
    pub(crate) inventories: Store<ReleaseInventory>,
    pub(crate) clusters: Store<Cluster>,
    pub(crate) repositories: Store<GitRepository>,
    pub(crate) helm_registries: Store<HelmRegistry>,
    pub(crate) oci_registries: Store<OCIRegistry>,
}

/// Answers the apiserver.
pub(crate) struct Answering {
    releases: Store<Release>,
    inventories: Store<ReleaseInventory>,
    clusters: Store<Cluster>,
    sources: KnownSources,
    preparer: Preparer,
    reader: HostReader,
    targets: LookedAtTargets,
    /// What is watched.
    clusters_seen: Arc<Clusters>,
    known: Known,
    clock: Arc<dyn Clock>,
    shards: Shards,
    looked: LookedShards,
    own: Option<PeerLeases>,
    scope: CacheScope,
    replica: String,
    /// Turns of those who hand in files.
    archives: Semaphore,
}

/// Whose shards an observer answers for.
pub(crate) struct Owned {
    pub(crate) shards: Shards,
    pub(crate) looked: LookedShards,
    pub(crate) own: Option<PeerLeases>,
    /// Who caches all Releases answers for all.
    pub(crate) scope: CacheScope,
}

impl Answering {
    pub(crate) fn new(
        host: kube::Client,
        identity: convoy_runtime::ProcessIdentity,
        stores: Stores,
        store: RenderStore,
        owned: Owned,
        clusters_seen: Arc<Clusters>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let Owned { shards, looked, own, scope } = owned;
        let Stores { releases, inventories, clusters, repositories, helm_registries, oci_registries } =
            stores;
        let sources = KnownSources { repositories, helm_registries, oci_registries, store: store.clone() };
        let reader = HostReader::new(host.clone());
        let preparer = Preparer::new(reader.clone(), store, Arc::clone(&clock));
        let replica = identity.replica_id;
        let targets = LookedAtTargets::new(host, clusters_seen.reach.clone(), Arc::clone(&clock));
        Self {
            releases,
            inventories,
            clusters,
            sources,
            preparer,
            reader,
            targets,
            clusters_seen,
            known: Known::default(),
            clock,
            shards,
            looked,
            own,
            scope,
            replica,
            archives: Semaphore::new(given::AT_A_TIME),
        }
    }

    /// Lets go of what was learned for shards that are not owned any more.
    pub(crate) fn retain_shards(&self, keep: impl Fn(u32) -> bool) {
        self.preparer.retain_shards(&keep);
        let keeps = |cluster: &StoreKey| keep(self.shards.shard_of(&cluster.namespace, &cluster.name));
        self.targets.retain(keeps);
        self.known.retain(keeps);
    }

    async fn body(&self, request: &ProxiedRequest) -> Result<Vec<u8>, Status> {
        let (key, wanted) = asked_for(&request.path).ok_or_else(Status::unknown_resource)?;
        let saved = self.releases.get(&key);
        let is_given = request.method == Method::POST && wanted == Wanted::Diff;
        let release = match request.method {
            _ if request.method == Method::GET || is_given => saved.as_deref().cloned(),
            Method::POST if wanted == Wanted::Preview => {
                let given: Release = serde_json::from_slice(&request.body)
                    .map_err(|error| Status::bad_request(error.to_string()))
                    .and_then(|value| {
                        decode(&value).map_err(|error| Status::bad_request(error.to_string()))
                    })?;
                Some(given)
            }
            _ => return Err(Status::method_not_allowed()),
        };
        // Of a Release of another shard, a shard-scoped cache knows nothing, not even who owns it.
        let Some(release) = release else { return Err(self.not_here(&key, None)) };
        let shard = release.shard(&self.shards);
        let ownership = self.ownership(&key, shard)?;
        let _turn = if is_given { given::turn(&self.archives, &*self.clock).await? } else { None };
        let given =
            if is_given { Some(given::unpacked(request.body.clone(), &release).await?) } else { None };
        let gathered = Gathered {
            key: &key,
            release: &release,
            ownership: &ownership,
            purpose: Purpose::Preview,
            given: given.as_ref(),
        };
        let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
        let body = match wanted {
            Wanted::Preview => bounded(Box::pin(self.gather(gathered)).await).body(namespace, name),
            Wanted::Diff => Box::pin(self.diff(gathered)).await.body(namespace, name),
            // Only the owner watches the objects.
            Wanted::Health if ownership.check().is_err() => {
                self.health_as_last_said(&release, shard).body(namespace, name)
            }
            Wanted::Health => Box::pin(self.health(gathered)).await.body(namespace, name),
            Wanted::History => Box::pin(self.history(gathered, &Query::parse(&request.query))).await?,
        };
        serde_json::to_vec(&body).map_err(Status::internal)
    }

    /// As whom a Release of a shard is looked at.
    fn ownership(&self, key: &StoreKey, shard: u32) -> Result<Arc<dyn Ownership>, Status> {
        match (self.shards.guard(shard), self.scope) {
            (Ok(ownership), _) if self.looked.has_looked(shard, ownership.epoch()) => Ok(ownership),
            (Ok(_), _) => {
                let status = Status::service_unavailable(format!(
                    "the observer {} has taken over shard {shard} a moment ago and has not looked at it yet",
                    self.replica
                ));
                Err(retry_after(status, 1))
            }
            (Err(_), CacheScope::Everything) => Ok(Arc::new(Bystander { shard })),
            (Err(_), CacheScope::OwnShards) => Err(self.not_here(key, Some(shard))),
        }
    }

    /// The answer of a replica that does not own a Release. It says which one does, as far as that is known.
    fn not_here(&self, key: &StoreKey, shard: Option<u32>) -> Status {
        let holder = shard.and_then(|shard| self.own.as_ref()?.holder(shard));
        let mut message = format!("the observer {} does not own the Release {key}", self.replica);
        match (shard, &holder) {
            (Some(shard), Some(holder)) => message.push_str(&format!("; {holder} owns its shard {shard}")),
            (Some(shard), None) => {
                message.push_str(&format!("; nobody is seen to own its shard {shard} now"));
            }
            (None, _) => message.push_str(" or does not know it yet"),
        }
        let cause = holder.map(|holder| StatusCause {
            reason: "OwnedByReplica".to_owned(),
            message: holder,
            field: "replica".to_owned(),
        });
        let details = StatusDetails {
            name: key.name.clone(),
            group: GROUP.to_owned(),
            kind: Release::PLURAL.to_owned(),
            causes: cause.into_iter().collect(),
            ..StatusDetails::default()
        };
        Status::failure(Reason::NotFound, message).with_details(details)
    }
}

#[async_trait]
impl Answers for Answering {
    async fn answer(&self, request: ProxiedRequest) -> ProxiedAnswer {
        match self.body(&request).await {
            Ok(body) => ProxiedAnswer { code: StatusCode::OK, body: body.into() },
            Err(status) => ProxiedAnswer {
                code: StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                body: serde_json::to_vec(&status).unwrap_or_default().into(),
            },
        }
    }
}

fn retry_after(mut status: Status, seconds: u32) -> Status {
    status.details.get_or_insert_default().retry_after_seconds = seconds;
    status
}

/// What is asked about a Release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Preview,
    Diff,
    History,
    Health,
}

/// The Release of a path such as `/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releases/web/preview`, and what is
/// asked about it. Names of Kubernetes need no escapes.
fn asked_for(path: &str) -> Option<(StoreKey, Wanted)> {
    let group = GroupResource::new(GROUP, Release::PLURAL);
    let rest = path.strip_prefix(&format!("/apis/{}/{}/namespaces/", group.group, convoy_api::VERSION))?;
    match rest.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, resource, name, subresource] if *resource == group.resource => {
            let wanted = match *subresource {
                ReleasePreview::SUBRESOURCE => Wanted::Preview,
                ReleaseDiff::SUBRESOURCE => Wanted::Diff,
                ReleaseHistory::SUBRESOURCE => Wanted::History,
                ReleaseHealth::SUBRESOURCE => Wanted::Health,
                _ => return None,
            };
            Some((StoreKey::new(*namespace, *name), wanted))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
