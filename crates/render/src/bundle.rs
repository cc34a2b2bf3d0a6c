use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a Release renders to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    /// The objects, in the order in which they were rendered (a chart's: Helm's install order).
    pub objects: Vec<RenderedObject>,
    /// Helm hooks. They are kept apart because they are not run yet: see [`Bundle::warnings`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// A chart's NOTES.txt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// What the user should know although rendering went well, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One rendered document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RenderedObject {
    /// Where it came from, for messages: a path in the artifact or a template's name, and which document of
    /// it when it holds several.
    pub source: String,
    /// The document: any YAML value but null.
    pub object: Value,
}

/// A rendered Helm hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hook {
    /// As [`RenderedObject::source`].
    pub source: String,
    /// When it would run, for example `pre-install`.
    pub events: Vec<String>,
    /// The document.
    pub object: Value,
}

impl Bundle {
    /// The canonical form: JSON with sorted keys.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Strings, vectors and JSON values always serialise.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// `sha256:<hex>` over the canonical form. Equal bundles have equal digests.
    pub fn digest(&self) -> String {
        crate::digest::sha256(&self.to_bytes())
    }
}
