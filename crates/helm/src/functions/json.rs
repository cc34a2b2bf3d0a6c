//! JSON as Go's encoding/json writes it.

use std::fmt::Write as _;

use convoy_gotemplate::{Call, FuncError, Kind, Limit, MAX_NESTING, Str, Value, format_float, runes};

use super::arguments::{Outcome, any, string, text};
use super::json_read::{self, Shape};
use super::room::{Room, charge_value, check_reading};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

/// How JSON text is laid out.
#[derive(Clone, Copy)]
struct Style {
    escape_html: bool,
    pretty: bool,
}

/// A string as JSON holds it: bytes that are no UTF-8 become U+FFFD.
pub(super) fn utf8(text: &[u8]) -> String {
    match std::str::from_utf8(text) {
        Ok(text) => text.to_owned(),
        Err(_) => runes(text).collect(),
    }
}

/// A value with JSON's shapes alone: objects of the host become maps or text.
pub(super) enum Plain {
    Null,
    Text(String),
    Map(Vec<(Str, Value)>),
    Other,
}

/// What an object is in JSON.
pub(super) fn plain(value: &Value) -> Plain {
    match value {
        Value::Object(object) => {
            if let Some(entries) = object.entries() {
                return Plain::Map(entries);
            }
            if let Some(text) = object.json() {
                return Plain::Text(utf8(&text));
            }
            let fields = object.json_fields();
            if fields.is_empty() && !matches!(object.kind(), Kind::Struct | Kind::Ptr) {
                return Plain::Null;
            }
            Plain::Map(fields.into_iter().map(|(name, value)| (Str::from(name), value)).collect())
        }
        Value::Bytes(bytes) => Plain::Text(super::encoding::base64(bytes)),
        other if other.is_any_nil() => Plain::Null,
        _ => Plain::Other,
    }
}

/// Go's text of a float in JSON.
pub(super) fn float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format_float(value, 'e', -1);
        // e-09 is written e-9.
        match text.split_once("e-0") {
            Some((mantissa, digit)) => format!("{mantissa}e-{digit}"),
            None => text,
        }
    } else {
        format_float(value, 'f', -1)
    }
}

fn encode(call: &mut Call<'_, '_>, value: &Value, style: Style) -> Result<String, FuncError> {
    let mut out = String::new();
    write(&mut out, value, style, 0, &mut Room::of(call))?;
    Ok(out)
}

fn line(out: &mut String, style: Style, depth: usize) {
    if style.pretty {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    }
}

fn write(
    out: &mut String,
    value: &Value,
    style: Style,
    depth: usize,
    room: &mut Room<'_, '_, '_>,
) -> Result<(), FuncError> {
    room.check(out.len())?;
    if depth > MAX_NESTING {
        return Err(FuncError::limit(Limit::Nesting));
    }
    match plain(value) {
        Plain::Null => out.push_str("null"),
        Plain::Text(text) => write_string(out, &text, style),
        Plain::Map(entries) => write_map(out, &entries, style, depth, room)?,
        Plain::Other => match value {
            Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Value::Int(i) | Value::Int64(i) => out.push_str(&i.to_string()),
            Value::Int32(i) => out.push_str(&i.to_string()),
            Value::Uint8(u) => out.push_str(&u.to_string()),
            Value::Uint32(u) => out.push_str(&u.to_string()),
            Value::Uint64(u) => out.push_str(&u.to_string()),
            Value::Float64(f) if !f.is_finite() => {
                return Err(FuncError::new(format!(
                    "json: unsupported value: {}",
                    format_float(*f, 'g', -1)
                )));
            }
            Value::Float64(f) => out.push_str(&float(*f)),
            Value::String(text) => match std::str::from_utf8(text) {
                Ok(text) => write_string(out, text, style),
                Err(_) => write_broken(out, text, style),
            },
            Value::List(list) => {
                let items = list.to_vec();
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    line(out, style, depth + 1);
                    write(out, item, style, depth + 1, room)?;
                }
                if !items.is_empty() {
                    line(out, style, depth);
                }
                out.push(']');
            }
            Value::Map(map) => write_map(out, &map.entries(), style, depth, room)?,
            Value::Nil | Value::Bytes(_) | Value::Object(_) => out.push_str("null"),
        },
    }
    Ok(())
}

fn write_map(
    out: &mut String,
    entries: &[(Str, Value)],
    style: Style,
    depth: usize,
    room: &mut Room<'_, '_, '_>,
) -> Result<(), FuncError> {
    out.push('{');
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        line(out, style, depth + 1);
        write_string(out, &utf8(key), style);
        out.push_str(if style.pretty { ": " } else { ":" });
        write(out, value, style, depth + 1, room)?;
    }
    if !entries.is_empty() {
        line(out, style, depth);
    }
    out.push('}');
    Ok(())
}

fn write_string(out: &mut String, text: &str, style: Style) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '<' | '>' | '&' if style.escape_html => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            '\0'..='\x1f' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

// Bytes that are no UTF-8 are written as an escape, the character U+FFFD itself is not.
fn write_broken(out: &mut String, text: &[u8], style: Style) {
    out.push('"');
    for chunk in text.utf8_chunks() {
        let mut valid = String::new();
        write_string(&mut valid, chunk.valid(), style);
        out.push_str(valid.get(1..valid.len() - 1).unwrap_or_default());
        for _ in chunk.invalid() {
            out.push_str("\\ufffd");
        }
    }
    out.push('"');
}

const COMPACT: Style = Style { escape_html: true, pretty: false };
const PRETTY: Style = Style { escape_html: true, pretty: true };
const RAW: Style = Style { escape_html: false, pretty: false };

// The functions without `must` give empty text where these fail, but a limit is a limit.
fn or_empty(result: Result<String, FuncError>) -> Outcome {
    match result {
        Err(error) if error.reached_limit().is_none() => string(""),
        other => string(other?),
    }
}

pub(super) fn to_json(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    or_empty(encode(call, &any(args, 0), COMPACT))
}

pub(super) fn must_to_json(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(encode(call, &any(args, 0), COMPACT)?)
}

pub(super) fn to_pretty_json(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    or_empty(encode(call, &any(args, 0), PRETTY))
}

pub(super) fn must_to_pretty_json(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(encode(call, &any(args, 0), PRETTY)?)
}

pub(super) fn to_raw_json(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(encode(call, &any(args, 0), RAW)?)
}

fn charged(call: &mut Call<'_, '_>, value: Value) -> Outcome {
    charge_value(call, &value)?;
    Ok(value)
}

pub(super) fn from_json(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    check_reading(call, &text(args, 0))?;
    let read = json_read::read(&text(args, 0), Shape::Map);
    charged(call, read.unwrap_or_else(|error| Value::map([("Error", Value::from(error))])))
}

pub(super) fn from_json_array(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    check_reading(call, &text(args, 0))?;
    let read = json_read::read(&text(args, 0), Shape::List);
    charged(call, read.unwrap_or_else(|error| Value::list(vec![Value::from(error)])))
}

pub(super) fn must_from_json(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    check_reading(call, &text(args, 0))?;
    charged(call, json_read::read(&text(args, 0), Shape::Any).map_err(FuncError::new)?)
}
