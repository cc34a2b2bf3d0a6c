//! The documents say what kubectl looks for in them.

use convoy_schema::openapi::{
    ApiResource, Document, custom_resource_schemas, definition_name, v2_document, v3_document, v3_index,
};
use serde_json::{Map, Value, json};

fn built_in(group: &str, version: &str) -> Vec<ApiResource> {
    let kinds = &convoy_schema::catalogue().kinds;
    kinds.iter().filter(|it| it.group == group && it.version == version).map(ApiResource::from).collect()
}

fn schema(name: &str) -> Option<&'static Value> {
    convoy_schema::catalogue().schemas.get(name)
}

fn patch_types(document: &Value, path: &str) -> Vec<String> {
    let content =
        document["paths"][path]["patch"]["requestBody"]["content"].as_object().into_iter().flatten();
    content.map(|(name, _)| name.clone()).collect()
}

#[test]
fn patch_of_a_built_in_kind_lists_strategic_merge_dry_run_and_field_validation() {
    let document = v3_document("v1.36.3", &built_in("apps", "v1"), schema);
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    assert!(patch_types(&document, path).contains(&"application/strategic-merge-patch+json".to_owned()));
    let patch = &document["paths"][path]["patch"];
    let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    let names: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(names.contains(&"dryRun") && names.contains(&"fieldValidation"), "{names:?}");
}

#[test]
fn custom_resource_is_described_with_its_list_and_without_strategic_merge() {
    let spec = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "template": {"type": "object", "x-kubernetes-embedded-resource": true},
    }}}});
    let schemas: Map<String, Value> =
        custom_resource_schemas("example.com", "v1", "Widget", "WidgetList", Some(&spec))
            .into_iter()
            .collect();
    let resource = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
        namespaced: true,
        verbs: ["get", "list", "patch"].map(str::to_owned).to_vec(),
        subresources: Vec::new(),
        definition: definition_name("example.com", "v1", "Widget"),
        strategic_patch: false,
    };
    let document = v3_document("v1", &[resource], |name| schemas.get(name).or_else(|| schema(name)));
    let path = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}";
    assert!(!patch_types(&document, path).iter().any(|it| it.contains("strategic")));
    let components = &document["components"]["schemas"];
    let widget = &components["com.example.v1.Widget"];
    let metadata = &widget["properties"]["spec"]["properties"]["template"]["properties"]["metadata"];
    assert_eq!(
        metadata["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    assert!(
        components["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]["labels"].is_object()
    );
    assert_eq!(
        components["com.example.v1.WidgetList"]["x-kubernetes-group-version-kind"][0]["kind"],
        "WidgetList"
    );
}

#[test]
fn no_reference_leads_nowhere() {
    let catalogue = convoy_schema::catalogue();
    let all: Vec<ApiResource> = catalogue.kinds.iter().map(ApiResource::from).collect();
    let v3 = v3_document("v1.36.3", &all, schema);
    let v2 = v2_document("v1.36.3", &all, schema);
    for (document, prefix, schemas) in [
        (&v3, "#/components/schemas/", &v3["components"]["schemas"]),
        (&v2, "#/definitions/", &v2["definitions"]),
    ] {
        let text = document.to_string();
        let mut references = 0;
        for rest in text.split(r#""$ref":""#).skip(1) {
            let target = rest.split('"').next().unwrap();
            let name =
                target.strip_prefix(prefix).unwrap_or_else(|| panic!("{target} is of another version"));
            assert!(schemas[name].is_object(), "{name} is missing");
            references += 1;
        }
        assert!(references > 1000);
    }
}

#[test]
fn index_names_each_document_with_its_hash() {
    let document = Document::new(&v3_document("v1", &built_in("", "v1"), schema));
    let again = Document::new(&v3_document("v1", &built_in("", "v1"), schema));
    assert_eq!(document.hash, again.hash);
    let index = v3_index([("api/v1", document.hash.as_str())]);
    let url = format!("/openapi/v3/api/v1?hash={}", document.hash);
    assert_eq!(index, json!({"paths": {"api/v1": {"serverRelativeURL": url}}}));
}
