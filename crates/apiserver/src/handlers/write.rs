//! create, update, patch, delete, deletecollection.

use convoy_meta::{CreateOptions, DeleteOptions, ListOptions, PatchOptions, Reason, Status};
use convoy_registry::{Body, DeleteOutcome, Patch, Resource, Written};
use http::StatusCode;

use super::read::{list, single};
use super::{Api, context, home, namespace};
use crate::call::Call;
use crate::decode;
use crate::negotiation::{Transform, accept, media_type};
use crate::request_info::ResourceRequest;
use crate::response::{self, Response};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Most operations of one JSON patch.
const MAX_PATCH_OPERATIONS: usize = 10_000;

impl Api {
    pub(super) async fn create(
        &self,
        call: &Call,
        request: &ResourceRequest,
        resource: &Resource,
    ) -> Result<Response, Status> {
        let options = CreateOptions::parse(&call.query)?;
        let body = decode::object_of(&call.headers, &call.body, &resource.kind)?;
        let mut context = context(call, options.field_manager.as_ref());
        context.dry_run = options.dry_run;
        context.field_validation = options.field_validation;
        let written = self.registry.create(&context, resource, home(request), body).await?;
        written_answer(call, resource, written)
    }

    pub(super) async fn update(
        &self,
        call: &Call,
        request: &ResourceRequest,
        resource: &Resource,
    ) -> Result<Response, Status> {
        let options = CreateOptions::parse_update(&call.query)?;
        let body = decode::object_of(&call.headers, &call.body, &resource.kind)?;
        let mut context = context(call, options.field_manager.as_ref());
        context.dry_run = options.dry_run;
        context.field_validation = options.field_validation;
        let (name, subresource) = (&request.name, &request.subresource);
        let written =
            self.registry.update(&context, resource, home(request), name, subresource, body).await?;
        written_answer(call, resource, written)
    }

    pub(super) async fn patch(
        &self,
        call: &Call,
        request: &ResourceRequest,
        resource: &Resource,
    ) -> Result<Response, Status> {
        let media_type = media_type(&call.headers);
        let options = PatchOptions::parse(&call.query, media_type == APPLY_PATCH)?;
        let patch = match media_type {
            JSON_PATCH => {
                let patch = decode::json(&call.body)?.object;
                let count = patch.as_array().map_or(0, Vec::len);
                if count > MAX_PATCH_OPERATIONS {
                    return Err(Status::request_entity_too_large(format!(
                        "The allowed maximum operations in a JSON patch is {MAX_PATCH_OPERATIONS}, got {count}"
                    )));
                }
                Patch::Json(patch)
            }
            MERGE_PATCH => Patch::Merge(object(decode::json(&call.body)?)?),
            STRATEGIC_PATCH if resource.strategic_patch => {
                Patch::Strategic(object(decode::json(&call.body)?)?)
            }
            APPLY_PATCH => Patch::Apply { body: object(decode::yaml(&call.body)?)?, force: options.force },
            _ => {
                let all = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH];
                let taken: Vec<&str> = all
                    .into_iter()
                    .filter(|one| resource.strategic_patch || *one != STRATEGIC_PATCH)
                    .collect();
                return Err(Status::unsupported_media_type(&taken));
            }
        };
        let mut context = context(call, options.field_manager.as_ref());
        context.dry_run = options.dry_run;
        context.field_validation = options.field_validation;
        let (name, subresource) = (&request.name, &request.subresource);
        let applies = media_type == APPLY_PATCH && subresource.is_empty();
        context.may_create = !applies;
        let first = self.registry.patch(&context, resource, home(request), name, subresource, &patch).await;
        let written = match first {
            // Only when it turns out to be a creation, as in apiserver/pkg/endpoints/handlers/patch.go: what a
            // cache said before could be over by now.
            Err(status) if applies && status.reason() == Reason::NotFound => {
                call.authorize_creation().await?;
                context.may_create = true;
                self.registry.patch(&context, resource, home(request), name, subresource, &patch).await?
            }
            written => written?,
        };
        written_answer(call, resource, written)
    }

    pub(super) async fn delete(
        &self,
        call: &Call,
        request: &ResourceRequest,
        resource: &Resource,
    ) -> Result<Response, Status> {
        let accepted = accept(&call.headers, &call.query, &[Transform::PartialObjectMetadata])?;
        let options = delete_options(call)?;
        let mut context = context(call, None);
        context.dry_run = options.dry_run;
        let outcome =
            self.registry.delete(&context, resource, home(request), &request.name, &options).await?;
        Ok(match outcome {
            DeleteOutcome::Gone { object, status } if resource.return_deleted_object => {
                let _ = status;
                single(StatusCode::OK, call, resource, &object, &accepted)
            }
            DeleteOutcome::Gone { status, .. } => response::status(&status, &accepted),
            DeleteOutcome::Waiting(entry) => single(StatusCode::OK, call, resource, &entry, &accepted),
        })
    }

    pub(super) async fn delete_collection(
        &self,
        call: &Call,
        request: &ResourceRequest,
        resource: &Resource,
    ) -> Result<Response, Status> {
        let accepted = accept(&call.headers, &call.query, &[Transform::PartialObjectMetadataList])?;
        let options = delete_options(call)?;
        let which = ListOptions::parse(&call.query)?;
        let mut context = context(call, None);
        context.dry_run = options.dry_run;
        let listing =
            self.registry.delete_collection(&context, resource, namespace(request), &which, &options).await?;
        Ok(list(call, resource, &listing, &accepted))
    }
}

fn object(body: Body) -> Result<Body, Status> {
    if body.object.is_object() { Ok(body) } else { Err(Status::bad_request("the patch must be an object")) }
}

fn delete_options(call: &Call) -> Result<DeleteOptions, Status> {
    if call.body.is_empty() {
        DeleteOptions::parse(&call.query)
    } else {
        let body = decode::object_of(&call.headers, &call.body, "DeleteOptions")?;
        DeleteOptions::from_body(&body.object, &call.query)
    }
}

fn written_answer(call: &Call, resource: &Resource, written: Written) -> Result<Response, Status> {
    for warning in written.warnings {
        call.warnings.add(warning);
    }
    let transforms = [Transform::Table, Transform::PartialObjectMetadata];
    let accepted = accept(&call.headers, &call.query, &transforms)?;
    let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(single(code, call, resource, &written.object, &accepted))
}
