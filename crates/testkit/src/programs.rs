//! Where the real programs are.

use std::path::PathBuf;

/// A program was not built.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{name} is not built; run `cargo xtask kubernetes`")]
pub struct ProgramMissing {
    /// The program, such as `kube-apiserver`.
    pub name: String,
}

/// The path of a program that `cargo xtask kubernetes` built: in `$CARGO_TARGET_DIR/kubernetes/bin`, or
/// in `kubernetes/bin` beside or above the folder of the running test.
///
/// # Errors
/// When it is in neither.
pub fn program(name: &str) -> Result<PathBuf, ProgramMissing> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let test = std::env::current_exe().unwrap_or_default();
    let above = test.ancestors().skip(1).map(PathBuf::from);
    target
        .into_iter()
        .chain(above)
        .map(|folder| folder.join("kubernetes").join("bin").join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| ProgramMissing { name: name.to_owned() })
}
