//! One look at what is wanted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Artifact, Condition, LocalReference, condition_type, find_condition, reason};
use convoy_prepare::{name_of_artifact, name_of_chart};
use convoy_render::Kept;
use convoy_runtime::traces::{TRACES, traced};
use convoy_runtime::{Next, StoreKey};
use convoy_source::{Class, FetchError};
use tracing::field::Empty;

use super::{Artifacts, State, Wanted};
use crate::host::in_words;
use crate::sources::Unresolved;

/// When to look again at what waits for something that has no event.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// What a look came to.
pub(super) enum Looked {
    /// It is what it was.
    Same { next: Next },
    /// It is this now.
    Found { kept: Kept, next: Next },
    /// The registry is not there any more, and with it all that came from it.
    Gone { trouble: Unresolved },
    /// It could not be told; what was found last stays.
    Failed { trouble: Unresolved, next: Next },
}

impl Artifacts {
    pub(crate) async fn reconcile(self: Arc<Self>, wanted: Wanted) -> Next {
        let Some(mut state) = self.state(&wanted) else { return Next::Done };
        let Some(key) = self.store_key(&wanted) else { return Next::Done };
        if state.kept.is_none() {
            match self.store.kept(&key).await {
                Ok(kept) => state.kept = kept,
                Err(error) => {
                    tracing::warn!("cannot read what is kept of {wanted}: {}", in_words(&error));
                }
            }
        }
        let kept = self.still_there(state.kept.take()).await;
        let span = tracing::info_span!(target: TRACES, "fetch", convoy.kind = "artifact", convoy.object = %wanted, otel.status_code = Empty);
        let look = async {
            match &wanted {
                Wanted::Chart { registry, chart, version } => {
                    Some(self.look_at_chart(registry, chart, version.as_deref(), kept.as_ref()).await)
                }
                Wanted::Artifact { registry, source } => {
                    Some(self.look_at_artifact(registry, source, kept.as_ref()).await)
                }
                Wanted::AnyChart { .. } | Wanted::AnyArtifact { .. } => None,
            }
        };
        let has_failed = |looked: &Option<Looked>| matches!(looked, Some(Looked::Failed { .. }));
        let Some(looked) = traced(span, look, has_failed).await else { return Next::Done };
        let (state, next) = match looked {
            Looked::Same { next } => (State { kept, trouble: None }, next),
            Looked::Found { kept, next } => {
                if let Err(error) = self.store.put_kept(&key, &kept).await {
                    // It is looked up anew after a restart.
                    tracing::warn!("cannot keep what became of {wanted}: {}", in_words(&error));
                }
                tracing::info!("{wanted} is {}", kept.artifact.revision);
                (State { kept: Some(kept), trouble: None }, next)
            }
            Looked::Gone { trouble } => (State { kept: None, trouble: Some(trouble) }, Next::Done),
            Looked::Failed { trouble, next } => {
                tracing::warn!("{wanted}: {}", trouble.message);
                (State { kept, trouble: Some(trouble) }, next)
            }
        };
        self.told(&wanted, state);
        next
    }

    /// Nothing when the render store lost it: then it is fetched again.
    async fn still_there(&self, kept: Option<Kept>) -> Option<Kept> {
        let kept = kept?;
        match self.store.has_artifact(&kept.artifact.digest).await {
            Ok(false) => None,
            Ok(true) | Err(_) => Some(kept),
        }
    }

    /// The name under which the store keeps what something came to.
    fn store_key(&self, wanted: &Wanted) -> Option<String> {
        let url = match wanted {
            Wanted::Chart { registry, .. } | Wanted::AnyChart { registry } => {
                self.registries.get(registry).map(|found| found.spec.url.clone())
            }
            Wanted::Artifact { registry, .. } | Wanted::AnyArtifact { registry } => {
                self.oci_registries.get(registry).map(|found| found.spec.url.clone())
            }
        };
        source_key(wanted, &url.unwrap_or_default())
    }

    /// Puts what was fetched into the store.
    pub(super) async fn keep(&self, artifact: &Artifact, upstream: String, next: Next) -> Looked {
        match self.store.put_artifact(artifact).await {
            Ok(()) => Looked::Found { kept: Kept { upstream, artifact: artifact.status() }, next },
            Err(error) => store_failed(format!("the artifact cannot be kept: {}", in_words(&error))),
        }
    }

    /// The data of the Secret that a registry names.
    pub(super) async fn secret_of(
        &self,
        registry: &StoreKey,
        reference: Option<&LocalReference>,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>, Looked> {
        let Some(reference) = reference else { return Ok(None) };
        let at = StoreKey::new(registry.namespace.as_str(), reference.name.as_str());
        let message = match self.host.reader.secret(&at).await {
            Ok(Some(data)) => return Ok(Some(data)),
            Ok(None) => {
                format!("there is no Secret {at}, which spec.secretRef of {registry} names; create it")
            }
            Err(error) => in_words(&error),
        };
        let trouble = Unresolved { reason: reason::DEPENDENCY_NOT_FOUND, message, is_terminal: false };
        Err(Looked::Failed { trouble, next: Next::Retry })
    }
}

pub(super) fn store_failed(message: String) -> Looked {
    let trouble = Unresolved { reason: reason::STORE_FAILED, message, is_terminal: false };
    Looked::Failed { trouble, next: Next::Retry }
}

/// A fetch that failed: tried again with back-off, or after `interval` when only a change can mend it.
pub(super) fn failed(error: &FetchError, interval: Duration) -> Looked {
    let is_terminal = error.class() == Class::Terminal;
    let trouble = Unresolved { reason: error.reason(), message: in_words(error), is_terminal };
    Looked::Failed { trouble, next: if is_terminal { Next::After(interval) } else { Next::Retry } }
}

/// A registry that cannot be asked now; its own event brings the next look.
pub(super) fn not_ready(message: String) -> Looked {
    let trouble = Unresolved { reason: reason::DEPENDENCY_NOT_READY, message, is_terminal: false };
    Looked::Failed { trouble, next: Next::Done }
}

/// The name under which the store keeps what something came to: all that may make a difference to it, with the URL of the
/// registry.
pub(crate) fn source_key(wanted: &Wanted, url: &str) -> Option<String> {
    match wanted {
        Wanted::Chart { registry, chart, version } => {
            Some(name_of_chart(registry, url, chart, version.as_deref()))
        }
        Wanted::Artifact { registry, source } => Some(name_of_artifact(registry, url, source)),
        Wanted::AnyChart { .. } | Wanted::AnyArtifact { .. } => None,
    }
}

/// What a registry says of itself.
pub(super) fn said(conditions: &[Condition]) -> &str {
    find_condition(conditions, condition_type::READY)
        .map_or("it was not looked at yet", |ready| ready.message.as_str())
}
