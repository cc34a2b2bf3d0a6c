//! `cargo xtask fuzz TARGET`: one of the fuzz targets of `fuzz/` for so many seconds. libFuzzer's instrumentation is a pass that the
//! stable compiler has, too.

use std::fs;

use anyhow::Context;

use crate::workspace;

const TARGETS: [&str; 7] = ["yaml", "template", "archive", "values", "set", "semver", "schema"];
const HOST: &str = "x86_64-unknown-linux-gnu";
/// Counters at each edge, and what is compared.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What is fuzzed.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    target: String,
    /// For how long.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Arguments for libFuzzer, after `--`: a file runs that input alone.
    #[arg(last = true)]
    more: Vec<String>,
}

/// Builds the target, runs it on the corpus that grew so far and on the seeds, and answers with whether nothing was found.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let folder = workspace::root().join("fuzz");
    let kept = workspace::target_dir()?.join("fuzz");
    let build = kept.join("build");
    let mut command = workspace::program(&cargo);
    command.args(["build", "--release", "--locked", "--target", HOST, "--bin", &arguments.target]);
    command.current_dir(&folder).env("RUSTFLAGS", INSTRUMENTED).env("CARGO_TARGET_DIR", &build);
    let status = command.status().context("could not run cargo")?;
    anyhow::ensure!(status.success(), "the target does not build");

    let corpus = kept.join("corpus").join(&arguments.target);
    let found = kept.join("found").join(&arguments.target);
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let mut fuzz = workspace::program(
        build.join(HOST).join("release").join(&arguments.target).to_str().context("path")?,
    );
    fuzz.arg(format!("-artifact_prefix={}/", found.display()));
    fuzz.args(["-timeout=25", "-rss_limit_mb=1024", "-max_len=8192", "-print_final_stats=1"]);
    match arguments.more.iter().any(|argument| !argument.starts_with('-')) {
        true => {}
        false => {
            fuzz.arg(format!("-max_total_time={}", arguments.seconds));
            fuzz.arg(corpus).arg(folder.join("corpus").join(&arguments.target));
        }
    }
    let status = fuzz.args(&arguments.more).status().context("could not run the target")?;
    Ok(status.success())
}
