//! values.schema.json, held to what helm v4.2.4 said of the same schemas and values (data/schema.jsonl).

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, as tests do")]

use convoy_helm::{
    Capabilities, Chart, Data, Entropy, Environment, ReleaseOptions, RenderError, Values, render,
};
use serde_json::Value as Json;

struct Zeros;

impl Entropy for Zeros {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// What the error says of the chart's own schema; its lines in an order that does not change.
fn error(schema: &str, values: &Values) -> Option<String> {
    let files =
        [("Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n"), ("values.schema.json", schema)];
    let chart = Chart::load(files.map(|(name, text)| (name.to_owned(), text))).unwrap();
    let mut environment = Environment::new(jiff::Timestamp::UNIX_EPOCH, Zeros);
    let result =
        render(&chart, values, &ReleaseOptions::default(), &Capabilities::default(), &mut environment);
    match result {
        Ok(_) => None,
        Err(RenderError::Schema(error)) => {
            Some(sorted(error.details.strip_prefix("app:\n").unwrap().trim_end_matches('\n')))
        }
        Err(other) => panic!("{other}"),
    }
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[test]
fn violations_are_told_in_helms_words() {
    let mut wrong = Vec::new();
    let table = include_str!("data/schema.jsonl");
    for line in table.lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        let schema = case["schema"].as_str().unwrap();
        let Data::Map(values) = Data::from(&case["values"]) else { panic!("{line}") };
        let (found, wanted) = (error(schema, &values), case["error"].as_str().map(sorted));
        if found != wanted {
            wrong.push(format!("{schema}\n{}\nhelm: {wanted:?}\nours: {found:?}\n", case["values"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), table.lines().count(), wrong.join("\n"));
}

#[test]
fn a_schema_that_refers_to_itself_in_many_ways_ends() {
    let definitions: Vec<String> = (0..60)
        .map(|n| {
            format!(
                r##""d{n}": {{"allOf": [{{"$ref": "#/$defs/d{0}"}}, {{"$ref": "#/$defs/d{0}"}}]}}"##,
                n + 1
            )
        })
        .collect();
    let schema = format!(
        r##"{{"$defs": {{{}, "d60": {{"type": "object"}}}}, "$ref": "#/$defs/d0"}}"##,
        definitions.join(", ")
    );
    let error = error(&schema, &Values::new()).unwrap_or_default();
    assert!(error.starts_with("the schema takes too many steps to check: at most 1000000"), "{error}");
}

#[test]
fn nothing_outside_of_a_schema_is_read() {
    for address in ["https://example.com/x.json", "file:///etc/passwd"] {
        let schema = format!(r#"{{"$ref": "{address}"}}"#);
        let text = error(&schema, &Values::new()).unwrap();
        assert!(text.starts_with(&format!("failing loading \"{address}\": ")), "{text}");
    }
}
