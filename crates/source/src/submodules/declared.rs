//! What `.gitmodules` says: where the submodule of a path comes from.

use std::collections::BTreeMap;

use gix::bstr::{BStr, ByteSlice as _};
use gix::config::File;
use gix::config::file::Metadata;

use super::SubmoduleError;
use crate::tree::{Folder, Node};
use crate::url::{GitUrl, UrlError};

/// Its name, in the root folder of a repository.
const FILE: &str = ".gitmodules";

/// Longest `.gitmodules` that is read, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// The submodules that a repository declares, by their paths in it. The names that it gives them mean nothing here: Git
/// makes folders of them, and there are none.
#[derive(Debug, Default)]
pub(super) struct Declared(BTreeMap<String, Vec<Entry>>);

/// One section of `.gitmodules`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    url: Option<String>,
    /// A branch that has the commit, if it says so.
    pub(super) branch: Option<String>,
}

impl Declared {
    /// Of a repository's root folder; nothing is declared when there is no `.gitmodules`.
    pub(super) fn of(folder: &Folder) -> Result<Self, SubmoduleError> {
        match folder.get(FILE) {
            None => Ok(Self::default()),
            Some(Node::File(bytes)) => Self::parse(bytes),
            Some(Node::Link(_) | Node::Folder(_)) => Err(broken("it is no plain file")),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, SubmoduleError> {
        if bytes.len() > MAX_BYTES {
            return Err(broken(&format!("it has more than {MAX_BYTES} bytes")));
        }
        let file = File::from_bytes_no_includes(bytes, Metadata::api(), Default::default());
        let file = file.map_err(|error| broken(&error.to_string()))?;
        let mut all: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for section in file.sections_by_name("submodule").into_iter().flatten() {
            let text = |key| section.value(key).and_then(|value| value.to_str().ok().map(str::to_owned));
            if let Some(path) = text("path") {
                all.entry(path).or_default().push(Entry { url: text("url"), branch: text("branch") });
            }
        }
        Ok(Self(all))
    }

    /// Where the submodule of a path is, seen from a repository at `base`.
    pub(super) fn find(&self, path: &str, base: &GitUrl) -> Result<(GitUrl, &Entry), SubmoduleError> {
        let entry = match self.0.get(path).map(Vec::as_slice) {
            None | Some([]) => return Err(SubmoduleError::NotDeclared),
            Some([entry]) => entry,
            Some(_) => return Err(SubmoduleError::DeclaredTwice),
        };
        let url = entry.url.as_deref().filter(|url| !url.is_empty()).ok_or(SubmoduleError::NoUrl)?;
        let is_relative = [".", ".."].contains(&url) || url.starts_with("./") || url.starts_with("../");
        let url = if is_relative {
            if base.is_file() {
                return Err(SubmoduleError::OfThisMachine);
            }
            base.joined(url)
        } else {
            GitUrl::parse(url)
        };
        let url = url.map_err(|error| match error {
            UrlError::Credentials => SubmoduleError::UrlWithCredentials,
            error => SubmoduleError::Url(error),
        })?;
        if url.is_file() { Err(SubmoduleError::OfThisMachine) } else { Ok((url, entry)) }
    }
}

fn broken(detail: &str) -> SubmoduleError {
    SubmoduleError::Declaration { detail: BStr::new(detail).to_string() }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn at(base: &str, url: &str) -> Result<String, String> {
        let text = format!("[submodule \"s\"]\n\tpath = lib\n\turl = \"{url}\"\n");
        let base = GitUrl::parse(base).unwrap();
        let declared = Declared::parse(text.as_bytes()).map_err(|error| error.to_string())?;
        declared.find("lib", &base).map(|(url, _)| url.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn urls_are_absolute_or_relative_to_the_repository() {
        let https = "https://git.example:8443/team/apps.git";
        for (base, url, want) in [
            (https, "https://other.example/lib.git", "https://other.example/lib.git"),
            (https, "git@other.example:lib.git", "git@other.example:lib.git"),
            (https, "../lib.git", "https://git.example:8443/team/lib.git"),
            (https, "./lib.git", "https://git.example:8443/team/apps.git/lib.git"),
            (https, "../../other/lib/", "https://git.example:8443/other/lib"),
            ("git@git.example:team/apps.git", "../lib.git", "git@git.example:team/lib.git"),
            ("git@git.example:team/apps.git", "../../lib.git", "git@git.example:lib.git"),
            ("ssh://me@git.example:2222/~me/apps", "../lib", "ssh://me@git.example:2222/~me/lib"),
            ("git@git.example:/srv/apps", "../lib", "ssh://git@git.example/srv/lib"),
        ] {
            assert_eq!(at(base, url), Ok(want.to_owned()), "{base} {url}");
        }
    }

    #[test]
    fn hostile_urls_are_refused() {
        let https = "https://git.example/team/apps.git";
        for (base, url, want) in [
            (https, "../../../etc", "the URL in .gitmodules is refused"),
            (https, "../..", "the URL in .gitmodules is refused"),
            (https, "../%2e%2e/lib", "the URL in .gitmodules is refused"),
            (https, "../a//b", "the URL in .gitmodules is refused"),
            (https, "../lib?x", "the URL in .gitmodules is refused"),
            (https, "../lib\\nx", "the URL in .gitmodules is refused"),
            (https, "-oProxyCommand=id", "the URL in .gitmodules is refused"),
            (https, "--upload-pack=id", "the URL in .gitmodules is refused"),
            (https, "ssh://-oProxyCommand=id/x", "the URL in .gitmodules is refused"),
            (https, "git@host:--upload-pack=id", "the URL in .gitmodules is refused"),
            ("git@git.example:apps", "../-x", "the URL in .gitmodules is refused"),
            (https, "ext::sh", "the URL in .gitmodules is refused"),
            (https, "/srv/git/lib", "the URL in .gitmodules is refused"),
            (https, "lib", "the URL in .gitmodules is refused"),
            (https, "https://me:CANARY@git.example/lib", "the URL in .gitmodules holds a user or a password"),
            (https, "file:///etc", "it is in a folder of this machine"),
            (https, "FILE:///etc", "it is in a folder of this machine"),
            ("file:///srv/apps", "../lib", "it is in a folder of this machine"),
            ("file:///srv/apps", "file:///srv/lib", "it is in a folder of this machine"),
            (https, "", "has no url in .gitmodules"),
        ] {
            let found = at(base, url).unwrap_err();
            assert!(found.contains(want) && !found.contains("CANARY"), "{base} {url}: {found}");
        }
    }

    /// Each with what is found for the path `lib`.
    #[test]
    fn hostile_declarations_bring_nothing_that_was_not_asked_for() {
        let big = format!("#{}", "x".repeat(MAX_BYTES));
        let good = "[submodule \"s\"]\npath = lib\nurl = https://h/lib\n";
        let again = format!("{good}{good}");
        for (text, want) in [
            ("", "is not in .gitmodules"),
            ("[submodule]\nurl = https://h/lib\n", "is not in .gitmodules"),
            ("[submodule \"s\"]\npath = ../lib\nurl = https://h/lib\n", "is not in .gitmodules"),
            ("[submodule \"s\"]\npath = /lib\nurl = https://h/lib\n", "is not in .gitmodules"),
            ("[submodule \"s\"]\npath = \"lib\\nx\"\nurl = https://h/lib\n", "is not in .gitmodules"),
            ("[submodule \"lib\"]\nurl = https://h/lib\n", "is not in .gitmodules"),
            ("[other \"s\"]\npath = lib\nurl = https://h/lib\n", "is not in .gitmodules"),
            ("[include]\npath = /etc/passwd\n", "is not in .gitmodules"),
            ("[submodule \"s\"]\npath = lib\n", "has no url in .gitmodules"),
            ("[submodule \"s\"]\npath = lib\nurl\n", "has no url in .gitmodules"),
            ("[submodule \"a\nb\"]\npath = lib\nurl = https://h/lib\n", ".gitmodules cannot be read"),
            ("[submodule \"s\"\n", ".gitmodules cannot be read"),
            ("\u{0}\u{1}", ".gitmodules cannot be read"),
            (&big, "more than 262144 bytes"),
            (&again, "more than once in .gitmodules"),
        ] {
            let base = GitUrl::parse("https://h/apps").unwrap();
            let found = Declared::parse(text.as_bytes()).and_then(|declared| {
                declared.find("lib", &base).map(|(url, entry)| format!("{url} {entry:?}"))
            });
            let found = found.map_err(|error| error.to_string()).unwrap_err();
            assert!(found.contains(want), "{text:.60}: {found}");
        }
        // The name is where Git would put the submodule; here it is nothing.
        for name in ["../../hooks", "a\\\\b", ".git/hooks", "-x"] {
            let text = format!("[submodule \"{name}\"]\npath = lib\nurl = https://h/lib\nupdate = !id\n");
            let declared = Declared::parse(text.as_bytes()).unwrap();
            let (url, _) = declared.find("lib", &GitUrl::parse("https://h/apps").unwrap()).unwrap();
            assert_eq!(url.to_string(), "https://h/lib");
        }
    }

    #[test]
    fn the_declaration_is_a_plain_file_or_none() {
        assert!(Declared::of(&Folder::new()).unwrap().0.is_empty());
        let of = |node| Declared::of(&Folder::from([(FILE.to_owned(), node)]));
        assert!(of(Node::Link("/etc/passwd".to_owned())).is_err());
        assert!(of(Node::Folder(Folder::new())).is_err());
        let text = "[submodule \"s\"]\npath = lib\nurl = https://h/lib\nbranch = stable\n";
        let declared = of(Node::File(Bytes::from(text))).unwrap();
        let (_, entry) = declared.find("lib", &GitUrl::parse("https://h/apps").unwrap()).unwrap();
        assert_eq!(entry.branch.as_deref(), Some("stable"));
    }
}
