//! Character classes of YAML's grammar, over bytes of UTF-8. The end of the text reads as a zero byte, which
//! cannot stand in a text.

#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    #[inline]
    pub(crate) fn at(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn is_blank(self, at: usize) -> bool {
        matches!(self.at(at), b' ' | b'\t')
    }

    /// Line feed, carriage return, next line, line separator, paragraph separator.
    #[inline]
    pub(crate) fn is_break(self, at: usize) -> bool {
        match self.at(at) {
            b'\r' | b'\n' => true,
            0xc2 => self.at(at + 1) == 0x85,
            0xe2 => self.at(at + 1) == 0x80 && matches!(self.at(at + 2), 0xa8 | 0xa9),
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn is_end(self, at: usize) -> bool {
        self.at(at) == 0
    }

    #[inline]
    pub(crate) fn is_break_or_end(self, at: usize) -> bool {
        self.is_end(at) || self.is_break(at)
    }

    #[inline]
    pub(crate) fn is_blank_or_end(self, at: usize) -> bool {
        self.is_blank(at) || self.is_break_or_end(at)
    }

    /// A character of an anchor, a tag handle or a directive's name.
    #[inline]
    pub(crate) fn is_word(self, at: usize) -> bool {
        matches!(self.at(at), b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'-')
    }

    /// `---` or `...` with nothing glued to it.
    #[inline]
    pub(crate) fn is_document_indicator(self, at: usize) -> bool {
        let first = self.at(at);
        (first == b'-' || first == b'.')
            && self.at(at + 1) == first
            && self.at(at + 2) == first
            && self.is_blank_or_end(at + 3)
    }
}

/// Bytes of the character that starts with this byte.
#[inline]
pub(crate) fn width(byte: u8) -> usize {
    match byte {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
        _ => 1,
    }
}
