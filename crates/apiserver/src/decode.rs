//! Request bodies: JSON, YAML and Kubernetes' protobuf, read into objects.

use std::fmt;

use bytes::Bytes;
use convoy_meta::Status;
use convoy_registry::Body;
use http::HeaderMap;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::negotiation::{ContentType, content_type};
use crate::protobuf;

/// Most duplicate fields that are reported.
const MAX_DUPLICATES: usize = 64;

/// Reads an object of any kind; see [`object_of`].
///
/// # Errors
/// 415 for other media types, 400 for what cannot be read.
pub fn object(headers: &HeaderMap, body: &Bytes) -> Result<Body, Status> {
    object_of(headers, body, "Object")
}

/// Reads an object of a kind from a body of the media type that the headers name.
///
/// # Errors
/// 415 for other media types, 400 for what cannot be read.
pub fn object_of(headers: &HeaderMap, body: &Bytes, kind: &str) -> Result<Body, Status> {
    let read = match content_type(headers)? {
        ContentType::Json => json(body).map_err(|status| {
            let why = status.message;
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why}"
            ))
        })?,
        ContentType::Yaml => yaml(body)?,
        ContentType::Protobuf => protobuf::decode(body)
            .map(Body::from)
            .map_err(|error| Status::bad_request(format!("the protobuf body cannot be read: {error}")))?,
    };
    if !read.object.is_object() {
        let found = if body.is_empty() { "it is empty" } else { "it is no object" };
        return Err(Status::bad_request(format!("the body of the request must be an object, but {found}")));
    }
    Ok(read)
}

/// Reads JSON and notes the fields that stand twice.
///
/// # Errors
/// 400 for what is not JSON or nested too deeply.
pub fn json(body: &[u8]) -> Result<Body, Status> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let mut path = String::new();
    let seed = Seed { path: &mut path, duplicates: &mut duplicates };
    let object = seed
        .deserialize(&mut deserializer)
        .and_then(|object| deserializer.end().map(|()| object))
        .map_err(|error| Status::bad_request(format!("{error}")))?;
    Ok(Body { object, duplicates })
}

/// Reads YAML, and JSON that says it is YAML.
///
/// # Errors
/// 400 for what is not YAML or passes its limits.
pub fn yaml(body: &[u8]) -> Result<Body, Status> {
    let starts_as_json = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if starts_as_json && let Ok(body) = json(body) {
        return Ok(body);
    }
    match convoy_yaml::to_json_strict(body) {
        Ok(object) => Ok(Body::from(object)),
        Err(convoy_yaml::Error::Duplicates { keys, .. }) => {
            let object = convoy_yaml::to_json(body)
                .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
            let duplicates = keys.into_iter().map(|key| key.key.trim_matches('"').to_owned()).collect();
            Ok(Body { object, duplicates })
        }
        Err(error) => Err(Status::bad_request(format!("error decoding YAML: {error}"))),
    }
}

/// Reads a value at a path. serde_json itself bounds the depth.
struct Seed<'a> {
    path: &'a mut String,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let length = self.path.len();
        loop {
            self.path.push_str(&format!("[{}]", list.len()));
            let item = items.next_element_seed(Seed { path: self.path, duplicates: self.duplicates })?;
            self.path.truncate(length);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let length = self.path.len();
        while let Some(key) = entries.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            if self.path.len() > 64 * 1024 {
                return Err(A::Error::custom("the path of a field is too long"));
            }
            if map.contains_key(&key) && self.duplicates.len() < MAX_DUPLICATES {
                self.duplicates.push(self.path.clone());
            }
            let value = entries.next_value_seed(Seed { path: self.path, duplicates: self.duplicates })?;
            self.path.truncate(length);
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_fields_are_found_with_their_paths_and_the_last_one_counts() {
        let body = json(br#"{"a":1,"spec":{"x":[{"n":1,"n":2}]},"a":3}"#).unwrap();
        assert_eq!(body.object, json!({"a": 3, "spec": {"x": [{"n": 2}]}}));
        assert_eq!(body.duplicates, ["spec.x[0].n", "a"]);
    }

    #[test]
    fn bodies_that_are_no_objects_or_too_deep_are_refused() {
        let headers = HeaderMap::new();
        let deep = "[".repeat(100_000);
        for bad in ["", "[]", "{", "{} x", "\"a\"", deep.as_str()] {
            let status = object(&headers, &Bytes::copy_from_slice(bad.as_bytes())).unwrap_err();
            assert_eq!(status.code, 400, "{bad:.10}");
        }
    }

    #[test]
    fn yaml_and_json_under_the_name_of_yaml_are_read() {
        assert_eq!(yaml(b"a: 1\nb: [x]\n").unwrap().object, json!({"a": 1, "b": ["x"]}));
        assert_eq!(yaml(b" {\"a\": 1}").unwrap().object, json!({"a": 1}));
        let body = yaml(b"a: 1\na: 2\n").unwrap();
        assert_eq!((body.object, body.duplicates), (json!({"a": 2}), vec!["a".to_owned()]));
    }
}
