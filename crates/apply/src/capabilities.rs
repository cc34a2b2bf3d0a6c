//! What a target serves.

use std::collections::BTreeSet;

use convoy_plan::Kinds;
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{RequestError, Target};

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// What discovery says of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of its API server, such as `v1.36.3`.
    pub version: String,
    /// The kinds it serves.
    pub kinds: Kinds,
    /// The group-versions and their kinds as Helm's `.Capabilities.APIVersions` spells them, sorted:
    /// `apps/v1` and `apps/v1/Deployment`.
    pub api_versions: Vec<String>,
    /// Digest of `api_versions`: `sha256:` and hexadecimal digits.
    pub digest: String,
    /// Groups whose server did not answer: a kind of theirs that is missing here may still exist.
    pub incomplete_groups: BTreeSet<String>,
}

impl Target {
    /// Asks what the target serves: version and discovery, three requests on a current API server.
    ///
    /// # Errors
    /// See [`Class`](crate::Class).
    pub async fn discover(&self) -> Result<Capabilities, RequestError> {
        let version = self.get("/version", None).await?;
        let core = self.get_as("/api", AGGREGATED, None).await?;
        let groups = self.get_as("/apis", AGGREGATED, None).await?;
        let mut found = Found::default();
        if core["kind"] == "APIGroupDiscoveryList" && groups["kind"] == "APIGroupDiscoveryList" {
            found.read_aggregated(&core);
            found.read_aggregated(&groups);
        } else {
            self.discover_one_by_one(&core, &groups, &mut found).await?;
        }
        Ok(found.into_capabilities(version["gitVersion"].as_str().unwrap_or_default()))
    }

    async fn discover_one_by_one(
        &self,
        core: &Value,
        groups: &Value,
        found: &mut Found,
    ) -> Result<(), RequestError> {
        let mut paths: Vec<(String, String, String)> = Vec::new();
        for version in strings(&core["versions"]) {
            paths.push((String::new(), version.to_owned(), format!("/api/{version}")));
        }
        for group in array(&groups["groups"]) {
            let name = group["name"].as_str().unwrap_or_default();
            for version in array(&group["versions"]) {
                let version = version["version"].as_str().unwrap_or_default();
                paths.push((name.to_owned(), version.to_owned(), format!("/apis/{name}/{version}")));
            }
        }
        let work: Vec<_> = paths
            .into_iter()
            .map(|(group, version, path)| async move {
                match self.get(&path, None).await {
                    Ok(answer) => Ok((group, version, Some(answer))),
                    Err(error) if error.class.concerns_the_whole_target() => Err(error),
                    Err(_) => Ok((group, version, None)),
                }
            })
            .collect();
        let answers: Vec<_> = futures::stream::iter(work).buffered(8).try_collect().await?;
        for (group, version, answer) in answers {
            match answer {
                Some(answer) => found.read_resource_list(&group, &version, &answer),
                None => {
                    found.incomplete_groups.insert(group);
                }
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Found {
    kinds: Kinds,
    api_versions: BTreeSet<String>,
    incomplete_groups: BTreeSet<String>,
}

impl Found {
    fn read_aggregated(&mut self, list: &Value) {
        for group in array(&list["items"]) {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in array(&group["versions"]) {
                let version_name = version["version"].as_str().unwrap_or_default();
                if version["freshness"] == "Stale" {
                    self.incomplete_groups.insert(name.to_owned());
                }
                self.add_version(name, version_name);
                for resource in array(&version["resources"]) {
                    let kind = resource["responseKind"]["kind"].as_str().unwrap_or_default();
                    let plural = resource["resource"].as_str().unwrap_or_default();
                    self.add(name, version_name, kind, plural, resource["scope"] == "Namespaced");
                }
            }
        }
    }

    fn read_resource_list(&mut self, group: &str, version: &str, list: &Value) {
        self.add_version(group, version);
        for resource in array(&list["resources"]) {
            let plural = resource["name"].as_str().unwrap_or_default();
            // Subresources have a slash.
            if !plural.contains('/') {
                let kind = resource["kind"].as_str().unwrap_or_default();
                self.add(group, version, kind, plural, resource["namespaced"] == true);
            }
        }
    }

    fn add_version(&mut self, group: &str, version: &str) {
        self.api_versions.insert(if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        });
    }

    fn add(&mut self, group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) {
        if kind.is_empty() || plural.is_empty() {
            return;
        }
        self.kinds.insert(group, version, kind, plural, namespaced);
        self.api_versions.insert(if group.is_empty() {
            format!("{version}/{kind}")
        } else {
            format!("{group}/{version}/{kind}")
        });
    }

    fn into_capabilities(self, version: &str) -> Capabilities {
        let api_versions: Vec<String> = self.api_versions.into_iter().collect();
        let mut hash = Sha256::new();
        for name in &api_versions {
            hash.update(name.as_bytes());
            hash.update(b"\n");
        }
        let digest = hash.finalize().iter().fold("sha256:".to_owned(), |mut text, byte| {
            use std::fmt::Write as _;
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        Capabilities {
            version: version.to_owned(),
            kinds: self.kinds,
            api_versions,
            digest,
            incomplete_groups: self.incomplete_groups,
        }
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    array(value).iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn aggregated_and_plain_discovery_say_the_same() {
        let mut aggregated = Found::default();
        aggregated.read_aggregated(&json!({"items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [
            {"resource": "deployments", "responseKind": {"group": "", "version": "", "kind": "Deployment"}, "scope": "Namespaced"},
        ]}]}]}));
        let mut plain = Found::default();
        plain.read_resource_list(
            "apps",
            "v1",
            &json!({"resources": [
                {"name": "deployments", "kind": "Deployment", "namespaced": true},
                {"name": "deployments/scale", "kind": "Scale", "namespaced": true},
            ]}),
        );
        let aggregated = aggregated.into_capabilities("v1.36.3");
        assert_eq!(aggregated, plain.into_capabilities("v1.36.3"));
        assert_eq!(aggregated.api_versions, ["apps/v1", "apps/v1/Deployment"]);
    }

    #[test]
    fn a_group_whose_server_is_gone_is_incomplete() {
        let mut found = Found::default();
        found.read_aggregated(&json!({"items": [{"metadata": {"name": "metrics.k8s.io"},
            "versions": [{"version": "v1beta1", "freshness": "Stale"}]}]}));
        assert!(found.incomplete_groups.contains("metrics.k8s.io"));
    }
}
