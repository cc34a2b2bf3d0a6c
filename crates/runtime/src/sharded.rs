//! Which shard an object belongs to.

use convoy_api::{
    Cluster, ClusterReference, GitRepository, HealthRuleSet, HelmRegistry, Kind, OCIRegistry, Release,
    ReleaseInventory, label,
};

use crate::{Shards, StoreKey};

/// A kind whose objects are divided among replicas.
pub trait Sharded: Kind {
    /// The object whose namespace and name give the shard: the target Cluster's for what belongs to one,
    /// else the object's own.
    fn shard_key(&self) -> StoreKey;

    /// The shard under this `--shards`.
    fn shard(&self, shards: &Shards) -> u32 {
        let key = self.shard_key();
        shards.shard_of(&key.namespace, &key.name)
    }

    /// The shard that the label says, which the apiserver writes; none when there is none or it is no
    /// shard.
    fn labelled_shard(&self) -> Option<u32> {
        parse_shard(self.metadata().labels.as_ref()?.get(label::SHARD)?)
    }
}

/// A shard as the label has it. A selector compares text, so that there is one way to write it.
pub(crate) fn parse_shard(text: &str) -> Option<u32> {
    text.parse().ok().filter(|shard: &u32| shard.to_string() == text)
}

/// The Cluster that an object names.
fn named<K: Kind>(object: &K, cluster: &ClusterReference) -> StoreKey {
    let own = object.metadata().namespace.as_deref().unwrap_or_default();
    StoreKey::new(cluster.namespace_from(own), cluster.name.as_str())
}

impl Sharded for Release {
    fn shard_key(&self) -> StoreKey {
        named(self, &self.spec.cluster_ref)
    }
}

impl Sharded for ReleaseInventory {
    fn shard_key(&self) -> StoreKey {
        named(self, &self.spec.cluster_ref)
    }
}

impl Sharded for Cluster {
    fn shard_key(&self) -> StoreKey {
        crate::store_key(self)
    }
}

impl Sharded for HelmRegistry {
    fn shard_key(&self) -> StoreKey {
        crate::store_key(self)
    }
}

impl Sharded for OCIRegistry {
    fn shard_key(&self) -> StoreKey {
        crate::store_key(self)
    }
}

impl Sharded for HealthRuleSet {
    fn shard_key(&self) -> StoreKey {
        crate::store_key(self)
    }
}

impl Sharded for GitRepository {
    fn shard_key(&self) -> StoreKey {
        crate::store_key(self)
    }
}
