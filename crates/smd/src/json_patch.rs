//! JSON patch (RFC 6902) as kube-apiserver applies it, with its limits and error texts.

use serde_json::{Map, Value};

/// Operations that one patch may hold.
pub const MAX_OPERATIONS: usize = 10_000;

/// Bytes of JSON that the `copy` operations of one patch may add: kube-apiserver's limit of a request
/// body.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Why a JSON patch cannot be applied. The texts are those of kube-apiserver.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonPatchError {
    /// Not a list of operations: 400.
    #[error("json: cannot unmarshal {found} into Go value of type jsonpatch.{wanted}")]
    NotAPatch {
        /// The kind of JSON value that was found.
        found: &'static str,
        /// What should have stood there.
        wanted: &'static str,
    },
    /// More operations than [`MAX_OPERATIONS`]: 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {got}")]
    TooManyOperations {
        /// Operations in the patch.
        got: usize,
    },
    /// An operation does not apply, or a `test` failed: 422.
    #[error("{0}")]
    Failed(String),
}

/// Applies a JSON patch to an object. On an error the object may be changed in part: throw it away.
///
/// As kube-apiserver, and other than RFC 6902: `replace` of a missing member of an object adds it, a
/// missing member tests equal to `null`, and an index below zero counts from the end.
///
/// # Errors
/// [`JsonPatchError`], by the first operation that fails.
pub fn json_patch(object: &mut Value, patch: &Value) -> Result<(), JsonPatchError> {
    let operations =
        patch.as_array().ok_or(JsonPatchError::NotAPatch { found: kind(patch), wanted: "Patch" })?;
    if let Some(other) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(JsonPatchError::NotAPatch { found: kind(other), wanted: "Operation" });
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(JsonPatchError::TooManyOperations { got: operations.len() });
    }
    let mut copied = 0;
    for operation in operations.iter().filter_map(Value::as_object) {
        apply(object, operation, &mut copied).map_err(JsonPatchError::Failed)?;
    }
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

const MISSING: &str = "missing value";

fn apply(root: &mut Value, operation: &Map<String, Value>, copied: &mut usize) -> Result<(), String> {
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    let path = text(operation, "path");
    match operation.get("op").and_then(Value::as_str).unwrap_or("unknown") {
        "add" => {
            let path = path.map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
            let (container, key) = find(root, path).ok_or_else(|| {
                format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
            })?;
            container.add(&key, value()).map_err(|e| format!("error in add for path: '{path}': {e}"))
        }
        "remove" => {
            let path = path.map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
            let (container, key) = find(root, path).ok_or_else(|| {
                format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
            })?;
            container.remove(&key).map_err(|e| format!("error in remove for path: '{path}': {e}"))?;
            Ok(())
        }
        "replace" => {
            let path = path.map_err(|e| format!("replace operation failed to decode path: {e}"))?;
            replace(root, path, value())
        }
        "move" => {
            let from =
                text(operation, "from").map_err(|e| format!("move operation failed to decode from: {e}"))?;
            let (container, key) = find(root, from).ok_or_else(|| {
                format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
            })?;
            let moved =
                container.remove(&key).map_err(|e| format!("error in move for path: '{key}': {e}"))?;
            let path = path.map_err(|e| format!("move operation failed to decode path: {e}"))?;
            let (container, key) = find(root, path).ok_or_else(|| {
                format!("move operation does not apply: doc is missing destination path: {path}: {MISSING}")
            })?;
            container.add(&key, moved).map_err(|e| format!("error in move for path: '{path}': {e}"))
        }
        "copy" => {
            let from =
                text(operation, "from").map_err(|e| format!("copy operation failed to decode from: {e}"))?;
            let (container, key) = find(root, from).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
            })?;
            let copy = container
                .get(&key)
                .map_err(|e| format!("error in copy for from: '{from}': {e}"))?
                .cloned()
                .unwrap_or(Value::Null);
            let path = path.map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
            let (container, key) = find(root, path).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing destination path: {path}: {MISSING}")
            })?;
            *copied = copied.saturating_add(copy.to_string().len());
            if *copied > MAX_COPIED_BYTES {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, \
                     exceeding the limit {MAX_COPIED_BYTES}"
                ));
            }
            container.add(&key, copy).map_err(|e| format!("error while adding value during copy: {e}"))
        }
        "test" => {
            let path = path.map_err(|e| format!("test operation failed to decode path: {e}"))?;
            test(root, path, operation.get("value").unwrap_or(&Value::Null))
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn text<'o>(operation: &'o Map<String, Value>, name: &str) -> Result<&'o str, String> {
    match operation.get(name) {
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) if name == "from" => {
            Err(format!("operation, missing from field: {MISSING}"))
        }
        None | Some(Value::Null) => Err(format!("operation missing {name} field: {MISSING}")),
        Some(other) => Err(format!("json: cannot unmarshal {} into Go value of type string", kind(other))),
    }
}

fn replace(root: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        *root = value;
        return Ok(());
    }
    let (container, key) = find(root, path)
        .ok_or_else(|| format!("replace operation does not apply: doc is missing path: {path}: {MISSING}"))?;
    container
        .get(&key)
        .map_err(|_| format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"))?;
    container.set(&key, value).map_err(|e| format!("error in remove for path: '{path}': {e}"))
}

fn test(root: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    let failed = || format!("testing value {path} failed: test failed");
    if path.is_empty() {
        return if root == value { Ok(()) } else { Err(failed()) };
    }
    let (container, key) = find(root, path)
        .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
    let found = container.get(&key).map_err(|e| format!("error in test for path: '{path}': {e}"))?;
    if found.unwrap_or(&Value::Null) == value { Ok(()) } else { Err(failed()) }
}

/// An object or a list that a path leads into.
enum Container<'v> {
    Object(&'v mut Map<String, Value>),
    List(&'v mut Vec<Value>),
}

/// The container of the path's last key, and that key.
fn find<'v>(root: &'v mut Value, path: &str) -> Option<(Container<'v>, String)> {
    // What stands before the first slash is ignored.
    let (_, pointer) = path.split_once('/')?;
    let (parents, key) = match pointer.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, pointer),
    };
    let mut current = root;
    for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
        let part = decode(part);
        current = match current {
            Value::Object(map) => map.get_mut(&part)?,
            Value::Array(list) => {
                let at = index(&part, list.len()).ok()?;
                list.get_mut(at)?
            }
            _ => return None,
        };
    }
    let container = match current {
        Value::Object(map) => Container::Object(map),
        Value::Array(list) => Container::List(list),
        _ => return None,
    };
    Some((container, decode(key)))
}

fn decode(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    let mut rest = key;
    while let Some(at) = rest.find('~') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let (plain, used) = match escape.as_bytes().get(1) {
            Some(b'0') => ("~", 2),
            Some(b'1') => ("/", 2),
            _ => ("~", 1),
        };
        out.push_str(plain);
        rest = escape.get(used..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

fn number(key: &str) -> Result<i64, String> {
    let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
    let syntax = || format!("strconv.Atoi: parsing {key:?}: invalid syntax");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(syntax());
    }
    key.parse().map_err(|_| format!("strconv.Atoi: parsing {key:?}: value out of range"))
}

fn out_of_range(at: i64) -> String {
    format!("Unable to access invalid index: {at}: invalid index referenced")
}

/// The position that a key means in a list of this length; below zero counts from the end.
fn index(key: &str, len: usize) -> Result<usize, String> {
    position(number(key)?, len)
}

fn position(at: i64, len: usize) -> Result<usize, String> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let absolute = if at < 0 { at.saturating_add(len) } else { at };
    if absolute < 0 || absolute >= len {
        return Err(out_of_range(at));
    }
    usize::try_from(absolute).map_err(|_| out_of_range(at))
}

impl Container<'_> {
    /// `None` for a missing member of an object; an index that is not there is an error.
    fn get(&self, key: &str) -> Result<Option<&Value>, String> {
        match self {
            Container::Object(map) => Ok(map.get(key)),
            Container::List(list) => {
                let at = index(key, list.len())?;
                Ok(list.get(at))
            }
        }
    }

    fn set(self, key: &str, value: Value) -> Result<(), String> {
        match self {
            Container::Object(map) => {
                map.insert(key.to_owned(), value);
            }
            Container::List(list) => {
                let at = index(key, list.len())?;
                if let Some(slot) = list.get_mut(at) {
                    *slot = value;
                }
            }
        }
        Ok(())
    }

    fn add(self, key: &str, value: Value) -> Result<(), String> {
        match self {
            Container::Object(map) => {
                map.insert(key.to_owned(), value);
            }
            Container::List(list) if key == "-" => list.push(value),
            Container::List(list) => {
                let at =
                    number(key).map_err(|e| format!("value was not a proper array index: '{key}': {e}"))?;
                let at = position(at, list.len() + 1)?;
                list.insert(at, value);
            }
        }
        Ok(())
    }

    fn remove(self, key: &str) -> Result<Value, String> {
        match self {
            Container::Object(map) => {
                map.remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"))
            }
            Container::List(list) => {
                let at = index(key, list.len())?;
                Ok(list.remove(at))
            }
        }
    }
}
