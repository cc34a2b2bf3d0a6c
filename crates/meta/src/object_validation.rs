//! The checks that every object's metadata passes on create and update.

use serde_json::Value;

use crate::field_error::{FieldError, go_quote};
use crate::object::Object;
use crate::validation;

/// The finalizer that orphans dependents.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The finalizer that waits for dependents.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

/// How the names of a kind are judged: a check of [`crate::validation`].
pub type NameCheck = fn(&str) -> Vec<String>;

/// Judges `metadata` of an object about to be created, or as it would be after an update.
pub fn validate_object_meta(object: &Value, namespaced: bool, name_check: NameCheck) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate_name = object.generate_name();
    if !generate_name.is_empty() {
        // A generated suffix follows, so a dash at the end is fine.
        let stem =
            generate_name.strip_suffix('-').map_or(generate_name.to_owned(), |stem| format!("{stem}a"));
        let faults = name_check(&stem).into_iter();
        errors.extend(faults.map(|fault| FieldError::invalid("metadata.generateName", generate_name, fault)));
    }
    if object.name().is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let faults = name_check(object.name()).into_iter();
        errors.extend(faults.map(|fault| FieldError::invalid("metadata.name", object.name(), fault)));
    }
    if namespaced {
        if object.namespace().is_empty() {
            errors.push(FieldError::required("metadata.namespace", ""));
        } else {
            let faults = validation::dns1123_label(object.namespace()).into_iter();
            errors.extend(
                faults.map(|fault| FieldError::invalid("metadata.namespace", object.namespace(), fault)),
            );
        }
    } else if !object.namespace().is_empty() {
        errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
    }
    if object.generation() < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", object.generation(), detail));
    }
    if let Some(labels) = object.pointer("/metadata/labels") {
        errors.extend(validation::labels(labels, "metadata.labels"));
    }
    if let Some(annotations) = object.pointer("/metadata/annotations") {
        errors.extend(validation::annotations(annotations, "metadata.annotations"));
    }
    errors.extend(owner_reference_errors(object));
    errors.extend(finalizer_errors(object));
    errors
}

fn owner_reference_errors(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in object.owner_references() {
        let path = "metadata.ownerReferences";
        let version = owner.api_version.rsplit('/').next().unwrap_or_default();
        if version.is_empty() {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(
                format!("{path}.apiVersion"),
                owner.api_version.as_str(),
                detail,
            ));
        }
        for (field, value) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
            if value.is_empty() {
                let detail = format!("{field} must not be empty");
                errors.push(FieldError::invalid(format!("{path}.{field}"), value.as_str(), detail));
            }
        }
        if owner.controller == Some(true) {
            let this = format!("{}/{}/{}", owner.api_version, owner.kind, owner.name);
            if let Some(first) = &controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                let value = object.pointer("/metadata/ownerReferences").cloned().unwrap_or_default();
                errors.push(FieldError::invalid(path, value, detail));
            } else {
                controller = Some(this);
            }
        }
    }
    errors
}

fn finalizer_errors(object: &Value) -> Vec<FieldError> {
    let path = "metadata.finalizers";
    let finalizers = object.finalizers();
    let mut errors = Vec::new();
    for finalizer in &finalizers {
        let faults = validation::qualified_name(finalizer).into_iter();
        errors.extend(faults.map(|fault| FieldError::invalid(path, *finalizer, fault)));
        let standard = [FINALIZER_ORPHAN, FINALIZER_FOREGROUND, "kubernetes"].contains(finalizer);
        if !finalizer.contains('/') && !standard {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(path, *finalizer, detail));
        }
    }
    if finalizers.contains(&FINALIZER_ORPHAN) && finalizers.contains(&FINALIZER_FOREGROUND) {
        let detail = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(path, Value::from(finalizers), detail));
    }
    errors
}

/// Judges what an update changes in `metadata`. The server has already copied what it owns alone
/// (uid, creationTimestamp, deletionTimestamp) from `old` where the new object left it out.
pub fn validate_object_meta_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.is_deleting() {
        let before = old.finalizers();
        let mut added: Vec<&str> = new.finalizers().into_iter().filter(|f| !before.contains(f)).collect();
        added.sort_unstable();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|f| go_quote(f)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    if new.resource_version().is_empty() {
        errors.push(FieldError::invalid("metadata.resourceVersion", "", "must be specified for an update"));
    }
    if new.generation() < old.generation() {
        let detail = "must not be decremented";
        errors.push(FieldError::invalid("metadata.generation", new.generation(), detail));
    }
    let fields =
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for field in fields {
        let pick =
            |object: &Value| object.metadata().and_then(|meta| meta.get(field)).cloned().unwrap_or_default();
        let (new, old) = (pick(new), pick(old));
        if new != old {
            let path = format!("metadata.{field}");
            errors.push(FieldError::invalid(path, new, "field is immutable"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_object_needs_a_name_and_its_scope() {
        let check = validation::dns1123_subdomain;
        assert_eq!(
            texts(&validate_object_meta(&json!({}), true, check)),
            [
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Required value"
            ]
        );
        let object = json!({"metadata": {"name": "a", "namespace": "b"}});
        assert_eq!(
            texts(&validate_object_meta(&object, false, check)),
            ["metadata.namespace: Forbidden: not allowed on this type"]
        );
        assert!(validate_object_meta(&object, true, check).is_empty());
    }

    #[test]
    fn only_one_owner_may_be_the_controller() {
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "u", "controller": true});
        let object = json!({"metadata": {"name": "a", "ownerReferences": [owner("x"), owner("y")]}});
        let errors = validate_object_meta(&object, false, validation::dns1123_subdomain);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].detail.ends_with("for v1/ConfigMap/x and v1/ConfigMap/y"), "{}", errors[0].detail);
    }

    #[test]
    fn a_deleting_object_takes_no_new_finalizers_and_identity_never_changes() {
        let old = json!({"metadata": {"name": "a", "uid": "1", "resourceVersion": "5", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/a"]}});
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["x.io/a", "x.io/b"]);
        new["metadata"]["uid"] = json!("2");
        let errors = texts(&validate_object_meta_update(&new, &old));
        assert!(errors[0].ends_with("found new finalizers []string{\"x.io/b\"}"), "{}", errors[0]);
        assert_eq!(errors[1], "metadata.uid: Invalid value: \"2\": field is immutable");
        assert!(validate_object_meta_update(&old, &old).is_empty());
    }
}
