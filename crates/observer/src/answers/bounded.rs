//! Answers cut to a bearable length.

use convoy_api::{PreviewObject, ReleaseDiff, ReleasePreview};
use serde::Serialize;

/// Objects of an answer.
pub(super) const MOST_OBJECTS: usize = 2000;
/// Bytes of an answer, about.
pub(super) const MOST_BYTES: usize = 6 << 20;

/// An answer of objects.
pub(super) trait Objects: Serialize {
    fn parts(&mut self) -> (&mut Vec<PreviewObject>, &mut i64, &mut Vec<String>);
}

impl Objects for ReleasePreview {
    fn parts(&mut self) -> (&mut Vec<PreviewObject>, &mut i64, &mut Vec<String>) {
        (&mut self.objects, &mut self.omitted_objects, &mut self.remarks)
    }
}

impl Objects for ReleaseDiff {
    fn parts(&mut self) -> (&mut Vec<PreviewObject>, &mut i64, &mut Vec<String>) {
        (&mut self.objects, &mut self.omitted_objects, &mut self.remarks)
    }
}

/// Bytes of an answer.
pub(super) fn size(answer: &impl Serialize) -> usize {
    serde_json::to_vec(answer).map_or(0, |bytes| bytes.len())
}

/// The answer, cut to a bearable length: those that stay as they are go first.
pub(super) fn bounded<T: Objects>(mut answer: T) -> T {
    if answer.parts().0.len() > MOST_OBJECTS {
        omit(&mut answer, MOST_OBJECTS);
    }
    if size(&answer) > MOST_BYTES {
        let (objects, _, remarks) = answer.parts();
        for object in objects {
            object.omitted_changes += i64::try_from(object.changes.len()).unwrap_or(i64::MAX);
            object.changes.clear();
            object.diff.clear();
        }
        remarks.push("the changes of fields were left out to keep the answer short".to_owned());
    }
    while size(&answer) > MOST_BYTES && !answer.parts().0.is_empty() {
        let half = answer.parts().0.len() / 2;
        omit(&mut answer, half);
    }
    let (_, omitted, remarks) = answer.parts();
    if *omitted > 0 {
        remarks
            .push(format!("{omitted} objects were left out to keep the answer short; the counts have them"));
    }
    answer
}

fn omit(answer: &mut impl Objects, most: usize) {
    let (objects, omitted, _) = answer.parts();
    let more = objects.len().saturating_sub(most);
    objects.truncate(most);
    *omitted += i64::try_from(more).unwrap_or(i64::MAX);
}
