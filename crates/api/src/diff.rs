use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::subresource_body;
use crate::preview::is_zero;
use crate::{PreviewAction, PreviewCounts, PreviewObject, PreviewProblem, schema};

/// What `GET …/releases/<name>/diff` answers: how what would be applied now differs from what is on the target, object by
/// object, as the target said when it was asked without effect. Two revisions of the history are told in the same
/// way. It is not stored, and making it changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseDiff {
    /// The Cluster that it is about.
    #[serde(default)]
    pub cluster: String,
    /// The revision of the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_revision: String,
    /// Digest of the bundle that would be applied.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bundle_digest: String,
    /// The revision of the history that is compared with toRevision; absent when the target is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The revision that it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_revision: Option<i64>,
    /// In one line.
    #[serde(default)]
    pub summary: String,
    /// How many objects meet which end.
    #[serde(default)]
    pub counts: PreviewCounts,
    /// What stands in the way of the delivery, or of the comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub problems: Vec<PreviewProblem>,
    /// The objects that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub objects: Vec<PreviewObject>,
    /// What else is worth knowing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub remarks: Vec<String>,
    /// How many objects were left out to keep the answer short; counts has them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_objects: i64,
}

impl ReleaseDiff {
    /// The kind.
    pub const KIND: &'static str = "ReleaseDiff";
    /// The subresource of releases.
    pub const SUBRESOURCE: &'static str = "diff";

    /// The structural schema of the whole answer.
    pub fn schema() -> Value {
        let mut whole = schema::structural::<Self>();
        whole["description"] =
            "A ReleaseDiff says how what would be applied differs from what is on the target.".into();
        whole
    }

    /// The whole answer for the Release of a name.
    pub fn body(&self, namespace: &str, name: &str) -> Value {
        subresource_body(Self::KIND, self, namespace, name)
    }

    /// All texts that may quote what is in an object, to be masked.
    pub fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let problems = self.problems.iter_mut().map(|problem| &mut problem.message);
        let objects = self.objects.iter_mut().flat_map(PreviewObject::texts);
        problems.chain(objects).chain(self.remarks.iter_mut())
    }

    /// Whether anything differs.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.omitted_objects == 0
    }

    /// As `diff -u` would tell it, object by object. What is no part of a diff stands in lines that begin with `#`.
    pub fn unified(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            comment(&mut text, &format!("{}: {}", problem.reason, problem.message));
        }
        for object in &self.objects {
            let name = format!("{}/{}", object.api_version, object.named().replace(' ', "/"));
            comment(
                &mut text,
                &format!("{} {}: {}", object.action.as_words(), object.named(), object.reason),
            );
            if !object.problem.is_empty() {
                comment(&mut text, &object.problem);
            }
            if object.diff.is_empty() {
                continue;
            }
            let (before, after) = match object.action {
                PreviewAction::Create | PreviewAction::RunHook => {
                    ("/dev/null".to_owned(), format!("b/{name}"))
                }
                PreviewAction::Delete => (format!("a/{name}"), "/dev/null".to_owned()),
                _ => (format!("a/{name}"), format!("b/{name}")),
            };
            _ = writeln!(text, "--- {before}\n+++ {after}");
            text.push_str(&object.diff);
        }
        self.remarks.iter().for_each(|remark| comment(&mut text, remark));
        text
    }

    /// A line for each object, and one for all.
    pub fn short(&self) -> String {
        let mut text = String::new();
        for object in &self.objects {
            _ = writeln!(text, "{} {}: {}", object.action.as_words(), object.named(), object.reason);
        }
        for problem in &self.problems {
            _ = writeln!(text, "{}: {}", problem.reason, problem.message);
        }
        _ = writeln!(text, "{}", self.summary);
        text
    }
}

fn comment(text: &mut String, words: &str) {
    for line in words.lines() {
        _ = writeln!(text, "# {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_told_as_diff_u_does() {
        let object = |action, name: &str, diff: &str| PreviewObject {
            action,
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "web".to_owned(),
            name: name.to_owned(),
            reason: "because".to_owned(),
            diff: diff.to_owned(),
            ..PreviewObject::default()
        };
        let diff = ReleaseDiff {
            summary: "1 to create".to_owned(),
            problems: vec![PreviewProblem { reason: "Bad".to_owned(), message: "one\ntwo".to_owned() }],
            objects: vec![
                object(PreviewAction::Create, "a", "@@ -0,0 +1,1 @@\n+a: 1\n"),
                object(PreviewAction::Delete, "b", ""),
            ],
            ..ReleaseDiff::default()
        };
        let want = "# Bad: one\n# two\n# create Deployment web/a: because\n--- /dev/null\n+++ b/apps/v1/Deployment/web/a\n\
                    @@ -0,0 +1,1 @@\n+a: 1\n# delete Deployment web/b: because\n";
        assert_eq!(diff.unified(), want);
        assert_eq!(
            diff.short(),
            "create Deployment web/a: because\ndelete Deployment web/b: because\nBad: one\ntwo\n1 to create\n"
        );
        assert_eq!(serde_json::from_value::<ReleaseDiff>(diff.body("team", "web")).unwrap(), diff);
    }
}
