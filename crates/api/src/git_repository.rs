use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::condition::Condition;
use crate::duration::Duration;
use crate::object::kind;
use crate::schema;

kind! {
    /// A Git repository that Releases take their charts and manifests from.
    GitRepository, "gitrepositories", "gitrepository", spec: GitRepositorySpec, status: GitRepositoryStatus
}

/// Which repository, which revision, and how often to look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositorySpec {
    /// Where the repository is: https://host/path, http://host/path, ssh://user@host/path, user@host:path, or, in
    /// standalone only, file:///path. Passwords and keys belong into the Secret that secretRef names, not here.
    #[schemars(
        length(min = 1, max = 2048),
        regex(pattern = r"^((https?|ssh|file)://|[A-Za-z0-9._-]+@[^/:]+:)")
    )]
    pub url: String,
    /// Which revision to follow. Default: the repository's default branch.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<GitReference>,
    /// How often to look for a new revision. Default: 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// How long one fetch may take. Default: 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// A Secret in the same namespace. For https: username and password, or bearerToken, and optionally ca.crt, and
    /// tls.crt with tls.key. For ssh: identity (a private key), known_hosts, and password when the key has a
    /// passphrase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Only files whose path matches one of these globs. One without a slash is for names in any folder, one with a
    /// slash for paths from the root; that of a folder stands for all in it. Default: all files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 64), inner(length(min = 1, max = 256)))]
    pub include: Vec<String>,
    /// No file whose path matches one of these globs, also of those that include chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"), length(max = 64), inner(length(min = 1, max = 256)))]
    pub ignore: Vec<String>,
    /// Fetch submodules too, those of submodules as well, each at the commit that the tree names. Those of the host of
    /// url are fetched with the Secret of secretRef, others without. Default: false, submodules are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurse_submodules: Option<bool>,
    /// Stop fetching; Releases keep the artifact that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

impl GitRepositorySpec {
    /// Names the choice of files that spec.include, spec.ignore and spec.recurseSubmodules make; none for all files
    /// without those of submodules.
    pub fn choice(&self) -> Option<String> {
        let with_submodules = self.recurse_submodules == Some(true);
        if self.include.is_empty() && self.ignore.is_empty() && !with_submodules {
            return None;
        }
        let mut hash = Sha256::new();
        for globs in [&self.include, &self.ignore] {
            hash.update((globs.len() as u64).to_be_bytes());
            for glob in globs {
                hash.update((glob.len() as u64).to_be_bytes());
                hash.update(glob);
            }
        }
        if with_submodules {
            hash.update("submodules");
        }
        Some(hash.finalize().iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}")))
    }
}

/// A revision of a Git repository: at most one field is set; beside a commit, branch may say where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitReference {
    /// A branch, followed as it moves. With commit: a branch that has the commit, for servers that do not hand out
    /// commits by their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub branch: Option<String>,
    /// A tag; of an annotated tag, the commit that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub tag: Option<String>,
    /// A range of versions, as ">=1.2 <2": the tag with the newest version in it. A v before a version does not
    /// count. Prereleases are taken only when the range names one, as ">=2.0.0-0". Of versions that differ in their
    /// build metadata alone, the one whose text is last is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub semver: Option<String>,
    /// The full name of any reference, as refs/pull/1/head, followed as it moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^refs/.+/.+"))]
    pub name: Option<String>,
    /// A commit, as its full hexadecimal object id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9a-f]{40}|[0-9a-f]{64})$"))]
    pub commit: Option<String>,
}

/// An object in the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What convoy last fetched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositoryStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The last revision that was fetched whole. It stays when a later fetch fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactStatus>,
    /// Digest of spec.include, spec.ignore and spec.recurseSubmodules as the artifact was chosen by them; absent when none
    /// of them is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_choice: Option<String>,
    /// The value of the annotation convoy.kumodo.io/reconcile-at that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}

/// A fetched tree in the render store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactStatus {
    /// Where it came from, for example main@sha1:5f2c….
    pub revision: String,
    /// sha256 of the tree's content, as sha256:<hex>. Equal trees have equal digests.
    pub digest: String,
    /// Bytes of all files together.
    #[serde(default)]
    pub size: i64,
    /// Number of files.
    #[serde(default)]
    pub files: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_of_files_has_a_name_of_its_own() {
        let of = |include: &[&str], ignore: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            GitRepositorySpec { include: texts(include), ignore: texts(ignore), ..Default::default() }
                .choice()
        };
        assert_eq!(of(&[], &[]), None);
        let mut all = vec![
            of(&["a"], &[]),
            of(&[], &["a"]),
            of(&["a", "b"], &[]),
            of(&["ab"], &[]),
            of(&["a"], &["b"]),
        ];
        for ignore in [vec![], vec!["a".to_owned()]] {
            let with = GitRepositorySpec { ignore, recurse_submodules: Some(true), ..Default::default() };
            all.push(with.choice());
            let without = GitRepositorySpec { recurse_submodules: Some(false), ..with.clone() };
            assert_eq!(
                without.choice(),
                of(&[], &with.ignore.iter().map(String::as_str).collect::<Vec<_>>())
            );
        }
        assert!(all.iter().all(Option::is_some));
        let names: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(names.len(), all.len());
    }
}
