//! What users look up is documented.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The string constants of a module in `condition.rs`.
fn constants(source: &str, module: &str) -> Vec<String> {
    let start = source.find(&format!("pub mod {module} {{")).unwrap();
    let body = &source[start..start + source[start..].find("\n}").unwrap()];
    body.lines()
        .filter(|line| line.trim_start().starts_with("pub const "))
        .filter_map(|line| line.split('"').nth(1).map(str::to_owned))
        .collect()
}

#[test]
fn every_reason_and_condition_type_has_a_row_in_the_docs() {
    let source = read("src/condition.rs");
    let page = read("../../docs/src/conditions.md");
    let reasons = constants(&source, "reason");
    assert!(reasons.len() > 20, "{reasons:?}");
    for reason in reasons {
        assert!(
            page.contains(&format!("\n| `{reason}` |")),
            "reason {reason} is not in docs/src/conditions.md"
        );
    }
    for type_ in constants(&source, "condition_type") {
        assert!(page.contains(&format!("`{type_}`")), "condition {type_} is not in docs/src/conditions.md");
    }
}
