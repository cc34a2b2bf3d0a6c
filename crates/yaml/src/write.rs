//! JSON values to YAML, with what the way through JSON text does to some strings.

use crate::build::{Whole, whole};
use crate::input::first_forbidden;
use crate::{Emitter, sort_naturally};
use serde_json::Value;

/// Why a value has no YAML text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Go's library writes JSON first and reads it as YAML, in which control characters may not stand.
    #[error("yaml: control characters are not allowed")]
    ControlCharacter,
    /// The way through JSON text ends at keys that are longer than 1024 characters.
    #[error("yaml: did not find expected ',' or '}}'")]
    KeyTooLong,
    /// The value is nested deeper than [`crate::MAX_DEPTH`].
    #[error("yaml: exceeded max depth of {}", crate::MAX_DEPTH)]
    TooDeep,
}

/// Writes a value as `sigs.k8s.io/yaml.Marshal` does, with a line feed at the end.
///
/// # Errors
///
/// When a string holds a control character, a key is too long, or the nesting is too deep.
pub fn to_yaml(value: &Value) -> Result<String, WriteError> {
    let mut emitter = Emitter::new();
    write(value, &mut emitter, 0)?;
    Ok(emitter.finish())
}

fn write(value: &Value, emitter: &mut Emitter, depth: usize) -> Result<(), WriteError> {
    if depth > crate::MAX_DEPTH {
        return Err(WriteError::TooDeep);
    }
    match value {
        Value::Null => emitter.null(),
        Value::Bool(value) => emitter.boolean(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => emitter.integer(value),
            (_, Some(value)) => emitter.unsigned(value),
            _ => emitter.json_float(number.as_f64().unwrap_or_default()),
        },
        Value::String(value) => emitter.json_string(value)?,
        Value::Array(items) => {
            emitter.sequence(items.is_empty());
            if !items.is_empty() {
                items.iter().try_for_each(|item| write(item, emitter, depth + 1))?;
                emitter.end();
            }
        }
        Value::Object(entries) => {
            emitter.mapping(entries.is_empty());
            if !entries.is_empty() {
                for (key, value) in sort_naturally(entries.iter().collect(), |(key, _)| key) {
                    emitter.json_key(key)?;
                    write(value, emitter, depth + 1)?;
                }
                emitter.end();
            }
        }
    }
    Ok(())
}

impl Emitter {
    /// A float as `sigs.k8s.io/yaml` writes it: whole numbers without an exponent as long as they fit 64 bits.
    pub fn json_float(&mut self, value: f64) {
        match whole(value) {
            Some(Whole::Signed(value)) => self.integer(value),
            Some(Whole::Unsigned(value)) => self.unsigned(value),
            None => self.float(value),
        }
    }

    /// A string as `sigs.k8s.io/yaml` writes it.
    ///
    /// # Errors
    ///
    /// When it holds a control character that JSON does not escape.
    pub fn json_string(&mut self, value: &str) -> Result<(), WriteError> {
        match through_json(value)? {
            Some(changed) => self.string(&changed),
            None => self.string(value),
        }
        Ok(())
    }

    /// A key as `sigs.k8s.io/yaml` writes it.
    ///
    /// # Errors
    ///
    /// When it holds a control character that JSON does not escape, or is longer than 1024 characters there.
    pub fn json_key(&mut self, key: &str) -> Result<(), WriteError> {
        if key.len() > 150 && json_length(key) > 1024 {
            return Err(WriteError::KeyTooLong);
        }
        match through_json(key)? {
            Some(_) => return Err(WriteError::KeyTooLong),
            None => self.key(key),
        }
        Ok(())
    }
}

/// What a string reads as after it was written to JSON and read as YAML, if not as itself: JSON leaves some
/// characters as they are that YAML does not allow, and one that is a line break there.
fn through_json(value: &str) -> Result<Option<String>, WriteError> {
    if value.is_ascii() {
        return if value.contains('\x7f') { Err(WriteError::ControlCharacter) } else { Ok(None) };
    }
    // JSON escapes what is below a space.
    let raw = value.replace(|c| c < ' ', "");
    if first_forbidden(&raw).is_some() {
        return Err(WriteError::ControlCharacter);
    }
    if !value.contains('\u{85}') {
        return Ok(None);
    }
    let mut json = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            '\0'..'\u{20}' | '\u{2028}' | '\u{2029}' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => json.push(c),
        }
    }
    json.push('"');
    match crate::to_json(json.as_bytes()) {
        Ok(Value::String(read)) => Ok(Some(read)),
        _ => Err(WriteError::ControlCharacter),
    }
}

/// Characters of the key with its quotes in JSON text.
fn json_length(key: &str) -> usize {
    let length = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\x08' | '\x0c' => 2,
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..'\u{20}' => 6,
        _ => 1,
    };
    2 + key.chars().map(length).sum::<usize>()
}
