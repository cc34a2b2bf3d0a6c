use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use convoy_api::Artifact;

use crate::error::RenderError;

/// One folder of an artifact.
#[derive(Debug, Clone)]
pub(crate) struct Folder<'a> {
    /// From the artifact's root, without a slash at the end; empty for the root.
    path: String,
    files: &'a BTreeMap<String, Bytes>,
}

impl<'a> Folder<'a> {
    /// Finds the folder that `path` names. Whether something exists outside of the artifact is never
    /// looked at, so it cannot show.
    pub(crate) fn find(artifact: &'a Artifact, path: &str) -> Result<Self, RenderError> {
        if path.starts_with('/')
            || path.contains(['\\', '\0'])
            || path.split('/').any(|segment| segment == "..")
        {
            return Err(RenderError::BadPath { path: path.to_owned() });
        }
        let segments: Vec<_> = path.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
        let folder = Self { path: segments.join("/"), files: artifact.files() };
        // The root always exists, be it empty.
        if folder.path.is_empty() || folder.files().next().is_some() {
            Ok(folder)
        } else {
            Err(RenderError::PathNotFound { path: path.to_owned(), revision: artifact.revision().to_owned() })
        }
    }

    /// The folder's path, for messages.
    pub(crate) fn name(&self) -> &str {
        if self.path.is_empty() { "." } else { &self.path }
    }

    /// Files below the folder: path from the folder, and content.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'a str, &'a Bytes)> + use<'a> {
        let prefix = if self.path.is_empty() { String::new() } else { format!("{}/", self.path) };
        let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let range = self.files.range::<str, _>(from);
        range.map_while(move |(path, content)| path.strip_prefix(&prefix).map(|path| (path, content)))
    }

    /// A file by its path from the folder.
    pub(crate) fn file(&self, path: &str) -> Option<&'a Bytes> {
        self.files.get(&self.full(path))
    }

    /// A path from the folder as a path from the artifact's root.
    pub(crate) fn full(&self, path: &str) -> String {
        if self.path.is_empty() { path.to_owned() } else { format!("{}/{path}", self.path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(paths: &[&str]) -> Artifact {
        let files = paths.iter().map(|path| ((*path).to_owned(), Bytes::from_static(b"x"))).collect();
        Artifact::new("main@sha1:1", files)
    }

    #[test]
    fn a_folder_holds_what_is_below_it_and_not_its_neighbours() {
        let artifact = artifact(&["a/web/x.yaml", "a/web/y/z.yaml", "a/web-2/x.yaml", "a/we", "b"]);
        for path in ["a/web", "./a/web/", "a//web/."] {
            let folder = Folder::find(&artifact, path).unwrap();
            assert_eq!(folder.files().map(|(path, _)| path).collect::<Vec<_>>(), ["x.yaml", "y/z.yaml"]);
            assert_eq!((folder.name(), folder.full("q")), ("a/web", "a/web/q".to_owned()));
        }
        let root = Folder::find(&artifact, "").unwrap();
        assert_eq!((root.files().count(), root.name(), root.full("q")), (5, ".", "q".to_owned()));
    }

    #[test]
    fn paths_out_of_the_artifact_and_missing_ones_are_refused() {
        let artifact = artifact(&["a/x"]);
        for path in ["/etc", "..", "a/../../x", "a\\..\\b", "../../../etc"] {
            assert!(matches!(Folder::find(&artifact, path), Err(RenderError::BadPath { .. })), "{path}");
        }
        for path in ["b", "a/x", "a/x/y"] {
            assert!(matches!(Folder::find(&artifact, path), Err(RenderError::PathNotFound { .. })), "{path}");
        }
    }
}
