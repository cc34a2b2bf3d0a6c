//! YAML into typed fields, as `sigs.k8s.io/yaml` reads it into Go structs: numbers and booleans become
//! strings where a string is wanted, and names of fields are found whatever their case.

use convoy_gotemplate::Limit;
use convoy_yaml::{Build, format_g};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A value of a YAML text, with numbers as they were written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Loose {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(String),
    Seq(Vec<Loose>),
    Map(BTreeMap<String, Loose>),
}

impl Build for Loose {
    fn null() -> Self {
        Self::Null
    }

    fn boolean(value: bool) -> Self {
        Self::Bool(value)
    }

    fn integer(value: i64) -> Self {
        Self::Int(value)
    }

    fn unsigned(value: u64) -> Self {
        Self::Uint(value)
    }

    fn float(value: f64) -> Self {
        Self::Float(value)
    }

    fn string(value: &str) -> Self {
        Self::Str(value.to_owned())
    }

    fn sequence(items: Vec<Self>) -> Self {
        Self::Seq(items)
    }

    fn mapping(entries: Vec<(Cow<'_, str>, Self)>) -> Self {
        Self::Map(entries.into_iter().map(|(key, value)| (key.into_owned(), value)).collect())
    }
}

/// Why a text does not fit the fields; displays Go's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TypedError {
    /// The text is not YAML.
    #[error("error converting YAML to JSON")]
    Yaml(#[source] convoy_yaml::Error),
    /// A limit was reached.
    #[error("{0}")]
    Limit(Limit),
    /// A field that nobody knows, where all have to be known.
    #[error("error unmarshaling JSON: while decoding JSON: json: unknown field {0:?}")]
    UnknownField(String),
    /// The text as a whole, or one of its fields, has another type.
    #[error("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into {place}")]
    Type {
        /// What stands there, in JSON's words.
        found: &'static str,
        /// Where, and what was wanted, in Go's words.
        place: String,
    },
}

impl TypedError {
    /// Go's text, with that of the cause.
    pub fn go_text(&self) -> String {
        match self {
            Self::Yaml(cause) => format!("{self}: {cause}"),
            Self::Type { .. } | Self::UnknownField(_) | Self::Limit(_) => self.to_string(),
        }
    }
}

/// Fields of a Go struct that are being read; keeps the first type error, as Go's decoder does.
pub(crate) struct Fields<'y> {
    entries: Option<&'y BTreeMap<String, Loose>>,
    /// Name of the struct's type; nothing when it has none.
    owner: String,
    /// Fields on the way to the struct, each with a dot after it.
    path: String,
}

pub(crate) fn read(text: &[u8]) -> Result<Loose, TypedError> {
    convoy_yaml::read(text, convoy_yaml::Options::default()).map_err(TypedError::Yaml)
}

/// [`read`] of a text that a template made, within limits.
pub(crate) fn read_unless(text: &[u8], is_stopped: &dyn Fn() -> bool) -> Result<Loose, TypedError> {
    /// Values that one document may hold, counted by what stands between them.
    const MAX_VALUES: usize = 500_000;
    let is_between = |byte: &u8| matches!(byte, b'\n' | b':' | b',' | b'[' | b'{' | b'-');
    if text.len() > MAX_VALUES && text.iter().filter(|byte| is_between(byte)).count() > MAX_VALUES {
        return Err(TypedError::Limit(Limit::Text));
    }
    convoy_yaml::read_unless(text, convoy_yaml::Options::default(), is_stopped).map_err(|error| match error {
        convoy_yaml::Error::Stopped => TypedError::Limit(Limit::Deadline),
        error => TypedError::Yaml(error),
    })
}

impl<'y> Fields<'y> {
    /// `go_type` is the name of the struct, as in `chart.Metadata`.
    pub(crate) fn of(value: &'y Loose, go_type: &str) -> Result<Self, TypedError> {
        let (owner, path) = (short_name(go_type), String::new());
        match value {
            Loose::Map(entries) => Ok(Self { entries: Some(entries), owner, path }),
            Loose::Null => Ok(Self { entries: None, owner, path }),
            other => {
                Err(TypedError::Type { found: other.kind(), place: format!("Go value of type {go_type}") })
            }
        }
    }

    /// The last of the fields with this name in the order of the keys.
    fn get(&self, name: &str) -> &'y Loose {
        let mut found = &Loose::Null;
        for (key, value) in self.entries.into_iter().flatten() {
            if key.eq_ignore_ascii_case(name) && *value != Loose::Null {
                found = value;
            }
        }
        found
    }

    fn error(&self, name: &str, value: &Loose, wanted: &str) -> TypedError {
        let place = format!("Go struct field {}.{}{name} of type {wanted}", self.owner, self.path);
        TypedError::Type { found: value.kind(), place }
    }

    pub(crate) fn string(&self, name: &str) -> Result<String, TypedError> {
        let value = self.get(name);
        value.as_string().ok_or_else(|| self.error(name, value, "string"))
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<bool, TypedError> {
        match self.get(name) {
            Loose::Null => Ok(false),
            Loose::Bool(value) => Ok(*value),
            other => Err(self.error(name, other, "bool")),
        }
    }

    pub(crate) fn strings(&self, name: &str) -> Result<Vec<String>, TypedError> {
        match self.get(name) {
            Loose::Null => Ok(Vec::new()),
            Loose::Seq(items) => items
                .iter()
                .map(|item| item.as_string().ok_or_else(|| self.error(name, item, "string")))
                .collect(),
            other => Err(self.error(name, other, "[]string")),
        }
    }

    pub(crate) fn string_map(&self, name: &str) -> Result<BTreeMap<String, String>, TypedError> {
        match self.get(name) {
            Loose::Null => Ok(BTreeMap::new()),
            Loose::Map(entries) => entries
                .iter()
                .map(|(key, value)| match value.as_string() {
                    Some(text) => Ok((key.clone(), text)),
                    None => Err(self.error(name, value, "string")),
                })
                .collect(),
            other => Err(self.error(name, other, "map[string]string")),
        }
    }

    /// A list of anything.
    pub(crate) fn list(&self, name: &str) -> Result<&'y [Loose], TypedError> {
        match self.get(name) {
            Loose::Null => Ok(&[]),
            Loose::Seq(items) => Ok(items),
            other => Err(self.error(name, other, "[]interface {}")),
        }
    }

    /// A list of pointers to structs, of which any may be null.
    pub(crate) fn structs(&self, name: &str, go_type: &str) -> Result<Vec<Option<Self>>, TypedError> {
        self.list_of(name, go_type, "[]*")
    }

    /// A list of structs themselves.
    pub(crate) fn values(&self, name: &str, go_type: &str) -> Result<Vec<Option<Self>>, TypedError> {
        self.list_of(name, go_type, "[]")
    }

    fn list_of(&self, name: &str, go_type: &str, of: &str) -> Result<Vec<Option<Self>>, TypedError> {
        let items = match self.get(name) {
            Loose::Null => return Ok(Vec::new()),
            Loose::Seq(items) => items,
            other => return Err(self.error(name, other, &format!("{of}{go_type}"))),
        };
        let path = format!("{}{name}.", self.path);
        items
            .iter()
            .map(|item| match item {
                Loose::Null => Ok(None),
                Loose::Map(entries) => {
                    let (owner, path) = (short_name(go_type), path.clone());
                    Ok(Some(Self { entries: Some(entries), owner, path }))
                }
                other => Err(self.error(name, other, go_type)),
            })
            .collect()
    }

    /// A struct, or nothing.
    pub(crate) fn inner(&self, name: &str, go_type: &str) -> Result<Option<Self>, TypedError> {
        match self.get(name) {
            Loose::Null => Ok(None),
            Loose::Map(entries) => {
                let path = format!("{}{name}.", self.path);
                Ok(Some(Self { entries: Some(entries), owner: short_name(go_type), path }))
            }
            other => Err(self.error(name, other, go_type)),
        }
    }
}

/// A type's name without that of its package; a struct that is written out has none.
fn short_name(go_type: &str) -> String {
    match go_type.starts_with("struct ") {
        true => String::new(),
        false => go_type.rsplit('.').next().unwrap_or(go_type).to_owned(),
    }
}

impl Loose {
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Uint(_) | Self::Float(_) => "number",
            Self::Str(_) => "string",
            Self::Seq(_) => "array",
            Self::Map(_) => "object",
        }
    }

    /// The string that a scalar becomes where one is wanted; floats are written with 32 bits.
    fn as_string(&self) -> Option<String> {
        match self {
            Self::Null => Some(String::new()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Int(value) => Some(value.to_string()),
            Self::Uint(value) => Some(value.to_string()),
            Self::Float(value) => Some(format_single(*value)),
            Self::Str(text) => Some(text.clone()),
            Self::Seq(_) | Self::Map(_) => None,
        }
    }
}

/// Go's `FormatFloat(value, 'g', -1, 32)`: the shortest digits that tell 32-bit floats apart.
fn format_single(value: f64) -> String {
    let single = value as f32;
    format!("{single}").parse().map_or_else(|_| format_g(value), format_g)
}
