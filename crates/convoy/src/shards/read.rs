//! Reads leases and counts objects.

use std::collections::BTreeSet;

use anyhow::Context as _;
use convoy_api::{label, sharding};
use convoy_runtime::leases::{lease_resource, read_lease};
use convoy_runtime::{ProcessIdentity, context_client};
use convoy_shard::{Lease, ProcessKind};
use k8s_openapi::api::core::v1::Namespace;
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

    /// How many shards the API server counts; none when it does not say, or not to this user.
    pub(super) async fn counted(&self) -> anyhow::Result<Option<u32>> {
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &of(sharding::KIND, sharding::PLURAL));
        let found = match api.get(sharding::NAME).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(None),
            found => found.context("asking the API server how many shards it counts")?,
        };
        let shards = found.data.pointer("/status/shards").and_then(serde_json::Value::as_u64);
        Ok(shards.and_then(|shards| u32::try_from(shards).ok()))
    }

    /// Says why no lease was found, and where there are some.
    pub(super) async fn why_no_leases(&self, asked: &[(ProcessKind, Vec<Lease>)]) -> anyhow::Error {
        let namespace = &self.namespace;
        let whose: Vec<String> = asked.iter().map(|(process, _)| format!("{}s", process.as_str())).collect();
        let whose = whose.join(" or ");
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let what = match namespaces.get_opt(namespace).await {
            Ok(None) => format!("the namespace {namespace} does not exist"),
            // Whether it exists is not for everybody to know.
            Ok(Some(_)) | Err(_) => format!("there are no leases of {whose} in the namespace {namespace}"),
        };
        let everywhere: Api<DynamicObject> = Api::all_with(self.client.clone(), &lease_resource());
        let found = everywhere.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let has_lease =
            |object: &&DynamicObject| asked.iter().any(|(process, _)| read_lease(*process, object).is_some());
        let elsewhere: BTreeSet<&str> = found
            .iter()
            .filter(has_lease)
            .filter_map(|object| object.metadata.namespace.as_deref())
            .collect();
        let advice = match elsewhere.first() {
            Some(first) => {
                let all: Vec<&str> = elsewhere.iter().copied().collect();
                format!("there are some in {}: use --lease-namespace {first}", all.join(", "))
            }
            None => format!(
                "name the one that the {whose} were started with by --lease-namespace; if none was started yet, start one"
            ),
        };
        anyhow::anyhow!("{what}; {advice}")
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
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &of(info.kind, info.plural));
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

/// A resource of convoy's group.
fn of(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: convoy_api::GROUP.to_owned(),
        version: convoy_api::VERSION.to_owned(),
        api_version: convoy_api::API_VERSION.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// The leases of one process kind.
pub(super) fn leases_of(process: ProcessKind, found: &[DynamicObject]) -> Vec<Lease> {
    found.iter().filter_map(|object| read_lease(process, object)).collect()
}
