use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
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
    /// The service account that Releases act as on this cluster when they name none: the one of this name in the
    /// Release's namespace. Default: they act as who the kubeconfig says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub service_account_name: Option<String>,
    /// How much convoy asks of the cluster at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ClusterLimits>,
    /// Namespaces whose Releases may name this Cluster from elsewhere, by their labels; an empty selector lets all.
    /// Default: only Releases of the Cluster's own namespace may name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<Selector>,
}

/// A Cluster, as a Release names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReference {
    /// Name of the Cluster.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the Cluster. Another one than the object's own has to be let by the Cluster: see its
    /// spec.allowedNamespaces. Default: the object's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

impl ClusterReference {
    /// The Cluster's namespace, seen from an object in the namespace `own`.
    pub fn namespace_from<'a>(&'a self, own: &'a str) -> &'a str {
        self.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or(own)
    }
}

/// A choice by labels; all parts have to hold. An empty one chooses all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels with these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// What else holds of the labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 32))]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// What holds of one label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectorRequirement {
    /// The label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: SelectorOperator,
    /// The values of In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 64))]
    pub values: Vec<String>,
}

/// How a label is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    /// It has one of the values.
    In,
    /// It has none of them, or is not there.
    NotIn,
    /// It is there.
    #[default]
    Exists,
    /// It is not there.
    DoesNotExist,
}

impl Selector {
    /// Whether what has these labels is chosen.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let holds = |requirement: &SelectorRequirement| {
            let value = labels.get(&requirement.key);
            let is_in = || value.is_some_and(|value| requirement.values.contains(value));
            match requirement.operator {
                SelectorOperator::In => is_in(),
                SelectorOperator::NotIn => !is_in(),
                SelectorOperator::Exists => value.is_some(),
                SelectorOperator::DoesNotExist => value.is_none(),
            }
        };
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(holds)
    }
}

/// How much convoy asks of a cluster at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterLimits {
    /// Requests per second, on average, of the controller-manager, and as many of the observer. Default: no limit; the
    /// cluster's own priority and fairness decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub qps: Option<u32>,
    /// Requests that may be made at once after a time without any; needs qps. Default: twice qps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20_000))]
    pub burst: Option<u32>,
    /// Releases of the cluster that are worked on at a time; those whose requests the cluster does not answer within two
    /// seconds come on top, up to three times as many. Default: 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub max_concurrent_applies: Option<u32>,
}

impl ClusterSpec {
    const DEFAULT_CONCURRENT_APPLIES: u32 = 8;
    const MOST_CONCURRENT_APPLIES: u32 = 128;

    /// How many requests per second, and how many at once; none for no limit.
    pub fn rate(&self) -> Option<(u32, u32)> {
        let limits = self.limits.as_ref()?;
        // A server without convoy's schema may hold anything.
        let qps = limits.qps?.max(1);
        Some((qps, limits.burst.unwrap_or_else(|| qps.saturating_mul(2)).max(1)))
    }

    /// Whether Releases of another namespace may name the Cluster; `labels` are that namespace's, none when it is not
    /// there.
    pub fn admits(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        self.allowed_namespaces
            .as_ref()
            .zip(labels)
            .is_some_and(|(selector, labels)| selector.matches(labels))
    }

    /// How many Releases are worked on at a time.
    pub fn max_concurrent_applies(&self) -> usize {
        let given = self.limits.as_ref().and_then(|limits| limits.max_concurrent_applies);
        given.unwrap_or(Self::DEFAULT_CONCURRENT_APPLIES).clamp(1, Self::MOST_CONCURRENT_APPLIES) as usize
    }
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
    /// Ready and Reachable; Observed while something on the cluster cannot be watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The version that the cluster's API server reports, for example v1.36.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Digest of the group-versions and kinds that the cluster serves; it changes when a CRD comes or goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_versions_digest: Option<String>,
    /// When the cluster last answered convoy. It is brought up to date when convoy looks at the cluster, and no more often
    /// than every five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub last_contact: Option<Time>,
    /// Number of Releases that name this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub releases: Option<i64>,
    /// The value of the annotation convoy.kumodo.io/reconcile-at that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn namespaces_are_let_by_their_labels_and_by_default_none_is() {
        let labels = |labels: &[(&str, &str)]| -> BTreeMap<String, String> {
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let admits = |selector: serde_json::Value, labels: Option<&BTreeMap<String, String>>| {
            let allowed_namespaces = serde_json::from_value(selector).unwrap();
            ClusterSpec { allowed_namespaces, ..ClusterSpec::default() }.admits(labels)
        };
        let (bare, web) = (labels(&[]), labels(&[("team", "web"), ("tier", "1")]));
        assert!(!admits(json!(null), Some(&web)));
        assert!(admits(json!({}), Some(&bare)) && !admits(json!({}), None));
        let expressions = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "team", "operator": operator, "values": values}]});
        for (selector, of_bare, of_web) in [
            (json!({"matchLabels": {"team": "web"}}), false, true),
            (json!({"matchLabels": {"team": "web", "tier": "2"}}), false, false),
            (expressions("In", &["db", "web"]), false, true),
            (expressions("NotIn", &["web"]), true, false),
            (expressions("Exists", &[]), false, true),
            (expressions("DoesNotExist", &[]), true, false),
        ] {
            assert_eq!(admits(selector.clone(), Some(&bare)), of_bare, "{selector}");
            assert_eq!(admits(selector.clone(), Some(&web)), of_web, "{selector}");
        }
    }

    #[test]
    fn a_cluster_is_of_the_own_namespace_unless_another_one_is_named() {
        let of = |namespace: Option<&str>| {
            let namespace = namespace.map(str::to_owned);
            ClusterReference { name: "c".to_owned(), namespace }.namespace_from("team").to_owned()
        };
        assert_eq!([of(None), of(Some("")), of(Some("fleet"))], ["team", "team", "fleet"]);
    }

    #[test]
    fn limits_have_defaults_and_bounds() {
        let spec = |limits: ClusterLimits| ClusterSpec { limits: Some(limits), ..ClusterSpec::default() };
        assert_eq!(ClusterSpec::default().rate(), None);
        assert_eq!(ClusterSpec::default().max_concurrent_applies(), 8);
        let qps = |qps, burst| spec(ClusterLimits { qps, burst, max_concurrent_applies: None }).rate();
        assert_eq!(qps(Some(5), None), Some((5, 10)));
        assert_eq!(qps(Some(50), Some(20)), Some((50, 20)));
        assert_eq!(qps(Some(0), Some(0)), Some((1, 1)));
        assert_eq!(qps(None, Some(5)), None);
        let applies = |max_concurrent_applies| {
            spec(ClusterLimits { max_concurrent_applies, ..ClusterLimits::default() })
                .max_concurrent_applies()
        };
        assert_eq!([applies(Some(0)), applies(Some(3)), applies(Some(u32::MAX))], [1, 3, 128]);
    }
}
