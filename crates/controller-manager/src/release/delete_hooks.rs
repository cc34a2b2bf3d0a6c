//! The hooks of a chart around the removal of its objects.

use std::sync::Arc;

use convoy_api::{DeliveryProgress, HookEvent, Operation, Release, reason};
use convoy_apply::{Class, Ownership, PruneOptions, prune};
use convoy_plan::{Entry, Hook, HookStep, Plan, Policy, ReleaseId, next_hook_step};
use convoy_prepare::{hooks_of, namespace_of, secrets_in};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Releases;
use super::delete::Deletion;
use super::deliver::DeliveryFailure;
use super::hooks::{HookEnd, HookWork, failure_of_hook};
use super::inventory::{Inventory, InventoryId};
use crate::host::{HostError, in_words};
use crate::targets::Connected;

/// A removal from one cluster.
#[derive(Clone, Copy)]
pub(crate) struct Removal<'a> {
    pub(crate) release: &'a Release,
    pub(crate) id: &'a InventoryId,
    pub(crate) ownership: &'a Arc<dyn Ownership>,
    pub(crate) connected: &'a Connected,
}

impl Releases {
    /// Runs the hooks before the removal; when there are hooks after it, also removes all that those do not need, and
    /// runs them. None when the rest may be removed.
    pub(crate) async fn run_delete_hooks(
        &self,
        removal: &Removal<'_>,
        inventory: &mut Inventory,
    ) -> Result<Option<Deletion>, HostError> {
        let bundle = inventory.bundle_digest().to_owned();
        if bundle.is_empty() {
            return Ok(None);
        }
        let bundle = match self.store.bundle(&bundle).await {
            Ok(Some(bundle)) => bundle,
            Ok(None) => {
                tracing::warn!(release = %convoy_runtime::store_key(removal.release), bundle, "the bundle is not in the render store any more; if its chart has hooks for its removal, they are not run");
                return Ok(None);
            }
            Err(error) => {
                let message = format!("the render store fails: {}", in_words(&error));
                return Ok(Some(Deletion::Blocked { reason: reason::STORE_FAILED, message }));
            }
        };
        let rendered = hooks_of(bundle.hooks);
        let runs_at = |event| rendered.iter().any(|hook| hook.events.contains(&event));
        let (has_before, has_after) = (runs_at(HookEvent::PreDelete), runs_at(HookEvent::PostDelete));
        if !has_before && !has_after {
            return Ok(None);
        }
        if inventory.progress().is_none_or(|progress| progress.operation != Operation::Delete) {
            let since = Some(Time(self.clock.now()));
            let operation = Operation::Delete;
            inventory.set_progress(Some(DeliveryProgress {
                operation,
                since,
                ..DeliveryProgress::default()
            }));
        }
        let metadata = &removal.release.metadata;
        let id = ReleaseId {
            uid: metadata.uid.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        };
        let policy = Policy { target_namespace: Some(namespace_of(removal.release)), ..Policy::default() };
        let kinds = &removal.connected.capabilities.kinds;
        let hooks = |inventory: &Inventory| {
            let (hooks, problems) = Hook::all_of(&rendered, kinds, &id, &policy);
            for problem in problems {
                tracing::warn!(release = %convoy_runtime::store_key(removal.release), "a hook is not run: {problem}");
            }
            Hook::with_entries(hooks, &inventory.entries(), kinds)
        };
        if let Some(stopped) = self.run_event(removal, HookEvent::PreDelete, &hooks, inventory).await? {
            return Ok(Some(stopped));
        }
        if !has_after {
            return Ok(None);
        }
        // Namespaces hold what the hooks after make.
        let stays =
            |entry: &Entry| entry.hook || (entry.key.group.is_empty() && entry.key.kind == "Namespace");
        let before = inventory.entries();
        let late = self.late_writes(removal.id, removal.ownership, &before);
        let some: Vec<Entry> = before.iter().filter(|entry| !stays(entry)).cloned().collect();
        let plan = Plan::for_deletion(&some, kinds, late);
        if let Some(stopped) = self.remove_part(removal, &plan, inventory).await? {
            return Ok(Some(stopped));
        }
        self.run_event(removal, HookEvent::PostDelete, &hooks, inventory).await
    }

    /// Runs the hooks of an event; none when all ended well.
    async fn run_event(
        &self,
        removal: &Removal<'_>,
        event: HookEvent,
        hooks: &(dyn Fn(&Inventory) -> Vec<Hook> + Sync),
        inventory: &mut Inventory,
    ) -> Result<Option<Deletion>, HostError> {
        let metadata = &removal.release.metadata;
        let asked =
            metadata.annotations.as_ref().and_then(|all| all.get(convoy_api::annotation::RECONCILE_AT));
        let attempt = format!(
            "delete {} {}",
            metadata.generation.unwrap_or_default(),
            asked.map_or("", String::as_str)
        );
        loop {
            let all = hooks(inventory);
            let Some(progress) = inventory.progress().cloned() else { return Ok(None) };
            match next_hook_step(&all, event, &progress, &attempt) {
                None => return Ok(None),
                Some(HookStep::Clear(prunes)) => {
                    let plan = Plan::clearing(prunes);
                    if let Some(stopped) = self.remove_part(removal, &plan, inventory).await? {
                        return Ok(Some(stopped));
                    }
                }
                Some(HookStep::Failed { event, index, message }) => {
                    let Some(hook) = all.get(index) else { return Ok(None) };
                    let failure = failure_of_hook(hook, event, &message);
                    let message = format!(
                        "{}; mend what it needs and ask for a reconcile, or set spec.apply.deletionPolicy to Orphan to leave \
                         all there",
                        failure.message
                    );
                    return Ok(Some(Deletion::Blocked { reason: failure.reason, message }));
                }
                Some(HookStep::Run { event, index }) => {
                    let Some(hook) = all.get(index) else { return Ok(None) };
                    let bundle = inventory.bundle_digest().to_owned();
                    let secrets = secrets_in(removal.release, None);
                    let target = removal.connected.target.clone().with_secrets_in(secrets);
                    let work = HookWork {
                        release: removal.release,
                        id: removal.id,
                        ownership: removal.ownership,
                        target: &target,
                        bundle: &bundle,
                        attempt: &attempt,
                    };
                    match self.run_hook(&work, (hook, event, index), inventory).await? {
                        HookEnd::Recorded => {}
                        HookEnd::Waits { message, since } => {
                            let message = format!(
                                "waiting for the {} hook {} to end: {message}",
                                event.as_str(),
                                hook.apply.target
                            );
                            let wait = self.until_next_look(removal.release, since);
                            return Ok(Some(Deletion::Waits { message, wait }));
                        }
                        HookEnd::Failed(failure) if failure.is_not_owner() => {
                            return Err(HostError::not_owner(removal.ownership.shard()));
                        }
                        HookEnd::Failed(DeliveryFailure { reason, message, .. }) => {
                            return Ok(Some(Deletion::Blocked { reason, message }));
                        }
                    }
                }
            }
        }
    }

    /// Removes some of what an inventory lists, and goes on knowing of the rest.
    async fn remove_part(
        &self,
        removal: &Removal<'_>,
        plan: &Plan,
        inventory: &mut Inventory,
    ) -> Result<Option<Deletion>, HostError> {
        if plan.prunes.is_empty() {
            return Ok(None);
        }
        let ownership = &**removal.ownership;
        let bundle = inventory.bundle_digest().to_owned();
        let before = inventory.entries();
        let late = self.late_writes(removal.id, removal.ownership, &before);
        let ahead = plan.write_ahead(&before, late);
        if ahead != before || !inventory.is_progress_stored() {
            self.write_ahead(ownership, inventory, &ahead, &bundle).await?;
        }
        let release_uid = removal.release.metadata.uid.as_deref().unwrap_or_default();
        let options = PruneOptions { release_uid };
        let (report, _) = prune(&removal.connected.target, &plan.prunes, &options).await;
        if report.failures.iter().any(|failure| failure.error.class == Class::NotOwner) {
            return Err(HostError::not_owner(ownership.shard()));
        }
        let after = plan.settle(&before, &report.fates, late);
        if after != ahead {
            self.settle(ownership, inventory, &after, &bundle).await?;
        }
        if report.is_success() {
            return Ok(None);
        }
        let message = DeliveryFailure::of_report(report).message;
        Ok(Some(Deletion::Blocked { reason: reason::PRUNE_FAILED, message }))
    }
}
