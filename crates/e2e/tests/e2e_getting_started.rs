//! The commands of docs/src/getting-started.md, run as they stand there, one after the other, in one empty folder.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use convoy_e2e::{Convoy, convoy_program};
use convoy_testkit::{leave_out, program};

/// The blocks with this information string, in their order.
fn blocks(page: &str, information: &str) -> Vec<String> {
    let fence = format!("```{information}");
    let mut lines = page.lines();
    let mut blocks = Vec::new();
    while lines.by_ref().any(|line| line == fence) {
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(block.join("\n"));
    }
    blocks
}

#[test]
fn the_commands_of_getting_started_do_what_the_page_says() {
    let kubectl = match program("kubectl") {
        Ok(kubectl) => kubectl,
        Err(missing) => return leave_out(&missing),
    };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/getting-started.md");
    let page = std::fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();

    let [start] = &*blocks(&page, "sh run background") else { panic!("one block starts the control plane") };
    let data_dir = folder.path().join("convoy-data");
    let start = start.replace("./convoy-data", data_dir.to_str().unwrap());
    let mut arguments: Vec<&str> = start.split_whitespace().skip(1).collect();
    // The default port may be taken on the machine that tests.
    arguments.extend(["--port", "0", "--log", "warn"]);
    let _convoy = Convoy::start(&arguments).unwrap();

    let blocks = blocks(&page, "sh run");
    assert!(blocks.len() >= 10, "{} blocks", blocks.len());
    let mut script = "set -euo pipefail\n".to_owned();
    for (number, block) in blocks.iter().enumerate() {
        writeln!(script, "echo '== block {number}' >&2\n{block}").unwrap();
    }
    let beside = |program: &Path| program.parent().unwrap().to_str().unwrap().to_owned();
    let path =
        format!("{}:{}:{}", beside(&convoy_program()), beside(&kubectl), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("HOME", folder.path())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{told}");
    for expected in
        ["cluster.convoy.kumodo.io/edge condition met", "release.convoy.kumodo.io/web condition met"]
    {
        assert!(said.contains(expected), "{said}");
    }
}
