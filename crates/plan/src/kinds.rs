//! What is known of the kinds that a target serves.

use std::collections::BTreeMap;

use serde_json::Value;

/// Scope and path name of one kind in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindFact {
    /// Resource name in the path, such as `deployments`.
    pub plural: String,
    /// Whether objects of it live in namespaces.
    pub namespaced: bool,
    /// Whether only a CustomResourceDefinition of the bundle says so: the target does not serve it yet.
    pub from_bundle: bool,
}

/// Kinds by group, kind and version: a target's discovery, widened by the
/// CustomResourceDefinitions of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    facts: BTreeMap<(String, String), BTreeMap<String, KindFact>>,
}

impl Kinds {
    /// Adds a kind that the target serves.
    pub fn insert(&mut self, group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) {
        let fact = KindFact { plural: plural.to_owned(), namespaced, from_bundle: false };
        self.entry(group, kind).insert(version.to_owned(), fact);
    }

    /// The kind in exactly this version.
    pub fn get(&self, group: &str, version: &str, kind: &str) -> Option<&KindFact> {
        self.facts.get(&(group.to_owned(), kind.to_owned()))?.get(version)
    }

    /// The kind in any version, with that version: `preferred` when it is served, else the last by name.
    pub fn any_version(&self, group: &str, kind: &str, preferred: &str) -> Option<(&str, &KindFact)> {
        let versions = self.facts.get(&(group.to_owned(), kind.to_owned()))?;
        let (version, fact) = versions.get_key_value(preferred).or_else(|| versions.last_key_value())?;
        Some((version, fact))
    }

    /// The versions in which a kind is known, sorted by name.
    pub fn versions(&self, group: &str, kind: &str) -> Vec<&str> {
        let versions = self.facts.get(&(group.to_owned(), kind.to_owned()));
        versions.map(|v| v.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// All kinds as (group, version, kind, fact).
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &str, &KindFact)> {
        self.facts.iter().flat_map(|((group, kind), versions)| {
            versions
                .iter()
                .map(move |(version, fact)| (group.as_str(), version.as_str(), kind.as_str(), fact))
        })
    }

    /// Learns the kinds that a CustomResourceDefinition will bring. What the target serves already
    /// stays as it is. A definition without the fields that name it is left to the server to refuse.
    pub fn learn_from_crd(&mut self, crd: &Value) {
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str);
        let (Some(group), Some(kind), Some(plural)) =
            (text("/spec/group"), text("/spec/names/kind"), text("/spec/names/plural"))
        else {
            return;
        };
        let namespaced = text("/spec/scope") == Some("Namespaced");
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for version in versions {
            let served = version.get("served").and_then(Value::as_bool) == Some(true);
            if let Some(name) = version.get("name").and_then(Value::as_str).filter(|_| served) {
                self.entry(group, kind).entry(name.to_owned()).or_insert_with(|| KindFact {
                    plural: plural.to_owned(),
                    namespaced,
                    from_bundle: true,
                });
            }
        }
    }

    fn entry(&mut self, group: &str, kind: &str) -> &mut BTreeMap<String, KindFact> {
        self.facts.entry((group.to_owned(), kind.to_owned())).or_default()
    }
}
