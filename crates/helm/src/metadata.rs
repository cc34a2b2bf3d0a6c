//! Chart.yaml.

use crate::chart_struct;
use crate::loose::{self, Fields, Loose, TypedError};
use crate::semver::Version;
use crate::values::Data;
use crate::version::HelmVersion;
use convoy_gotemplate::{Elem, Map, Str, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What a chart says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Name; required.
    pub name: String,
    /// Home page.
    pub home: String,
    /// Pages of the source.
    pub sources: Vec<String>,
    /// SemVer version; required.
    pub version: String,
    /// One sentence.
    pub description: String,
    /// Words to search for.
    pub keywords: Vec<String>,
    /// Who maintains it.
    pub maintainers: Vec<Maintainer>,
    /// URL or file of an icon.
    pub icon: String,
    /// `v1` or `v2`.
    pub api_version: String,
    /// Unused by Helm.
    pub condition: String,
    /// Unused by Helm.
    pub tags: String,
    /// Version of the application.
    pub app_version: String,
    /// Whether it should not be used any more.
    pub deprecated: bool,
    /// Not interpreted.
    pub annotations: BTreeMap<String, String>,
    /// Constraint on the version of Kubernetes.
    pub kube_version: String,
    /// Charts it depends on.
    pub dependencies: Vec<Dependency>,
    /// `application`, `library` or nothing, which is the first.
    pub kind: String,
    has_null_maintainer: bool,
    has_null_dependency: bool,
}

/// Who maintains a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintainer {
    /// Name.
    pub name: String,
    /// Address of electronic mail.
    pub email: String,
    /// Page.
    pub url: String,
}

/// A chart that another depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    /// Name of the chart; after its dependencies were processed, the alias.
    pub name: String,
    /// Constraint on its version.
    pub version: String,
    /// Where it comes from; of no meaning to a render.
    pub repository: String,
    /// Paths of values, separated by commas; the first boolean among them decides.
    pub condition: String,
    /// Names of values under `tags` that decide when no condition does.
    pub tags: Vec<String>,
    /// Whether it is rendered.
    pub enabled: bool,
    /// Values of the child that its parent takes over.
    pub import_values: Vec<ImportValues>,
    /// Another name.
    pub alias: String,
}

/// One entry of `import-values`.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportValues {
    /// `exports.<name>` of the child goes to the top of the parent.
    Export(String),
    /// A path of the child goes to a path of the parent; other keys of the entry are kept for templates.
    Paths {
        /// As `%v` prints it.
        child: String,
        /// As `%v` prints it.
        parent: String,
        /// Whether Helm already rewrote the entry to its two strings.
        rewritten: bool,
    },
    /// Neither; does nothing.
    Other(Data),
}

/// What is wrong with Chart.yaml, in Helm's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("validation: {0}")]
pub struct MetadataError(pub String);

/// Go's package of a chart's types.
fn package(helm: HelmVersion) -> &'static str {
    match helm {
        HelmVersion::V3 => "chart",
        HelmVersion::V4 => "v2",
    }
}

impl Metadata {
    pub(crate) fn read(&mut self, text: &[u8], helm: HelmVersion) -> Result<(), TypedError> {
        let value = loose::read(text)?;
        let package = package(helm);
        let fields = Fields::of(&value, &format!("{package}.Metadata"))?;
        // In the order of the keys, as Go reads them: the first that is wrong is told.
        self.annotations = fields.string_map("annotations")?;
        self.api_version = fields.string("apiVersion")?;
        self.app_version = fields.string("appVersion")?;
        self.condition = fields.string("condition")?;
        self.read_dependencies(&fields, package)?;
        self.deprecated = fields.boolean("deprecated")?;
        self.description = fields.string("description")?;
        self.home = fields.string("home")?;
        self.icon = fields.string("icon")?;
        self.keywords = fields.strings("keywords")?;
        self.kube_version = fields.string("kubeVersion")?;
        let maintainers = fields.structs("maintainers", &format!("{package}.Maintainer"))?;
        self.has_null_maintainer = maintainers.iter().any(Option::is_none);
        self.maintainers = maintainers
            .into_iter()
            .flatten()
            .map(|maintainer| {
                let (email, name) = (maintainer.string("email")?, maintainer.string("name")?);
                Ok(Maintainer { name, email, url: maintainer.string("url")? })
            })
            .collect::<Result<_, _>>()?;
        self.name = fields.string("name")?;
        self.sources = fields.strings("sources")?;
        self.tags = fields.string("tags")?;
        self.kind = fields.string("type")?;
        self.version = fields.string("version")?;
        Ok(())
    }

    /// requirements.yaml of a chart of version 1 has the dependencies only.
    pub(crate) fn read_requirements(&mut self, text: &[u8], helm: HelmVersion) -> Result<(), TypedError> {
        let value = loose::read(text)?;
        let package = package(helm);
        self.read_dependencies(&Fields::of(&value, &format!("{package}.Metadata"))?, package)
    }

    fn read_dependencies(&mut self, fields: &Fields<'_>, package: &str) -> Result<(), TypedError> {
        let dependencies = fields.structs("dependencies", &format!("{package}.Dependency"))?;
        if dependencies.is_empty() {
            return Ok(());
        }
        self.has_null_dependency = dependencies.iter().any(Option::is_none);
        self.dependencies = dependencies
            .into_iter()
            .flatten()
            .map(|fields| {
                Ok(Dependency {
                    name: fields.string("name")?,
                    version: fields.string("version")?,
                    repository: fields.string("repository")?,
                    condition: fields.string("condition")?,
                    tags: fields.strings("tags")?,
                    enabled: fields.boolean("enabled")?,
                    import_values: fields.list("import-values")?.iter().map(ImportValues::read).collect(),
                    alias: fields.string("alias")?,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Cleans its strings and says what is wrong.
    pub(crate) fn validate(&mut self) -> Result<(), MetadataError> {
        let strings = [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ];
        strings.into_iter().chain(&mut self.sources).chain(&mut self.keywords).for_each(sanitize);
        let wrong = |text: String| Err(MetadataError(text));
        if self.api_version.is_empty() {
            return wrong("chart.metadata.apiVersion is required".to_owned());
        }
        if self.name.is_empty() {
            return wrong("chart.metadata.name is required".to_owned());
        }
        if self.name == "." || self.name == ".." {
            return wrong(format!("chart.metadata.name {:?} is not allowed", self.name));
        }
        if self.name.contains('/') {
            return wrong(format!("chart.metadata.name {:?} is invalid", self.name));
        }
        if self.version.is_empty() {
            return wrong("chart.metadata.version is required".to_owned());
        }
        if Version::parse(&self.version).is_err() {
            return wrong(format!("chart.metadata.version {:?} is invalid", self.version));
        }
        if !matches!(self.kind.as_str(), "" | "application" | "library") {
            return wrong("chart.metadata.type must be application or library".to_owned());
        }
        if self.has_null_maintainer {
            return wrong("maintainers must not contain empty or null nodes".to_owned());
        }
        for maintainer in &mut self.maintainers {
            [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url].into_iter().for_each(sanitize);
        }
        if self.has_null_dependency {
            return wrong("dependencies must not contain empty or null nodes".to_owned());
        }
        let mut seen = BTreeSet::new();
        for dependency in &mut self.dependencies {
            let Dependency { name, version, repository, condition, .. } = dependency;
            [name, version, repository, condition].into_iter().chain(&mut dependency.tags).for_each(sanitize);
            let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if !dependency.alias.bytes().all(word) {
                return wrong(format!(
                    "dependency {:?} has disallowed characters in the alias",
                    dependency.name
                ));
            }
            let key = if dependency.alias.is_empty() { &dependency.name } else { &dependency.alias };
            if !seen.insert(key.clone()) {
                return wrong(format!("more than one dependency with name or alias {key:?}"));
            }
        }
        Ok(())
    }

    /// `.Chart`.
    pub(crate) fn to_value(&self, is_root: bool, helm: HelmVersion) -> Value {
        match helm {
            HelmVersion::V3 => chart_struct::value(self, is_root),
            HelmVersion::V4 => Value::Map(self.to_map(is_root)),
        }
    }

    /// Go's fields by their names.
    fn to_map(&self, is_root: bool) -> Map {
        let text = |text: &str| Value::string(text);
        let strings = |items: &[String]| Value::list(items.iter().map(|item| text(item)).collect());
        let annotations = self.annotations.iter().map(|(k, v)| (Str::from(k.as_str()), text(v))).collect();
        let annotations = if self.annotations.is_empty() {
            Map::nil_of(Elem::String)
        } else {
            Map::with_elem(Elem::String, annotations)
        };
        let maintainers = self.maintainers.iter().map(|maintainer| {
            Value::map([
                ("Name", text(&maintainer.name)),
                ("Email", text(&maintainer.email)),
                ("URL", text(&maintainer.url)),
            ])
        });
        [
            ("Name", text(&self.name)),
            ("Home", text(&self.home)),
            ("Sources", strings(&self.sources)),
            ("Version", text(&self.version)),
            ("Description", text(&self.description)),
            ("Keywords", strings(&self.keywords)),
            ("Maintainers", Value::list(maintainers.collect())),
            ("Icon", text(&self.icon)),
            ("APIVersion", text(&self.api_version)),
            ("Condition", text(&self.condition)),
            ("Tags", text(&self.tags)),
            ("AppVersion", text(&self.app_version)),
            ("Deprecated", Value::Bool(self.deprecated)),
            ("Annotations", Value::Map(annotations)),
            ("KubeVersion", text(&self.kube_version)),
            ("Dependencies", Value::list(self.dependencies.iter().map(Dependency::to_value).collect())),
            ("Type", text(&self.kind)),
            ("IsRoot", Value::Bool(is_root)),
        ]
        .into_iter()
        .collect()
    }
}

impl Dependency {
    fn to_value(&self) -> Value {
        let text = |text: &str| Value::string(text);
        Value::map([
            ("Name", text(&self.name)),
            ("Version", text(&self.version)),
            ("Repository", text(&self.repository)),
            ("Condition", text(&self.condition)),
            ("Tags", Value::list(self.tags.iter().map(|tag| text(tag)).collect())),
            ("Enabled", Value::Bool(self.enabled)),
            ("ImportValues", Value::list(self.import_values.iter().map(ImportValues::to_value).collect())),
            ("Alias", text(&self.alias)),
        ])
    }
}

impl ImportValues {
    fn read(entry: &Loose) -> Self {
        match entry {
            Loose::Str(name) => Self::Export(name.clone()),
            Loose::Map(entries) => {
                let text = |key: &str| match entries.get(key) {
                    Some(Loose::Str(text)) => text.clone(),
                    Some(Loose::Bool(value)) => value.to_string(),
                    Some(Loose::Int(value)) => value.to_string(),
                    _ => "<nil>".to_owned(),
                };
                Self::Paths { child: text("child"), parent: text("parent"), rewritten: false }
            }
            _ => Self::Other(Data::Null),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Export(name) => Value::string(name.as_str()),
            Self::Paths { child, parent, rewritten } => {
                let entries = [("child", child), ("parent", parent)]
                    .into_iter()
                    .map(|(key, text)| (Str::from(key), Value::string(text.as_str())))
                    .collect();
                let elem = if *rewritten { Elem::String } else { Elem::Any };
                Value::Map(Map::with_elem(elem, entries))
            }
            Self::Other(data) => data.to_value(),
        }
    }
}

/// Spaces of any kind become plain ones, and what cannot be printed is dropped.
fn sanitize(text: &mut String) {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| match c {
            c if c.is_whitespace() => Some(' '),
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}') =>
            {
                None
            }
            c => Some(c),
        })
        .collect();
}
