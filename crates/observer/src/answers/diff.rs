//! From a preview to a diff.

use convoy_api::{PreviewAction, ReleaseDiff, ReleasePreview};

use super::Answering;
use super::bounded::bounded;
use super::gather::{Gathered, Purpose};

impl Answering {
    /// How what would be applied differs from what is on the target.
    pub(super) async fn diff(&self, gathered: Gathered<'_>) -> ReleaseDiff {
        let told = self.gather(Gathered { purpose: Purpose::Diff, ..gathered }).await;
        bounded(differing(told))
    }
}

/// What of a preview is a difference.
pub(super) fn differing(told: ReleasePreview) -> ReleaseDiff {
    let mut objects = told.objects;
    objects.retain(|object| object.action != PreviewAction::Keep || !object.problem.is_empty());
    let mut remarks = told.waits;
    remarks.extend(told.remarks);
    ReleaseDiff {
        cluster: told.cluster,
        source_revision: told.source_revision,
        bundle_digest: told.bundle_digest,
        summary: told.summary,
        counts: told.counts,
        problems: told.problems,
        objects,
        remarks,
        omitted_objects: told.omitted_objects,
        ..ReleaseDiff::default()
    }
}
