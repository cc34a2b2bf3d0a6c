//! Room for a text that a function writes, and what reading one takes.

use convoy_gotemplate::{Call, FuncError, Limit};

/// How much more a function may write. Lists and dicts can hold one another many times, so that little memory is
/// a text without end: each value that is written is counted.
pub(super) struct Room<'a, 'c, 'r> {
    call: Option<&'a mut Call<'c, 'r>>,
    left: usize,
    full: Limit,
}

impl<'a, 'c, 'r> Room<'a, 'c, 'r> {
    /// For what a call writes.
    pub(super) fn of(call: &'a mut Call<'c, 'r>) -> Self {
        let (left, full) = call.text_left();
        Self { call: Some(call), left, full }
    }

    /// For what convoy itself writes.
    pub(super) fn endless() -> Self {
        Self { call: None, left: usize::MAX, full: Limit::Text }
    }

    /// One value more is to be written, after so many bytes.
    pub(super) fn check(&mut self, written: usize) -> Result<(), FuncError> {
        if written > self.left {
            return Err(FuncError::limit(self.full));
        }
        match &mut self.call {
            Some(call) => call.steps(1),
            None => Ok(()),
        }
    }
}

/// Counts what the values in a text may take, by the characters that stand between values.
pub(super) fn charge_reading(call: &mut Call<'_, '_>, text: &[u8]) -> Result<(), FuncError> {
    // While it is read, and what stays of it.
    const TREE: usize = 120;
    const STAYS: usize = 40;
    call.check_text(text.len())?;
    let is_between = |byte: &u8| matches!(byte, b'\n' | b':' | b',' | b'[' | b'{' | b'-' | b'=' | b'.');
    let values = text.iter().filter(|byte| is_between(byte)).count();
    if values.saturating_mul(TREE) > call.allocation_left() {
        return Err(FuncError::limit(Limit::Allocated));
    }
    call.charge(text.len() + values * STAYS)
}
