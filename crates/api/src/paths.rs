use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Files chosen by their paths: a glob without a slash is for names in any folder, one with a slash for paths from
/// the root; that of a folder stands for all that is in it.
#[derive(Debug, Clone, Default)]
pub struct PathGlobs(GlobSet);

/// A glob that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{glob}: {detail}")]
pub struct GlobError {
    /// The glob as given.
    pub glob: String,
    /// What is wrong with it.
    pub detail: String,
}

impl PathGlobs {
    /// The files that match one of the globs; none of none.
    ///
    /// # Errors
    /// The first glob that means nothing.
    pub fn new(globs: &[impl AsRef<str>]) -> Result<Self, GlobError> {
        let mut set = GlobSetBuilder::new();
        for text in globs.iter().map(AsRef::as_ref) {
            let anywhere = if text.contains('/') {
                text.trim_start_matches('/').to_owned()
            } else {
                format!("**/{text}")
            };
            let anywhere = anywhere.trim_end_matches('/');
            for pattern in [anywhere.to_owned(), format!("{anywhere}/**")] {
                let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
                set.add(glob.map_err(|error| GlobError {
                    glob: text.to_owned(),
                    detail: error.kind().to_string(),
                })?);
            }
        }
        let all =
            |error: globset::Error| GlobError { glob: "all together".to_owned(), detail: error.to_string() };
        Ok(Self(set.build().map_err(all)?))
    }

    /// Whether a path, without a slash before it, is of a chosen file.
    pub fn is_match(&self, path: &str) -> bool {
        self.0.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_for_names_anywhere_for_paths_from_the_root_and_for_folders() {
        for (glob, path, want) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "b/c/a.yaml", true),
            ("/*.yaml", "b/a.yaml", false),
            ("b/*.yaml", "b/a.yaml", true),
            ("b/*.yaml", "b/c/a.yaml", false),
            ("b/**", "b/c/a.yaml", true),
            ("b/", "b/c/a.yaml", true),
            ("b", "x/b/a.yaml", true),
            ("/b", "x/b/a.yaml", false),
            ("{a,c}.yaml", "c.yaml", true),
        ] {
            assert_eq!(PathGlobs::new(&[glob]).unwrap().is_match(path), want, "{glob} {path}");
        }
        assert!(!PathGlobs::new(&[""; 0]).unwrap().is_match("a"));
        let error = PathGlobs::new(&["ok", "a["]).unwrap_err();
        assert!(error.glob == "a[" && !error.detail.is_empty(), "{error}");
    }
}
