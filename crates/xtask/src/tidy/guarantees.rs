//! `docs/src/guarantees.md` leads from what others got wrong to the tests that convoy does not.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;

use super::contract::{is_test, tests_of};

const PAGE: &str = "docs/src/guarantees.md";
/// Of the section with the table.
const HEADING: &str = "## What others got wrong";
/// Fewer rows would mean that the table was not found.
const ROWS: usize = 20;

/// All problems of the table.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    Ok(problems(&page, &tests_of(root)?))
}

fn problems(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let Some((_, section)) = page.split_once(HEADING) else {
        return vec![format!("{PAGE}: there is no section {HEADING:?}")];
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let mut problems = Vec::new();
    if rows.len() < ROWS {
        problems.push(format!("{PAGE}: the table of {HEADING:?} has {} rows, not {ROWS}", rows.len()));
    }
    for row in rows {
        let what: String = row.chars().take(50).collect();
        let named: Vec<&str> = row.split('`').skip(1).step_by(2).filter(|name| is_test(name)).collect();
        if named.is_empty() {
            problems.push(format!("{PAGE}: the row {what:?} names no test"));
        }
        for name in named.iter().filter(|name| !tests.contains(**name)) {
            problems.push(format!("{PAGE}: the row {what:?} names the test {name}, which is nowhere"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(row: &str) -> Vec<String> {
        let rows: String = (1..ROWS).map(|number| format!("| {number} | `it_is_shown` |\n")).collect();
        let page =
            format!("# A\n\n{HEADING}\n\n| what | test |\n|---|---|\n{rows}{row}\n\n## B\n\n| x | y |\n");
        problems(&page, &BTreeSet::from(["it_is_shown".to_owned()]))
    }

    #[test]
    fn each_row_names_tests_that_exist() {
        assert_eq!(found("| last | `it_is_shown` |"), Vec::<String>::new());
        assert!(found("| last | `it_is_gone`, `it_is_shown` |")[0].contains("it_is_gone, which is nowhere"));
        assert!(found("| last | trust us |")[0].contains("names no test"));
        assert!(found("").iter().any(|problem| problem.contains("19 rows")));
        assert!(problems("# A", &BTreeSet::new())[0].contains("no section"));
    }
}
