//! Runes as Go sees them in a byte string.

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// U+FFFD, what a byte that is no UTF-8 decodes to.
pub(crate) const RUNE_ERROR: char = '\u{FFFD}';

/// The first rune of `bytes` and its width; U+FFFD and 1 for a byte that is no UTF-8. `None` at the end.
pub fn decode_rune(bytes: &[u8]) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((first as char, 1));
    }
    let width = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return Some((RUNE_ERROR, 1)),
    };
    let decoded = bytes.get(..width).and_then(|b| std::str::from_utf8(b).ok()).and_then(|s| s.chars().next());
    Some(decoded.map_or((RUNE_ERROR, 1), |c| (c, width)))
}

/// The runes of a Go string, as `range` over it gives them.
pub fn runes(bytes: &[u8]) -> impl Iterator<Item = char> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (rune, width) = decode_rune(rest)?;
        rest = rest.get(width..).unwrap_or_default();
        Some(rune)
    })
}

/// Appends a rune as UTF-8.
pub(crate) fn push_rune(out: &mut Vec<u8>, rune: char) {
    out.extend_from_slice(rune.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Go's `unicode.IsLetter`.
pub fn is_letter(rune: char) -> bool {
    if rune.is_ascii() {
        return rune.is_ascii_alphabetic();
    }
    rune.general_category_group() == GeneralCategoryGroup::Letter
}

/// Go's `unicode.IsDigit`.
pub fn is_digit(rune: char) -> bool {
    if rune.is_ascii() {
        return rune.is_ascii_digit();
    }
    rune.general_category() == GeneralCategory::DecimalNumber
}

/// Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub fn is_print(rune: char) -> bool {
    if rune.is_ascii() {
        return (' '..='~').contains(&rune);
    }
    !matches!(rune.general_category_group(), GeneralCategoryGroup::Other | GeneralCategoryGroup::Separator)
}
