//! Room for a text that a function writes, and what reading one takes.

use convoy_gotemplate::{Call, FuncError, Limit, Value};

use super::arguments::{COPY, ENTRY, MAP, TEXT};

/// What writing a value costs, beside its bytes.
const VALUE_STEPS: u64 = 4;

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
        self.steps(VALUE_STEPS)
    }

    /// Work that is not seen in what is written.
    pub(super) fn steps(&mut self, steps: u64) -> Result<(), FuncError> {
        match &mut self.call {
            Some(call) => call.steps(steps),
            None => Ok(()),
        }
    }
}

/// Fails when the values in a text could take more than is left, by the characters that stand between values.
pub(super) fn check_reading(call: &mut Call<'_, '_>, text: &[u8]) -> Result<(), FuncError> {
    // A map of one entry, and while it is read its nodes.
    const EACH: usize = 280;
    call.check_text(text.len())?;
    let is_between = |byte: &u8| matches!(byte, b'\n' | b':' | b',' | b'[' | b'{' | b'-' | b'=' | b'.');
    let values = text.iter().filter(|byte| is_between(byte)).count();
    if values.saturating_mul(EACH) > call.allocation_left() {
        return Err(FuncError::limit(Limit::Allocated));
    }
    // To read a byte takes longer than to copy one.
    call.steps(text.len() as u64 / 16)
}

/// Counts what a value takes that was read.
pub(super) fn charge_value(call: &mut Call<'_, '_>, value: &Value) -> Result<(), FuncError> {
    match value {
        Value::String(text) => call.charge(TEXT + text.len()),
        Value::List(list) => {
            call.charge(TEXT + list.len() * COPY)?;
            list.borrow().iter().try_for_each(|item| charge_value(call, item))
        }
        Value::Map(map) => {
            call.charge(if map.is_empty() { TEXT } else { MAP + map.len() * ENTRY })?;
            map.borrow().values().try_for_each(|item| charge_value(call, item))
        }
        _ => Ok(()),
    }
}
