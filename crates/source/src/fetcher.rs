use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use convoy_api::{Artifact, GitReference, GitRepositorySpec, PathGlobs};
use gix::ObjectId;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::address::AddressRules;
use crate::credentials::Credentials;
use crate::error::{Failure, FetchError, Origin};
use crate::job::Job;
use crate::limits::Limits;
use crate::reference::{self, GitRef};
use crate::tree::{Spent, Tree};
use crate::url::{GitUrl, Scheme};
use crate::{links, local, remote, submodules};

/// `spec.timeout` when it is absent.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// What holds for all fetches of a process.
#[derive(Debug, Clone)]
pub struct FetcherOptions {
    /// A folder for downloads. Each fetch makes a folder of its own in it and removes it.
    pub scratch_dir: PathBuf,
    /// Whether sources on this machine may be read, which only standalone allows: `file://` URLs, and
    /// servers on the machine's own addresses whatever `addresses` says of them.
    pub allow_file_urls: bool,
    /// Which addresses may be connected to.
    pub addresses: AddressRules,
    /// How much one fetch may take.
    pub limits: Limits,
    /// Fetches at the same time; each holds a whole tree in memory. Others wait their turn.
    pub concurrent_fetches: usize,
    /// The User-Agent header, for example `convoy-cm/0.1.0 (replica-a)`. Git servers may answer
    /// differently to agents that do not start with `git/`; ours is honest.
    pub user_agent: String,
}

impl Default for FetcherOptions {
    fn default() -> Self {
        Self {
            scratch_dir: std::env::temp_dir(),
            allow_file_urls: false,
            addresses: AddressRules::default(),
            limits: Limits::default(),
            concurrent_fetches: 4,
            user_agent: concat!("convoy/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// One fetch: what from where.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// Where the repository is.
    pub url: GitUrl,
    /// Which revision is wanted.
    pub reference: GitRef,
    /// How to log in, and whom to trust.
    pub credentials: Credentials,
    /// How long the fetch may take, from when its turn comes.
    pub timeout: Duration,
    /// The revision of the artifact that the caller has: when the reference still stands there,
    /// nothing is downloaded.
    pub known_revision: Option<String>,
    /// Which files are taken.
    pub choice: Choice,
}

/// Which files of a tree are taken: what is included, without what is ignored.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// None for all files.
    include: Option<PathGlobs>,
    ignore: PathGlobs,
    with_submodules: bool,
}

impl Choice {
    fn of(spec: &GitRepositorySpec) -> Result<Self, Failure> {
        let globs =
            |field, texts: &[String]| PathGlobs::new(texts).map_err(|source| Failure::Glob { field, source });
        let include = (!spec.include.is_empty()).then(|| globs("include", &spec.include)).transpose()?;
        let with_submodules = spec.recurse_submodules == Some(true);
        Ok(Self { include, ignore: globs("ignore", &spec.ignore)?, with_submodules })
    }

    /// Whether a whole folder is ignored.
    pub(crate) fn ignores(&self, folder: &str) -> bool {
        self.ignore.is_match(folder)
    }

    fn has(&self, path: &str) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(path)) && !self.ignore.is_match(path)
    }
}

/// What a fetch found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// The reference is where the caller saw it last.
    Unchanged {
        /// The same as [`FetchRequest::known_revision`].
        revision: String,
    },
    /// The reference is somewhere else.
    New {
        /// Its files.
        artifact: Artifact,
        /// What was left out (submodules, links to nothing), a sentence each with its path.
        notes: Vec<String>,
    },
}

/// Where the wanted reference stands.
#[derive(Debug, Clone)]
pub(crate) struct Tip {
    /// Branch or tag; nothing for a bare commit.
    pub(crate) name: Option<String>,
    /// What it stands for in the end.
    pub(crate) object: ObjectId,
    /// What to ask the server for: an annotated tag itself, as not every server hands out what it names.
    pub(crate) want: ObjectId,
}

/// Objects that some tag named and that are no commits. What an object is follows from its id, so that it
/// need not be fetched again to see that.
#[derive(Debug, Default)]
pub(crate) struct NotCommits(Mutex<HashSet<ObjectId>>);

impl NotCommits {
    /// More are forgotten all at once.
    const MOST: usize = 10_000;

    pub(crate) fn has(&self, object: ObjectId) -> bool {
        self.0.lock().contains(&object)
    }

    pub(crate) fn add(&self, object: ObjectId) {
        let mut objects = self.0.lock();
        if objects.len() >= Self::MOST {
            objects.clear();
        }
        objects.insert(object);
    }
}

/// What [`remote`] and [`local`] find.
pub(crate) enum Found {
    Unchanged(Tip),
    New { tip: Tip, tree: Tree },
}

/// One tree's part of a fetch.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) options: &'a FetcherOptions,
    pub(crate) request: &'a FetchRequest,
    pub(crate) job: &'a Job,
    /// Where the tree belongs: empty, or the path of a submodule.
    pub(crate) at: &'a str,
    /// What the trees before it took.
    pub(crate) spent: Spent,
}

impl Tip {
    pub(crate) fn of_commit(id: ObjectId) -> Self {
        Self { name: None, object: id, want: id }
    }

    fn revision(&self) -> String {
        reference::revision(self.name.as_deref(), self.object)
    }
}

impl FetchRequest {
    /// Reads a GitRepository's spec and the data of the Secret that it names.
    pub fn from_spec(
        spec: &GitRepositorySpec,
        secret: Option<&BTreeMap<String, Vec<u8>>>,
        known_revision: Option<String>,
    ) -> Result<Self, FetchError> {
        let GitReference { branch, tag, semver, name, commit } = spec.reference.clone().unwrap_or_default();
        let parts =
            (branch.as_deref(), tag.as_deref(), semver.as_deref(), name.as_deref(), commit.as_deref());
        let wanted = match parts {
            (None, None, None, None, None) => Ok(GitRef::DefaultBranch),
            (Some(branch), None, None, None, None) => GitRef::branch(branch).map_err(Failure::from),
            (None, Some(tag), None, None, None) => GitRef::tag(tag).map_err(Failure::from),
            (None, None, Some(range), None, None) => GitRef::semver(range).map_err(Failure::from),
            (None, None, None, Some(name), None) => GitRef::name(name).map_err(Failure::from),
            (None, None, None, None, Some(id)) => GitRef::commit(id).map_err(Failure::from),
            (Some(branch), None, None, None, Some(id)) => {
                GitRef::commit_on(id, branch).map_err(Failure::from)
            }
            _ => Err(Failure::AmbiguousReference),
        };
        let url = GitUrl::parse(&spec.url);
        let failed = |failure| FetchError {
            wanted: wanted.as_ref().map_or_else(|_| "the revision of spec.ref".to_owned(), GitRef::to_string),
            url: url.as_ref().map_or_else(|_| "the URL in spec.url".to_owned(), GitUrl::to_string),
            origin: Origin::Git,
            failure,
        };
        let checked_url = url.clone().map_err(|error| failed(error.into()))?;
        let read = match checked_url.scheme() {
            Scheme::Ssh => Credentials::for_ssh,
            Scheme::Http | Scheme::Https | Scheme::File => Credentials::from_secret,
        };
        let choice = Choice::of(spec).map_err(failed)?;
        let credentials = secret.map(read).transpose().map_err(|error| failed(error.into()))?;
        let reference = match &wanted {
            Ok(reference) => reference.clone(),
            Err(Failure::Reference(error)) => return Err(failed(error.clone().into())),
            Err(_) => return Err(failed(Failure::AmbiguousReference)),
        };
        Ok(Self {
            url: checked_url,
            reference,
            credentials: credentials.unwrap_or_default(),
            timeout: spec.timeout.map_or(DEFAULT_TIMEOUT, convoy_api::Duration::as_std),
            known_revision,
            choice,
        })
    }

    pub(crate) fn is_known(&self, tip: &Tip) -> bool {
        self.known_revision.as_ref().is_some_and(|known| *known == tip.revision())
    }

    fn error(&self, failure: Failure) -> FetchError {
        let (wanted, url) = (self.reference.to_string(), self.url.to_string());
        FetchError { wanted, url, origin: Origin::Git, failure }
    }
}

/// Fetches sources. Clones share the limit on concurrent fetches.
#[derive(Debug, Clone)]
pub struct Fetcher {
    options: Arc<FetcherOptions>,
    turns: Arc<Semaphore>,
    not_commits: Arc<NotCommits>,
}

impl Fetcher {
    /// A fetcher with these options.
    pub fn new(mut options: FetcherOptions) -> Self {
        options.addresses.allow_loopback |= options.allow_file_urls;
        let turns = Arc::new(Semaphore::new(options.concurrent_fetches.clamp(1, Semaphore::MAX_PERMITS)));
        Self { options: Arc::new(options), turns, not_commits: Arc::default() }
    }

    /// Fetches. The work is done on a blocking thread; when the returned future is dropped, that thread
    /// stops at its next read. Must be called inside a tokio runtime with time and I/O enabled.
    pub async fn fetch(&self, request: FetchRequest) -> Result<Fetched, FetchError> {
        // A commit never moves, so there is nothing to ask.
        if let (GitRef::Commit(id) | GitRef::CommitOn(id, _), Some(known)) =
            (&request.reference, &request.known_revision)
            && *known == reference::revision(None, id.0)
        {
            return Ok(Fetched::Unchanged { revision: known.clone() });
        }
        let shared = Arc::new(request);
        let request = Arc::clone(&shared);
        let not_commits = Arc::clone(&self.not_commits);
        self.run(request.timeout, move |options, job| fetch(options, &shared, &not_commits, job))
            .await
            .map_err(|failure| request.error(failure))
    }

    /// Does one fetch's work on a blocking thread when its turn comes. When the returned future is dropped,
    /// that thread stops at its next read.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce(&FetcherOptions, &Job) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else {
            return Err(Failure::Cancelled);
        };
        let job = Job::start(timeout);
        let _cancel = job.cancel_on_drop();
        let (options, inner) = (Arc::clone(&self.options), job.clone());
        let work = tokio::task::spawn_blocking(move || {
            // Held by the thread, not by the caller: a cancelled fetch keeps its turn until it stops.
            let _turn = turn;
            work(&options, &inner)
        });
        match tokio::time::timeout_at(job.deadline(), work).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => {
                Err(Failure::Protocol { detail: "the reader of what was fetched broke down".to_owned() })
            }
            Err(_) => Err(job.timed_out()),
        }
    }
}

fn fetch(
    options: &FetcherOptions,
    request: &FetchRequest,
    not_commits: &NotCommits,
    job: &Job,
) -> Result<Fetched, Failure> {
    let work = Work { options, request, job, at: "", spent: Spent::default() };
    let found = match request.url.scheme() {
        Scheme::File => local::fetch_tree(work)?,
        Scheme::Http | Scheme::Https | Scheme::Ssh => remote::fetch_tree(work, not_commits)?,
    };
    match found {
        Found::Unchanged(tip) => Ok(Fetched::Unchanged { revision: tip.revision() }),
        Found::New { tip, mut tree } => {
            if request.choice.with_submodules {
                submodules::fetch_all(work, not_commits, &mut tree)?;
            }
            let left_out = tree.gitlinks.iter().map(|(path, _)| format!("{path}: submodule left out"));
            tree.notes.extend(left_out);
            let mut notes = tree.notes;
            let mut files = links::resolve(&tree.folder, options.limits, &mut notes)?;
            files.retain(|path, _| request.choice.has(path));
            notes.extend(lfs_pointers(&files));
            job.left()?;
            Ok(Fetched::New { artifact: Artifact::new(tip.revision(), files), notes })
        }
    }
}

/// How the text that Git LFS commits in place of a large file begins.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

fn lfs_pointers(files: &BTreeMap<String, Bytes>) -> impl Iterator<Item = String> + '_ {
    let pointers = files.iter().filter(|(_, content)| content.starts_with(LFS_POINTER));
    pointers.map(|(path, _)| {
        format!("{path}: the file is in Git LFS, which is not fetched; its pointer is taken as it is")
    })
}
