use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::subresource_body;
use crate::preview::is_zero;
use crate::{HistoryEntry, schema};

/// What `GET …/releases/<name>/history` answers: the revisions, newest first; with `?revision=N` that one alone, with its
/// manifests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseHistory {
    /// The revision that was last delivered, or tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<i64>,
    /// The revisions, newest first.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub revisions: Vec<HistoryEntry>,
    /// The objects of the revision that was asked for, as they were rendered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub manifests: Vec<HistoryManifest>,
    /// What else is worth knowing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub remarks: Vec<String>,
    /// How many manifests were left out to keep the answer short.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_manifests: i64,
}

/// One object of a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryManifest {
    /// The file or template that it comes from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Whether it is a chart's hook.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hook: bool,
    /// The object as YAML. What is secret is hidden: it is for people, and not to be applied.
    pub text: String,
}

impl ReleaseHistory {
    /// The kind.
    pub const KIND: &'static str = "ReleaseHistory";
    /// The subresource of releases.
    pub const SUBRESOURCE: &'static str = "history";

    /// The structural schema of the whole answer.
    pub fn schema() -> Value {
        let mut whole = schema::structural::<Self>();
        whole["description"] = "A ReleaseHistory says what was delivered of a Release.".into();
        whole
    }

    /// The whole answer for the Release of a name.
    pub fn body(&self, namespace: &str, name: &str) -> Value {
        subresource_body(Self::KIND, self, namespace, name)
    }

    /// All texts that may quote what is in an object, to be masked.
    pub fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let messages = self.revisions.iter_mut().map(|entry| &mut entry.message);
        let manifests =
            self.manifests.iter_mut().flat_map(|manifest| [&mut manifest.source, &mut manifest.text]);
        messages.chain(manifests).chain(self.remarks.iter_mut())
    }
}
