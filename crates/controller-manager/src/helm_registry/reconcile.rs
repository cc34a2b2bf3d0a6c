use std::collections::BTreeMap;
use std::sync::Arc;

use convoy_api::{HelmRegistry, reason};
use convoy_apply::Ownership;
use convoy_runtime::{Next, StoreKey};
use convoy_source::{FetchedIndex, HelmRepository};

use super::status::{Index, patch};
use super::{HelmRegistries, Seen, interval};
use crate::duties::Duties;
use crate::host::{HostError, in_words};
use crate::source_status::{self, Outcome};

impl HelmRegistries {
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let ownership = match self.duties.begin(self.duties.shard_of(&key)) {
            Ok(ownership) => ownership,
            Err(next) => return next,
        };
        let registry = self.registries.get(&key);
        let Some(registry) = registry.filter(|found| found.metadata.deletion_timestamp.is_none()) else {
            self.seen.lock().remove(&key);
            return Next::Done;
        };
        tokio::select! {
            biased;
            () = ownership.lost() => Duties::given_up(),
            next = self.look_at(&key, &registry, &*ownership) => next,
        }
    }

    async fn look_at(&self, key: &StoreKey, registry: &HelmRegistry, ownership: &dyn Ownership) -> Next {
        let outcome = if registry.spec.suspend == Some(true) {
            Outcome::Suspended
        } else {
            match self.read(key, registry).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    tracing::warn!(registry = %key, error = in_words(&error), "cannot read the Secret of a HelmRegistry");
                    return Next::Retry;
                }
            }
        };
        let next = outcome.next(interval(registry));
        let now = self.clock.now();
        let Some((fields, conditions)) = patch(registry, &outcome, now) else { return next };
        let uid = registry.metadata.uid.as_deref().unwrap_or_default();
        match self.host.writer.apply_status::<HelmRegistry>(ownership, key, uid, &fields).await {
            Ok(_) => {
                match &outcome {
                    Outcome::Fetched { message, .. } => tracing::info!(registry = %key, "index: {message}"),
                    Outcome::Failed { message, .. } => {
                        tracing::warn!(registry = %key, error = message, "reading the index failed");
                    }
                    Outcome::Suspended => {}
                }
                let old = registry.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
                source_status::event(&self.host, ownership, registry, (old, &conditions), now).await;
                next
            }
            Err(error) if error.is_not_owner() => Duties::given_up(),
            Err(error) if error.is_stale() => Duties::look_again(),
            Err(error) => {
                tracing::warn!(registry = %key, error = in_words(&error), "cannot write the status of a HelmRegistry");
                Next::Retry
            }
        }
    }

    async fn read(&self, key: &StoreKey, registry: &HelmRegistry) -> Result<Outcome<Index>, HostError> {
        let secret = match source_status::secret(&self.host, key, registry.spec.secret_ref.as_ref()).await? {
            Ok(secret) => secret,
            Err(outcome) => return Ok(outcome),
        };
        let read = self.read_with(key, registry, secret.as_ref());
        Ok(source_status::traced("HelmRegistry", key, read).await)
    }

    async fn read_with(
        &self,
        key: &StoreKey,
        registry: &HelmRegistry,
        secret: Option<&BTreeMap<String, Vec<u8>>>,
    ) -> Outcome<Index> {
        let known = self.known(key, registry).await;
        let validators = known.as_ref().map(|(_, seen)| seen.validators.clone());
        let fetched = match HelmRepository::from_spec(&registry.spec, secret) {
            Ok(repository) => self.fetcher.helm_index(&repository, validators).await,
            Err(error) => Err(error),
        };
        match (fetched, known) {
            (Ok(FetchedIndex::Unchanged), Some((index, _))) => found(index),
            (Ok(FetchedIndex::Unchanged), None) => store_failed("the server sent no index".to_owned()),
            (Ok(FetchedIndex::New { index, digest, validators }), _) => {
                let artifact = index.artifact(digest.as_str());
                if let Err(error) = self.store.put_artifact(&artifact).await {
                    return store_failed(format!("the index cannot be kept: {}", in_words(&error)));
                }
                let seen = Seen { digest: digest.clone(), validators };
                self.seen.lock().insert(key.clone(), seen);
                let charts = i64::try_from(index.len()).unwrap_or(i64::MAX);
                found(Index { digest, charts, artifact: artifact.status() })
            }
            (Err(error), _) => Outcome::of_failure(&error),
        }
    }

    /// The index of the status, if the server can be asked whether it is still the same: when this process
    /// read it, and the render store has it.
    async fn known(&self, key: &StoreKey, registry: &HelmRegistry) -> Option<(Index, Seen)> {
        let status = registry.status.as_ref()?;
        let (digest, artifact) = (status.index_digest.clone()?, status.artifact.clone()?);
        let seen = self.seen.lock().get(key).cloned().filter(|seen| seen.digest == digest)?;
        let is_stored = self.store.has_artifact(&artifact.digest).await.unwrap_or(false);
        is_stored.then(|| (Index { digest, charts: status.charts.unwrap_or_default(), artifact }, seen))
    }
}

fn found(index: Index) -> Outcome<Index> {
    let message = match index.charts {
        1 => "1 chart".to_owned(),
        charts => format!("{charts} charts"),
    };
    Outcome::Fetched { found: index, message }
}

fn store_failed(message: String) -> Outcome<Index> {
    Outcome::Failed { reason: reason::STORE_FAILED, message, is_transient: true }
}
