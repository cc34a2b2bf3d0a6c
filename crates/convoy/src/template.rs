//! `convoy template`: what `helm template` prints, from convoy's own engine.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use convoy_helm::{
    Entropy, Environment, HelmVersion, HelmVersionError, TemplateError, TemplateFlags, output_files,
    template, template_rendered,
};
use jiff::Timestamp;

use crate::chart_files::read_chart;

/// Print what a Helm chart renders to, as `helm template` does.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The name that templates see as .Release.Name, and the chart: a folder or a .tgz. With one argument it
    /// is the chart, and the name is release-name.
    #[arg(value_names = ["NAME", "CHART"], num_args = 1..=2, required = true)]
    names: Vec<String>,
    /// The namespace that templates see as .Release.Namespace.
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    values: ValueFlags,
    /// Print only these templates.
    #[arg(short, long, value_name = "TEMPLATE", value_delimiter = ',')]
    show_only: Vec<String>,
    /// Print what is in the crds folder too.
    #[arg(long)]
    include_crds: bool,
    /// Versions that templates see in .Capabilities.APIVersions.
    #[arg(short, long, value_name = "VERSION", value_delimiter = ',')]
    api_versions: Vec<String>,
    /// The version that templates see as .Capabilities.KubeVersion.
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,
    /// Set .Release.IsUpgrade instead of .Release.IsInstall.
    #[arg(long)]
    is_upgrade: bool,
    /// Leave out hooks.
    #[arg(long)]
    no_hooks: bool,
    /// Leave out test hooks.
    #[arg(long)]
    skip_tests: bool,
    /// Do not hold the values against the chart's schema.
    #[arg(long)]
    skip_schema_validation: bool,
    /// A template that makes the name when none is given.
    #[arg(long, value_name = "TEMPLATE")]
    name_template: Option<String>,
    /// Print what this version of Helm prints: 3 or 4.
    #[arg(long, value_name = "VERSION", default_value = "4", value_parser = parse_helm_version)]
    helm_version: HelmVersion,
    /// Accepted as Helm does; without a NAME the name is release-name in any case.
    #[arg(short = 'g', long)]
    generate_name: bool,
    /// Write the files of the rendered templates below this folder instead of printing them.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
    /// With --output-dir: below a folder of the release's name.
    #[arg(long)]
    release_name: bool,
    #[command(flatten)]
    _accepted: Accepted,
}

/// Values that are laid over those of a chart.
#[derive(Debug, clap::Args)]
pub(crate) struct ValueFlags {
    /// Values from this file; may be given several times, later ones win.
    #[arg(short = 'f', long, value_name = "FILE", value_delimiter = ',')]
    values: Vec<String>,
    /// Set values: a.b=1,c=x.
    #[arg(long, value_name = "ASSIGNMENTS")]
    set: Vec<String>,
    /// Set values that stay strings: a.b=1.
    #[arg(long, value_name = "ASSIGNMENTS")]
    set_string: Vec<String>,
    /// Set values to the content of files: a=path.
    #[arg(long, value_name = "ASSIGNMENTS")]
    set_file: Vec<String>,
    /// Set values from JSON: a='{"b": 1}', or a whole object.
    #[arg(long, value_name = "JSON")]
    set_json: Vec<String>,
    /// Set one value to everything after the equals sign.
    #[arg(long, value_name = "ASSIGNMENT")]
    set_literal: Vec<String>,
}

impl ValueFlags {
    pub(crate) fn give_to(&self, flags: &mut TemplateFlags) {
        flags.values.clone_from(&self.values);
        flags.set.clone_from(&self.set);
        flags.set_string.clone_from(&self.set_string);
        flags.set_file.clone_from(&self.set_file);
        flags.set_json.clone_from(&self.set_json);
        flags.set_literal.clone_from(&self.set_literal);
    }
}

/// Flags of `helm template` that change nothing of what it prints: scripts give them.
#[derive(Debug, clap::Args)]
struct Accepted {
    #[arg(long, hide = true)]
    create_namespace: bool,
    #[arg(long, hide = true)]
    debug: bool,
    #[arg(long, hide = true)]
    dependency_update: bool,
    #[arg(long, hide = true)]
    description: Option<String>,
    #[arg(long, hide = true)]
    disable_openapi_validation: bool,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "client", value_parser = ["client", "true", "none"])]
    dry_run: Option<String>,
    #[arg(long, hide = true)]
    kube_context: Option<String>,
    #[arg(long, hide = true)]
    kubeconfig: Option<String>,
    #[arg(short, long, hide = true)]
    labels: Vec<String>,
    #[arg(long, hide = true)]
    replace: bool,
    #[arg(long, hide = true)]
    skip_crds: bool,
    #[arg(long, hide = true)]
    timeout: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "watcher")]
    wait: Option<String>,
    #[arg(long, hide = true)]
    wait_for_jobs: bool,
}

fn parse_helm_version(text: &str) -> Result<HelmVersion, HelmVersionError> {
    text.parse()
}

impl Arguments {
    fn flags(&self) -> TemplateFlags {
        let mut flags = TemplateFlags {
            show_only: self.show_only.clone(),
            include_crds: self.include_crds,
            api_versions: self.api_versions.clone(),
            kube_version: self.kube_version.clone(),
            namespace: self.namespace.clone(),
            is_upgrade: self.is_upgrade,
            no_hooks: self.no_hooks,
            skip_tests: self.skip_tests,
            skip_schema_validation: self.skip_schema_validation,
            name_template: self.name_template.clone(),
            helm: self.helm_version,
            ..TemplateFlags::default()
        };
        self.values.give_to(&mut flags);
        flags
    }
}

enum Output {
    Text(Vec<u8>),
    /// The release's name, and files by their names.
    Files(String, Vec<(String, Vec<u8>)>),
}

/// Renders and prints; errors are printed as Helm prints them.
pub(crate) fn run(arguments: &Arguments, now: Timestamp) -> anyhow::Result<ExitCode> {
    let (name, chart) = match arguments.names.as_slice() {
        [name, chart] => (Some(name.as_str()), chart.as_str()),
        [chart] => (None, chart.as_str()),
        _ => (None, ""),
    };
    let mut read = read_values_file;
    let mut files = match read_chart(Path::new(chart)) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("Error: {error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let flags = arguments.flags();
    let mut environment = Environment::new(now, SystemEntropy);
    let ahead = files.templates();
    // The process ends soon: taking a chart apart would only take time.
    let load = || files.load(flags.helm).map(|chart| &*Box::leak(Box::new(chart)));
    let name = flags.release_name(name, &mut environment);
    let render = |name: String| match &arguments.output_dir {
        None => template(&name, &flags, &mut read, load, &mut environment).map(Output::Text),
        Some(_) => {
            let rendered = template_rendered(&name, &flags, &mut read, load, &mut environment)?;
            output_files(&rendered, &flags).map(|files| Output::Files(name, files))
        }
    };
    let rendered = std::thread::scope(|scope| {
        // Beside the values, which are read and merged first.
        scope.spawn(|| {
            for template in &ahead {
                template.bytes();
            }
        });
        name.and_then(render)
    });
    // What was made without a file of the chart says nothing about the chart.
    let written = files.all_read().map_err(TemplateError::ReadFile).and(rendered).and_then(|output| {
        let (name, files) = match output {
            Output::Text(text) => return Ok(text),
            Output::Files(name, files) => (name, files),
        };
        let folder = arguments.output_dir.as_deref().unwrap_or(Path::new(""));
        let below = arguments.release_name.then_some(name.as_str());
        write_files(folder, below, &files).map_err(TemplateError::ReadFile)
    });
    match written {
        Ok(output) => {
            std::io::stdout().write_all(&output)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let hint =
                if error.has_debug_hint() { "\n\nUse --debug flag to render out invalid YAML" } else { "" };
            eprintln!("Error: {error}{hint}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Reads a file that the command line names.
///
/// # Errors
/// Helm's text.
pub(crate) fn read_values_file(file: &str) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("open {file}: no such file or directory"),
        _ => format!("open {file}: {error}"),
    })
}

/// Writes files below a folder, and answers with what Helm says about it. A file that several documents come from
/// gets them all.
fn write_files(folder: &Path, below: Option<&str>, files: &[(String, Vec<u8>)]) -> Result<Vec<u8>, String> {
    let mut said = Vec::new();
    let mut written = std::collections::BTreeSet::new();
    for (path, text) in files {
        let path = match below {
            Some(name) => folder.join(name).join(path),
            None => folder.join(path),
        };
        let failed = |error: std::io::Error| format!("open {}: {error}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
        let is_new = written.insert(path.clone());
        let mut options = fs::OpenOptions::new();
        options.create(true).write(true).truncate(is_new).append(!is_new);
        options.open(&path).and_then(|mut file| file.write_all(text)).map_err(failed)?;
        said.extend_from_slice(format!("wrote {}\n", path.display()).as_bytes());
    }
    said.push(b'\n');
    Ok(said)
}

/// Randomness as Helm has it: every run draws anew.
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        rand::fill(bytes);
    }
}
