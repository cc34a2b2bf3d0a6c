//! `convoy demo`, as the README's first command runs it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use std::process::Command;

use convoy_e2e::{convoy_program, run};

#[test]
fn demo_delivers_rolls_out_and_corrects_and_is_plain_when_piped() {
    let output = run(&["demo", "--exit"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(!text.contains('\x1b'), "escape sequences in piped output: {text:?}");

    let rows: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("RELEASE"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .collect();
    assert_eq!(rows.len(), 7, "{text}");
    let ready = rows.iter().filter(|row| row.contains(" Ready ")).count();
    assert_eq!(ready, 6, "{text}");
    assert!(text.contains("templates/configmap.yaml:8"), "{text}");
    assert!(text.contains("prod-eu runs registry.example.com/web:2.2.0"), "{text}");
    assert!(text.contains("opening-hours are 9-17 again"), "{text}");
}

#[test]
fn demo_shows_bars_on_a_terminal() {
    // `script` runs a command on a pseudo-terminal.
    let command = format!("{} demo --exit", convoy_program().display());
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("━"), "no bars on a terminal");
    assert!(text.contains("\x1b[32mReady\x1b[0m"), "no colour on a terminal");
}
