use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// How far the delivery of a bundle has come on one cluster, as long as it is under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryProgress {
    /// What is done: it says which of a chart's hooks run.
    pub operation: Operation,
    /// When what is waited for was written: spec.apply.timeout counts from then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub since: Option<Time>,
    /// The objects of all waves below this one were healthy once they had been applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_below: Option<i32>,
    /// The hooks that were begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub hooks: Vec<HookRun>,
}

/// What is done with a Release on a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operation {
    /// It is delivered, and no delivery of it has come to its end there yet.
    #[default]
    Install,
    /// Another bundle is delivered.
    Upgrade,
    /// An earlier bundle is delivered again.
    Rollback,
    /// It is removed.
    Delete,
}

impl Operation {
    /// The events of the hooks that run before and after it.
    pub const fn events(self) -> (HookEvent, HookEvent) {
        match self {
            Self::Install => (HookEvent::PreInstall, HookEvent::PostInstall),
            Self::Upgrade => (HookEvent::PreUpgrade, HookEvent::PostUpgrade),
            Self::Rollback => (HookEvent::PreRollback, HookEvent::PostRollback),
            Self::Delete => (HookEvent::PreDelete, HookEvent::PostDelete),
        }
    }
}

/// When a chart's hook runs, as Helm spells it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HookEvent {
    /// Before the objects are applied for the first time.
    #[default]
    PreInstall,
    /// After they were, and became healthy.
    PostInstall,
    /// Before another bundle is applied.
    PreUpgrade,
    /// After it was.
    PostUpgrade,
    /// Before an earlier bundle is applied again.
    PreRollback,
    /// After it was.
    PostRollback,
    /// Before the objects are removed.
    PreDelete,
    /// After they were.
    PostDelete,
}

impl HookEvent {
    /// As Helm spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
            Self::PreRollback => "pre-rollback",
            Self::PostRollback => "post-rollback",
            Self::PreDelete => "pre-delete",
            Self::PostDelete => "post-delete",
        }
    }
}

/// One run of a chart's hook. It is written before the hook's object is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookRun {
    /// Why it runs.
    pub event: HookEvent,
    /// Its place among the bundle's hooks in the order in which they run, from 0.
    #[schemars(range(min = 0))]
    pub index: i64,
    /// Names the run: the hook's object bears it as an annotation.
    pub run: String,
    /// What it was part of. A hook that failed runs again in another attempt only.
    pub attempt: String,
    /// How it stands.
    pub state: HookState,
    /// When it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    pub started: Option<Time>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How a run of a hook stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HookState {
    /// It has not ended, or is not seen to have.
    #[default]
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly, or not in time.
    Failed,
}
