//! Submodules: the trees of other repositories, each at the commit that the tree around it names.

mod declared;

use std::collections::VecDeque;

use gix::ObjectId;

use self::declared::Declared;
use crate::credentials::Credentials;
use crate::error::Failure;
use crate::fetcher::{FetchRequest, Found, NotCommits, Work};
use crate::reference::{CommitId, GitRef};
use crate::remote;
use crate::tree::{Folder, Node, Tree};
use crate::url::{GitUrl, UrlError};

/// Why a submodule is not fetched, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum SubmoduleError {
    /// A `.gitmodules` that is no such file.
    #[error(".gitmodules cannot be read: {detail}")]
    Declaration {
        /// Why not.
        detail: String,
    },
    /// In the tree, but not in `.gitmodules`.
    #[error("it is not in .gitmodules: add its path and url there, or remove it from the tree")]
    NotDeclared,
    /// Two sections for one path.
    #[error("it is more than once in .gitmodules: keep one section for its path")]
    DeclaredTwice,
    /// A section without `url`.
    #[error("it has no url in .gitmodules: add it")]
    NoUrl,
    /// A URL that no GitRepository may have, or a relative one that leaves its host.
    #[error("the URL in .gitmodules is refused")]
    Url(#[source] UrlError),
    /// `user:password@` before the host.
    #[error("the URL in .gitmodules holds a user or a password: remove them there")]
    UrlWithCredentials,
    /// `file://`.
    #[error(
        "it is in a folder of this machine, and a repository does not say what is read there: give it a URL of https or ssh in .gitmodules"
    )]
    OfThisMachine,
    /// More submodules than allowed.
    #[error("the repository has more than {limit} submodules: name those that are not needed in spec.ignore")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// Submodules nested too deeply; also those that hold themselves at an earlier commit.
    #[error("more than {limit} submodules inside each other: name it in spec.ignore")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A tree that holds its path twice.
    #[error("its path is no folder of the tree")]
    NoPlace,
    /// The fetch of its commit.
    #[error("cannot fetch commit {commit} from {url} ({advice})")]
    Fetch {
        /// The commit that the tree around it names.
        commit: String,
        /// The submodule's URL.
        url: String,
        /// What to do.
        advice: &'static str,
        /// What went wrong.
        #[source]
        failure: Box<Failure>,
    },
}

/// A submodule that is to be fetched.
struct Wanted {
    /// Its path from the root of all.
    path: String,
    commit: ObjectId,
    url: GitUrl,
    /// A branch that has the commit, for servers that do not hand it out by id.
    branch: Option<String>,
    /// How many submodules it is in, itself among them.
    depth: usize,
}

/// Puts the trees of all submodules into `tree`, and those of theirs. `spec.timeout` and the limits of a tree are of all together.
pub(crate) fn fetch_all(work: Work<'_>, not_commits: &NotCommits, tree: &mut Tree) -> Result<(), Failure> {
    let limits = work.options.limits;
    let mut waiting = VecDeque::new();
    let mut count = 0;
    let mut want = |all: Vec<Wanted>, waiting: &mut VecDeque<Wanted>| {
        count += all.len();
        if let Some(first) = all.first() {
            if count > limits.max_submodules {
                let limit = limits.max_submodules;
                return Err(refused(&first.path, SubmoduleError::TooMany { limit }));
            }
            if first.depth > limits.max_submodule_depth {
                let limit = limits.max_submodule_depth;
                return Err(refused(&first.path, SubmoduleError::TooDeep { limit }));
            }
        }
        waiting.extend(all);
        Ok(())
    };
    let all = wanted_by(work.request, tree, ("", &work.request.url), 1)?;
    want(all, &mut waiting)?;
    while let Some(next) = waiting.pop_front() {
        let mut part = fetch(Work { at: &next.path, spent: tree.spent, ..work }, not_commits, &next)?;
        let all = wanted_by(work.request, &mut part, (&next.path, &next.url), next.depth + 1)?;
        want(all, &mut waiting)?;
        put(&mut tree.folder, &next.path, part.folder)
            .ok_or_else(|| refused(&next.path, SubmoduleError::NoPlace))?;
        tree.spent = part.spent;
        tree.notes.append(&mut part.notes);
    }
    Ok(())
}

/// The submodules of one repository's tree, without those that are ignored as a whole.
fn wanted_by(
    request: &FetchRequest,
    tree: &mut Tree,
    (at, base): (&str, &GitUrl),
    depth: usize,
) -> Result<Vec<Wanted>, Failure> {
    let gitlinks = std::mem::take(&mut tree.gitlinks);
    let (ignored, gitlinks): (Vec<_>, Vec<_>) =
        gitlinks.into_iter().partition(|(path, _)| request.choice.ignores(path));
    tree.notes.extend(ignored.iter().map(|(path, _)| format!("{path}: submodule left out by spec.ignore")));
    let Some((first, _)) = gitlinks.first() else { return Ok(Vec::new()) };
    let declared = Declared::of(&tree.folder).map_err(|problem| refused(first, problem))?;
    let wanted = |(path, commit): (String, ObjectId)| {
        let inside = path.strip_prefix(at).unwrap_or(&path).trim_start_matches('/');
        let (url, entry) = declared.find(inside, base).map_err(|problem| refused(&path, problem))?;
        Ok(Wanted { commit, url, branch: entry.branch.clone(), depth, path })
    };
    gitlinks.into_iter().map(wanted).collect()
}

fn fetch(work: Work<'_>, not_commits: &NotCommits, wanted: &Wanted) -> Result<Tree, Failure> {
    let (commit, root) = (wanted.commit.to_string(), work.request);
    let is_own_host = wanted.url.is_of_host(&root.url);
    let branch = wanted.branch.as_deref().and_then(|branch| GitRef::commit_on(&commit, branch).ok());
    let request = FetchRequest {
        url: wanted.url.clone(),
        reference: branch.unwrap_or(GitRef::Commit(CommitId(wanted.commit))),
        credentials: credentials_for(is_own_host, &root.credentials),
        timeout: root.timeout,
        known_revision: None,
        choice: root.choice.clone(),
    };
    match remote::fetch_tree(Work { request: &request, ..work }, not_commits) {
        Ok(Found::New { tree, .. }) => Ok(tree),
        Ok(Found::Unchanged(_)) => {
            Err(Failure::Protocol { detail: format!("{}: the submodule was not read", wanted.path) })
        }
        // These are about the fetch as a whole.
        Err(failure @ (Failure::Cancelled | Failure::Timeout { .. })) => Err(failure),
        Err(failure) => {
            let (url, advice) = (wanted.url.to_string(), advice(&failure, is_own_host));
            let failure = Box::new(failure);
            Err(refused(&wanted.path, SubmoduleError::Fetch { commit, url, advice, failure }))
        }
    }
}

/// What a submodule's server gets to know: who may read the GitRepository is nothing for another host.
fn credentials_for(is_own_host: bool, credentials: &Credentials) -> Credentials {
    if is_own_host { credentials.clone() } else { credentials.without_identity() }
}

fn advice(failure: &Failure, is_own_host: bool) -> &'static str {
    match failure {
        Failure::CommitNotFound | Failure::NotACommit { .. } => {
            "push that commit there, name its branch in .gitmodules, or let the tree name another"
        }
        Failure::CredentialsMissing { .. } | Failure::SshKeyMissing | Failure::RepositoryNotFound
            if !is_own_host =>
        {
            "the Secret of spec.secretRef is for scheme, host and port of spec.url alone: give it a relative URL in .gitmodules, or name it in spec.ignore"
        }
        _ => "the URL is from .gitmodules; what is not needed can be named in spec.ignore",
    }
}

fn refused(path: &str, problem: SubmoduleError) -> Failure {
    Failure::Submodule { path: path.into(), problem: Box::new(problem) }
}

/// Puts a folder where a path leads, through folders alone; nothing when it does not lead anywhere.
fn put(root: &mut Folder, path: &str, folder: Folder) -> Option<()> {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let place = above.split('/').filter(|name| !name.is_empty()).try_fold(root, |at, name| {
        match at.get_mut(name) {
            Some(Node::Folder(inner)) => Some(inner),
            _ => None,
        }
    })?;
    if place.contains_key(name) {
        return None;
    }
    place.insert(name.to_owned(), Node::Folder(folder));
    Some(())
}
