use std::sync::Arc;

use convoy_api::{Release, ReleaseRender, ValuesKind};
use convoy_apply::SecretsIn;

use crate::Ready;

/// Whether a Release takes any value from a Secret.
pub fn takes_secret_values(release: &Release) -> bool {
    match &release.spec.render {
        Some(ReleaseRender { helm: Some(helm), .. }) => {
            helm.values_from.iter().any(|reference| reference.kind == ValuesKind::Secret)
        }
        _ => false,
    }
}

/// In which objects of a bundle values stand that the Release takes from Secrets; without the bundle that is not known.
pub fn secrets_in(release: &Release, bundle: Option<&Ready>) -> SecretsIn {
    match bundle.and_then(|bundle| bundle.secret_places.as_ref()) {
        Some(places) => SecretsIn::Named(Arc::new(places.keys().cloned().collect())),
        None if takes_secret_values(release) => SecretsIn::All,
        None => SecretsIn::None,
    }
}
