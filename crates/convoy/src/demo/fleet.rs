//! The convoy objects of the demo, and talking to the API servers about them.

use std::path::Path;

use anyhow::{Context, bail};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::examples;

/// The namespace of all convoy objects of the demo.
pub(crate) const NAMESPACE: &str = "default";
/// The clusters, in the order in which they are shown.
pub(crate) const CLUSTERS: [&str; 3] = ["prod-eu", "prod-us", "staging"];
/// The Release that is broken on purpose.
pub(crate) const BROKEN: &str = "broken-staging";

/// The objects of `examples/fleet.yaml`, with the URL of the demo's own repository and an interval that
/// suits an audience.
pub(crate) fn objects(repository_url: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in convoy_yaml::documents(examples::FLEET.as_bytes()) {
        let mut object = convoy_yaml::to_json(&document?).context("reading examples/fleet.yaml")?;
        if object.is_null() {
            continue;
        }
        if object["kind"] == "GitRepository" {
            object["spec"]["url"] = json!(repository_url);
            object["spec"]["interval"] = json!("1s");
        }
        objects.push(object);
    }
    Ok(objects)
}

/// The Secret that holds a target's kubeconfig, and the Cluster that names it.
pub(crate) fn cluster_objects(name: &str, kubeconfig: &str) -> [Value; 2] {
    [
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": format!("{name}-kubeconfig")},
            "stringData": {"kubeconfig": kubeconfig},
        }),
        json!({
            "apiVersion": convoy_api::API_VERSION,
            "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {"kubeconfig": {"secretRef": {"name": format!("{name}-kubeconfig")}}},
        }),
    ]
}

/// The resource of an object of the demo.
fn resource(object: &Value) -> anyhow::Result<ApiResource> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let plural = match text("kind") {
        "Cluster" => convoy_api::Cluster::PLURAL,
        "GitRepository" => convoy_api::GitRepository::PLURAL,
        "Release" => convoy_api::Release::PLURAL,
        "Secret" => "secrets",
        other => bail!("the demo has no objects of kind {other:?}"),
    };
    Ok(ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, text("kind")), plural))
}

/// Applies an object as the `convoy` command does.
#[expect(clippy::disallowed_methods, reason = "the demo writes as a user")]
pub(crate) async fn apply(client: &Client, object: &Value) -> anyhow::Result<()> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource(object)?);
    let parameters = PatchParams::apply(convoy_api::field_manager::CLI).force();
    api.patch(name, &parameters, &Patch::Apply(object))
        .await
        .with_context(|| format!("applying {} {name}", object["kind"].as_str().unwrap_or("object")))?;
    Ok(())
}

/// The client of a kubeconfig file.
pub(crate) async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let identity = convoy_runtime::ProcessIdentity { process: "demo", replica_id: "demo".to_owned() };
    convoy_runtime::host_client(Some(kubeconfig), &identity)
        .await
        .with_context(|| format!("reading {}", kubeconfig.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fleet_names_only_clusters_and_folders_that_exist() {
        let objects = objects("file:///repository").unwrap();
        assert_eq!(objects.len(), 8);
        for object in objects.iter().filter(|object| object["kind"] == "Release") {
            let cluster = object["spec"]["clusterRef"]["name"].as_str().unwrap();
            assert!(CLUSTERS.contains(&cluster), "{cluster}");
            let path = object["spec"]["source"]["git"]["path"].as_str().unwrap();
            assert!(examples::FILES.iter().any(|file| file.path.starts_with(&format!("{path}/"))), "{path}");
        }
    }

    #[test]
    fn every_object_of_the_fleet_decodes_as_its_kind() {
        for object in objects("file:///repository").unwrap() {
            let decoded = match object["kind"].as_str().unwrap() {
                "GitRepository" => convoy_api::decode::<convoy_api::GitRepository>(&object).map(|_| ()),
                "Release" => convoy_api::decode::<convoy_api::Release>(&object).map(|_| ()),
                other => panic!("{other}"),
            };
            decoded.unwrap();
        }
    }
}
