//! What the next delivery of a Release would do: `/preview`.
//!
//! The Release is prepared and planned by the code that delivers it. The target is only read, or asked without effect.
//!
//! | module | what it is |
//! |---|---|
//! | `gather` | from a Release to its preview |
//! | `targets` | clients of targets, and what these serve |

mod gather;
mod targets;

use std::sync::Arc;

use async_trait::async_trait;
use convoy_api::{
    Cluster, GROUP, GitRepository, HelmRegistry, OCIRegistry, Release, ReleaseInventory, ReleasePreview,
    decode,
};
use convoy_meta::{GroupResource, Reason, Status, StatusCause, StatusDetails};
use convoy_prepare::{HostReader, KnownSources, Preparer};
use convoy_render::RenderStore;
use convoy_runtime::leases::PeerLeases;
use convoy_runtime::{
    Answers, Clock, LookedShards, ProxiedAnswer, ProxiedRequest, ProxiedTls, Sharded as _, Shards, Store,
    StoreKey,
};
use http::{Method, StatusCode};
use tokio::net::TcpListener;

use self::gather::Gathered;
use self::targets::PreviewTargets;

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

/// The stores that previews are made from.
pub(crate) struct Stores {
    pub(crate) releases: Store<Release>,
    pub(crate) inventories: Store<ReleaseInventory>,
    pub(crate) clusters: Store<Cluster>,
    pub(crate) repositories: Store<GitRepository>,
    pub(crate) helm_registries: Store<HelmRegistry>,
    pub(crate) oci_registries: Store<OCIRegistry>,
}

/// Answers for previews.
pub(crate) struct Previews {
    releases: Store<Release>,
    inventories: Store<ReleaseInventory>,
    clusters: Store<Cluster>,
    sources: KnownSources,
    preparer: Preparer,
    reader: HostReader,
    targets: PreviewTargets,
    shards: Shards,
    looked: LookedShards,
    own: Option<PeerLeases>,
    replica: String,
}

/// Whose shards an observer answers for.
pub(crate) struct Owned {
    pub(crate) shards: Shards,
    pub(crate) looked: LookedShards,
    pub(crate) own: Option<PeerLeases>,
}

impl Previews {
    pub(crate) fn new(
        host: kube::Client,
        identity: convoy_runtime::ProcessIdentity,
        stores: Stores,
        store: RenderStore,
        owned: Owned,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let Owned { shards, looked, own } = owned;
        let Stores { releases, inventories, clusters, repositories, helm_registries, oci_registries } =
            stores;
        let sources = KnownSources { repositories, helm_registries, oci_registries, store: store.clone() };
        let reader = HostReader::new(host.clone());
        let preparer = Preparer::new(reader.clone(), store, Arc::clone(&clock));
        let replica = identity.replica_id.clone();
        let targets = PreviewTargets::new(host, identity, clock);
        Self {
            releases,
            inventories,
            clusters,
            sources,
            preparer,
            reader,
            targets,
            shards,
            looked,
            own,
            replica,
        }
    }

    /// Lets go of what was learned for shards that are not owned any more.
    pub(crate) fn retain_shards(&self, keep: impl Fn(u32) -> bool) {
        self.preparer.retain_shards(&keep);
        self.targets.retain(|cluster| keep(self.shards.shard_of(&cluster.namespace, &cluster.name)));
    }

    async fn preview(&self, request: &ProxiedRequest) -> Result<Vec<u8>, Status> {
        let key = asked_for(&request.path).ok_or_else(Status::unknown_resource)?;
        let saved = self.releases.get(&key);
        let release = match request.method {
            Method::GET => saved.as_deref().cloned(),
            Method::POST => {
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
        let Ok(ownership) = self.shards.guard(shard) else { return Err(self.not_here(&key, Some(shard))) };
        if !self.looked.has_looked(shard, ownership.epoch()) {
            let status = Status::service_unavailable(format!(
                "the observer {} has taken over shard {shard} a moment ago and has not looked at it yet",
                self.replica
            ));
            return Err(retry_after(status, 1));
        }
        let gathered = Gathered { key: &key, release: &release, ownership: &ownership };
        let preview: ReleasePreview = Box::pin(self.gather(gathered)).await;
        serde_json::to_vec(&bounded(preview).body(&key.namespace, &key.name)).map_err(Status::internal)
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
impl Answers for Previews {
    async fn answer(&self, request: ProxiedRequest) -> ProxiedAnswer {
        match self.preview(&request).await {
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

/// The Release of a path such as `/apis/convoy.kumodo.io/v1alpha1/namespaces/team/releases/web/preview`. Names of
/// Kubernetes need no escapes.
fn asked_for(path: &str) -> Option<StoreKey> {
    let group = GroupResource::new(GROUP, Release::PLURAL);
    let rest = path.strip_prefix(&format!("/apis/{}/{}/namespaces/", group.group, convoy_api::VERSION))?;
    match rest.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, resource, name, ReleasePreview::SUBRESOURCE] if *resource == group.resource => {
            Some(StoreKey::new(*namespace, *name))
        }
        _ => None,
    }
}

/// Objects of an answer.
const MOST_OBJECTS: usize = 2000;
/// Bytes of an answer, about.
const MOST_BYTES: usize = 6 << 20;

/// The preview, cut to a bearable length: those that stay as they are go first.
fn bounded(mut preview: ReleasePreview) -> ReleasePreview {
    let size = |preview: &ReleasePreview| serde_json::to_vec(preview).map_or(0, |bytes| bytes.len());
    if preview.objects.len() > MOST_OBJECTS {
        omit(&mut preview, MOST_OBJECTS);
    }
    if size(&preview) > MOST_BYTES {
        for object in &mut preview.objects {
            object.omitted_changes += i64::try_from(object.changes.len()).unwrap_or(i64::MAX);
            object.changes.clear();
        }
        preview.remarks.push("the changes of fields were left out to keep the answer short".to_owned());
    }
    while size(&preview) > MOST_BYTES && !preview.objects.is_empty() {
        let half = preview.objects.len() / 2;
        omit(&mut preview, half);
    }
    if preview.omitted_objects > 0 {
        let omitted = preview.omitted_objects;
        preview
            .remarks
            .push(format!("{omitted} objects were left out to keep the answer short; the counts have them"));
    }
    preview
}

fn omit(preview: &mut ReleasePreview, most: usize) {
    let omitted = preview.objects.len().saturating_sub(most);
    preview.objects.truncate(most);
    preview.omitted_objects += i64::try_from(omitted).unwrap_or(i64::MAX);
}

#[cfg(test)]
mod tests;
