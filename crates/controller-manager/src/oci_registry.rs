//! The controller of OCIRegistries: says whether a registry answers. What Releases take from it is fetched by
//! who delivers them (`artifacts`).

use std::sync::Arc;
use std::time::Duration;

use convoy_api::{OCIRegistry, OCIRegistryStatus};
use convoy_apply::Ownership;
use convoy_runtime::{Clock, Next, Store, StoreKey};
use convoy_source::{Fetcher, OciRepository};

use crate::duties::Duties;
use crate::host::{Host, HostError, in_words};
use crate::source_status::{self, Outcome};

/// `spec.interval` when it is absent.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);

/// What the controller works with.
pub(crate) struct OciRegistries {
    pub(crate) host: Host,
    pub(crate) duties: Duties,
    pub(crate) registries: Store<OCIRegistry>,
    pub(crate) fetcher: Fetcher,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The next look at a registry that is well.
pub(crate) fn interval(registry: &OCIRegistry) -> Duration {
    registry.spec.interval.map_or(DEFAULT_INTERVAL, convoy_api::Duration::as_std)
}

impl OciRegistries {
    pub(crate) async fn reconcile(self: Arc<Self>, key: StoreKey) -> Next {
        let ownership = match self.duties.begin(self.duties.shard_of(&key)) {
            Ok(ownership) => ownership,
            Err(next) => return next,
        };
        let Some(registry) = self.registries.get(&key) else { return Next::Done };
        if registry.metadata.deletion_timestamp.is_some() {
            return Next::Done;
        }
        tokio::select! {
            biased;
            () = ownership.lost() => Duties::given_up(),
            next = self.look_at(&key, &registry, &*ownership) => next,
        }
    }

    async fn look_at(&self, key: &StoreKey, registry: &OCIRegistry, ownership: &dyn Ownership) -> Next {
        let outcome = if registry.spec.suspend == Some(true) {
            Outcome::Suspended
        } else {
            match self.ask(key, registry).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    tracing::warn!(registry = %key, error = in_words(&error), "cannot read the Secret of an OCIRegistry");
                    return Next::Retry;
                }
            }
        };
        let next = outcome.next(interval(registry));
        let (now, old) = (self.clock.now(), registry.status.clone().unwrap_or_default());
        let generation = registry.metadata.generation.unwrap_or_default();
        let mut new = OCIRegistryStatus {
            observed_generation: Some(generation),
            last_handled_reconcile_at: source_status::asked(registry),
            ..old.clone()
        };
        source_status::say(&mut new.conditions, &outcome, generation, now);
        let Some(fields) = source_status::news(&old, &new) else { return next };
        let uid = registry.metadata.uid.as_deref().unwrap_or_default();
        match self.host.writer.apply_status::<OCIRegistry>(ownership, key, uid, &fields).await {
            Ok(_) => {
                if let Outcome::Failed { message, .. } = &outcome {
                    tracing::warn!(registry = %key, error = message, "asking the registry failed");
                }
                let conditions = (old.conditions.as_slice(), new.conditions.as_slice());
                source_status::event(&self.host, ownership, registry, conditions, now).await;
                next
            }
            Err(error) if error.is_not_owner() => Duties::given_up(),
            Err(error) if error.is_stale() => Duties::look_again(),
            Err(error) => {
                tracing::warn!(registry = %key, error = in_words(&error), "cannot write the status of an OCIRegistry");
                Next::Retry
            }
        }
    }

    async fn ask(&self, key: &StoreKey, registry: &OCIRegistry) -> Result<Outcome<()>, HostError> {
        let secret = match source_status::secret(&self.host, key, registry.spec.secret_ref.as_ref()).await? {
            Ok(secret) => secret,
            Err(outcome) => return Ok(outcome),
        };
        let answered = match OciRepository::from_spec(&registry.spec, None, secret.as_ref()) {
            Ok(repository) => self.fetcher.oci_ping(&repository).await,
            Err(error) => Err(error),
        };
        Ok(match answered {
            Ok(message) => Outcome::Fetched { found: (), message: message.to_owned() },
            Err(error) => Outcome::of_failure(&error),
        })
    }
}
