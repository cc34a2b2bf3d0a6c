//! What every write has in common.

use std::sync::Arc;

use bytes::Bytes;
use convoy_meta::object_validation::{validate_object_meta, validate_object_meta_update};
use convoy_meta::{FieldError, FieldValidation, Object, Status};
use convoy_smd::FieldManager;
use convoy_storage::watch_cache::Entry;
use serde_json::Value;

use crate::failure::invalid;
use crate::{Body, RequestContext, Resource, metadata};

/// One write of one object.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) context: &'a RequestContext,
    pub(crate) resource: &'a Resource,
    /// Empty for cluster-scoped resources.
    pub(crate) namespace: &'a str,
    /// As the URL has it; empty for a creation.
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
}

/// How a strict field validation refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The body itself: 400.
    Body,
    /// What a patch made: 422.
    Patched,
}

impl Target<'_> {
    /// Checks kind, version, metadata and unknown fields of an object as it came, and sets defaults.
    pub(crate) fn decode(
        &self,
        body: Body,
        refusal: Refusal,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Status> {
        let Body { mut object, duplicates } = body;
        let def = self.resource.def();
        let (kind, version) = (def.kind.as_str(), def.version.as_str());
        let undecodable = |why: &str| {
            Status::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
            ))
        };
        let mut unknown = metadata::clean(&mut object).map_err(|why| undecodable(&why))?;
        // An empty list resets the managedFields of built-in kinds. Custom resources need one empty entry.
        if !def.strategic_patch
            && object.pointer("/metadata/managedFields") == Some(&Value::Array(Vec::new()))
        {
            object.metadata_mut().remove("managedFields");
        }
        let expected = def.api_version();
        match object.api_version() {
            "" => {}
            found if found != expected => {
                return Err(Status::bad_request(format!(
                    "the API version in the data ({found}) does not match the expected API version ({expected})"
                )));
            }
            _ => {}
        }
        if !object.kind().is_empty() && object.kind() != kind {
            let found = object.kind().to_owned();
            let error = FieldError::invalid("kind", found.as_str(), format!("must be {kind}"));
            let group_kind = convoy_meta::GroupKind::new(def.group.as_str(), found.as_str());
            return Err(Status::invalid(&group_kind, object.name(), &[error]));
        }
        object.set_gvk(&def.gvk());
        if def.strategic_patch {
            drop_nulls(&mut object, 0);
        }
        let unserved = def.strategy.unserved(&object);
        if !unserved.is_empty() {
            let group_kind = convoy_meta::GroupKind::new(def.group.as_str(), kind);
            return Err(Status::invalid(&group_kind, object.name(), &unserved));
        }
        if let Some(schema) = &def.schema {
            unknown.extend(schema.prune(&mut object));
        }
        let faults: Vec<String> = duplicates
            .iter()
            .map(|path| format!("duplicate field \"{path}\""))
            .chain(unknown.iter().map(|path| format!("unknown field \"{path}\"")))
            .collect();
        match self.context.field_validation {
            _ if faults.is_empty() => {}
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.extend(faults),
            FieldValidation::Strict => {
                let text = format!("strict decoding error: {}", faults.join(", "));
                return Err(match refusal {
                    Refusal::Body => undecodable(&text),
                    // Without the object, which Kubernetes repeats here: it may be a Secret.
                    Refusal::Patched => {
                        let error = FieldError::invalid("patch", "the patched object", text);
                        Status::invalid(&convoy_meta::GroupKind::default(), "", &[error])
                    }
                });
            }
        }
        if let Some(schema) = &def.schema {
            schema.default(&mut object);
        }
        def.strategy.default_object(&mut object);
        Ok(object)
    }

    /// Puts the object where the URL says, or says how it disagrees.
    pub(crate) fn place(&self, object: &mut Value) -> Result<(), Status> {
        if self.resource.namespaced() {
            if object.namespace().is_empty() {
                object.set_namespace(self.namespace);
            } else if object.namespace() != self.namespace {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
        }
        if self.name.is_empty() || object.name() == self.name {
            return Ok(());
        }
        Err(Status::bad_request(if object.name().is_empty() {
            format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.name
            )
        } else {
            format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                object.name(),
                self.name
            )
        }))
    }

    pub(crate) fn field_manager(&self) -> FieldManager {
        let def = self.resource.def();
        let path = |name: &str| vec![name.to_owned()];
        let mut reset_fields = match self.subresource {
            "status" => vec![path("spec"), path("metadata")],
            "" if def.has_status() => vec![path("status")],
            _ => Vec::new(),
        };
        reset_fields.extend(def.server_fields.iter().cloned());
        FieldManager {
            schema: def.merge_schema.clone(),
            api_version: def.api_version(),
            kind: def.kind.clone(),
            subresource: self.subresource.to_owned(),
            reset_fields,
        }
    }

    /// All checks of an object as it is about to be stored.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        let def = self.resource.def();
        let mut errors = validate_object_meta(object, def.namespaced(), def.name_check);
        if let Some(old) = old {
            errors.extend(validate_object_meta_update(object, old));
        }
        if let Some(schema) = &def.schema {
            errors.extend(schema.validate(object));
        }
        errors.extend(def.strategy.validate(self.context, object));
        if let Some(old) = old {
            errors.extend(def.strategy.validate_update(self.context, self.subresource, object, old));
        }
        if errors.is_empty() { Ok(()) } else { Err(invalid(def, object.name(), &errors)) }
    }

    pub(crate) fn key(&self, name: &str) -> String {
        self.resource.key(self.namespace, name)
    }

    /// The answer's object from what is stored.
    pub(crate) fn entry(&self, key: &str, revision: u64, stored: &Bytes) -> Arc<Entry> {
        Arc::new(Entry::read(self.resource.format(), &key.into(), revision, stored))
    }
}

/// The bytes to store: without resourceVersion, which the store counts.
pub(crate) fn encode(object: &Value) -> Result<Bytes, Status> {
    let mut stored = object.clone();
    stored.set_resource_version("");
    serde_json::to_vec(&stored).map(Bytes::from).map_err(Status::internal)
}

/// Levels below which nulls stay: no built-in kind is nested so deep.
const NULL_DEPTH: usize = 64;

/// Removes members that are null.
fn drop_nulls(value: &mut Value, depth: usize) {
    match value {
        Value::Object(map) if depth < NULL_DEPTH => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(|value| drop_nulls(value, depth + 1));
        }
        Value::Array(items) if depth < NULL_DEPTH => {
            items.iter_mut().for_each(|value| drop_nulls(value, depth + 1));
        }
        _ => {}
    }
}

/// Undoes changes of times in the managedFields of `new` when they are all that distinguishes it from
/// `old`, so that a write that changes nothing gets no new resourceVersion.
pub(crate) fn keep_times_of_no_op(new: &mut Value, old: &Value) {
    let entries = |object: &Value| object.pointer("/metadata/managedFields").cloned();
    let (Some(Value::Array(after)), Some(Value::Array(before))) = (entries(new), entries(old)) else {
        return;
    };
    let same = |(after, before): (&Value, &Value)| same_but(after, before, "time");
    let only_times = after.len() == before.len() && after.iter().zip(&before).all(same);
    let same_object = || {
        let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return false };
        let same = |((key, new), (old_key, old)): ((&String, &Value), (&String, &Value))| {
            let equal = || if key == "metadata" { same_but(new, old, "managedFields") } else { new == old };
            key == old_key && equal()
        };
        new.len() == old.len() && new.iter().zip(old).all(same)
    };
    if only_times && same_object() {
        new.metadata_mut().insert("managedFields".to_owned(), Value::Array(before));
    }
}

fn same_but(a: &Value, b: &Value, but: &str) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let a = a.iter().filter(|(key, _)| *key != but);
            a.eq(b.iter().filter(|(key, _)| *key != but))
        }
        (a, b) => a == b,
    }
}
