//! What of a Release's status holds for the Release as it is now: above all, whether it goes back to an earlier
//! revision. Pure.

use convoy_api::{HistoryEntry, Release, ReleaseStatus, RollbackRequest, RollbackStatus, annotation};

/// The status, without what does not hold any more for the Release as it is now, and with the rollback that was
/// asked for. The text says why a rollback that was asked for is not made.
pub fn renewed(release: &Release, old: &ReleaseStatus) -> (ReleaseStatus, Option<String>) {
    let mut new = old.clone();
    let generation = release.metadata.generation.unwrap_or_default();
    let is_new_spec = old.observed_generation != Some(generation);
    let asks = is_asked(release, annotation::RECONCILE_AT, old.last_handled_reconcile_at.as_ref())
        || is_forced(release, old);
    if is_new_spec || asks {
        new.failure = None;
        new.rollback.take_if(|rollback| is_new_spec || !rollback.requested);
    }
    new.observed_generation = Some(generation);
    new.last_handled_reconcile_at = annotated(release, annotation::RECONCILE_AT).cloned();
    let (text, request) = RollbackRequest::of(release);
    let is_news = text.is_some() && text != old.last_handled_rollback.as_deref();
    if text.is_none() || is_news {
        new.rollback.take_if(|rollback| rollback.requested);
    }
    new.last_handled_rollback = text.map(str::to_owned);
    let refused = if is_news { begin(&mut new, request, generation).err() } else { None };
    (new, refused)
}

fn begin(
    status: &mut ReleaseStatus,
    request: Option<RollbackRequest>,
    generation: i64,
) -> Result<(), String> {
    let Some(request) = request else {
        return Err(format!("the annotation {} holds no request", annotation::ROLLBACK));
    };
    let revision = request.revision;
    if request.generation != generation {
        return Err(format!("the spec changed since the rollback to revision {revision} was asked for"));
    }
    let Some(entry) = status.history.iter().find(|entry| entry.revision == revision) else {
        return Err(format!("revision {revision} is not in the history any more"));
    };
    status.rollback =
        Some(Box::new(RollbackStatus { requested: true, ..back_to(entry, request.instead_of.as_str()) }));
    status.failure = None;
    Ok(())
}

/// What going back to a revision is recorded as.
pub fn back_to(entry: &HistoryEntry, instead_of: &str) -> RollbackStatus {
    RollbackStatus {
        revision: entry.revision,
        source_revision: entry.source_revision.clone(),
        bundle_digest: entry.bundle_digest.clone(),
        cluster_ref: entry.cluster_ref.clone(),
        target_namespace: entry.target_namespace.clone(),
        requested: false,
        instead_of: instead_of.to_owned(),
    }
}

fn annotated<'a>(release: &'a Release, name: &str) -> Option<&'a String> {
    release.metadata.annotations.as_ref()?.get(name)
}

fn is_asked(release: &Release, name: &str, handled: Option<&String>) -> bool {
    annotated(release, name).is_some_and(|asked| Some(asked) != handled)
}

/// Whether all objects are to be applied anew.
pub fn is_forced(release: &Release, status: &ReleaseStatus) -> bool {
    is_asked(release, annotation::FORCE_AT, status.last_handled_force_at.as_ref())
}

/// The source gave a bundle: what is known of another one does not hold any more. A revision of the source that
/// changes nothing for this Release, as most of a repository with many folders do, gives the same one.
pub fn arrived(status: &mut ReleaseStatus, bundle: &str) {
    status.failure.take_if(|failure| failure.bundle_digest != bundle);
    let Some(rollback) = &mut status.rollback else { return };
    if rollback.instead_of.is_empty() {
        bundle.clone_into(&mut rollback.instead_of);
    } else if rollback.instead_of != bundle {
        status.rollback = None;
    }
}
