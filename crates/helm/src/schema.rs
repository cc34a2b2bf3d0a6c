//! values.schema.json: whether the values of a chart and of the charts in it are what they promise.
//!
//! A schema cannot reach anything: references to files and to the network are refused.

use crate::files::go_text;
use crate::tree::Node;
use convoy_gotemplate::{Map, Value};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Retrieve, Uri, ValidationError};
use serde_json::Value as Json;
use std::fmt::Write as _;

/// Values that do not fit the schemas of their charts; displays Helm's text, which shows values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{details}")]
pub struct SchemaError {
    /// The charts, each with its violations.
    pub details: String,
}

pub(crate) fn validate(node: &Node<'_>, values: &Map) -> Result<(), SchemaError> {
    let mut details = String::new();
    validate_node(node, values, &mut details);
    if details.is_empty() { Ok(()) } else { Err(SchemaError { details }) }
}

fn validate_node(node: &Node<'_>, values: &Map, details: &mut String) {
    if let Some(schema) = &node.chart.schema
        && let Err(text) = validate_one(schema, values)
    {
        let _ = write!(details, "{}:\n{text}", node.metadata.name);
    }
    for child in &node.dependencies {
        let name = &child.metadata.name;
        match values.get(name.as_bytes()) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(values)) => validate_node(child, &values, details),
            Some(other) => {
                let found = other.type_name();
                let _ =
                    writeln!(details, "{name}:\ninvalid type for values: expected object (map), got {found}");
            }
        }
    }
}

struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
        // Helm takes names that nobody resolves for "anything goes".
        if uri.scheme().as_str() == "urn" {
            return Ok(Json::Bool(true));
        }
        Err(format!("failing loading {:?}: references outside of the schema are not followed", uri.as_str())
            .into())
    }
}

fn validate_one(schema: &[u8], values: &Map) -> Result<(), String> {
    let schema: Json = serde_json::from_slice(schema).map_err(|error| error.to_string())?;
    let validator = jsonschema::options()
        .with_retriever(Nowhere)
        .build(&schema)
        .map_err(|error| format!("\"file:///values.schema.json#\" is not valid: {error}"))?;
    let values = to_json(&Value::Map(values.clone()), 0);
    let errors: Vec<ValidationError<'_>> = validator.iter_errors(&values).collect();
    if errors.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    list(&errors, 0, &mut text);
    text.push('\n');
    Err(text)
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

/// One line for each violation, those below `oneOf` and the like indented.
fn list(errors: &[ValidationError<'_>], indent: usize, text: &mut String) {
    let mut errors = errors.iter().peekable();
    while let Some(error) = errors.next() {
        let path = error.instance_path().as_str();
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = write!(text, "{:indent$}- at '{path}': ", "");
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let mut missing = vec![plain(property)];
                while let Some(next) = errors.peek()
                    && let ValidationErrorKind::Required { property } = next.kind()
                    && next.instance_path().as_str() == path
                {
                    missing.push(plain(property));
                    errors.next();
                }
                let noun = if missing.len() == 1 { "property" } else { "properties" };
                let _ = write!(text, "missing {noun} {}", quoted(&missing));
            }
            ValidationErrorKind::OneOfNotValid { context } => {
                text.push_str("'oneOf' failed, none matched");
                context.iter().for_each(|errors| list(errors, indent + 2, text));
            }
            ValidationErrorKind::AnyOf { context } => {
                text.push_str("'anyOf' failed");
                context.iter().for_each(|errors| list(errors, indent + 2, text));
            }
            kind => text.push_str(&violation(kind, error)),
        }
    }
}

fn violation(kind: &ValidationErrorKind, error: &ValidationError<'_>) -> String {
    let found = error.instance();
    let count = || match found.as_ref() {
        Json::String(text) => text.chars().count(),
        Json::Array(items) => items.len(),
        Json::Object(entries) => entries.len(),
        _ => 0,
    };
    let limit = |name: &str, limit: &Json| format!("{name}: got {}, want {}", grouped(found), grouped(limit));
    match kind {
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(kind) => kind.to_string(),
                TypeKind::Multiple(kinds) => {
                    kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or ")
                }
            };
            format!("got {}, want {wanted}", type_of(found))
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!("additional properties {} not allowed", quoted(unexpected))
        }
        ValidationErrorKind::Enum { options } => match options.as_array() {
            Some(options) if options.iter().all(|option| !option.is_array() && !option.is_object()) => {
                let options: Vec<String> = options.iter().map(quoted_value).collect();
                match options.as_slice() {
                    [only] => format!("value must be {only}"),
                    _ => format!("value must be one of {}", options.join(", ")),
                }
            }
            _ => "enum failed".to_owned(),
        },
        ValidationErrorKind::Constant { expected_value } => {
            if expected_value.is_array() || expected_value.is_object() {
                "const failed".to_owned()
            } else {
                format!("value must be {}", quoted_value(expected_value))
            }
        }
        ValidationErrorKind::Minimum { limit: wanted } => limit("minimum", wanted),
        ValidationErrorKind::Maximum { limit: wanted } => limit("maximum", wanted),
        ValidationErrorKind::ExclusiveMinimum { limit: wanted } => limit("exclusiveMinimum", wanted),
        ValidationErrorKind::ExclusiveMaximum { limit: wanted } => limit("exclusiveMaximum", wanted),
        ValidationErrorKind::MultipleOf { multiple_of } => limit("multipleOf", &Json::from(*multiple_of)),
        ValidationErrorKind::MinLength { limit } => format!("minLength: got {}, want {limit}", count()),
        ValidationErrorKind::MaxLength { limit } => format!("maxLength: got {}, want {limit}", count()),
        ValidationErrorKind::MinItems { limit } => format!("minItems: got {}, want {limit}", count()),
        ValidationErrorKind::MaxItems { limit } => format!("maxItems: got {}, want {limit}", count()),
        ValidationErrorKind::MinProperties { limit } => {
            format!("minProperties: got {}, want {limit}", count())
        }
        ValidationErrorKind::MaxProperties { limit } => {
            format!("maxProperties: got {}, want {limit}", count())
        }
        ValidationErrorKind::Pattern { pattern } => {
            format!("'{}' does not match pattern '{pattern}'", plain(found))
        }
        ValidationErrorKind::UniqueItems => {
            let items = found.as_array().map(Vec::as_slice).unwrap_or_default();
            let equal = items.iter().enumerate().find_map(|(later, item)| {
                items.iter().take(later).position(|earlier| earlier == item).map(|earlier| (earlier, later))
            });
            let (earlier, later) = equal.unwrap_or_default();
            format!("items at {earlier} and {later} are equal")
        }
        ValidationErrorKind::Not { .. } => "'not' failed".to_owned(),
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            "'oneOf' failed, several subschemas matched".to_owned()
        }
        ValidationErrorKind::FalseSchema => "false schema".to_owned(),
        ValidationErrorKind::Format { format } => format!("'{}' is not valid {format}", plain(found)),
        ValidationErrorKind::Contains => "no items match contains schema".to_owned(),
        kind => format!("'{}' failed", kind.keyword()),
    }
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn quoted_value(value: &Json) -> String {
    match value {
        Json::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// A number with commas between its thousands.
fn grouped(value: &Json) -> String {
    let text = value.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut grouped = sign.to_owned();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        "" | "0" => grouped,
        fraction => format!("{grouped}.{fraction}"),
    }
}
