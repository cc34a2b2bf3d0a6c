//! Whose the fields of a status are, and what this process knows of them.

use convoy_api::{Release, ReleaseStatus, condition_type};
use serde_json::{Map, Value};

/// The conditions that the controller-manager writes; the others are the observer's.
const OURS: [&str; 6] = [
    condition_type::READY,
    condition_type::FETCHED,
    condition_type::RENDERED,
    condition_type::APPLIED,
    condition_type::RECONCILING,
    condition_type::STALLED,
];

/// The fields of a status that the controller-manager owns, as they are applied.
pub(crate) fn owned(status: &ReleaseStatus) -> Map<String, Value> {
    let mut ours = ReleaseStatus {
        healthy_objects: None,
        observer: None,
        observed_bundle_digest: None,
        drifted_objects: Vec::new(),
        observed_apply: None,
        ..status.clone()
    };
    ours.conditions.retain(|condition| OURS.contains(&condition.type_.as_str()));
    // The order of conditions says nothing, and another writer may change it.
    ours.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    match serde_json::to_value(&ours) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The status of a Release: as the store shows it, or, while that is older, as this process wrote it last
/// (with the resourceVersion that the write got) with the observer's fields of the store.
pub(crate) fn known(release: &Release, written: Option<&(String, ReleaseStatus)>) -> ReleaseStatus {
    let current = release.status.clone().unwrap_or_default();
    match written {
        Some((version, written)) if is_shown_older(release, version) => merged(&current, written),
        // What another replica wrote after us is what there is.
        _ => current,
    }
}

/// Whether the store shows a Release as it was before a write that got this resourceVersion.
pub(crate) fn is_shown_older(release: &Release, version: &str) -> bool {
    is_older(release.metadata.resource_version.as_deref().unwrap_or_default(), version)
}

/// Whether a resourceVersion is older than another; what cannot be compared may be.
fn is_older(shown: &str, written: &str) -> bool {
    match (shown.parse::<u64>(), written.parse::<u64>()) {
        (Ok(shown), Ok(written)) => shown < written,
        _ => true,
    }
}

fn merged(current: &ReleaseStatus, written: &ReleaseStatus) -> ReleaseStatus {
    let mut merged = ReleaseStatus {
        healthy_objects: current.healthy_objects,
        observer: current.observer.clone(),
        drifted_objects: current.drifted_objects.clone(),
        observed_apply: current.observed_apply.clone(),
        observed_bundle_digest: current.observed_bundle_digest.clone(),
        ..written.clone()
    };
    merged.conditions.retain(|condition| OURS.contains(&condition.type_.as_str()));
    let theirs = current.conditions.iter().filter(|condition| !OURS.contains(&condition.type_.as_str()));
    merged.conditions.extend(theirs.cloned());
    merged
}
