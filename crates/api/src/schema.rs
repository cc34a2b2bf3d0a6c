//! From Rust types to structural schemas as Kubernetes wants them
//! (apiextensions-apiserver, `pkg/apiserver/schema`): every node has a type, no references, no `null`
//! types, list types declared.

use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

pub(crate) fn is_zero(number: &i32) -> bool {
    *number == 0
}

pub(crate) fn is_zero_count(number: &i64) -> bool {
    *number == 0
}

pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

/// `metav1.Condition` lists, merged by type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316, "description": "Type of the condition."},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "True, False or Unknown."},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "Reason in one word."},
                "message": {"type": "string", "maxLength": 32768, "description": "What happened, where, and what to do."},
                "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When the status last changed."},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0, "description": "The generation that the condition speaks of."},
            },
        },
    })
}

/// An object whose fields convoy does not know. Atomic, so that managedFields name it with one path
/// however large it is.
pub(crate) fn free_form_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-map-type": "atomic",
    })
}

/// A point in time, RFC 3339.
pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// An optional field is "this or null"; here it is just this.
fn unwrap_optional(node: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = node.get("anyOf") else { return };
    let mut named = choices.iter().filter(|choice| {
        let null_type = choice.get("type").is_some_and(|name| name == "null");
        let null_enum = choice.get("enum").is_some_and(|values| *values == json!([null]));
        !(null_type || null_enum)
    });
    if let (Some(Value::Object(choice)), None) = (named.next().cloned(), named.next()) {
        node.remove("anyOf");
        for (keyword, value) in choice {
            // What the field says of itself stands before what its type says.
            node.entry(keyword).or_insert(value);
        }
    }
}

/// Documented variants come as `oneOf` of one-valued enums; here they are one enum.
fn unite_variants(node: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = node.get("oneOf") else { return };
    let mut values = Vec::new();
    for variant in variants {
        match (variant.get("const"), variant.get("enum").and_then(Value::as_array)) {
            (Some(value), _) => values.push(value.clone()),
            (None, Some(some)) => values.extend(some.iter().cloned()),
            (None, None) => return,
        }
    }
    node.remove("oneOf");
    node.insert("type".to_owned(), json!("string"));
    node.insert("enum".to_owned(), Value::Array(values));
}

/// The structural schema of a type.
pub(crate) fn structural<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    RecursiveTransform(|schema: &mut Schema| {
        let Some(node) = schema.as_object_mut() else { return };
        for keyword in ["title", "nullable", "default", "components", "$schema"] {
            // `default` here is serde's for an absent field, which the apiserver does not write.
            node.remove(keyword);
        }
        if let Some(Value::Array(types)) = node.get("type") {
            let named = types.iter().find(|name| *name != "null").cloned();
            if let Some(named) = named {
                node.insert("type".to_owned(), named);
            }
        }
        unwrap_optional(node);
        unite_variants(node);
        if let Some(Value::String(description)) = node.get_mut("description") {
            *description = description.replace('\n', " ");
        }
        if let Some(Value::Array(values)) = node.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if node.get("format").is_some_and(|format| format == "uint32") {
            node.insert("format".to_owned(), json!("int64"));
        }
    })
    .transform(&mut schema);
    schema.to_value()
}

/// The schema of a whole object of a kind.
pub(crate) fn object<Spec: JsonSchema>(description: &str, status: Option<Value>) -> Value {
    let mut properties = json!({
        "apiVersion": {"type": "string", "description": "Version of the schema of this object: convoy.kumodo.io/v1alpha1."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object", "description": "Standard object metadata."},
        "spec": structural::<Spec>(),
    });
    if let Some(status) = status {
        properties["status"] = status;
    }
    json!({
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": properties,
    })
}
