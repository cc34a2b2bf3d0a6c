//! CustomResourceDefinitions: from a definition to resources that are served.

use convoy_meta::FieldError;
use convoy_registry::{PrinterColumn, RequestContext, ResourceDef, Scope, Strategy, Subresource};
use convoy_schema::Structural;
use convoy_smd::Schema;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The finalizer that holds a definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What is special about CustomResourceDefinitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CustomResourceDefinitionStrategy;

impl Strategy for CustomResourceDefinitionStrategy {
    fn default_object(&self, object: &mut Value) {
        let kind = text(&object["spec"]["names"]["kind"]).to_owned();
        if let Some(names) = object["spec"]["names"].as_object_mut() {
            names.entry("singular").or_insert_with(|| json!(kind.to_lowercase()));
            names.entry("listKind").or_insert_with(|| json!(format!("{kind}List")));
        }
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
        }
    }

    fn prepare_for_create(&self, _: &RequestContext, object: &mut Value) {
        let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            let all: Vec<Value> = finalizers.into_iter().chain([json!(FINALIZER)]).collect();
            object["metadata"]["finalizers"] = Value::Array(all);
        }
        let stored: Vec<&Value> =
            versions(object).filter(|v| v["storage"] == true).map(|v| &v["name"]).collect();
        object["status"] = json!({
            "storedVersions": stored,
            "conditions": [],
            "acceptedNames": {"kind": "", "plural": ""},
        });
    }

    fn validate(&self, _: &RequestContext, object: &Value) -> Vec<FieldError> {
        let mut problems = Vec::new();
        let spec = &object["spec"];
        let wanted = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
        if object["metadata"]["name"] != wanted {
            let detail = "must be spec.names.plural+\".\"+spec.group".to_owned();
            problems.push(FieldError::invalid("metadata.name", object["metadata"]["name"].clone(), detail));
        }
        let stored = versions(object).filter(|version| version["storage"] == true).count();
        if stored != 1 {
            let detail = "must have exactly one version marked as storage version";
            problems.push(FieldError::invalid("spec.versions", spec["versions"].clone(), detail));
        }
        for (index, version) in versions(object).enumerate() {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
            let schema = &version["schema"]["openAPIV3Schema"];
            if schema.is_null() {
                problems.push(FieldError::required(path, "schemas are required"));
            } else if let Err(error) = Structural::new(schema) {
                problems.push(FieldError::invalid(path, "", error.to_string()));
            }
        }
        problems
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["spec"]["versions"].as_array().into_iter().flatten()
}

/// The resources that a definition asks for, one for each served version. A version whose schema is not
/// structural was refused when the definition was written.
pub(crate) fn resources(definition: &Value) -> Vec<ResourceDef> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let scope = if spec["scope"] == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
    let list = |field: &str| -> Vec<String> {
        names[field].as_array().into_iter().flatten().map(|name| text(name).to_owned()).collect()
    };
    versions(definition)
        .filter(|version| version["served"] == true)
        .map(|version| {
            let mut def = ResourceDef::new(
                text(&spec["group"]),
                text(&version["name"]),
                text(&names["kind"]),
                text(&names["plural"]),
                scope,
            );
            def.list_kind = text(&names["listKind"]).to_owned();
            def.singular = text(&names["singular"]).to_owned();
            def.short_names = list("shortNames");
            def.categories = list("categories");
            if version["subresources"]["status"].is_object() {
                def.subresources.push(Subresource::status());
            }
            let schema = &version["schema"]["openAPIV3Schema"];
            def.schema = Structural::new(schema).ok();
            if let Ok(merge_schema) = Schema::from_structural(schema, false) {
                def.merge_schema = merge_schema;
            }
            def.columns = columns(version);
            def
        })
        .collect()
}

fn columns(version: &Value) -> Vec<PrinterColumn> {
    version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| PrinterColumn {
            name: text(&column["name"]).to_owned(),
            type_: text(&column["type"]).to_owned(),
            format: text(&column["format"]).to_owned(),
            description: text(&column["description"]).to_owned(),
            priority: column["priority"]
                .as_i64()
                .and_then(|priority| i32::try_from(priority).ok())
                .unwrap_or(0),
            json_path: text(&column["jsonPath"]).to_owned(),
        })
        .collect()
}

/// The status of a definition whose resources are served.
pub(crate) fn established(definition: &Value, now: Timestamp) -> Value {
    let old = &definition["status"];
    let condition = |type_: &str, reason: &str, message: &str| {
        let since = old["conditions"]
            .as_array()
            .and_then(|conditions| conditions.iter().find(|condition| condition["type"] == type_))
            .filter(|condition| condition["status"] == "True")
            .map_or_else(
                || json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
                |condition| condition["lastTransitionTime"].clone(),
            );
        json!({"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since})
    };
    let mut stored: Vec<Value> = old["storedVersions"].as_array().cloned().unwrap_or_default();
    for version in versions(definition).filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    json!({
        "acceptedNames": definition["spec"]["names"],
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    })
}

/// Whether a resource is that of the definitions themselves.
pub(crate) fn is_definition(group: &str, plural: &str) -> bool {
    group == "apiextensions.k8s.io" && plural == "customresourcedefinitions"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        json!({
            "metadata": {"name": "books.library.example.com"},
            "spec": {
                "group": "library.example.com",
                "scope": "Namespaced",
                "names": {"kind": "Book", "plural": "books", "shortNames": ["bk"]},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                     "schema": {"openAPIV3Schema": {"type": "object"}},
                     "additionalPrinterColumns": [{"name": "Title", "type": "string", "jsonPath": ".spec.title"}]},
                    {"name": "v0", "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
                ],
            },
        })
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    #[test]
    fn served_versions_become_resources() {
        let mut definition = definition();
        CustomResourceDefinitionStrategy.default_object(&mut definition);
        let resources = resources(&definition);
        assert_eq!(resources.len(), 1);
        let book = &resources[0];
        assert_eq!((book.singular.as_str(), book.list_kind.as_str()), ("book", "BookList"));
        assert!(book.has_status() && book.columns.len() == 1);
    }

    #[test]
    fn an_established_definition_stays_as_it_is() {
        let mut definition = definition();
        definition["status"] = established(&definition, now());
        let later = Timestamp::from_second(1_800_000_000).unwrap();
        assert_eq!(established(&definition, later), definition["status"]);
    }

    #[test]
    fn a_name_that_does_not_match_is_refused() {
        let mut definition = definition();
        let context = RequestContext::internal("test", now());
        assert!(CustomResourceDefinitionStrategy.validate(&context, &definition).is_empty());
        definition["metadata"]["name"] = json!("books");
        assert_eq!(CustomResourceDefinitionStrategy.validate(&context, &definition).len(), 1);
    }
}
