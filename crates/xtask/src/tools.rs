//! Programs of crates.io that chores need, built once.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::workspace;

/// The path of a program of crates.io in `target/tools`, built when it is not there.
pub(crate) fn tool(target: &Path, name: &str, version: &str, more: &[&str]) -> anyhow::Result<PathBuf> {
    let root = target.join("tools").join(format!("{name}-{version}"));
    let path = root.join("bin").join(name);
    if !path.is_file() {
        println!("building {name} {version}");
        let build = target.join("tools/build");
        let status = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"))
            .args(["install", name, "--locked", "--quiet", "--version", version, "--root"])
            .arg(&root)
            .arg("--target-dir")
            .arg(&build)
            .args(more)
            .current_dir(workspace::root())
            .status()
            .context("could not run cargo install")?;
        ensure!(status.success(), "could not build {name} {version}");
        // Only the program is kept: the build output is larger than convoy's.
        let _ = std::fs::remove_dir_all(&build);
    }
    Ok(path)
}
