//! `convoy lint`: what `helm lint` says about charts, from convoy's own engine.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use convoy_helm::{
    Environment, LintChart, LintMessage, LintOptions, Severity, TemplateFlags, lint, read_archive,
};
use jiff::Timestamp;

use crate::chart_files::read_chart;
use crate::template::{SystemEntropy, ValueFlags};

/// Folders below charts/ that are looked into for charts.
const MAX_DEPTH: usize = 64;

/// Look for faults in Helm charts, as `helm lint` does.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The charts: folders or .tgz.
    #[arg(value_name = "PATH", num_args = 1.., required = true)]
    paths: Vec<String>,
    /// Fail on warnings, too.
    #[arg(long)]
    strict: bool,
    /// Look at what stands in charts/, too.
    #[arg(long)]
    with_subcharts: bool,
    /// Print warnings and errors only.
    #[arg(long)]
    quiet: bool,
    /// Do not hold the values against the chart's schema.
    #[arg(long)]
    skip_schema_validation: bool,
    /// The version of Kubernetes that templates see, and that decides what is deprecated.
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// The namespace that templates see as .Release.Namespace.
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    values: ValueFlags,
}

/// What was found in one chart: messages, or why there are none.
type Found = Result<Vec<LintMessage>, String>;

/// Prints what was found; whether a chart has errors is the exit code.
pub(crate) fn run(arguments: &Arguments, now: Timestamp) -> ExitCode {
    match lint_all(arguments, now) {
        Ok((printed, summary)) => {
            print!("{printed}{summary}");
            ExitCode::SUCCESS
        }
        Err((printed, error)) => {
            print!("{printed}");
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is printed, and the summary; or what is printed, and the error.
fn lint_all(arguments: &Arguments, now: Timestamp) -> Result<(String, String), (String, String)> {
    let failed = |error: String| (String::new(), error);
    let mut flags =
        TemplateFlags { kube_version: arguments.kube_version.clone(), ..TemplateFlags::default() };
    let capabilities = flags.capabilities().map_err(|error| failed(error.to_string()))?;
    let mut paths = arguments.paths.clone();
    if arguments.with_subcharts {
        for path in &arguments.paths {
            subcharts(&clean(&Path::new(path).join("charts")), 0, &mut paths);
        }
    }
    arguments.values.give_to(&mut flags);
    let values = flags.merge_values(&mut crate::template::read_values_file);
    let options = LintOptions {
        values: values.map_err(|error| failed(error.to_string()))?,
        namespace: arguments.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        kube_version: arguments.kube_version.as_ref().map(|_| capabilities.kube_version),
        skip_schema: arguments.skip_schema_validation,
        ..LintOptions::default()
    };
    let tolerated = if arguments.strict { Severity::Info } else { Severity::Warning };
    let (mut printed, mut failures, mut notable) = (String::new(), 0, 0);
    for path in &paths {
        let found = lint_one(Path::new(path), &options, now);
        let is_notable = match &found {
            Ok(messages) => messages.iter().any(|message| message.severity > Severity::Info),
            Err(_) => true,
        };
        notable += usize::from(is_notable);
        if arguments.quiet && !is_notable {
            continue;
        }
        let _ = writeln!(printed, "==> Linting {path}");
        match &found {
            Ok(messages) => {
                let shown = messages.iter();
                for message in shown.filter(|message| !arguments.quiet || message.severity > Severity::Info) {
                    let _ = writeln!(printed, "{message}");
                }
                failures += usize::from(messages.iter().any(|message| message.severity > tolerated));
            }
            Err(error) => {
                let _ = writeln!(printed, "Error {error}");
                failures += 1;
            }
        }
        printed.push('\n');
    }
    let summary = format!("{} chart(s) linted, {failures} chart(s) failed", paths.len());
    if failures > 0 {
        return Err((printed, summary));
    }
    let summary = if !arguments.quiet || notable > 0 { format!("{summary}\n") } else { String::new() };
    Ok((printed, summary))
}

fn lint_one(path: &Path, options: &LintOptions, now: Timestamp) -> Found {
    let chart = read(path)?;
    let mut environment = Environment::new(now, SystemEntropy);
    Ok(lint(&chart, options, &mut environment))
}

/// Reads a chart with its folders.
fn read(path: &Path) -> Result<LintChart, String> {
    let shown = path.display().to_string();
    let absolute = clean(&std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()));
    let is_archive = shown.ends_with(".tgz") || shown.ends_with(".tar.gz");
    let mut chart = LintChart { folder: absolute.display().to_string(), ..LintChart::default() };
    if is_archive {
        let bytes = fs::read(path)
            .map_err(|_| format!("unable to open tarball: open {shown}: no such file or directory"))?;
        let files = read_archive(&bytes).map_err(|error| format!("unable to extract tarball: {error}"))?;
        chart.files = files.into_iter().map(|file| (file.name, file.data.bytes().clone())).collect();
        let folders = chart.files.iter().flat_map(|(name, _)| above(name));
        chart.folders = folders.collect();
    } else {
        let chart_yaml = clean(&path.join("Chart.yaml"));
        if fs::metadata(&chart_yaml).is_err() {
            let missing = chart_yaml.display();
            return Err(format!(
                "unable to check Chart.yaml file in chart: stat {missing}: no such file or directory"
            ));
        }
        chart.files = read_chart(path)?.contents()?;
        let files = chart.files.iter().flat_map(|(name, _)| above(name));
        chart.folders = files.chain(folders(path)).collect();
    }
    Ok(chart)
}

/// The folders that a file of a chart stands in.
fn above(name: &str) -> Vec<String> {
    let parents = Path::new(name).ancestors().skip(1);
    parents.map(|parent| parent.display().to_string()).filter(|parent| !parent.is_empty()).collect()
}

/// The folders of a chart itself: templates/ and crds/ may be empty.
fn folders(chart: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(chart).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The charts below a folder, in the order of a walk.
fn subcharts(folder: &Path, depth: usize, paths: &mut Vec<String>) {
    if depth > MAX_DEPTH {
        return;
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let shown = path.display().to_string();
        if path.file_name().is_some_and(|name| name == "Chart.yaml") {
            paths.push(folder.display().to_string());
        } else if shown.ends_with(".tgz") || shown.ends_with(".tar.gz") {
            paths.push(shown);
        }
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        if is_folder {
            subcharts(&path, depth + 1, paths);
        }
    }
}

/// Go's `filepath.Clean`.
fn clean(path: &Path) -> PathBuf {
    let cleaned = convoy_helm::functions::clean(path.display().to_string().as_bytes());
    PathBuf::from(String::from_utf8_lossy(&cleaned).into_owned())
}
