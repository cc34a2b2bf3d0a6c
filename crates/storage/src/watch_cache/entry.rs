//! One object of the cache, serialised once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use convoy_meta::Object;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What the cache has to know of a resource to read its objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryFormat {
    /// Prefix of the resource's keys, with a slash at the end.
    pub prefix: String,
    /// Whether keys are `<namespace>/<name>` after the prefix, or `<name>`.
    pub namespaced: bool,
    /// `apiVersion` that readers get, whatever version the object was stored in.
    pub api_version: String,
    /// The kind, for bookmarks.
    pub kind: String,
    /// Dotted paths of fields, other than `metadata.name` and `metadata.namespace`, that field selectors
    /// can name.
    pub fields: Vec<String>,
}

/// An object as JSON with its resourceVersion in place, and what selectors look at.
///
/// An object whose stored bytes are not an object of JSON is kept with [`Entry::fault`]: lists and
/// watches go on as if it were not there, and only a request for it by name meets the fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    key: Arc<str>,
    revision: u64,
    json: Bytes,
    /// Where the namespace is in the key; empty for cluster-scoped objects.
    namespace: Range<usize>,
    /// Where `metadata` is in the JSON, and the digits of `metadata.resourceVersion`.
    metadata: Range<usize>,
    version: Range<usize>,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Box<[(Box<str>, Box<str>)]>,
    uid: Box<str>,
    fault: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "apiVersion", default)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(borrow, default, rename = "resourceVersion")]
    resource_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uid: Option<&'a RawValue>,
}

const UID_KEY: &str = "\"uid\":";
const VERSION_KEY: &str = "\"resourceVersion\":\"";

impl Entry {
    /// Reads stored bytes, which have no resourceVersion yet; revision 0 leaves it out. Never fails: see
    /// [`Entry::fault`].
    pub fn read(format: &EntryFormat, key: &Arc<str>, revision: u64, stored: &Bytes) -> Self {
        let namespace = if format.namespaced {
            let start = format.prefix.len().min(key.len());
            let rest = key.get(start..).unwrap_or_default();
            start..start + rest.find('/').unwrap_or(0)
        } else {
            0..0
        };
        let broken = |fault: String| Self {
            key: Arc::clone(key),
            revision,
            json: Bytes::new(),
            namespace: namespace.clone(),
            metadata: 0..0,
            version: 0..0,
            labels: Box::default(),
            fields: Box::default(),
            uid: Box::default(),
            fault: Some(fault.into()),
        };
        match Self::parse(format, key, revision, stored, &namespace) {
            Ok(entry) => entry,
            Err(fault) => broken(fault),
        }
    }

    fn parse(
        format: &EntryFormat,
        key: &Arc<str>,
        revision: u64,
        stored: &Bytes,
        namespace: &Range<usize>,
    ) -> Result<Self, String> {
        let text = std::str::from_utf8(stored).map_err(|error| error.to_string())?;
        let head: Head<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let metadata: Metadata<'_> =
            serde_json::from_str(head.metadata.get()).map_err(|error| format!("metadata: {error}"))?;
        if metadata.resource_version.is_some() || head.api_version != format.api_version {
            // Written by another program or in another version: as rare as it is slow.
            let mut object: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            object.set_resource_version("");
            if let Value::Object(map) = &mut object {
                map.insert("apiVersion".to_owned(), Value::from(format.api_version.as_str()));
            }
            let stored = serde_json::to_vec(&object).map_err(|error| error.to_string())?;
            return Self::parse(format, key, revision, &stored.into(), namespace);
        }
        let fields = if format.fields.is_empty() {
            Box::default()
        } else {
            let object: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let text = |path: &String| convoy_meta::fields::field_text(&object, path).into_boxed_str();
            format.fields.iter().map(|path| (path.as_str().into(), text(path))).collect()
        };
        let start = offset(text, head.metadata.get());
        let length = head.metadata.get().len();
        let uid =
            metadata.uid.map_or(String::new(), |uid| serde_json::from_str(uid.get()).unwrap_or_default());
        let labels = metadata.labels.unwrap_or_default();
        let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        if revision == 0 {
            return Ok(Self {
                key: Arc::clone(key),
                revision,
                metadata: start..start + length,
                version: 0..0,
                json: stored.clone(),
                namespace: namespace.clone(),
                labels,
                fields,
                uid: uid.into(),
                fault: None,
            });
        }
        let digits = revision.to_string();
        // In the order of keys, resourceVersion comes before uid; without a uid it comes first.
        let before_uid = metadata
            .uid
            .map(|uid| offset(text, uid.get()))
            .and_then(|at| at.checked_sub(UID_KEY.len()))
            .filter(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(UID_KEY)));
        let empty = head.metadata.get().trim_start_matches('{').trim_start().starts_with('}');
        let at = before_uid.unwrap_or(start + 1);
        let (before, after) = text.split_at_checked(at).ok_or("metadata is not an object")?;
        let mut json = String::with_capacity(text.len() + VERSION_KEY.len() + digits.len() + 2);
        json.push_str(before);
        json.push_str(VERSION_KEY);
        let version = json.len()..json.len() + digits.len();
        json.push_str(&digits);
        json.push_str(if empty { "\"" } else { "\"," });
        json.push_str(after);
        Ok(Self {
            key: Arc::clone(key),
            revision,
            metadata: start..start + length + (json.len() - text.len()),
            version,
            json: json.into(),
            namespace: namespace.clone(),
            labels,
            fields,
            uid: uid.into(),
            fault: None,
        })
    }

    /// The same object at another revision: what a deletion shows.
    #[must_use]
    pub fn at(&self, revision: u64) -> Self {
        if self.fault.is_some() || self.version.is_empty() {
            return Self { revision, ..self.clone() };
        }
        let digits = revision.to_string();
        let before = self.json.slice(..self.version.start);
        let after = self.json.slice(self.version.end..);
        let mut json = Vec::with_capacity(before.len() + digits.len() + after.len());
        json.extend_from_slice(&before);
        json.extend_from_slice(digits.as_bytes());
        json.extend_from_slice(&after);
        let end = self.metadata.end + digits.len() - self.version.len();
        Self {
            revision,
            json: json.into(),
            metadata: self.metadata.start..end,
            version: self.version.start..self.version.start + digits.len(),
            ..self.clone()
        }
    }

    /// The key in the storage.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The object's resourceVersion.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The whole object as JSON; empty if the entry has a fault.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// `metadata` as JSON: all that a metadata-only answer needs.
    pub fn metadata_json(&self) -> Bytes {
        self.json.slice(self.metadata.clone())
    }

    /// The object, decoded; null if the entry has a fault.
    pub fn to_value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The object's name, from its key.
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }

    /// The object's namespace, from its key; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.key.get(self.namespace.clone()).unwrap_or_default()
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(label, _)| (**label).cmp(key)).ok()?;
        self.labels.get(at).map(|(_, value)| &**value)
    }

    /// The value of a field as field selectors see it; `None` for a field they cannot name.
    pub fn field(&self, path: &str) -> Option<&str> {
        match path {
            "metadata.name" => Some(self.name()),
            "metadata.namespace" => Some(self.namespace()),
            _ => self.fields.iter().find(|(field, _)| **field == *path).map(|(_, value)| &**value),
        }
    }

    /// Why the stored bytes are no object, if they are none.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}

/// Where `part`, a slice of `whole`, starts in it.
fn offset(whole: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn format() -> EntryFormat {
        EntryFormat {
            prefix: "/registry/example.io/things/".into(),
            namespaced: true,
            api_version: "example.io/v1".into(),
            kind: "Thing".into(),
            fields: vec!["spec.color".into()],
        }
    }

    fn read(stored: &Value) -> Entry {
        let stored = Bytes::from(serde_json::to_vec(stored).unwrap());
        Entry::read(&format(), &"/registry/example.io/things/default/a".into(), 42, &stored)
    }

    #[test]
    fn the_resource_version_is_put_in_its_place_among_sorted_keys() {
        let metadata =
            json!({"name": "a", "namespace": "default", "uid": "u-1", "labels": {"x": "y", "a": "b"}});
        let stored = json!({"apiVersion": "example.io/v1", "kind": "Thing", "metadata": metadata, "spec": {"color": "red"}});
        let entry = read(&stored);
        let mut expected = stored;
        expected["metadata"]["resourceVersion"] = json!("42");
        // serde_json sorts keys, so equal bytes mean the right place.
        assert_eq!(entry.json().to_vec(), serde_json::to_vec(&expected).unwrap());
        assert_eq!(entry.metadata_json().to_vec(), serde_json::to_vec(&expected["metadata"]).unwrap());
        assert_eq!((entry.name(), entry.namespace(), entry.uid()), ("a", "default", "u-1"));
        assert_eq!((entry.label("x"), entry.label("z")), (Some("y"), None));
        assert_eq!(entry.field("spec.color"), Some("red"));
        assert_eq!(entry.field("spec.size"), None);
        assert_eq!(entry.fault(), None);
    }

    #[test]
    fn an_entry_at_another_revision_differs_in_nothing_else() {
        let stored = json!({"apiVersion": "example.io/v1", "metadata": {"name": "a", "uid": "u"}, "z": 1});
        let entry = read(&stored);
        let later = entry.at(1_000_000);
        assert_eq!(later.revision(), 1_000_000);
        assert_eq!(later.to_value()["metadata"]["resourceVersion"], "1000000");
        assert_eq!(
            later.metadata_json().to_vec(),
            serde_json::to_vec(&later.to_value()["metadata"]).unwrap()
        );
        assert_eq!(later.at(42), entry);
    }

    #[test]
    fn metadata_without_uid_or_without_anything_still_gets_a_version() {
        for metadata in [json!({}), json!({"name": "a"}), json!({"labels": {"uid": "x"}})] {
            let stored = json!({"apiVersion": "example.io/v1", "metadata": metadata});
            let value = read(&stored).to_value();
            assert_eq!(value["metadata"]["resourceVersion"], "42", "{stored}");
        }
    }

    #[test]
    fn an_object_stored_in_another_version_or_with_a_resource_version_is_rewritten() {
        let stored = json!({"apiVersion": "example.io/v1beta1", "metadata": {"name": "a", "resourceVersion": "7", "uid": "u"}});
        let value = read(&stored).to_value();
        assert_eq!(value["apiVersion"], "example.io/v1");
        assert_eq!(value["metadata"]["resourceVersion"], "42");
    }

    #[test]
    fn bytes_that_are_no_object_are_a_fault_of_this_entry_only() {
        for stored in [
            "",
            "{",
            "[]",
            "null",
            "{\"metadata\":7}",
            "{\"metadata\":null}",
            "\u{0}\u{1}",
            "{\"metadata\":{\"labels\":3}}",
        ] {
            let stored = Bytes::copy_from_slice(stored.as_bytes());
            let entry = Entry::read(&format(), &"/registry/example.io/things/default/a".into(), 1, &stored);
            assert!(entry.fault().is_some(), "{stored:?}");
            assert_eq!((entry.name(), entry.namespace()), ("a", "default"));
            assert_eq!(entry.at(2).revision(), 2);
        }
    }
}
