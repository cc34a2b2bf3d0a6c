use std::fmt;

use gix::ObjectId;

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
    /// One commit, wherever it is.
    Commit(CommitId),
}

/// Name of a branch or tag below `refs/heads/` or `refs/tags/`, valid by Git's rules.
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
        RefName::parse("refs/heads/", name).map(Self::Branch)
    }

    /// The commit of the tag `name`.
    pub fn tag(name: &str) -> Result<Self, RefError> {
        RefName::parse("refs/tags/", name).map(Self::Tag)
    }

    /// The commit with this id.
    pub fn commit(hex: &str) -> Result<Self, RefError> {
        CommitId::parse(hex).map(Self::Commit)
    }

    /// The full name to ask the server for; nothing for a commit, which has none.
    pub(crate) fn full_name(&self) -> Option<String> {
        match self {
            Self::DefaultBranch => Some("HEAD".to_owned()),
            Self::Branch(name) => Some(format!("refs/heads/{}", name.0)),
            Self::Tag(name) => Some(format!("refs/tags/{}", name.0)),
            Self::Commit(_) => None,
        }
    }
}

impl fmt::Display for GitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefaultBranch => f.write_str("the default branch"),
            Self::Branch(name) => write!(f, "branch {:?}", name.0),
            Self::Tag(name) => write!(f, "tag {:?}", name.0),
            Self::Commit(id) => write!(f, "commit {}", id.0),
        }
    }
}

impl RefName {
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
    fn commits_are_whole_ids() {
        let id = "bb7f8db02ca4bd4cb75ef1733d9a1190aea3208f";
        assert_eq!(GitRef::commit(id).unwrap().to_string(), format!("commit {id}"));
        assert_eq!(GitRef::commit(&id.to_uppercase()).unwrap().to_string(), format!("commit {id}"));
        assert!(matches!(GitRef::commit("bb7f8db"), Err(RefError::CommitId(_))));
        assert!(matches!(GitRef::commit(&"z".repeat(40)), Err(RefError::CommitId(_))));
        assert_eq!(GitRef::commit(&"a".repeat(64)), Err(RefError::Sha256));
    }
}
