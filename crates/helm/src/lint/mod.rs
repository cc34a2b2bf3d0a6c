//! What `helm lint` finds in a chart: Chart.yaml, values.yaml, templates, dependencies and crds, in its order and words.

mod chartfile;
mod crds;
mod dependencies;
mod deprecations;
mod documents;
mod names;
mod templates;
mod values;

use crate::capabilities::KubeVersion;
use crate::chart::{Chart, LoadError};
use crate::functions::Environment;
use crate::values::Values;
use convoy_gotemplate::{Limits, Str};
use std::collections::BTreeSet;
use std::fmt;

/// A chart to look at, as it lies in its folder or archive.
#[derive(Debug, Default)]
pub struct LintChart {
    /// The folder, which messages about dependencies begin with.
    pub folder: String,
    /// Its files: path from the folder, with slashes, and content.
    pub files: Vec<(String, Str)>,
    /// The folders in it, also empty ones.
    pub folders: BTreeSet<String>,
}

/// What the chart is rendered with.
#[derive(Debug, Default)]
pub struct LintOptions {
    /// Values that are laid over the chart's own.
    pub values: Values,
    /// `.Release.Namespace`.
    pub namespace: String,
    /// `--kube-version`.
    pub kube_version: Option<KubeVersion>,
    /// Whether values.schema.json is left alone.
    pub skip_schema: bool,
    /// What the templates may use.
    pub limits: Limits,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth to know.
    Info,
    /// Against the conventions.
    Warning,
    /// The chart will not work.
    Error,
}

/// Something that was found; displays what `helm lint` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintMessage {
    /// How bad it is.
    pub severity: Severity,
    /// Where it was found.
    pub path: String,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for LintMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        };
        write!(f, "[{severity}] {}: {}", self.path, self.text)
    }
}

/// The messages so far.
#[derive(Debug, Default)]
struct Linter(Vec<LintMessage>);

impl Linter {
    /// Notes what a rule found; whether it found nothing.
    fn rule(&mut self, severity: Severity, path: &str, found: Result<(), String>) -> bool {
        let Err(text) = found else { return true };
        self.0.push(LintMessage { severity, path: path.to_owned(), text });
        false
    }

    /// The chart as a render loads it; why it does not load is noted at `path`.
    fn load(&mut self, chart: &LintChart, path: &str) -> Option<Chart> {
        let loaded =
            Chart::load_any_version(chart.files.iter().map(|(name, content)| (name.clone(), content)));
        loaded.map_err(|error| self.rule(Severity::Error, path, Err(error.helm_text()))).ok()
    }
}

/// Everything that `helm lint` says about a chart that has a Chart.yaml. The environment is for one chart.
pub fn lint(chart: &LintChart, options: &LintOptions, environment: &mut Environment) -> Vec<LintMessage> {
    let mut linter = Linter::default();
    chartfile::lint(&mut linter, chart);
    values::lint(&mut linter, chart, options);
    templates::lint(&mut linter, chart, options, environment);
    dependencies::lint(&mut linter, chart);
    crds::lint(&mut linter, chart);
    linter.0
}

impl LintChart {
    fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(file, _)| file == name).map(|(_, content)| content.as_bytes())
    }

    fn load(&self) -> Result<Chart, LoadError> {
        Chart::load_any_version(self.files.iter().map(|(name, content)| (name.clone(), content)))
    }
}
