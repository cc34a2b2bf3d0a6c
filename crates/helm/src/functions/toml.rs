//! TOML as BurntSushi/toml writes it: tables last, indented by their depth.

use convoy_gotemplate::{Call, Elem, FuncError, Limit, List, Map, Value, format_float};

use super::arguments::{Outcome, any, string, text};
use super::json::{Plain, plain, utf8};
use super::room::{Room, charge_value, check_reading};

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

const MAX_NESTING: usize = 500;

#[derive(Default)]
struct Writer {
    out: String,
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\x0c' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\x1f' | '\x7f' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

fn bare(key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if plain { key.to_owned() } else { quoted(key) }
}

fn dotted(path: &[String]) -> String {
    path.iter().map(|key| bare(key)).collect::<Vec<_>>().join(".")
}

// A map of the value, when it is one.
fn table(value: &Value) -> Option<Vec<(String, Value)>> {
    match (plain(value), value) {
        (Plain::Map(entries), _) => {
            Some(entries.into_iter().map(|(key, value)| (utf8(&key), value)).collect())
        }
        (Plain::Other, Value::Map(map)) => {
            Some(map.entries().into_iter().map(|(key, value)| (utf8(&key), value)).collect())
        }
        _ => None,
    }
}

// The tables of a list that holds nothing else.
fn tables(value: &Value) -> Option<Vec<Vec<(String, Value)>>> {
    let Value::List(list) = value else { return None };
    let items = list.to_vec();
    if items.is_empty() {
        return None;
    }
    items.iter().map(table).collect()
}

impl Writer {
    fn newline(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn indent(&mut self, path: &[String]) {
        self.out.extend(std::iter::repeat_n("  ", path.len().saturating_sub(1)));
    }

    fn entries(
        &mut self,
        path: &[String],
        entries: Vec<(String, Value)>,
        room: &mut Room<'_, '_, '_>,
    ) -> Result<(), FuncError> {
        room.check(self.out.len())?;
        if path.len() > MAX_NESTING {
            return Err(FuncError::limit(Limit::Nesting));
        }
        let (last, first): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(_, value)| table(value).is_some() || tables(value).is_some());
        for (key, value) in first.into_iter().chain(last) {
            if value.is_any_nil() {
                continue;
            }
            let mut own = path.to_vec();
            own.push(key);
            if let Some(entries) = table(&value) {
                if own.len() == 1 {
                    self.newline();
                }
                self.indent(&own);
                self.out.push_str(&format!("[{}]\n", dotted(&own)));
                self.entries(&own, entries, room)?;
            } else if let Some(items) = tables(&value) {
                for entries in items {
                    self.newline();
                    self.indent(&own);
                    self.out.push_str(&format!("[[{}]]\n", dotted(&own)));
                    self.entries(&own, entries, room)?;
                }
            } else {
                self.indent(&own);
                let key = own.last().map(|key| bare(key)).unwrap_or_default();
                let element = element(&value, 0, room)?;
                self.out.push_str(&format!("{key} = {element}\n"));
            }
        }
        Ok(())
    }
}

fn element(value: &Value, depth: usize, room: &mut Room<'_, '_, '_>) -> Result<String, FuncError> {
    if depth > MAX_NESTING {
        return Err(FuncError::limit(Limit::Nesting));
    }
    if let Some(entries) = table(value) {
        let mut parts = Vec::new();
        let mut size = 0;
        for (key, value) in entries.iter().filter(|(_, value)| !value.is_any_nil()) {
            let part = format!("{} = {}", bare(key), element(value, depth + 1, room)?);
            size += part.len();
            room.check(size)?;
            parts.push(part);
        }
        return Ok(format!("{{{}}}", parts.join(", ")));
    }
    Ok(match value {
        Value::Bool(truth) => truth.to_string(),
        Value::Int(i) | Value::Int64(i) => i.to_string(),
        Value::Int32(i) => i.to_string(),
        Value::Uint8(u) => u.to_string(),
        Value::Uint32(u) => u.to_string(),
        Value::Uint64(u) => u.to_string(),
        Value::Float64(f) if f.is_nan() => "nan".into(),
        Value::Float64(f) if f.is_infinite() => if *f > 0.0 { "inf" } else { "-inf" }.into(),
        Value::Float64(f) => {
            let text = format_float(*f, 'g', -1);
            if text.contains(['e', '.']) { text } else { format!("{text}.0") }
        }
        Value::String(text) => quoted(&utf8(text)),
        Value::Bytes(bytes) => {
            format!("[{}]", bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(", "))
        }
        Value::List(list) => {
            let mut parts = Vec::new();
            let mut size = 0;
            for item in list.to_vec() {
                if item.is_nil() {
                    return Err(FuncError::new("toml: cannot encode array with nil element"));
                }
                let part = element(&item, depth + 1, room)?;
                size += part.len() + 2;
                room.check(size)?;
                parts.push(part);
            }
            format!("[{}]", parts.join(", "))
        }
        other => match plain(other) {
            Plain::Text(text) => text,
            _ => return Err(FuncError::new(format!("unexpected type: {}", other.type_name()))),
        },
    })
}

fn encode(call: &mut Call<'_, '_>, value: &Value) -> Result<String, FuncError> {
    let mut room = Room::of(call);
    let mut writer = Writer::default();
    match table(value) {
        Some(entries) => writer.entries(&[], entries, &mut room)?,
        None if value.is_any_nil() => {}
        None => return Err(FuncError::new("toml: top-level values must be Go maps or structs")),
    }
    Ok(writer.out)
}

pub(super) fn to_toml(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    match encode(call, &any(args, 0)) {
        Err(error) if error.reached_limit().is_none() => string(error.to_string()),
        other => string(other?),
    }
}

pub(super) fn must_to_toml(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    string(encode(call, &any(args, 0))?)
}

fn convert(value: toml::Value, depth: usize) -> Result<Value, String> {
    if depth > MAX_NESTING {
        return Err("toml: nested too deeply".into());
    }
    Ok(match value {
        toml::Value::String(text) => Value::from(text),
        toml::Value::Integer(i) => Value::Int64(i),
        toml::Value::Float(f) => Value::Float64(f),
        toml::Value::Boolean(truth) => Value::Bool(truth),
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(items) => {
            let tables = !items.is_empty() && items.iter().all(toml::Value::is_table);
            let items =
                items.into_iter().map(|item| convert(item, depth + 1)).collect::<Result<Vec<_>, _>>()?;
            Value::List(List::with_elem(if tables { Elem::Map } else { Elem::Any }, items))
        }
        toml::Value::Table(entries) => {
            let mut converted = std::collections::BTreeMap::new();
            for (key, value) in entries {
                converted.insert(key.into(), convert(value, depth + 1)?);
            }
            Value::Map(Map::new(converted))
        }
    })
}

fn decode(text: &str) -> Result<Value, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(text.len(), |span| span.start.min(text.len()));
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let current = text.lines().nth(line - 1).unwrap_or_default();
        let (key, value) = current.split_once('=').unwrap_or((current, "?"));
        let why = if value.trim().is_empty() && at + value.len() >= text.trim_end().len() {
            "unexpected EOF; expected value".to_owned()
        } else {
            error.message().lines().next().unwrap_or_default().to_owned()
        };
        format!("toml: line {line} (last key \"{}\"): {why}", key.trim())
    })?;
    convert(toml::Value::Table(table), 0)
}

pub(super) fn from_toml(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let source = text(args, 0);
    // Its reader is slow, and cannot be stopped.
    call.check_text(source.len().saturating_mul(8))?;
    check_reading(call, &source)?;
    Ok(match decode(&utf8(&source)) {
        Ok(value) => {
            charge_value(call, &value)?;
            value
        }
        Err(error) => Value::map([("Error", Value::from(error))]),
    })
}
