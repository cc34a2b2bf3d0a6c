use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::Selector;
use crate::label;

/// How many objects `status.driftedObjects` names at most.
pub const MAX_DRIFTED_OBJECTS: usize = 20;
/// How many fields of each it names at most.
pub const MAX_DRIFTED_FIELDS: usize = 8;

/// What is done about objects that were changed on the target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftPolicy {
    /// Correct applies again, Report only says so in the status, Ignore neither compares nor says anything. Default:
    /// Correct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<DriftMode>,
    /// What of the objects is left as it is on the target: it is no drift, and no apply changes it. May not be set with
    /// the mode Ignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 32))]
    pub ignore: Vec<IgnoreRule>,
}

/// What is done about an object that was changed on the target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftMode {
    /// It is applied again.
    #[default]
    Correct,
    /// The status says so.
    Report,
    /// Nothing: it is not even looked for.
    Ignore,
}

/// Fields that are left as they are on the target. An object, or an item of a list, that is not there yet is made as the
/// source has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreRule {
    /// The objects. Default: all of the Release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<IgnoreTarget>,
    /// The fields, as JSON pointers (RFC 6901) such as /spec/replicas. An item of a list is named by its place, or by
    /// its fields: /spec/template/spec/containers/name=web/image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        extend("x-kubernetes-list-type" = "atomic"),
        length(max = 32),
        inner(length(min = 1, max = 512))
    )]
    pub paths: Vec<String>,
    /// Field managers, as metadata.managedFields names them: what they set is left alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        extend("x-kubernetes-list-type" = "atomic"),
        length(max = 16),
        inner(length(min = 1, max = 128))
    )]
    pub managers: Vec<String>,
}

/// A choice of objects: all that is set has to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreTarget {
    /// The API group; empty for the core group. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub group: Option<String>,
    /// The kind. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: Option<String>,
    /// The name. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// The namespace on the target. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// The labels that the source gives the object. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<Selector>,
}

/// An object that was changed on the target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedObject {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The field manager that wrote last after convoy; absent when none did, or the object is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// The fields that differ from what convoy applied, as JSON pointers that spec.drift.ignore takes; the first few, and
    /// none when the object is not there or it cannot be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub fields: Vec<String>,
}

/// Why a path cannot be left alone; none when it can.
pub fn pointer_fault(path: &str) -> Option<&'static str> {
    let Some(rest) = path.strip_prefix('/') else {
        return Some("must be a JSON pointer (RFC 6901), such as /spec/replicas");
    };
    let is_escaped = |part: &str| part.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    if !is_escaped(rest) {
        return Some("has a ~ that is not written as ~0; a / in a name is written as ~1");
    }
    if rest.split('/').any(str::is_empty) {
        return Some("has an empty part");
    }
    let segments = pointer_segments(path);
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["status", ..] => Some("is never applied, and no drift"),
        ["apiVersion" | "kind", ..] | ["metadata"] => Some("says which object it is"),
        ["metadata", field, rest @ ..] => match (*field, rest) {
            ("labels", [name, ..]) if *name == label::MANAGED_BY || *name == label::RELEASE_UID => {
                Some("is convoy's own")
            }
            ("labels" | "annotations" | "finalizers" | "ownerReferences", _) => None,
            _ => Some("says which object it is, or is the server's"),
        },
        _ => None,
    }
}

/// The parts of a JSON pointer.
pub fn pointer_segments(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_pointer_to_what_may_be_left_alone() {
        for path in [
            "/spec/replicas",
            "/metadata/annotations/a.b~1c",
            "/metadata/labels",
            "/spec/template/spec/containers/name=web/image",
            "/data",
        ] {
            assert_eq!(pointer_fault(path), None, "{path}");
        }
        for path in [
            "",
            "spec",
            "/",
            "/spec//a",
            "/spec/",
            "/a~2b",
            "/a~",
            "/kind",
            "/metadata",
            "/metadata/name",
            "/metadata/labels/convoy.kumodo.io~1release-uid",
            "/status/replicas",
        ] {
            assert!(pointer_fault(path).is_some(), "{path}");
        }
        assert_eq!(pointer_segments("/a~1b/c~0d/~01"), ["a/b", "c~d", "~1"]);
    }
}
