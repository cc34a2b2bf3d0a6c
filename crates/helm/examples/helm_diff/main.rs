//! `cargo xtask helm-diff`: every chart under a folder, rendered by the real helm and by this crate.
//!
//! What is compared are bytes of the output and, where helm fails, of the error. Lines that differ between two
//! runs of helm itself (random names, certificates, dates) are left out and counted.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]
#![allow(clippy::disallowed_methods, reason = "a chore: it runs helm and looks at the time")]

mod charts;
mod compare;
mod oracle;
mod ours;
mod report;
mod variants;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use convoy_helm::HelmVersion;
use variants::Kind;

/// What was asked for. xtask has read the flags of the person; these are its own.
#[derive(Debug)]
pub(crate) struct Options {
    folder: PathBuf,
    /// The resident helm (tools/helm/resident), or for version 3 helm itself.
    helm: PathBuf,
    version: HelmVersion,
    jobs: usize,
    charts: usize,
    only: Vec<String>,
    kinds: Vec<Kind>,
    /// Variants of a kind for one chart; more are thinned out evenly. 0 is all.
    per_chart: usize,
    /// Whether differences are shown whole.
    verbose: bool,
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("helm-diff: {error}");
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        folder: PathBuf::new(),
        helm: PathBuf::new(),
        version: HelmVersion::V4,
        jobs: 1,
        charts: usize::MAX,
        only: Vec::new(),
        kinds: Kind::ALL.to_vec(),
        per_chart: 0,
        verbose: false,
    };
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} is no number"));
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("--helm", value)) => options.helm = value.into(),
            Some(("--helm-version", value)) => {
                options.version = value.parse().map_err(|error| format!("--helm-version: {error}"))?;
            }
            Some(("--jobs", value)) => options.jobs = number(value)?.max(1),
            Some(("--charts", value)) => options.charts = number(value)?,
            Some(("--per-chart", value)) => options.per_chart = number(value)?,
            Some(("--only", value)) => options.only.push(value.to_owned()),
            Some(("--variants", value)) => {
                let kinds = value
                    .split(',')
                    .map(|name| Kind::parse(name).ok_or_else(|| format!("{name:?} is none of the variants")));
                options.kinds = kinds.collect::<Result<_, _>>()?;
            }
            None if argument == "--verbose" => options.verbose = true,
            None if !argument.starts_with('-') => options.folder = argument.into(),
            _ => return Err(format!("unknown argument {argument}")),
        }
    }
    if options.folder.as_os_str().is_empty() { Err("which folder?".to_owned()) } else { Ok(options) }
}

fn run(options: &Options) -> Result<bool, String> {
    let mut charts = charts::find(&options.folder)?;
    if !options.only.is_empty() {
        charts.retain(|chart| options.only.iter().any(|only| chart.to_string_lossy().contains(only)));
    }
    let found = charts.len();
    if options.charts < found {
        charts = charts
            .into_iter()
            .enumerate()
            .filter(|(at, _)| is_kept(*at, found, options.charts))
            .map(|(_, chart)| chart)
            .collect();
    }
    println!("{} charts under {}", charts.len(), options.folder.display());
    let next = AtomicUsize::new(0);
    let report = Mutex::new(report::Report::default());
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                let done = compare_charts(options, &charts, &next, &report);
                if let Err(error) = done {
                    failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    let report = report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    print!("{report}");
    Ok(report.is_clean())
}

fn compare_charts(
    options: &Options,
    charts: &[PathBuf],
    next: &AtomicUsize,
    report: &Mutex<report::Report>,
) -> Result<(), String> {
    let mut helm = oracle::Helm::new(&options.helm, options.version == HelmVersion::V4)?;
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let values = scratch.path().join("values.json");
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(chart) = charts.get(at) else { return Ok(()) };
        if at.is_multiple_of(20) {
            eprintln!("{at} of {} charts", charts.len());
        }
        let ours = ours::Loaded::new(chart, options.version);
        let name = chart.strip_prefix(&options.folder).unwrap_or(chart).display().to_string();
        for kind in &options.kinds {
            for variant in variants::of(*kind, chart, ours.values(), options.per_chart) {
                let case = variant.arguments(chart, &values)?;
                let outcome = compare::compare(&mut helm, &ours, &case)?;
                let mut report = report.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                report.add(*kind, &name, &variant.name, &outcome, options.verbose);
            }
        }
    }
}

/// Whether the item at a place is among `most` of `all`, evenly spread.
pub(crate) fn is_kept(at: usize, all: usize, most: usize) -> bool {
    at * most / all != (at + 1) * most / all
}
