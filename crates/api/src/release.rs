use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cluster::ClusterReference;
use crate::condition::Condition;
use crate::drift::{DriftMode, DriftPolicy, DriftedObject, IgnoreRule};
use crate::duration::Duration;
use crate::git_repository::LocalReference;
use crate::object::kind;
use crate::{label, schema};

kind! {
    /// What runs on a cluster: objects from a source, rendered and applied, and kept so.
    Release, "releases", "release", spec: ReleaseSpec, status: ReleaseStatus
}

/// What is delivered, where, and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseSpec {
    /// The Cluster that the objects go to.
    pub cluster_ref: ClusterReference,
    /// Where the objects come from.
    pub source: ReleaseSource,
    /// How the source becomes objects. At most one field is set; when none is, a folder with a Chart.yaml is
    /// a Helm chart and every other folder holds manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub render: Option<ReleaseRender>,
    /// Namespace on the target for objects that name none. Default: the Release's own namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub target_namespace: Option<String>,
    /// Create the target namespace when it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_namespace: Option<bool>,
    /// Labels of the target namespace when convoy creates it; one that is there already is left as it is. Only with
    /// createNamespace: true. Labels of Kubernetes and of convoy are refused, but for pod-security.kubernetes.io with
    /// the level restricted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub namespace_labels: BTreeMap<String, String>,
    /// The service account that convoy acts as on the target, for all that it reads and writes there for this Release:
    /// the one of this name in the namespace that the Release itself is in. Default: the Cluster's
    /// spec.serviceAccountName.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub service_account_name: Option<String>,
    /// How often to look at everything anew, even when nothing changed. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Stop all work on this Release, and leave what is there as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How objects are applied, awaited and removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<ApplyPolicy>,
    /// What is done about objects that were changed on the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
    /// What is done when a delivery fails: an object is refused, a hook fails, or health does not come in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<FailurePolicy>,
    /// Releases that have to be ready before anything new is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 32))]
    pub depends_on: Vec<Dependency>,
    /// How many revisions the history in the status keeps; the last healthy one before them stays, too. Default:
    /// 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50))]
    pub history_limit: Option<u32>,
}

/// A Release that has to be ready first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Name of the Release, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// A CEL expression that is true when the Release is ready enough; the Release is the variable object.
    /// Default: its condition Ready is True for its present spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub ready_when: Option<String>,
}

/// What is done when a delivery fails.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// What is done when the retries are used up: Retry and Stop leave what is on the target as it is, Rollback goes
    /// back to the last healthy revision. Default: Retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<FailureAction>,
    /// How often a failed delivery is tried again, with growing pauses. An object that the target will never
    /// take is not tried again. Default: without end for Retry, 3 for Rollback and Stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub retries: Option<u32>,
}

/// What is done about a delivery that failed again and again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailureAction {
    /// It is tried again; nothing more happens when the retries are used up.
    #[default]
    Retry,
    /// The last healthy revision is delivered again.
    Rollback,
    /// Nothing more happens.
    Stop,
}

/// Where objects come from: exactly one field is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseSource {
    // All Releases are kept in memory, and most are of Git: the others take room only where they are.
    /// A folder of a Git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
    /// A chart of a Helm repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<Box<HelmSource>>,
    /// An artifact of an OCI registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<Box<OciSource>>,
}

/// A folder of a Git repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    /// The GitRepository, in the same namespace.
    pub repository_ref: LocalReference,
    /// The folder, from the root of the repository. Default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub path: Option<String>,
}

/// A chart of a Helm repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmSource {
    /// The HelmRegistry, in the same namespace.
    pub registry_ref: LocalReference,
    /// Name of the chart in the index.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"))]
    pub chart: String,
    /// A version, or a range such as ">=6 <7", of which the newest version is taken. Pre-releases are taken only
    /// when the range names one, as in ">=6-0". Default: the newest version that is no pre-release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub version: Option<String>,
}

/// An artifact of an OCI registry: a chart that `helm push` put there, or one layer of manifests. Exactly one of tag,
/// semver and digest is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciSource {
    /// The OCIRegistry, in the same namespace.
    pub registry_ref: LocalReference,
    /// The repository, below the registry's prefix.
    #[schemars(
        length(min = 1, max = 255),
        regex(pattern = r"^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$")
    )]
    pub repository: String,
    /// A tag, followed as it moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"))]
    pub tag: Option<String>,
    /// A range of versions such as ">=6 <7", of which the newest tag is taken. Pre-releases are taken only when the
    /// range names one, as in ">=6-0".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub semver: Option<String>,
    /// The digest of a manifest, as sha256:<hex>. It never moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
}

/// How a source becomes objects: at most one field is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRender {
    /// The folder is a Helm chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmRender>,
    /// The folder holds manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests: Option<ManifestsRender>,
}

/// How a Helm chart is rendered. Values are merged in this order, later ones win: the chart's own, valuesFiles,
/// valuesFrom, values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmRender {
    /// The name that templates see as .Release.Name. Default: the Release's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 53))]
    pub release_name: Option<String>,
    /// Values, as in a values.yaml.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_form_object")]
    pub values: Option<Map<String, Value>>,
    /// Values from ConfigMaps and Secrets in the Release's namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 32))]
    pub values_from: Vec<ValuesReference>,
    /// Values files in the chart's folder, as paths from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 32))]
    pub values_files: Vec<String>,
    /// Leave out what stands in the chart's crds folder.
    #[serde(default, rename = "skipCRDs", skip_serializing_if = "Option::is_none")]
    pub skip_crds: Option<bool>,
    /// Leave out test hooks. May not be false: convoy runs no tests. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_tests: Option<bool>,
    /// What random values, certificates and the time come from. Default: stable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy: Option<Entropy>,
    /// The Helm that the chart is rendered as. Default: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<HelmVersion>,
}

/// The Helm that a chart is rendered as; docs/src/helm-charts.md says what differs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HelmVersion {
    /// Helm v3.22.
    #[serde(rename = "3")]
    V3,
    /// Helm v4.2.
    #[default]
    #[serde(rename = "4")]
    V4,
}

/// What the functions of a chart draw from that give something else each time in Helm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Entropy {
    /// From what belongs to the Release and stays: a change of values or of the chart draws the same passwords, keys and
    /// certificates again, and the time is that of the Release's creation.
    #[default]
    Stable,
    /// Anew for each bundle that is rendered, as in Helm.
    Fresh,
}

/// Values from one key of a ConfigMap or a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesReference {
    /// ConfigMap or Secret.
    pub kind: ValuesKind,
    /// Name of the ConfigMap or Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key. Default: values.yaml.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
    /// Where among the values the content goes, as text, with a path as of Helm's --set: a.b[0].c, with a backslash
    /// before a dot that belongs to a key. Default: the content is a values.yaml of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub target_path: Option<String>,
    /// Go on without it when the object or the key is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// The kinds that values can come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ValuesKind {
    /// A ConfigMap.
    #[default]
    ConfigMap,
    /// A Secret.
    Secret,
}

/// Which files of a folder are manifests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestsRender {
    /// Also read folders inside the folder. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurse: Option<bool>,
    /// Only files whose path matches one of these globs. Default: *.yaml, *.yml and *.json.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 64))]
    pub include: Vec<String>,
    /// No file whose path matches one of these globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 64))]
    pub exclude: Vec<String>,
}

/// How objects are applied, awaited and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyPolicy {
    /// What to do about fields that another field manager owns: Force takes them over, Fail stops. Default:
    /// Force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<ConflictPolicy>,
    /// Be Ready only once all objects are healthy. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
    /// How long to wait for health before the Release counts as failed. Default: 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Delete objects that are no longer in the source. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
    /// What happens to the objects when the Release is deleted: Delete or Orphan. Default: Delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// How long the deletion of the Release waits for a target that is out of contact. Then what is there stays, convoy
    /// forgets it, and the Release goes. Counted from the deletion, or from when contact was lost after it. Default:
    /// without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timeout: Option<Duration>,
}

/// What to do about fields that another field manager owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConflictPolicy {
    /// Take the fields over.
    #[default]
    Force,
    /// Stop, and name the fields and their manager.
    Fail,
}

/// What happens to the objects when the Release is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They are deleted.
    #[default]
    Delete,
    /// They stay, and convoy forgets them.
    Orphan,
}

/// Why a namespace that convoy creates may not have a label; none when it may.
///
/// Whoever may create a Release is not thereby whoever may say what a namespace's pods are allowed: of the labels with
/// which Kubernetes means something only those are taken that allow no more than the cluster's default can.
pub fn namespace_label_fault(key: &str, value: &str) -> Option<&'static str> {
    const RESERVED: [&str; 2] = ["kubernetes.io", "k8s.io"];
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    if key == label::MANAGED_BY || domain == crate::GROUP || domain.ends_with(".kumodo.io") {
        return Some("convoy's own");
    }
    match domain {
        // For people, all but the one above.
        "app.kubernetes.io" => None,
        "pod-security.kubernetes.io" => {
            let is_strictest = match key {
                "pod-security.kubernetes.io/enforce"
                | "pod-security.kubernetes.io/audit"
                | "pod-security.kubernetes.io/warn" => value == "restricted",
                // An older version of a level allows more.
                "pod-security.kubernetes.io/enforce-version"
                | "pod-security.kubernetes.io/audit-version"
                | "pod-security.kubernetes.io/warn-version" => value == "latest",
                _ => false,
            };
            let fault = "may only be restricted, and its version latest: another level may allow more than the \
                         cluster's default; whoever administers the cluster can set it on the namespace";
            (!is_strictest).then_some(fault)
        }
        domain => {
            let is_of = |reserved: &str| {
                domain.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            RESERVED.into_iter().any(is_of).then_some("reserved for Kubernetes")
        }
    }
}

impl ReleaseSpec {
    const DEFAULT_INTERVAL: Duration = Duration::from_secs(600);
    const DEFAULT_APPLY_TIMEOUT: Duration = Duration::from_secs(300);
    const DEFAULT_HISTORY_LIMIT: u32 = 10;

    /// Whether all work on the Release is stopped.
    pub fn is_suspended(&self) -> bool {
        self.suspend.unwrap_or(false)
    }

    /// How often everything is looked at anew.
    pub fn interval(&self) -> Duration {
        self.interval.unwrap_or(Self::DEFAULT_INTERVAL)
    }

    /// How many revisions the history keeps.
    pub fn history_limit(&self) -> usize {
        self.history_limit.unwrap_or(Self::DEFAULT_HISTORY_LIMIT).max(1) as usize
    }

    /// What to do about fields that another field manager owns.
    pub fn conflict_policy(&self) -> ConflictPolicy {
        self.apply.as_ref().and_then(|apply| apply.conflicts).unwrap_or_default()
    }

    /// Whether the Release is Ready only once all objects are healthy.
    pub fn waits_for_health(&self) -> bool {
        self.apply.as_ref().and_then(|apply| apply.wait).unwrap_or(true)
    }

    /// How long the objects may take to become healthy.
    pub fn apply_timeout(&self) -> Duration {
        self.apply.as_ref().and_then(|apply| apply.timeout).unwrap_or(Self::DEFAULT_APPLY_TIMEOUT)
    }

    /// Whether objects that left the source are deleted.
    pub fn prunes(&self) -> bool {
        self.apply.as_ref().and_then(|apply| apply.prune).unwrap_or(true)
    }

    /// What happens to the objects when the Release is deleted.
    pub fn deletion_policy(&self) -> DeletionPolicy {
        self.apply.as_ref().and_then(|apply| apply.deletion_policy).unwrap_or_default()
    }

    /// How long a deletion waits for a target that is out of contact; none for without end.
    pub fn deletion_timeout(&self) -> Option<Duration> {
        self.apply.as_ref().and_then(|apply| apply.deletion_timeout)
    }

    /// What is done when a delivery failed for the last time.
    pub fn failure_action(&self) -> FailureAction {
        self.on_failure.as_ref().and_then(|policy| policy.action).unwrap_or_default()
    }

    /// How often a failed delivery is tried again; none for without end.
    pub fn failure_retries(&self) -> Option<u32> {
        const DEFAULT_RETRIES: u32 = 3;
        let given = self.on_failure.as_ref().and_then(|policy| policy.retries);
        match self.failure_action() {
            FailureAction::Retry => given,
            FailureAction::Rollback | FailureAction::Stop => Some(given.unwrap_or(DEFAULT_RETRIES)),
        }
    }

    /// What is done about objects that were changed on the target.
    pub fn drift_mode(&self) -> DriftMode {
        self.drift.as_ref().and_then(|drift| drift.mode).unwrap_or_default()
    }

    /// What of objects is left as it is on the target.
    pub fn ignore_rules(&self) -> &[IgnoreRule] {
        self.drift.as_ref().map_or(&[], |drift| &drift.ignore)
    }
}

/// What convoy last saw and did for a Release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Rendered, Applied, Healthy, Drifted; Reconciling and Stalled while they hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The source revision that is on the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_revision: Option<String>,
    /// Digest of the bundle that is on the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_digest: Option<String>,
    /// The source revision that was last tried; differs from sourceRevision when that try failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,
    /// Number of objects in the inventory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i64>,
    /// Number of objects that are healthy, as the observer last saw them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_objects: Option<i64>,
    /// Digest of the bundle that the conditions Healthy and Drifted speak of: as long as it differs from
    /// bundleDigest, the observer has not seen all that was applied. Written by the observer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_bundle_digest: Option<String>,
    /// The objects that were changed on the target, the first 20 of them. Written by the observer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub drifted_objects: Vec<DriftedObject>,
    /// The last write of objects to the target, as <inventory>#<number>.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_apply: Option<String>,
    /// The write of objects that the conditions Healthy and Drifted speak of: as long as it differs from lastApply, they are
    /// about what was there before. Written by the observer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_apply: Option<String>,
    /// Names of the ReleaseInventories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub inventories: Vec<String>,
    /// The controller-manager replica that wrote last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<WriterStatus>,
    /// The observer replica that wrote last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observer: Option<WriterStatus>,
    /// What comes next of a delivery that is under way, and what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<PlanStatus>>,
    /// What was delivered, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<HistoryEntry>,
    /// The delivery that failed; absent when none did since the spec, the source or a request changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<FailureStatus>>,
    /// The earlier revision that is on the target, or is to be, instead of what the source says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Box<RollbackStatus>>,
    /// When the bundle that is on the target was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub last_applied_time: Option<Time>,
    /// The value of the annotation convoy.kumodo.io/reconcile-at that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The value of the annotation convoy.kumodo.io/force-at that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_force_at: Option<String>,
    /// The value of the annotation convoy.kumodo.io/rollback that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_rollback: Option<String>,
    /// Text for people that the chart renders (Helm's NOTES).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// A delivery that is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// What comes next: a wave, or a hook.
    pub next: String,
    /// How many objects are still to be worked on, such as `2 to create, 1 to prune`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remaining: String,
    /// What that waits for, and why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
}

/// A replica that writes, the shard under which it does, and its term of that shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriterStatus {
    /// The replica's --replica-id.
    pub replica: String,
    /// The shard of the Release.
    pub shard: i64,
    /// How often the shard had changed hands when the replica took it: leaseTransitions of the shard's Lease.
    /// The apiserver refuses a write with a smaller number than the stored one of the same shard.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub epoch: i64,
    /// When the replica last looked at the object: that is the age of what the status says. Written in the status of
    /// Releases by the controller-manager and the observer, each of its own looks; refreshed when it is older than the
    /// interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub last_look_time: Option<Time>,
}

/// One delivery.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Counts the deliveries of this Release from 1.
    pub revision: i64,
    /// Revision of the source.
    #[serde(default)]
    pub source_revision: String,
    /// Digest of the bundle; the render store holds it.
    #[serde(default)]
    pub bundle_digest: String,
    /// The Cluster that it went to; absent in entries of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterReference>,
    /// Namespace on the target of objects that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,
    /// The revision that this one went back to; absent when it was no rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<i64>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub started: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub finished: Option<Time>,
    /// What there is to say about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A delivery that failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureStatus {
    /// Its revision in the history.
    pub revision: i64,
    /// Revision of the source.
    #[serde(default)]
    pub source_revision: String,
    /// Digest of the bundle.
    #[serde(default)]
    pub bundle_digest: String,
    /// Why it failed last, in a word.
    #[serde(default)]
    pub reason: String,
    /// Why it failed last.
    #[serde(default)]
    pub message: String,
    /// How often it failed.
    pub count: i64,
    /// When it failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub last_time: Option<Time>,
    /// When it is tried again; absent when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub next_time: Option<Time>,
}

/// An earlier revision that is delivered instead of what the source says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollbackStatus {
    /// Its revision in the history.
    pub revision: i64,
    /// Its revision of the source.
    #[serde(default)]
    pub source_revision: String,
    /// Digest of its bundle.
    #[serde(default)]
    pub bundle_digest: String,
    /// The Cluster that it went to then; it is delivered to the one that the spec names now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterReference>,
    /// Namespace on the target of objects that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,
    /// Whether someone asked for it, rather than spec.onFailure.
    #[serde(default)]
    pub requested: bool,
    /// Digest of the source's bundle that is not delivered meanwhile; another one ends the rollback. Empty until the
    /// source gives one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instead_of: String,
}

/// How a delivery ended, or that it has not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    /// It is under way.
    #[default]
    Progressing,
    /// All objects were applied and, where it was asked for, became healthy.
    Succeeded,
    /// The target refused an object, or health did not come in time.
    Failed,
    /// A newer revision came before it ended.
    Superseded,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_may_not_weaken_what_a_namespace_allows() {
        for (key, value) in [
            ("team", "web"),
            ("example.com/cost-centre", "7"),
            ("istio-injection", "enabled"),
            ("notkubernetes.io/x", ""),
            ("app.kubernetes.io/part-of", "shop"),
            ("pod-security.kubernetes.io/enforce", "restricted"),
            ("pod-security.kubernetes.io/warn-version", "latest"),
        ] {
            assert_eq!(namespace_label_fault(key, value), None, "{key}");
        }
        for (key, value) in [
            ("pod-security.kubernetes.io/enforce", "privileged"),
            ("pod-security.kubernetes.io/enforce", "baseline"),
            ("pod-security.kubernetes.io/enforce", "Restricted"),
            ("pod-security.kubernetes.io/enforce", ""),
            ("pod-security.kubernetes.io/enforce-version", "v1.20"),
            ("pod-security.kubernetes.io/exempt", "restricted"),
            ("kubernetes.io/metadata.name", "kube-system"),
            ("k8s.io/x", ""),
            ("node.kubernetes.io/x", ""),
            ("a.b.k8s.io/x", ""),
            ("app.kubernetes.io/managed-by", "convoy"),
            ("convoy.kumodo.io/release-uid", "1"),
            ("x.kumodo.io/y", "1"),
        ] {
            assert!(namespace_label_fault(key, value).is_some(), "{key}: {value}");
        }
    }
}
