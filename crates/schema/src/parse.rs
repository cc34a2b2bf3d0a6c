//! From the JSON of a schema to nodes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::format::Format;
use crate::node::{Additional, Bound, Constraints, Node, NodeId, Pattern, Slot, Type};
use crate::pattern;
use crate::structural::{ListType, MAX_DEPTH, SchemaError};

const REFERENCE_PREFIXES: [&str; 2] = ["#/components/schemas/", "#/definitions/"];

pub(crate) struct Parser {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: BTreeMap<String, NodeId>,
    /// Objects that declare no fields keep all of theirs.
    free_form_objects: bool,
}

impl Parser {
    pub(crate) fn definitions(schemas: &Map<String, Value>) -> Result<Self, SchemaError> {
        let names = schemas.keys().enumerate().map(|(id, name)| (name.clone(), id)).collect();
        let mut parser = Self { nodes: vec![Node::default(); schemas.len()], names, free_form_objects: true };
        for (id, (name, schema)) in schemas.iter().enumerate() {
            let node = parser.node(schema, name, 0)?;
            if let Some(place) = parser.nodes.get_mut(id) {
                *place = node;
            }
        }
        Ok(parser)
    }

    pub(crate) fn standalone(schema: &Value) -> Result<(Vec<Node>, NodeId), SchemaError> {
        let mut parser = Self { nodes: Vec::new(), names: BTreeMap::new(), free_form_objects: false };
        let root = parser.slot(schema, "", 0)?.node;
        Ok((parser.nodes, root))
    }

    fn slot(&mut self, schema: &Value, path: &str, depth: usize) -> Result<Slot, SchemaError> {
        if depth > MAX_DEPTH {
            return Err(SchemaError::TooDeep { path: path.to_owned() });
        }
        let map = object(schema, path)?;
        let default = map.get("default").cloned();
        if let Some(reference) = reference(map) {
            let name = REFERENCE_PREFIXES.iter().find_map(|prefix| reference.strip_prefix(prefix));
            let known = name.and_then(|name| self.names.get(name)).copied();
            let node = known.ok_or_else(|| SchemaError::UnknownDefinition {
                path: path.to_owned(),
                name: name.unwrap_or(reference).to_owned(),
            })?;
            return Ok(Slot { node, default });
        }
        let node = self.node(schema, path, depth)?;
        self.nodes.push(node);
        Ok(Slot { node: self.nodes.len() - 1, default })
    }

    fn node(&mut self, schema: &Value, path: &str, depth: usize) -> Result<Node, SchemaError> {
        let map = object(schema, path)?;
        let keywords = Keywords { map, path };
        let mut node = Node {
            kind: keywords.kind()?,
            int_or_string: keywords.flag("x-kubernetes-int-or-string")?
                || map.get("format").is_some_and(|format| format == "int-or-string"),
            nullable: keywords.flag("nullable")?,
            preserve_unknown: keywords.flag("x-kubernetes-preserve-unknown-fields")?,
            embedded: keywords.flag("x-kubernetes-embedded-resource")?,
            list_type: match keywords.string("x-kubernetes-list-type")? {
                Some("map") => Some(ListType::Map),
                Some("set") => Some(ListType::Set),
                Some("atomic") => Some(ListType::Atomic),
                Some(_) => return Err(keywords.wrong("x-kubernetes-list-type", "atomic, set or map")),
                None => None,
            },
            list_map_keys: keywords.strings("x-kubernetes-list-map-keys")?,
            ..Node::default()
        };

        for (name, property) in keywords.object("properties")?.into_iter().flatten() {
            node.properties.insert(name.clone(), self.slot(property, &child(path, name), depth + 1)?);
        }
        if let Some(items) = map.get("items") {
            node.items = Some(self.slot(items, &format!("{path}[]"), depth + 1)?);
        }
        node.additional = match map.get("additionalProperties") {
            None => Additional::Absent,
            Some(Value::Bool(true)) => Additional::Allowed,
            Some(Value::Bool(false)) => Additional::Denied,
            Some(values) => Additional::Schema(self.slot(values, &child(path, "*"), depth + 1)?),
        };

        let free_form = node.properties.is_empty()
            && matches!(node.additional, Additional::Absent | Additional::Allowed)
            && matches!(node.kind, None | Some(Type::Object));
        if self.free_form_objects && free_form {
            node.preserve_unknown = true;
            node.additional = Additional::Absent;
        }
        let constraints = self.constraints(&keywords, depth)?;
        node.constraints = constraints.map(Box::new);
        Ok(node)
    }

    fn constraints(
        &mut self,
        keywords: &Keywords<'_>,
        depth: usize,
    ) -> Result<Option<Constraints>, SchemaError> {
        const WORDS: [&str; 20] = [
            "format",
            "pattern",
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
            "required",
            "enum",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "exclusiveMinimum",
            "exclusiveMaximum",
        ];
        if !WORDS.iter().any(|word| keywords.map.contains_key(*word)) {
            return Ok(None);
        }
        let format = keywords.string("format")?.map(str::to_owned);
        let pattern = keywords.string("pattern")?.filter(|pattern| !pattern.is_empty());
        Ok(Some(Constraints {
            known_format: format.as_deref().and_then(Format::parse),
            format,
            pattern: pattern.map(|pattern| compile(pattern, keywords.path)).transpose()?,
            minimum: keywords.bound("minimum", "exclusiveMinimum")?,
            maximum: keywords.bound("maximum", "exclusiveMaximum")?,
            multiple_of: match keywords.map.get("multipleOf") {
                None => None,
                Some(Value::Number(number)) => Some(number.clone()),
                Some(_) => return Err(keywords.wrong("multipleOf", "a number")),
            },
            min_length: keywords.count("minLength")?,
            max_length: keywords.count("maxLength")?,
            min_items: keywords.count("minItems")?,
            max_items: keywords.count("maxItems")?,
            unique_items: keywords.flag("uniqueItems")?,
            min_properties: keywords.count("minProperties")?,
            max_properties: keywords.count("maxProperties")?,
            required: keywords.strings("required")?,
            one_of_values: keywords.array("enum")?.cloned().unwrap_or_default(),
            all_of: self.branches(keywords, "allOf", depth)?,
            any_of: self.branches(keywords, "anyOf", depth)?,
            one_of: self.branches(keywords, "oneOf", depth)?,
            not: match keywords.map.get("not") {
                None => None,
                Some(not) => Some(self.slot(not, &child(keywords.path, "not"), depth + 1)?.node),
            },
        }))
    }

    fn branches(
        &mut self,
        keywords: &Keywords<'_>,
        keyword: &'static str,
        depth: usize,
    ) -> Result<Vec<NodeId>, SchemaError> {
        let branches = keywords.array(keyword)?.map(Vec::as_slice).unwrap_or_default();
        let path = child(keywords.path, keyword);
        branches
            .iter()
            .enumerate()
            .map(|(index, branch)| Ok(self.slot(branch, &format!("{path}[{index}]"), depth + 1)?.node))
            .collect()
    }
}

/// The target of `$ref`, also when it is wrapped in an `allOf` of one to carry a default beside it.
fn reference(map: &Map<String, Value>) -> Option<&str> {
    let direct = map.get("$ref").and_then(Value::as_str);
    direct.or_else(|| match map.get("allOf")?.as_array()?.as_slice() {
        [only] => only.get("$ref")?.as_str(),
        _ => None,
    })
}

fn compile(pattern: &str, path: &str) -> Result<Pattern, SchemaError> {
    match pattern::compile(pattern) {
        Ok(regex) => Ok(Pattern { source: pattern.to_owned(), regex }),
        Err(source) => Err(SchemaError::Pattern {
            path: path.to_owned(),
            pattern: pattern.to_owned(),
            source: Box::new(source),
        }),
    }
}

fn object<'a>(schema: &'a Value, path: &str) -> Result<&'a Map<String, Value>, SchemaError> {
    schema.as_object().ok_or_else(|| SchemaError::NotAnObject { path: path.to_owned() })
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Typed access to the keywords of one schema.
struct Keywords<'a> {
    map: &'a Map<String, Value>,
    path: &'a str,
}

impl<'a> Keywords<'a> {
    fn wrong(&self, keyword: &'static str, expected: &'static str) -> SchemaError {
        SchemaError::Keyword { path: self.path.to_owned(), keyword, expected }
    }

    fn kind(&self) -> Result<Option<Type>, SchemaError> {
        match self.string("type")? {
            None | Some("") => Ok(None),
            Some(name) => match Type::parse(name) {
                Some(kind) => Ok(Some(kind)),
                None => Err(SchemaError::UnknownType { path: self.path.to_owned(), name: name.to_owned() }),
            },
        }
    }

    fn flag(&self, keyword: &'static str) -> Result<bool, SchemaError> {
        match self.map.get(keyword) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong(keyword, "a boolean")),
        }
    }

    fn string(&self, keyword: &'static str) -> Result<Option<&'a str>, SchemaError> {
        match self.map.get(keyword) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(keyword, "a string")),
        }
    }

    fn strings(&self, keyword: &'static str) -> Result<Vec<String>, SchemaError> {
        let words = self.array(keyword)?.into_iter().flatten();
        words
            .map(|word| {
                word.as_str().map(str::to_owned).ok_or_else(|| self.wrong(keyword, "a list of strings"))
            })
            .collect()
    }

    fn array(&self, keyword: &'static str) -> Result<Option<&'a Vec<Value>>, SchemaError> {
        match self.map.get(keyword) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(self.wrong(keyword, "a list")),
        }
    }

    fn object(&self, keyword: &'static str) -> Result<Option<&'a Map<String, Value>>, SchemaError> {
        match self.map.get(keyword) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => Err(self.wrong(keyword, "an object")),
        }
    }

    fn count(&self, keyword: &'static str) -> Result<Option<u64>, SchemaError> {
        match self.map.get(keyword) {
            None | Some(Value::Null) => Ok(None),
            Some(number) => number
                .as_u64()
                .map(Some)
                .ok_or_else(|| self.wrong(keyword, "an integer that is not negative")),
        }
    }

    /// In OpenAPI v3.0 the exclusive form is a flag beside the bound.
    fn bound(&self, keyword: &'static str, exclusive: &'static str) -> Result<Option<Bound>, SchemaError> {
        match self.map.get(keyword) {
            None | Some(Value::Null) => Ok(None),
            Some(number) => {
                let value = number.as_f64().ok_or_else(|| self.wrong(keyword, "a number"))?;
                Ok(Some(Bound { value, exclusive: self.flag(exclusive)? }))
            }
        }
    }
}
