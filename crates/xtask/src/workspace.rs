//! Where the repository and its build output are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The repository's root folder.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

/// cargo's target folder: `CARGO_TARGET_DIR`, or what the configuration says.
pub(crate) fn target_dir() -> anyhow::Result<PathBuf> {
    let output = program(std::env::var("CARGO").as_deref().unwrap_or("cargo"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .context("could not run cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let dir = metadata["target_directory"].as_str().context("cargo metadata names no target_directory")?;
    Ok(PathBuf::from(dir))
}

/// A program that a chore runs.
#[expect(clippy::disallowed_methods, reason = "chores run programs; convoy itself does not")]
pub(crate) fn program(name: &str) -> Command {
    Command::new(name)
}
