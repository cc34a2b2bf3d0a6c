//! From what a look at a repository found to the status to write; pure.

use convoy_api::{
    ArtifactStatus, Condition, ConditionStatus, Duration, GitRepository, GitRepositoryStatus, annotation,
    condition_type, reason, set_condition,
};
use jiff::Timestamp;
use serde_json::Value;

/// How often a repository is looked at when its spec does not say.
pub(super) const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// What a look at a repository found.
#[derive(Debug)]
pub(super) enum Found {
    /// Nobody looked.
    Suspended,
    /// The reference is where it was.
    Unchanged,
    /// A new artifact is in the render store.
    New { artifact: ArtifactStatus, notes: Vec<String> },
    /// The look failed; the artifact that was there stays.
    Failed { reason: &'static str, message: String },
}

/// The revision that need not be fetched again: that of the artifact, unless the spec changed since, for
/// then the same revision could stand for something else (another URL).
pub(super) fn known_revision(repository: &GitRepository) -> Option<String> {
    let status = repository.status.as_ref()?;
    let is_current = status.observed_generation == repository.metadata.generation;
    status.artifact.as_ref().filter(|_| is_current).map(|artifact| artifact.revision.clone())
}

/// The status to apply; `None` when the object says all of it already.
pub(super) fn next(repository: &GitRepository, found: &Found, now: Timestamp) -> Option<Value> {
    let current = repository.status.clone().unwrap_or_default();
    let generation = repository.metadata.generation.unwrap_or_default();
    let mut artifact = current.artifact.clone();
    let (status, reason, message) = match found {
        Found::Suspended => (
            ConditionStatus::Unknown,
            reason::SUSPENDED,
            "spec.suspend is true; set it to false to go on".to_owned(),
        ),
        Found::Unchanged => {
            let message = ready(&current.conditions)
                .filter(|ready| ready.status == "True")
                .map_or_else(|| stored(artifact.as_ref(), &[]), |ready| ready.message.clone());
            (ConditionStatus::True, reason::SUCCEEDED, message)
        }
        Found::New { artifact: new, notes } => {
            artifact = Some(new.clone());
            (ConditionStatus::True, reason::SUCCEEDED, stored(Some(new), notes))
        }
        Found::Failed { reason, message } => (ConditionStatus::False, *reason, message.clone()),
    };
    let mut conditions = current.conditions.clone();
    conditions.retain(|condition| condition.type_ == condition_type::READY);
    set_condition(&mut conditions, condition_type::READY, status, reason, message, generation, now);
    let next = GitRepositoryStatus {
        observed_generation: Some(generation),
        conditions,
        artifact,
        last_handled_reconcile_at: repository
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(annotation::RECONCILE_AT).cloned()),
    };
    (repository.status.as_ref() != Some(&next)).then(|| serde_json::to_value(next).unwrap_or_default())
}

fn ready(conditions: &[Condition]) -> Option<&Condition> {
    convoy_api::find_condition(conditions, condition_type::READY)
}

fn stored(artifact: Option<&ArtifactStatus>, notes: &[String]) -> String {
    let mut message = match artifact {
        Some(artifact) => format!("{}: {} files, {} bytes", artifact.revision, artifact.files, artifact.size),
        None => "nothing was fetched yet".to_owned(),
    };
    for note in notes {
        message.push_str("; ");
        message.push_str(note);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_api::decode;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn repository(status: &Value) -> GitRepository {
        decode(&json!({
            "metadata": {"name": "apps", "namespace": "default", "generation": 2},
            "spec": {"url": "https://git.example.com/apps.git"},
            "status": status,
        }))
        .unwrap()
    }

    fn artifact() -> ArtifactStatus {
        ArtifactStatus {
            revision: "main@sha1:0".to_owned(),
            digest: "sha256:1".to_owned(),
            size: 3,
            files: 1,
        }
    }

    #[test]
    fn a_second_look_at_the_same_writes_nothing() {
        let found = Found::New { artifact: artifact(), notes: vec!["submodule x is left out".to_owned()] };
        let first = next(&repository(&json!(null)), &found, at(1)).unwrap();
        assert_eq!(
            first["conditions"][0]["message"],
            "main@sha1:0: 1 files, 3 bytes; submodule x is left out"
        );
        assert_eq!(next(&repository(&first), &Found::Unchanged, at(60)), None);
    }

    #[test]
    fn a_failed_look_keeps_the_artifact() {
        let first =
            next(&repository(&json!(null)), &Found::New { artifact: artifact(), notes: vec![] }, at(1))
                .unwrap();
        let failed = Found::Failed { reason: reason::GIT_UNREACHABLE, message: "no answer".to_owned() };
        let second = next(&repository(&first), &failed, at(2)).unwrap();
        assert_eq!(second["artifact"], first["artifact"]);
        assert_eq!(second["conditions"][0]["reason"], "GitUnreachable");
    }

    #[test]
    fn the_known_revision_counts_only_for_the_spec_it_was_fetched_for() {
        let status = |generation: i64| json!({"observedGeneration": generation, "artifact": {"revision": "r", "digest": "d"}});
        assert_eq!(known_revision(&repository(&status(2))).as_deref(), Some("r"));
        assert_eq!(known_revision(&repository(&status(1))), None);
    }
}
