//! Templates against what Go 1.26's text/template made of them: output, or the error text.
#![allow(clippy::unwrap_used, clippy::panic)] // clippy does not see that helpers of tests are tests

use convoy_gotemplate::{Elem, Functions, List, Map, MissingKey, Session, Templates, Value, parse};
use serde_json::Value as Json;

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => Value::Float64(number.as_f64().unwrap()),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(entries) => {
            let mut all = entries.iter();
            match all.next() {
                // A number or collection of another Go type.
                Some((kind, inner)) if kind.starts_with('$') && entries.len() == 1 => typed(kind, inner),
                _ => Value::map(entries.iter().map(|(key, inner)| (key.as_str(), value(inner)))),
            }
        }
    }
}

fn typed(kind: &str, inner: &Json) -> Value {
    match kind {
        "$int" => Value::Int(inner.as_i64().unwrap()),
        "$int64" => Value::Int64(inner.as_i64().unwrap()),
        "$u8" => Value::Uint8(u8::try_from(inner.as_u64().unwrap()).unwrap()),
        "$bytes" => Value::Bytes(inner.as_str().unwrap().into()),
        "$strings" => {
            Value::List(List::strings(inner.as_array().unwrap().iter().map(|s| s.as_str().unwrap())))
        }
        "$smap" => {
            let entries = inner.as_object().unwrap().iter();
            Value::Map(Map::with_elem(
                Elem::String,
                entries.map(|(k, v)| (k.as_str().into(), value(v))).collect(),
            ))
        }
        // The bytes FF 41 FF, which are no text.
        "$b64" => Value::string(&b"\xffA\xff"[..]),
        other => panic!("unknown type {other}"),
    }
}

fn run(case: &Json, data: &Value) -> Result<String, String> {
    let functions = Functions::new();
    let mut templates = Templates::new();
    for (name, key) in [("dir/h.tpl", "helper"), ("main", "main")] {
        let parsed = parse(name, case[key].as_str().unwrap().as_bytes(), &functions);
        templates.add(&parsed.map_err(|error| error.to_string())?);
    }
    let missing = match case["missing"].as_str().unwrap() {
        "zero" => MissingKey::Zero,
        "error" => MissingKey::Error,
        _ => MissingKey::Invalid,
    };
    let output = Session::new().with_missing_key(missing).execute(&templates, b"main", data);
    output.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.to_string())
}

#[test]
fn templates_print_and_fail_as_in_go() {
    let mut lines = include_str!("data/go-1.26.jsonl").lines();
    let head: Json = serde_json::from_str(lines.next().unwrap()).unwrap();
    let data = value(&head["data"]);
    let mut count = 0;
    for line in lines {
        let case: Json = serde_json::from_str(line).unwrap();
        let wanted = match case["out"].as_str() {
            Some(output) => Ok(output.to_owned()),
            None => Err(case["err"].as_str().unwrap().to_owned()),
        };
        assert_eq!(run(&case, &data), wanted, "{case:#}");
        count += 1;
    }
    assert!(count >= 500, "only {count} cases");
}
