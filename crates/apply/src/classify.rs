//! What a failed request to a target means.

use std::fmt;
use std::time::Duration;

use convoy_plan::ObjectKey;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::scrub::{scrub, shorten};

/// What is to be done about a failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// The target does not answer: no connection, no TLS, no answer in time.
    Unreachable,
    /// The target does not know who we are.
    Unauthorized,
    /// The target asks for fewer requests.
    Throttled {
        /// After how long to come back, when it says so.
        retry_after: Option<Duration>,
    },
    /// The target has a passing trouble: a server fault, a webhook that does not answer.
    Transient,
    /// What is asked for is not allowed to us; it may be allowed later.
    Forbidden,
    /// A policy of the target said no: a webhook, a quota.
    Denied,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The namespace does not exist.
    NamespaceMissing,
    /// The target does not serve the kind (any more, or yet).
    KindUnknown,
    /// The object does not exist.
    NotFound,
    /// Another field manager owns fields.
    FieldConflict,
    /// The object is not the one that was meant: it was deleted and made anew, or changed.
    Precondition,
    /// The object of the uid that an apply names is not there: it was deleted, or deleted and made anew.
    UidMismatch,
    /// The object is not valid; only another revision can mend it. True when a field would have had
    /// to stay as it was.
    Invalid {
        /// Whether the object would be valid if it were new.
        immutable: bool,
    },
    /// This replica does not own the cluster any more.
    NotOwner,
}

impl Class {
    /// Whether every other request to the target will fare the same, so that it is no use to go on.
    pub fn concerns_the_whole_target(&self) -> bool {
        matches!(self, Class::Unreachable | Class::Unauthorized | Class::Throttled { .. } | Class::NotOwner)
    }

    /// Whether the target may have done what was asked, or may still do it, although the request failed.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Class::Unreachable | Class::Transient | Class::NotOwner)
    }

    /// Whether only another revision can mend it.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Class::Invalid { .. })
    }

    /// Whether to try again slowly: someone has to act on the target first.
    pub fn is_slow(&self) -> bool {
        matches!(
            self,
            Class::Forbidden
                | Class::Denied
                | Class::NamespaceTerminating
                | Class::NamespaceMissing
                | Class::KindUnknown
                | Class::FieldConflict
                | Class::Unauthorized
        )
    }
}

/// A request to a target that failed. Its text holds no content of Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// What it means.
    pub class: Class,
    /// The HTTP status; 0 when there was no answer.
    pub code: u16,
    /// The server's words, or ours when it had none.
    pub message: String,
    /// The fields that the server names.
    pub fields: Vec<String>,
}

impl std::error::Error for RequestError {}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            0 => f.write_str(&self.message),
            code => write!(f, "{} ({code})", self.message),
        }
    }
}

/// Several objects' errors in one text: the first few in full, the number of the rest.
#[derive(Debug)]
pub struct RequestErrors<'a>(pub &'a [(ObjectKey, RequestError)]);

impl fmt::Display for RequestErrors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        for (index, (key, error)) in self.0.iter().take(SHOWN).enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{key}: {error}")?;
        }
        if self.0.len() > SHOWN {
            write!(f, "; and {} more", self.0.len() - SHOWN)?;
        }
        Ok(())
    }
}

impl RequestError {
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, code: 0, message: message.into(), fields: Vec::new() }
    }

    /// The error of a request that got no answer.
    pub(crate) fn of_transport(error: &kube::Error) -> Self {
        let mut causes = vec![error.to_string()];
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        // The outer layers only say that a request failed.
        let innermost = causes.pop().unwrap_or_default();
        let message = if innermost == "request timed out" || innermost.contains("deadline has elapsed") {
            "the target did not answer in time; check the network, and the server in the Cluster's kubeconfig"
                .to_owned()
        } else {
            format!(
                "the target cannot be reached: {}; check the network, and the server in the Cluster's kubeconfig",
                shorten(&innermost)
            )
        };
        Self::new(Class::Unreachable, message)
    }

    /// The error of an answer whose status is no success. `key` is the object that was asked about.
    pub(crate) fn of_answer(
        code: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        key: Option<&ObjectKey>,
    ) -> Self {
        let status: Option<Value> =
            serde_json::from_slice(body).ok().filter(|value: &Value| value["kind"] == "Status");
        let text = match &status {
            Some(status) => status["message"].as_str().unwrap_or_default().to_owned(),
            None => String::from_utf8_lossy(body).trim().to_owned(),
        };
        let status = status.unwrap_or(Value::Null);
        let causes = status["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
        let cause_of = |reason: &str| causes.iter().any(|cause| cause["reason"] == reason);
        let class = match code.as_u16() {
            401 => Class::Unauthorized,
            403 if cause_of("NamespaceTerminating") => Class::NamespaceTerminating,
            403 if text.contains("exceeded quota") || text.contains("denied the request") => Class::Denied,
            403 => Class::Forbidden,
            404 if status.is_null() => Class::KindUnknown,
            404 if status["details"]["kind"] == "namespaces"
                && key.is_some_and(|key| key.kind != "Namespace") =>
            {
                Class::NamespaceMissing
            }
            // convoy's own servers and aggregated ones answer an unknown kind with a Status.
            404 if text.contains("could not find the requested resource") => Class::KindUnknown,
            404 => Class::NotFound,
            409 if text.contains("uid mismatch:") => Class::UidMismatch,
            409 if cause_of("FieldManagerConflict") => Class::FieldConflict,
            409 => Class::Precondition,
            400 if text.contains("denied the request") => Class::Denied,
            // Another object of the name is there.
            422 if causes.iter().any(|cause| cause["field"] == "metadata.uid") => Class::UidMismatch,
            422 => Class::Invalid { immutable: is_about_immutability(&text) },
            400 | 405 | 406 | 413 | 415 => Class::Invalid { immutable: false },
            429 => Class::Throttled { retry_after: retry_after(headers, &status) },
            // Server-side apply reports faults of the manifest in this way.
            500 if text.starts_with("failed to create typed patch object")
                || text.starts_with("failed to convert new object") =>
            {
                Class::Invalid { immutable: false }
            }
            _ => Class::Transient,
        };
        let fields =
            causes.iter().filter_map(|cause| cause["field"].as_str()).take(16).map(str::to_owned).collect();
        let message = match (text.as_str(), &class) {
            ("" | "404 page not found", Class::KindUnknown) => {
                "the target does not serve this kind".to_owned()
            }
            ("", _) => format!("the target answered {code} without a word"),
            _ => scrub(key, &text),
        };
        Self { class, code: code.as_u16(), message, fields }
    }
}

/// Whether a refusal is one of a change: the same object would be taken if it were new.
fn is_about_immutability(text: &str) -> bool {
    text.contains("immutable")
        || text.contains("updates to statefulset spec for fields other than")
        || text.contains("may not change once set")
        || text.contains("cannot change roleRef")
}

fn retry_after(headers: &HeaderMap, status: &Value) -> Option<Duration> {
    let header = headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let seconds: u64 = header.or_else(|| status["details"]["retryAfterSeconds"].as_u64())?;
    Some(Duration::from_secs(seconds.min(300)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(kind: &str) -> ObjectKey {
        ObjectKey { group: String::new(), kind: kind.into(), namespace: "web".into(), name: "x".into() }
    }

    fn class(code: u16, body: &Value, kind: &str) -> Class {
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let code = StatusCode::from_u16(code).unwrap();
        RequestError::of_answer(code, &HeaderMap::new(), body.as_bytes(), Some(&key(kind))).class
    }

    fn status(reason: &str, message: &str, causes: &Value) -> Value {
        json!({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "details": {"causes": causes}})
    }

    /// The texts are those of kube-apiserver 1.36.
    #[test]
    fn answers_are_told_apart_as_a_real_api_server_words_them() {
        let none = json!([]);
        let table = [
            (
                422,
                status(
                    "Invalid",
                    "Deployment.apps \"web\" is invalid: spec.selector: Invalid value: {}: field is immutable",
                    &none,
                ),
                Class::Invalid { immutable: true },
            ),
            (
                422,
                status(
                    "Invalid",
                    "StatefulSet.apps \"db\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
                    &none,
                ),
                Class::Invalid { immutable: true },
            ),
            (
                422,
                status(
                    "Invalid",
                    "ConfigMap \"huge\" is invalid: []: Too long: may not be more than 1048576 bytes",
                    &none,
                ),
                Class::Invalid { immutable: false },
            ),
            (
                413,
                status("RequestEntityTooLarge", "Request entity too large: limit is 3145728", &none),
                Class::Invalid { immutable: false },
            ),
            (
                500,
                status(
                    "",
                    "failed to create typed patch object (/web; apps/v1, Kind=Deployment): .spec.template.spec.volumes: duplicate entries for key [name=\"v\"]",
                    &none,
                ),
                Class::Invalid { immutable: false },
            ),
            (
                500,
                status(
                    "InternalError",
                    "Internal error occurred: failed calling webhook \"w\": no endpoints available",
                    &none,
                ),
                Class::Transient,
            ),
            (404, json!("404 page not found\n"), Class::KindUnknown),
            (404, status("NotFound", "configmaps \"x\" not found", &none), Class::NotFound),
            (
                404,
                json!({"kind": "Status", "reason": "NotFound", "message": "namespaces \"web\" not found", "details": {"name": "web", "kind": "namespaces"}}),
                Class::NamespaceMissing,
            ),
            (
                403,
                status(
                    "Forbidden",
                    "configmaps \"fresh\" is forbidden: unable to create new content in namespace cb109 because it is being terminated",
                    &json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]),
                ),
                Class::NamespaceTerminating,
            ),
            (
                403,
                status(
                    "Forbidden",
                    "configmaps \"c\" is forbidden: User \"u\" cannot patch resource \"configmaps\"",
                    &none,
                ),
                Class::Forbidden,
            ),
            (
                403,
                status(
                    "Forbidden",
                    "pods \"p\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
                    &none,
                ),
                Class::Denied,
            ),
            (
                403,
                status("Forbidden", "admission webhook \"w\" denied the request: no", &none),
                Class::Denied,
            ),
            (
                409,
                status(
                    "Conflict",
                    "Operation cannot be fulfilled on ConfigMap \"c\": the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted and then recreated",
                    &none,
                ),
                Class::Precondition,
            ),
            (
                409,
                status(
                    "Conflict",
                    "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using apps/v1: .spec.replicas",
                    &json!([{"reason": "FieldManagerConflict", "field": ".spec.replicas"}]),
                ),
                Class::FieldConflict,
            ),
            (
                409,
                status(
                    "Conflict",
                    "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid another, and no existing object was found",
                    &none,
                ),
                Class::UidMismatch,
            ),
            (
                422,
                status(
                    "Invalid",
                    "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"another\": field is immutable",
                    &json!([{"reason": "FieldValueInvalid", "field": "metadata.uid"}]),
                ),
                Class::UidMismatch,
            ),
            (401, status("Unauthorized", "Unauthorized", &none), Class::Unauthorized),
            (503, json!("upstream connect error"), Class::Transient),
        ];
        for (code, body, want) in table {
            assert_eq!(class(code, &body, "ConfigMap"), want, "{code} {body}");
        }
        assert_eq!(
            class(
                404,
                &json!({"kind": "Status", "reason": "NotFound", "message": "namespaces \"x\" not found", "details": {"kind": "namespaces"}}),
                "Namespace"
            ),
            Class::NotFound
        );
    }

    #[test]
    fn a_throttled_answer_says_when_to_come_back() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "7".parse().unwrap());
        let error = RequestError::of_answer(StatusCode::TOO_MANY_REQUESTS, &headers, b"", None);
        assert_eq!(error.class, Class::Throttled { retry_after: Some(Duration::from_secs(7)) });
    }

    #[test]
    fn the_fields_that_the_server_names_are_kept() {
        let body = status("Invalid", "x", &json!([{"field": "spec.selector"}, {"field": "spec.replicas"}]))
            .to_string();
        let error = RequestError::of_answer(
            StatusCode::UNPROCESSABLE_ENTITY,
            &HeaderMap::new(),
            body.as_bytes(),
            None,
        );
        assert_eq!(error.fields, ["spec.selector", "spec.replicas"]);
        assert_eq!(error.to_string(), "x (422)");
    }
}
