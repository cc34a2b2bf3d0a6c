//! What `helm template` does with its flags, without files: the caller reads them.

use crate::capabilities::{Capabilities, KubeVersion, KubeVersionError};
use crate::chart::{Chart, LoadError};
use crate::files::go_text;
use crate::functions::{Environment, functions};
use crate::manifest::{Hook, HookEvent, split, trim_end, trim_start};
use crate::path_match::path_match;
use crate::render::{ReleaseOptions, RenderError, Rendered, render};
use crate::strvals::{Mode, SetError, set};
use crate::values::{Data, Values, ValuesError, lay_over, read_values};
use crate::version::HelmVersion;
use convoy_gotemplate::{Session, Templates, Value, parse};
use std::borrow::Borrow;

/// The flags of `helm template` that change what it prints.
#[derive(Clone, Debug, Default)]
pub struct TemplateFlags {
    /// `-f`, `--values`: names of files.
    pub values: Vec<String>,
    /// `--set`.
    pub set: Vec<String>,
    /// `--set-string`.
    pub set_string: Vec<String>,
    /// `--set-file`.
    pub set_file: Vec<String>,
    /// `--set-json`.
    pub set_json: Vec<String>,
    /// `--set-literal`.
    pub set_literal: Vec<String>,
    /// `-s`, `--show-only`: patterns of template paths without the chart's name.
    pub show_only: Vec<String>,
    /// `--include-crds`.
    pub include_crds: bool,
    /// `-a`, `--api-versions`, each already split at its commas.
    pub api_versions: Vec<String>,
    /// `--kube-version`.
    pub kube_version: Option<String>,
    /// `-n`, `--namespace`.
    pub namespace: Option<String>,
    /// `--is-upgrade`.
    pub is_upgrade: bool,
    /// `--no-hooks`.
    pub no_hooks: bool,
    /// `--skip-tests`.
    pub skip_tests: bool,
    /// `--skip-schema-validation`.
    pub skip_schema_validation: bool,
    /// `--name-template`.
    pub name_template: Option<String>,
    /// The Helm whose output is printed; the chart has to be loaded for it as well.
    pub helm: HelmVersion,
}

/// Why `helm template` fails; displays what it prints after `Error: `, without the hint about `--debug`.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// `--kube-version` is no version.
    #[error("invalid kube version '{version}': {cause}")]
    KubeVersion {
        /// What was given.
        version: String,
        /// What is wrong with it.
        cause: KubeVersionError,
    },
    /// A file of values cannot be read.
    #[error("{0}")]
    ReadFile(String),
    /// A file of values is no map of values.
    #[error("failed to parse {file}: {}", .cause.helm_text(*.helm))]
    ValuesFile {
        /// Its name.
        file: String,
        /// Whose words the text has.
        helm: HelmVersion,
        /// What is wrong with it.
        cause: ValuesError,
    },
    /// An argument of the `--set` family cannot be read.
    #[error("failed parsing {flag} data: {cause}")]
    Set {
        /// The flag.
        flag: &'static str,
        /// What is wrong with its argument.
        cause: SetError,
    },
    /// An argument of `--set-json` is no JSON.
    #[error("failed parsing --set-json data{form} {argument}")]
    SetJson {
        /// ` JSON:` for an object.
        form: &'static str,
        /// The argument.
        argument: String,
    },
    /// The files are no chart.
    #[error("{}", .0.helm_text())]
    Chart(#[from] LoadError),
    /// The chart is for other charts to use.
    #[error("{0} charts are not installable")]
    NotInstallable(String),
    /// Dependencies are not there.
    #[error("{}: found in Chart.yaml, but missing in charts/ directory: {}", missing_advice(*.helm), .names.join(", "))]
    MissingDependencies {
        /// Their names.
        names: Vec<String>,
        /// Whose words the text has.
        helm: HelmVersion,
    },
    /// The name of the release is none.
    #[error("{}release name {name:?}: {problem}", if *.helm == HelmVersion::V4 { "release name check failed: " } else { "" })]
    ReleaseName {
        /// Whose words the text has.
        helm: HelmVersion,
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A name and a template for one.
    #[error("cannot set --name-template and also specify a name")]
    TwoNames,
    /// The template of a name cannot be parsed or fails.
    #[error("{0}")]
    NameTemplate(String),
    /// The chart does not render.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// `--show-only` names nothing.
    #[error("could not find template {0} in chart")]
    NotFound(String),
}

fn missing_advice(helm: HelmVersion) -> &'static str {
    match helm {
        HelmVersion::V3 => {
            "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to fetch missing dependencies"
        }
        HelmVersion::V4 => {
            "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch missing dependencies"
        }
    }
}

impl TemplateError {
    /// Whether Helm adds `Use --debug flag to render out invalid YAML` after an empty line.
    pub fn has_debug_hint(&self) -> bool {
        matches!(self, Self::Render(error) if error.is_from_rendering())
    }
}

impl TemplateFlags {
    /// The values that the flags give, in Helm's order of precedence. `read_file` reads a file by the name
    /// that was given.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or an argument has no meaning.
    pub fn merge_values(
        &self,
        read_file: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Values, TemplateError> {
        let mut values = Values::new();
        for file in &self.values {
            let text = read_file(file).map_err(TemplateError::ReadFile)?;
            let helm = self.helm;
            let over = read_values(&text, helm).map_err(|cause| TemplateError::ValuesFile {
                file: file.clone(),
                helm,
                cause,
            })?;
            lay_over(&mut values, over);
        }
        for argument in &self.set_json {
            let bad = |form| TemplateError::SetJson { form, argument: argument.clone() };
            let trimmed = argument.trim();
            if trimmed.starts_with('{') && self.helm == HelmVersion::V4 {
                match serde_json::from_str::<serde_json::Value>(trimmed).map(|json| Data::from(&json)) {
                    Ok(Data::Map(over)) => lay_over(&mut values, over),
                    _ => return Err(bad(" JSON:")),
                }
            } else {
                set(argument, &mut values, Mode::Json).map_err(|_| bad(""))?;
            }
        }
        let wrong = |flag| move |cause| TemplateError::Set { flag, cause };
        for argument in &self.set {
            set(argument, &mut values, Mode::Typed).map_err(wrong("--set"))?;
        }
        for argument in &self.set_string {
            set(argument, &mut values, Mode::Text).map_err(wrong("--set-string"))?;
        }
        for argument in &self.set_file {
            set(argument, &mut values, Mode::File(read_file)).map_err(wrong("--set-file"))?;
        }
        for argument in &self.set_literal {
            set(argument, &mut values, Mode::Literal).map_err(wrong("--set-literal"))?;
        }
        Ok(values)
    }

    /// The name of the release: the one that is given, what `--name-template` renders to, or `release-name`.
    ///
    /// # Errors
    ///
    /// When there are two, or the template is none.
    pub fn release_name(
        &self,
        name: Option<&str>,
        environment: &mut Environment,
    ) -> Result<String, TemplateError> {
        let template = match (name, &self.name_template) {
            (Some(_), Some(_)) => return Err(TemplateError::TwoNames),
            (Some(name), None) => return Ok(name.to_owned()),
            (None, None) => return Ok("release-name".to_owned()),
            (None, Some(template)) => template,
        };
        let failed = |error: &dyn std::fmt::Display| TemplateError::NameTemplate(error.to_string());
        let parsed =
            parse("name-template", template.as_bytes(), functions()).map_err(|error| failed(&error))?;
        let mut templates = Templates::new();
        templates.add(&parsed);
        let mut session = Session::new().with_host(environment);
        let name = session.execute(&templates, b"name-template", &Value::Nil);
        name.map(|name| go_text(&name)).map_err(|error| failed(&error))
    }

    /// The target that the flags describe.
    ///
    /// # Errors
    ///
    /// When `--kube-version` is no version.
    pub fn capabilities(&self) -> Result<Capabilities, TemplateError> {
        let mut capabilities = Capabilities::assumed_by(self.helm);
        if let Some(version) = &self.kube_version {
            let mut parsed = KubeVersion::parse(version)
                .map_err(|cause| TemplateError::KubeVersion { version: version.clone(), cause })?;
            if self.helm == HelmVersion::V3 {
                // It forgets what follows the numbers.
                parsed.version.clone_from(&parsed.normalized);
            }
            capabilities.kube_version = parsed;
        }
        if !self.api_versions.is_empty() {
            let known = capabilities.api_versions.iter();
            capabilities.api_versions = known.chain(&self.api_versions).cloned().collect();
        }
        Ok(capabilities)
    }
}

/// What `helm template NAME CHART` prints. `load` is asked for the chart, or for what holds it, once the values are
/// read, so that errors come in Helm's order.
///
/// # Errors
///
/// In Helm's words.
pub fn template<C: Borrow<Chart>>(
    name: &str,
    flags: &TemplateFlags,
    read_file: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    load: impl FnOnce() -> Result<C, LoadError>,
    environment: &mut Environment,
) -> Result<Vec<u8>, TemplateError> {
    let rendered = template_rendered(name, flags, read_file, load, environment)?;
    let all = print(&rendered, flags);
    if flags.show_only.is_empty() { Ok(all) } else { show_only(&all, flags) }
}

/// What `helm template NAME CHART` renders, before it is printed.
///
/// # Errors
///
/// As for [`template`].
pub fn template_rendered<C: Borrow<Chart>>(
    name: &str,
    flags: &TemplateFlags,
    read_file: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    load: impl FnOnce() -> Result<C, LoadError>,
    environment: &mut Environment,
) -> Result<Rendered, TemplateError> {
    let capabilities = flags.capabilities()?;
    let values = flags.merge_values(read_file)?;
    let chart = load()?;
    let chart = chart.borrow();
    check_installable(chart)?;
    check_name(name, flags.helm)?;
    let release = ReleaseOptions {
        name: name.to_owned(),
        namespace: flags.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        is_upgrade: flags.is_upgrade,
        skip_schema: flags.skip_schema_validation,
        ..ReleaseOptions::default()
    };
    Ok(render(chart, &values, &release, &capabilities, environment)?)
}

/// What `helm template --output-dir` writes: the path below the folder and what is added to the file, in order.
///
/// # Errors
///
/// `--show-only` finds nothing then.
pub fn output_files(
    rendered: &Rendered,
    flags: &TemplateFlags,
) -> Result<Vec<(String, Vec<u8>)>, TemplateError> {
    if let Some(pattern) = flags.show_only.first() {
        return Err(TemplateError::NotFound(pattern.clone()));
    }
    let one = |source: &str, content: &[u8]| {
        let mut text = Vec::new();
        print_one(&mut text, source, content);
        (source.to_owned(), text)
    };
    let crds =
        rendered.crds.iter().filter(|_| flags.include_crds).map(|(name, data)| one(name, data.bytes()));
    let manifests = rendered.manifests.iter().map(|manifest| one(&manifest.source, &manifest.content));
    let hooks = hooks(rendered, flags).map(|hook| one(&hook.manifest.source, &hook.manifest.content));
    Ok(crds.chain(manifests).chain(hooks).collect())
}

/// The hooks that are printed.
fn hooks<'r>(rendered: &'r Rendered, flags: &'r TemplateFlags) -> impl Iterator<Item = &'r Hook> {
    let hooks = rendered.hooks.iter().filter(|_| !flags.no_hooks);
    hooks.filter(|hook| !(flags.skip_tests && hook.events.contains(&HookEvent::Test)))
}

/// Whether a chart can be rendered by itself: it is no library, and its dependencies are there.
///
/// # Errors
///
/// When it cannot.
pub fn check_installable(chart: &Chart) -> Result<(), TemplateError> {
    if !matches!(chart.metadata.kind.as_str(), "" | "application") {
        return Err(TemplateError::NotInstallable(chart.metadata.kind.clone()));
    }
    let is_there = |name: &str| chart.dependencies.iter().any(|child| child.metadata.name == name);
    let dependencies = chart.metadata.dependencies.iter().map(|dependency| &dependency.name);
    let missing: Vec<String> = dependencies.filter(|name| !is_there(name)).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(TemplateError::MissingDependencies { names: missing, helm: chart.helm })
}

/// Whether Helm accepts a name for a release.
///
/// # Errors
///
/// When it does not.
pub fn check_name(name: &str, helm: HelmVersion) -> Result<(), TemplateError> {
    let error = |problem| Err(TemplateError::ReleaseName { helm, name: name.to_owned(), problem });
    if name.is_empty() {
        return error("no name provided");
    }
    let label = |label: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        edge(label.as_bytes().first()) && edge(label.as_bytes().last()) && label.bytes().all(inner)
    };
    if name.len() > 53 || !name.split('.').all(label) {
        return error(
            "invalid release name, must match regex ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than 53",
        );
    }
    Ok(())
}

fn print(rendered: &Rendered, flags: &TemplateFlags) -> Vec<u8> {
    let mut manifests = Vec::new();
    if flags.include_crds {
        rendered.crds.iter().for_each(|(name, data)| print_one(&mut manifests, name, data.bytes()));
    }
    for manifest in &rendered.manifests {
        print_one(&mut manifests, &manifest.source, &manifest.content);
    }
    let mut all = trim_end(trim_start(&manifests)).to_vec();
    all.push(b'\n');
    for hook in hooks(rendered, flags) {
        print_one(&mut all, &hook.manifest.source, &hook.manifest.content);
    }
    all
}

fn print_one(out: &mut Vec<u8>, source: &str, content: &[u8]) {
    out.extend_from_slice(b"---\n# Source: ");
    out.extend_from_slice(source.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(content);
    out.push(b'\n');
}

fn show_only(all: &[u8], flags: &TemplateFlags) -> Result<Vec<u8>, TemplateError> {
    let documents = split(all, flags.helm);
    let mut out = Vec::new();
    for pattern in &flags.show_only {
        let mut found = false;
        for document in &documents {
            let Some(path) = source_of(document) else { continue };
            if path_match(pattern, &path).unwrap_or(false) {
                found = true;
                out.extend_from_slice(b"---\n");
                out.extend_from_slice(document);
                out.push(b'\n');
            }
        }
        if !found {
            return Err(TemplateError::NotFound(pattern.clone()));
        }
    }
    Ok(out)
}

/// The path after `# Source: <chart>/`.
fn source_of(document: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"# Source: ";
    let at = document.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let line = document.get(at..)?.split(|byte| *byte == b'\n').next()?;
    let path = line.iter().position(|byte| *byte == b'/')?;
    Some(String::from_utf8_lossy(line.get(path + 1..)?).into_owned())
}
