use std::collections::BTreeMap;

use bytes::Bytes;

use crate::limits::Limits;
use crate::tree::{Folder, Node, TreeError, joined};

/// Links that may be followed for one path; Linux has the same limit.
const MAX_HOPS: usize = 40;

/// The plain files of a tree, each symbolic link replaced by what it points to. Links are resolved by
/// walking the tree itself, so nothing outside of it can be reached; a link whose target does not exist
/// is left out and noted.
pub(crate) fn resolve(
    root: &Folder,
    limits: Limits,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, Bytes>, TreeError> {
    let mut walk = Walk { root, limits, notes, files: BTreeMap::new(), visited: 0, bytes: 0 };
    walk.folder(root, "", &mut vec![Vec::new()])?;
    Ok(walk.files)
}

struct Walk<'a> {
    root: &'a Folder,
    limits: Limits,
    notes: &'a mut Vec<String>,
    files: BTreeMap<String, Bytes>,
    /// Everything looked at, so that links to empty folders cannot multiply without end either.
    visited: usize,
    bytes: u64,
}

/// Where a link leads: a path without links, from the root.
enum Found<'a> {
    File(&'a Bytes),
    Folder(&'a Folder, Vec<&'a str>),
    Nothing,
}

impl<'a> Walk<'a> {
    /// `path` is where the content appears; the last of `above` is where it is, and the rest of `above`
    /// are the folders that are being walked.
    fn folder(
        &mut self,
        folder: &'a Folder,
        path: &str,
        above: &mut Vec<Vec<&'a str>>,
    ) -> Result<(), TreeError> {
        if above.len() > self.limits.max_depth {
            return Err(TreeError::TooDeep { path: path.to_owned(), limit: self.limits.max_depth });
        }
        for (name, node) in folder {
            let path = joined(path, name);
            self.visited += 1;
            if self.visited > self.limits.max_files {
                return Err(TreeError::TooManyFiles { limit: self.limits.max_files });
            }
            let here = above.last().cloned().unwrap_or_default();
            match node {
                Node::File(bytes) => self.file(path, bytes)?,
                Node::Folder(inner) => {
                    above.push(here.into_iter().chain([name.as_str()]).collect());
                    self.folder(inner, &path, above)?;
                    above.pop();
                }
                Node::Link(target) => match self.follow(&here, target, &path)? {
                    Found::File(bytes) => self.file(path, bytes)?,
                    Found::Folder(inner, real) => {
                        if above.contains(&real) {
                            return Err(TreeError::LinkLoop { path, target: target.clone() });
                        }
                        above.push(real);
                        self.folder(inner, &path, above)?;
                        above.pop();
                    }
                    Found::Nothing => {
                        self.notes.push(format!(
                            "{path}: left out, the symbolic link's target {target:?} does not exist"
                        ));
                    }
                },
            }
        }
        Ok(())
    }

    fn file(&mut self, path: String, bytes: &Bytes) -> Result<(), TreeError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > self.limits.max_total_bytes {
            return Err(TreeError::TooLarge { limit: self.limits.max_total_bytes });
        }
        self.files.insert(path, bytes.clone());
        Ok(())
    }

    fn follow(&self, from: &[&'a str], target: &'a str, link: &str) -> Result<Found<'a>, TreeError> {
        let refused = |make: fn(String, String) -> TreeError| make(link.to_owned(), target.to_owned());
        let mut at: Vec<&'a str> = from.to_vec();
        let mut open: Vec<&'a str> = Vec::new();
        push_segments(&mut open, target).ok_or_else(|| refused(absolute))?;
        let mut hops = 1;
        while let Some(segment) = open.pop() {
            match segment {
                "" | "." => continue,
                ".." => {
                    if at.pop().is_none() {
                        return Err(refused(escapes));
                    }
                    continue;
                }
                _ => {}
            }
            match self.folder_at(&at).and_then(|folder| folder.get(segment)) {
                None => return Ok(Found::Nothing),
                Some(Node::Folder(_)) => at.push(segment),
                Some(Node::File(bytes)) if open.is_empty() => return Ok(Found::File(bytes)),
                // As for a system, `file/` and `file/.` name nothing.
                Some(Node::File(_)) => return Ok(Found::Nothing),
                Some(Node::Link(next)) => {
                    hops += 1;
                    if hops > MAX_HOPS {
                        return Err(refused(loops));
                    }
                    push_segments(&mut open, next).ok_or_else(|| refused(absolute))?;
                }
            }
        }
        Ok(self.folder_at(&at).map_or(Found::Nothing, |folder| Found::Folder(folder, at)))
    }

    fn folder_at(&self, path: &[&str]) -> Option<&'a Folder> {
        path.iter().try_fold(self.root, |folder, name| match folder.get(*name) {
            Some(Node::Folder(inner)) => Some(inner),
            _ => None,
        })
    }
}

/// Puts a target's segments on a stack, the first on top; nothing for an absolute target.
fn push_segments<'a>(open: &mut Vec<&'a str>, target: &'a str) -> Option<()> {
    if target.starts_with('/') {
        return None;
    }
    open.extend(target.rsplit('/'));
    Some(())
}

fn absolute(path: String, target: String) -> TreeError {
    TreeError::LinkAbsolute { path, target }
}

fn escapes(path: String, target: String) -> TreeError {
    TreeError::LinkEscapes { path, target }
}

fn loops(path: String, target: String) -> TreeError {
    TreeError::LinkLoop { path, target }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a tree from `(path, content)`; content `-> x` is a link to x.
    fn tree(entries: &[(&str, &str)]) -> Folder {
        let mut root = Folder::new();
        for (path, content) in entries {
            let mut folder = &mut root;
            let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
            for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
                let node = folder.entry(parent.to_owned()).or_insert_with(|| Node::Folder(Folder::new()));
                let Node::Folder(inner) = node else { panic!("{parent} is no folder") };
                folder = inner;
            }
            let node = match content.strip_prefix("-> ") {
                Some(target) => Node::Link(target.to_owned()),
                None => Node::File(Bytes::copy_from_slice(content.as_bytes())),
            };
            folder.insert(name.to_owned(), node);
        }
        root
    }

    type Resolved = (Vec<(String, String)>, Vec<String>);

    fn resolved(entries: &[(&str, &str)]) -> Result<Resolved, TreeError> {
        let mut notes = Vec::new();
        let files = resolve(&tree(entries), Limits::default(), &mut notes)?;
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        Ok((files.iter().map(|(path, bytes)| (path.clone(), text(bytes))).collect(), notes))
    }

    #[test]
    fn links_to_files_and_folders_inside_are_followed() {
        let (files, notes) = resolved(&[
            ("base/values.yaml", "a"),
            ("prod/values.yaml", "-> ../base/values.yaml"),
            ("all", "-> ./prod/."),
            ("chain", "-> all/values.yaml"),
        ])
        .unwrap();
        let paths: Vec<_> = files.iter().map(|(path, content)| format!("{path}={content}")).collect();
        assert_eq!(paths, ["all/values.yaml=a", "base/values.yaml=a", "chain=a", "prod/values.yaml=a"]);
        assert!(notes.is_empty());
    }

    #[test]
    fn links_that_leave_or_loop_are_refused_by_path() {
        let pair = |path: &str, target: &str| (path.to_owned(), target.to_owned());
        for (entries, want) in [
            (vec![("a/app.yaml", "-> /etc/passwd")], absolute as fn(String, String) -> TreeError),
            (vec![("a/app.yaml", "-> ../../etc/passwd")], escapes),
            (vec![("a/app.yaml", "-> ../../../..")], escapes),
            (vec![("a/app.yaml", "-> app.yaml")], loops),
            (vec![("a/app.yaml", "-> ../a")], loops),
            (vec![("a/app.yaml", "-> ..")], loops),
            (vec![("a/app.yaml", "-> x"), ("a/x", "-> y"), ("a/y", "-> ../../z")], escapes),
        ] {
            let target = entries[0].1.trim_start_matches("-> ");
            let (path, target) = pair("a/app.yaml", target);
            assert_eq!(resolved(&entries).unwrap_err(), want(path, target), "{entries:?}");
        }
    }

    #[test]
    fn a_link_to_nothing_is_left_out_and_noted() {
        let (files, notes) = resolved(&[("a", "1"), ("b", "-> gone"), ("c", "-> a/x")]).unwrap();
        assert_eq!(files, [("a".to_owned(), "1".to_owned())]);
        assert_eq!(notes.len(), 2);
        assert!(notes[0].starts_with("b: left out") && notes[1].starts_with("c: left out"), "{notes:?}");
    }

    /// Ten links in each of ten folders to the next folder make 10^10 paths.
    #[test]
    fn links_that_multiply_are_stopped_by_the_number_of_files() {
        let mut entries = Vec::new();
        let names: Vec<(String, String)> = (0..10)
            .flat_map(|level| {
                (0..10).map(move |link| (format!("d{level}/l{link}"), format!("-> ../d{}", level + 1)))
            })
            .collect();
        entries.extend(names.iter().map(|(path, target)| (path.as_str(), target.as_str())));
        entries.push(("d10/x", ""));
        assert_eq!(resolved(&entries).unwrap_err(), TreeError::TooManyFiles { limit: 50_000 });
    }

    #[test]
    fn links_that_multiply_a_large_file_are_stopped_by_the_total_size() {
        let limits = Limits { max_total_bytes: 25, ..Limits::default() };
        let root = tree(&[("a", "0123456789"), ("b", "-> a"), ("c", "-> a")]);
        assert_eq!(resolve(&root, limits, &mut Vec::new()).unwrap_err(), TreeError::TooLarge { limit: 25 });
    }

    /// The operating system follows links too: what is resolved must be what a walk over the same tree on a
    /// disk finds.
    #[cfg(unix)]
    mod against_a_file_system {
        use super::*;
        use proptest::prelude::*;
        use std::path::Path;

        fn entries() -> impl Strategy<Value = Vec<(String, String)>> {
            let name = prop::sample::select(vec!["a", "b", "c"]);
            let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
            let step = prop::sample::select(vec!["a", "b", "c", "..", "."]);
            let target =
                prop::collection::vec(step, 1..5).prop_map(|steps| format!("-> {}", steps.join("/")));
            let content = prop_oneof![1 => "[xyz]{1,3}", 2 => target];
            prop::collection::vec((path, content), 1..8)
        }

        /// Writes the entries that fit: the first of two at one path, and nothing below a file or a link.
        fn write(root: &Path, entries: &[(String, String)]) -> Vec<(String, String)> {
            let mut written: Vec<(String, String)> = Vec::new();
            for (path, content) in entries {
                let clashes = written.iter().any(|(other, _)| {
                    other == path
                        || path.starts_with(&format!("{other}/"))
                        || other.starts_with(&format!("{path}/"))
                });
                if clashes {
                    continue;
                }
                let at = root.join(path);
                std::fs::create_dir_all(at.parent().unwrap()).unwrap();
                match content.strip_prefix("-> ") {
                    Some(target) => std::os::unix::fs::symlink(target, at).unwrap(),
                    None => std::fs::write(at, content).unwrap(),
                }
                written.push((path.clone(), content.clone()));
            }
            written
        }

        fn walk(folder: &Path, path: &str, found: &mut Vec<(String, String)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let path = joined(path, entry.file_name().to_str().unwrap());
                match std::fs::metadata(entry.path()) {
                    Ok(target) if target.is_dir() => walk(&entry.path(), &path, found),
                    Ok(_) => found.push((path, std::fs::read_to_string(entry.path()).unwrap())),
                    Err(_) => {}
                }
            }
        }

        proptest! {
                    #[test]
                    fn the_same_files_are_found(entries in entries()) {
                        let dir = tempfile::tempdir().unwrap();
                        let root = dir.path().join("outer/root");
                        std::fs::create_dir_all(&root).unwrap();
                        let written = write(&root, &entries);
                        let pairs: Vec<_> = written.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
                        match resolved(&pairs) {
                            Ok((files, _)) => {
                                let mut found = Vec::new();
                                walk(&root, "", &mut found);
                                found.sort();
                                prop_assert_eq!(files, found);
                            }
                            Err(TreeError::LinkEscapes { .. }) => {
                                prop_assert!(written.iter().any(|(_, content)| content.contains("..")));
                            }
        // The system cannot follow it, or it leads to a folder that it is in itself.
                            Err(TreeError::LinkLoop { path, .. }) => {
                                let mut above = Path::new(&path).ancestors().skip(1).map(|above| root.join(above).canonicalize().unwrap());
                                let target = root.join(&path).canonicalize();
                                prop_assert!(target.map_or(true, |target| above.any(|above| above == target)), "{}", path);
                            }
                            Err(error) => prop_assert!(false, "{}", error),
                        }
                    }
                }
    }
}
