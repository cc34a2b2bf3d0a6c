use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};
use gix::objs::tree::EntryKind;
use gix::objs::{Find, FindExt as _, FindHeader};

use crate::error::Failure;
use crate::limits::Limits;

/// Longest target of a symbolic link, in bytes; Linux has the same limit.
const MAX_LINK_BYTES: u64 = 4096;

/// A folder of a Git tree, symbolic links not yet followed.
pub(crate) type Folder = BTreeMap<String, Node>;

/// One entry of a folder.
#[derive(Debug)]
pub(crate) enum Node {
    File(Bytes),
    /// A symbolic link and its target.
    Link(String),
    Folder(Folder),
}

/// Why a tree is refused. Names the path inside the repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// More files than allowed.
    #[error("the tree holds more than {limit} files")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// A file that is too large.
    #[error("{path}: the file has {size} bytes, more than the {limit} allowed")]
    FileTooLarge {
        /// Path in the repository.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// All files together are too large.
    #[error("the tree's files have more than {limit} bytes together")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Folders nested too deeply.
    #[error("{path}: more than {limit} nested folders")]
    TooDeep {
        /// Path in the repository.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// `.git`, `..` and the like.
    #[error("{path}: the name is not allowed ({why})")]
    Name {
        /// Path in the repository.
        path: String,
        /// The rule it breaks.
        why: String,
    },
    /// A link to an absolute path.
    #[error(
        "{path}: the symbolic link points to the absolute path {target:?}; links may only point to files of the repository"
    )]
    LinkAbsolute {
        /// Path of the link.
        path: String,
        /// Its target.
        target: String,
    },
    /// A link that leaves the repository.
    #[error("{path}: the symbolic link to {target:?} leaves the repository")]
    LinkEscapes {
        /// Path of the link.
        path: String,
        /// Its target.
        target: String,
    },
    /// A link to itself, directly or through others, or to a folder that contains it.
    #[error("{path}: the symbolic link to {target:?} leads back to itself")]
    LinkLoop {
        /// Path of the link.
        path: String,
        /// Its target.
        target: String,
    },
}

/// A tree as it was read.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) folder: Folder,
    /// What was left out, a sentence each.
    pub(crate) notes: Vec<String>,
    /// Where submodules belong, and at which commit each.
    pub(crate) gitlinks: Vec<(String, ObjectId)>,
    /// What the fetch took so far.
    pub(crate) spent: Spent,
}

/// What one fetch took, over all trees that it reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) pack_bytes: u64,
    entries: usize,
    bytes: u64,
}

/// Reads a whole tree from an object database; `at` is the path where it belongs, empty for the root. Names that
/// are not UTF-8 are left out and noted.
pub(crate) fn read(
    objects: &(impl Find + FindHeader),
    tree: ObjectId,
    at: &str,
    (limits, spent): (Limits, Spent),
    cancelled: &AtomicBool,
) -> Result<Tree, Failure> {
    let mut reader = Reader {
        objects,
        limits,
        cancelled,
        blobs: HashMap::new(),
        spent,
        notes: Vec::new(),
        gitlinks: Vec::new(),
    };
    let depth = at.split('/').filter(|name| !name.is_empty()).count();
    let folder = reader.folder(tree, at, depth)?;
    Ok(Tree { folder, notes: reader.notes, gitlinks: reader.gitlinks, spent: reader.spent })
}

struct Reader<'a, O> {
    objects: &'a O,
    limits: Limits,
    cancelled: &'a AtomicBool,
    /// Equal files share their bytes.
    blobs: HashMap<ObjectId, Bytes>,
    spent: Spent,
    notes: Vec<String>,
    gitlinks: Vec<(String, ObjectId)>,
}

impl<O: Find + FindHeader> Reader<'_, O> {
    fn folder(&mut self, id: ObjectId, path: &str, depth: usize) -> Result<Folder, Failure> {
        if depth > self.limits.max_depth {
            return Err(TreeError::TooDeep { path: path.to_owned(), limit: self.limits.max_depth }.into());
        }
        let mut buffer = Vec::new();
        let entries: Vec<_> = {
            let tree = self.objects.find_tree_iter(&id, &mut buffer).map_err(|error| broken(path, &error))?;
            tree.map(|entry| {
                entry.map(|entry| (entry.filename.to_owned(), entry.mode.kind(), entry.oid.to_owned()))
            })
            .collect::<Result<_, _>>()
            .map_err(|error| broken(path, &error))?
        };
        let mut folder = Folder::new();
        for (name, kind, id) in entries {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Failure::Cancelled);
            }
            self.spent.entries += 1;
            if self.spent.entries > self.limits.max_files {
                return Err(TreeError::TooManyFiles { limit: self.limits.max_files }.into());
            }
            let path = joined(path, &name.to_str_lossy());
            check_name(name.as_bstr(), kind, &path)?;
            let Ok(name) = name.to_str() else {
                self.notes.push(format!("{path}: left out, the name is not UTF-8"));
                continue;
            };
            let node = match kind {
                EntryKind::Commit => {
                    self.gitlinks.push((path, id));
                    continue;
                }
                EntryKind::Tree => Node::Folder(self.folder(id, &path, depth + 1)?),
                EntryKind::Link => {
                    let target = self.blob(id, &path, MAX_LINK_BYTES)?;
                    Node::Link(String::from_utf8_lossy(&target).into_owned())
                }
                EntryKind::Blob | EntryKind::BlobExecutable => {
                    Node::File(self.blob(id, &path, self.limits.max_file_bytes)?)
                }
            };
            folder.insert(name.to_owned(), node);
        }
        Ok(folder)
    }

    fn blob(&mut self, id: ObjectId, path: &str, limit: u64) -> Result<Bytes, Failure> {
        let found = self.objects.try_header(&id).map_err(|error| broken(path, &error))?;
        let size = found.map(|header| header.size).ok_or_else(|| missing(path, id))?;
        if size > limit {
            return Err(TreeError::FileTooLarge { path: path.to_owned(), size, limit }.into());
        }
        if let Some(known) = self.blobs.get(&id) {
            return Ok(known.clone());
        }
        self.spent.bytes = self.spent.bytes.saturating_add(size);
        if self.spent.bytes > self.limits.max_total_bytes {
            return Err(TreeError::TooLarge { limit: self.limits.max_total_bytes }.into());
        }
        let mut buffer = Vec::new();
        self.objects.find_blob(&id, &mut buffer).map_err(|error| broken(path, &error))?;
        let bytes = Bytes::from(buffer);
        self.blobs.insert(id, bytes.clone());
        Ok(bytes)
    }
}

pub(crate) fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn check_name(name: &BStr, kind: EntryKind, path: &str) -> Result<(), TreeError> {
    use gix::validate::path::component;
    // The rules that Git applies before it writes a file on macOS and Windows, without the reserved
    // device names of Windows: nothing is written to a disk here.
    let options = component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };
    let mode = (kind == EntryKind::Link).then_some(component::Mode::Symlink);
    match gix::validate::path::component(name, mode, options) {
        Ok(_) => Ok(()),
        Err(error) => Err(TreeError::Name { path: path.to_owned(), why: error.to_string() }),
    }
}

fn broken(path: &str, error: &gix::Error) -> Failure {
    let at = if path.is_empty() { "the root folder" } else { path };
    Failure::Protocol { detail: format!("{at}: {error}") }
}

fn missing(path: &str, id: ObjectId) -> Failure {
    Failure::Protocol { detail: format!("{path}: the object {id} was not sent") }
}

/// Tags that point to tags; more are taken for an attack.
const MAX_TAGS: usize = 32;

/// What an object is in the end: annotated tags are followed.
pub(crate) fn peeled(objects: &(impl Find + FindHeader), mut id: ObjectId) -> Result<ObjectId, Failure> {
    for _ in 0..MAX_TAGS {
        let header = objects.try_header(&id).map_err(|error| broken("", &error))?;
        if header.ok_or(Failure::CommitNotFound)?.kind != gix::objs::Kind::Tag {
            return Ok(id);
        }
        let mut buffer = Vec::new();
        let tag = objects.find_tag_iter(&id, &mut buffer).and_then(|tag| tag.target_id());
        id = tag.map_err(|error| broken("", &error))?;
    }
    Err(Failure::Protocol { detail: format!("more than {MAX_TAGS} tags point to each other") })
}

/// The root tree of a commit.
pub(crate) fn root_of(objects: &(impl Find + FindHeader), id: ObjectId) -> Result<ObjectId, Failure> {
    let id = peeled(objects, id)?;
    let header = objects.try_header(&id).map_err(|error| broken("", &error))?;
    match header.map(|header| header.kind) {
        Some(gix::objs::Kind::Commit) => {}
        Some(kind) => return Err(Failure::NotACommit { kind: kind.to_string() }),
        None => return Err(Failure::CommitNotFound),
    }
    let mut buffer = Vec::new();
    let commit = objects.find_commit_iter(&id, &mut buffer).and_then(|mut commit| commit.tree_id());
    commit.map_err(|error| broken("", &error))
}
