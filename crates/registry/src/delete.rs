//! Delete and delete collection.

use std::sync::Arc;

use convoy_meta::object_validation::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use convoy_meta::{
    DeleteOptions, GroupResource, ListOptions, Object, Preconditions, PropagationPolicy, Reason, Status,
};
use convoy_storage::StorageError;
use convoy_storage::watch_cache::Entry;

use crate::failure::storage_status;
use crate::write::{Target, encode};
use crate::{DeleteOutcome, Listing, Operation, Registry, RequestContext, Resource};

/// How often a deletion that lost a race is tried anew.
const ATTEMPTS: usize = 10;
/// Objects of a collection that are deleted between two looks at the list.
const PAGE: u64 = 500;

impl Registry {
    /// Deletes an object. Dry run is taken from the options as well as from the context. An object that
    /// cannot be decoded is removed at once: it has no finalizers that anybody could honour.
    ///
    /// # Errors
    /// 404, 409 for preconditions that do not hold.
    pub async fn delete(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<DeleteOutcome, Status> {
        let target = Target { context, resource, namespace, name, subresource: "" };
        let key = target.key(name);
        for _ in 0..ATTEMPTS {
            let current = self
                .current(resource, &key)
                .await?
                .ok_or_else(|| Status::not_found(&resource.group_resource(), name))?;
            if let Some(outcome) = Box::pin(self.delete_once(target, options, current)).await? {
                return Ok(outcome);
            }
        }
        Err(Status::stale(&resource.group_resource(), name))
    }

    /// Tries once; `None` means that the object was changed by somebody else in between.
    async fn delete_once(
        &self,
        target: Target<'_>,
        options: &DeleteOptions,
        current: Arc<Entry>,
    ) -> Result<Option<DeleteOutcome>, Status> {
        let Target { context, resource, name, .. } = target;
        let old = current.to_value();
        check_preconditions(resource, name, &options.preconditions, &current)?;
        self.admit(target, Operation::Delete, name, None, Some(&old)).await?;
        let dry_run = context.dry_run || options.dry_run;

        let mut new = old.clone();
        let mut finalizers: Vec<String> = old.finalizers().into_iter().map(str::to_owned).collect();
        apply_policy(options.propagation_policy, &mut finalizers);
        if !old.finalizers().iter().eq(finalizers.iter()) {
            new.set_finalizers(&finalizers);
        }
        if !new.is_deleting() && current.fault().is_none() {
            resource.strategy.begin_deletion(context, &mut new);
        }
        let waits =
            current.fault().is_none() && (!finalizers.is_empty() || !resource.strategy.may_be_removed(&new));
        if !waits {
            let result = if dry_run {
                Ok(current.revision())
            } else {
                self.storage.delete(current.key(), current.revision()).await.map(|deleted| deleted.revision)
            };
            return match result {
                Ok(_) => {
                    let status = Status::deleted(&resource.group_resource(), name, current.uid());
                    Ok(Some(DeleteOutcome::Gone { object: current, status }))
                }
                Err(StorageError::Conflict { .. }) => Ok(None),
                Err(StorageError::NotFound { .. }) => {
                    Err(Status::not_found(&resource.group_resource(), name))
                }
                Err(error) => Err(storage_status(&error)),
            };
        }
        if !new.is_deleting() {
            new.set_deletion_timestamp(Some(context.now));
            new.set_deletion_grace_period_seconds(Some(0));
            if new.generation() > 0 {
                new.set_generation(new.generation() + 1);
            }
        }
        if new == old {
            return Ok(Some(DeleteOutcome::Waiting(current)));
        }
        let stored = encode(&new)?;
        let result = if dry_run {
            Ok(current.revision())
        } else {
            self.storage.update(current.key(), current.revision(), stored.clone()).await
        };
        match result {
            Ok(revision) => Ok(Some(DeleteOutcome::Waiting(target.entry(current.key(), revision, &stored)))),
            Err(StorageError::Conflict { .. }) => Ok(None),
            Err(StorageError::NotFound { .. }) => Err(Status::not_found(&resource.group_resource(), name)),
            Err(error) => Err(storage_status(&error)),
        }
    }

    /// Deletes all objects that a list with these options shows, and answers with them.
    ///
    /// # Errors
    /// Those of the list and of the deletions; objects that went meanwhile are no error.
    pub async fn delete_collection(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: Option<&str>,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Listing, Status> {
        let mut list = list.clone();
        let mut all: Option<Listing> = None;
        let pages = list.limit == 0;
        loop {
            if pages {
                list.limit = PAGE;
            }
            let page = self.list(resource, namespace, &list).await?;
            for entry in &page.entries {
                let outcome =
                    Box::pin(self.delete(context, resource, entry.namespace(), entry.name(), options)).await;
                match outcome {
                    Err(status) if status.reason() != Reason::NotFound => return Err(status),
                    _ => {}
                }
            }
            list.continue_token.clone_from(&page.continue_token);
            list.resource_version.clear();
            list.resource_version_match = None;
            let more = !page.continue_token.is_empty();
            match &mut all {
                Some(all) => all.entries.extend(page.entries),
                None => all = Some(page),
            }
            if !(pages && more) {
                break;
            }
        }
        let mut all = all.ok_or_else(|| Status::internal("an empty list of pages"))?;
        if pages {
            all.continue_token.clear();
            all.remaining = None;
        }
        Ok(all)
    }
}

fn apply_policy(policy: Option<PropagationPolicy>, finalizers: &mut Vec<String>) {
    let Some(policy) = policy else { return };
    finalizers.retain(|finalizer| finalizer != FINALIZER_ORPHAN && finalizer != FINALIZER_FOREGROUND);
    match policy {
        PropagationPolicy::Orphan => finalizers.push(FINALIZER_ORPHAN.to_owned()),
        PropagationPolicy::Foreground => finalizers.push(FINALIZER_FOREGROUND.to_owned()),
        PropagationPolicy::Background => {}
    }
}

fn check_preconditions(
    resource: &Resource,
    name: &str,
    preconditions: &Preconditions,
    current: &Entry,
) -> Result<(), Status> {
    // Kubernetes names the kind here, not the resource.
    let subject = GroupResource::new(resource.group.as_str(), resource.kind.as_str());
    if let Some(uid) = preconditions.uid.as_deref().filter(|uid| *uid != current.uid()) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            current.uid()
        );
        return Err(Status::conflict(&subject, name, why));
    }
    let revision = current.revision().to_string();
    if let Some(version) = preconditions.resource_version.as_deref().filter(|version| *version != revision) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        );
        return Err(Status::conflict(&subject, name, why));
    }
    Ok(())
}
