//! Where the charts come from.

use std::collections::BTreeMap;

use bytes::Bytes;
use convoy_api::Artifact;
use convoy_render::RenderStore;
use convoy_testkit::GitServer;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::repository::{Repository, Revision, files_of};

/// One of two sources.
#[derive(Debug)]
pub enum Supply {
    /// A Git server, from which convoy fetches.
    Git {
        /// What it serves.
        repository: Repository,
        /// Under which URL.
        url: String,
        /// The server, as long as it is needed.
        _server: GitServer,
    },
    /// Artifacts that were fetched already: the GitRepository is suspended, and its status names them.
    Fetched {
        /// Where they are.
        store: RenderStore,
        /// What the present Release is of.
        present: Mutex<Option<Artifact>>,
    },
}

impl Supply {
    /// What a Release's revisions end with.
    ///
    /// # Errors
    /// When Git fails.
    pub fn revisions_of(&self, release: &str) -> anyhow::Result<[String; 3]> {
        match self {
            Supply::Git { repository, .. } => repository.branches_of(release),
            Supply::Fetched { .. } => Ok([Revision::One, Revision::Two, Revision::Three]
                .map(|revision| Repository::branch(release, revision))),
        }
    }

    /// The spec of the GitRepository of a Release.
    pub fn spec(&self, release: &str, revision: Revision) -> Value {
        match self {
            Supply::Git { url, .. } => json!({
                "url": url, "interval": "20m", "ref": {"branch": Repository::branch(release, revision)},
            }),
            Supply::Fetched { .. } => {
                json!({"url": "https://git.example.invalid/apps", "interval": "20m", "suspend": true})
            }
        }
    }

    /// The GitRepository of a Release names another revision, or its first.
    ///
    /// # Errors
    /// When the API server or the store fails.
    pub async fn want(
        &self,
        repositories: &Api<DynamicObject>,
        (release, size): (&str, usize),
        revision: Revision,
    ) -> anyhow::Result<()> {
        match self {
            Supply::Git { .. } => {
                let patch = json!({"spec": self.spec(release, revision)});
                repositories.patch(release, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
            Supply::Fetched { store, present } => {
                let branch = Repository::branch(release, revision);
                let mut files: BTreeMap<String, Bytes> = files_of(size, revision, true)
                    .into_iter()
                    .map(|(path, text)| (format!("{}/{path}", Repository::path(size)), text.into()))
                    .collect();
                // As in Git, nothing that was kept for another Release is of use to this one.
                files.insert("for".to_owned(), branch.clone().into());
                let artifact = Artifact::new(format!("{branch}@sha1:{branch}"), files);
                store.put_artifact(&artifact).await?;
                let patch = json!({"status": {"artifact": artifact.status()}});
                *present.lock() = Some(artifact);
                repositories.patch_status(release, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
        }
        Ok(())
    }

    /// What was fetched is fetched again where it was lost, as the controller of a GitRepository does that is not suspended.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn fetch_again(&self) -> anyhow::Result<()> {
        if let Supply::Fetched { store, present } = self {
            let present = present.lock().clone();
            if let Some(artifact) = present {
                store.put_artifact(&artifact).await?;
            }
        }
        Ok(())
    }
}
