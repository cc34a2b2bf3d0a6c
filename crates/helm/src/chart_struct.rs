//! `.Chart` of Helm 3: Go structs, where Helm 4 has maps. A field that they do not have is an error, JSON and YAML have
//! the names of Chart.yaml and leave out what is empty.

use crate::metadata::{Dependency, Maintainer, Metadata};
use convoy_gotemplate::{Elem, Kind, List, Map, Object, Str, Value};
use std::any::Any;
use std::rc::Rc;

/// `.Chart` of a chart.
pub(crate) fn value(metadata: &Metadata, is_root: bool) -> Value {
    let metadata = of_metadata(metadata);
    let mut fields = metadata.fields.clone();
    fields.push(Field { go: "IsRoot", json: Json::Always("IsRoot"), value: Value::Bool(is_root) });
    Value::object(Struct {
        go_type: "struct { chart.Metadata; IsRoot bool }",
        kind: Kind::Struct,
        fields,
        embedded: Some(("Metadata", Value::object(metadata))),
    })
}

/// A struct, or a pointer to one.
#[derive(Debug)]
struct Struct {
    go_type: &'static str,
    kind: Kind,
    fields: Vec<Field>,
    /// A struct in it whose fields are its own: they come first in `fields`, which has one of its own after them.
    embedded: Option<(&'static str, Value)>,
}

#[derive(Clone, Debug)]
struct Field {
    go: &'static str,
    json: Json,
    value: Value,
}

/// The name of a field in JSON.
#[derive(Clone, Copy, Debug)]
enum Json {
    Always(&'static str),
    UnlessEmpty(&'static str),
}

fn of_metadata(metadata: &Metadata) -> Struct {
    let annotations = metadata.annotations.iter();
    let annotations = annotations.map(|(key, text)| (Str::from(key.as_str()), Value::string(text.as_str())));
    let annotations = match metadata.annotations.is_empty() {
        true => Map::nil_of(Elem::String),
        false => Map::with_elem(Elem::String, annotations.collect()),
    };
    let text = |text: &str| Value::string(text);
    Struct {
        go_type: "chart.Metadata",
        kind: Kind::Struct,
        fields: vec![
            field("Name", "name", text(&metadata.name)),
            field("Home", "home", text(&metadata.home)),
            field("Sources", "sources", strings(&metadata.sources)),
            field("Version", "version", text(&metadata.version)),
            field("Description", "description", text(&metadata.description)),
            field("Keywords", "keywords", strings(&metadata.keywords)),
            field(
                "Maintainers",
                "maintainers",
                pointers("[]*chart.Maintainer", metadata.maintainers.iter().map(of_maintainer)),
            ),
            field("Icon", "icon", text(&metadata.icon)),
            field("APIVersion", "apiVersion", text(&metadata.api_version)),
            field("Condition", "condition", text(&metadata.condition)),
            field("Tags", "tags", text(&metadata.tags)),
            field("AppVersion", "appVersion", text(&metadata.app_version)),
            field("Deprecated", "deprecated", Value::Bool(metadata.deprecated)),
            field("Annotations", "annotations", Value::Map(annotations)),
            field("KubeVersion", "kubeVersion", text(&metadata.kube_version)),
            field(
                "Dependencies",
                "dependencies",
                pointers("[]*chart.Dependency", metadata.dependencies.iter().map(of_dependency)),
            ),
            field("Type", "type", text(&metadata.kind)),
        ],
        embedded: None,
    }
}

fn of_maintainer(maintainer: &Maintainer) -> Value {
    Value::object(Struct {
        go_type: "*chart.Maintainer",
        kind: Kind::Ptr,
        fields: vec![
            field("Name", "name", Value::string(maintainer.name.as_str())),
            field("Email", "email", Value::string(maintainer.email.as_str())),
            field("URL", "url", Value::string(maintainer.url.as_str())),
        ],
        embedded: None,
    })
}

fn of_dependency(dependency: &Dependency) -> Value {
    let text = |text: &str| Value::string(text);
    let imports: Vec<Value> = dependency.import_values.iter().map(|import| import.to_value()).collect();
    let imports = match imports.is_empty() {
        true => Value::List(List::nil(Elem::Any)),
        false => Value::list(imports),
    };
    let always = |go, json, value| Field { go, json: Json::Always(json), value };
    Value::object(Struct {
        go_type: "*chart.Dependency",
        kind: Kind::Ptr,
        fields: vec![
            always("Name", "name", text(&dependency.name)),
            field("Version", "version", text(&dependency.version)),
            always("Repository", "repository", text(&dependency.repository)),
            field("Condition", "condition", text(&dependency.condition)),
            field("Tags", "tags", strings(&dependency.tags)),
            field("Enabled", "enabled", Value::Bool(dependency.enabled)),
            field("ImportValues", "import-values", imports),
            field("Alias", "alias", text(&dependency.alias)),
        ],
        embedded: None,
    })
}

/// A field that JSON leaves out when it is empty.
fn field(go: &'static str, json: &'static str, value: Value) -> Field {
    Field { go, json: Json::UnlessEmpty(json), value }
}

/// A slice of pointers to structs.
fn pointers(go_type: &'static str, items: impl Iterator<Item = Value>) -> Value {
    let face = Struct { go_type, kind: Kind::Slice, fields: Vec::new(), embedded: None };
    let items: Vec<Value> = items.collect();
    Value::List(List::named(Rc::new(face), Elem::Any, Some(items).filter(|items| !items.is_empty())))
}

fn strings(items: &[String]) -> Value {
    Value::List(match items.is_empty() {
        true => List::nil(Elem::String),
        false => List::strings(items.iter().map(String::as_str)),
    })
}

impl Object for Struct {
    fn type_name(&self) -> &str {
        self.go_type
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self, name: &str) -> Option<Value> {
        let embedded = self.embedded.iter().find(|(embedded, _)| *embedded == name);
        let own = || self.fields.iter().find(|field| field.go == name).map(|field| field.value.clone());
        embedded.map(|(_, value)| value.clone()).or_else(own)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let Some(embedded) = &self.embedded else {
            return self.fields.iter().map(|field| (field.go, field.value.clone())).collect();
        };
        let own = self.fields.last().map(|field| (field.go, field.value.clone()));
        std::iter::once(embedded.clone()).chain(own).collect()
    }

    fn json_fields(&self) -> Vec<(&'static str, Value)> {
        let named = self.fields.iter().filter_map(|field| match field.json {
            Json::UnlessEmpty(_) if !field.value.truth() => None,
            Json::UnlessEmpty(name) | Json::Always(name) => Some((name, field.value.clone())),
        });
        named.collect()
    }
}
