//! Values as text: `toString`, `quote` and what other functions need of it.

use convoy_gotemplate::{Call, FuncError, Limit, List, Str, Value, quote as go_quote, sprint};

use super::arguments::{Outcome, TEXT, any, string};

/// Sprig's `strval`: strings as they are, bytes as text, everything else as `%v` prints it.
pub(super) fn strval(call: &mut Call<'_, '_>, value: &Value) -> Result<Str, FuncError> {
    match value {
        Value::String(text) | Value::Bytes(text) => Ok(text.clone()),
        other => plain(call, other),
    }
}

/// `%v` of a value.
pub(super) fn plain(call: &mut Call<'_, '_>, value: &Value) -> Result<Str, FuncError> {
    if let Value::String(text) = value {
        return Ok(text.clone());
    }
    let (left, full) = call.text_left();
    let text = sprint(std::slice::from_ref(value), call.budget(left))
        .map_err(|limit| FuncError::limit(if limit == Limit::Allocated { full } else { limit }))?;
    call.charge(text.len())?;
    Ok(text.into())
}

pub(super) fn to_string(call: &mut Call<'_, '_>, args: &[Value]) -> Outcome {
    string(strval(call, &any(args, 0))?)
}

pub(super) fn quote(call: &mut Call<'_, '_>, args: &[Value]) -> Outcome {
    let mut out = Vec::new();
    for value in args.iter().filter(|v| !v.is_nil()) {
        if !out.is_empty() {
            out.push(b' ');
        }
        let text = strval(call, value)?;
        call.check_text(out.len() + text.len())?;
        let quoted = go_quote(&text);
        // One text alone is not copied: it may be large.
        if out.is_empty() {
            out = quoted;
        } else {
            out.extend_from_slice(&quoted);
        }
    }
    string(out)
}

pub(super) fn squote(call: &mut Call<'_, '_>, args: &[Value]) -> Outcome {
    let mut out = Vec::new();
    for value in args.iter().filter(|v| !v.is_nil()) {
        if !out.is_empty() {
            out.push(b' ');
        }
        let text = plain(call, value)?;
        call.check_text(out.len() + text.len())?;
        out.push(b'\'');
        out.extend_from_slice(&text);
        out.push(b'\'');
    }
    string(out)
}

pub(super) fn cat(call: &mut Call<'_, '_>, args: &[Value]) -> Outcome {
    let mut parts = Vec::with_capacity(args.len());
    let mut size = 0;
    for value in args.iter().filter(|v| !v.is_nil()) {
        let text = plain(call, value)?;
        size += text.len() + 1;
        call.check_text(size)?;
        parts.push(text);
    }
    string(parts.join(&b' '))
}

/// Sprig's `strslice`: the elements of a list as strings, without nils; one string for a scalar.
pub(super) fn strings(call: &mut Call<'_, '_>, value: &Value) -> Result<Vec<Str>, FuncError> {
    let count = match value {
        Value::List(list) => list.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 1,
    };
    call.charge(count.saturating_mul(TEXT))?;
    match value {
        Value::List(list) => list.to_vec().iter().filter(|v| !v.is_nil()).map(|v| strval(call, v)).collect(),
        Value::Bytes(bytes) => bytes.iter().map(|b| strval(call, &Value::Uint8(*b))).collect(),
        Value::Nil => Ok(Vec::new()),
        other => Ok(vec![strval(call, other)?]),
    }
}

pub(super) fn to_strings(call: &mut Call<'_, '_>, args: &[Value]) -> Outcome {
    let value = any(args, 0);
    if let Value::List(list) = &value
        && list.elem() == convoy_gotemplate::Elem::String
    {
        return Ok(value);
    }
    Ok(Value::List(List::strings(strings(call, &value)?)))
}

pub(super) fn join(call: &mut Call<'_, '_>, args: &[Value]) -> Outcome {
    let separator = super::arguments::text(args, 0);
    let parts = strings(call, &any(args, 1))?;
    let size: usize = parts.iter().map(|p| p.len() + separator.len()).sum();
    call.check_text(size)?;
    string(parts.join(&separator[..]))
}
