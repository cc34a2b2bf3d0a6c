use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::object::kind;
use crate::schema;

kind! {
    /// What makes objects of some kinds healthy, on all targets.
    HealthRuleSet, "healthrulesets", "healthruleset", spec: HealthRuleSetSpec, status: HealthRuleSetStatus,
    scope: Cluster
}

/// Rules for kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthRuleSetSpec {
    /// Rules; they stand in for convoy's own for their kinds. Where several are for one kind, that of the HealthRuleSet
    /// whose name comes first holds.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(min = 1, max = 64))]
    pub rules: Vec<HealthRule>,
}

/// What makes objects of a kind healthy. The expressions are CEL over the variable object, are true or false, and are
/// looked at in the order degraded, suspended, progressing, healthy: the first that is true decides. One that asks for a
/// field that is not there is not true. When none is, an object is Progressing if there is an expression for healthy,
/// and else Healthy. What is being deleted, or whose controller has not seen its newest generation, is Progressing
/// whatever the rule says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthRule {
    /// The API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub group: String,
    /// The kind.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The versions, as in v1. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 16), inner(length(min = 1, max = 63)))]
    pub versions: Vec<String>,
    /// Whether the object is as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub healthy: Option<String>,
    /// Whether the object is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub progressing: Option<String>,
    /// Whether the object has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub degraded: Option<String>,
    /// Whether the object was stopped on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub suspended: Option<String>,
    /// A CEL expression whose value is a text: what to say of an object that is not healthy. The data of Secrets is
    /// not there to be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub message: Option<String>,
}

impl HealthRule {
    /// The expressions, by the names of their fields.
    pub fn expressions(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("healthy", &self.healthy),
            ("progressing", &self.progressing),
            ("degraded", &self.degraded),
            ("suspended", &self.suspended),
            ("message", &self.message),
        ];
        all.into_iter().filter_map(|(field, text)| Some((field, text.as_deref()?)))
    }
}

/// What convoy made of a HealthRuleSet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthRuleSetStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: whether all expressions can be evaluated by the observer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
