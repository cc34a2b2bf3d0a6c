//! The label with an object's shard, which only the server writes.

use std::num::NonZeroU32;

use convoy_api::label;
use convoy_meta::Object;
use convoy_shard::shard_of;
use convoy_storage::watch_cache::Entry;
use serde_json::Value;

/// A Release and its inventories belong to the shard of the target Cluster, every other object to its own.
fn goes_by_cluster(kind: &str) -> bool {
    matches!(kind, "Release" | "ReleaseInventory")
}

/// Namespace and name of what decides on the shard of an object.
pub(crate) fn deciding<'a>(kind: &str, object: &'a Value) -> (&'a str, &'a str) {
    if !goes_by_cluster(kind) {
        return (object.namespace(), object.name());
    }
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match text("/spec/clusterRef/namespace") {
        "" => (object.namespace(), text("/spec/clusterRef/name")),
        other => (other, text("/spec/clusterRef/name")),
    }
}

/// Writes the shard, whatever stood there.
pub(crate) fn set(kind: &str, shards: NonZeroU32, object: &mut Value) {
    let (namespace, name) = deciding(kind, object);
    let shard = shard_of(namespace, name, shards);
    object.set_label(label::SHARD, Some(&shard.to_string()));
}

/// Whether an object of the cache has the right label. Decodes nothing.
pub(crate) fn is_right(kind: &str, shards: NonZeroU32, entry: &Entry) -> bool {
    let (namespace, name) = if goes_by_cluster(kind) {
        let namespace = entry.field("spec.clusterRef.namespace").filter(|namespace| !namespace.is_empty());
        let name = entry.field("spec.clusterRef.name").unwrap_or_default();
        (namespace.unwrap_or_else(|| entry.namespace()), name)
    } else {
        (entry.namespace(), entry.name())
    };
    let shard = shard_of(namespace, name, shards);
    entry.label(label::SHARD).is_some_and(|found| found == shard.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sc05_a_release_goes_by_its_cluster_wherever_that_is() {
        let metadata = json!({"namespace": "team", "name": "web"});
        let release = |cluster: Value| json!({"metadata": metadata, "spec": {"clusterRef": cluster}});
        let here = release(json!({"name": "prod"}));
        let there = release(json!({"name": "prod", "namespace": "fleet"}));
        assert_eq!(deciding("Release", &here), ("team", "prod"));
        assert_eq!(deciding("Release", &release(json!({"name": "prod", "namespace": ""}))), ("team", "prod"));
        assert_eq!(deciding("ReleaseInventory", &there), ("fleet", "prod"));
        assert_eq!(deciding("Cluster", &there), ("team", "web"));
    }
}
