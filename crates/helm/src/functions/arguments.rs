//! Arguments that the executor has checked against a function's signature.

use convoy_gotemplate::{FuncError, List, Map, Str, Value};

/// What a function gives back.
pub(super) type Outcome = Result<Value, FuncError>;

/// About the bytes that an element of a list takes, a text among them without its bytes, and an entry of a map.
pub(super) const ITEM: usize = 40;
/// See [`ITEM`].
pub(super) const TEXT: usize = 80;
/// See [`ITEM`].
pub(super) const ENTRY: usize = 120;

/// What a map takes that holds an entry, beside [`ENTRY`] for each.
pub(super) const MAP: usize = 500;
/// What an element takes that another list holds, too.
pub(super) const COPY: usize = 24;

/// The argument at `index`; nil when it is not there (an optional one).
pub(super) fn any(args: &[Value], index: usize) -> Value {
    args.get(index).cloned().unwrap_or_default()
}

/// The string at `index`.
pub(super) fn text(args: &[Value], index: usize) -> Str {
    match args.get(index) {
        Some(Value::String(text) | Value::Bytes(text)) => text.clone(),
        _ => Str::default(),
    }
}

/// The `int` or `int64` at `index`.
pub(super) fn int(args: &[Value], index: usize) -> i64 {
    match args.get(index) {
        Some(Value::Int(i) | Value::Int64(i)) => *i,
        Some(Value::Uint32(u)) => i64::from(*u),
        _ => 0,
    }
}

/// The `bool` at `index`.
pub(super) fn boolean(args: &[Value], index: usize) -> bool {
    matches!(args.get(index), Some(Value::Bool(true)))
}

/// The map at `index`; a nil map for nil.
pub(super) fn map(args: &[Value], index: usize) -> Map {
    match args.get(index) {
        Some(Value::Map(map)) => map.clone(),
        _ => Map::nil(),
    }
}

/// Go's dynamic check of a slice in a parameter of type `interface {}`: its elements, or the error that
/// says `verb`, or Go's for nil.
pub(super) fn elements(value: &Value, verb: &str) -> Result<Vec<Value>, FuncError> {
    match value {
        Value::List(list) => Ok(list.to_vec()),
        Value::Bytes(bytes) => Ok(bytes.iter().map(|b| Value::Uint8(*b)).collect()),
        Value::Nil => Err(nil_pointer()),
        other => Err(FuncError::new(format!("Cannot {verb} type {}", other.kind().name()))),
    }
}

/// What Go says when a nil is used as if it were not.
pub(super) fn nil_pointer() -> FuncError {
    FuncError::new("runtime error: invalid memory address or nil pointer dereference")
}

/// A `[]interface {}`.
pub(super) fn list(items: Vec<Value>) -> Outcome {
    Ok(Value::List(List::new(items)))
}

/// A `string`.
pub(super) fn string(text: impl Into<Str>) -> Outcome {
    Ok(Value::String(text.into()))
}
