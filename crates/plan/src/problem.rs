//! What can be wrong with the input of a plan.

use std::fmt;

use crate::ObjectKey;

/// One fault of a bundle or of its fit to the target. `source` is the file (or chart template) that
/// the object came from, with the document's number; empty when unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A document is not a Kubernetes object.
    #[error("{source_name}: not a Kubernetes object: {detail}")]
    NotAnObject {
        /// Where it came from.
        source_name: String,
        /// What is missing or wrong.
        detail: String,
    },
    /// An object has no usable name.
    #[error("{source_name}: {kind} {detail}")]
    BadName {
        /// Where it came from.
        source_name: String,
        /// Its kind.
        kind: String,
        /// What is wrong with the name.
        detail: String,
    },
    /// Two documents name the same object.
    #[error("{key} is in the bundle twice: in {first} and in {second}; remove one")]
    Duplicate {
        /// The object.
        key: Box<ObjectKey>,
        /// Where it was first.
        first: String,
        /// Where it was again.
        second: String,
    },
    /// The target does not serve the kind, and no CustomResourceDefinition of the bundle brings it.
    #[error("{source_name}: the target serves no {kind} in {api_version}{hint}")]
    UnknownKind {
        /// Where it came from.
        source_name: String,
        /// `group/version` of the object.
        api_version: String,
        /// Its kind.
        kind: String,
        /// What to do.
        hint: String,
    },
    /// An annotation for convoy has a value that means nothing.
    #[error("{source_name}: {key} has the annotation {annotation}: {value:?}; it can be {allowed}")]
    BadAnnotation {
        /// Where it came from.
        source_name: String,
        /// The object.
        key: Box<ObjectKey>,
        /// The annotation.
        annotation: &'static str,
        /// Its value.
        value: String,
        /// What it can be.
        allowed: String,
    },
    /// A label of `spec.namespaceLabels` that a Release may not set.
    #[error("spec.namespaceLabels: {key} is not taken: {fault}")]
    NamespaceLabel {
        /// The label.
        key: String,
        /// Why not.
        fault: &'static str,
    },
    /// The object belongs to another Release.
    #[error("{key} belongs to {owner}; remove it from one of the two")]
    OwnedByOther {
        /// The object.
        key: ObjectKey,
        /// The other owner, in words.
        owner: String,
    },
    /// The object belongs to a Helm release that this Release does not carry on.
    #[error(
        "{key} belongs to the Helm release {name} in {namespace}; to carry that on, let the Release have its name \
         (spec.render.helm.releaseName) and namespace (spec.targetNamespace), or set the annotation \
         convoy.kumodo.io/adopt: \"true\""
    )]
    OwnedByHelm {
        /// The object.
        key: Box<ObjectKey>,
        /// The Helm release's name.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// Rendering gave no object at all, but the Release has some on the target.
    #[error(
        "rendering gave no objects, but the Release has {applied} on the target; nothing is pruned \
         (delete the Release to remove them)"
    )]
    EmptyBundle {
        /// How many objects the inventory names.
        applied: usize,
    },
    /// More would be pruned at once than is allowed without a word from the user.
    #[error(
        "this revision would prune {pruned} of {applied} objects at once; set the annotation \
         {annotation} on the Release to the new revision's digest or to \"true\" to allow it"
    )]
    LargePrune {
        /// How many would be pruned.
        pruned: usize,
        /// How many the inventory names.
        applied: usize,
        /// The annotation that allows it.
        annotation: &'static str,
    },
    /// A namespaced object has no namespace and the Release names none.
    #[error(
        "{source_name}: {kind} {name} has no namespace, and the Release has no spec.targetNamespace; set one"
    )]
    NoNamespace {
        /// Where it came from.
        source_name: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
}

impl Problem {
    /// Whether the target may come to fit without a change of source or Release, so that it is worth
    /// to look again after a while.
    pub fn may_pass_by_itself(&self) -> bool {
        matches!(
            self,
            Problem::UnknownKind { .. } | Problem::OwnedByOther { .. } | Problem::OwnedByHelm { .. }
        )
    }
}

/// All problems of a bundle; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    /// The number of problems when there are several, then one a line; long lists are cut with
    /// their count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        write!(f, "{} problems:", self.0.len())?;
        for problem in self.0.iter().take(SHOWN) {
            write!(f, "\n- {problem}")?;
        }
        if self.0.len() > SHOWN {
            write!(f, "\n- and {} more", self.0.len() - SHOWN)?;
        }
        Ok(())
    }
}
