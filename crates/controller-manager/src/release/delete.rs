//! From a deleted Release to nothing.

use convoy_api::{DeletionPolicy, Release, finalizer, reason};
use convoy_apply::{PruneOptions, prune};
use convoy_plan::{Plan, settle};
use convoy_runtime::StoreKey;

use super::Releases;
use super::deliver::DeliveryFailure;
use super::inventory::InventoryId;
use crate::host::HostError;

/// What a look at a deleted Release came to.
#[derive(Debug)]
pub(crate) enum Deletion {
    /// Nothing is left, and the finalizer is gone.
    Done,
    /// Something is in the way.
    Blocked { reason: &'static str, message: String },
}

impl Releases {
    /// Prunes all that a Release has anywhere, then its inventories, then its finalizer.
    pub(crate) async fn delete(&self, key: &StoreKey, release: &Release) -> Result<Deletion, HostError> {
        let finalizers = release.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|name| name == finalizer::RELEASE) {
            return Ok(Deletion::Done);
        }
        let mut clusters = self.other_clusters(release, &release.spec.cluster_ref.name);
        clusters.push(release.spec.cluster_ref.name.clone());
        for cluster in clusters {
            let blocked = match release.spec.deletion_policy() {
                DeletionPolicy::Delete => self.clear(key, release, &cluster).await?,
                DeletionPolicy::Orphan => self.let_go(release, &cluster).await?,
            };
            if let Some(blocked) = blocked {
                return Ok(blocked);
            }
        }
        let rest: Vec<String> = finalizers.into_iter().filter(|name| name != finalizer::RELEASE).collect();
        let version = release.metadata.resource_version.as_deref().unwrap_or_default();
        self.host.set_finalizers::<Release>(key, version, &rest).await?;
        tracing::info!(release = %key, "deleted");
        Ok(Deletion::Done)
    }

    /// Deletes the inventory and leaves what it names.
    async fn let_go(&self, release: &Release, cluster: &str) -> Result<Option<Deletion>, HostError> {
        let mut inventory = self.fresh_inventory(&InventoryId::of(release, cluster)).await?;
        self.settle(&mut inventory, &[], "").await?;
        Ok(None)
    }

    /// Deletes what a Release has on one cluster, and then its inventory there.
    pub(crate) async fn clear(
        &self,
        key: &StoreKey,
        release: &Release,
        cluster: &str,
    ) -> Result<Option<Deletion>, HostError> {
        let mut inventory = self.fresh_inventory(&InventoryId::of(release, cluster)).await?;
        let before = inventory.entries();
        if before.is_empty() {
            self.settle(&mut inventory, &[], "").await?;
            return Ok(None);
        }
        let cluster_key = StoreKey::new(key.namespace.as_str(), cluster);
        let Some(connected) = self.targets.get(&cluster_key) else {
            let message = format!(
                "{} objects are still on the Cluster {cluster}, which is not in contact; bring it back, or set \
                 spec.apply.deletionPolicy to Orphan to let go of them",
                before.len()
            );
            return Ok(Some(Deletion::Blocked { reason: reason::CLUSTER_UNREACHABLE, message }));
        };
        let plan = Plan::for_deletion(&before, &connected.capabilities.kinds);
        let ahead = plan.write_ahead(&before);
        let bundle = inventory.bundle_digest().to_owned();
        if ahead != before {
            self.write_ahead(&mut inventory, &ahead, &bundle).await?;
        }
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let (report, notes) =
            prune(&connected.target, &plan.prunes, &PruneOptions { release_uid: uid }).await;
        for (object, note) in notes {
            tracing::info!(release = %key, object = %object, "{note}");
        }
        if report.is_success() {
            // What the plan protects stays on the target, and with the Release goes its record.
            self.settle(&mut inventory, &[], "").await?;
            return Ok(None);
        }
        let left = settle(&ahead, &report.fates);
        if left != ahead {
            self.settle(&mut inventory, &left, &bundle).await?;
        }
        let failure = DeliveryFailure::of_report(report);
        Ok(Some(Deletion::Blocked { reason: reason::PRUNE_FAILED, message: failure.message }))
    }
}
