//! What was resolved last: which artifact the chart or tag that someone asks a registry for stands for.

use convoy_api::ArtifactStatus;
use serde::{Deserialize, Serialize};

use crate::store::{RenderStore, SOURCES, StoreError, name_of};

/// What a request to a registry came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// What exactly was downloaded, in the registry's terms: while the registry says the same, nothing is
    /// downloaded.
    pub upstream: String,
    /// What it became.
    pub artifact: ArtifactStatus,
}

impl RenderStore {
    /// Notes what a request came to; the artifact was put before. `key` is `sha256:<hex>` of all that makes
    /// up the request, so that nobody gets what another one's credentials brought.
    pub async fn put_kept(&self, key: &str, kept: &Kept) -> Result<(), StoreError> {
        let json = serde_json::to_vec(kept).unwrap_or_default();
        self.put(name_of(SOURCES, key)?, move || json).await
    }

    /// What a request came to last, when its artifact is still there.
    pub async fn kept(&self, key: &str) -> Result<Option<Kept>, StoreError> {
        let name = name_of(SOURCES, key)?;
        let Some(payload) = self.get(&name, None).await? else { return Ok(None) };
        let kept: Kept = match serde_json::from_slice(&payload) {
            Ok(kept) => kept,
            Err(error) => return Err(self.damaged(&name, error.to_string()).await),
        };
        Ok(self.has_artifact(&kept.artifact.digest).await?.then_some(kept))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::References;
    use bytes::Bytes;
    use convoy_api::Artifact;

    #[tokio::test]
    async fn what_was_resolved_is_known_while_its_artifact_is_there() {
        let store = RenderStore::in_memory();
        let key = crate::digest::sha256(b"ns/registry chart 1.x");
        let artifact = Artifact::new("1.2.3", BTreeMap::from([("a".to_owned(), Bytes::from_static(b"1"))]));
        let kept = Kept { upstream: "1.2.3 sha256:ab".to_owned(), artifact: artifact.status() };
        assert_eq!(store.kept(&key).await.unwrap(), None);
        store.put_kept(&key, &kept).await.unwrap();
        assert_eq!(store.kept(&key).await.unwrap(), None, "its artifact is not there");
        store.put_artifact(&artifact).await.unwrap();
        assert_eq!(store.kept(&key).await.unwrap(), Some(kept.clone()));

        // A request that is referenced keeps what it came to.
        let collect = async |references| store.collect(references, Duration::ZERO, &|| true).await.unwrap();
        for _ in 0..2 {
            let mut references = References::default();
            references.add_source(&key);
            assert_eq!(collect(references).await.kept, 2);
        }
        assert_eq!(collect(References::default()).await.set_aside, 2);
        assert_eq!(store.kept(&key).await.unwrap(), Some(kept.clone()), "it is still found");
        collect(References::default()).await;
        collect(References::default()).await;
        collect(References::default()).await;
        assert_eq!(store.kept(&key).await.unwrap(), None);
    }
}
