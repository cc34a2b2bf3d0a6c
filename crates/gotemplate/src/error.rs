//! What goes wrong: Go's texts, and the limits of convoy's own.

use crate::function::FuncError;

/// A text that is no template. Displays Go's text, such as
/// `template: a.yaml:3: unexpected "}" in operand`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    pub(crate) message: String,
    pub(crate) line: u32,
}

impl ParseError {
    /// The line, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }
}

/// Which limit a render reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// [`crate::Limits::max_steps`].
    #[error("the template takes more steps than are allowed")]
    Steps,
    /// [`crate::Limits::max_output`].
    #[error("the template prints more bytes than are allowed")]
    Output,
    /// [`crate::Limits::max_allocated`].
    #[error("the template makes more bytes of values than are allowed")]
    Allocated,
    /// [`crate::Limits::max_depth`].
    #[error("templates call each other more deeply than is allowed")]
    Depth,
    /// [`crate::Limits::max_text`].
    #[error("a text is larger than is allowed")]
    Text,
    /// [`crate::Limits::max_blocks`].
    #[error("more blocks and parentheses are open at a time than is allowed")]
    Blocks,
    /// A regular expression that is too large, or would take too long on its text.
    #[error("a regular expression takes more work than is allowed")]
    Regex,
    /// A value that contains itself, or nearly so deep.
    #[error("a value is nested more deeply than is allowed")]
    Nesting,
    /// The deadline of the caller passed, or it cancelled the render.
    #[error("the render was stopped: it takes longer than it is given, or is not wanted any more")]
    Deadline,
}

/// Where in a template an error is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the parsed text (a file of the chart).
    pub template: String,
    /// Line, from 1.
    pub line: u32,
    /// Bytes before it on that line, from 0, as Go counts.
    pub column: u32,
}

/// A failed run. Displays Go's text, such as
/// `template: a.yaml:3:5: executing "a.yaml" at <.Values.x.y>: nil pointer evaluating interface {}.y`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExecError {
    pub(crate) message: String,
    pub(crate) location: Option<Location>,
    pub(crate) limit: Option<Limit>,
}

impl ExecError {
    /// The outermost place, when there is one: nested calls have theirs in the text only.
    pub fn location(&self) -> Option<&Location> {
        self.location.as_ref()
    }

    /// The limit that was reached, when one was.
    pub fn reached_limit(&self) -> Option<Limit> {
        self.limit
    }
}

impl From<ExecError> for FuncError {
    fn from(error: ExecError) -> Self {
        Self::from_parts(error.message, error.limit)
    }
}
