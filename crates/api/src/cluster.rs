use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::object::kind;
use crate::schema;

kind! {
    /// A Kubernetes cluster that Releases are delivered to.
    Cluster, "clusters", "cluster", spec: ClusterSpec, status: ClusterStatus
}

/// How to reach a target cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// The kubeconfig that reaches the cluster. It may hold inline data only: exec, auth-provider, tokenFile
    /// and file paths are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<KubeconfigSource>,
    /// Deliver to the cluster that convoy itself runs in. Exactly one of kubeconfig and inCluster is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_cluster: Option<bool>,
    /// Stop all deliveries to this cluster, and leave what is there as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// Where a kubeconfig is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigSource {
    /// The Secret in the Cluster's namespace that holds the kubeconfig.
    pub secret_ref: SecretKeyReference,
}

/// A key of a Secret in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the Secret's data. Default: "kubeconfig".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

impl SecretKeyReference {
    /// The key when the spec names none.
    pub const DEFAULT_KEY: &'static str = "kubeconfig";

    /// The key that is read.
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(Self::DEFAULT_KEY)
    }
}

/// What convoy last saw of a target cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready and Reachable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The version that the cluster's API server reports, for example v1.36.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Digest of the group-versions and kinds that the cluster serves; it changes when a CRD comes or goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_versions_digest: Option<String>,
    /// Number of Releases that name this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub releases: Option<i64>,
    /// The value of the annotation convoy.kumodo.io/reconcile-at that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}
