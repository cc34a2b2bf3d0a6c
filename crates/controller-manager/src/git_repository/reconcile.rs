use convoy_api::{GitRepository, reason};
use convoy_runtime::Next;
use convoy_source::{Class, FetchRequest, Fetched};

use super::Controller;
use super::status::{self, Found};
use crate::host::{HostError, chain};

impl Controller {
    /// Fetches when there is something new, and says in the status what was found.
    pub(super) async fn reconcile(&self, repository: &GitRepository) -> Result<Next, HostError> {
        let interval = Next::After(repository.spec.interval.unwrap_or(status::DEFAULT_INTERVAL).as_std());
        if repository.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Done);
        }
        if repository.spec.suspend == Some(true) {
            self.write(repository, &Found::Suspended).await?;
            return Ok(Next::Done);
        }
        let (found, next) = match self.look(repository).await? {
            Ok(found) => (found, interval),
            Err(failure) => {
                let next = match failure.class {
                    Class::Transient => Next::Retry,
                    Class::Terminal => interval,
                };
                (Found::Failed { reason: failure.reason, message: failure.message }, next)
            }
        };
        self.write(repository, &found).await?;
        Ok(next)
    }

    async fn write(&self, repository: &GitRepository, found: &Found) -> Result<(), HostError> {
        match status::next(repository, found, self.clock.now()) {
            Some(status) => self.host.apply_status(repository, &status).await,
            None => Ok(()),
        }
    }

    /// Asks the repository where the reference stands, and takes what is new into the render store.
    async fn look(&self, repository: &GitRepository) -> Result<Result<Found, LookFailure>, HostError> {
        let namespace = repository.metadata.namespace.as_deref().unwrap_or_default();
        let secret = match &repository.spec.secret_ref {
            None => None,
            Some(reference) => match self.host.secret_data(namespace, &reference.name).await? {
                Some(data) => Some(data),
                None => {
                    return Ok(Err(LookFailure {
                        class: Class::Transient,
                        reason: reason::DEPENDENCY_NOT_FOUND,
                        message: format!(
                            "Secret {namespace}/{} that spec.secretRef names does not exist; create it or mend the name",
                            reference.name
                        ),
                    }));
                }
            },
        };
        let known = status::known_revision(repository);
        let request = FetchRequest::from_spec(&repository.spec, secret.as_ref(), known);
        let fetched = match request {
            Ok(request) => self.fetcher.fetch(request).await,
            Err(error) => Err(error),
        };
        Ok(match fetched {
            Ok(Fetched::Unchanged { .. }) => Ok(Found::Unchanged),
            Ok(Fetched::New { artifact, notes }) => match self.render_store.put_artifact(&artifact).await {
                Ok(()) => Ok(Found::New { artifact: artifact.status(), notes }),
                Err(error) => Err(LookFailure {
                    class: Class::Transient,
                    reason: reason::STORE_FAILED,
                    message: chain(&error),
                }),
            },
            Err(error) => {
                Err(LookFailure { class: error.class(), reason: error.reason(), message: chain(&error) })
            }
        })
    }
}

/// A look that failed, in the words of the status.
struct LookFailure {
    class: Class,
    reason: &'static str,
    message: String,
}
