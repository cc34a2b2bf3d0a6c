//! Template functions against what Sprig 3.3 made of the same arguments: output, or the error text.
#![allow(clippy::unwrap_used, clippy::panic)] // clippy does not see that helpers of tests are tests

use convoy_gotemplate::{Elem, List, Map, MissingKey, Session, Templates, Value, parse};
use convoy_helm::functions::{Entropy, Environment, functions};
use serde_json::Value as Json;

/// The same bytes for each run.
struct Counter(u8);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(5).wrapping_add(7);
            *byte = self.0;
        }
    }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => Value::Float64(number.as_f64().unwrap()),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(entries) => match entries.iter().next() {
            Some((kind, inner)) if kind.starts_with('$') => match kind.as_str() {
                "$int" => Value::Int(inner.as_i64().unwrap()),
                "$int64" => Value::Int64(inner.as_i64().unwrap()),
                "$bytes" => Value::Bytes(inner.as_str().unwrap().into()),
                "$strings" => {
                    Value::List(List::strings(inner.as_array().unwrap().iter().map(|s| s.as_str().unwrap())))
                }
                "$smap" => {
                    let entries = inner.as_object().unwrap().iter();
                    let entries = entries.map(|(k, v)| (k.as_str().into(), value(v))).collect();
                    Value::Map(Map::with_elem(Elem::String, entries))
                }
                other => panic!("unknown type {other}"),
            },
            _ => Value::map(entries.iter().map(|(key, inner)| (key.as_str(), value(inner)))),
        },
    }
}

fn run(text: &str, data: &Value) -> Result<String, String> {
    let mut templates = Templates::new();
    templates.add(&parse("main", text.as_bytes(), functions()).map_err(|error| error.to_string())?);
    let mut environment = Environment::new("2026-11-29T19:00:00Z".parse().unwrap(), Counter(1));
    let output = Session::new()
        .with_missing_key(MissingKey::Zero)
        .with_host(&mut environment)
        .execute(&templates, b"main", data);
    output.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.to_string())
}

#[test]
fn functions_give_and_fail_as_in_sprig() {
    let mut lines = include_str!("data/sprig-3.3.jsonl").lines();
    let head: Json = serde_json::from_str(lines.next().unwrap()).unwrap();
    let mut count = 0;
    for line in lines {
        let case: Json = serde_json::from_str(line).unwrap();
        let wanted = match case["out"].as_str() {
            Some(output) => Ok(output.to_owned()),
            None => Err(case["err"].as_str().unwrap().to_owned()),
        };
        let text = case["main"].as_str().unwrap();
        // Some cases change their arguments, so each gets its own.
        assert_eq!(run(text, &value(&head["data"])), wanted, "{text}");
        count += 1;
    }
    assert!(count >= 1_500, "only {count} cases");
}

#[test]
fn helms_own_functions_work_on_the_running_templates() {
    let cases = [
        (
            r#"{{ define "t" }}<{{ . }}>{{ end }}{{ include "t" 1 }}{{ tpl "{{ include \"t\" . }}" 2 }}"#,
            "<1><2>",
        ),
        (r#"{{ tpl "{{ define \"inner\" }}i{{ end }}{{ include \"inner\" . }}" . }}"#, "i"),
        (r#"{{ tpl "{{ .nope }}" (dict) | quote }}"#, r#""""#),
        (r#"{{ lookup "v1" "Secret" "ns" "name" | len }}"#, "0"),
        (r#"{{ toYaml (dict "b" (list 1 "1" "yes") "a" (dict)) }}"#, "a: {}\nb:\n- 1\n- \"1\"\n- \"yes\""),
        (r#"{{ (fromYaml "a: [1, x]").a | toJson }}"#, r#"[1,"x"]"#),
        (r#"{{ $m := dict "a" 1 }}{{ $_ := set $m "b" 2 }}{{ toJson $m }}"#, r#"{"a":1,"b":2}"#),
        ("{{ uuidv4 | len }} {{ randAlphaNum 7 | len }}", "36 7"),
    ];
    for (text, wanted) in cases {
        assert_eq!(run(text, &Value::Nil).as_deref(), Ok(wanted), "{text}");
    }
    let error = run(r#"{{ required "give .x" "" }}"#, &Value::Nil).unwrap_err();
    assert!(error.ends_with("error calling required: HELM_ERR_STARTgive .xHELM_ERR_END"), "{error}");
}

#[test]
fn certificates_are_repeatable_with_the_same_entropy() {
    let text = r#"{{ $ca := genCA "ca" 10 }}{{ (genSignedCert "svc" (list "10.0.0.1") (list "svc.ns") 5 $ca).Cert }}"#;
    let first = run(text, &Value::Nil).unwrap();
    assert!(first.starts_with("-----BEGIN CERTIFICATE-----\n"));
    assert_eq!(run(text, &Value::Nil).unwrap(), first);
}
