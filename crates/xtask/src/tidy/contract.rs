//! `docs/src/contract.md` leads from each statement of the contract to what shows it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;

use super::sources::rust_files;

const PAGE: &str = "docs/src/contract.md";
/// How many statements there are: SC-01 to SC-60.
const STATEMENTS: usize = 60;
/// What stands in place of a test for statements about manifests and clusters.
const LATER: &str = "issue: Kubernetes deployment";

/// All problems of the page.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    Ok(problems(&page, &tests_of(root)?))
}

/// The names of all functions, among which the tests are.
pub(super) fn tests_of(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut tests = BTreeSet::new();
    for file in rust_files(&root.join("crates"))? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        tests.extend(functions(&text).map(str::to_owned));
    }
    Ok(tests)
}

/// Names of functions.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let is_first = |before: &str| before.split_whitespace().all(|word| ["pub", "async"].contains(&word));
    let starts = text.lines().filter_map(|line| line.trim_start().split_once("fn "));
    starts.filter(move |(before, _)| is_first(before)).filter_map(|(_, rest)| rest.split(['(', '<']).next())
}

/// Whether a word of the page is the name of a test, which is a sentence: `sc07_shard_is_…`.
pub(super) fn is_test(word: &str) -> bool {
    let is_snake = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    word.contains('_') && word.bytes().all(is_snake)
}

/// Whether the name of a test says which statements it shows.
fn is_numbered(name: &str) -> bool {
    name.strip_prefix("sc").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn problems(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| SC-"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for number in 1..=STATEMENTS {
        let id = format!("SC-{number:02}");
        let mut of_id = rows.iter().filter(|row| row.first() == Some(&id.as_str()));
        let (Some(row), None) = (of_id.next(), of_id.next()) else {
            problems.push(format!("{PAGE}: {id} has not exactly one row"));
            continue;
        };
        let [_, statement, shown] = row.as_slice() else {
            problems.push(format!("{PAGE}: the row of {id} has not three cells"));
            continue;
        };
        if statement.is_empty() || shown.is_empty() {
            problems.push(format!("{PAGE}: a cell of {id} is empty"));
        }
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).filter(|name| is_test(name)).collect();
        for name in &named {
            if !tests.contains(*name) {
                problems.push(format!("{PAGE}: {id} names the test {name}, which is nowhere"));
            }
            if is_numbered(name) && !name.contains(&format!("sc{number:02}_")) {
                problems.push(format!("{PAGE}: the name of the test {name} does not say {id}"));
            }
        }
        let speaks = [LATER, "not shown yet", "`cargo xtask ", "CI:"].iter().any(|text| shown.contains(text));
        if named.is_empty() && !speaks {
            problems
                .push(format!("{PAGE}: {id} names neither a test nor says \"{LATER}\" or \"not shown yet\""));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(shown: &str) -> String {
        let row = |number: usize| format!("| SC-{number:02} | it holds | {LATER} |\n");
        let rest: String = (2..=STATEMENTS).map(row).collect();
        format!("| id | statement | shown by |\n|---|---|---|\n| SC-01 | one | {shown} |\n{rest}")
    }

    fn found(shown: &str) -> Vec<String> {
        let tests =
            functions("#[test]\nfn sc01_a() {}\n    async fn i5_b<T>() {}\nfn sc02_c(\n// fn sc01_no(\n");
        problems(&page(shown), &tests.map(str::to_owned).collect())
    }

    #[test]
    fn each_statement_names_tests_that_exist_or_says_why_not() {
        for good in
            ["`sc01_a`", "`sc01_a`, `i5_b`", LATER, "not shown yet: no S3 backend", "`cargo xtask sim`"]
        {
            assert!(found(good).is_empty(), "{good}: {:?}", found(good));
        }
        for missing in ["`sc01_gone`", "`sc01_no`", "`a_test_that_is_nowhere`"] {
            assert_eq!(found(missing).len(), 1, "{missing}");
        }
        assert!(found("`sc02_c`")[0].contains("does not say SC-01"));
        assert!(found("trust us")[0].contains("names neither"));
        assert_eq!(found("").len(), 2);
        assert!(problems(&page(LATER).replace("SC-60", "SC-59"), &BTreeSet::new()).len() == 2);
    }
}
