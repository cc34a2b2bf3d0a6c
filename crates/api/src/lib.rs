//! The API of convoy: the kinds of `convoy.kumodo.io/v1alpha1`, and the words that its components
//! and its users share: condition types and reasons, labels, annotations, finalizers, field managers.
//!
//! Components never see each other's types; they meet through these objects.
//!
//! The types decode leniently where an old object could stand in the way of new code (absent fields
//! have defaults), and a decoder works object by object: a caller that lists many objects uses
//! [`decode`] on each, so that a single object which does not decode cannot hide the others.

#![warn(missing_docs)]

mod artifact;
mod cluster;
mod condition;
mod delivery;
mod diff;
mod drift;
mod duration;
mod git_repository;
mod health;
mod health_rule_set;
mod helm_registry;
mod history;
mod kinds;
mod object;
mod oci_registry;
mod paths;
mod preview;
mod release;
mod release_inventory;
mod rollback;
mod schema;

pub use artifact::{Artifact, tree_digest};
pub use cluster::{
    Cluster, ClusterLimits, ClusterReference, ClusterSpec, ClusterStatus, KubeconfigSource,
    SecretKeyReference, Selector, SelectorOperator, SelectorRequirement,
};
pub use condition::{
    Condition, ConditionStatus, condition_status, condition_type, find_condition, reason, set_condition,
};
pub use delivery::{DeliveryProgress, HookEvent, HookRun, HookState, Operation};
pub use diff::ReleaseDiff;
pub use drift::{
    DriftMode, DriftPolicy, DriftedObject, IgnoreRule, IgnoreTarget, MAX_DRIFTED_FIELDS, MAX_DRIFTED_OBJECTS,
    pointer_fault, pointer_segments,
};
pub use duration::{Duration, ParseDurationError};
pub use git_repository::{
    ArtifactStatus, GitReference, GitRepository, GitRepositorySpec, GitRepositoryStatus, LocalReference,
};
pub use health::{HealthChild, HealthObject, ReleaseHealth};
pub use health_rule_set::{HealthRule, HealthRuleSet, HealthRuleSetSpec, HealthRuleSetStatus};
pub use helm_registry::{HelmRegistry, HelmRegistrySpec, HelmRegistryStatus};
pub use history::{HistoryManifest, ReleaseHistory};
pub use kinds::{KindInfo, PrinterColumn, Scope, kinds};
pub use object::{DecodeError, Kind, decode, encode};
pub use oci_registry::{OCIRegistry, OCIRegistrySpec, OCIRegistryStatus};
pub use paths::{GlobError, PathGlobs};
pub use preview::{
    PreviewAction, PreviewChange, PreviewCounts, PreviewObject, PreviewProblem, PreviewStep, ReleasePreview,
};
pub use release::{
    ApplyPolicy, ConflictPolicy, DeletionPolicy, Dependency, Entropy, FailureAction, FailurePolicy,
    FailureStatus, GitSource, HelmRender, HelmSource, HelmVersion, HistoryEntry, ManifestsRender, OciSource,
    Outcome, PlanStatus, Release, ReleaseRender, ReleaseSource, ReleaseSpec, ReleaseStatus, RollbackStatus,
    ValuesKind, ValuesReference, WriterStatus, namespace_label_fault,
};
pub use release_inventory::{
    InventoryEntry, ReleaseInventory, ReleaseInventorySpec, ReleaseReference, apply_name, inventory_name,
    inventory_name_in, later_apply,
};
pub use rollback::{ReleaseRollback, RollbackRequest};

/// The API group of all kinds.
pub const GROUP: &str = "convoy.kumodo.io";
/// The only version of the group.
pub const VERSION: &str = "v1alpha1";
/// `<group>/<version>`, as it stands in `apiVersion`.
pub const API_VERSION: &str = "convoy.kumodo.io/v1alpha1";

/// Field managers that convoy writes under.
pub mod field_manager {
    /// On target clusters, for every object that a Release delivers.
    pub const TARGET: &str = "convoy";
    /// On convoy's own objects, for what the controller-manager writes.
    pub const CONTROLLER_MANAGER: &str = "convoy-controller-manager";
    /// On convoy's own objects, for what the observer writes.
    pub const OBSERVER: &str = "convoy-observer";
    /// On convoy's own objects, for what the `convoy` command writes.
    pub const CLI: &str = "convoy-cli";
}

/// Labels that convoy writes.
pub mod label {
    /// On convoy's own objects: the shard that works on the object. Written by the apiserver alone.
    pub const SHARD: &str = "convoy.kumodo.io/shard";
    /// On ReleaseInventories: the uid of the Release, so that those of one Release can be listed.
    pub const INVENTORY_OF: &str = "convoy.kumodo.io/inventory-of";
    /// On target objects: `convoy`.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// The value of [`MANAGED_BY`].
    pub const MANAGED_BY_CONVOY: &str = "convoy";
    /// On target objects: the uid of the Release that delivers the object.
    pub const RELEASE_UID: &str = "convoy.kumodo.io/release-uid";
}

/// Annotations that convoy understands.
pub mod annotation {
    /// On sources and Releases: reconcile now. The value is echoed in
    /// `status.lastHandledReconcileAt`; any change of it asks anew.
    pub const RECONCILE_AT: &str = "convoy.kumodo.io/reconcile-at";
    /// On Releases: apply all objects anew, also those that are as they should be. The value is echoed in
    /// `status.lastHandledForceAt`; any change of it asks anew.
    pub const FORCE_AT: &str = "convoy.kumodo.io/force-at";
    /// On Releases: go back to an earlier revision. Written by `POST …/releases/<name>/rollback`; the value is echoed
    /// in `status.lastHandledRollback`, and removing it ends the rollback.
    pub const ROLLBACK: &str = "convoy.kumodo.io/rollback";
    /// On target objects: JSON pointers of fields that no preview, diff or history shows, divided by commas, spaces or
    /// line ends; `*` stands for any field, and of lists all items are meant.
    pub const SENSITIVE_PATHS: &str = "convoy.kumodo.io/sensitive-paths";
    /// On target objects: `Disabled` keeps the object when it leaves the bundle or the Release is deleted.
    pub const PRUNE: &str = "convoy.kumodo.io/prune";
    /// The value of [`PRUNE`] that keeps the object.
    pub const PRUNE_DISABLED: &str = "Disabled";
    /// On target objects: only when `true`, convoy leaves the object alone.
    pub const IGNORE: &str = "convoy.kumodo.io/ignore";
    /// On target objects: how the object is written, when not by server-side apply.
    pub const APPLY: &str = "convoy.kumodo.io/apply";
    /// The value of [`APPLY`] for an object that is made when it is not there, and else left alone.
    pub const APPLY_IF_NOT_PRESENT: &str = "IfNotPresent";
    /// The value of [`APPLY`] for an object that is replaced as a whole: what others added to it goes.
    pub const APPLY_REPLACE: &str = "Replace";
    /// On target objects: `Allowed` lets the object be deleted and made anew when a field that cannot change was
    /// changed.
    pub const REPLACE: &str = "convoy.kumodo.io/replace";
    /// The value of [`REPLACE`] that allows it.
    pub const REPLACE_ALLOWED: &str = "Allowed";
    /// On target objects: a whole number. Objects with a lower one are applied, and healthy, before those with a
    /// higher one are; without it an object has 0.
    pub const WAVE: &str = "convoy.kumodo.io/wave";
    /// On objects of a chart's hooks, written by convoy: which run of the hook made the object.
    pub const HOOK_RUN: &str = "convoy.kumodo.io/hook-run";
}

/// The object by which an API server says how many shards it counts (`status.shards`). It is cluster-scoped, is
/// only read, and is not stored: each API server answers for itself.
pub mod sharding {
    /// Its kind.
    pub const KIND: &str = "Sharding";
    /// Its resource.
    pub const PLURAL: &str = "shardings";
    /// The name of the only one.
    pub const NAME: &str = "convoy";
}

/// Reasons of the causes in the details of a refusal.
pub mod cause {
    /// The write carries an older epoch than what is stored of the same writer and shard. The message of
    /// the cause is the stored epoch, as a number.
    pub const OLDER_EPOCH: &str = "OlderEpoch";
}

/// Finalizers that convoy sets on its own objects.
pub mod finalizer {
    /// On a Release: what it delivered is deleted from the target before the Release goes.
    pub const RELEASE: &str = "convoy.kumodo.io/release";
    /// On a ReleaseInventory: the record of what is on a target outlives its namespace's deletion, until its
    /// objects are gone or were let go of.
    pub const INVENTORY: &str = "convoy.kumodo.io/inventory";
}
