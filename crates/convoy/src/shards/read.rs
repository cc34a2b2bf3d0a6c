//! Reads leases and counts objects.

use anyhow::Context as _;
use convoy_api::label;
use convoy_runtime::leases::{lease_resource, read_lease};
use convoy_runtime::{ProcessIdentity, context_client};
use convoy_shard::{Lease, ProcessKind};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};

use super::view::{ByShard, Objects};
use crate::arguments::ShardsCommand;

/// Objects in one request.
const PAGE: u32 = 500;

/// The API server, and where the leases are.
pub(super) struct Source {
    client: Client,
    namespace: String,
}

impl Source {
    pub(super) async fn connect(arguments: &ShardsCommand) -> anyhow::Result<Self> {
        let identity = ProcessIdentity { process: "shards", replica_id: "cli".to_owned() };
        // As kubectl does when it is told nothing.
        let home = || Some(std::path::PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
        let kubeconfig = arguments.kubeconfig.clone().or_else(|| home().filter(|path| path.exists()));
        let client = context_client(kubeconfig.as_deref(), arguments.context.as_deref(), &identity)
            .await
            .context("connecting to the API server")?;
        Ok(Self { client, namespace: arguments.lease_namespace.clone() })
    }

    /// All leases of the lease namespace.
    pub(super) async fn leases(&self) -> anyhow::Result<Vec<DynamicObject>> {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &lease_resource());
        let list = api.list(&ListParams::default()).await;
        Ok(list.with_context(|| format!("listing the leases of namespace {}", self.namespace))?.items)
    }

    /// How many objects each shard has.
    pub(super) async fn objects(&self) -> anyhow::Result<ByShard> {
        let mut counts = ByShard::new();
        for info in convoy_api::kinds() {
            let count: fn(&mut Objects) -> &mut u64 = match info.kind {
                "Release" => |objects| &mut objects.releases,
                "Cluster" => |objects| &mut objects.clusters,
                // What inventories say is said by their Releases.
                "ReleaseInventory" | "HealthRuleSet" => continue,
                _ => |objects| &mut objects.sources,
            };
            let resource = ApiResource {
                group: convoy_api::GROUP.to_owned(),
                version: convoy_api::VERSION.to_owned(),
                api_version: format!("{}/{}", convoy_api::GROUP, convoy_api::VERSION),
                kind: info.kind.to_owned(),
                plural: info.plural.to_owned(),
            };
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            let mut params = ListParams::default().limit(PAGE);
            loop {
                let page =
                    api.list_metadata(&params).await.with_context(|| format!("listing {}", info.plural))?;
                for object in &page.items {
                    let shard = object.metadata.labels.as_ref().and_then(|all| all.get(label::SHARD));
                    let shard = shard.and_then(|text| text.parse().ok());
                    *count(counts.entry(shard).or_default()) += 1;
                }
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => break,
                }
            }
        }
        Ok(counts)
    }
}

/// The leases of one process kind.
pub(super) fn leases_of(process: ProcessKind, found: &[DynamicObject]) -> Vec<Lease> {
    found.iter().filter_map(|object| read_lease(process, object)).collect()
}
