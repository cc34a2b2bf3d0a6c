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

/// Writes the shard, whatever stood there.
pub(crate) fn set(kind: &str, shards: NonZeroU32, object: &mut Value) {
    let by_cluster = goes_by_cluster(kind);
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let namespace = match text("/spec/clusterRef/namespace") {
        other if by_cluster && !other.is_empty() => other,
        _ => object.namespace(),
    };
    let name = if by_cluster { text("/spec/clusterRef/name") } else { object.name() };
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
