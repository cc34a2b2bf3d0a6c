//! Where Releases' files come from: one answer for all sorts of sources.

use std::sync::Arc;

use convoy_api::{GitRepository, Release, condition_type, find_condition, reason};
pub(crate) use convoy_prepare::Unresolved;
use convoy_prepare::{Resolved, git_artifact};
use convoy_runtime::{Store, StoreKey};

use crate::artifacts::{Artifacts, State, Wanted};

/// All sources. Clones share them.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) repositories: Store<GitRepository>,
    pub(crate) artifacts: Arc<Artifacts>,
}

impl Sources {
    /// The artifact that a Release names, which is being worked on in `shard`.
    pub(crate) fn resolve(
        &self,
        key: &StoreKey,
        shard: u32,
        release: &Release,
    ) -> Result<Resolved, Unresolved> {
        let source = &release.spec.source;
        let at_root = |artifact| Resolved { artifact, path: String::new() };
        if let Some(git) = &source.git {
            self.artifacts.release(key);
            return git_artifact(&self.repositories, &key.namespace, git);
        }
        let Some(wanted) = Wanted::of(key, source) else {
            self.artifacts.release(key);
            let message = "spec.source names no source; set one of git, helm and oci".to_owned();
            return Err(Unresolved { reason: reason::INVALID_SPEC, message, is_terminal: true });
        };
        match self.artifacts.want(key, shard, wanted) {
            State { kept: Some(kept), .. } => Ok(at_root(kept.artifact)),
            State { trouble: Some(trouble), .. } => Err(trouble),
            State { .. } => Err(Unresolved {
                reason: reason::DEPENDENCY_NOT_READY,
                message: "what spec.source names is being fetched".to_owned(),
                is_terminal: false,
            }),
        }
    }

    /// What is wrong with the source of a Release, although something that it brought before is in use.
    pub(crate) fn trouble(&self, key: &StoreKey, release: &Release) -> Option<Unresolved> {
        let Some(git) = &release.spec.source.git else {
            let state = self.artifacts.known(key)?;
            return state.trouble.filter(|_| state.kept.is_some());
        };
        let repository = self
            .repositories
            .get(&StoreKey::new(key.namespace.as_str(), git.repository_ref.name.as_str()))?;
        let status = repository.status.as_ref().filter(|status| status.artifact.is_some())?;
        let ready = find_condition(&status.conditions, condition_type::READY)?;
        let is_failure = ready.status == "False" && ready.reason != reason::SUSPENDED;
        let is_terminal = find_condition(&status.conditions, condition_type::STALLED).is_some();
        is_failure.then(|| Unresolved {
            reason: reason::DEPENDENCY_NOT_READY,
            // Why is said there: the words may change with every try, and a thousand Releases would repeat them.
            message: format!(
                "the GitRepository {} is not Ready ({}); what was fetched last stays in use",
                git.repository_ref.name, ready.reason
            ),
            is_terminal,
        })
    }
}
