//! Rules about files: no orphan module, no file that is too long without a reason, pure crates documented.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::layering::Table;

/// Longer files say in one sentence why (`//! Long because …`).
const LONGEST: usize = 800;
const REASON: &str = "//! Long because ";

/// All problems of the source files of all crates.
pub(crate) fn check(root: &Path, table: &Table) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("reading crates/")? {
        let folder = entry?.path();
        for part in ["src", "tests", "benches", "examples"] {
            let base = folder.join(part);
            if !base.is_dir() {
                continue;
            }
            for file in rust_files(&base)? {
                let text =
                    fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
                let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
                problems.extend(too_long(&shown, &text));
                if part == "src" && is_orphan(&base, &file)? {
                    problems.push(format!("{shown} is declared by no module"));
                }
            }
        }
    }
    for name in table.pure() {
        let lib = root.join("crates").join(name.trim_start_matches("convoy-")).join("src/lib.rs");
        let text = fs::read_to_string(&lib).unwrap_or_default();
        if !text.contains("#![warn(missing_docs)]") {
            problems.push(format!("{name} is pure: its lib.rs needs #![warn(missing_docs)]"));
        }
    }
    problems.sort();
    Ok(problems)
}

pub(super) fn rust_files(base: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![base.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

fn too_long(shown: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let reasoned = text.lines().any(|line| line.starts_with(REASON));
    (lines > LONGEST && !reasoned)
        .then(|| format!("{shown} has {lines} lines; split it, or say why not in a line `{REASON}…`"))
}

/// Whether no module file declares this one: rustc would never read it.
fn is_orphan(base: &Path, file: &Path) -> anyhow::Result<bool> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let Some(folder) = file.parent() else { return Ok(false) };
    let at_root = folder == base;
    let bin = base.join("bin");
    let is_program = folder == bin || folder.parent() == Some(&bin) && stem == "main";
    if at_root && ["lib", "main", "build"].contains(&stem) || is_program {
        return Ok(false);
    }
    // `a/mod.rs` is declared beside `a`, every other file beside itself or in the module of its folder.
    let (name, home) = if stem == "mod" {
        (
            folder.file_name().and_then(|name| name.to_str()).unwrap_or_default(),
            folder.parent().unwrap_or(base),
        )
    } else {
        (stem, folder)
    };
    let parents = if home == base {
        vec![base.join("lib.rs"), base.join("main.rs")]
    } else if home.parent() == Some(&bin) {
        vec![home.join("main.rs")]
    } else {
        vec![home.join("mod.rs"), home.with_extension("rs")]
    };
    for parent in parents.into_iter().filter(|parent| parent.is_file()) {
        let text = fs::read_to_string(&parent)?;
        if text.lines().any(|line| declares(line, name)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn declares(line: &str, name: &str) -> bool {
    let Some((visibility, rest)) = line.trim_start().split_once("mod ") else { return false };
    let visible = visibility.trim();
    (visible.is_empty() || visible.starts_with("pub") || visible.starts_with("#["))
        && rest
            .trim_start()
            .trim_start_matches("r#")
            .strip_prefix(name)
            .is_some_and(|tail| tail.trim_start().starts_with(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_declarations_are_recognised() {
        for line in ["mod a;", "pub mod a;", "pub(crate) mod a;", "    mod a ;", "#[cfg(test)] mod a;"] {
            assert!(declares(line, "a"), "{line}");
        }
        for line in ["mod ab;", "// mod a;", "mod a {", "use mod_a;"] {
            assert!(!declares(line, "a"), "{line}");
        }
    }

    #[test]
    fn an_orphan_is_found_and_a_declared_file_is_none() {
        let folder = std::env::temp_dir().join(format!("convoy-tidy-{}", std::process::id()));
        let base = folder.join("src");
        fs::create_dir_all(base.join("kept")).unwrap();
        fs::create_dir_all(base.join("bin/tool")).unwrap();
        fs::write(base.join("bin/tool/main.rs"), "mod part;\n").unwrap();
        fs::write(base.join("lib.rs"), "mod kept;\n").unwrap();
        fs::write(base.join("kept.rs"), "mod inner;\n").unwrap();
        for file in ["kept/inner.rs", "kept/lost.rs", "lost.rs", "bin/tool/part.rs", "bin/tool/lost.rs"] {
            fs::write(base.join(file), "").unwrap();
        }
        let orphan = |file: &str| is_orphan(&base, &base.join(file)).unwrap();
        let found = [
            orphan("lib.rs"),
            orphan("kept.rs"),
            orphan("kept/inner.rs"),
            orphan("kept/lost.rs"),
            orphan("lost.rs"),
            orphan("bin/tool/main.rs"),
            orphan("bin/tool/part.rs"),
            orphan("bin/tool/lost.rs"),
        ];
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [false, false, false, true, true, false, false, true]);
    }

    #[test]
    fn a_long_file_needs_a_reason() {
        let text = "x\n".repeat(LONGEST + 1);
        assert!(too_long("a.rs", &text).is_some());
        assert!(too_long("a.rs", &format!("{REASON}it is one table.\n{text}")).is_none());
    }
}
