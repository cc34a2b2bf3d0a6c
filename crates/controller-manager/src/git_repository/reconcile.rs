use std::collections::BTreeMap;
use std::sync::Arc;

use convoy_api::{ArtifactStatus, GitRepository, reason};
use convoy_apply::Ownership;
use convoy_runtime::{Next, StoreKey};
use convoy_source::{FetchRequest, Fetched};

use super::status::{Fetch, patch};
use super::{GitRepositories, interval};
use crate::duties::Duties;
use crate::host::{HostError, in_words};
use crate::source_status::{self, Outcome};

impl GitRepositories {
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let ownership = match self.duties.begin(self.duties.shard_of(&key)) {
            Ok(ownership) => ownership,
            Err(next) => return next,
        };
        let Some(repository) = self.repositories.get(&key) else { return Next::Done };
        if repository.metadata.deletion_timestamp.is_some() {
            return Next::Done;
        }
        tokio::select! {
            biased;
            () = ownership.lost() => Duties::given_up(),
            next = self.look_at(&key, &repository, &*ownership) => next,
        }
    }

    async fn look_at(&self, key: &StoreKey, repository: &GitRepository, ownership: &dyn Ownership) -> Next {
        let outcome = if repository.spec.suspend == Some(true) {
            Outcome::Suspended
        } else {
            match self.fetch(key, repository).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    tracing::warn!(repository = %key, error = in_words(&error), "cannot read the Secret of a GitRepository");
                    return Next::Retry;
                }
            }
        };
        let next = outcome.next(interval(repository));
        let now = self.clock.now();
        let Some((fields, conditions)) = patch(repository, &outcome, now) else { return next };
        let uid = repository.metadata.uid.as_deref().unwrap_or_default();
        match self.host.writer.apply_status::<GitRepository>(ownership, key, uid, &fields).await {
            Ok(_) => {
                match &outcome {
                    Outcome::Fetched { found, .. } => {
                        tracing::info!(repository = %key, revision = found.artifact.revision, "artifact");
                    }
                    Outcome::Failed { message, .. } => {
                        tracing::warn!(repository = %key, error = message, "fetch failed");
                    }
                    Outcome::Suspended => {}
                }
                let old = repository.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
                source_status::event(&self.host, ownership, repository, (old, &conditions), now).await;
                next
            }
            Err(error) if error.is_not_owner() => Duties::given_up(),
            Err(error) if error.is_stale() => Duties::look_again(),
            Err(error) => {
                tracing::warn!(repository = %key, error = in_words(&error), "cannot write the status of a GitRepository");
                Next::Retry
            }
        }
    }

    async fn fetch(&self, key: &StoreKey, repository: &GitRepository) -> Result<Outcome<Fetch>, HostError> {
        let reference = repository.spec.secret_ref.as_ref();
        match source_status::secret(&self.host, key, reference).await? {
            Ok(secret) => {
                let fetch = self.fetch_with(repository, secret.as_ref());
                Ok(source_status::traced("GitRepository", key, fetch).await)
            }
            Err(outcome) => Ok(outcome),
        }
    }

    async fn fetch_with(
        &self,
        repository: &GitRepository,
        secret: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Outcome<Fetch> {
        let status = repository.status.clone().unwrap_or_default();
        // Of other files of the same revision nothing is known.
        let is_of_choice = status.artifact_choice == repository.spec.choice();
        let known = match status.artifact.filter(|_| is_of_choice) {
            Some(artifact) if self.is_stored(&artifact).await => Some(artifact),
            _ => None,
        };
        let revision = known.as_ref().map(|artifact| artifact.revision.clone());
        let fetched = match FetchRequest::from_spec(&repository.spec, secret, revision) {
            Ok(request) => self.fetcher.fetch(request).await,
            Err(error) => Err(error),
        };
        let found = match (fetched, known) {
            (Ok(Fetched::Unchanged { .. }), Some(artifact)) => Fetch { artifact, notes: Vec::new() },
            (Ok(Fetched::Unchanged { revision }), None) => {
                return store_failed(format!("the fetch of {revision} brought nothing"));
            }
            (Ok(Fetched::New { artifact, notes }), _) => match self.store.put_artifact(&artifact).await {
                Ok(()) => {
                    self.stored.lock().insert(artifact.digest().to_owned());
                    Fetch { artifact: artifact.status(), notes }
                }
                Err(error) => {
                    return store_failed(format!("the artifact cannot be kept: {}", in_words(&error)));
                }
            },
            (Err(error), _) => return Outcome::of_failure(&error),
        };
        Outcome::Fetched { message: found.in_words(&status.conditions), found }
    }

    /// Whether the render store has an artifact; it may have been lost, and is then fetched again. What this process has
    /// seen whole is only asked for: a Release that finds it damaged removes it.
    async fn is_stored(&self, artifact: &ArtifactStatus) -> bool {
        if self.stored.lock().contains(&artifact.digest) {
            let is_there = self.store.has_artifact(&artifact.digest).await.unwrap_or(true);
            if !is_there {
                self.stored.lock().remove(&artifact.digest);
            }
            return is_there;
        }
        let found = matches!(self.store.artifact(&artifact.digest, &artifact.revision).await, Ok(Some(_)));
        if found {
            self.stored.lock().insert(artifact.digest.clone());
        }
        found
    }
}

fn store_failed(message: String) -> Outcome<Fetch> {
    Outcome::Failed { reason: reason::STORE_FAILED, message, is_transient: true }
}
