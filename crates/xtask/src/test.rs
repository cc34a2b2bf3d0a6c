//! `cargo xtask test`: everything that has to hold, cheapest first, with one summary line at the end.
//!
//! The order is format, clippy, tidy, deny, the book, then the tests: unit, property and integration tests of each
//! crate, then the end-to-end tests. What a test needs (etcd, kube-apiserver, kubectl, helm) is built
//! into `target/` first. Without Go those parts cannot be built: the tests that need them then say so, are
//! named at the end, and are counted as skipped; `--require-all` makes that a failure.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use crate::{book, image, kubernetes, sim, tidy, tools, workspace};

/// The version of cargo-deny that is built into `target/tools` when it is not there.
const CARGO_DENY: &str = "0.20.2";
/// Tests append `name: reason` lines to the file that this variable names.
const LEFT_OUT_FILE: &str = "CONVOY_LEFT_OUT_FILE";
/// Set when leaving a test out is a failure.
const REQUIRE_ALL: &str = "CONVOY_REQUIRE_ALL";

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Fail when any test is left out because a part that it needs is missing.
    #[arg(long)]
    require_all: bool,
    /// Only the tests: no format, clippy, tidy and deny.
    #[arg(long)]
    tests_only: bool,
    /// Also simulate an hour of replicas under faults with each of so many seeds.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seeds: u64,
}

#[derive(Debug, Default)]
struct Summary {
    passed: u64,
    failed: u64,
    ignored: u64,
    left_out: Vec<String>,
    failed_steps: Vec<String>,
}

/// Runs all steps; a failed check does not keep the tests from running.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = workspace::target_dir()?;
    let mut summary = Summary::default();
    if !arguments.tests_only {
        checks(&target, &mut summary)?;
    }
    step("kubernetes: the parts that tests need");
    if let Err(error) = kubernetes::build_all() {
        println!("not built: {error:#}");
        if arguments.require_all {
            summary.failed_steps.push("kubernetes".to_owned());
        }
    }
    let left_out = target.join("left-out.txt");
    fs::create_dir_all(&target)?;
    fs::write(&left_out, "").with_context(|| format!("writing {}", left_out.display()))?;
    step("image: of the unoptimised program");
    if let Err(error) = image::run(&image::Arguments::dev()) {
        println!("not made: {error:#}");
        if arguments.require_all {
            summary.failed_steps.push("image".to_owned());
        }
    }
    // The end-to-end tests start the program itself.
    step("build: the convoy binary");
    if !cargo(&["build", "--package", "convoy", "--bins"])? {
        summary.failed_steps.push("build".to_owned());
    }
    for (name, selection) in [
        ("unit, property and integration tests", ["--workspace", "--exclude", "convoy-e2e"].as_slice()),
        ("end-to-end tests", &["--package", "convoy-e2e"]),
    ] {
        step(name);
        cargo_test(selection, &left_out, arguments.require_all, &mut summary)?;
    }
    if arguments.seeds > 0 {
        step(&format!("simulation: {} seeds of an hour", arguments.seeds));
        let simulation = sim::Arguments::seeds(arguments.seeds);
        if let Err(error) = sim::run(&simulation) {
            println!("{error:#}");
            summary.failed_steps.push("simulation".to_owned());
        }
    }
    for line in fs::read_to_string(&left_out)?.lines() {
        summary.left_out.push(line.to_owned());
    }
    summary.close(arguments.require_all)
}

fn checks(target: &Path, summary: &mut Summary) -> anyhow::Result<()> {
    let mut check = |name: &str, ok: bool| {
        if !ok {
            summary.failed_steps.push(name.to_owned());
        }
    };
    step("format");
    check("format", cargo(&["fmt", "--all", "--check"])?);
    step("clippy");
    check("clippy", cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?);
    step("tidy");
    check("tidy", tidy::run().map_err(|error| println!("tidy: {error:#}")).is_ok());
    step("deny: bans, licences and sources");
    let deny = tools::tool(target, "cargo-deny", CARGO_DENY, &[])?;
    let status = workspace::program(&deny.to_string_lossy())
        .args(["--workspace", "--log-level", "error", "check", "bans", "licenses", "sources"])
        .current_dir(workspace::root())
        .status()
        .context("could not run cargo-deny")?;
    check("deny", status.success());
    step("book: mdBook, and the links of its pages");
    check("book", book::run().map_err(|error| println!("book: {error:#}")).is_ok());
    Ok(())
}

/// Prints what comes now, and how long all before took.
#[allow(clippy::disallowed_methods, reason = "a chore that takes long says how long")]
fn step(name: &str) {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let took = BEGAN.get_or_init(Instant::now).elapsed().as_secs();
    println!("\n==> {name} (after {} min {} s)", took / 60, took % 60);
    let _ = std::io::stdout().flush();
}

fn cargo(arguments: &[&str]) -> anyhow::Result<bool> {
    let status = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"))
        .args(arguments)
        .current_dir(workspace::root())
        .status()
        .with_context(|| format!("could not run cargo {}", arguments.join(" ")))?;
    Ok(status.success())
}

/// Runs `cargo test`, shows its output as it comes, and adds up its result lines.
fn cargo_test(
    selection: &[&str],
    left_out: &Path,
    require_all: bool,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    let mut command = workspace::program(std::env::var("CARGO").as_deref().unwrap_or("cargo"));
    command
        .arg("test")
        .args(selection)
        .args(["--no-fail-fast", "--quiet"])
        .current_dir(workspace::root())
        .env(LEFT_OUT_FILE, left_out)
        .stdout(Stdio::piped());
    if require_all {
        command.env(REQUIRE_ALL, "1");
    }
    let mut child = command.spawn().context("could not run cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        if let Some((passed, failed, ignored)) = result_line(&line) {
            summary.passed += passed;
            summary.failed += failed;
            summary.ignored += ignored;
        }
        if !line.trim().is_empty() {
            println!("{line}");
        }
    }
    if !child.wait()?.success() {
        summary.failed_steps.push(format!("cargo test {}", selection.join(" ")));
    }
    Ok(())
}

/// The counts of libtest's closing line: `test result: ok. 9 passed; 0 failed; 1 ignored; …`.
fn result_line(line: &str) -> Option<(u64, u64, u64)> {
    let counts = line.trim().strip_prefix("test result: ")?;
    let count = |word: &str| -> Option<u64> {
        let before = counts.split(word).next()?.trim_end();
        before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some((count(" passed")?, count(" failed")?, count(" ignored")?))
}

impl Summary {
    fn close(&self, require_all: bool) -> anyhow::Result<()> {
        step("summary");
        for line in &self.left_out {
            println!("left out: {line}");
        }
        for name in &self.failed_steps {
            println!("failed: {name}");
        }
        let skipped = self.ignored + self.left_out.len() as u64;
        // A test that was left out returned early, so libtest counted it as passed.
        let passed = self.passed.saturating_sub(self.left_out.len() as u64);
        println!("{passed} passed, {} failed, {skipped} skipped", self.failed);
        ensure!(self.failed_steps.is_empty() && self.failed == 0, "not all is well: see above");
        ensure!(self.passed > 0, "no test ran");
        if require_all && skipped > 0 {
            bail!("{skipped} test(s) were left out");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_result_line_are_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.04s";
        assert_eq!(result_line(line), Some((12, 3, 1)));
        assert_eq!(result_line("running 3 tests"), None);
    }

    #[test]
    fn a_failed_step_fails_the_run_though_all_tests_passed() {
        let summary = Summary { passed: 3, failed_steps: vec!["clippy".to_owned()], ..Summary::default() };
        assert!(summary.close(false).is_err());
    }

    #[test]
    fn a_test_that_is_left_out_fails_only_when_all_are_required() {
        let summary = Summary { passed: 3, left_out: vec!["x: no Go".to_owned()], ..Summary::default() };
        assert!(summary.close(false).is_ok());
        assert!(summary.close(true).is_err());
    }
}
