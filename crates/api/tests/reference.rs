//! `docs/src/api-reference.md` is made from the types; a test keeps it true.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;
use std::path::Path;

use convoy_api::{KindInfo, kinds};
use serde_json::Value;

const HEAD: &str = "\
# API reference

This page is made from the types: `CONVOY_UPDATE_DOCS=1 cargo test -p convoy-api --test reference` writes it anew. `kubectl explain`
prints the same texts. All kinds are of `convoy.kumodo.io/v1alpha1`, and have `metadata` as every Kubernetes object does.
";

/// In one line, as a cell of a table. What is outside of code is no HTML.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let parts = line.split('`').enumerate();
    let parts = parts.map(|(n, part)| if n % 2 == 0 { part.replace('<', "&lt;") } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

fn type_of(schema: &Value) -> String {
    let own = |schema: &Value| schema["type"].as_str().unwrap_or("any").to_owned();
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", own(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map of {}", own(&schema["additionalProperties"]))
        }
        _ => own(schema),
    }
}

fn notes(schema: &Value, is_required: bool) -> String {
    let mut notes = Vec::new();
    if is_required {
        notes.push("required".to_owned());
    }
    if let Some(default) = schema.get("default") {
        notes.push(format!("default `{default}`"));
    }
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> =
            choices.iter().filter_map(Value::as_str).map(|choice| format!("`{choice}`")).collect();
        notes.push(format!("one of {}", choices.join(", ")));
    }
    for (key, word) in [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("maxLength", "length at most"),
        ("maxItems", "items at most"),
    ] {
        if let Some(bound) = schema[key].as_number() {
            notes.push(format!("{word} {bound}"));
        }
    }
    notes.join("; ")
}

fn fields(page: &mut String, path: &str, schema: &Value) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let about = cell(field["description"].as_str().unwrap_or_default());
        let notes = cell(&notes(field, required.contains(&name.as_str())));
        let _ = writeln!(page, "| `{path}` | {} | {notes} | {about} |", type_of(field));
        fields(page, &path, field);
        fields(page, &format!("{path}[]"), &field["items"]);
        fields(page, &format!("{path}.*"), &field["additionalProperties"]);
    }
}

fn section(page: &mut String, kind: &KindInfo) {
    let about = kind.schema["description"].as_str().unwrap_or_default();
    let mut names = vec![kind.plural, kind.singular];
    names.extend(kind.short_names);
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let _ = write!(page, "\n## {}\n\n{}\n\nFor kubectl: {}.\n", kind.kind, cell(about), names.join(", "));
    for part in ["spec", "status"] {
        let schema = &kind.schema["properties"][part];
        if schema.is_object() {
            page.push_str("\n| field | type | | what it is |\n|---|---|---|---|\n");
            fields(page, part, schema);
        }
    }
}

#[test]
fn the_docs_page_of_the_api_is_what_the_types_say() {
    let mut page = HEAD.to_owned();
    let kinds = kinds();
    assert!(kinds.len() > 5);
    kinds.iter().for_each(|kind| section(&mut page, kind));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/api-reference.md");
    if std::env::var_os("CONVOY_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/src/api-reference.md is out of date: run CONVOY_UPDATE_DOCS=1 cargo test -p convoy-api --test reference"
    );
}
