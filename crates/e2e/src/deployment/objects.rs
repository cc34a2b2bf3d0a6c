//! Objects of a manifest.

use std::collections::BTreeMap;

use serde_json::Value;

/// Objects by kind, namespace and name.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects(BTreeMap<(String, String, String), Value>);

/// The documents of a YAML stream that are objects.
///
/// # Panics
/// When it is no YAML.
pub fn documents(yaml: &[u8]) -> Vec<Value> {
    convoy_yaml::documents(yaml)
        .map(|document| convoy_yaml::to_json(&document.unwrap()).unwrap())
        .filter(|object| !object.is_null())
        .collect()
}

impl Objects {
    /// These objects.
    ///
    /// # Panics
    /// When there are two of one name.
    pub fn new(objects: Vec<Value>) -> Self {
        let mut by_name = BTreeMap::new();
        for object in objects {
            let text =
                |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let key = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
            let twin = by_name.insert(key.clone(), object);
            assert!(twin.is_none(), "there are two of {key:?}");
        }
        Self(by_name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.0.values()
    }

    /// Those of a kind.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.iter().filter(move |object| object["kind"] == kind)
    }

    /// The one of a kind and name, in whatever namespace.
    pub fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    /// The same, of one that has to be there.
    ///
    /// # Panics
    /// When it is not.
    pub fn get(&self, kind: &str, name: &str) -> &Value {
        self.find(kind, name).unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// Kinds, namespaces and names.
    pub fn names(&self) -> Vec<String> {
        self.0.keys().map(|(kind, namespace, name)| format!("{kind} {namespace}/{name}")).collect()
    }

    /// As one List, for kubectl: namespaces first.
    pub fn list(&self) -> String {
        let mut items: Vec<&Value> = self.iter().collect();
        items.sort_by_key(|object| object["kind"] != "Namespace");
        serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }
}
