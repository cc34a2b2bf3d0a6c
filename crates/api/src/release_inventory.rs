use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::ClusterReference;
use crate::delivery::DeliveryProgress;
use crate::object::kind;
use crate::release::WriterStatus;
use crate::schema;

kind! {
    /// The objects that a Release has put, or is about to put, on a cluster.
    ///
    /// It is written before the first write to the target, and is enough to delete what it lists.
    ReleaseInventory, "releaseinventories", "releaseinventory", spec: ReleaseInventorySpec
}

/// The objects of one Release on one Cluster, or one part of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseInventorySpec {
    /// The Release that the objects belong to.
    pub release_ref: ReleaseReference,
    /// The Cluster that the objects are on.
    pub cluster_ref: ClusterReference,
    /// Digest of the bundle whose apply was last begun.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bundle_digest: String,
    /// How far the delivery of that bundle has come; absent once it has come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryProgress>,
    /// How often objects were about to be written to the cluster.
    #[serde(default, skip_serializing_if = "schema::is_zero_count")]
    #[schemars(range(min = 0))]
    pub applies: i64,
    /// The controller-manager replica that wrote last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<WriterStatus>,
    /// The objects. An object without a uid has not been seen on the target yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub entries: Vec<InventoryEntry>,
}

/// The Release that an inventory belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseReference {
    /// Name of the Release, in the inventory's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// uid of the Release: a Release that was deleted and made again owns nothing of the old one's.
    pub uid: String,
}

/// One object on a target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InventoryEntry {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version that was applied.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// uid on the target, once known. Only an object with this uid is ever deleted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// sha256 of the manifest that was applied, as sha256:<hex>; empty until the target took it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The wave that the object belongs to; higher waves are applied later and pruned earlier.
    #[serde(default, skip_serializing_if = "schema::is_zero")]
    pub wave: i32,
    /// The target's resourceVersion of the object after convoy's last write; empty until the target took
    /// it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Whether convoy's first apply made the object, rather than found it there. Namespaces, CRDs and
    /// volumes that convoy did not make are never pruned.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub created: bool,
    /// Whether a request that can create the object was sent, or is about to be, and no answer to it is known:
    /// it may reach the target late. The entry stays until that is out of the question.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub unanswered: bool,
    /// Whether the object is not wanted any more and was seen to be absent. Such an entry is only kept because a
    /// request may still create the object.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub gone: bool,
    /// Whether a chart's hook made the object: it is neither drift nor part of the Release's health, and stays
    /// until the hook runs again, as its delete policy says, or until the Release goes.
    #[serde(default, skip_serializing_if = "schema::is_false")]
    pub hook: bool,
}

/// The name of a Release's inventory for one Cluster: `<release>.<cluster>` for the first part, with
/// `.<part>` for each further one. `cluster` is `<namespace>.<name>` for a Cluster of another namespace. Names of Releases and Clusters may hold dots; that two pairs could
/// share a name does no harm, because `spec` tells them apart and the second one is refused.
pub fn inventory_name(release: &str, cluster: &str, part: usize) -> String {
    match part {
        0 => format!("{release}.{cluster}"),
        part => format!("{release}.{cluster}.{part}"),
    }
}

/// The same of a Release of the namespace `own`, with the namespace and the name of the Cluster: two namespaces may have
/// Clusters of one name.
pub fn inventory_name_in(
    own: &str,
    release: &str,
    (namespace, cluster): (&str, &str),
    part: usize,
) -> String {
    match namespace == own {
        true => inventory_name(release, cluster, part),
        false => inventory_name(release, &format!("{namespace}.{cluster}"), part),
    }
}

/// The name of a write of objects: of the first part of the inventory, and the number of the write.
pub fn apply_name(inventory: &str, applies: i64) -> String {
    format!("{inventory}#{applies}")
}

/// Of two names of writes the later one, when they are of one inventory; else the second.
pub fn later_apply(one: Option<String>, other: Option<String>) -> Option<String> {
    let parts = |name: &String| {
        let (inventory, number) = name.rsplit_once('#')?;
        Some((inventory.to_owned(), number.parse::<i64>().ok()?))
    };
    match (one.as_ref().and_then(parts), other.as_ref().and_then(parts)) {
        (Some((first, earlier)), Some((second, later))) if first == second && earlier > later => one,
        _ => other,
    }
}
