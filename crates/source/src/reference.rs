use std::fmt;

use convoy_helm::semver::{Constraints, Version};
use gix::ObjectId;

use crate::index::order;

/// Where branches and tags are among the names.
pub(crate) const BRANCHES: &str = "refs/heads/";
pub(crate) const TAGS: &str = "refs/tags/";

/// Longest name of a branch or tag, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Which revision of a repository is wanted, checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum GitRef {
    /// The branch that the server's `HEAD` names.
    #[default]
    DefaultBranch,
    /// The tip of a branch.
    Branch(RefName),
    /// The commit that a tag names, through any number of annotated tags.
    Tag(RefName),
    /// The tag with the newest version in a range.
    Semver(VersionRange),
    /// Whatever a full name stands for, as `refs/pull/1/head`.
    Name(RefName),
    /// One commit, wherever it is.
    Commit(CommitId),
    /// One commit, and a branch on which it can be found when the server does not hand out commits by id.
    CommitOn(CommitId, RefName),
}

/// A range of versions, as `>=1.2 <2`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VersionRange(String);

/// Name of a branch or tag below `refs/heads/` or `refs/tags/`, or a full one, valid by Git's rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RefName(String);

/// Object id of a commit: 40 hexadecimal digits (SHA-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommitId(pub(crate) ObjectId);

/// Why a reference is refused before any server is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefError {
    /// Not a name that Git allows.
    #[error("{0:?} is not a valid name of a branch or tag")]
    Name(String),
    /// Not a full name of a reference.
    #[error("{0:?} is not a full name of a reference, such as refs/pull/1/head")]
    FullName(String),
    /// Not a range of versions.
    #[error("{range:?} is not a range of versions: {detail}")]
    Range {
        /// What was given.
        range: String,
        /// Why not.
        detail: String,
    },
    /// Not a whole object id.
    #[error("{0:?} is not a whole commit id: give all 40 hexadecimal digits")]
    CommitId(String),
    /// A SHA-256 object id.
    #[error("commit ids of 64 digits (SHA-256 repositories) are not supported yet")]
    Sha256,
}

impl GitRef {
    /// The tip of the branch `name`.
    pub fn branch(name: &str) -> Result<Self, RefError> {
        RefName::parse(BRANCHES, name).map(Self::Branch)
    }

    /// The commit of the tag `name`.
    pub fn tag(name: &str) -> Result<Self, RefError> {
        RefName::parse(TAGS, name).map(Self::Tag)
    }

    /// The newest version among the tags that is in a range. Prereleases count only when the range names one.
    pub fn semver(range: &str) -> Result<Self, RefError> {
        match Constraints::parse(range) {
            Ok(_) => Ok(Self::Semver(VersionRange(range.to_owned()))),
            Err(error) => {
                Err(RefError::Range { range: range.chars().take(64).collect(), detail: error.to_string() })
            }
        }
    }

    /// What the full name stands for.
    pub fn name(name: &str) -> Result<Self, RefError> {
        let short = name.strip_prefix("refs/").filter(|short| short.contains('/'));
        let parsed = short.and_then(|_| RefName::parse("", name).ok());
        parsed.map(Self::Name).ok_or_else(|| RefError::FullName(name.chars().take(64).collect()))
    }

    /// The commit with this id, which is on a branch.
    pub fn commit_on(hex: &str, branch: &str) -> Result<Self, RefError> {
        Ok(Self::CommitOn(CommitId::parse(hex)?, RefName::parse(BRANCHES, branch)?))
    }

    /// The commit with this id.
    pub fn commit(hex: &str) -> Result<Self, RefError> {
        CommitId::parse(hex).map(Self::Commit)
    }

    /// The full name to ask the server for; nothing for commits, which have none, and for ranges.
    pub(crate) fn full_name(&self) -> Option<String> {
        match self {
            Self::DefaultBranch => Some("HEAD".to_owned()),
            Self::Branch(name) => Some(format!("{BRANCHES}{}", name.0)),
            Self::Tag(name) => Some(format!("{TAGS}{}", name.0)),
            Self::Name(name) => Some(name.0.clone()),
            Self::Semver(_) | Self::Commit(_) | Self::CommitOn(..) => None,
        }
    }
}

impl GitRef {
    /// What a full name is called in a revision: of a name that was given whole, the whole.
    pub(crate) fn shown_name(&self, full: &str) -> String {
        let short = full.strip_prefix(BRANCHES).or_else(|| full.strip_prefix(TAGS));
        short.filter(|_| !matches!(self, Self::Name(_))).unwrap_or(full).to_owned()
    }
}

impl fmt::Display for GitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefaultBranch => f.write_str("the default branch"),
            Self::Branch(name) => write!(f, "branch {:?}", name.0),
            Self::Tag(name) => write!(f, "tag {:?}", name.0),
            Self::Semver(range) => write!(f, "the tags {:?}", range.0),
            Self::Name(name) => f.write_str(&name.0),
            Self::Commit(id) | Self::CommitOn(id, _) => write!(f, "commit {}", id.0),
        }
    }
}

impl VersionRange {
    /// The tags whose versions are in the range, the newest first; of equal versions, which differ in their
    /// build metadata alone, the one whose text is last comes first.
    pub(crate) fn newest_first<T>(&self, mut tags: Vec<(String, T)>) -> Vec<(String, T)> {
        let Ok(range) = Constraints::parse(&self.0) else { return Vec::new() };
        let is_in = |name: &str| {
            !has_leading_zero(name) && Version::parse(name).is_ok_and(|version| range.check(&version))
        };
        tags.retain(|(name, _)| is_in(name));
        tags.sort_by(|(a, _), (b, _)| order(a, b));
        tags
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// `v1.04.0` is no version: it stands beside 1.4.0, and nobody can say which is meant.
fn has_leading_zero(name: &str) -> bool {
    let core = name.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = core.strip_prefix('v').unwrap_or(core).split('.');
    numbers.any(|number| number.len() > 1 && number.starts_with('0'))
}

impl RefName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(prefix: &str, name: &str) -> Result<Self, RefError> {
        let full = format!("{prefix}{name}");
        // Git itself allows a leading dash in plumbing but `git branch` and `git tag` do not make such names.
        let is_valid = name.len() <= MAX_NAME_BYTES
            && !name.starts_with('-')
            && !name.is_empty()
            && gix::validate::reference::name(full.as_str().into()).is_ok();
        if is_valid {
            Ok(Self(name.to_owned()))
        } else {
            Err(RefError::Name(name.chars().take(64).collect()))
        }
    }
}

impl CommitId {
    fn parse(hex: &str) -> Result<Self, RefError> {
        let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        match hex.len() {
            40 if is_hex => {
                ObjectId::from_hex(hex.as_bytes()).map(Self).map_err(|_| RefError::CommitId(hex.to_owned()))
            }
            64 if is_hex => Err(RefError::Sha256),
            _ => Err(RefError::CommitId(hex.chars().take(64).collect())),
        }
    }
}

/// What was resolved: `main@sha1:<hex>`, `v1.2.0@sha1:<hex>`, or `sha1:<hex>` for a bare commit.
pub(crate) fn revision(short_name: Option<&str>, commit: ObjectId) -> String {
    match short_name {
        Some(name) => format!("{name}@sha1:{commit}"),
        None => format!("sha1:{commit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_gits_rules() {
        for name in ["main", "feature/x", "v1.2.0+build.1", "ünï", "1.3"] {
            assert!(GitRef::branch(name).is_ok() && GitRef::tag(name).is_ok(), "{name}");
        }
        let long = "x".repeat(256);
        for name in [
            "",
            "../../../x",
            "a..b",
            "a\0b",
            "-x",
            "a b",
            "x.lock",
            "/a",
            "a/",
            "a//b",
            "@{u}",
            "a~1",
            "a^",
            "a:b",
            &long,
        ] {
            assert!(matches!(GitRef::branch(name), Err(RefError::Name(_))), "{name}");
        }
    }

    #[test]
    fn full_names_are_below_refs() {
        for name in ["refs/pull/1/head", "refs/heads/main", "refs/merge-requests/7/head", "refs/tags/v1"] {
            assert_eq!(GitRef::name(name).unwrap().full_name().as_deref(), Some(name));
        }
        for name in ["main", "HEAD", "refs/", "refs/x", "refs/../x/y", "/refs/heads/x", "refs/heads/a b", ""]
        {
            assert!(matches!(GitRef::name(name), Err(RefError::FullName(_))), "{name}");
        }
    }

    #[test]
    fn a_range_chooses_among_versions() {
        let chosen = |range: &str| {
            let GitRef::Semver(range) = GitRef::semver(range).unwrap() else { panic!() };
            let tags =
                ["v1.0.0", "1.3", "v1.2.0", "v1.2.0+build.1", "v2.0.0-rc.1", "V1.9.0", "v1.04.0", "latest"];
            let tags = tags.iter().map(|tag| ((*tag).to_owned(), ())).collect();
            range.newest_first(tags).into_iter().next().map(|(tag, ())| tag)
        };
        for (range, want) in [
            (">=1.0.0 <2", Some("1.3")),
            ("~1.2", Some("v1.2.0+build.1")),
            ("v1.0.0", Some("v1.0.0")),
            ("*", Some("1.3")),
            (">=2.0.0-0", Some("v2.0.0-rc.1")),
            (">=2", None),
        ] {
            assert_eq!(chosen(range).as_deref(), want, "{range}");
        }
        assert!(matches!(GitRef::semver("not a range"), Err(RefError::Range { .. })));
    }

    #[test]
    fn commits_are_whole_ids() {
        let id = "bb7f8db02ca4bd4cb75ef1733d9a1190aea3208f";
        assert_eq!(GitRef::commit(id).unwrap().to_string(), format!("commit {id}"));
        assert_eq!(GitRef::commit(&id.to_uppercase()).unwrap().to_string(), format!("commit {id}"));
        assert!(matches!(GitRef::commit("bb7f8db"), Err(RefError::CommitId(_))));
        assert!(matches!(GitRef::commit(&"z".repeat(40)), Err(RefError::CommitId(_))));
        assert_eq!(GitRef::commit(&"a".repeat(64)), Err(RefError::Sha256));
    }
}
