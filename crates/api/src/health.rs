use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::subresource_body;
use crate::preview::is_zero;
use crate::schema;

/// What `GET …/releases/<name>/health` answers: how each object of the Release is, as the observer last saw it, and of
/// those that are not well, what they have made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseHealth {
    /// The Cluster that it is about.
    #[serde(default)]
    pub cluster: String,
    /// The state of the whole: Healthy, Progressing, Degraded, Missing or Unknown.
    #[serde(default)]
    pub state: String,
    /// In one line.
    #[serde(default)]
    pub summary: String,
    /// The objects, those that are worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub objects: Vec<HealthObject>,
    /// What else is worth knowing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub remarks: Vec<String>,
    /// How many objects were left out to keep the answer short.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_objects: i64,
}

/// How one object is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthObject {
    /// Its apiVersion.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for what is in none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Healthy, Suspended, Unknown, Progressing, Missing or Degraded.
    pub state: String,
    /// A word for why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What it has made, read from the target to explain why it is not well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub children: Vec<HealthChild>,
}

/// An object that another one has made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthChild {
    /// Its kind.
    pub kind: String,
    /// Its name; its namespace is that of who made it.
    pub name: String,
    /// The name of the child that made it, when the object itself did not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// As of an object.
    pub state: String,
    /// A word for why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl HealthObject {
    /// `Deployment web/front`.
    pub fn named(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

impl ReleaseHealth {
    /// The kind.
    pub const KIND: &'static str = "ReleaseHealth";
    /// The subresource of releases.
    pub const SUBRESOURCE: &'static str = "health";

    /// The structural schema of the whole answer.
    pub fn schema() -> Value {
        let mut whole = schema::structural::<Self>();
        whole["description"] = "A ReleaseHealth says how the objects of a Release are.".into();
        whole
    }

    /// The whole answer for the Release of a name.
    pub fn body(&self, namespace: &str, name: &str) -> Value {
        subresource_body(Self::KIND, self, namespace, name)
    }

    /// All texts that may quote what is in an object, to be masked.
    pub fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let objects = self.objects.iter_mut().flat_map(|object| {
            let children = object.children.iter_mut().map(|child| &mut child.message);
            std::iter::once(&mut object.message).chain(children)
        });
        objects.chain(self.remarks.iter_mut())
    }
}
