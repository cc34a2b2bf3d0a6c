//! Links of Markdown pages lead somewhere, and the book has all of its pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Pages of the repository outside of the book.
const OTHERS: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "deploy/README.md",
    "examples/README.md",
];
const BOOK: &str = "docs/src";

/// All problems of all pages.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut pages: BTreeMap<PathBuf, String> = BTreeMap::new();
    for entry in std::fs::read_dir(root.join(BOOK)).with_context(|| format!("reading {BOOK}"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = Path::new(BOOK).join(path.file_name().unwrap_or_default());
            pages.insert(name, std::fs::read_to_string(&path)?);
        }
    }
    for other in OTHERS {
        let text = std::fs::read_to_string(root.join(other)).with_context(|| format!("reading {other}"))?;
        pages.insert(other.into(), text);
    }
    Ok(problems(&pages, &|path| root.join(path).exists()))
}

fn problems(pages: &BTreeMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    let mut in_summary = BTreeSet::new();
    for (page, text) in pages {
        for target in links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) =
                target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            let folder = page.parent().unwrap_or(Path::new(""));
            let led = if file.is_empty() { page.clone() } else { normal(&folder.join(file)) };
            if page.ends_with("SUMMARY.md") {
                in_summary.insert(led.clone());
            }
            let is_there = pages.contains_key(&led) || exists(&led);
            let has_anchor = match (anchor, pages.get(&led)) {
                (Some(anchor), Some(text)) => headings(text).any(|heading| heading == anchor),
                _ => true,
            };
            if !is_there || !has_anchor {
                problems.push(format!("{}: the link to {target} leads nowhere", page.display()));
            }
        }
    }
    let book = pages.keys().filter(|page| page.starts_with(BOOK) && !page.ends_with("SUMMARY.md"));
    problems.extend(
        book.filter(|page| !in_summary.contains(*page))
            .map(|page| format!("{} is not in SUMMARY.md", page.display())),
    );
    problems
}

/// Targets of `[text](target)` outside of code.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    let prose = text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    prose
        .flat_map(|line| line.split('`').step_by(2))
        .flat_map(|prose| prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()))
}

/// Anchors that mdBook gives to headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    titles.map(|title| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    })
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normal.pop();
            }
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(one: &str, summary: &str) -> Vec<String> {
        let page = |name: &str| Path::new(BOOK).join(name);
        let pages = BTreeMap::from([
            (page("one.md"), one.to_owned()),
            (page("SUMMARY.md"), summary.to_owned()),
            ("README.md".into(), "# Read `me`, now\n".to_owned()),
        ]);
        problems(&pages, &|path| path == Path::new("LICENSE"))
    }

    #[test]
    fn sc60_every_link_of_the_docs_leads_somewhere_and_every_page_is_in_the_summary() {
        let summary = "- [One](one.md)\n";
        let good = "# One\n[a](#one) [b](../../README.md#read-me-now) [c](../../LICENSE) [d](https://x.example/) `[e](f)`\n```\n[g](h)\n```\n";
        assert_eq!(found(good, summary), Vec::<String>::new());
        for (bad, target) in [
            ("[a](two.md)", "two.md"),
            ("[a](#two)", "#two"),
            ("[a](../../README.md#me)", "../../README.md#me"),
        ] {
            assert_eq!(found(bad, summary), [format!("docs/src/one.md: the link to {target} leads nowhere")]);
        }
        assert_eq!(found("", "# Summary\n"), ["docs/src/one.md is not in SUMMARY.md"]);
    }
}
