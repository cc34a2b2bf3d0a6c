//! A chart, values and a target to manifests, hooks, custom resource definitions and notes.

use crate::capabilities::Capabilities;
use crate::chart::{Chart, File};
use crate::coalesce::{Nulls, TypeMismatch, coalesce_values};
use crate::content::Content;
use crate::exec_text;
use crate::files::Files;
use crate::functions::{Environment, functions_of, without_no_value};
use crate::manifest::{self, Hook, Manifest, ManifestError};
use crate::schema::{self, SchemaError};
use crate::semver::is_compatible;
use crate::tree::Node;
use crate::values::{Values, to_map};
use crate::version::HelmVersion;
use crate::watch::Watch;
use convoy_gotemplate::{Limit, Limits, Map, MissingKey, Session, Str, Used, Value};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a release is called and where it goes.
#[derive(Clone, Debug)]
pub struct ReleaseOptions {
    /// `.Release.Name`.
    pub name: String,
    /// `.Release.Namespace`.
    pub namespace: String,
    /// `.Release.Revision`.
    pub revision: u32,
    /// Whether objects of the release are there already.
    pub is_upgrade: bool,
    /// What the templates may use.
    pub limits: Limits,
    /// Whether values.schema.json is left alone.
    pub skip_schema: bool,
}

impl Default for ReleaseOptions {
    fn default() -> Self {
        Self {
            name: "release-name".to_owned(),
            namespace: "default".to_owned(),
            revision: 1,
            is_upgrade: false,
            limits: Limits::default(),
            skip_schema: false,
        }
    }
}

/// What a chart renders to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Objects in the order of installation.
    pub manifests: Vec<Manifest>,
    /// Hooks, by kind as the manifests are; their weights are not looked at here.
    pub hooks: Vec<Hook>,
    /// What stands in `crds/`, of all charts: name with the chart's path, and content.
    pub crds: Vec<(String, Content)>,
    /// NOTES.txt of the chart itself.
    pub notes: Str,
}

/// Why a chart does not render. Displays Helm's texts, which may show values.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A value stands where the values of a subchart belong.
    #[error("{}{cause}", if *.helm == HelmVersion::V4 { "chart dependencies processing failed: " } else { "" })]
    Dependencies {
        /// What is wrong.
        #[source]
        cause: TypeMismatch,
        /// Whose words the text has.
        helm: HelmVersion,
    },
    /// Values and subcharts do not fit.
    #[error(transparent)]
    Values(#[from] TypeMismatch),
    /// The values do not fit the schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The chart wants another Kubernetes.
    #[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {found}")]
    KubeVersion {
        /// The chart's constraint.
        wanted: String,
        /// The target's version.
        found: String,
    },
    /// A template cannot be parsed.
    #[error("{text}")]
    Parse {
        /// The template, as in `app/templates/x.yaml`.
        file: String,
        /// Line in it, from 1.
        line: u32,
        /// Helm's text.
        text: String,
    },
    /// A template fails.
    #[error("{text}")]
    Execute {
        /// The template that was rendered.
        file: String,
        /// Helm's text.
        text: String,
        /// A limit of the render was reached.
        limit: Option<Limit>,
    },
    /// What a template renders to is no YAML.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A limit was reached, but not inside a template.
    #[error("{doing}: {limit}: {advice}")]
    Limit {
        /// What was being done.
        doing: String,
        /// Which.
        limit: Limit,
        /// Its value, and what to do.
        advice: String,
    },
}

impl RenderError {
    /// The limit that was reached, when one was.
    pub fn reached_limit(&self) -> Option<Limit> {
        match self {
            Self::Execute { limit, .. } => *limit,
            Self::Limit { limit, .. } => Some(*limit),
            _ => None,
        }
    }

    /// Whether Helm had begun to render; its command then adds a hint to the error.
    pub fn is_from_rendering(&self) -> bool {
        !matches!(self, Self::Dependencies { .. } | Self::Values(_) | Self::Schema(_))
    }
}

/// Renders a chart. The environment is for one render.
///
/// # Errors
///
/// As [`RenderError`] says; then nothing is rendered.
pub fn render(
    chart: &Chart,
    values: &Values,
    release: &ReleaseOptions,
    capabilities: &Capabilities,
    environment: &mut Environment,
) -> Result<Rendered, RenderError> {
    let deadline = environment.deadline();
    let is_stopped = || deadline.as_ref().is_some_and(|passed| passed());
    let limit = |doing: &str, limit: Limit| RenderError::Limit {
        doing: doing.to_owned(),
        limit,
        advice: release.limits.advice(limit),
    };
    let watch = Watch::new(&is_stopped);
    let given = to_map(values, &watch);
    let mut root = Node::new(chart, &watch);
    let helm = chart.helm;
    environment.set_helm(helm);
    let processed = root.process_dependencies(&given);
    let values = coalesce_values(&root, &given, Nulls::Remove);
    if watch.is_over() {
        return Err(limit("putting the values together", Limit::Deadline));
    }
    processed.map_err(|cause| RenderError::Dependencies { cause, helm })?;
    let values = values?;
    if !release.skip_schema {
        schema::validate(&root, &values, &is_stopped).map_err(|error| match is_stopped() {
            true => limit("holding the values to the schema", Limit::Deadline),
            false => RenderError::Schema(error),
        })?;
    }
    let wanted = &root.metadata.kube_version;
    if !wanted.is_empty() && !is_compatible(wanted, &capabilities.kube_version.normalized) {
        return Err(RenderError::KubeVersion {
            wanted: wanted.clone(),
            found: capabilities.kube_version.version.clone(),
        });
    }
    let release_map = Value::map([
        ("Name", Value::string(release.name.as_str())),
        ("Namespace", Value::string(release.namespace.as_str())),
        ("IsUpgrade", Value::Bool(release.is_upgrade)),
        ("IsInstall", Value::Bool(!release.is_upgrade)),
        ("Revision", Value::Int(i64::from(release.revision))),
        ("Service", Value::string("Helm")),
    ]);
    let target = Target { release: release_map, limits: release.limits, capabilities };
    let mut files = Engine::run(&root, &values, &target, environment)?;
    let notes_path = format!("{}/templates/NOTES.txt", root.metadata.name);
    let notes = files.get(&notes_path).cloned().unwrap_or_default();
    files.retain(|path, _| !path.ends_with("NOTES.txt"));
    let (manifests, hooks) =
        manifest::sort(&files, helm, &is_stopped).map_err(|error| match error.limit() {
            Some(reached) => limit(&format!("reading what {} renders to", error.source_path), reached),
            None => RenderError::Manifest(error),
        })?;
    let mut crds = Vec::new();
    collect_crds(&root, &root.metadata.name, &mut crds);
    Ok(Rendered { manifests, hooks, crds, notes })
}

/// Whether the name of a file in `crds/` is that of a manifest.
pub(crate) fn is_manifest(name: &str) -> bool {
    let end = name.rsplit('/').next().unwrap_or(name).rsplit_once('.').map_or("", |(_, end)| end);
    ["yaml", "yml", "json"].iter().any(|known| end.eq_ignore_ascii_case(known))
}

fn collect_crds(node: &Node<'_>, path: &str, crds: &mut Vec<(String, Content)>) {
    for file in &node.chart.files {
        if file.name.starts_with("crds/") && is_manifest(&file.name) {
            crds.push((format!("{path}/{}", file.name), file.data.clone()));
        }
    }
    for child in &node.dependencies {
        collect_crds(child, &child.path_below(path), crds);
    }
}

/// One template in its chart.
struct Template<'c> {
    file: &'c File,
    /// `.` of the chart, but for `.Template`.
    data: Map,
    base_path: String,
}

/// What templates are rendered for.
pub(crate) struct Target<'t> {
    /// `.Release`.
    pub(crate) release: Value,
    pub(crate) limits: Limits,
    pub(crate) capabilities: &'t Capabilities,
}

pub(crate) struct Engine;

impl Engine {
    /// Renders all templates of a chart whose dependencies were processed: path and output of each.
    pub(crate) fn run(
        root: &Node<'_>,
        values: &Map,
        target: &Target<'_>,
        environment: &mut Environment,
    ) -> Result<BTreeMap<String, Str>, RenderError> {
        let mut templates = BTreeMap::new();
        let helm = root.chart.helm;
        let root_values = Value::Map(Map::named(helm.values_type(), values.borrow().clone()));
        let shared =
            [("Release", target.release.clone()), ("Capabilities", target.capabilities.to_value(helm))];
        collect(root, None, &root.metadata.name, &root_values, &shared, &mut templates);

        // Those nearer to the top come last and so win.
        let mut order: Vec<&String> = templates.keys().collect();
        order.sort_by_key(|path| Reverse((path.matches('/').count(), path.as_str())));
        let wanted = order
            .iter()
            .filter_map(|path| Some(((*path).clone(), templates.get(*path)?.file.data.bytes().clone())));
        let deadline = environment.deadline();
        let is_stopped = || deadline.as_ref().is_some_and(|passed| passed());
        let parsed = root.chart.parsed.set(wanted.collect(), functions_of(helm), &is_stopped);
        let parsed = parsed.map_err(|(file, error)| match error {
            Some(error) => {
                let text = exec_text::parse_error(&file, &error.to_string());
                RenderError::Parse { file, line: error.line(), text }
            }
            None => RenderError::Limit {
                doing: format!("parsing {file}"),
                limit: Limit::Deadline,
                advice: target.limits.advice(Limit::Deadline),
            },
        })?;
        let mut session = Session::new().with_limits(target.limits).with_missing_key(MissingKey::Zero);
        if let Some(passed) = &deadline {
            session = session.with_deadline(passed.as_ref());
        }
        let mut session = session.with_host(environment);
        let mut rendered = BTreeMap::new();
        let (mut used, mut failed) = (Used::default(), None);
        for path in order {
            let Some(template) = templates.get(path) else { continue };
            if path.rsplit('/').next().is_some_and(|name| name.starts_with('_')) {
                continue;
            }
            let name = [
                ("Name", Value::string(path.as_str())),
                ("BasePath", Value::string(template.base_path.as_str())),
            ];
            let name = name.into_iter().map(|(key, value)| (Str::from(key), value)).collect();
            template.data.insert("Template".into(), Value::Map(Map::named(helm.values_type(), name)));
            let data = Value::Map(template.data.clone());
            let output = session.execute(&parsed, path.as_bytes(), &data).map_err(|error| {
                let mut text = exec_text::exec_error(path, &error.to_string(), helm);
                if let Some(limit) = error.reached_limit() {
                    text.push_str(": ");
                    text.push_str(&target.limits.advice(limit));
                }
                RenderError::Execute { file: path.clone(), text, limit: error.reached_limit() }
            });
            match output {
                Ok(output) => rendered.insert(path.clone(), without_no_value(&output)),
                Err(error) => {
                    used = session.used();
                    failed = Some(error);
                    break;
                }
            };
            used = session.used();
        }
        drop(session);
        environment.set_used(used);
        failed.map_or(Ok(rendered), Err)
    }
}

/// The templates of a chart and of the charts in it, each with what it is given; returns the chart's.
fn collect<'c>(
    node: &Node<'c>,
    parent: Option<&Map>,
    path: &str,
    values: &Value,
    shared: &[(&'static str, Value)],
    templates: &mut BTreeMap<String, Template<'c>>,
) -> Map {
    let subcharts = Map::default();
    let data = [
        ("Chart", node.metadata_value(parent.is_none())),
        ("Files", Files::of(&node.chart.files, node.chart.helm)),
        ("Values", values.clone()),
        ("Subcharts", Value::Map(subcharts.clone())),
    ]
    .into_iter()
    .chain(shared.iter().cloned())
    .map(|(key, value)| (Str::from(key), value));
    let data = Map::named(node.chart.helm.values_type(), data.collect());
    for child in &node.dependencies {
        let name = child.metadata.name.as_str();
        let own = match values {
            Value::Map(values) => values.get(name.as_bytes()),
            _ => None,
        };
        let own = match own {
            Some(Value::Map(own)) => Value::Map(own),
            _ => Value::Map(Map::named(node.chart.helm.values_type(), BTreeMap::new())),
        };
        let path = child.path_below(path);
        let data = collect(child, Some(&data), &path, &own, shared, templates);
        subcharts.insert(name.into(), Value::Map(data));
    }
    for file in &node.chart.templates {
        let is_partial = file.name.rsplit('/').next().is_some_and(|name| name.starts_with('_'));
        if node.chart.is_library() && !is_partial {
            continue;
        }
        let template = Template { file, data: data.clone(), base_path: format!("{path}/templates") };
        templates.insert(format!("{path}/{}", file.name), template);
    }
    data
}
