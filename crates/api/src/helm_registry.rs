use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::duration::Duration;
use crate::git_repository::{ArtifactStatus, LocalReference};
use crate::object::kind;
use crate::schema;

kind! {
    /// An HTTP(S) Helm repository that Releases take charts from.
    HelmRegistry, "helmregistries", "helmregistry", spec: HelmRegistrySpec, status: HelmRegistryStatus
}

/// Where the repository is, and how often to look at its index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmRegistrySpec {
    /// Where the repository is: the folder of its index.yaml, as https://host/path or http://host/path.
    /// Credentials belong into the Secret that secretRef names, not here.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://"))]
    pub url: String,
    /// A Secret in the same namespace with username and password, or bearerToken, and optionally ca.crt, and
    /// tls.crt with tls.key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Send the credentials also to other hosts that the index names for its charts. They never go along with
    /// a redirect to another host. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_credentials: Option<bool>,
    /// How often to look at the index. Default: 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// How long one download may take. Default: 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Stop looking at the index and downloading charts; Releases keep the charts that they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// What convoy last saw of a Helm repository.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmRegistryStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// sha256 of the index as the repository served it, as sha256:<hex>.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_digest: Option<String>,
    /// Number of charts in the index, each counted once whatever its number of versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charts: Option<i64>,
    /// What convoy keeps of the index in the render store. It stays when a later look fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactStatus>,
    /// The value of the annotation convoy.kumodo.io/reconcile-at that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}
