//! values.schema.json: whether the values of a chart and of the charts in it are what they promise.
//!
//! The validator is our own, because people search for the texts of Helm's (santhosh-tekuri/jsonschema v6):
//! which keyword is looked at first, what is named together and what stands below what are part of them.
//! A schema cannot reach anything: references to files and to the network are refused.

mod compile;
mod format;
mod instance;
mod uri;
mod validate;
mod violation;

use crate::files::go_text;
use crate::functions::read_schema_json;
use crate::tree::Node;
use compile::Compiled;
use convoy_gotemplate::{Map, Str, Value};
use serde_json::Value as Json;
use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

/// The address that Helm gives to the schema of a chart.
pub(crate) const ADDRESS: &str = "file:///values.schema.json";

/// Values that do not fit the schemas of their charts; displays Helm's text, which shows values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{details}")]
pub struct SchemaError {
    /// The charts, each with its violations.
    pub details: String,
}

/// A schema of a chart, compiled when it is first asked for and shared by the clones of the chart.
#[derive(Clone, Default)]
pub(crate) struct CompiledSchema(Arc<OnceLock<Result<Compiled, String>>>);

impl fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompiledSchema")
    }
}

impl CompiledSchema {
    /// Nothing when nobody waits for it any more.
    fn of(&self, text: &Str, is_stopped: &dyn Fn() -> bool) -> Option<&Result<Compiled, String>> {
        if self.0.get().is_none() {
            let compiled = read_schema_json(text).and_then(|json| Compiled::root(ADDRESS, json, is_stopped));
            if compiled.is_err() && is_stopped() {
                return None;
            }
            // Another thread may have been quicker, with the same.
            let _ = self.0.set(compiled);
        }
        self.0.get()
    }
}

/// Holds values to the text of a schema alone; the error is Helm's text.
pub(crate) fn validate_values(schema: &Str, values: &Map) -> Result<(), String> {
    validate_one(&CompiledSchema::default(), schema, values, &|| false)
}

pub(crate) fn validate(
    node: &Node<'_>,
    values: &Map,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), SchemaError> {
    let mut details = String::new();
    validate_node(node, values, &mut details, is_stopped);
    if details.is_empty() { Ok(()) } else { Err(SchemaError { details }) }
}

fn validate_node(node: &Node<'_>, values: &Map, details: &mut String, is_stopped: &dyn Fn() -> bool) {
    if let Some(schema) = &node.chart.schema
        && let Err(text) = validate_one(&node.chart.compiled_schema, schema, values, is_stopped)
    {
        let _ = write!(details, "{}:\n{text}", node.metadata.name);
    }
    for child in &node.dependencies {
        let name = &child.metadata.name;
        match values.get(name.as_bytes()) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(values)) => validate_node(child, &values, details, is_stopped),
            Some(other) => {
                let found = other.type_name();
                let _ =
                    writeln!(details, "{name}:\ninvalid type for values: expected object (map), got {found}");
            }
        }
    }
}

fn validate_one(
    compiled: &CompiledSchema,
    schema: &Str,
    values: &Map,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), String> {
    // What is stopped is an error of its own, whatever is said here.
    let Some(schema) = compiled.of(schema, is_stopped) else { return Err(String::new()) };
    let schema = schema.as_ref().map_err(Clone::clone)?;
    let values = to_json(&Value::Map(values.clone()), 0);
    schema.validate(&values, is_stopped).map_err(|text| {
        let start = format!("jsonschema validation failed with '{ADDRESS}#'\n");
        format!("{}\n", text.strip_prefix(&start).unwrap_or(&text))
    })
}

/// The values as a schema sees them.
fn to_json(value: &Value, depth: usize) -> Json {
    if depth > convoy_yaml::MAX_DEPTH {
        return Json::Null;
    }
    match value {
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) | Value::Int64(value) => Json::from(*value),
        // A whole number is an integer however it is written.
        Value::Float64(value) if value.fract() == 0.0 && value.abs() < 9e15 => Json::from(*value as i64),
        Value::Float64(value) => Json::from(*value),
        Value::String(text) => Json::String(go_text(text)),
        Value::List(list) => Json::Array(list.borrow().iter().map(|item| to_json(item, depth + 1)).collect()),
        Value::Map(map) => {
            map.borrow().iter().map(|(key, value)| (go_text(key), to_json(value, depth + 1))).collect()
        }
        _ => Json::Null,
    }
}
