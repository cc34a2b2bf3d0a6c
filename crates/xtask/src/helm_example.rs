//! The programs that are examples of convoy-helm: renders compared, timed and made hostile.

use std::process::Command;

use crate::workspace;

/// An example of convoy-helm, built for release and run in the workspace's folder; its arguments follow.
pub(crate) fn command(name: &str) -> Command {
    let mut command = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"));
    command.args(["run", "--quiet", "--release", "--package", "convoy-helm", "--example", name, "--"]);
    command.current_dir(workspace::root());
    command
}
