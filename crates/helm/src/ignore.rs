//! .helmignore.

use crate::path_match::{BadPattern, Pattern, path_match};

/// Why .helmignore cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// `**` is no part of Helm's syntax.
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    /// A pattern cannot be read.
    #[error("syntax error in pattern")]
    Pattern,
}

impl From<BadPattern> for IgnoreError {
    fn from(_: BadPattern) -> Self {
        Self::Pattern
    }
}

/// The rules of a chart's folder.
#[derive(Debug, Clone)]
pub struct IgnoreRules(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    /// None matches nothing: Helm tries the line, not what is left of it here.
    pattern: Option<Pattern>,
    negated: bool,
    folders_only: bool,
    /// Matched against the last part of the path only.
    name_only: bool,
}

impl IgnoreRules {
    /// Reads the text of a .helmignore, or nothing; hidden files of `templates/` are always ignored.
    ///
    /// # Errors
    ///
    /// When a rule cannot be read.
    pub fn parse(text: Option<&[u8]>) -> Result<Self, IgnoreError> {
        let text = String::from_utf8_lossy(text.unwrap_or_default());
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let rules = text.lines().chain(["templates/.?*"]).map(Rule::parse).filter_map(Result::transpose);
        Ok(Self(rules.collect::<Result<_, _>>()?))
    }

    /// Whether a file is ignored, itself or by one of the folders above it.
    pub fn ignores(&self, path: &str) -> bool {
        let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        folders.into_iter().any(|folder| self.ignores_one(folder, true)) || self.ignores_one(path, false)
    }

    fn ignores_one(&self, path: &str, is_folder: bool) -> bool {
        if path.is_empty() || path == "." || path == "./" {
            return false;
        }
        for rule in &self.0 {
            if rule.negated {
                if (rule.folders_only && !is_folder) || !rule.matches(path) {
                    return true;
                }
            } else if (!rule.folders_only || is_folder) && rule.matches(path) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Option<Self>, IgnoreError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        if line.contains("**") {
            return Err(IgnoreError::DoubleStar);
        }
        path_match(line, "abc")?;
        let (negated, rest) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (folders_only, rest) = rest.strip_suffix('/').map_or((false, rest), |rest| (true, rest));
        let (rooted, pattern) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let name_only = !rooted && !pattern.contains('/');
        let pattern = Pattern::parse(pattern).ok();
        Ok(Some(Self { pattern, negated, folders_only, name_only }))
    }

    fn matches(&self, path: &str) -> bool {
        let path = if self.name_only { path.rsplit('/').next().unwrap_or(path) } else { path };
        self.pattern.as_ref().is_some_and(|pattern| pattern.matches(path))
    }
}
