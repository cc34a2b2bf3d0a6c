//! `cargo xtask bench-helm`: how long helm and convoy take for the same charts, and how much memory.
//!
//! As a command: a process from its start to its end. In process and cold: a chart is read from memory and rendered. In process
//! and warm: a chart that stays loaded is rendered with other values. All in one go, in turns, so that what else the
//! machine does hurts all alike; what is told is the median.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]
#![allow(clippy::disallowed_methods, reason = "a chore: it runs programs and looks at the time")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use convoy_helm::{Capabilities, Chart, Data, Entropy, Environment, ReleaseOptions, Values, render};

/// Charts by name, and how many times faster than helm each has to be as a command and in process when warm; none where nothing
/// was promised.
const CHARTS: [(&str, Option<(f64, f64)>); 4] = [
    ("podinfo", Some((10.0, 100.0))),
    ("ingress-nginx", None),
    ("cert-manager", None),
    ("kube-prometheus-stack", Some((5.0, 10.0))),
];
/// As a command convoy may take this part of helm's memory.
const MEMORY: f64 = 1.0 / 3.0;

struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = self.0.to_be_bytes().first().copied().unwrap_or_default();
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [helm, convoy, folder, rounds] = arguments.as_slice() else {
        eprintln!("usage: bench_helm HELM CONVOY FOLDER ROUNDS");
        return ExitCode::from(2);
    };
    match run(helm, convoy, Path::new(folder), rounds.parse().unwrap_or(11)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-helm: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(helm: &str, convoy: &str, folder: &Path, rounds: usize) -> Result<bool, String> {
    println!(
        "{:<22} {:>9} {:>9} {:>6} {:>8} {:>7} {:>9} {:>6} {:>8} {:>8} {:>6}",
        "chart", "helm ms", "convoy", "x", "cold ms", "x", "warm ms", "x", "helm MB", "convoy", "part"
    );
    let mut is_kept = true;
    for (name, budget) in CHARTS {
        let Some(path) = find(folder, name, 6) else {
            println!("{name:<22} there is no such chart below {}", folder.display());
            is_kept = false;
            continue;
        };
        let mut files = Vec::new();
        read(&path, "", &mut files)?;
        let kept = Chart::load(files.clone()).map_err(|error| error.helm_text())?;
        let (mut theirs, mut ours, mut cold, mut warm) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut their_memory, mut our_memory) = (0, 0);
        once(&kept, 0)?;
        for round in 0..rounds {
            let (took, memory) = command(helm, &path)?;
            theirs.push(took);
            their_memory = memory.max(their_memory);
            let (took, memory) = command(convoy, &path)?;
            ours.push(took);
            our_memory = memory.max(our_memory);
            let since = Instant::now();
            let chart = Chart::load(files.clone()).map_err(|error| error.helm_text())?;
            once(&chart, round)?;
            cold.push(since.elapsed());
            let since = Instant::now();
            once(&kept, round)?;
            warm.push(since.elapsed());
        }
        let [theirs, ours, cold, warm] = [theirs, ours, cold, warm].map(median);
        let times = |of: f64| theirs / of;
        let part = our_memory as f64 / their_memory.max(1) as f64;
        let is_fast = budget.is_none_or(|(command, process)| {
            times(ours) >= command && times(warm) >= process && part <= MEMORY
        });
        is_kept &= is_fast;
        println!(
            "{name:<22} {theirs:>9.1} {ours:>9.1} {:>6.1} {cold:>8.2} {:>7.1} {warm:>9.3} {:>6.0} {:>8.1} {:>8.1} {part:>6.2}{}",
            times(ours),
            times(cold),
            times(warm),
            their_memory as f64 / 1e3,
            our_memory as f64 / 1e3,
            if is_fast { "" } else { "  OVER BUDGET" },
        );
    }
    println!(
        "budgets: podinfo 10x as a command, 100x warm; kube-prometheus-stack 5x and 10x; a third of the memory"
    );
    Ok(is_kept)
}

/// Renders with values that differ from round to round.
fn once(chart: &Chart, round: usize) -> Result<(), String> {
    let values = Values::from([("bench".into(), Data::from(&serde_json::json!(round)))]);
    let mut environment = Environment::new(jiff::Timestamp::UNIX_EPOCH, Counter(1));
    render(chart, &values, &ReleaseOptions::default(), &Capabilities::default(), &mut environment)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// `PROGRAM template x CHART`: how long it took, and its most memory in kilobytes as `time` tells it.
fn command(program: &str, chart: &Path) -> Result<(Duration, u64), String> {
    let failed = |error: std::io::Error| format!("could not run /usr/bin/time {program}: {error}");
    let since = Instant::now();
    let status = Command::new(program)
        .args(["template", "x"])
        .arg(chart)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(failed)?;
    let took = since.elapsed();
    if !status.success() {
        return Err(format!("{program} template {} failed: {status}", chart.display()));
    }
    let measured = Command::new("/usr/bin/time")
        .args(["-f", "%M", program, "template", "x"])
        .arg(chart)
        .stdout(Stdio::null())
        .output()
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&measured.stderr);
    let memory = text.lines().last().and_then(|line| line.trim().parse().ok());
    Ok((took, memory.ok_or_else(|| format!("time said {text}"))?))
}

/// Milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e3
}

/// The first folder of that name with a Chart.yaml whose dependencies are there.
fn find(folder: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    entries.sort();
    let is_it = |path: &PathBuf| {
        path.file_name().is_some_and(|found| found == name)
            && path.join("Chart.yaml").is_file()
            && load(path).is_some_and(|chart| once(&chart, 0).is_ok())
    };
    if let Some(found) = entries.iter().find(|path| is_it(path)) {
        return Some(found.clone());
    }
    if depth == 0 {
        return None;
    }
    entries.iter().find_map(|path| find(path, name, depth - 1))
}

fn load(path: &Path) -> Option<Chart> {
    let mut files = Vec::new();
    read(path, "", &mut files).ok()?;
    let chart = Chart::load(files).ok()?;
    convoy_helm::check_installable(&chart).ok().map(|()| chart)
}

fn read(folder: &Path, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            read(&path, &format!("{prefix}{name}/"), files)?;
        } else if let Ok(content) = std::fs::read(&path) {
            files.push((format!("{prefix}{name}"), content));
        }
    }
    Ok(())
}
