//! Whether deleting an object would take others' objects along.

use convoy_api::label;
use convoy_plan::ObjectRef;
use serde_json::Value;

use crate::{Capabilities, Class, RequestError, Target};

/// Kinds that live in every namespace, or that others make of what is in it.
const COMES_BY_ITSELF: &[(&str, &str)] = &[
    ("", "Event"),
    ("events.k8s.io", "Event"),
    ("", "Endpoints"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("coordination.k8s.io", "Lease"),
    ("metrics.k8s.io", "PodMetrics"),
];

impl Target {
    /// Whether nothing that is not the Release's depends on an object of a guarded kind: for a
    /// CustomResourceDefinition its objects, for a Namespace what is in it. A volume holds no objects.
    pub(crate) async fn is_empty_of_others(
        &self,
        at: &ObjectRef,
        release_uid: &str,
    ) -> Result<bool, RequestError> {
        match at.key.kind.as_str() {
            "CustomResourceDefinition" => self.definition_is_empty(at, release_uid).await,
            "Namespace" => {
                let capabilities = self.discover().await?;
                self.namespace_is_empty(&at.key.name, &capabilities, release_uid).await
            }
            _ => Ok(true),
        }
    }

    async fn definition_is_empty(&self, at: &ObjectRef, release_uid: &str) -> Result<bool, RequestError> {
        let crd = self.get(&at.path(), Some(at)).await?;
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let versions = crd["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
        let Some(version) = versions.iter().find(|version| version["served"] == true) else {
            return Ok(false);
        };
        let version = version["name"].as_str().unwrap_or_default();
        let path = format!("/apis/{}/{version}/{}", text("/spec/group"), text("/spec/names/plural"));
        self.has_no_foreign(&path, release_uid).await
    }

    async fn namespace_is_empty(
        &self,
        namespace: &str,
        capabilities: &Capabilities,
        release_uid: &str,
    ) -> Result<bool, RequestError> {
        if !capabilities.incomplete_groups.is_empty() {
            return Ok(false);
        }
        let mut seen = std::collections::BTreeSet::new();
        for (group, version, kind, fact) in capabilities.kinds.iter() {
            let is_one_of_several_versions = !seen.insert((group, kind));
            if !fact.namespaced || is_one_of_several_versions || COMES_BY_ITSELF.contains(&(group, kind)) {
                continue;
            }
            let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
            let path = format!("{root}/{version}/namespaces/{namespace}/{}", fact.plural);
            match self.has_no_foreign(&path, release_uid).await {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                // Kinds that can only be created, such as reviews, cannot be listed and are not kept.
                Err(error) if error.code == 405 => {}
                Err(error) if matches!(error.class, Class::KindUnknown | Class::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Whether all objects of a list are the Release's, belong to another object, or come by themselves.
    async fn has_no_foreign(&self, path: &str, release_uid: &str) -> Result<bool, RequestError> {
        const PAGE: usize = 500;
        const AS_LIST: &str =
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        let list = self.get_as(&format!("{path}?limit={PAGE}"), AS_LIST, None).await?;
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        let is_ours = |item: &Value| {
            let metadata = &item["metadata"];
            metadata["labels"][label::RELEASE_UID] == release_uid
                || metadata["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty())
                || metadata["name"] == "kube-root-ca.crt"
                || (path.ends_with("/serviceaccounts") && metadata["name"] == "default")
        };
        let is_whole = list["metadata"]["continue"].as_str().unwrap_or_default().is_empty();
        Ok(is_whole && items.iter().all(is_ours))
    }
}
