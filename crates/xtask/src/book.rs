//! `cargo xtask book`: the book of `docs/` as mdBook makes it, and whether each link of its pages leads somewhere.
//!
//! `tidy` looks at the links of the Markdown; here it is what readers get: headings have the anchors that mdBook gives
//! them, and all of its pages are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::{tools, workspace};

/// The version of mdBook that is built into `target/tools` when it is not there.
const MDBOOK: &str = "0.5.4";

/// Makes the book in `target/book`, and checks it.
pub(crate) fn run() -> anyhow::Result<()> {
    let target = workspace::target_dir()?;
    // Unoptimised, and without what watches and serves: it makes one small book.
    let mdbook = tools::tool(
        &target,
        "mdbook",
        MDBOOK,
        &["--debug", "--no-default-features", "--features", "search"],
    )?;
    let book = target.join("book");
    let output = workspace::program(&mdbook.to_string_lossy())
        .arg("build")
        .arg("--dest-dir")
        .arg(&book)
        .arg("docs")
        .current_dir(workspace::root())
        .output()
        .context("could not run mdbook")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "mdbook failed: {said}");
    let warnings: Vec<&str> = said.lines().filter(|line| line.contains("WARN")).collect();
    ensure!(warnings.is_empty(), "mdbook warns:\n{}", warnings.join("\n"));
    let pages = pages(&book)?;
    ensure!(pages.len() > 10, "the book has {} pages only", pages.len());
    let problems = problems(&pages, &|path| book.join(path).is_file());
    if !problems.is_empty() {
        bail!("links of the book lead nowhere:\n{}", problems.join("\n"));
    }
    println!("book: {} pages in {}", pages.len(), book.display());
    Ok(())
}

/// The pages of a book; but for the one to print, which has all of them once more.
fn pages(book: &Path) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(book).with_context(|| format!("reading {}", book.display()))? {
        let path = entry?.path();
        let name = PathBuf::from(path.file_name().unwrap_or_default());
        if path.extension().is_some_and(|extension| extension == "html") && !name.ends_with("print.html") {
            pages.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(pages)
}

fn problems(pages: &BTreeMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&Path, BTreeSet<&str>> =
        pages.iter().map(|(name, html)| (name.as_path(), attributes(html, "id").collect())).collect();
    let mut problems = BTreeSet::new();
    for (page, html) in pages {
        for link in attributes(html, "href").chain(attributes(html, "src")) {
            let is_elsewhere =
                link.contains("://") || link.starts_with("data:") || link.starts_with("mailto:");
            // The page for what is not found is served from anywhere, and has absolute links.
            if is_elsewhere || link.starts_with('/') || link.is_empty() {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { page.as_path() } else { Path::new(file) };
            let leads = match anchors.get(file) {
                Some(anchors) => anchor.is_empty() || anchors.contains(anchor),
                None => exists(file),
            };
            if !leads {
                problems.insert(format!("{}: {link}", page.display()));
            }
        }
    }
    problems.into_iter().collect()
}

/// The values of an attribute.
fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {name}=\"");
    let mut rest = html;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(start.as_str())?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_pages_files_and_headings_that_are_not_there_are_named() {
        let pages = BTreeMap::from([
            (
                PathBuf::from("a.html"),
                r##"<h1 id="top">A</h1><a class="x" href="b.html#there">1</a><a href="b.html#gone">2</a>
                <a href="#top">3</a><a href="#no">4</a><a href="c.html">5</a><img src="there.png"><img src="gone.png">
                <a href="https://example.com/x">6</a>"##
                    .to_owned(),
            ),
            (PathBuf::from("b.html"), r#"<h2 id="there">B</h2>"#.to_owned()),
        ]);
        let found = problems(&pages, &|path| path == Path::new("there.png"));
        assert_eq!(found, ["a.html: #no", "a.html: b.html#gone", "a.html: c.html", "a.html: gone.png"]);
    }
}
