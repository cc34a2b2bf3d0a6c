//! The built-in kinds of Kubernetes.
//!
//! `data/kubernetes.json` is made by `cargo xtask schemas` from what a running kube-apiserver says in
//! discovery and in `/openapi/v3`, without descriptions.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::structural::{Definitions, Structural};

const DATA: &str = include_str!("../data/kubernetes.json");

/// A subresource of a built-in kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltInSubresource {
    /// The last part of its path, such as `status`, `scale` or `eviction`.
    pub name: String,
    /// The group of the kind that it answers with.
    pub group: String,
    /// The version of that kind.
    pub version: String,
    /// That kind; the resource's own for `status`.
    pub kind: String,
    /// What can be done with it, sorted.
    pub verbs: Vec<String>,
}

/// A column of `kubectl get`. How its cells are made is kube-apiserver's code, not data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltInColumn {
    /// Such as `Up-to-date`.
    pub name: String,
    /// `string`, `integer`, …
    pub type_: String,
    /// `name` for the name, otherwise mostly empty.
    pub format: String,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i32,
}

/// A built-in kind in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// Such as `Deployment`.
    pub kind: String,
    /// The name in paths, such as `deployments`.
    pub plural: String,
    /// Such as `deployment`.
    pub singular: String,
    /// Such as `deploy`.
    pub short_names: Vec<String>,
    /// Such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
    /// What can be done with it, sorted; reviews have only `create`.
    pub verbs: Vec<String>,
    /// Its subresources, sorted by name.
    pub subresources: Vec<BuiltInSubresource>,
    /// The columns of `kubectl get`, NAME included; empty for kinds that cannot be listed.
    pub columns: Vec<BuiltInColumn>,
    /// The name of its schema, such as `io.k8s.api.apps.v1.Deployment`.
    pub definition: String,
}

/// All built-in kinds of one Kubernetes version.
#[derive(Debug)]
pub struct Catalogue {
    /// The Kubernetes version, such as `v1.36.3`.
    pub kubernetes_version: String,
    /// The kinds, in the order of discovery: groups as kube-apiserver prefers them.
    pub kinds: Vec<BuiltIn>,
    /// The schemas as OpenAPI v3 JSON, by name, with `x-kubernetes-*` and without descriptions.
    pub schemas: Map<String, Value>,
    definitions: Definitions,
    names_by_kind: HashMap<[String; 3], String>,
}

impl Catalogue {
    /// The kind of that group, version and plural name.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&BuiltIn> {
        self.kinds.iter().find(|it| it.group == group && it.version == version && it.plural == plural)
    }

    /// The kind of that group, version and kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&BuiltIn> {
        self.kinds.iter().find(|it| it.group == group && it.version == version && it.kind == kind)
    }

    /// The name of the schema of any kind, also of those that are no resource, such as `Scale`.
    pub fn definition_of(&self, group: &str, version: &str, kind: &str) -> Option<&str> {
        let key = [group.to_owned(), version.to_owned(), kind.to_owned()];
        self.names_by_kind.get(&key).map(String::as_str)
    }

    /// The schema of a kind, for defaults, unknown fields and types.
    ///
    /// Built-in kinds have more defaults and rules than their schemas say; kube-apiserver has them in
    /// code. The schema's defaults include the empty values that its Go types always print.
    pub fn structural(&self, kind: &BuiltIn) -> Option<Structural> {
        self.definitions.structural(&kind.definition)
    }

    /// All schemas, ready for use.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }
}

/// The built-in kinds. Read once, on first use (about 10 ms); later calls are free.
///
/// # Panics
/// Never, unless the file that is compiled in is damaged, which a test would show.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| read(DATA).unwrap_or_else(empty));
    &CATALOGUE
}

fn empty() -> Catalogue {
    Catalogue {
        kubernetes_version: String::new(),
        kinds: Vec::new(),
        schemas: Map::new(),
        definitions: Definitions::default(),
        names_by_kind: HashMap::new(),
    }
}

/// `None` when the data is malformed.
fn read(data: &str) -> Option<Catalogue> {
    let mut data: BTreeMap<String, Value> = serde_json::from_str(data).ok()?;
    let Some(Value::Object(schemas)) = data.remove("definitions") else { return None };
    let kinds: Option<Vec<BuiltIn>> = data.get("resources")?.as_array()?.iter().map(built_in).collect();
    Some(Catalogue {
        kubernetes_version: data.get("kubernetes")?.as_str()?.to_owned(),
        kinds: kinds?,
        definitions: Definitions::new(&schemas).ok()?,
        names_by_kind: names_by_kind(&schemas),
        schemas,
    })
}

/// A schema that serves many kinds, such as that of DeleteOptions, is nobody's.
fn names_by_kind(schemas: &Map<String, Value>) -> HashMap<[String; 3], String> {
    let one = |(name, schema): (&String, &Value)| {
        let kinds = schema.get("x-kubernetes-group-version-kind")?.as_array()?;
        let [kind] = kinds.as_slice() else { return None };
        Some(([text(kind, "group")?, text(kind, "version")?, text(kind, "kind")?], name.clone()))
    };
    schemas.iter().filter_map(one).collect()
}

fn built_in(line: &Value) -> Option<BuiltIn> {
    let subresources = line.get("subresources").and_then(Value::as_array);
    let columns = line.get("columns").and_then(Value::as_array);
    Some(BuiltIn {
        group: text(line, "group")?,
        version: text(line, "version")?,
        kind: text(line, "kind")?,
        plural: text(line, "plural")?,
        singular: text(line, "singular")?,
        short_names: texts(line, "shortNames"),
        categories: texts(line, "categories"),
        namespaced: line.get("namespaced")?.as_bool()?,
        verbs: texts(line, "verbs"),
        subresources: subresources.into_iter().flatten().map(subresource).collect::<Option<_>>()?,
        columns: columns.into_iter().flatten().map(column).collect::<Option<_>>()?,
        definition: text(line, "definition")?,
    })
}

fn column(entry: &Value) -> Option<BuiltInColumn> {
    Some(BuiltInColumn {
        name: text(entry, "name")?,
        type_: text(entry, "type")?,
        format: text(entry, "format").unwrap_or_default(),
        priority: entry
            .get("priority")
            .and_then(Value::as_i64)
            .and_then(|it| i32::try_from(it).ok())
            .unwrap_or(0),
    })
}

fn subresource(entry: &Value) -> Option<BuiltInSubresource> {
    Some(BuiltInSubresource {
        name: text(entry, "name")?,
        group: text(entry, "group")?,
        version: text(entry, "version")?,
        kind: text(entry, "kind")?,
        verbs: texts(entry, "verbs"),
    })
}

fn text(line: &Value, name: &str) -> Option<String> {
    Some(line.get(name)?.as_str()?.to_owned())
}

fn texts(line: &Value, name: &str) -> Vec<String> {
    let values = line.get(name).and_then(Value::as_array);
    values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_committed_data_can_be_read() {
        let catalogue = read(DATA).unwrap();
        assert!(catalogue.kubernetes_version.starts_with("v1."));
        for kind in &catalogue.kinds {
            assert!(catalogue.structural(kind).is_some(), "{} has no schema", kind.definition);
        }
    }

    #[test]
    fn deployments_are_as_discovery_describes_them() {
        let deployment = catalogue().resource("apps", "v1", "deployments").unwrap();
        assert_eq!((deployment.kind.as_str(), deployment.namespaced), ("Deployment", true));
        assert_eq!(
            (&deployment.short_names[..], &deployment.categories[..]),
            (&["deploy".to_owned()][..], &["all".to_owned()][..])
        );
        let scale = deployment.subresources.iter().find(|it| it.name == "scale").unwrap();
        assert_eq!((scale.group.as_str(), scale.kind.as_str()), ("autoscaling", "Scale"));
    }

    #[test]
    fn unknown_fields_of_a_deployment_are_named_with_their_paths() {
        let deployment = catalogue().kind("apps", "v1", "Deployment").unwrap();
        let schema = catalogue().structural(deployment).unwrap();
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"any": "x"}},
            "spec": {"replica": 2, "template": {"spec": {"containers": [{"name": "a", "imag": "b"}]}}},
        });
        let paths = ["spec.replica", "spec.template.spec.containers[0].imag"];
        assert_eq!(schema.unknown_fields(&object), paths);
        assert_eq!(schema.prune(&mut object), paths);
        assert_eq!(object["spec"], json!({"template": {"spec": {"containers": [{"name": "a"}]}}}));
    }

    #[test]
    fn free_form_and_recursive_parts_are_kept() {
        let definition = catalogue().kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
        let schema = catalogue().structural(definition).unwrap();
        let object = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
            "type": "object", "default": {"any": ["thing"]},
            "properties": {"a": {"items": {"type": "string"}, "x-kubernetes-list-type": "set"}},
            "additionalProperties": {"type": "object", "properties": {"b": {"nope": 1}}},
        }}}]}});
        let paths = schema.unknown_fields(&object);
        assert_eq!(paths, Vec::<String>::new());
    }

    #[test]
    fn defaults_of_the_schema_reach_nested_lists() {
        let service = catalogue().kind("", "v1", "Service").unwrap();
        let mut object = json!({"spec": {"ports": [{"port": 80}]}});
        catalogue().structural(service).unwrap().default(&mut object);
        assert_eq!(object["spec"]["ports"][0]["protocol"], "TCP");
        assert_eq!(object["status"], json!({"loadBalancer": {}}));
    }
}
