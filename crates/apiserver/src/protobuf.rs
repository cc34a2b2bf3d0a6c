//! Kubernetes' protobuf in request bodies: `k8s\0`, then runtime.Unknown, then the object.
//!
//! `data/protobuf.txt` is made by `cargo xtask protobuf`; each line is a message and its fields. Fields
//! become what Go's JSON would make of them: an empty value that Go would leave out is left out.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoy_meta::GroupVersion;
use serde_json::{Map, Number, Value};

const TABLE: &str = include_str!("../data/protobuf.txt");
const PREFIX: &[u8] = b"k8s\0";
const MAX_DEPTH: usize = 64;
/// Values in one body; the largest that fit into its bytes are far fewer.
const MAX_VALUES: usize = 1_000_000;

const META: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.";

/// A protobuf body that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProtobufError {
    /// The body does not start with Kubernetes' prefix.
    #[error("it does not start with k8s\\0")]
    Prefix,
    /// The bytes are no protobuf, or not of this message.
    #[error("malformed at {0}")]
    Malformed(String),
    /// No such kind in the table.
    #[error("no kind {kind} in version {api_version} can be read from protobuf; send JSON")]
    UnknownKind {
        /// As the envelope has it.
        api_version: String,
        /// As the envelope has it.
        kind: String,
    },
    /// The object is nested too deeply or has too many values.
    #[error("the object is nested too deeply or has too many values")]
    TooLarge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Text,
    Bytes,
    Flag,
    Integer,
    Double,
    Float,
    Message(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Map,
}

#[derive(Debug)]
struct Field {
    tag: u64,
    name: &'static str,
    type_: Type,
    shape: Shape,
    /// Whether Go writes the value even when it is zero: it is a pointer, or has no omitempty.
    keeps_zero: bool,
    /// Whether it is embedded: in JSON its fields are those of the message around it.
    is_inline: bool,
}

#[derive(Debug)]
struct Message {
    name: &'static str,
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Table {
    messages: Vec<Message>,
    by_name: HashMap<&'static str, usize>,
}

static MESSAGES: LazyLock<Table> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let messages: Vec<Message> = lines.map(message).collect();
    let by_name = messages.iter().enumerate().map(|(at, message)| (message.name, at)).collect();
    Table { messages, by_name }
});

fn message(line: &'static str) -> Message {
    let mut parts = line.split(' ');
    let name = parts.next().unwrap_or_default();
    Message { name, fields: parts.filter_map(field).collect() }
}

fn field(text: &'static str) -> Option<Field> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let tag = text.get(..digits)?.parse().ok()?;
    let (name, type_) = text.get(digits..)?.split_once(':')?;
    let bare = type_.trim_end_matches(['?', '!', '^']);
    let is_inline = type_.ends_with('^');
    let keeps_zero = bare.len() != type_.len() && !is_inline;
    let (shape, bare) = match (bare.strip_prefix('*'), bare.strip_prefix('%')) {
        (Some(item), _) => (Shape::List, item),
        (_, Some(value)) => (Shape::Map, value),
        _ => (Shape::One, bare),
    };
    let type_ = match bare {
        "s" => Type::Text,
        "y" => Type::Bytes,
        "b" => Type::Flag,
        "i" => Type::Integer,
        "d" => Type::Double,
        "f" => Type::Float,
        number => Type::Message(number.parse().ok()?),
    };
    Some(Field { tag, name, type_, shape, keeps_zero, is_inline })
}

/// Reads an object from its envelope.
///
/// # Errors
/// When the envelope or the object is malformed, or the kind is not one of those that are understood.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(PREFIX).ok_or(ProtobufError::Prefix)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for entry in Reader(envelope).entries("runtime.Unknown")? {
        match entry {
            (1, Wire::Bytes(type_meta)) => {
                for entry in Reader(type_meta).entries("runtime.TypeMeta")? {
                    match entry {
                        (1, Wire::Bytes(text)) => api_version = utf8(text, "apiVersion")?,
                        (2, Wire::Bytes(text)) => kind = utf8(text, "kind")?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let at = find(&api_version, &kind)
        .ok_or_else(|| ProtobufError::UnknownKind { api_version: api_version.clone(), kind: kind.clone() })?;
    let mut left = MAX_VALUES;
    let mut object = read_message(at, raw, MAX_DEPTH, &mut left)?;
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion".into(), api_version.into());
        map.insert("kind".into(), kind.into());
    }
    Ok(object)
}

/// The message of a kind: its package is named after the first word of the group.
fn find(api_version: &str, kind: &str) -> Option<usize> {
    let gv = GroupVersion::parse(api_version)?;
    let group = match gv.group.split('.').next().unwrap_or_default() {
        "" => "core",
        word => word,
    };
    let name = format!("k8s.io.api.{group}.{}.{kind}", gv.version);
    let table = &MESSAGES.by_name;
    table.get(name.as_str()).or_else(|| table.get(format!("{META}{kind}").as_str())).copied()
}

#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Fixed(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

struct Reader<'a>(&'a [u8]);

fn malformed(what: &str) -> ProtobufError {
    ProtobufError::Malformed(what.to_owned())
}

fn utf8(bytes: &[u8], what: &str) -> Result<String, ProtobufError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed(what))
}

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(first & 0x7f).checked_shl(shift)?;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn entry(&mut self) -> Option<(u64, Wire<'a>)> {
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Fixed(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((key >> 3, wire))
    }

    fn entries(mut self, what: &str) -> Result<Vec<(u64, Wire<'a>)>, ProtobufError> {
        let mut entries = Vec::new();
        while !self.0.is_empty() {
            if entries.len() >= MAX_VALUES {
                return Err(ProtobufError::TooLarge);
            }
            entries.push(self.entry().ok_or_else(|| malformed(what))?);
        }
        Ok(entries)
    }
}

fn read_message(at: usize, bytes: &[u8], depth: usize, left: &mut usize) -> Result<Value, ProtobufError> {
    let message = MESSAGES.messages.get(at).ok_or_else(|| malformed("an unknown message"))?;
    let depth = depth.checked_sub(1).ok_or(ProtobufError::TooLarge)?;
    let entries = Reader(bytes).entries(message.name)?;
    if let Some(special) = special(message.name, &entries)? {
        return Ok(special);
    }
    let mut map = Map::new();
    for (tag, wire) in entries {
        *left = left.checked_sub(1).ok_or(ProtobufError::TooLarge)?;
        let Some(field) = message.fields.iter().find(|field| field.tag == tag) else { continue };
        match field.shape {
            Shape::One => {
                let value = read_value(field, wire, depth, left)?;
                if let (true, Value::Object(embedded)) = (field.is_inline, &value) {
                    map.extend(embedded.clone());
                } else if field.keeps_zero && !value.is_null() || !is_zero(&value) {
                    map.insert(field.name.to_owned(), value);
                }
            }
            Shape::List => {
                let value = read_value(field, wire, depth, left)?;
                let list = map.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.push(value);
                }
            }
            Shape::Map => {
                let Wire::Bytes(pair) = wire else { return Err(malformed(field.name)) };
                let mut key = String::new();
                let mut value = zero(field.type_);
                for entry in Reader(pair).entries(field.name)? {
                    match entry {
                        (1, Wire::Bytes(text)) => key = utf8(text, field.name)?,
                        (2, wire) => value = read_value(field, wire, depth, left)?,
                        _ => {}
                    }
                }
                let entries = map.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(entries) = entries {
                    entries.insert(key, value);
                }
            }
        }
    }
    // Wrappers of a list, such as authentication's ExtraValue.
    if let ([field], true) = (message.fields.as_slice(), message.name.ends_with(".ExtraValue")) {
        return Ok(map.remove(field.name).unwrap_or_else(|| Value::Array(Vec::new())));
    }
    Ok(Value::Object(map))
}

fn zero(type_: Type) -> Value {
    match type_ {
        Type::Text | Type::Bytes => Value::from(""),
        Type::Flag => Value::Bool(false),
        Type::Integer | Type::Double | Type::Float => Value::from(0),
        Type::Message(_) => Value::Object(Map::new()),
    }
}

/// Whether Go's omitempty leaves a value out; it never does so for structs.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn read_value(field: &Field, wire: Wire<'_>, depth: usize, left: &mut usize) -> Result<Value, ProtobufError> {
    Ok(match (field.type_, wire) {
        (Type::Text, Wire::Bytes(text)) => utf8(text, field.name)?.into(),
        (Type::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Type::Flag, Wire::Number(number)) => Value::Bool(number != 0),
        // Negative numbers are written as 64 bits, whatever their size.
        (Type::Integer, Wire::Number(number)) => number.cast_signed().into(),
        (Type::Double, Wire::Fixed(bits)) => float(f64::from_bits(bits)),
        (Type::Float, Wire::Fixed32(bits)) => float(f32::from_bits(bits).into()),
        (Type::Message(at), Wire::Bytes(bytes)) => read_message(at, bytes, depth, left)?,
        _ => return Err(malformed(field.name)),
    })
}

fn float(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// Messages whose JSON is not a map of their fields.
fn special(name: &str, entries: &[(u64, Wire<'_>)]) -> Result<Option<Value>, ProtobufError> {
    let number = |tag: u64| {
        entries.iter().find_map(|(at, wire)| match wire {
            Wire::Number(number) if *at == tag => Some(number.cast_signed()),
            _ => None,
        })
    };
    let bytes = |tag: u64| {
        entries.iter().find_map(|(at, wire)| match wire {
            Wire::Bytes(bytes) if *at == tag => Some(*bytes),
            _ => None,
        })
    };
    let text = |tag: u64| utf8(bytes(tag).unwrap_or_default(), name);
    let json = |tag: u64| match bytes(tag) {
        None | Some([]) => Ok(Value::Null),
        Some(bytes) => serde_json::from_slice(bytes).map_err(|_| malformed(name)),
    };
    let short = name.strip_prefix("k8s.io.apimachinery.pkg.").unwrap_or_default();
    Ok(Some(match short {
        "apis.meta.v1.Time" | "apis.meta.v1.MicroTime" => {
            if entries.is_empty() {
                return Ok(Some(Value::Null));
            }
            let nanos = i32::try_from(number(2).unwrap_or(0)).map_err(|_| malformed(name))?;
            let time = jiff::Timestamp::new(number(1).unwrap_or(0), nanos).map_err(|_| malformed(name))?;
            let micro = short.ends_with("MicroTime");
            let format = if micro { convoy_meta::time::format_micro } else { convoy_meta::time::format };
            format(time).into()
        }
        "apis.meta.v1.Duration" => {
            let nanos = number(1).unwrap_or(0);
            format!("{}s", nanos as f64 / 1e9).into()
        }
        "api.resource.Quantity" => text(1)?.into(),
        "util.intstr.IntOrString" => match number(1).unwrap_or(0) {
            0 => number(2).unwrap_or(0).into(),
            _ => text(3)?.into(),
        },
        "apis.meta.v1.FieldsV1" | "runtime.RawExtension" => json(1)?,
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bytes_of(tag: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![tag << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [bytes_of(1, api_version.as_bytes()), bytes_of(2, kind.as_bytes())].concat();
        [PREFIX.to_vec(), bytes_of(1, &meta), bytes_of(2, raw)].concat()
    }

    #[test]
    fn a_config_map_reads_as_its_json_would() {
        // metadata {name: "a", creationTimestamp: {}}, data {"k": "v"}
        let metadata = [bytes_of(1, b"a"), bytes_of(2, b""), bytes_of(8, b"")].concat();
        let pair = [bytes_of(1, b"k"), bytes_of(2, b"v")].concat();
        let raw = [bytes_of(1, &metadata), bytes_of(2, &pair)].concat();
        let want =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        assert_eq!(decode(&envelope("v1", "ConfigMap", &raw)).unwrap(), want);
    }

    #[test]
    fn secret_data_is_base64_and_pointers_keep_their_zero() {
        let raw =
            [bytes_of(2, &[bytes_of(1, b"k"), bytes_of(2, b"\xff")].concat()), vec![5 << 3, 0]].concat();
        let secret = decode(&envelope("v1", "Secret", &raw)).unwrap();
        assert_eq!(secret["data"], json!({"k": "/w=="}));
        assert_eq!(secret["immutable"], json!(false));
    }

    #[test]
    fn kinds_are_found_by_group_and_version() {
        for (api_version, kind) in [
            ("apps/v1", "Deployment"),
            ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
            ("authentication.k8s.io/v1", "TokenRequest"),
            ("rbac.authorization.k8s.io/v1", "Role"),
            ("v1", "DeleteOptions"),
        ] {
            assert!(find(api_version, kind).is_some(), "{api_version} {kind}");
        }
    }

    #[test]
    fn broken_bytes_are_refused() {
        assert_eq!(decode(b"{}"), Err(ProtobufError::Prefix));
        assert!(decode(b"k8s\0\x0a\xff").is_err());
        assert!(decode(b"k8s\0").is_err());
        let truncated = envelope("v1", "ConfigMap", b"\x0a\x7fx");
        assert!(matches!(decode(&truncated), Err(ProtobufError::Malformed(_))));
        assert!(matches!(decode(&envelope("x/v1", "Odd", b"")), Err(ProtobufError::UnknownKind { .. })));
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut raw = Vec::new();
            for _ in 0..(state % 40) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                raw.push((state >> 33).to_le_bytes()[0]);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let _ = decode(&envelope("apps/v1", "Deployment", &raw));
        }
    }
}
