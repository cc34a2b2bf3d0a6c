//! What objects reference of the render store.

use std::collections::HashMap;

use convoy_api::{GitRepository, HelmRegistry, Kind, OCIRegistry, Release, ReleaseInventory, ReleaseSource};
use convoy_prepare::ReadError;
use convoy_render::References;
use convoy_runtime::StoreKey;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

use super::consent::Seen;
use crate::artifacts::{Wanted, source_key};
use crate::host::Host;

/// Objects of a page. Inventories can be large.
const PAGE: u32 = 500;
const PAGE_OF_INVENTORIES: u32 = 50;
/// The namespace whose uid tells installations apart: it cannot be deleted.
const DEFAULT_NAMESPACE: &str = "default";

/// Why it is not known what is referenced. Nothing may be deleted then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The pages are not of one snapshot.
    #[error("the list of {kind} changed from one page to the next")]
    Torn { kind: &'static str },
    /// There is no namespace that tells which installation it is.
    #[error("the API server has no namespace {DEFAULT_NAMESPACE:?}")]
    NoInstallation,
}

/// All that is referenced, and what its list tells of the API server.
pub(crate) struct Listed {
    pub(crate) references: References,
    pub(crate) seen: Seen,
}

/// Lists all that is referenced, or fails.
pub(crate) async fn list(host: &Host) -> Result<Listed, ListError> {
    let installation = host.namespace_uid(DEFAULT_NAMESPACE).await?.ok_or(ListError::NoInstallation)?;
    let mut references = References::default();
    let mut wanted = Vec::new();
    let mut releases = 0;
    let resource_version = each::<Release>(host, PAGE, |release| {
        releases += 1;
        add_all(&mut references, &release.data);
        wanted.extend(wanted_of(&release));
    })
    .await?;
    each::<ReleaseInventory>(host, PAGE_OF_INVENTORIES, |inventory| {
        // Entries have digests of their own, which are none of the store's.
        if let Some(digest) = inventory.data["spec"]["bundleDigest"].as_str() {
            references.add(digest);
        }
    })
    .await?;
    each::<GitRepository>(host, PAGE, |source| add_all(&mut references, &source.data)).await?;
    let mut urls = HashMap::new();
    let mut note = |source: DynamicObject| {
        add_all(&mut references, &source.data);
        let url = source.data["spec"]["url"].as_str().unwrap_or_default().to_owned();
        (key_of(&source), url)
    };
    let mut of_helm = Vec::new();
    each::<HelmRegistry>(host, PAGE, |source| of_helm.push(note(source))).await?;
    urls.extend(of_helm.into_iter().map(|(key, url)| ((false, key), url)));
    let mut of_oci = Vec::new();
    each::<OCIRegistry>(host, PAGE, |source| of_oci.push(note(source))).await?;
    urls.extend(of_oci.into_iter().map(|(key, url)| ((true, key), url)));
    for wanted in wanted {
        let registry = match &wanted {
            Wanted::Chart { registry, .. } | Wanted::AnyChart { registry } => (false, registry.clone()),
            Wanted::Artifact { registry, .. } | Wanted::AnyArtifact { registry } => (true, registry.clone()),
        };
        let url = urls.get(&registry).map_or("", String::as_str);
        if let Some(key) = source_key(&wanted, url) {
            references.add_source(&key);
        }
    }
    Ok(Listed { references, seen: Seen { installation, resource_version, releases } })
}

/// Hands each object of a kind, of all namespaces, to `take`. Answers with the list's resourceVersion.
async fn each<K: Kind>(
    host: &Host,
    page: u32,
    mut take: impl FnMut(DynamicObject),
) -> Result<Option<u64>, ListError> {
    let api = host.all::<K>();
    let failed = ReadError::of(K::KIND, &StoreKey::new("", ""));
    let mut token: Option<String> = None;
    let mut version: Option<String> = None;
    loop {
        // Without a resourceVersion the answer is as new as the store.
        let mut params = ListParams::default().limit(page);
        if let Some(token) = &token {
            params = params.continue_token(token);
        }
        let listed = api.list(&params).await.map_err(&failed)?;
        let new = listed.metadata.resource_version.unwrap_or_default();
        if version.get_or_insert_with(|| new.clone()) != &new {
            return Err(ListError::Torn { kind: K::KIND });
        }
        listed.items.into_iter().for_each(&mut take);
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(next) => token = Some(next),
            None => return Ok(new.parse().ok()),
        }
    }
}

fn key_of(object: &DynamicObject) -> StoreKey {
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    StoreKey::new(namespace, object.metadata.name.clone().unwrap_or_default())
}

/// What a Release wants of a registry; none when its source is another one, or of a later version of convoy.
fn wanted_of(release: &DynamicObject) -> Option<Wanted> {
    let source: ReleaseSource = serde_json::from_value(release.data["spec"]["source"].clone()).ok()?;
    Wanted::of(&key_of(release), &source)
}

/// Takes whatever is a digest, wherever it stands: a field that a later version adds is no way to lose what it
/// names.
fn add_all(references: &mut References, value: &Value) {
    match value {
        Value::String(text) => references.add(text),
        Value::Array(values) => values.iter().for_each(|value| add_all(references, value)),
        Value::Object(fields) => fields.values().for_each(|value| add_all(references, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_digest_that_a_status_names_is_a_reference() {
        let digest = |number: u8| format!("sha256:{number:064x}");
        let status = json!({
            "bundleDigest": digest(1), "observedBundleDigest": digest(2),
            "history": [{"bundleDigest": digest(3)}, {"bundleDigest": digest(4)}],
            "rollback": {"bundleDigest": digest(5), "insteadOf": digest(6)},
            "failure": {"bundleDigest": digest(7), "message": "sha256:no"},
            "notes": "nothing", "objects": 3,
        });
        let mut references = References::default();
        add_all(&mut references, &status);
        assert_eq!(references.len(), 7);
    }

    #[test]
    fn what_a_release_wants_of_a_registry_is_found_in_its_spec() {
        let release = |source: Value| {
            let mut object = DynamicObject::new("web", &convoy_runtime::resource_of::<Release>());
            object.metadata.namespace = Some("team".to_owned());
            object.data = json!({"spec": {"source": source}});
            object
        };
        let chart = json!({"helm": {"registryRef": {"name": "stable"}, "chart": "web", "version": "1.x"}});
        let wanted = wanted_of(&release(chart)).unwrap();
        assert_eq!(
            wanted,
            Wanted::Chart {
                registry: StoreKey::new("team", "stable"),
                chart: "web".to_owned(),
                version: Some("1.x".to_owned())
            }
        );
        let (here, there) = (source_key(&wanted, "https://a"), source_key(&wanted, "https://b"));
        assert!(here.is_some() && here != there);
        assert_eq!(wanted_of(&release(json!({"git": {"repositoryRef": {"name": "apps"}}}))), None);
        assert_eq!(wanted_of(&release(json!({"later": 1}))), None);
    }
}
