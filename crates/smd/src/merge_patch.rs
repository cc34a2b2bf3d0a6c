//! JSON merge patch (RFC 7386) as kube-apiserver applies it.

use serde_json::{Map, Value};

use crate::MAX_DEPTH;

/// Why a merge patch cannot be applied.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergePatchError {
    /// The patch is neither an object nor a list. kube-apiserver answers 400 with this text.
    #[error("Invalid JSON Patch")]
    NotAPatch,
    /// The object or the patch is nested too deep.
    #[error("the merge patch is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// Applies a merge patch to an object.
///
/// Differs from RFC 7386 as kube-apiserver does: `null` members are also dropped inside lists of the
/// patch unless the list replaces an object.
///
/// # Errors
/// [`MergePatchError`], when the patch is a scalar or too deep.
pub fn merge_patch(object: &mut Value, patch: Value) -> Result<(), MergePatchError> {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => merge_maps(object, patch, 0),
        (object, mut patch @ (Value::Object(_) | Value::Array(_))) => {
            prune_nulls(&mut patch, 0)?;
            *object = patch;
            Ok(())
        }
        _ => Err(MergePatchError::NotAPatch),
    }
}

fn merge_maps(
    object: &mut Map<String, Value>,
    patch: Map<String, Value>,
    depth: usize,
) -> Result<(), MergePatchError> {
    if depth > MAX_DEPTH {
        return Err(MergePatchError::TooDeep);
    }
    for (key, mut value) in patch {
        match (object.get_mut(&key), value) {
            (_, Value::Null) => {
                object.remove(&key);
            }
            (Some(Value::Object(current)), Value::Object(patch)) => merge_maps(current, patch, depth + 1)?,
            (Some(current @ Value::Object(_)), replacement) => *current = replacement,
            (Some(current), replacement) => {
                value = replacement;
                prune_nulls(&mut value, depth + 1)?;
                *current = value;
            }
            (None, addition) => {
                value = addition;
                prune_nulls(&mut value, depth + 1)?;
                object.insert(key, value);
            }
        }
    }
    Ok(())
}

fn prune_nulls(value: &mut Value, depth: usize) -> Result<(), MergePatchError> {
    if depth > MAX_DEPTH {
        return Err(MergePatchError::TooDeep);
    }
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().try_for_each(|member| prune_nulls(member, depth + 1))
        }
        Value::Array(list) => list.iter_mut().try_for_each(|item| prune_nulls(item, depth + 1)),
        _ => Ok(()),
    }
}
