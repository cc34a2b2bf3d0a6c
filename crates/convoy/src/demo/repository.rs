//! A real Git repository of a few files, written without the git program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use gix::bstr::BString;
use gix::objs::tree::{Entry, EntryKind};
use gix::objs::{Tree, WriteTo as _};
use jiff::Timestamp;

/// A bare repository with one branch, `main`, whose files are kept in memory too.
#[derive(Debug)]
pub(crate) struct Repository {
    inner: gix::Repository,
    path: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
    head: Option<gix::ObjectId>,
}

impl Repository {
    /// Makes an empty repository in a folder that does not exist or is empty.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let inner = gix::init_bare(path)
            .with_context(|| format!("making the demo's Git repository in {}", path.display()))?;
        Ok(Self { inner, path: path.to_path_buf(), files: BTreeMap::new(), head: None })
    }

    /// The `file://` URL of the repository.
    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.path.display())
    }

    /// Puts a file into the next commit.
    pub(crate) fn write(&mut self, path: &str, content: &[u8]) {
        self.files.insert(path.to_owned(), content.to_vec());
    }

    /// The content of a file of the next commit.
    pub(crate) fn read(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Commits all files to `main` and returns the commit's id in hexadecimal.
    pub(crate) fn commit(&mut self, message: &str, now: Timestamp) -> anyhow::Result<String> {
        let mut root = Folder::default();
        for (path, content) in &self.files {
            let blob = self.inner.write_blob(content).with_context(|| format!("storing {path}"))?.detach();
            root.insert(path, blob);
        }
        let tree = root.write(&self.inner).context("storing the tree")?;
        let author = gix::actor::Signature {
            name: "convoy demo".into(),
            email: "demo@convoy.invalid".into(),
            time: gix::date::Time { seconds: now.as_second(), offset: 0 },
        };
        let mut time = gix::date::parse::TimeBuf::default();
        let author = author.to_ref(&mut time);
        let commit = self
            .inner
            .commit_as(author, author, "refs/heads/main", message, tree, self.head)
            .context("storing the commit")?
            .detach();
        self.head = Some(commit);
        Ok(commit.to_string())
    }
}

/// A folder on its way into a tree object.
#[derive(Debug, Default)]
struct Folder {
    files: BTreeMap<String, gix::ObjectId>,
    folders: BTreeMap<String, Folder>,
}

impl Folder {
    fn insert(&mut self, path: &str, blob: gix::ObjectId) {
        match path.split_once('/') {
            Some((folder, rest)) => self.folders.entry(folder.to_owned()).or_default().insert(rest, blob),
            None => {
                self.files.insert(path.to_owned(), blob);
            }
        }
    }

    fn write(&self, repository: &gix::Repository) -> anyhow::Result<gix::ObjectId> {
        let mut tree = Tree::empty();
        for (name, blob) in &self.files {
            tree.entries.push(Entry {
                mode: EntryKind::Blob.into(),
                filename: BString::from(name.as_str()),
                oid: *blob,
            });
        }
        for (name, folder) in &self.folders {
            tree.entries.push(Entry {
                mode: EntryKind::Tree.into(),
                filename: BString::from(name.as_str()),
                oid: folder.write(repository)?,
            });
        }
        // Git's order of entries is not that of names: a folder sorts as if its name ended in a slash.
        tree.entries.sort();
        debug_assert!(tree.size() < u64::from(u32::MAX));
        Ok(repository.write_object(&tree)?.detach())
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the git program is the judge of what was written")]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn what_is_committed_is_what_git_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("repository");
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let mut repository = Repository::create(&path).unwrap();
        // `a.b` sorts before `a/` although `a` sorts before `a.b`.
        for file in ["a/one", "a.b", "a/c/two", "z"] {
            repository.write(file, file.as_bytes());
        }
        let first = repository.commit("First", now).unwrap();
        repository.write("z", b"changed");
        let second = repository.commit("Second", now).unwrap();

        git(&path, &["fsck", "--strict"]);
        assert_eq!(git(&path, &["rev-parse", "main", "main~"]), format!("{second}\n{first}\n"));
        assert_eq!(git(&path, &["ls-tree", "-r", "--name-only", "main"]), "a.b\na/c/two\na/one\nz\n");
        assert_eq!(git(&path, &["show", "main:z"]), "changed");
        assert_eq!(repository.read("z"), Some(b"changed".as_slice()));
    }
}
