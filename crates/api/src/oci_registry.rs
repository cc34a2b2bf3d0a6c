use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::duration::Duration;
use crate::git_repository::LocalReference;
use crate::object::kind;
use crate::schema;

kind! {
    /// An OCI registry that Releases take charts and manifests from.
    OCIRegistry, "ociregistries", "ociregistry", spec: OCIRegistrySpec, status: OCIRegistryStatus
}

/// Where the registry is, and how to log in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OCIRegistrySpec {
    /// Where the registry is: oci://host or oci://host/prefix. Repositories of Releases are below the prefix.
    /// Credentials belong into the Secret that secretRef names, not here.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^oci://"))]
    pub url: String,
    /// A Secret in the same namespace: of the type kubernetes.io/dockerconfigjson, or with username and
    /// password, or bearerToken; and optionally ca.crt, and tls.crt with tls.key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Speak plain HTTP. What is sent, credentials too, can be read and changed on the way. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,
    /// How often to look where tags stand. Default: 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// How long one download may take. Default: 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Stop asking the registry; Releases keep the artifacts that they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// What convoy last heard of an OCI registry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OCIRegistryStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: whether the registry answers, and takes the login.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The value of the annotation convoy.kumodo.io/reconcile-at that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}
