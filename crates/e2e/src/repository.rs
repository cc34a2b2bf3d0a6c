//! A Git repository that a test commits to.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A Git repository in a folder, with the branch `main`.
#[derive(Debug)]
pub struct Repository {
    folder: PathBuf,
}

impl Repository {
    /// The one in a folder.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Makes it, without a commit.
    ///
    /// # Panics
    /// When there is no git.
    pub fn init(&self) {
        std::fs::create_dir_all(&self.folder).unwrap();
        self.git(&["init", "--quiet", "--initial-branch=main"]);
    }

    /// Where a GitRepository finds it.
    pub fn url(&self) -> String {
        format!("file://{}", self.folder.display())
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs git in it.
    ///
    /// # Panics
    /// When git fails.
    pub fn git(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"];
        let status = Command::new("git").arg("-C").arg(&self.folder).args(identity).args(arguments).status();
        assert!(status.unwrap().success(), "git {arguments:?}");
    }

    /// Writes files, by their paths, and commits all.
    ///
    /// # Panics
    /// When a file cannot be written, or nothing has changed.
    pub fn commit<T: AsRef<str>>(&self, files: &[(&str, T)]) {
        for (path, text) in files {
            let path = self.folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text.as_ref()).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", "change"]);
    }
}
