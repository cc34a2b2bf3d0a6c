//! From a deleted Release to nothing.

use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Cluster, DeletionPolicy, Release, condition_type, finalizer, find_condition, reason};
use convoy_apply::{Class, Ownership, PruneOptions, prune};
use convoy_plan::Plan;
use convoy_runtime::{EventKind, Sharded as _, StoreKey, store_key};
use jiff::{SignedDuration, Timestamp};

use super::delete_hooks::Removal;
use super::deliver::DeliveryFailure;
use super::index::called;
use super::inventory::{Inventory, InventoryId};
use super::late::{objects_of, tombstones};
use super::left::Left;
use super::status::whole_second;
use super::{Look, Releases};
use crate::access::Allowed;
use crate::host::HostError;

/// How often it is looked whether other replicas have ended their part of a deletion: of inventories of
/// their shards this replica may see nothing.
const OTHERS: Duration = Duration::from_secs(5);

/// What a look at a deleted Release came to.
#[derive(Debug)]
pub(crate) enum Deletion {
    /// Nothing is left, and the finalizer is gone.
    Done,
    /// Replicas that own other clusters have not ended their part, or unanswered requests may still arrive.
    Waits { message: String, wait: Duration },
    /// Something is in the way.
    Blocked { reason: &'static str, message: String },
    /// The target is out of contact, and after this time what is there is let go of.
    OutOfContact { message: String, wait: Duration },
}

/// When what a deleted Release has on a Cluster that is out of contact is let go of; none when it never is.
///
/// The Cluster's condition says since when: it outlasts the replica that saw contact break off.
fn let_go_at(release: &Release, cluster: &Cluster) -> Option<Timestamp> {
    let deleted = release.metadata.deletion_timestamp.as_ref()?.0;
    let timeout = SignedDuration::try_from(release.spec.deletion_timeout()?.as_std()).ok()?;
    let conditions = &cluster.status.as_ref()?.conditions;
    let reachable = find_condition(conditions, condition_type::REACHABLE)?;
    let since = (reachable.status != "True").then_some(reachable.last_transition_time.0)?;
    deleted.max(since).checked_add(timeout).ok()
}

impl Releases {
    /// Prunes what a Release has on the clusters of this replica, then its inventories there. When no
    /// inventory is left anywhere, its finalizer goes.
    pub(crate) async fn delete(&self, look: Look<'_>, left: &[Left]) -> Result<Deletion, HostError> {
        let release = look.release;
        let finalizers = release.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|name| name == finalizer::RELEASE) {
            return Ok(Deletion::Done);
        }
        let own = &release.shard_key();
        let ours = left.iter().filter(|left| left.place.uid == look.uid());
        let ours = ours.map(|left| (&left.place.cluster, &left.ownership));
        for (cluster, ownership) in ours.chain([(own, look.ownership)]) {
            if let Some(blocked) = self.clear(release, cluster, ownership).await? {
                return Ok(blocked);
            }
        }
        let others = self.host.inventories_of(look.key, look.uid()).await?;
        // Older inventories have no label to be listed by.
        let is_cleared =
            |cluster: &StoreKey| cluster == own || left.iter().any(|left| left.place.cluster == *cluster);
        let known = self.index.places(look.key).into_iter();
        let known = known.filter(|place| place.uid == look.uid() && !is_cleared(&place.cluster));
        let known: Vec<String> = known.map(|place| called(&place.cluster, &look.key.namespace)).collect();
        if !others.is_empty() || !known.is_empty() {
            let message = match others.as_slice() {
                [] => format!("what it has on the Clusters {} is being removed", known.join(", ")),
                names => format!("what the inventories {} list is being removed", names.join(", ")),
            };
            return Ok(Deletion::Waits { message, wait: OTHERS });
        }
        let rest: Vec<String> = finalizers.into_iter().filter(|name| name != finalizer::RELEASE).collect();
        let version = release.metadata.resource_version.as_deref().unwrap_or_default();
        self.host.writer.set_finalizers::<Release>(&**look.ownership, look.key, version, &rest).await?;
        tracing::info!(release = %look.key, "deleted");
        Ok(Deletion::Done)
    }

    /// Removes what a Release has on one cluster, as its deletion policy says when it is being deleted, and
    /// then its inventory there.
    pub(crate) async fn clear(
        &self,
        release: &Release,
        cluster_key: &StoreKey,
        ownership: &Arc<dyn Ownership>,
    ) -> Result<Option<Deletion>, HostError> {
        let id = InventoryId::of(release, cluster_key);
        let mut inventory = self.fresh_inventory(&id).await?;
        self.refuse_outdated(&inventory, ownership)?;
        let is_deleted = release.metadata.deletion_timestamp.is_some();
        let before = inventory.entries();
        if before.is_empty() || (is_deleted && release.spec.deletion_policy() == DeletionPolicy::Orphan) {
            self.settle(&**ownership, &mut inventory, &[], "").await?;
            self.late_forget(&id, &[]);
            return Ok(None);
        }
        let cluster = &called(cluster_key, release.metadata.namespace.as_deref().unwrap_or_default());
        let Some(connected) = self.target(release, cluster_key, ownership) else {
            let cluster_exists = self.clusters.get(cluster_key).is_some();
            // Not by the watch alone: nothing brings an inventory back.
            if !cluster_exists && !self.host.has_cluster(cluster_key).await? {
                // A Cluster that somebody deleted says that its objects are let go. One that goes with the whole
                // namespace says nothing.
                if self.host.is_namespace_ending(&cluster_key.namespace).await? {
                    let message = format!(
                        "{} objects are still on the Cluster {cluster}, which went with the namespace; remove them there, \
                         then let go of them: set spec.apply.deletionPolicy to Orphan",
                        objects_of(&before)
                    );
                    return Ok(Some(Deletion::Blocked { reason: reason::CLUSTER_UNREACHABLE, message }));
                }
                let why = "was deleted";
                self.leave_behind(release, &mut inventory, (cluster, why), ownership).await?;
                return Ok(None);
            }
            if cluster_exists && self.contacts.last(cluster_key, &**ownership).is_none() {
                let message = format!("the Cluster {cluster} is being connected to");
                return Ok(Some(Deletion::Waits { message, wait: OTHERS }));
            }
            let let_go = self.clusters.get(cluster_key).and_then(|cluster| let_go_at(release, &cluster));
            let now = self.clock.now();
            if let_go.is_some_and(|at| at <= now) {
                let why = "was out of contact for spec.apply.deletionTimeout";
                self.leave_behind(release, &mut inventory, (cluster, why), ownership).await?;
                return Ok(None);
            }
            let mut message = format!(
                "{} objects are still on the Cluster {cluster}, which is not in contact{}; bring it back, or let go of \
                 them: {}, or delete the Cluster object",
                objects_of(&before),
                self.contacts.silence(cluster_key).map(|silence| format!(" ({silence})")).unwrap_or_default(),
                if is_deleted {
                    "set spec.apply.deletionPolicy to Orphan"
                } else {
                    "delete the Release with spec.apply.deletionPolicy: Orphan"
                },
            );
            if let Some(at) = let_go {
                message.push_str(&format!("; at {} convoy lets go of them", whole_second(at)));
                let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                return Ok(Some(Deletion::OutOfContact { message, wait }));
            }
            return Ok(Some(Deletion::Blocked { reason: reason::CLUSTER_UNREACHABLE, message }));
        };
        let removal = Removal { release, id: &id, ownership, connected: &connected };
        // Where the Release may not be any more, what it has is removed, and nothing is made.
        match self.access.of(release, cluster_key, &self.clusters) {
            Allowed::Yes => {
                if let Some(stopped) = self.run_delete_hooks(&removal, &mut inventory).await? {
                    return Ok(Some(stopped));
                }
            }
            Allowed::No => {}
            Allowed::NotYet | Allowed::NotKnown => {
                let message = format!(
                    "whether hooks may run on the Cluster {cluster} is not known: the labels of namespaces are read"
                );
                return Ok(Some(Deletion::Waits { message, wait: OTHERS }));
            }
        }
        let before = inventory.entries();
        let late = self.late_writes(&id, ownership, &before);
        let plan = Plan::for_deletion(&before, &connected.capabilities.kinds, late);
        let ahead = plan.write_ahead(&before, late);
        let bundle = inventory.bundle_digest().to_owned();
        if ahead != before {
            self.write_ahead(&**ownership, &mut inventory, &ahead, &bundle).await?;
        }
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let (report, notes) =
            prune(&connected.target, &plan.prunes, &PruneOptions { release_uid: uid }).await;
        if report.failures.iter().any(|failure| failure.error.class == Class::NotOwner) {
            return Err(HostError::not_owner(ownership.shard()));
        }
        for (object, note) in notes {
            tracing::info!(release = %store_key(release), object = %object, "{note}");
        }
        if tombstones(&before) > 0 && !plan.prunes.is_empty() {
            self.late_looked(&id, ownership);
        }
        let mut remaining = plan.settle(&before, &report.fates, late);
        if report.is_success() {
            // What the plan protects stays on the target, and with the Release goes its record.
            remaining.retain(|entry| entry.gone);
            let count = remaining.len();
            let bundle = if count == 0 { "" } else { bundle.as_str() };
            if remaining != ahead {
                self.settle(&**ownership, &mut inventory, &remaining, bundle).await?;
            }
            if count == 0 {
                self.late_forget(&id, &[]);
                return Ok(None);
            }
            let (wait, over) = self.until_late_look(&id, ownership);
            let message = self.late_message(release, count, over);
            return Ok(Some(Deletion::Waits { message, wait }));
        }
        if remaining != ahead {
            self.settle(&**ownership, &mut inventory, &remaining, &bundle).await?;
        }
        let failure = DeliveryFailure::of_report(report);
        Ok(Some(Deletion::Blocked { reason: reason::PRUNE_FAILED, message: failure.message }))
    }

    /// Lets go of what a Release has on a Cluster that exists no more, so that nobody can say where it was, or that was
    /// waited for long enough.
    async fn leave_behind(
        &self,
        release: &Release,
        inventory: &mut Inventory,
        (cluster, why): (&str, &str),
        ownership: &Arc<dyn Ownership>,
    ) -> Result<(), HostError> {
        let count = inventory.entries().len();
        self.settle(&**ownership, inventory, &[], "").await?;
        let message = format!(
            "the Cluster {cluster} {why}; {count} objects of the Release may remain on it, which convoy does \
             not know any more"
        );
        tracing::warn!(release = %store_key(release), "{message}");
        let event = (EventKind::Warning, reason::LEFT_BEHIND, message.as_str());
        self.host.writer.event(&**ownership, release, event, self.clock.now()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use convoy_api::decode;
    use serde_json::{Value, json};

    use super::*;

    fn release(deleted: Option<&str>, timeout: Option<&str>) -> Release {
        let mut release = json!({
            "metadata": {"name": "r", "namespace": "n"},
            "spec": {"clusterRef": {"name": "c"}, "source": {}, "apply": {}},
        });
        if let Some(time) = deleted {
            release["metadata"]["deletionTimestamp"] = time.into();
        }
        if let Some(timeout) = timeout {
            release["spec"]["apply"]["deletionTimeout"] = timeout.into();
        }
        decode(&release).unwrap()
    }

    fn cluster(reachable: Option<(&str, &str)>) -> Cluster {
        let condition = |(status, since): (&str, &str)| json!({"type": "Reachable", "status": status, "reason": "R", "message": "", "lastTransitionTime": since});
        let conditions: Vec<Value> = reachable.map(condition).into_iter().collect();
        decode(&json!({"metadata": {"name": "c"}, "spec": {}, "status": {"conditions": conditions}})).unwrap()
    }

    #[test]
    fn a_gone_target_is_waited_for_from_the_deletion_or_the_loss_of_contact_whichever_is_later() {
        let (ten, eleven) = ("2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z");
        let lost = |since| cluster(Some(("False", since)));
        for (release, cluster, want) in [
            (release(Some(eleven), Some("1h")), lost(ten), Some("2026-01-01T12:00:00Z")),
            (release(Some(ten), Some("30s")), lost(eleven), Some("2026-01-01T11:00:30Z")),
            (release(Some(ten), Some("0s")), cluster(Some(("Unknown", ten))), Some(ten)),
            (release(Some(ten), Some("0s")), cluster(Some(("True", ten))), None),
            (release(Some(ten), Some("0s")), cluster(None), None),
            (release(Some(ten), None), lost(ten), None),
            (release(None, Some("0s")), lost(ten), None),
        ] {
            let want: Option<Timestamp> = want.map(|time| time.parse().unwrap());
            assert_eq!(let_go_at(&release, &cluster), want, "{release:?} {cluster:?}");
        }
    }
}
