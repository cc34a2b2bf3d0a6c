//! Typed access to the metadata of an object that is a [`serde_json::Value`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::gvk::{GroupVersion, GroupVersionKind};
use crate::time;

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The owner's `apiVersion`.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name; it lives in the same namespace or in none.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
    /// Whether the owner is the managing controller; at most one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// Metadata of a Kubernetes object. Getters answer "absent" for a field of the wrong type; setters
/// make the object and its `metadata` when they are missing.
pub trait Object {
    /// `apiVersion`, empty when absent.
    fn api_version(&self) -> &str;
    /// `kind`, empty when absent.
    fn kind(&self) -> &str;
    /// `apiVersion` and `kind` as one; `None` when either is absent or malformed.
    fn gvk(&self) -> Option<GroupVersionKind>;
    /// Sets `apiVersion` and `kind`.
    fn set_gvk(&mut self, gvk: &GroupVersionKind);
    /// `metadata` when it is a map.
    fn metadata(&self) -> Option<&Map<String, Value>>;
    /// `metadata`, made when missing; what is not a map is replaced by one.
    fn metadata_mut(&mut self) -> &mut Map<String, Value>;
    /// A string of the metadata, empty when absent.
    fn meta_str(&self, field: &str) -> &str;
    /// Sets a string of the metadata; an empty one removes the field.
    fn set_meta_str(&mut self, field: &str, value: &str);

    /// `metadata.name`, empty when absent.
    fn name(&self) -> &str {
        self.meta_str("name")
    }
    /// `metadata.generateName`, empty when absent.
    fn generate_name(&self) -> &str {
        self.meta_str("generateName")
    }
    /// `metadata.namespace`, empty when absent.
    fn namespace(&self) -> &str {
        self.meta_str("namespace")
    }
    /// `metadata.uid`, empty when absent.
    fn uid(&self) -> &str {
        self.meta_str("uid")
    }
    /// `metadata.resourceVersion`, empty when absent.
    fn resource_version(&self) -> &str {
        self.meta_str("resourceVersion")
    }
    /// `metadata.generation`, 0 when absent.
    fn generation(&self) -> i64;
    /// `metadata.creationTimestamp`.
    fn creation_timestamp(&self) -> Option<Timestamp>;
    /// `metadata.deletionTimestamp`.
    fn deletion_timestamp(&self) -> Option<Timestamp>;
    /// Whether the object is being deleted.
    fn is_deleting(&self) -> bool {
        !self.meta_str("deletionTimestamp").is_empty()
    }
    /// `metadata.deletionGracePeriodSeconds`.
    fn deletion_grace_period_seconds(&self) -> Option<i64>;
    /// `metadata.labels` in order of the keys; entries that are not strings are left out.
    fn labels(&self) -> Vec<(&str, &str)>;
    /// One label.
    fn label(&self, key: &str) -> Option<&str>;
    /// Sets or, with `None`, removes one label.
    fn set_label(&mut self, key: &str, value: Option<&str>);
    /// `metadata.annotations` in order of the keys.
    fn annotations(&self) -> Vec<(&str, &str)>;
    /// One annotation.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// Sets or, with `None`, removes one annotation.
    fn set_annotation(&mut self, key: &str, value: Option<&str>);
    /// `metadata.finalizers`.
    fn finalizers(&self) -> Vec<&str>;
    /// Sets `metadata.finalizers`; an empty list removes the field.
    fn set_finalizers(&mut self, finalizers: &[String]);
    /// Whether `finalizer` is among the finalizers.
    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().contains(&finalizer)
    }
    /// `metadata.ownerReferences`; malformed entries are left out.
    fn owner_references(&self) -> Vec<OwnerReference>;
    /// Sets `metadata.ownerReferences`; an empty list removes the field.
    fn set_owner_references(&mut self, owners: &[OwnerReference]);

    /// Sets `metadata.name`.
    fn set_name(&mut self, name: &str) {
        self.set_meta_str("name", name);
    }
    /// Sets `metadata.namespace`.
    fn set_namespace(&mut self, namespace: &str) {
        self.set_meta_str("namespace", namespace);
    }
    /// Sets `metadata.uid`.
    fn set_uid(&mut self, uid: &str) {
        self.set_meta_str("uid", uid);
    }
    /// Sets `metadata.resourceVersion`; empty removes it.
    fn set_resource_version(&mut self, version: &str) {
        self.set_meta_str("resourceVersion", version);
    }
    /// Sets `metadata.generation`; 0 removes it.
    fn set_generation(&mut self, generation: i64);
    /// Sets `metadata.creationTimestamp`, to the second.
    fn set_creation_timestamp(&mut self, at: Timestamp) {
        self.set_meta_str("creationTimestamp", &time::format(at));
    }
    /// Sets or removes `metadata.deletionTimestamp`, to the second.
    fn set_deletion_timestamp(&mut self, at: Option<Timestamp>) {
        self.set_meta_str("deletionTimestamp", &at.map(time::format).unwrap_or_default());
    }
    /// Sets or removes `metadata.deletionGracePeriodSeconds`.
    fn set_deletion_grace_period_seconds(&mut self, seconds: Option<i64>);
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

fn strings<'a>(object: &'a Value, field: &str) -> Vec<(&'a str, &'a str)> {
    let map = object.metadata().and_then(|meta| meta.get(field)).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

fn string<'a>(object: &'a Value, field: &str, key: &str) -> Option<&'a str> {
    object.metadata()?.get(field)?.get(key)?.as_str()
}

fn set_string(object: &mut Value, field: &str, key: &str, value: Option<&str>) {
    let meta = object.metadata_mut();
    match value {
        Some(value) => {
            let map = as_map(meta.entry(field).or_insert_with(|| Value::Object(Map::new())));
            map.insert(key.to_owned(), Value::from(value));
        }
        None => {
            if let Some(Value::Object(map)) = meta.get_mut(field) {
                map.remove(key);
                if map.is_empty() {
                    meta.remove(field);
                }
            }
        }
    }
}

impl Object for Value {
    fn api_version(&self) -> &str {
        self.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
    }

    fn kind(&self) -> &str {
        self.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    fn gvk(&self) -> Option<GroupVersionKind> {
        if self.kind().is_empty() || self.api_version().is_empty() {
            return None;
        }
        Some(GroupVersion::parse(self.api_version())?.with_kind(self.kind()))
    }

    fn set_gvk(&mut self, gvk: &GroupVersionKind) {
        let map = as_map(self);
        map.insert("apiVersion".to_owned(), Value::from(gvk.api_version()));
        map.insert("kind".to_owned(), Value::from(gvk.kind.as_str()));
    }

    fn metadata(&self) -> Option<&Map<String, Value>> {
        self.get("metadata")?.as_object()
    }

    fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        as_map(as_map(self).entry("metadata").or_insert_with(|| Value::Object(Map::new())))
    }

    fn meta_str(&self, field: &str) -> &str {
        self.metadata().and_then(|meta| meta.get(field)).and_then(Value::as_str).unwrap_or_default()
    }

    fn set_meta_str(&mut self, field: &str, value: &str) {
        let meta = self.metadata_mut();
        if value.is_empty() {
            meta.remove(field);
        } else {
            meta.insert(field.to_owned(), Value::from(value));
        }
    }

    fn generation(&self) -> i64 {
        self.metadata().and_then(|meta| meta.get("generation")).and_then(Value::as_i64).unwrap_or_default()
    }

    fn creation_timestamp(&self) -> Option<Timestamp> {
        time::parse(self.meta_str("creationTimestamp")).ok()
    }

    fn deletion_timestamp(&self) -> Option<Timestamp> {
        time::parse(self.meta_str("deletionTimestamp")).ok()
    }

    fn deletion_grace_period_seconds(&self) -> Option<i64> {
        self.metadata()?.get("deletionGracePeriodSeconds")?.as_i64()
    }

    fn labels(&self) -> Vec<(&str, &str)> {
        strings(self, "labels")
    }

    fn label(&self, key: &str) -> Option<&str> {
        string(self, "labels", key)
    }

    fn set_label(&mut self, key: &str, value: Option<&str>) {
        set_string(self, "labels", key, value);
    }

    fn annotations(&self) -> Vec<(&str, &str)> {
        strings(self, "annotations")
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        string(self, "annotations", key)
    }

    fn set_annotation(&mut self, key: &str, value: Option<&str>) {
        set_string(self, "annotations", key, value);
    }

    fn finalizers(&self) -> Vec<&str> {
        let list = self.metadata().and_then(|meta| meta.get("finalizers")).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn set_finalizers(&mut self, finalizers: &[String]) {
        let meta = self.metadata_mut();
        if finalizers.is_empty() {
            meta.remove("finalizers");
        } else {
            meta.insert("finalizers".to_owned(), Value::from(finalizers.to_vec()));
        }
    }

    fn owner_references(&self) -> Vec<OwnerReference> {
        let list = self.metadata().and_then(|meta| meta.get("ownerReferences")).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|entry| OwnerReference::deserialize(entry).ok()).collect()
    }

    fn set_owner_references(&mut self, owners: &[OwnerReference]) {
        let entries: Vec<Value> =
            owners.iter().filter_map(|owner| serde_json::to_value(owner).ok()).collect();
        let meta = self.metadata_mut();
        if entries.is_empty() {
            meta.remove("ownerReferences");
        } else {
            meta.insert("ownerReferences".to_owned(), Value::Array(entries));
        }
    }

    fn set_generation(&mut self, generation: i64) {
        let meta = self.metadata_mut();
        if generation == 0 {
            meta.remove("generation");
        } else {
            meta.insert("generation".to_owned(), Value::from(generation));
        }
    }

    fn set_deletion_grace_period_seconds(&mut self, seconds: Option<i64>) {
        let meta = self.metadata_mut();
        match seconds {
            Some(seconds) => meta.insert("deletionGracePeriodSeconds".to_owned(), Value::from(seconds)),
            None => meta.remove("deletionGracePeriodSeconds"),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn setters_make_what_is_missing_and_remove_what_becomes_empty() {
        let mut object = json!(null);
        object.set_name("a");
        object.set_label("k", Some("v"));
        object.set_annotation("x", Some("y"));
        object.set_finalizers(&["f".to_owned()]);
        object.set_generation(2);
        assert_eq!(object.name(), "a");
        assert_eq!(object.label("k"), Some("v"));
        assert!(object.has_finalizer("f"));
        object.set_label("k", None);
        object.set_annotation("x", None);
        object.set_finalizers(&[]);
        object.set_generation(0);
        assert_eq!(object, json!({"metadata": {"name": "a"}}));
    }

    #[test]
    fn fields_of_the_wrong_type_read_as_absent() {
        let object =
            json!({"apiVersion": 1, "kind": [], "metadata": {"name": 7, "labels": [1], "finalizers": "x"}});
        assert_eq!((object.api_version(), object.kind(), object.name()), ("", "", ""));
        assert!(object.labels().is_empty() && object.finalizers().is_empty() && object.gvk().is_none());
        assert!(json!("text").metadata().is_none());
    }

    #[test]
    fn owner_references_survive_a_round_trip() {
        let mut object = json!({});
        let owner = OwnerReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: "a".into(),
            uid: "u".into(),
            controller: Some(true),
            block_owner_deletion: None,
        };
        object.set_owner_references(std::slice::from_ref(&owner));
        assert_eq!(object.owner_references(), [owner]);
    }
}
