//! Values: what YAML, JSON and `--set` give, and how files of them are laid over one another.

use crate::version::HelmVersion;
use crate::watch::Watch;
use convoy_gotemplate::{List, Map, Str, Value};
use convoy_yaml::Build;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A value that a chart is given. It can be shared by threads; a render makes its own copy.
///
/// Numbers that come from YAML or JSON are floats, as they are to Helm; whole numbers come from `--set` only.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Data {
    /// `null`.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number, given with `--set`.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    String(Str),
    /// A list.
    List(Vec<Data>),
    /// A map.
    Map(Values),
}

/// A map of values.
pub type Values = BTreeMap<Str, Data>;

impl Data {
    /// A copy for a render.
    pub fn to_value(&self) -> Value {
        self.to_value_unless(&Watch::endless())
    }

    fn to_value_unless(&self, watch: &Watch<'_>) -> Value {
        match self {
            _ if watch.turn() => Value::Nil,
            Self::Null => Value::Nil,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int64(*value),
            Self::Float(value) => Value::Float64(*value),
            Self::String(value) => Value::String(value.clone()),
            Self::List(items) => {
                Value::List(List::new(items.iter().map(|item| item.to_value_unless(watch)).collect()))
            }
            Self::Map(entries) => Value::Map(to_map(entries, watch)),
        }
    }
}

/// A copy of a map for a render.
pub(crate) fn to_map(values: &Values, watch: &Watch<'_>) -> Map {
    let entries = values.iter().take_while(|_| !watch.is_over());
    entries.map(|(key, value)| (key.clone(), value.to_value_unless(watch))).collect()
}

impl From<&serde_json::Value> for Data {
    fn from(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => Self::Float(number.as_f64().unwrap_or_default()),
            serde_json::Value::String(text) => Self::String(text.as_str().into()),
            serde_json::Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            serde_json::Value::Object(entries) => {
                Self::Map(entries.iter().map(|(key, value)| (key.as_str().into(), value.into())).collect())
            }
        }
    }
}

impl Build for Data {
    fn null() -> Self {
        Self::Null
    }

    fn boolean(value: bool) -> Self {
        Self::Bool(value)
    }

    fn integer(value: i64) -> Self {
        Self::Float(value as f64)
    }

    fn unsigned(value: u64) -> Self {
        Self::Float(value as f64)
    }

    fn float(value: f64) -> Self {
        Self::Float(value)
    }

    fn string(value: &str) -> Self {
        Self::String(value.into())
    }

    fn sequence(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn mapping(entries: Vec<(Cow<'_, str>, Self)>) -> Self {
        Self::Map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

/// Why a text is no map of values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// A separator of documents has something behind it.
    #[error("error reading yaml document")]
    Separator(#[source] convoy_yaml::SeparatorError),
    /// The text is not YAML.
    #[error("error converting YAML to JSON")]
    Yaml(#[source] convoy_yaml::Error),
    /// The text is YAML, but no map.
    #[error(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {0} into Go value of type map[string]interface {{}}"
    )]
    NotAMap(&'static str),
}

impl ValuesError {
    /// Helm's text, with that of the cause.
    pub fn helm_text(&self, helm: HelmVersion) -> String {
        let document = match helm {
            HelmVersion::V3 => "",
            HelmVersion::V4 => "cannot unmarshal yaml document: ",
        };
        match self {
            Self::Separator(cause) => format!("{self}: {cause}"),
            Self::Yaml(cause) => format!("{document}{self}: {cause}"),
            Self::NotAMap(_) => format!("{document}{self}"),
        }
    }
}

/// Reads values: all documents of the text, later ones laid over earlier ones. Helm 3 reads the first only.
///
/// # Errors
///
/// When a document is not YAML or not a map.
pub fn read_values(text: &[u8], helm: HelmVersion) -> Result<Values, ValuesError> {
    if helm == HelmVersion::V3 {
        return read_document(text);
    }
    let mut values = Values::new();
    for document in convoy_yaml::documents(text) {
        let over = read_document(&document.map_err(ValuesError::Separator)?)?;
        if values.is_empty() {
            values = over;
        } else {
            lay_over(&mut values, over);
        }
    }
    Ok(values)
}

/// Reads the first document, as `sigs.k8s.io/yaml.Unmarshal` does.
pub(crate) fn read_document(text: &[u8]) -> Result<Values, ValuesError> {
    match convoy_yaml::read(text, convoy_yaml::Options::default()).map_err(ValuesError::Yaml)? {
        Data::Map(values) => Ok(values),
        Data::Null => Ok(Values::new()),
        other => Err(ValuesError::NotAMap(json_kind(&other))),
    }
}

fn json_kind(value: &Data) -> &'static str {
    match value {
        Data::Null => "null",
        Data::Bool(_) => "bool",
        Data::Int(_) | Data::Float(_) => "number",
        Data::String(_) => "string",
        Data::List(_) => "array",
        Data::Map(_) => "object",
    }
}

/// Lays values over others: maps are merged, everything else is replaced (Helm's `MergeMaps`).
pub fn lay_over(base: &mut Values, over: Values) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Data::Map(base)), Data::Map(over)) => lay_over(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
