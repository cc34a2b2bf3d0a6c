//! An artifact of an OCIRegistry: a chart, or plain manifests.

use convoy_api::{OciSource, reason};
use convoy_render::Kept;
use convoy_runtime::{Next, StoreKey};
use convoy_source::{FetchedOci, OciReference, OciRepository};

use super::Artifacts;
use super::look::{Looked, failed, not_ready};
use crate::oci_registry::interval;
use crate::sources::Unresolved;

impl Artifacts {
    pub(super) async fn look_at_artifact(
        &self,
        key: &StoreKey,
        source: &OciSource,
        kept: Option<&Kept>,
    ) -> Looked {
        let Some(registry) = self.oci_registries.get(key) else {
            let message =
                format!("there is no OCIRegistry {key}, which spec.source.oci.registryRef names; create it");
            let trouble = Unresolved { reason: reason::DEPENDENCY_NOT_FOUND, message, is_terminal: false };
            return Looked::Gone { trouble };
        };
        if registry.spec.suspend == Some(true) {
            return match kept {
                Some(_) => Looked::Same { next: Next::Done },
                None => not_ready(format!("the OCIRegistry {key} is suspended")),
            };
        }
        let secret = match self.secret_of(key, registry.spec.secret_ref.as_ref()).await {
            Ok(secret) => secret,
            Err(looked) => return looked,
        };
        let repository = OciRepository::from_spec(&registry.spec, Some(&source.repository), secret.as_ref());
        let parts = repository.and_then(|repository| {
            let reference = repository.reference(source)?;
            Ok((repository, reference))
        });
        let (repository, reference) = match parts {
            Ok(parts) => parts,
            Err(error) => return failed(&error, interval(&registry)),
        };
        let next = match &reference {
            // It never moves.
            OciReference::Digest(_) => Next::Done,
            OciReference::Tag(_) | OciReference::Semver(_) => Next::After(interval(&registry)),
        };
        // What is known is only known of this very place.
        let place = repository.place();
        let known = kept.and_then(|kept| kept.upstream.strip_prefix(&place)?.strip_prefix(' '));
        if let (OciReference::Digest(digest), Some(known)) = (&reference, known)
            && digest == known
        {
            return Looked::Same { next };
        }
        match self.fetcher.oci(&repository, &reference, known.map(str::to_owned)).await {
            Ok(FetchedOci::Unchanged) => Looked::Same { next },
            Ok(FetchedOci::New { artifact, upstream }) => {
                self.keep(&artifact, format!("{place} {upstream}"), next).await
            }
            Err(error) => failed(&error, interval(&registry)),
        }
    }
}
