//! Why a kind cannot be watched, in a reason and in words that may be shown to anybody. Pure.

use std::fmt;

use convoy_api::reason;
use kube::runtime::watcher;

use crate::model::WatchedKind;
use crate::watches::describe;

/// The longest text of a fault, in bytes.
const LONGEST: usize = 256;

/// What webhooks and servers that are called by an API server fail of: pieces of texts that name no content.
const CAUSES: [&str; 14] = [
    "connection refused",
    "connection reset by peer",
    "no such host",
    "no route to host",
    "network is unreachable",
    "i/o timeout",
    "context deadline exceeded",
    "Client.Timeout exceeded",
    "no endpoints available for service",
    "certificate signed by unknown authority",
    "certificate has expired or is not yet valid",
    "certificate is not valid for",
    "x509:",
    "EOF",
];

/// From the worst: a cluster that does not answer says nothing of its kinds.
const WORST_FIRST: [&str; 5] = [
    reason::CLUSTER_UNREACHABLE,
    reason::CLUSTER_UNAUTHORIZED,
    reason::WATCH_FORBIDDEN,
    reason::WATCH_FAILED,
    reason::KIND_NOT_SERVED,
];

/// Why a kind cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl Fault {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: shorten(message.into()) }
    }

    /// What a request about a kind failed of.
    pub(crate) fn of(kind: &WatchedKind, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_answer(kind, status.code, &status.message),
            kube::Error::Discovery(error) => Self::new(reason::KIND_NOT_SERVED, error.to_string()),
            // Its text may quote what cannot be read.
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                Self::new(reason::WATCH_FAILED, "the answer of the target cannot be read")
            }
            other => Self::new(reason::CLUSTER_UNREACHABLE, describe(other)),
        }
    }

    /// What a watch failed of.
    pub(crate) fn of_watch(kind: &WatchedKind, error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::of(kind, error),
            watcher::Error::WatchError(status) => Self::of_answer(kind, status.code, &status.message),
            watcher::Error::NoResourceVersion => {
                Self::new(reason::WATCH_FAILED, "the target's lists have no resourceVersion")
            }
        }
    }

    fn of_answer(kind: &WatchedKind, code: u16, text: &str) -> Self {
        match code {
            401 => {
                Self::new(reason::CLUSTER_UNAUTHORIZED, "the target refuses the identity of the kubeconfig")
            }
            // Made of names alone.
            403 => Self::new(reason::WATCH_FORBIDDEN, text),
            404 => Self::new(reason::KIND_NOT_SERVED, "the target does not serve it"),
            // What an API server says while it cannot read all objects of a kind itself.
            429 if text.contains("storage is (re)initializing") => Self::new(
                reason::WATCH_FAILED,
                "the target cannot read the objects itself (HTTP 429); is the conversion webhook of the kind down?",
            ),
            429 | 503 => Self::new(reason::WATCH_FAILED, format!("the target answers {code}")),
            code => Self::new(reason::WATCH_FAILED, of_error_text(kind, code, text)),
        }
    }

    /// The worst of several reasons.
    pub(crate) fn worst(reasons: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
        let rank = |reason: &&str| WORST_FIRST.iter().position(|known| known == reason);
        reasons.into_iter().min_by_key(rank)
    }
}

/// An error's text may be a webhook's, and quote any object: only who failed is taken from it, and what of when that
/// is known.
fn of_error_text(kind: &WatchedKind, code: u16, text: &str) -> String {
    let who = if text.contains("conversion webhook for ") {
        format!("the conversion webhook of {} fails", kind.kind)
    } else {
        "the target fails".to_owned()
    };
    let why = CAUSES.iter().find(|cause| text.contains(**cause)).map(|cause| cause.trim_end_matches(':'));
    match why {
        Some(why) => format!("{who} (HTTP {code}): {why}"),
        None => format!("{who} (HTTP {code})"),
    }
}

fn shorten(mut text: String) -> String {
    if text.len() > LONGEST {
        let mut end = LONGEST - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn said(code: u16, message: &str) -> String {
        let kind = WatchedKind::new("example.org", "v1", "Widget");
        let status = Status { code, message: message.to_owned(), ..Status::default() };
        Fault::of(&kind, &kube::Error::Api(Box::new(status))).to_string()
    }

    #[test]
    fn each_answer_has_a_reason_and_no_text_that_may_quote_an_object_is_passed_on() {
        let refused = "conversion webhook for example.org/v1, Kind=Widget failed: Post \"https://hook.ns.svc:443/?timeout=30s\": dial tcp 10.0.0.1:443: connect: connection refused";
        let quoting = "conversion webhook for example.org/v1, Kind=Widget failed: spec.password \"hunter2\" is too short";
        let forbidden = "widgets.example.org is forbidden: User \"a\" cannot list resource \"widgets\"";
        for (code, text, want) in [
            (
                500,
                refused,
                "WatchFailed: the conversion webhook of Widget fails (HTTP 500): connection refused",
            ),
            (500, quoting, "WatchFailed: the conversion webhook of Widget fails (HTTP 500)"),
            (500, "etcd: hunter2", "WatchFailed: the target fails (HTTP 500)"),
            (503, "hunter2", "WatchFailed: the target answers 503"),
            (
                429,
                "storage is (re)initializing",
                "WatchFailed: the target cannot read the objects itself (HTTP 429); is the conversion webhook of the kind down?",
            ),
            (401, "hunter2", "ClusterUnauthorized: the target refuses the identity of the kubeconfig"),
            (404, "hunter2", "KindNotServed: the target does not serve it"),
            (403, forbidden, &format!("WatchForbidden: {forbidden}")),
        ] {
            assert_eq!(said(code, text), want);
        }
        assert!(said(403, &"é".repeat(500)).len() < LONGEST + 20);
    }

    #[test]
    fn what_cannot_be_read_is_not_quoted() {
        let kind = WatchedKind::new("", "v1", "Secret");
        let error = serde_json::from_str::<u8>("\"hunter2\"").unwrap_err();
        assert!(error.to_string().contains("hunter2"));
        let fault = Fault::of(&kind, &kube::Error::SerdeError(error));
        assert_eq!(fault.to_string(), "WatchFailed: the answer of the target cannot be read");
    }

    #[test]
    fn a_cluster_that_does_not_answer_is_worse_than_a_kind_that_it_does_not_serve() {
        let worst =
            Fault::worst([reason::KIND_NOT_SERVED, reason::CLUSTER_UNREACHABLE, reason::WATCH_FAILED]);
        assert_eq!((worst, Fault::worst([])), (Some(reason::CLUSTER_UNREACHABLE), None));
    }
}
