use std::borrow::Cow;

/// A place in the text, all from 0: characters from the start, line, and characters from the line's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) index: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind<'a>,
    pub(crate) start: Mark,
    pub(crate) end: Mark,
}

#[derive(Debug)]
pub(crate) enum TokenKind<'a> {
    StreamEnd,
    VersionDirective { major: u8, minor: u8 },
    TagDirective { handle: &'a str, prefix: Cow<'a, str> },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    Tag { handle: &'a str, suffix: Cow<'a, str> },
    Scalar { value: Cow<'a, str>, plain: bool },
}
