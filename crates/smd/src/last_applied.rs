//! What `kubectl apply` without `--server-side` left on objects, for the field manager `kubectl`.

use serde_json::{Map, Value};

use crate::Schema;
use crate::set::Set;
use crate::typed;
use crate::value;

/// The manager that follows the annotation. Others opt out by their name.
pub(crate) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Bytes that an object's annotations may have.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Annotations count only when all of them are text, for which null stands too.
fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    let annotations = object.get("metadata")?.get("annotations")?.as_object()?;
    annotations.values().all(|text| text.is_string() || text.is_null()).then_some(annotations)
}

fn annotation(object: &Value) -> Option<&str> {
    let text = annotations(object)?.get(ANNOTATION)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// The fields that the annotation shows to be set by `kubectl apply` and unchanged since: conflicts
/// over them are none.
pub(crate) fn allowed(schema: &Schema, api_version: &str, live: &Value) -> Option<Set<'static>> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    typed::validate(schema, live, false).ok()?;
    typed::validate(schema, &last, false).ok()?;
    let mut allowed = typed::field_set(schema, &last);
    let changed = typed::compare(schema, &last, live).ok()?;
    for set in [&changed.modified, &changed.added, &changed.removed] {
        allowed.subtract(set);
    }
    Some(allowed.into_owned())
}

/// Brings an annotation that is there up to date with what was applied.
pub(crate) fn refresh(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut last = applied.clone();
    let textual = annotations(&last).is_some();
    if let Some(metadata) = last.get_mut("metadata").and_then(Value::as_object_mut) {
        match metadata.get_mut("annotations").and_then(Value::as_object_mut).filter(|_| textual) {
            Some(annotations) => {
                annotations.remove(ANNOTATION);
                nulls_to_text(annotations);
            }
            None => {
                metadata.remove("annotations");
            }
        }
    }
    let mut text = String::new();
    value::write_json(&mut text, &last);
    text.push('\n');
    let Some(annotations) =
        object.get_mut("metadata").and_then(|m| m.get_mut("annotations")).and_then(Value::as_object_mut)
    else {
        return;
    };
    nulls_to_text(annotations);
    annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    if size(annotations) > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn nulls_to_text(annotations: &mut Map<String, Value>) {
    for text in annotations.values_mut().filter(|text| text.is_null()) {
        *text = Value::String(String::new());
    }
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}
