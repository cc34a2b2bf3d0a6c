//! `POST …/releases/<name>/rollback`: a Release goes back to an earlier revision.
//!
//! The request is kept as an annotation, bound to the spec and the source's bundle that it was made for. Whoever
//! may create `releases/rollback` needs no right to change the Release itself.

use std::sync::Arc;

use async_trait::async_trait;
use convoy_api::{
    GROUP, Release, ReleaseRollback, ReleaseStatus, RollbackRequest, VERSION, annotation,
    decode as decode_release,
};
use convoy_meta::{
    CreateOptions, FieldError, GetOptions, GroupKind, GroupResource, GroupVersionKind, Object as _, Reason,
    Status,
};
use convoy_registry::{Patch, Registry, Resource, Subresource, Verb};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::call::Call;
use crate::decode;
use crate::handlers::{Api, Connect, context};
use crate::negotiation::accept;
use crate::response::{self, Response};

/// How often a request that lost a race is made anew.
const ATTEMPTS: usize = 5;

/// Serves the subresource.
pub fn serve(api: Api) -> Api {
    let registry = Arc::clone(api.registry());
    api.connect(
        GroupResource::new(GROUP, Release::PLURAL),
        ReleaseRollback::SUBRESOURCE,
        Arc::new(Rollback { registry }),
    )
}

/// What discovery says of it.
pub(super) fn subresource() -> Subresource {
    Subresource {
        name: ReleaseRollback::SUBRESOURCE.to_owned(),
        kind: Some(gvk()),
        verbs: vec![Verb::Create],
    }
}

fn gvk() -> GroupVersionKind {
    GroupVersionKind {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        kind: ReleaseRollback::KIND.to_owned(),
    }
}

#[derive(Debug)]
struct Rollback {
    registry: Arc<Registry>,
}

#[async_trait]
impl Connect for Rollback {
    async fn connect(&self, call: &Call, resource: &Resource) -> Response {
        let accepted = accept(&call.headers, &call.query, &[]).unwrap_or_default();
        match self.answer(call, resource).await {
            Ok(answer) => response::value(StatusCode::CREATED, &answer, &accepted),
            Err(status) => response::status(&status, &accepted),
        }
    }
}

fn invalid(name: &str, error: FieldError) -> Status {
    Status::invalid(&GroupKind::new(GROUP, ReleaseRollback::KIND), name, &[error])
}

/// Reads the body; an unknown field would be a wish that is not heard.
fn asked_for(call: &Call, name: &str) -> Result<Option<i64>, Status> {
    let body = decode::object_of(&call.headers, &call.body, ReleaseRollback::KIND)?.object;
    let gvk = gvk();
    let is_foreign = |found: &str, own: &str| !found.is_empty() && found != own;
    if is_foreign(body.kind(), &gvk.kind) || is_foreign(body.api_version(), &gvk.api_version()) {
        return Err(Status::bad_request(format!("the body of the request must be a {}", gvk.kind)));
    }
    if is_foreign(body.name(), name) {
        let message =
            format!("the name of the object ({}) does not match the name on the URL ({name})", body.name());
        return Err(Status::bad_request(message));
    }
    let known = ["apiVersion", "kind", "metadata", "revision", "sourceRevision"];
    let fields = body.as_object().into_iter().flatten();
    if let Some((unknown, _)) = fields.clone().find(|(field, _)| !known.contains(&field.as_str())) {
        return Err(Status::bad_request(format!("strict decoding error: unknown field {unknown:?}")));
    }
    match body.get("revision") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_i64().filter(|revision| *revision > 0) {
            Some(revision) => Ok(Some(revision)),
            None => {
                let detail = "must be a number from status.history, from 1 on";
                Err(invalid(name, FieldError::invalid("revision", value.clone(), detail)))
            }
        },
    }
}

/// The revision to go back to, with its revision of the source; or why there is none.
fn choose(release: &Release, name: &str, asked: Option<i64>) -> Result<ReleaseRollback, Status> {
    let status = release.status.clone().unwrap_or_default();
    let known: Vec<String> = status.history.iter().map(|entry| entry.revision.to_string()).collect();
    let known = known.join(", ");
    let entry = match asked {
        Some(asked) => {
            let found = status.history.iter().find(|entry| entry.revision == asked);
            let detail = if known.is_empty() {
                "nothing was delivered yet".to_owned()
            } else {
                format!("is not in the history, which has {known}")
            };
            found.ok_or_else(|| invalid(name, FieldError::invalid("revision", asked, detail)))?
        }
        None => status.last_healthy_before().ok_or_else(|| {
            let detail = if known.is_empty() {
                "nothing was delivered yet".to_owned()
            } else {
                format!("there is no healthy revision before the current one; name one of {known}")
            };
            invalid(name, FieldError::required("revision", detail))
        })?,
    };
    if status.history.first().is_some_and(|newest| newest.revision == entry.revision) {
        let detail = "is the current revision already";
        return Err(invalid(name, FieldError::invalid("revision", entry.revision, detail)));
    }
    Ok(ReleaseRollback { revision: Some(entry.revision), source_revision: entry.source_revision.clone() })
}

/// The bundle that the source gave last, as far as the status says.
fn given(status: &ReleaseStatus) -> String {
    if let Some(rollback) = &status.rollback {
        return rollback.instead_of.clone();
    }
    let newest = status.history.first().filter(|newest| newest.rollback_to.is_none());
    newest.map(|newest| newest.bundle_digest.clone()).unwrap_or_default()
}

impl Rollback {
    async fn answer(&self, call: &Call, resource: &Resource) -> Result<Value, Status> {
        let request = call.resource();
        if call.method != Method::POST || !request.in_namespace || !request.rest.is_empty() {
            return Err(Status::method_not_allowed());
        }
        let (namespace, name) = (request.namespace.as_str(), request.name.as_str());
        let options = CreateOptions::parse(&call.query)?;
        let asked = asked_for(call, name)?;
        let mut context = context(call, options.field_manager.as_ref());
        context.dry_run = options.dry_run;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let current = self.registry.get(resource, namespace, name, &GetOptions::default()).await?;
            let object = current.to_value();
            let release: Release = decode_release(&object).map_err(Status::internal)?;
            if release.metadata.deletion_timestamp.is_some() {
                let why = "the Release is being deleted";
                return Err(Status::conflict(&resource.group_resource(), name, why));
            }
            if release.spec.is_suspended() {
                let why = "the Release is suspended, and resuming it would end the rollback; resume it first";
                return Err(Status::conflict(&resource.group_resource(), name, why));
            }
            let chosen = choose(&release, name, asked)?;
            let kept = RollbackRequest {
                revision: chosen.revision.unwrap_or_default(),
                generation: release.metadata.generation.unwrap_or_default(),
                instead_of: release.status.as_ref().map(given).unwrap_or_default(),
                requested_at: call.now,
            };
            let text = serde_json::to_string(&kept).map_err(Status::internal)?;
            let patch = json!({"metadata": {
                "resourceVersion": object.resource_version(), "annotations": {annotation::ROLLBACK: text},
            }});
            let written = self
                .registry
                .patch(&context, resource, namespace, name, "", &Patch::Merge(patch.into()))
                .await;
            match written {
                Ok(_) => return Ok(chosen.body(namespace, name)),
                Err(status) if status.reason() == Reason::Conflict => last = Some(status),
                Err(status) => return Err(status),
            }
        }
        Err(last.unwrap_or_else(|| Status::stale(&resource.group_resource(), name)))
    }
}

#[cfg(test)]
mod tests {
    use convoy_api::{HistoryEntry, Outcome, RollbackStatus};

    use super::*;

    fn release(history: &[(i64, &str, Outcome)]) -> Release {
        let history = history
            .iter()
            .map(|(revision, bundle, outcome)| HistoryEntry {
                revision: *revision,
                bundle_digest: (*bundle).to_owned(),
                source_revision: format!("main@{bundle}"),
                outcome: *outcome,
                ..HistoryEntry::default()
            })
            .collect();
        let status = Some(ReleaseStatus { history, ..ReleaseStatus::default() });
        Release { status, ..Release::default() }
    }

    #[test]
    fn a_rollback_of_a_rollback_stands_for_the_same_bundle_of_the_source() {
        let failed = release(&[(3, "c", Outcome::Failed), (2, "b", Outcome::Succeeded)]);
        let mut status = failed.status.unwrap();
        assert_eq!(given(&status), "c");
        status.history.insert(0, HistoryEntry { rollback_to: Some(2), ..status.history[1].clone() });
        assert_eq!(given(&status), "", "what the source gave since is not known");
        status.rollback =
            Some(Box::new(RollbackStatus { instead_of: "c".to_owned(), ..RollbackStatus::default() }));
        assert_eq!(given(&status), "c");
    }

    #[test]
    fn the_default_is_the_last_healthy_one_before_the_current() {
        use Outcome::{Failed, Succeeded};
        let failed = release(&[(3, "c", Failed), (2, "b", Succeeded), (1, "a", Succeeded)]);
        let chosen = |release: &Release, asked| {
            choose(release, "web", asked)
                .map(|chosen| (chosen.revision.unwrap(), chosen.source_revision))
                .map_err(|status| (status.code, status.message))
        };
        assert_eq!(chosen(&failed, None), Ok((2, "main@b".to_owned())));
        assert_eq!(chosen(&failed, Some(1)), Ok((1, "main@a".to_owned())));
        let rolled_back = release(&[(4, "b", Succeeded), (3, "c", Failed), (2, "b", Succeeded)]);
        assert_eq!(chosen(&rolled_back, Some(3)), Ok((3, "main@c".to_owned())), "back to what failed");
        for (release, asked, said) in [
            (&failed, Some(9), "revision: Invalid value: 9: is not in the history, which has 3, 2, 1"),
            (&failed, Some(3), "revision: Invalid value: 3: is the current revision already"),
            (&rolled_back, None, "there is no healthy revision before the current one; name one of 4, 3, 2"),
            (&release(&[]), None, "revision: Required value: nothing was delivered yet"),
            (&release(&[]), Some(1), "revision: Invalid value: 1: nothing was delivered yet"),
        ] {
            let (code, message) = chosen(release, asked).unwrap_err();
            assert!(code == 422 && message.contains(said), "{code} {message}");
        }
    }
}
