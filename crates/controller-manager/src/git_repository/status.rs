use convoy_api::{
    ArtifactStatus, ConditionStatus, GitRepository, GitRepositoryStatus, annotation, condition_type, reason,
    set_condition,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// What a look at a repository came to.
pub(crate) enum Outcome {
    Fetched { artifact: ArtifactStatus, notes: Vec<String> },
    Failed { reason: &'static str, message: String, is_transient: bool },
    Suspended,
}

/// The status fields to write; none when they stand there already.
pub(crate) fn patch(
    repository: &GitRepository,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<Map<String, Value>> {
    let old = repository.status.clone().unwrap_or_default();
    let generation = repository.metadata.generation.unwrap_or_default();
    let mut new = GitRepositoryStatus { observed_generation: Some(generation), ..old.clone() };
    let annotations = repository.metadata.annotations.as_ref();
    new.last_handled_reconcile_at = annotations.and_then(|a| a.get(annotation::RECONCILE_AT)).cloned();
    let conditions = &mut new.conditions;
    conditions.retain(|condition| condition.type_ != condition_type::STALLED);
    match outcome {
        Outcome::Fetched { artifact, notes } => {
            let files = match artifact.files {
                1 => "1 file".to_owned(),
                files => format!("{files} files"),
            };
            let mut message = format!("{}, {files}", artifact.revision);
            for note in notes {
                message.push_str("; ");
                message.push_str(note);
            }
            // An unchanged revision has no notes: what was said of it still holds.
            let says_so = |condition: &convoy_api::Condition| {
                condition.type_ == condition_type::READY
                    && condition.status == ConditionStatus::True.as_str()
                    && condition.message.starts_with(&message)
            };
            if let Some(standing) = conditions.iter().find(|condition| says_so(condition)) {
                message.clone_from(&standing.message);
            }
            set_condition(
                conditions,
                condition_type::READY,
                ConditionStatus::True,
                reason::SUCCEEDED,
                message,
                generation,
                now,
            );
            new.artifact = Some(artifact.clone());
        }
        Outcome::Failed { reason, message, is_transient } => {
            set_condition(
                conditions,
                condition_type::READY,
                ConditionStatus::False,
                reason,
                message,
                generation,
                now,
            );
            if !is_transient {
                let message = "it is looked at again after spec.interval, and when the spec changes";
                set_condition(
                    conditions,
                    condition_type::STALLED,
                    ConditionStatus::True,
                    reason,
                    message,
                    generation,
                    now,
                );
            }
        }
        Outcome::Suspended => {
            let message = "spec.suspend is true; Releases keep the artifact that is there";
            set_condition(
                conditions,
                condition_type::READY,
                ConditionStatus::False,
                reason::SUSPENDED,
                message,
                generation,
                now,
            );
        }
    }
    if new == old {
        return None;
    }
    match serde_json::to_value(&new) {
        Ok(Value::Object(status)) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(status: Option<&Map<String, Value>>) -> GitRepository {
        let mut repository = GitRepository::default();
        repository.metadata.generation = Some(1);
        repository.status =
            status.map(|status| serde_json::from_value(Value::Object(status.clone())).unwrap());
        repository
    }

    fn fetched() -> Outcome {
        let artifact =
            ArtifactStatus { revision: "main@sha1:1".into(), digest: "sha256:1".into(), size: 1, files: 1 };
        Outcome::Fetched { artifact, notes: vec!["a submodule was left out".into()] }
    }

    #[test]
    fn an_unchanged_repository_is_not_written_again() {
        let first = patch(&repository(None), &fetched(), Timestamp::UNIX_EPOCH).unwrap();
        let later = Timestamp::from_second(60).unwrap();
        assert_eq!(patch(&repository(Some(&first)), &fetched(), later), None);
        let Outcome::Fetched { artifact, .. } = fetched() else { unreachable!() };
        let unchanged = Outcome::Fetched { artifact, notes: Vec::new() };
        assert_eq!(patch(&repository(Some(&first)), &unchanged, later), None, "the notes stay");
    }

    #[test]
    fn a_failed_fetch_keeps_the_artifact() {
        let first = patch(&repository(None), &fetched(), Timestamp::UNIX_EPOCH).unwrap();
        let failed = Outcome::Failed {
            reason: reason::GIT_UNREACHABLE,
            message: "cannot fetch branch \"main\" from https://x: no".into(),
            is_transient: true,
        };
        let second = patch(&repository(Some(&first)), &failed, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(second["artifact"], first["artifact"]);
        assert_eq!(second["conditions"][0]["reason"], "GitUnreachable");
    }
}
