use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::subresource_body;
use crate::{Operation, schema};

/// What `GET …/releases/<name>/preview` answers: what the next delivery would do, and why. It is not stored, and
/// making it changes nothing on the target. `POST` with a Release answers the same for that one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePreview {
    /// The Cluster that it is about.
    #[serde(default)]
    pub cluster: String,
    /// The revision of the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_revision: String,
    /// Digest of the bundle that was rendered from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bundle_digest: String,
    /// What would be done; none when nothing would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// In one line.
    #[serde(default)]
    pub summary: String,
    /// How many objects meet which end.
    #[serde(default)]
    pub counts: PreviewCounts,
    /// All that stands in the way. As long as there is something here, nothing or not all would be applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub problems: Vec<PreviewProblem>,
    /// What the delivery would wait for before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub waits: Vec<String>,
    /// The steps of the delivery, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<PreviewStep>,
    /// The objects, in the order in which they would be worked on; those that stay as they are come last.
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

/// How many objects meet which end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreviewCounts {
    /// New on the target.
    #[serde(skip_serializing_if = "is_zero")]
    pub create: i64,
    /// Changed.
    #[serde(skip_serializing_if = "is_zero")]
    pub change: i64,
    /// Deleted and made anew, for a field that cannot change.
    #[serde(skip_serializing_if = "is_zero")]
    pub recreate: i64,
    /// Taken over.
    #[serde(skip_serializing_if = "is_zero")]
    pub adopt: i64,
    /// Deleted.
    #[serde(skip_serializing_if = "is_zero")]
    pub delete: i64,
    /// Left as they are.
    #[serde(skip_serializing_if = "is_zero")]
    pub keep: i64,
    /// Hooks that run.
    #[serde(skip_serializing_if = "is_zero")]
    pub run_hook: i64,
}

/// What would be done with an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PreviewAction {
    /// It is made.
    Create,
    /// It is changed.
    Change,
    /// It is deleted and made anew.
    Recreate,
    /// It exists, and becomes the Release's.
    Adopt,
    /// It is deleted.
    Delete,
    /// Nothing.
    #[default]
    Keep,
    /// A chart's hook makes it.
    RunHook,
}

impl PreviewAction {
    /// In lower-case words.
    pub const fn as_words(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Recreate => "recreate",
            Self::Adopt => "adopt",
            Self::Delete => "delete",
            Self::Keep => "keep",
            Self::RunHook => "run hook",
        }
    }
}

impl PreviewCounts {
    /// Counts an object.
    pub fn add(&mut self, action: PreviewAction) {
        let count = match action {
            PreviewAction::Create => &mut self.create,
            PreviewAction::Change => &mut self.change,
            PreviewAction::Recreate => &mut self.recreate,
            PreviewAction::Adopt => &mut self.adopt,
            PreviewAction::Delete => &mut self.delete,
            PreviewAction::Keep => &mut self.keep,
            PreviewAction::RunHook => &mut self.run_hook,
        };
        *count += 1;
    }
}

impl std::fmt::Display for PreviewCounts {
    /// `2 to create, 1 to change, 3 to keep`; what is zero is left out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            (self.create, "to create"),
            (self.change, "to change"),
            (self.recreate, "to recreate"),
            (self.adopt, "to adopt"),
            (self.delete, "to delete"),
            (self.keep, "to keep"),
        ];
        let hooks = if self.run_hook == 1 { "hook to run" } else { "hooks to run" };
        let mut separator = "";
        for (count, what) in parts.into_iter().chain([(self.run_hook, hooks)]).filter(|(count, _)| *count > 0)
        {
            write!(f, "{separator}{count} {what}")?;
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("no objects") } else { Ok(()) }
    }
}

/// One thing that stands in the way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewProblem {
    /// The reason that the Release's condition would have.
    pub reason: String,
    /// In words.
    pub message: String,
}

/// A part of the delivery that is done before the next begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewStep {
    /// What it is, such as `wave 1` or `pre-upgrade hooks`.
    pub name: String,
    /// How many objects it is about.
    pub objects: i64,
    /// What is waited for before it begins.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
}

/// What would be done with one object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewObject {
    /// What.
    pub action: PreviewAction,
    /// Its apiVersion; only its group when it left the bundle and its kind is not served any more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for what is in none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
    /// The step it belongs to, from 1; none for what stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    /// The file or template that it comes from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The fields that would change, as the target said when it was asked without effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub changes: Vec<PreviewChange>,
    /// How many more fields would.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_changes: i64,
    /// Why the target would refuse it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub problem: String,
    /// All that would change, as lines of YAML with marks; only in a ReleaseDiff. What is secret is hidden.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

impl PreviewObject {
    /// `Deployment web/front`.
    pub fn named(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.kind, self.namespace, self.name)
    }

    /// All texts that may quote what is in the object, to be masked.
    pub(crate) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let own = [
            &mut self.namespace,
            &mut self.name,
            &mut self.reason,
            &mut self.source,
            &mut self.problem,
            &mut self.diff,
        ];
        let changes = self
            .changes
            .iter_mut()
            .flat_map(|change| [&mut change.path, &mut change.before, &mut change.after]);
        own.into_iter().chain(changes)
    }
}

/// One field that would change. What is secret is hidden, and long values are cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewChange {
    /// Where, such as `spec.template.spec.containers[name=web].image`.
    pub path: String,
    /// What it is, as JSON; empty when the field is new.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub before: String,
    /// What it would be, as JSON; empty when the field would go.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_zero(count: &i64) -> bool {
    *count == 0
}

impl ReleasePreview {
    /// The kind.
    pub const KIND: &'static str = "ReleasePreview";
    /// The subresource of releases.
    pub const SUBRESOURCE: &'static str = "preview";

    /// The structural schema of the whole answer.
    pub fn schema() -> Value {
        let mut whole = schema::structural::<Self>();
        whole["description"] = "A ReleasePreview says what the next delivery of a Release would do.".into();
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
        let steps = self.steps.iter_mut().map(|step| &mut step.waits_for);
        problems.chain(self.waits.iter_mut()).chain(steps).chain(objects).chain(self.remarks.iter_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_read_as_it_was_written() {
        let mut counts = PreviewCounts::default();
        for action in [PreviewAction::Create, PreviewAction::RunHook, PreviewAction::Create] {
            counts.add(action);
        }
        assert_eq!(counts.to_string(), "2 to create, 1 hook to run");
        let object =
            PreviewObject { action: PreviewAction::RunHook, name: "a".to_owned(), ..Default::default() };
        let preview = ReleasePreview { counts, objects: vec![object], ..Default::default() };
        let body = preview.body("team", "web");
        assert_eq!(
            (&body["kind"], &body["objects"][0]["action"]),
            (&"ReleasePreview".into(), &"RunHook".into())
        );
        assert_eq!(serde_json::from_value::<ReleasePreview>(body).unwrap(), preview);
    }
}
