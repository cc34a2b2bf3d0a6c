use std::fmt;

/// What is wrong with a YAML text. The Display text is the one that Go's `yaml` package gives for the same
/// input; [`Error::position`] says where, also in the cases where Go's text does not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not YAML.
    #[error("yaml: {}{problem}", Line(*.reported_line))]
    Syntax {
        /// What the scanner or parser says.
        problem: String,
        /// The line that Go's text names; 0 when it names none. Parser errors of Go's package name the line
        /// before the one they mean.
        reported_line: usize,
        /// Line of the problem, from 1.
        line: usize,
        /// Column of the problem in characters, from 1.
        column: usize,
    },
    /// The text is YAML, but a value in it cannot be read.
    #[error("yaml: {problem}")]
    Value {
        /// What cannot be read and why.
        problem: String,
        /// Line of the value, from 1.
        line: usize,
        /// Column of the value in characters, from 1.
        column: usize,
    },
    /// Keys that stand twice in one mapping, found by a strict read.
    #[error("yaml: unmarshal errors:{}", List(.keys))]
    Duplicates {
        /// In the order of the text.
        keys: Vec<DuplicateKey>,
    },
    /// The value has no JSON form.
    #[error("{problem}")]
    Json {
        /// What has no JSON form.
        problem: String,
        /// Line of the value, from 1.
        line: usize,
        /// Column of the value in characters, from 1.
        column: usize,
    },
    /// Whoever had the text read does not want it any more.
    #[error("yaml: the reading was stopped")]
    Stopped,
    /// The text is larger than [`crate::MAX_BYTES`].
    #[error("yaml: text of {bytes} bytes is larger than the limit of {} bytes", crate::MAX_BYTES)]
    TooLarge {
        /// Size of the text.
        bytes: usize,
    },
}

impl Error {
    /// Line and column of the problem, both from 1.
    pub fn position(&self) -> Option<(usize, usize)> {
        match self {
            Self::Syntax { line, column, .. }
            | Self::Value { line, column, .. }
            | Self::Json { line, column, .. } => Some((*line, *column)),
            Self::Duplicates { keys } => keys.first().map(|key| (key.line, key.column)),
            Self::TooLarge { .. } | Self::Stopped => None,
        }
    }
}

/// A key that is already set in its mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateKey {
    /// The key as Go prints it with `%#v`.
    pub key: String,
    /// Line of the second value, from 1.
    pub line: usize,
    /// Column of the second value in characters, from 1.
    pub column: usize,
}

struct Line(usize);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            line => write!(f, "line {line}: "),
        }
    }
}

struct List<'a>(&'a [DuplicateKey]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|key| write!(f, "\n  line {}: key {} already set in map", key.line, key.key))
    }
}
