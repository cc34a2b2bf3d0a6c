use std::collections::BTreeMap;
use std::sync::Arc;

use convoy_api::{ArtifactStatus, GitRepository, reason};
use convoy_apply::Ownership;
use convoy_runtime::{Next, StoreKey};
use convoy_source::{Class, FetchRequest, Fetched};

use super::status::{Outcome, patch};
use super::{GitRepositories, interval, secret_key};
use crate::duties::Duties;
use crate::host::{HostError, in_words};

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
        let (outcome, next) = if repository.spec.suspend == Some(true) {
            (Outcome::Suspended, Next::Done)
        } else {
            match self.fetch(repository).await {
                Ok(outcome) => {
                    let next = outcome.next(repository);
                    (outcome, next)
                }
                Err(error) => {
                    tracing::warn!(repository = %key, error = in_words(&error), "cannot read the Secret of a GitRepository");
                    return Next::Retry;
                }
            }
        };
        let Some(status) = patch(repository, &outcome, self.clock.now()) else { return next };
        let uid = repository.metadata.uid.as_deref().unwrap_or_default();
        match self.host.writer.apply_status::<GitRepository>(ownership, key, uid, &status).await {
            Ok(_) => {
                outcome.log(key);
                next
            }
            Err(error) if error.is_not_owner() => Duties::given_up(),
            Err(error) if error.is_stale() => Next::Done,
            Err(error) => {
                tracing::warn!(repository = %key, error = in_words(&error), "cannot write the status of a GitRepository");
                Next::Retry
            }
        }
    }

    async fn fetch(&self, repository: &GitRepository) -> Result<Outcome, HostError> {
        let secret = match secret_key(repository) {
            None => None,
            Some(key) => match self.host.secret(&key).await? {
                Some(data) => Some(data),
                None => {
                    return Ok(Outcome::Failed {
                        reason: reason::DEPENDENCY_NOT_FOUND,
                        message: format!("there is no Secret {key}, which spec.secretRef names; create it"),
                        is_transient: true,
                    });
                }
            },
        };
        Ok(self.fetch_with(repository, secret.as_ref()).await)
    }

    async fn fetch_with(
        &self,
        repository: &GitRepository,
        secret: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Outcome {
        let known = repository.status.as_ref().and_then(|status| status.artifact.clone());
        let known = match known {
            Some(artifact) if self.is_stored(&artifact).await => Some(artifact),
            _ => None,
        };
        let revision = known.as_ref().map(|artifact| artifact.revision.clone());
        let fetched = match FetchRequest::from_spec(&repository.spec, secret, revision) {
            Ok(request) => self.fetcher.fetch(request).await,
            Err(error) => Err(error),
        };
        match (fetched, known) {
            (Ok(Fetched::Unchanged { .. }), Some(artifact)) => {
                Outcome::Fetched { artifact, notes: Vec::new() }
            }
            (Ok(Fetched::Unchanged { revision }), None) => Outcome::Failed {
                reason: reason::STORE_FAILED,
                message: format!("the fetch of {revision} brought nothing"),
                is_transient: true,
            },
            (Ok(Fetched::New { artifact, notes }), _) => match self.store.put_artifact(&artifact).await {
                Ok(()) => {
                    self.stored.lock().insert(artifact.digest().to_owned());
                    Outcome::Fetched { artifact: artifact.status(), notes }
                }
                Err(error) => Outcome::Failed {
                    reason: reason::STORE_FAILED,
                    message: format!("the artifact cannot be kept: {}", in_words(&error)),
                    is_transient: true,
                },
            },
            (Err(error), _) => Outcome::Failed {
                reason: error.reason(),
                message: in_words(&error),
                is_transient: error.class() == Class::Transient,
            },
        }
    }

    /// Whether the render store has an artifact; it may have been lost, and is then fetched again.
    async fn is_stored(&self, artifact: &ArtifactStatus) -> bool {
        if self.stored.lock().contains(&artifact.digest) {
            return true;
        }
        let found = matches!(self.store.artifact(&artifact.digest, &artifact.revision).await, Ok(Some(_)));
        if found {
            self.stored.lock().insert(artifact.digest.clone());
        }
        found
    }
}

impl Outcome {
    fn next(&self, repository: &GitRepository) -> Next {
        match self {
            Outcome::Failed { is_transient: true, .. } => Next::Retry,
            Outcome::Failed { is_transient: false, .. } | Outcome::Fetched { .. } => {
                Next::After(interval(repository))
            }
            Outcome::Suspended => Next::Done,
        }
    }

    fn log(&self, key: &StoreKey) {
        match self {
            Outcome::Fetched { artifact, .. } => {
                tracing::info!(repository = %key, revision = artifact.revision, "artifact");
            }
            Outcome::Failed { message, .. } => {
                tracing::warn!(repository = %key, error = message, "fetch failed");
            }
            Outcome::Suspended => {}
        }
    }
}
