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
    let mut tests = BTreeSet::new();
    for file in rust_files(&root.join("crates"))? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        tests.extend(functions(&text).filter(|name| is_test(name)).map(str::to_owned));
    }
    Ok(problems(&page, &tests))
}

/// Names of functions.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.lines().filter_map(|line| line.trim_start().split_once("fn "));
    starts.filter_map(|(_, rest)| rest.split(['(', '<']).next())
}

/// Whether a name says which statement (`sc07_…`) or invariant (`i5_…`) a test shows.
fn is_test(name: &str) -> bool {
    let digits = |rest: &str| {
        rest.split_once('_')
            .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    name.strip_prefix("sc").is_some_and(digits) || name.strip_prefix('i').is_some_and(digits)
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
            if name.starts_with("sc") && !name.contains(&format!("sc{number:02}_")) {
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
        let tests = functions("#[test]\nfn sc01_a() {}\n    async fn i5_b<T>() {}\nfn sc02_c(\n");
        problems(&page(shown), &tests.filter(|name| is_test(name)).map(str::to_owned).collect())
    }

    #[test]
    fn each_statement_names_tests_that_exist_or_says_why_not() {
        for good in
            ["`sc01_a`", "`sc01_a`, `i5_b`", LATER, "not shown yet: no S3 backend", "`cargo xtask sim`"]
        {
            assert!(found(good).is_empty(), "{good}: {:?}", found(good));
        }
        assert_eq!(found("`sc01_gone`").len(), 1);
        assert!(found("`sc02_c`")[0].contains("does not say SC-01"));
        assert!(found("trust us")[0].contains("names neither"));
        assert_eq!(found("").len(), 2);
        assert!(problems(&page(LATER).replace("SC-60", "SC-59"), &BTreeSet::new()).len() == 2);
    }
}
