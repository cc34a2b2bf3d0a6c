//! metav1.Status: every answer of an API server that is not an object.
//!
//! Texts, codes and details are those of `k8s.io/apimachinery/pkg/api/errors`, because clients and
//! people match on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field_error::{FieldError, go_quote};
use crate::gvk::{GroupKind, GroupResource};

/// Why a request failed, as a word for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No reason was given.
    Unknown,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 409: an object of that name exists.
    AlreadyExists,
    /// 409: the object changed, or another field manager owns the field.
    Conflict,
    /// 410: it was there once.
    Gone,
    /// 422: the object is not valid.
    Invalid,
    /// 500: try again later.
    ServerTimeout,
    /// 504.
    Timeout,
    /// 429.
    TooManyRequests,
    /// 400.
    BadRequest,
    /// 405.
    MethodNotAllowed,
    /// 406.
    NotAcceptable,
    /// 413.
    RequestEntityTooLarge,
    /// 415.
    UnsupportedMediaType,
    /// 500.
    InternalError,
    /// 410: the resource version or continue token is too old.
    Expired,
    /// 503.
    ServiceUnavailable,
}

const REASONS: [(Reason, &str, u16); 19] = [
    (Reason::Unknown, "", 500),
    (Reason::Unauthorized, "Unauthorized", 401),
    (Reason::Forbidden, "Forbidden", 403),
    (Reason::NotFound, "NotFound", 404),
    (Reason::AlreadyExists, "AlreadyExists", 409),
    (Reason::Conflict, "Conflict", 409),
    (Reason::Gone, "Gone", 410),
    (Reason::Invalid, "Invalid", 422),
    (Reason::ServerTimeout, "ServerTimeout", 500),
    (Reason::Timeout, "Timeout", 504),
    (Reason::TooManyRequests, "TooManyRequests", 429),
    (Reason::BadRequest, "BadRequest", 400),
    (Reason::MethodNotAllowed, "MethodNotAllowed", 405),
    (Reason::NotAcceptable, "NotAcceptable", 406),
    (Reason::RequestEntityTooLarge, "RequestEntityTooLarge", 413),
    (Reason::UnsupportedMediaType, "UnsupportedMediaType", 415),
    (Reason::InternalError, "InternalError", 500),
    (Reason::Expired, "Expired", 410),
    (Reason::ServiceUnavailable, "ServiceUnavailable", 503),
];

impl Reason {
    /// As written in a Status; empty for [`Reason::Unknown`].
    pub fn as_str(self) -> &'static str {
        REASONS.iter().find(|(reason, ..)| *reason == self).map_or("", |(_, text, _)| text)
    }

    /// The HTTP status that goes with it.
    pub fn code(self) -> u16 {
        REASONS.iter().find(|(reason, ..)| *reason == self).map_or(500, |(.., code)| *code)
    }

    /// Reads it; a word this version does not know is [`Reason::Unknown`].
    pub fn parse(text: &str) -> Self {
        REASONS.iter().find(|(_, word, _)| *word == text).map_or(Self::Unknown, |(reason, ..)| *reason)
    }
}

/// One detail of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCause {
    /// A word such as `FieldValueRequired`, `FieldManagerConflict`, `ResourceVersionTooLarge`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What to tell a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field it is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// What a Status is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of the resource or kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource, or for [`Status::invalid`] the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// When to try again; 0 says nothing.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The part of a Status that pages (an expired list) use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusMetadata {
    /// A token to go on with, at the price of consistency, after a list expired.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// The store's revision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// metav1.Status. As an error it prints its message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct Status {
    /// Whether it says `Success`.
    pub success: bool,
    /// What to tell a person.
    pub message: String,
    /// The word for programs as written; see [`Status::reason`].
    pub reason_text: String,
    /// What it is about.
    pub details: Option<Box<StatusDetails>>,
    /// For pages of a list that expired.
    pub metadata: Option<Box<StatusMetadata>>,
    /// The HTTP status, 0 when not given.
    pub code: u16,
}

/// A Status as it is written. Kept apart so that the error type stays small.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    kind: String,
    api_version: String,
    metadata: StatusMetadata,
    status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Box<StatusDetails>>,
    #[serde(skip_serializing_if = "is_zero_code")]
    code: u16,
}

fn is_zero_code(code: &u16) -> bool {
    *code == 0
}

impl Default for Wire {
    fn default() -> Self {
        Status::default().into()
    }
}

impl From<Status> for Wire {
    fn from(status: Status) -> Self {
        Self {
            kind: "Status".into(),
            api_version: "v1".into(),
            metadata: status.metadata.map(|metadata| *metadata).unwrap_or_default(),
            status: if status.success { "Success" } else { "Failure" }.into(),
            message: status.message,
            reason: status.reason_text,
            details: status.details,
            code: status.code,
        }
    }
}

impl From<Wire> for Status {
    fn from(wire: Wire) -> Self {
        let metadata = (wire.metadata != StatusMetadata::default()).then(|| Box::new(wire.metadata));
        Self {
            success: wire.status == "Success",
            message: wire.message,
            reason_text: wire.reason,
            details: wire.details,
            metadata,
            code: wire.code,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

fn resource_details(resource: &GroupResource, name: &str) -> StatusDetails {
    StatusDetails {
        name: name.into(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..StatusDetails::default()
    }
}

impl Status {
    /// A failure with the code of its reason and no details.
    pub fn failure(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            reason_text: reason.as_str().into(),
            code: reason.code(),
            ..Self::default()
        }
    }

    /// The same with other details.
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The reason as a word.
    pub fn reason(&self) -> Reason {
        Reason::parse(&self.reason_text)
    }

    /// What a finished deletion answers: `Success` with the name and uid of what is gone.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let mut details = resource_details(resource, name);
        details.uid = uid.into();
        Self { success: true, ..Self::default() }.with_details(details)
    }

    /// `Success` with nothing to say.
    pub fn success() -> Self {
        Self { success: true, code: 200, ..Self::default() }
    }

    /// 404 `pods "a" not found`.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(Reason::NotFound, format!("{resource} {} not found", go_quote(name)))
            .with_details(resource_details(resource, name))
    }

    /// 404 for a path that no resource serves, as client libraries expect it.
    pub fn unknown_resource() -> Self {
        Self::failure(Reason::NotFound, "the server could not find the requested resource")
            .with_details(StatusDetails::default())
    }

    /// 409 `pods "a" already exists`.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(Reason::AlreadyExists, format!("{resource} {} already exists", go_quote(name)))
            .with_details(resource_details(resource, name))
    }

    /// 409 after a generated name was taken, too.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after_seconds: u32) -> Self {
        let mut details = resource_details(resource, name);
        details.retry_after_seconds = retry_after_seconds;
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            go_quote(name)
        );
        Self::failure(Reason::AlreadyExists, message).with_details(details)
    }

    /// 409 `Operation cannot be fulfilled on pods "a": <why>`.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", go_quote(name));
        Self::failure(Reason::Conflict, message).with_details(resource_details(resource, name))
    }

    /// 409 of an optimistic update that lost: the object was modified meanwhile.
    pub fn stale(resource: &GroupResource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 409 of a server-side apply that met fields of other managers.
    pub fn apply_conflict(causes: Vec<StatusCause>, message: impl Into<String>) -> Self {
        Self::failure(Reason::Conflict, message)
            .with_details(StatusDetails { causes, ..StatusDetails::default() })
    }

    /// 422 `Kind.group "name" is invalid: …` with one cause for each error.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let mut message = format!("{kind} {} is invalid", go_quote(name));
        match texts.as_slice() {
            [] => {}
            [one] => message.push_str(&format!(": {one}")),
            many => message.push_str(&format!(": [{}]", many.join(", "))),
        }
        let causes = errors
            .iter()
            .map(|error| StatusCause {
                reason: error.kind.reason().into(),
                message: error.body(),
                field: error.path.clone(),
            })
            .collect();
        Self::failure(Reason::Invalid, message).with_details(StatusDetails {
            name: name.into(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes,
            ..StatusDetails::default()
        })
    }

    /// 400 with a message of its own.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(Reason::BadRequest, message)
    }

    /// 401 `Unauthorized`.
    pub fn unauthorized() -> Self {
        Self::failure(Reason::Unauthorized, "Unauthorized")
    }

    /// 403 `pods "a" is forbidden: <why>`; without a resource `forbidden: <why>`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = if resource.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", go_quote(name))
        };
        Self::failure(Reason::Forbidden, message).with_details(resource_details(resource, name))
    }

    /// 410: the resource version or the continue token is too old; list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(Reason::Expired, message)
    }

    /// 410 of a list or watch from a revision that was compacted away.
    pub fn too_old_resource_version(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// 504 `Timeout: <message>`.
    pub fn timeout(message: impl fmt::Display, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::Timeout, format!("Timeout: {message}"))
            .with_details(StatusDetails { retry_after_seconds, ..StatusDetails::default() })
    }

    /// 504 of a read at a revision that the store has not reached.
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let text = format!("Too large resource version: {asked}, current: {current}");
        let cause = StatusCause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        };
        Self::failure(Reason::Timeout, format!("Timeout: {text}")).with_details(StatusDetails {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..StatusDetails::default()
        })
    }

    /// Whether it is the answer of [`Status::too_large_resource_version`].
    pub fn is_too_large_resource_version(&self) -> bool {
        let causes = self.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
        self.reason() == Reason::Timeout && causes.iter().any(|c| c.reason == "ResourceVersionTooLarge")
    }

    /// 405 `<action> is not supported on resources of kind "pods"`.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind {}", go_quote(&resource.to_string()));
        Self::failure(Reason::MethodNotAllowed, message).with_details(resource_details(resource, ""))
    }

    /// 405 for a method that a path does not take.
    pub fn method_not_allowed() -> Self {
        Self::failure(
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        )
        .with_details(StatusDetails::default())
    }

    /// 406: none of the media types the client accepts is served.
    pub fn not_acceptable(served: &[&str]) -> Self {
        let list = served.join(", ");
        let message = format!("406: Not Acceptable\n\nAvailable representations: {list}");
        Self::failure(Reason::NotAcceptable, message).with_details(StatusDetails::default())
    }

    /// 415: the body's media type is not understood.
    pub fn unsupported_media_type(understood: &[&str]) -> Self {
        let list = understood.join(", ");
        Self::failure(
            Reason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {list}"
            ),
        )
    }

    /// 413 `Request entity too large: <message>`.
    pub fn request_entity_too_large(message: impl fmt::Display) -> Self {
        Self::failure(Reason::RequestEntityTooLarge, format!("Request entity too large: {message}"))
    }

    /// 429 with the seconds to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::TooManyRequests, message)
            .with_details(StatusDetails { retry_after_seconds, ..StatusDetails::default() })
    }

    /// 500 `Internal error occurred: <why>`.
    pub fn internal(why: impl fmt::Display) -> Self {
        let cause = StatusCause { message: why.to_string(), ..StatusCause::default() };
        Self::failure(Reason::InternalError, format!("Internal error occurred: {why}"))
            .with_details(StatusDetails { causes: vec![cause], ..StatusDetails::default() })
    }

    /// 503 with a message of its own.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(Reason::ServiceUnavailable, message)
    }

    /// 500 `ServerTimeout`: the operation did not finish; the same request may succeed later.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: u32) -> Self {
        let mut details = resource_details(resource, operation);
        details.retry_after_seconds = retry_after_seconds;
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::failure(Reason::ServerTimeout, message).with_details(details)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn not_found_is_the_json_that_kubectl_reads() {
        let status = Status::not_found(&GroupResource::new("convoy.kumodo.io", "releases"), "x");
        let written = serde_json::to_value(&status).unwrap();
        assert_eq!(serde_json::from_value::<Status>(written.clone()).unwrap(), status);
        assert_eq!(
            written,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "releases.convoy.kumodo.io \"x\" not found", "reason": "NotFound",
                "details": {"name": "x", "group": "convoy.kumodo.io", "kind": "releases"}, "code": 404
            })
        );
    }

    #[test]
    fn invalid_names_every_cause_and_joins_the_texts() {
        let errors = [FieldError::required("spec.a", ""), FieldError::invalid("spec.b", "x", "no")];
        let status = Status::invalid(&GroupKind::new("g.io", "Kind"), "n", &errors);
        assert_eq!(
            status.message,
            "Kind.g.io \"n\" is invalid: [spec.a: Required value, spec.b: Invalid value: \"x\": no]"
        );
        let details = status.details.unwrap();
        assert_eq!(details.causes[1].reason, "FieldValueInvalid");
        assert_eq!(details.causes[1].field, "spec.b");
        assert_eq!((status.code, status.reason_text.as_str()), (422, "Invalid"));
    }

    #[test]
    fn a_future_resource_version_is_a_timeout_with_a_cause() {
        let status = Status::too_large_resource_version(9, 5);
        assert_eq!(status.message, "Timeout: Too large resource version: 9, current: 5");
        assert!(status.is_too_large_resource_version());
        assert_eq!(status.code, 504);
        assert!(!Status::timeout("x", 1).is_too_large_resource_version());
    }

    #[test]
    fn every_reason_reads_back() {
        for (reason, text, code) in REASONS {
            assert_eq!(Reason::parse(text), reason);
            assert_eq!(reason.code(), code);
        }
        assert_eq!(Reason::parse("FromTheFuture"), Reason::Unknown);
    }

    #[test]
    fn forbidden_says_what_and_why() {
        let pods = GroupResource::new("", "pods");
        assert_eq!(Status::forbidden(&pods, "a", "no").message, "pods \"a\" is forbidden: no");
        assert_eq!(Status::forbidden(&pods, "", "no").message, "pods is forbidden: no");
        assert_eq!(Status::forbidden(&GroupResource::default(), "", "no").message, "forbidden: no");
    }
}
