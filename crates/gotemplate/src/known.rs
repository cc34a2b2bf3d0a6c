//! Texts that come again and again, kept once.

use crate::text::Str;

/// A place for each of so many texts; the next one that belongs in the same place takes it.
const PLACES: usize = 128;
/// Longer texts seldom come again.
const LONGEST: usize = 64;

/// The names and short constants of a template.
#[derive(Debug)]
pub(crate) struct Known([Str; PLACES]);

impl Default for Known {
    fn default() -> Self {
        let empty = Str::default();
        Self(std::array::from_fn(|_| empty.clone()))
    }
}

impl Known {
    /// The text, shared with where it stood before unless another took its place.
    pub(crate) fn share(&mut self, text: &[u8]) -> Str {
        if text.len() > LONGEST {
            return text.into();
        }
        let mixed = text.iter().fold(text.len(), |mixed, byte| mixed.wrapping_mul(31) ^ usize::from(*byte));
        let Some(place) = self.0.get_mut(mixed % PLACES) else { return text.into() };
        if **place != *text {
            *place = text.into();
        }
        place.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_until_another_takes_its_place() {
        let mut known = Known::default();
        let first = known.share(b"Values");
        assert!(std::ptr::eq(first.as_bytes(), known.share(b"Values").as_bytes()));
        for number in 0..1_000 {
            let text = number.to_string();
            assert_eq!(*known.share(text.as_bytes()), *text.as_bytes());
        }
        assert_eq!(*known.share(b"Values"), *first);
        assert_eq!(*known.share(&[b'x'; 100]), [b'x'; 100]);
    }
}
