use convoy_api::HookEvent;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SecretPlaces;

/// What a Release renders to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    /// The objects, in the order in which they were rendered (a chart's: Helm's install order).
    pub objects: Vec<RenderedObject>,
    /// Helm hooks that run on delivery, in Helm's order of installation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// A chart's NOTES.txt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// What the user should know although rendering went well, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Where values stand that came from Secrets; none when no Secret had a say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_places: Option<SecretPlaces>,
}

/// One rendered document.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct RenderedObject {
    /// Where it came from, for messages: a path in the artifact or a template's name, and which document of
    /// it when it holds several.
    pub source: String,
    /// The document: any YAML value but null.
    pub object: Value,
    /// Whether it stands in a chart's folder of CustomResourceDefinitions: those are applied before hooks run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub early: bool,
}

/// Without the content, which may be secret: what a panic says is written to logs.
impl std::fmt::Debug for RenderedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenderedObject")
            .field("source", &self.source)
            .field("early", &self.early)
            .finish_non_exhaustive()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A rendered Helm hook.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Hook {
    /// As [`RenderedObject::source`].
    pub source: String,
    /// When it runs.
    pub events: Vec<HookEvent>,
    /// Lower ones run first.
    #[serde(default)]
    pub weight: i64,
    /// When its object is deleted, as Helm spells it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<String>,
    /// The document.
    pub object: Value,
}

/// Without the content, which may be secret: what a panic says is written to logs.
impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook")
            .field("source", &self.source)
            .field("events", &self.events)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

impl Bundle {
    /// The canonical form: JSON with sorted keys.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings, vectors and JSON values always serialise.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the canonical form.
    ///
    /// # Errors
    /// When it is no bundle.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// `sha256:<hex>` over the canonical form. Equal bundles have equal digests.
    pub fn digest(&self) -> String {
        crate::digest::sha256(&self.to_bytes())
    }
}
