use convoy_api::{
    ArtifactStatus, Condition, ConditionStatus, GitRepository, GitRepositoryStatus, condition_type,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::source_status::{self, Outcome};

/// An artifact, and what was left out of it.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) artifact: ArtifactStatus,
    pub(crate) notes: Vec<String>,
}

impl Fetch {
    /// What Ready says of it. An unchanged revision has no notes: what was said of it still holds.
    pub(crate) fn in_words(&self, standing: &[Condition]) -> String {
        let files = match self.artifact.files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        let mut message = format!("{}, {files}", self.artifact.revision);
        for note in &self.notes {
            message.push_str("; ");
            message.push_str(note);
        }
        let says_so = |condition: &&Condition| {
            condition.type_ == condition_type::READY
                && condition.status == ConditionStatus::True.as_str()
                && condition.message.starts_with(&message)
        };
        standing.iter().find(says_so).map_or(message, |standing| standing.message.clone())
    }
}

/// The status fields to write, with the new conditions; none when they stand there already.
pub(crate) fn patch(
    repository: &GitRepository,
    outcome: &Outcome<Fetch>,
    now: Timestamp,
) -> Option<(Map<String, Value>, Vec<Condition>)> {
    let old = repository.status.clone().unwrap_or_default();
    let generation = repository.metadata.generation.unwrap_or_default();
    let mut new = GitRepositoryStatus {
        observed_generation: Some(generation),
        last_handled_reconcile_at: source_status::asked(repository),
        ..old.clone()
    };
    source_status::say(&mut new.conditions, outcome, generation, now);
    if let Outcome::Fetched { found, .. } = outcome {
        new.artifact = Some(found.artifact.clone());
        new.artifact_choice = repository.spec.choice();
    }
    source_status::news(&old, &new).map(|fields| (fields, new.conditions))
}

#[cfg(test)]
mod tests {
    use convoy_api::reason;

    use super::*;

    fn repository(status: Option<&Map<String, Value>>) -> GitRepository {
        let mut repository = GitRepository::default();
        repository.metadata.generation = Some(1);
        repository.status =
            status.map(|status| serde_json::from_value(Value::Object(status.clone())).unwrap());
        repository
    }

    fn fetched(repository: &GitRepository, notes: &[&str]) -> Outcome<Fetch> {
        let artifact =
            ArtifactStatus { revision: "main@sha1:1".into(), digest: "sha256:1".into(), size: 1, files: 1 };
        let found = Fetch { artifact, notes: notes.iter().map(|note| (*note).to_owned()).collect() };
        let standing = repository.status.clone().unwrap_or_default().conditions;
        Outcome::Fetched { message: found.in_words(&standing), found }
    }

    #[test]
    fn an_unchanged_repository_is_not_written_again() {
        let new = repository(None);
        let notes = ["a submodule was left out"];
        let (first, _) = patch(&new, &fetched(&new, &notes), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(first["conditions"][0]["message"], "main@sha1:1, 1 file; a submodule was left out");
        let (later, known) = (Timestamp::from_second(60).unwrap(), repository(Some(&first)));
        assert!(patch(&known, &fetched(&known, &notes), later).is_none());
        assert!(patch(&known, &fetched(&known, &[]), later).is_none(), "the notes stay");
    }

    /// A fetch that fails after the choice changed must not make the old files look like those that are chosen.
    #[test]
    fn files_are_known_by_the_choice_that_they_were_fetched_with() {
        let mut chosen = repository(None);
        chosen.spec.ignore = vec!["*.md".to_owned()];
        let (first, _) = patch(&chosen, &fetched(&chosen, &[]), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(first["artifactChoice"].as_str(), chosen.spec.choice().as_deref());
        let mut other = repository(Some(&first));
        other.spec.ignore = vec!["*.txt".to_owned()];
        let failed =
            Outcome::Failed { reason: reason::STORE_FAILED, message: String::new(), is_transient: true };
        let (second, _) = patch(&other, &failed, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(second["artifactChoice"], first["artifactChoice"]);
        let all = repository(Some(&first));
        let (third, _) = patch(&all, &fetched(&all, &[]), Timestamp::UNIX_EPOCH).unwrap();
        assert!(third.get("artifactChoice").is_none());
    }

    #[test]
    fn case303_a_failed_fetch_keeps_the_artifact() {
        let new = repository(None);
        let (first, _) = patch(&new, &fetched(&new, &[]), Timestamp::UNIX_EPOCH).unwrap();
        let failed = Outcome::Failed {
            reason: reason::GIT_REFERENCE_NOT_FOUND,
            message: "cannot fetch branch \"main\" from https://x: it does not exist there".into(),
            is_transient: false,
        };
        let (second, _) = patch(&repository(Some(&first)), &failed, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(second["artifact"], first["artifact"]);
        assert_eq!(second["conditions"][0]["reason"], "GitReferenceNotFound");
        assert_eq!(second["conditions"][1]["type"], "Stalled");
    }
}
