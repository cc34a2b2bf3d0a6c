//! A chart of a HelmRegistry: chosen from the index that the registry's controller keeps, and downloaded.

use std::sync::Arc;

use convoy_api::{ArtifactStatus, Condition, HelmRegistry, condition_type, find_condition, reason};
use convoy_render::Kept;
use convoy_runtime::{Next, StoreKey};
use convoy_source::{ChartIndex, ChartVersion, FetchError, HelmRepository};

use super::Artifacts;
use super::look::{Looked, SOON, failed, not_ready, said, store_failed};
use crate::helm_registry::interval;
use crate::host::in_words;
use crate::sources::Unresolved;

/// Indexes that are kept in memory; the render store has the rest.
const KEPT: usize = 8;

impl Artifacts {
    pub(super) async fn look_at_chart(
        &self,
        key: &StoreKey,
        chart: &str,
        version: Option<&str>,
        kept: Option<&Kept>,
    ) -> Looked {
        let Some(registry) = self.registries.get(key) else {
            let message = format!(
                "there is no HelmRegistry {key}, which spec.source.helm.registryRef names; create it"
            );
            let trouble = Unresolved { reason: reason::DEPENDENCY_NOT_FOUND, message, is_terminal: false };
            return Looked::Gone { trouble };
        };
        let is_suspended = registry.spec.suspend == Some(true);
        if is_suspended && kept.is_some() {
            return Looked::Same { next: Next::Done };
        }
        let status = registry.status.clone().unwrap_or_default();
        let Some(index) = status.artifact.as_ref().filter(|_| !is_suspended) else {
            return not_ready(format!("the HelmRegistry {key} has no index: {}", said(&status.conditions)));
        };
        let index = match self.index(index).await {
            Ok(index) => index,
            Err(looked) => return looked,
        };
        let secret = match self.secret_of(key, registry.spec.secret_ref.as_ref()).await {
            Ok(secret) => secret,
            Err(looked) => return looked,
        };
        let chosen = HelmRepository::from_spec(&registry.spec, secret.as_ref()).and_then(|repository| {
            index.version(&repository, chart, version).map(|v| (v.clone(), repository))
        });
        let fetched = match chosen {
            Err(error) => Err(error),
            Ok((version, repository)) => {
                let upstream = upstream(&repository, &version);
                if kept.is_some_and(|kept| kept.upstream == upstream) {
                    return outdated(key, &status.conditions).unwrap_or(Looked::Same { next: Next::Done });
                }
                self.fetcher.helm_chart(&repository, chart, &version).await.map(|chart| (chart, upstream))
            }
        };
        match fetched {
            // A new index brings the next look.
            Ok((artifact, upstream)) => self.keep(&artifact, upstream, Next::Done).await,
            Err(error) => chart_failed(&registry, &error),
        }
    }

    /// An index by its artifact.
    async fn index(&self, artifact: &ArtifactStatus) -> Result<Arc<ChartIndex>, Looked> {
        if let Some(index) = self.indexes.lock().get(&artifact.digest) {
            return Ok(Arc::clone(index));
        }
        let stored = self.store.artifact(&artifact.digest, &artifact.revision).await;
        let stored = stored.map_err(|error| store_failed(in_words(&error)))?;
        let lost = || {
            let message = "the index is not in the render store; it is being read again".to_owned();
            let trouble = Unresolved { reason: reason::DEPENDENCY_NOT_READY, message, is_terminal: false };
            Looked::Failed { trouble, next: Next::Wait(SOON) }
        };
        let index = Arc::new(stored.as_ref().and_then(ChartIndex::from_artifact).ok_or_else(lost)?);
        let mut indexes = self.indexes.lock();
        if indexes.len() >= KEPT {
            // A plain way to stay bounded: what is still used is soon here again.
            indexes.clear();
        }
        indexes.insert(artifact.digest.clone(), Arc::clone(&index));
        Ok(index)
    }
}

/// When the index cannot be read anew: there may be a newer version than what is kept. Why is said by the registry.
fn outdated(registry: &StoreKey, conditions: &[Condition]) -> Option<Looked> {
    let ready = find_condition(conditions, condition_type::READY)?;
    let is_failure = ready.status == "False" && ready.reason != reason::SUSPENDED;
    is_failure.then(|| {
        not_ready(format!(
            "the HelmRegistry {} is not Ready ({}); what was fetched last stays in use",
            registry.name, ready.reason
        ))
    })
}

fn chart_failed(registry: &HelmRegistry, error: &FetchError) -> Looked {
    failed(error, interval(registry))
}

/// What exactly is downloaded.
fn upstream(repository: &HelmRepository, version: &ChartVersion) -> String {
    let url = version.urls.first().map(String::as_str).unwrap_or_default();
    // The URL may hold what should not be kept: its digest tells as well whether it is the same.
    let digest = version.digest.as_deref().unwrap_or_default();
    let place = convoy_source::digest_of(format!("{} {url}", repository.url()).as_bytes());
    format!("{} {digest} {place}", version.version)
}
