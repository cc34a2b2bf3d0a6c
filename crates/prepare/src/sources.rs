//! Where Releases' files come from, as far as it is known already: nothing is fetched here.

use convoy_api::{
    GitRepository, GitSource, HelmRegistry, HelmSource, OCIRegistry, OciSource, Release, condition_type,
    find_condition, reason,
};
use convoy_render::{RenderStore, StoreError};
use convoy_runtime::{Store, StoreKey};
use sha2::{Digest as _, Sha256};

use crate::{Resolved, in_words};

/// Why there is no artifact. Something that changes it brings the next look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The condition's reason.
    pub reason: &'static str,
    /// In words.
    pub message: String,
    /// Whether only another spec can mend it.
    pub is_terminal: bool,
}

/// The artifact that a GitRepository has, for a Release of a namespace.
///
/// # Errors
/// When there is none.
pub fn git_artifact(
    repositories: &Store<GitRepository>,
    namespace: &str,
    git: &GitSource,
) -> Result<Resolved, Unresolved> {
    let repository_key = StoreKey::new(namespace, git.repository_ref.name.as_str());
    let stop = |reason, message| Unresolved { reason, message, is_terminal: false };
    let Some(repository) = repositories.get(&repository_key) else {
        let message = format!(
            "there is no GitRepository {repository_key}, which spec.source.git.repositoryRef names; create it"
        );
        return Err(stop(reason::DEPENDENCY_NOT_FOUND, message));
    };
    let Some(artifact) = repository.status.as_ref().and_then(|status| status.artifact.clone()) else {
        let conditions = repository.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
        let said = find_condition(conditions, condition_type::READY)
            .map_or("it was not fetched yet", |ready| ready.message.as_str());
        let message = format!("the GitRepository {repository_key} has no artifact: {said}");
        return Err(stop(reason::DEPENDENCY_NOT_READY, message));
    };
    Ok(Resolved { artifact, path: git.path.clone().unwrap_or_default() })
}

/// The name under which the render store keeps what a chart came to: of all that may make a difference to it.
pub fn name_of_chart(registry: &StoreKey, url: &str, chart: &str, version: Option<&str>) -> String {
    name_of([&registry.namespace, &registry.name, "helm", url, chart, version.unwrap_or_default()])
}

/// The name under which the render store keeps what an artifact of an OCI registry came to.
pub fn name_of_artifact(registry: &StoreKey, url: &str, source: &OciSource) -> String {
    let named = format!("{:?} {:?} {:?}", source.tag, source.semver, source.digest);
    name_of([&registry.namespace, &registry.name, "oci", url, &source.repository, &named])
}

fn name_of(parts: [&str; 6]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// What is known of Releases' sources: repositories in their status, charts and artifacts in the render store, where
/// the replica that delivers put them.
#[derive(Clone)]
pub struct KnownSources {
    /// All GitRepositories.
    pub repositories: Store<GitRepository>,
    /// All HelmRegistries.
    pub helm_registries: Store<HelmRegistry>,
    /// All OCIRegistries.
    pub oci_registries: Store<OCIRegistry>,
    /// Where artifacts are.
    pub store: RenderStore,
}

impl std::fmt::Debug for KnownSources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownSources").finish_non_exhaustive()
    }
}

impl KnownSources {
    /// The artifact that a Release names.
    ///
    /// # Errors
    /// When there is none, or it was not fetched yet.
    pub async fn resolve(&self, release: &Release) -> Result<Resolved, Unresolved> {
        let namespace = release.metadata.namespace.as_deref().unwrap_or_default();
        let source = &release.spec.source;
        if let Some(git) = &source.git {
            return git_artifact(&self.repositories, namespace, git);
        }
        let (name, what) = if let Some(oci) = &source.oci {
            self.artifact_name(namespace, oci)?
        } else if let Some(helm) = &source.helm {
            self.chart_name(namespace, helm)?
        } else {
            let message = "spec.source names no source; set one of git, helm and oci".to_owned();
            return Err(Unresolved { reason: reason::INVALID_SPEC, message, is_terminal: true });
        };
        match self.store.kept(&name).await {
            Ok(Some(kept)) => Ok(Resolved { artifact: kept.artifact, path: String::new() }),
            Ok(None) => Err(Unresolved {
                reason: reason::DEPENDENCY_NOT_READY,
                message: format!("{what} was not fetched yet: that is done for a Release that is saved"),
                is_terminal: false,
            }),
            Err(error) => Err(store_failed(&error)),
        }
    }

    fn chart_name(&self, namespace: &str, helm: &HelmSource) -> Result<(String, String), Unresolved> {
        let registry = StoreKey::new(namespace, helm.registry_ref.name.as_str());
        let Some(found) = self.helm_registries.get(&registry) else {
            return Err(no_registry("HelmRegistry", &registry, "helm"));
        };
        let name = name_of_chart(&registry, &found.spec.url, &helm.chart, helm.version.as_deref());
        Ok((name, format!("the chart {} of HelmRegistry {registry}", helm.chart)))
    }

    fn artifact_name(&self, namespace: &str, oci: &OciSource) -> Result<(String, String), Unresolved> {
        let registry = StoreKey::new(namespace, oci.registry_ref.name.as_str());
        let Some(found) = self.oci_registries.get(&registry) else {
            return Err(no_registry("OCIRegistry", &registry, "oci"));
        };
        let name = name_of_artifact(&registry, &found.spec.url, oci);
        Ok((name, format!("the artifact {} of OCIRegistry {registry}", oci.repository)))
    }
}

fn no_registry(kind: &str, key: &StoreKey, field: &str) -> Unresolved {
    let message = format!("there is no {kind} {key}, which spec.source.{field}.registryRef names; create it");
    Unresolved { reason: reason::DEPENDENCY_NOT_FOUND, message, is_terminal: false }
}

fn store_failed(error: &StoreError) -> Unresolved {
    let message = format!("the render store fails: {}", in_words(error));
    Unresolved { reason: reason::STORE_FAILED, message, is_terminal: false }
}
