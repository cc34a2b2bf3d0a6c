//! `toYamlPretty`: YAML as go.yaml.in/yaml/v3 writes it with two spaces: lists are indented, lines are not
//! folded, and numbers keep Go's forms.

use convoy_gotemplate::{Call, FuncError, Kind, Limit, Value};
use convoy_yaml::Emitter;

use super::arguments::{Outcome, any, string};
use super::json::{Plain, plain, utf8};
use super::room::Room;
use super::sorting::in_natural_order;

type Ctx<'a, 'c, 'r> = &'a mut Call<'c, 'r>;

const MAX_NESTING: usize = 500;

pub(super) fn to_yaml_pretty(call: Ctx<'_, '_, '_>, args: &[Value]) -> Outcome {
    let mut out = String::new();
    write(&mut out, &any(args, 0), 0, Place::Start, &mut Room::of(call))?;
    string(out.trim_end_matches('\n'))
}

/// What stands before a node on its line.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Start,
    Key,
    Dash,
}

fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

// Writes a node whose lines start at `indent`, with the line feed after it.
fn write(
    out: &mut String,
    value: &Value,
    indent: usize,
    place: Place,
    room: &mut Room<'_, '_, '_>,
) -> Result<(), FuncError> {
    room.check(out.len())?;
    if indent / 2 > MAX_NESTING {
        return Err(FuncError::limit(Limit::Nesting));
    }
    if let Some(fields) = fields(value) {
        return mapping(out, &fields, indent, place, room);
    }
    let entries = match (plain(value), value) {
        // A nil map or list is an empty one here.
        (Plain::Null, Value::Map(_)) => Some(Vec::new()),
        (Plain::Map(entries), _) => Some(entries),
        (Plain::Other, Value::Map(map)) => Some(map.entries()),
        _ => None,
    };
    if let Some(entries) = entries {
        let entries = entries.into_iter().map(|(key, value)| (utf8(&key), value)).collect();
        return mapping(out, &in_natural_order(entries, room)?, indent, place, room);
    }
    if let Value::List(list) = value {
        let items = list.to_vec();
        if items.is_empty() {
            out.push_str(if place == Place::Start { "[]\n" } else { " []\n" });
            return Ok(());
        }
        open(out, place);
        for (index, item) in items.iter().enumerate() {
            if index > 0 || place != Place::Dash {
                spaces(out, indent);
            }
            out.push('-');
            write(out, item, indent + 2, Place::Dash, room)?;
        }
        return Ok(());
    }
    if place != Place::Start {
        out.push(' ');
    }
    scalar(out, value, indent);
    Ok(())
}

// The exported fields of a struct. The library knows no tags for JSON: it writes names in lower case.
fn fields(value: &Value) -> Option<Vec<(String, Value)>> {
    let Value::Object(object) = value else { return None };
    if !matches!(object.kind(), Kind::Struct | Kind::Ptr) || object.json().is_some() {
        return None;
    }
    let exported =
        object.fields().into_iter().filter(|(name, _)| name.starts_with(|c: char| c.is_uppercase()));
    Some(exported.map(|(name, value)| (name.to_lowercase(), value)).collect())
}

// A collection begins on the next line after a key, and beside a dash.
fn open(out: &mut String, place: Place) {
    match place {
        Place::Start => {}
        Place::Key => out.push('\n'),
        Place::Dash => out.push(' '),
    }
}

fn mapping(
    out: &mut String,
    entries: &[(String, Value)],
    indent: usize,
    place: Place,
    room: &mut Room<'_, '_, '_>,
) -> Result<(), FuncError> {
    if entries.is_empty() {
        out.push_str(if place == Place::Start { "{}\n" } else { " {}\n" });
        return Ok(());
    }
    open(out, place);
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 || place != Place::Dash {
            spaces(out, indent);
        }
        out.push_str(&one_line(|emitter| emitter.string(key)));
        out.push(':');
        write(out, value, indent + 2, Place::Key, room)?;
    }
    Ok(())
}

// What the emitter for YAML 1.1 writes for a scalar, without its folds.
fn one_line(emit: impl FnOnce(&mut Emitter)) -> String {
    let mut emitter = Emitter::new();
    emit(&mut emitter);
    let text = emitter.finish();
    let mut lines = text.trim_end_matches('\n').lines();
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        if out.ends_with('\\') {
            out.pop();
        } else {
            out.push(' ');
        }
        out.push_str(line.trim_start().trim_start_matches('\\'));
    }
    out
}

fn scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(text) => {
            let text = utf8(text);
            let literal =
                text.contains('\n') && !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
            if literal {
                block(out, &text, indent);
            } else {
                out.push_str(&one_line(|emitter| emitter.string(&text)));
                out.push('\n');
            }
        }
        other => {
            out.push_str(&one_line(|emitter| match other {
                Value::Bool(truth) => emitter.boolean(*truth),
                Value::Int(i) | Value::Int64(i) => emitter.integer(*i),
                Value::Int32(i) => emitter.integer(i64::from(*i)),
                Value::Uint8(u) => emitter.integer(i64::from(*u)),
                Value::Uint32(u) => emitter.integer(i64::from(*u)),
                Value::Uint64(u) => emitter.unsigned(*u),
                Value::Float64(f) => emitter.float(*f),
                _ => match plain(other) {
                    Plain::Text(text) => emitter.string(&text),
                    _ => emitter.null(),
                },
            }));
            out.push('\n');
        }
    }
}

// A literal block; how it ends says how many line feeds are kept.
fn block(out: &mut String, text: &str, indent: usize) {
    let indent = indent.max(2);
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    let body = match text.strip_suffix('\n') {
        None => {
            out.push('-');
            text
        }
        Some(body) if body.ends_with('\n') || body.is_empty() => {
            out.push('+');
            body
        }
        Some(body) => body,
    };
    out.push('\n');
    for line in body.split('\n') {
        if !line.is_empty() {
            spaces(out, indent);
            out.push_str(line);
        }
        out.push('\n');
    }
}
