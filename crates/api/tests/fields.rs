//! `docs/src/fields.md` leads from each field of each spec to the tests that would fail if it were ignored.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use convoy_api::kinds;
use serde_json::Value;

const PAGE: &str = "docs/src/fields.md";
/// The kind whose specs nobody but convoy writes.
const NOTES_OF_CONVOY: &str = "ReleaseInventory";
/// How a row begins that names no test.
const NOT_SHOWN: &str = "not shown yet: ";
/// Rows without a test. It may only become smaller.
const MOST_NOT_SHOWN: usize = 3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The fields in which something can stand: those that have no fields of their own.
fn leaves(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(fields) = schema["properties"].as_object() {
        fields.iter().for_each(|(name, field)| leaves(&format!("{path}.{name}"), field, found));
    } else if schema["items"]["properties"].is_object() {
        leaves(&format!("{path}[]"), &schema["items"], found);
    } else if schema["additionalProperties"]["properties"].is_object() {
        leaves(&format!("{path}.*"), &schema["additionalProperties"], found);
    } else {
        found.insert(path.to_owned());
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names of the functions of a file that are tests.
fn tests_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        }
        let (before, rest) = line.split_once("fn ").unwrap_or(("x", ""));
        if is_test && before.split_whitespace().all(|word| word == "async") {
            names.extend(rest.split(['(', '<']).next().map(str::to_owned));
            is_test = false;
        }
    }
    names
}

/// What is wrong with a page, for fields (kind and path) and tests that exist; and how many rows name no test.
fn faults(page: &str, fields: &BTreeSet<String>, tests: &BTreeSet<String>) -> (Vec<String>, usize) {
    let mut rows: BTreeMap<String, &str> = BTreeMap::new();
    let mut faults = Vec::new();
    for line in page.lines().filter(|line| line.contains("| `spec.")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [kind, path, shown] = cells[..] else {
            faults.push(format!("the row has not three cells: {line}"));
            continue;
        };
        let field = format!("{kind} {}", path.trim_matches('`'));
        if rows.insert(field.clone(), shown).is_some() {
            faults.push(format!("{field} has two rows"));
        }
    }
    let mut not_shown = 0;
    for field in fields {
        let Some(shown) = rows.remove(field) else {
            faults.push(format!("{field} has no row: name a test that fails when it is ignored"));
            continue;
        };
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        if shown.starts_with(NOT_SHOWN) {
            not_shown += 1;
        } else if named.is_empty() {
            faults.push(format!("{field} names no test"));
        }
        let missing = named.iter().filter(|name| !tests.contains(**name));
        faults.extend(missing.map(|name| format!("{field} names the test {name}, which is nowhere")));
    }
    faults.extend(rows.keys().map(|field| format!("{field} has a row and is no field")));
    (faults, not_shown)
}

#[test]
fn each_field_of_each_spec_has_a_test_that_fails_when_it_is_ignored() {
    let mut fields = BTreeSet::new();
    for kind in kinds().iter().filter(|kind| kind.kind != NOTES_OF_CONVOY) {
        let mut found = BTreeSet::new();
        leaves("spec", &kind.schema["properties"]["spec"], &mut found);
        fields.extend(found.into_iter().map(|path| format!("{} {path}", kind.kind)));
    }
    assert!(fields.len() > 90, "{fields:?}");
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    let tests: BTreeSet<String> =
        files.iter().flat_map(|file| tests_in(&std::fs::read_to_string(file).unwrap())).collect();
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    let (faults, not_shown) = faults(&page, &fields, &tests);
    assert!(faults.is_empty(), "{PAGE}:\n{}", faults.join("\n"));
    assert!(not_shown <= MOST_NOT_SHOWN, "{not_shown} rows of {PAGE} name no test");
}

#[test]
fn a_page_with_a_gap_a_stray_row_or_a_made_up_test_is_not_taken() {
    let tests: BTreeSet<String> =
        tests_in("#[test]\nfn one_is_there() {}\n    #[tokio::test(flavor = \"x\")]\n    async fn two() {}\nfn helper() {}\n")
            .into_iter()
            .collect();
    assert_eq!(tests, ["one_is_there", "two"].map(str::to_owned).into());
    let fields: BTreeSet<String> = ["A spec.a", "A spec.b[].c"].map(str::to_owned).into();
    let of = |rows: &str| faults(rows, &fields, &tests);
    let good =
        "| A | `spec.a` | `one_is_there`, `two` |\n| A | `spec.b[].c` | not shown yet: needs a cloud |\n";
    assert_eq!(of(good), (Vec::new(), 1));
    for (bad, want) in [
        (good.replace("one_is_there", "helper"), "which is nowhere"),
        (good.replace("`one_is_there`, `two`", "trust us"), "names no test"),
        (good.replace("spec.a", "spec.d"), "has no row"),
        (good.replace("spec.a", "spec.d"), "is no field"),
        (format!("{good}{good}"), "has two rows"),
    ] {
        let (found, _) = of(&bad);
        assert!(found.iter().any(|fault| fault.contains(want)), "{want}: {found:?}");
    }
    let nested = serde_json::json!({"properties": {
        "a": {"type": "string"},
        "b": {"items": {"properties": {"c": {}}}},
        "d": {"items": {"type": "string"}},
        "e": {"additionalProperties": {"type": "string"}},
    }});
    let mut found = BTreeSet::new();
    leaves("spec", &nested, &mut found);
    assert_eq!(found, ["spec.a", "spec.b[].c", "spec.d", "spec.e"].map(str::to_owned).into());
}
