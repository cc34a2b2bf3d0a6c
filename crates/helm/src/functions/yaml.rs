//! YAML as Helm's functions read and write it.

use std::borrow::Cow;

use convoy_gotemplate::{Call, FuncError, Limit, MAX_NESTING, Map, Str, Value};
use convoy_yaml::{Build, Emitter, Options};

use super::arguments::{Outcome, any, string, text};
use super::json::{Plain, plain, utf8};
use super::json_read::{Shape, fit};
use super::room::{Room, charge_value, check_reading};
use super::sorting::in_natural_order;

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

/// A template value that is built while YAML is read. Numbers are `float64`, as after Go's way through JSON.
#[derive(Debug)]
pub struct Built(pub Value);

#[allow(clippy::cast_precision_loss)]
impl Build for Built {
    fn null() -> Self {
        Self(Value::Nil)
    }
    fn boolean(value: bool) -> Self {
        Self(Value::Bool(value))
    }
    fn integer(value: i64) -> Self {
        Self(Value::Float64(value as f64))
    }
    fn unsigned(value: u64) -> Self {
        Self(Value::Float64(value as f64))
    }
    fn float(value: f64) -> Self {
        Self(Value::Float64(value))
    }
    fn string(value: &str) -> Self {
        Self(Value::from(value))
    }
    fn sequence(items: Vec<Self>) -> Self {
        Self(Value::list(items.into_iter().map(|item| item.0).collect()))
    }
    fn mapping(entries: Vec<(Cow<'_, str>, Self)>) -> Self {
        Self(Value::map(entries.into_iter().map(|(key, value)| (key, value.0))))
    }
}

/// [`to_text`] of a value that always has one.
pub(crate) fn yaml_text(value: &Value) -> String {
    to_text(value, &mut Room::endless()).unwrap_or_default()
}

/// Writes a value as `sigs.k8s.io/yaml.Marshal` does, without the last line feed.
///
/// # Errors
/// Go's error, or nesting.
fn to_text(value: &Value, room: &mut Room<'_, '_, '_>) -> Result<String, FuncError> {
    let mut emitter = Emitter::new();
    write(&mut emitter, value, 0, room)?;
    let mut text = emitter.finish();
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

fn unwritable(error: &convoy_yaml::WriteError) -> FuncError {
    FuncError::new(error.to_string())
}

fn write(
    out: &mut Emitter,
    value: &Value,
    depth: usize,
    room: &mut Room<'_, '_, '_>,
) -> Result<(), FuncError> {
    room.check(out.written())?;
    if depth > MAX_NESTING {
        return Err(FuncError::limit(Limit::Nesting));
    }
    match plain(value) {
        Plain::Null => out.null(),
        Plain::Text(text) => out.json_string(&text).map_err(|e| unwritable(&e))?,
        Plain::Map(entries) => write_map(out, entries, depth, room)?,
        Plain::Other => match value {
            Value::Bool(truth) => out.boolean(*truth),
            Value::Int(i) | Value::Int64(i) => out.integer(*i),
            Value::Int32(i) => out.integer(i64::from(*i)),
            Value::Uint8(u) => out.integer(i64::from(*u)),
            Value::Uint32(u) => out.integer(i64::from(*u)),
            Value::Uint64(u) => out.unsigned(*u),
            Value::Float64(f) if !f.is_finite() => {
                return Err(FuncError::new(format!(
                    "json: unsupported value: {}",
                    convoy_gotemplate::format_float(*f, 'g', -1)
                )));
            }
            Value::Float64(f) => out.json_float(*f),
            Value::String(text) => match std::str::from_utf8(text) {
                Ok(text) => out.json_string(text).map_err(|e| unwritable(&e))?,
                Err(_) => out.json_string(&utf8(text)).map_err(|e| unwritable(&e))?,
            },
            Value::List(list) => {
                let items = list.to_vec();
                out.sequence(items.is_empty());
                for item in &items {
                    write(out, item, depth + 1, room)?;
                }
                if !items.is_empty() {
                    out.end();
                }
            }
            Value::Map(map) => write_map(out, map.entries(), depth, room)?,
            Value::Nil | Value::Bytes(_) | Value::Object(_) => out.null(),
        },
    }
    Ok(())
}

fn write_map(
    out: &mut Emitter,
    entries: Vec<(Str, Value)>,
    depth: usize,
    room: &mut Room<'_, '_, '_>,
) -> Result<(), FuncError> {
    let entries = entries.into_iter().map(|(key, value)| (utf8(&key), value)).collect();
    let entries = in_natural_order(entries, room)?;
    out.mapping(entries.is_empty());
    for (key, value) in &entries {
        out.json_key(key).map_err(|e| unwritable(&e))?;
        write(out, value, depth + 1, room)?;
    }
    if !entries.is_empty() {
        out.end();
    }
    Ok(())
}

pub(super) fn to_yaml(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    match to_text(&any(args, 0), &mut Room::of(call)) {
        Err(error) if error.reached_limit().is_none() => string(""),
        other => string(other?),
    }
}

pub(super) fn must_to_yaml(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(to_text(&any(args, 0), &mut Room::of(call))?)
}

/// After so many steps the deadline is looked at.
const LOOKED_AT: u64 = 1 << 10;

fn read(call: &Call<'_, '_>, source: &[u8], shape: Shape) -> Result<Value, String> {
    let built: Built = convoy_yaml::read_unless(source, Options::default(), &|| call.is_stopped())
        .map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    match (&built.0, shape) {
        // What holds no value leaves Go's map or slice as it was made.
        (Value::Nil, Shape::Map) => return Ok(Value::Map(Map::default())),
        (Value::Nil, Shape::List) => return Ok(Value::list(Vec::new())),
        _ => {}
    }
    fit(built.0, shape).map_err(|error| format!("error unmarshaling JSON: while decoding JSON: {error}"))
}

pub(super) fn from_yaml(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    check_reading(call, &text(args, 0))?;
    let read = read(call, &text(args, 0), Shape::Map);
    call.steps(LOOKED_AT)?;
    Ok(match read {
        Ok(value) => {
            charge_value(call, &value)?;
            value
        }
        Err(error) => Value::map([("Error", Value::from(error))]),
    })
}

pub(super) fn from_yaml_array(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    check_reading(call, &text(args, 0))?;
    let read = read(call, &text(args, 0), Shape::List);
    call.steps(LOOKED_AT)?;
    Ok(match read {
        Ok(value) => {
            charge_value(call, &value)?;
            value
        }
        Err(error) => Value::list(vec![Value::from(error)]),
    })
}
