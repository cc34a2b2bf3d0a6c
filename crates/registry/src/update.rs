//! Update and patch: what becomes of an object that is there.

use std::sync::Arc;

use convoy_meta::{FieldError, GroupKind, Object, Reason, Status};
use convoy_storage::StorageError;
use convoy_storage::watch_cache::Entry;
use serde_json::Value;

use crate::failure::{fault_status, storage_status};
use crate::patch_failure::{apply_status, json_patch_status, merge_patch_status, strategic_patch_status};
use crate::server_fields;
use crate::write::{Refusal, Target, encode, keep_times_of_no_op};
use crate::{Body, Operation, Patch, Registry, RequestContext, Resource, Written};

/// How often a write that lost a race is made anew.
const ATTEMPTS: usize = 10;

/// What a client wants an object to become.
enum Change<'a> {
    /// With an object that is decoded and in its place.
    Replace(&'a Value),
    Patch(&'a Patch),
}

impl Registry {
    /// Replaces an object or, with `subresource` = `status`, its status.
    ///
    /// # Errors
    /// 400, 404, 409, 422.
    pub async fn update(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: Body,
    ) -> Result<Written, Status> {
        let target = Target { context, resource, namespace, name, subresource };
        // What it is and where it belongs is asked before whether it exists.
        let mut warnings = Vec::new();
        let mut object = target.decode(body, Refusal::Body, &mut warnings)?;
        target.place(&mut object)?;
        let mut written = self.change(target, &Change::Replace(&object)).await?;
        warnings.append(&mut written.warnings);
        Ok(Written { warnings, ..written })
    }

    /// Patches an object or its status; an apply of what does not exist creates it, where the context allows it.
    ///
    /// # Errors
    /// 400, 404, 409 (also conflicts of field managers), 415 for strategic patches of other than built-in
    /// kinds, 422.
    pub async fn patch(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Patch,
    ) -> Result<Written, Status> {
        let target = Target { context, resource, namespace, name, subresource };
        if matches!(patch, Patch::Strategic(_)) && !resource.strategic_patch {
            return Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ]));
        }
        self.change(target, &Change::Patch(patch)).await
    }

    /// Repairs a stored object, if it still is as `entry` has it; answers whether it was changed. Neither
    /// validation nor admission is asked, for it is the server itself that writes, and an object that would
    /// not be taken today is repaired all the same. managedFields stay as they are.
    ///
    /// # Errors
    /// 503 when the storage fails.
    pub async fn repair(&self, entry: &Entry, repair: impl FnOnce(&mut Value)) -> Result<bool, Status> {
        let old = entry.to_value();
        let mut new = old.clone();
        repair(&mut new);
        if entry.fault().is_some() || new == old {
            return Ok(false);
        }
        match self.storage.update(entry.key(), entry.revision(), encode(&new)?).await {
            Ok(_) => Ok(true),
            Err(StorageError::Conflict { .. } | StorageError::NotFound { .. }) => Ok(false),
            Err(error) => Err(storage_status(&error)),
        }
    }

    async fn change(&self, target: Target<'_>, change: &Change<'_>) -> Result<Written, Status> {
        let group_resource = target.resource.group_resource();
        let key = target.key(target.name);
        for _ in 0..ATTEMPTS {
            let Some(current) = self.current(target.resource, &key).await? else {
                match Box::pin(self.change_missing(target, change)).await {
                    // Somebody else created it in the meantime: then it is a change like any other.
                    Err(status) if status.reason() == Reason::AlreadyExists => continue,
                    other => return other,
                }
            };
            if current.fault().is_some() {
                return Err(fault_status(&current));
            }
            match Box::pin(self.change_once(target, change, current)).await? {
                Some(written) => return Ok(written),
                None => continue,
            }
        }
        Err(Status::stale(&group_resource, target.name))
    }

    async fn change_missing(&self, target: Target<'_>, change: &Change<'_>) -> Result<Written, Status> {
        let Target { context, resource, .. } = target;
        let mut warnings = Vec::new();
        match change {
            Change::Replace(object) if resource.create_on_update && target.subresource.is_empty() => {
                let mut object = Value::clone(object);
                object.set_resource_version("");
                let object = target.field_manager().update(
                    resource.empty.as_ref(),
                    object,
                    &context.field_manager,
                    context.now,
                );
                self.create_object(target, object, warnings).await
            }
            Change::Patch(Patch::Apply { body, force }) if target.subresource.is_empty() => {
                let applied = applied(&target, body, &mut warnings)?;
                if !applied.uid().is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {}, and no existing object was found",
                        applied.uid()
                    );
                    return Err(Status::conflict(&resource.group_resource(), target.name, why));
                }
                let object = target
                    .field_manager()
                    .apply(None, &applied, &context.field_manager, *force, context.now)
                    .map_err(apply_status)?;
                let mut object = target.decode(object.into(), Refusal::Patched, &mut Vec::new())?;
                target.place(&mut object)?;
                if !context.may_create {
                    return Err(Status::not_found(&resource.group_resource(), target.name));
                }
                let mut written = self.create_object(target, object, warnings).await?;
                let (asked, given) =
                    (server_fields::pick(resource.def(), &applied), written.object.to_value());
                written.warnings.extend(server_fields::warnings(resource.def(), &asked, None, &given, false));
                Ok(written)
            }
            Change::Replace(_) | Change::Patch(_) => {
                Err(Status::not_found(&resource.group_resource(), target.name))
            }
        }
    }

    /// Tries once; `None` means that the object was changed by somebody else in between.
    async fn change_once(
        &self,
        target: Target<'_>,
        change: &Change<'_>,
        current: Arc<Entry>,
    ) -> Result<Option<Written>, Status> {
        let Target { context, resource, name, subresource, .. } = target;
        let group_resource = resource.group_resource();
        let mut warnings = Vec::new();
        let old = current.to_value();
        let mut new = self.changed(&target, change, &old, &mut warnings)?;
        self.mutate(target, Operation::Update, name, &mut new, Some(&old)).await?;
        check_version(&target, &mut new, &old, matches!(change, Change::Replace(_)))?;
        keep_system_fields(&mut new, &old);
        let mut new = match subresource {
            "status" => with_status_of(&old, &new),
            "" if resource.has_status() => {
                with_field(&mut new, "status", old.get("status").cloned());
                new
            }
            _ => new,
        };
        // Applying leaves these fields out of the merge: what was asked for is in the body alone.
        let (asked, before) = match change {
            Change::Patch(Patch::Apply { body, .. }) => (&body.object, None),
            Change::Patch(_) | Change::Replace(_) => (&new, Some(&old)),
        };
        let asked = server_fields::pick(resource.def(), asked);
        resource.strategy.prepare_for_update(context, subresource, &mut new, &old);
        if subresource.is_empty() {
            let is_patch = before.is_some() && matches!(change, Change::Patch(_));
            warnings.extend(server_fields::warnings(resource.def(), &asked, before, &new, is_patch));
        }
        if resource.generation && subresource != "status" && content_differs(resource, &new, &old) {
            new.set_generation(old.generation() + 1);
        }
        resource.strategy.may_replace(&group_resource, &new, &old)?;
        target.validate(&new, Some(&old))?;
        resource.strategy.canonicalise(&mut new);
        warnings.extend(resource.strategy.warnings(context, &new, Some(&old)));
        self.admit(target, Operation::Update, name, Some(&new), Some(&old)).await?;

        let done = new.is_deleting()
            && new.finalizers().is_empty()
            && new.deletion_grace_period_seconds().unwrap_or(0) == 0
            && resource.strategy.may_be_removed(&new);
        keep_times_of_no_op(&mut new, &old);
        if !done && new == old {
            return Ok(Some(Written { object: current, created: false, warnings }));
        }
        let stored = encode(&new)?;
        let key = current.key();
        let result = if context.dry_run {
            Ok(current.revision())
        } else if done {
            // The answer shows the object as it was last stored, but for this change.
            self.storage.delete(key, current.revision()).await.map(|_| current.revision())
        } else {
            self.storage.update(key, current.revision(), stored.clone()).await
        };
        match result {
            Ok(revision) => {
                let object = target.entry(key, revision, &stored);
                Ok(Some(Written { object, created: false, warnings }))
            }
            Err(StorageError::Conflict { .. }) => Ok(None),
            Err(StorageError::NotFound { .. }) if matches!(change, Change::Replace(_)) => {
                Err(Status::not_found(&group_resource, name))
            }
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(error) => Err(storage_status(&error)),
        }
    }

    /// The object as the client wants it, with defaults and its managedFields.
    fn changed(
        &self,
        target: &Target<'_>,
        change: &Change<'_>,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Status> {
        let Target { context, .. } = *target;
        let manager = context.field_manager.as_str();
        let new = match change {
            Change::Replace(object) => Value::clone(object),
            Change::Patch(Patch::Apply { body, force }) => {
                let applied = applied(target, body, warnings)?;
                let merged = target
                    .field_manager()
                    .apply(Some(old), &applied, manager, *force, context.now)
                    .map_err(apply_status)?;
                let mut merged = target.decode(merged.into(), Refusal::Patched, &mut Vec::new())?;
                target.place(&mut merged)?;
                // `resourceVersion: ""` in the body asks for none; leaving it out keeps the live one.
                let asked = applied.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                merged.set_resource_version(asked.unwrap_or_else(|| old.resource_version()));
                return Ok(merged);
            }
            Change::Patch(Patch::Json(patch)) => {
                let mut patched = old.clone();
                convoy_smd::json_patch(&mut patched, patch).map_err(json_patch_status)?;
                target.decode(patched.into(), Refusal::Patched, warnings)?
            }
            Change::Patch(Patch::Merge(body)) => {
                let mut patched = old.clone();
                check_map(&body.object)?;
                convoy_smd::merge_patch(&mut patched, body.object.clone())
                    .map_err(|error| merge_patch_status(&error))?;
                let body = Body { object: patched, duplicates: body.duplicates.clone() };
                target.decode(body, Refusal::Patched, warnings)?
            }
            Change::Patch(Patch::Strategic(body)) => {
                let mut patched = old.clone();
                check_map(&body.object)?;
                let schema = &target.resource.def().merge_schema;
                convoy_smd::strategic_merge_patch(schema, &mut patched, body.object.clone())
                    .map_err(strategic_patch_status)?;
                let body = Body { object: patched, duplicates: body.duplicates.clone() };
                target.decode(body, Refusal::Patched, warnings)?
            }
        };
        let mut new = new;
        target.place(&mut new)?;
        Ok(target.field_manager().update(Some(old), new, manager, context.now))
    }
}

/// An applied object as the client sent it, in its place.
fn applied(target: &Target<'_>, body: &Body, warnings: &mut Vec<String>) -> Result<Value, Status> {
    let def = target.resource.def();
    let applied = body.object.clone();
    if let Err(why) = crate::metadata::clean(&mut applied.clone()) {
        return Err(Status::bad_request(why));
    }
    if applied.api_version() != def.api_version() || applied.kind() != def.kind {
        let version = if applied.api_version().is_empty() { "/" } else { applied.api_version() };
        return Err(Status::bad_request(format!("invalid object type: {version}, Kind={}", applied.kind())));
    }
    if !body.duplicates.is_empty() {
        let faults: Vec<_> =
            body.duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
        match target.context.field_validation {
            convoy_meta::FieldValidation::Strict => {
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: {}",
                    faults.join(", ")
                )));
            }
            convoy_meta::FieldValidation::Warn => warnings.extend(faults),
            convoy_meta::FieldValidation::Ignore => {}
        }
    }
    // The merge gets the object as it was sent; its place is checked on a copy.
    if !applied.name().is_empty() {
        target.place(&mut applied.clone())?;
    }
    Ok(applied)
}

fn check_map(patch: &Value) -> Result<(), Status> {
    if patch.is_object() {
        return Ok(());
    }
    let found = match patch {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Err(Status::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    )))
}

/// The versions and uids that the client says it saw must be those of the object.
fn check_version(target: &Target<'_>, new: &mut Value, old: &Value, replaces: bool) -> Result<(), Status> {
    let group_resource = target.resource.group_resource();
    if replaces && !new.uid().is_empty() && new.uid() != old.uid() {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {}, UID in object meta: {}",
            target.key(target.name),
            new.uid(),
            old.uid()
        );
        return Err(Status::conflict(&group_resource, target.name, why));
    }
    match convoy_meta::resource_version::parse_resource_version(new.resource_version())? {
        None | Some(0) if target.resource.unconditional_update => {
            new.set_resource_version(old.resource_version());
            Ok(())
        }
        None | Some(0) => {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            let kind = GroupKind::new(target.resource.group.as_str(), target.resource.plural.as_str());
            Err(Status::invalid(&kind, target.name, &[error]))
        }
        Some(_) if new.resource_version() != old.resource_version() => {
            Err(Status::stale(&group_resource, target.name))
        }
        Some(_) => Ok(()),
    }
}

/// What only the server writes is as it was, whatever the client says.
fn keep_system_fields(new: &mut Value, old: &Value) {
    let kept = ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];
    for field in kept {
        let value = old.metadata().and_then(|metadata| metadata.get(field)).cloned();
        with_metadata(new, field, value);
    }
    if new.uid().is_empty() {
        new.set_uid(old.uid());
    }
    with_metadata(new, "selfLink", None);
}

fn with_metadata(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object.metadata_mut().insert(field.to_owned(), value),
        None => object.metadata_mut().remove(field),
    };
}

fn with_field(object: &mut Value, field: &str, value: Option<Value>) {
    if let Value::Object(map) = object {
        match value {
            Some(value) => map.insert(field.to_owned(), value),
            None => map.remove(field),
        };
    }
}

/// The old object with the status, and what belongs to a write of it, of the new one.
fn with_status_of(old: &Value, new: &Value) -> Value {
    let mut result = old.clone();
    with_field(&mut result, "status", new.get("status").cloned());
    let managed = new.metadata().and_then(|metadata| metadata.get("managedFields")).cloned();
    with_metadata(&mut result, "managedFields", managed);
    result
}

/// Whether something changed that `metadata.generation` counts.
fn content_differs(resource: &Resource, new: &Value, old: &Value) -> bool {
    let counts = |key: &str| key != "metadata" && !(key == "status" && resource.has_status());
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new != old };
    new.iter().filter(|(key, _)| counts(key)).any(|(key, value)| old.get(key) != Some(value))
        || old.keys().any(|key| counts(key) && !new.contains_key(key))
}
