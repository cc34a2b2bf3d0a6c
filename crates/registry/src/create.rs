//! Create.

use convoy_meta::{Object, Status};
use convoy_storage::StorageError;
use serde_json::Value;

use crate::failure::storage_status;
use crate::server_fields;
use crate::write::{Refusal, Target, encode};
use crate::{AdmissionRequest, Body, Operation, Registry, RequestContext, Resource, Written};

/// How often a generated name that is taken is made anew.
const NAME_ATTEMPTS: usize = 8;
/// Longest name a suffix is put to; 63 in all.
const GENERATE_NAME_MAX: usize = 58;

impl Registry {
    /// Creates an object in a namespace, which is empty for cluster-scoped resources.
    ///
    /// # Errors
    /// 400, 403 (admission), 409, 422.
    pub async fn create(
        &self,
        context: &RequestContext,
        resource: &Resource,
        namespace: &str,
        body: Body,
    ) -> Result<Written, Status> {
        let target = Target { context, resource, namespace, name: "", subresource: "" };
        let mut warnings = Vec::new();
        let mut object = target.decode(body, Refusal::Body, &mut warnings)?;
        target.place(&mut object)?;
        if !object.resource_version().is_empty() {
            return Err(Status::failure(
                convoy_meta::Reason::Unknown,
                "resourceVersion should not be set on objects to be created",
            ));
        }
        drop_status(resource, &mut object);
        let object = target.field_manager().update(
            resource.empty.as_ref(),
            object,
            &context.field_manager,
            context.now,
        );
        self.create_object(target, object, warnings).await
    }

    /// Stores a new object that is decoded and has its managedFields.
    pub(crate) async fn create_object(
        &self,
        target: Target<'_>,
        mut object: Value,
        mut warnings: Vec<String>,
    ) -> Result<Written, Status> {
        let Target { context, resource, .. } = target;
        let generated = object.name().is_empty() && !object.generate_name().is_empty();
        drop_status(resource, &mut object);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
            object.metadata_mut().remove(field);
        }
        object.set_uid(&self.options.identity.uid());
        object.set_creation_timestamp(context.now);
        if resource.generation {
            object.set_generation(1);
        }
        if generated {
            object.set_name(&self.generate(object.generate_name()));
        }
        let name = object.name().to_owned();
        self.mutate(target, Operation::Create, &name, &mut object, None).await?;
        let asked = server_fields::pick(resource.def(), &object);
        resource.strategy.prepare_for_create(context, &mut object);
        warnings.extend(server_fields::warnings(resource.def(), &asked, None, &object, false));
        target.validate(&object, None)?;
        resource.strategy.canonicalise(&mut object);
        warnings.extend(resource.strategy.warnings(context, &object, None));
        self.admit(target, Operation::Create, &name, Some(&object), None).await?;

        let group_resource = resource.group_resource();
        let mut attempts = if generated { NAME_ATTEMPTS } else { 1 };
        loop {
            let key = target.key(object.name());
            let stored = encode(&object)?;
            let result = if context.dry_run {
                let read = self.storage.get(&key).await.map_err(|error| storage_status(&error))?;
                read.found.map_or(Ok(0), |current| Err(StorageError::AlreadyExists { current }))
            } else {
                self.storage.create(&key, stored.clone()).await
            };
            attempts -= 1;
            match result {
                Ok(revision) => {
                    let object = target.entry(&key, revision, &stored);
                    return Ok(Written { object, created: true, warnings });
                }
                Err(StorageError::AlreadyExists { .. }) if attempts > 0 => {
                    let name = self.generate(object.generate_name());
                    object.set_name(&name);
                }
                Err(StorageError::AlreadyExists { .. }) if generated => {
                    return Err(Status::generate_name_conflict(&group_resource, object.name(), 1));
                }
                Err(StorageError::AlreadyExists { current }) => {
                    let mut status = Status::already_exists(&group_resource, object.name());
                    let existing: Value = serde_json::from_slice(&current.value).unwrap_or_default();
                    if existing.is_deleting() {
                        status.message = format!("object is being deleted: {}", status.message);
                    }
                    return Err(status);
                }
                Err(error) => return Err(storage_status(&error)),
            }
        }
    }

    fn generate(&self, base: &str) -> String {
        let end = base.char_indices().map(|(at, _)| at).find(|at| *at >= GENERATE_NAME_MAX);
        let base = base.get(..end.unwrap_or(base.len())).unwrap_or(base);
        format!("{base}{}", self.options.identity.suffix())
    }

    pub(crate) async fn mutate(
        &self,
        target: Target<'_>,
        operation: Operation,
        name: &str,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        for admission in &self.options.admission {
            let request = admission_request(target, operation, name, None, old);
            admission.mutate(request, object).await?;
        }
        Ok(())
    }

    pub(crate) async fn admit(
        &self,
        target: Target<'_>,
        operation: Operation,
        name: &str,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        for admission in &self.options.admission {
            admission.validate(admission_request(target, operation, name, object, old)).await?;
        }
        Ok(())
    }
}

fn admission_request<'a>(
    target: Target<'a>,
    operation: Operation,
    name: &'a str,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
) -> AdmissionRequest<'a> {
    let Target { context, resource, namespace, subresource, .. } = target;
    AdmissionRequest { context, resource, operation, subresource, namespace, name, object, old }
}

fn drop_status(resource: &Resource, object: &mut Value) {
    if resource.has_status()
        && let Value::Object(map) = object
    {
        map.remove("status");
    }
}
