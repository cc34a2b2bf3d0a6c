use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::subresource_body;
use crate::{Outcome, Release, ReleaseStatus, annotation, schema};

/// The body of `POST …/releases/<name>/rollback`, and its answer. It is not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRollback {
    /// The revision in status.history to go back to. Default: the last healthy one before the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub revision: Option<i64>,
    /// In the answer: that revision's revision of the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_revision: String,
}

impl ReleaseRollback {
    /// The kind.
    pub const KIND: &'static str = "ReleaseRollback";
    /// The subresource of releases.
    pub const SUBRESOURCE: &'static str = "rollback";

    /// The structural schema of the whole body.
    pub fn schema() -> Value {
        let mut whole = schema::structural::<Self>();
        whole["description"] = "A ReleaseRollback makes a Release go back to an earlier revision.".into();
        whole
    }

    /// The whole body for the Release of a name.
    pub fn body(&self, namespace: &str, name: &str) -> Value {
        subresource_body(Self::KIND, self, namespace, name)
    }
}

/// What the annotation [`annotation::ROLLBACK`] holds, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RollbackRequest {
    /// The revision in the history to go back to.
    pub revision: i64,
    /// The generation of the spec when it was asked for: another spec ends it.
    pub generation: i64,
    /// Digest of the bundle that the source gave then: another one ends it. Empty when that was not known.
    #[serde(default)]
    pub instead_of: String,
    /// When it was asked for. That makes each request another one.
    pub requested_at: Timestamp,
}

impl RollbackRequest {
    /// The request that a Release carries, and the text of it; what is no request is none.
    pub fn of(release: &Release) -> (Option<&str>, Option<Self>) {
        let annotations = release.metadata.annotations.as_ref();
        let text = annotations.and_then(|all| all.get(annotation::ROLLBACK)).map(String::as_str);
        (text, text.and_then(|text| serde_json::from_str(text).ok()))
    }
}

impl ReleaseStatus {
    /// The last healthy revision that was delivered before the newest one and is another bundle than that.
    pub fn last_healthy_before(&self) -> Option<&crate::HistoryEntry> {
        let (newest, earlier) = self.history.split_first()?;
        earlier
            .iter()
            .find(|entry| entry.outcome == Outcome::Succeeded && entry.bundle_digest != newest.bundle_digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written_and_anything_else_is_none() {
        let request = RollbackRequest {
            revision: 3,
            generation: 7,
            instead_of: "sha256:a".to_owned(),
            requested_at: Timestamp::UNIX_EPOCH,
        };
        let mut release = Release::default();
        assert_eq!(RollbackRequest::of(&release), (None, None));
        let text = serde_json::to_string(&request).unwrap();
        release.metadata.annotations = Some([(annotation::ROLLBACK.to_owned(), text.clone())].into());
        assert_eq!(RollbackRequest::of(&release), (Some(text.as_str()), Some(request)));
        release.metadata.annotations = Some([(annotation::ROLLBACK.to_owned(), "3".to_owned())].into());
        assert_eq!(RollbackRequest::of(&release), (Some("3"), None));
    }

    #[test]
    fn the_last_healthy_revision_is_another_bundle_than_the_newest() {
        let mut status = ReleaseStatus::default();
        assert_eq!(status.last_healthy_before(), None);
        let entry = |revision, bundle: &str, outcome| crate::HistoryEntry {
            revision,
            bundle_digest: bundle.to_owned(),
            outcome,
            ..Default::default()
        };
        status.history = vec![
            entry(5, "b", Outcome::Failed),
            entry(4, "b", Outcome::Succeeded),
            entry(3, "c", Outcome::Failed),
            entry(2, "a", Outcome::Succeeded),
        ];
        assert_eq!(status.last_healthy_before().unwrap().revision, 2);
    }
}
