//! Charts from files in memory.

use crate::archive::{self, ArchiveError};
use crate::content::Content;
use crate::ignore::{IgnoreError, IgnoreRules};
use crate::loose::TypedError;
use crate::metadata::{Metadata, MetadataError};
use crate::parsed::ParsedTemplates;
use crate::schema::CompiledSchema;
use crate::values::{Values, ValuesError, read_values};
use crate::version::HelmVersion;
use convoy_gotemplate::Str;
use std::collections::BTreeMap;

/// Charts in charts in charts: deeper nesting is refused.
const MAX_NESTING: usize = 32;

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path from the chart's folder, with slashes.
    pub name: String,
    /// Content.
    pub data: Content,
}

/// A chart as it was loaded: nothing in it depends on a render, and threads can share it.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Chart.yaml.
    pub metadata: Metadata,
    /// values.yaml.
    pub values: Values,
    /// The text of values.yaml.
    pub values_text: Option<Str>,
    /// values.schema.json.
    pub schema: Option<Str>,
    /// What stands in `templates/`.
    pub templates: Vec<File>,
    /// What is neither a template nor a chart nor read above: `.Files` and `crds/`.
    pub files: Vec<File>,
    /// What stands in `charts/`.
    pub dependencies: Vec<Chart>,
    /// The Helm that it is read and rendered as.
    pub helm: HelmVersion,
    pub(crate) parsed: ParsedTemplates,
    pub(crate) compiled_schema: CompiledSchema,
}

/// Why files are no chart. The texts are Helm's.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no Chart.yaml.
    #[error("Chart.yaml file is missing")]
    NoChartYaml,
    /// `apiVersion` of Chart.yaml is neither v1 nor v2.
    #[error("unsupported chart version")]
    Version,
    /// A file of the chart does not have the form that its name promises.
    #[error("cannot load {file}")]
    File {
        /// Its path in the chart.
        file: &'static str,
        /// What is wrong with it.
        #[source]
        source: TypedError,
    },
    /// values.yaml is no map of values.
    #[error("cannot load values.yaml")]
    Values {
        /// What is wrong with it.
        #[source]
        source: ValuesError,
        /// Whose words the text has.
        helm: HelmVersion,
    },
    /// Chart.yaml says something that cannot be.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// .helmignore cannot be read.
    #[error(transparent)]
    Ignore(#[from] IgnoreError),
    /// The chart is an archive that is refused.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A file is larger than 5 MiB.
    #[error("chart file {0:?} is larger than the maximum file size {max}", max = archive::MAX_FILE)]
    FileTooLarge(String),
    /// A .tgz in `charts/` is a folder.
    #[error("error unpacking subchart tar in {chart}: expected {archive}, got {found}")]
    ArchiveIsFolder {
        /// The chart.
        chart: String,
        /// Name of the archive.
        archive: String,
        /// What is there.
        found: String,
    },
    /// A chart in `charts/` cannot be loaded.
    #[error("error unpacking subchart {subchart} in {chart}")]
    Subchart {
        /// Name of the folder or archive.
        subchart: String,
        /// The chart that it stands in.
        chart: String,
        /// What is wrong with it.
        #[source]
        source: Box<LoadError>,
    },
    /// Charts stand in one another too deeply.
    #[error("charts are nested deeper than {MAX_NESTING} levels")]
    TooDeep,
}

impl LoadError {
    /// Helm's text, with that of the causes.
    pub fn helm_text(&self) -> String {
        match self {
            Self::File { source, .. } => format!("{self}: {}", source.go_text()),
            Self::Values { source, helm } => format!("{self}: {}", source.helm_text(*helm)),
            Self::Subchart { source, .. } => format!("{self}: {}", source.helm_text()),
            _ => self.to_string(),
        }
    }
}

impl Chart {
    /// Loads a chart from the files of its folder; .helmignore holds.
    ///
    /// # Errors
    ///
    /// When they are no chart, or one of its subcharts is none.
    pub fn load<D: Into<Content>>(files: impl IntoIterator<Item = (String, D)>) -> Result<Self, LoadError> {
        Self::load_for(files, HelmVersion::default())
    }

    /// [`Chart::load`] for a version of Helm.
    ///
    /// # Errors
    ///
    /// As for [`Chart::load`].
    pub fn load_for<D: Into<Content>>(
        files: impl IntoIterator<Item = (String, D)>,
        helm: HelmVersion,
    ) -> Result<Self, LoadError> {
        Self::from_files(Self::kept(files)?, 0, helm)
    }

    /// A chart whatever its `apiVersion`, as Helm's linter loads it.
    pub(crate) fn load_any_version<D: Into<Content>>(
        files: impl IntoIterator<Item = (String, D)>,
    ) -> Result<Self, LoadError> {
        Self::from_files(Self::kept(files)?, 1, HelmVersion::V4)
    }

    /// The files of a folder that .helmignore leaves, in order.
    fn kept<D: Into<Content>>(files: impl IntoIterator<Item = (String, D)>) -> Result<Vec<File>, LoadError> {
        let files: Vec<(String, Content)> =
            files.into_iter().map(|(name, data)| (name, data.into())).collect();
        let rules =
            files.iter().find(|(name, _)| name == ".helmignore").map(|(_, data)| data.bytes().as_bytes());
        let rules = IgnoreRules::parse(rules)?;
        let mut kept = Vec::with_capacity(files.len());
        for (name, data) in files {
            if rules.ignores(&name) {
                continue;
            }
            if data.length() > archive::MAX_FILE {
                let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
                return Err(LoadError::FileTooLarge(name));
            }
            kept.push(File { name, data: data.without_mark() });
        }
        // The order of a walk through the folders.
        kept.sort_by(|a, b| a.name.split('/').cmp(b.name.split('/')));
        Ok(kept)
    }

    /// Loads a chart from its archive (.tgz); .helmignore does not hold.
    ///
    /// # Errors
    ///
    /// As for [`Chart::load`].
    pub fn load_archive(archive: &[u8]) -> Result<Self, LoadError> {
        Self::load_archive_for(archive, HelmVersion::default())
    }

    /// [`Chart::load_archive`] for a version of Helm.
    ///
    /// # Errors
    ///
    /// As for [`Chart::load`].
    pub fn load_archive_for(archive: &[u8], helm: HelmVersion) -> Result<Self, LoadError> {
        Self::from_files(archive::read(archive)?, 0, helm)
    }

    fn from_files(files: Vec<File>, nesting: usize, helm: HelmVersion) -> Result<Self, LoadError> {
        if nesting > MAX_NESTING {
            return Err(LoadError::TooDeep);
        }
        let mut chart = Self { helm, ..Self::default() };
        let mut seen_metadata = false;
        for file in files.iter().filter(|file| file.name == "Chart.yaml") {
            seen_metadata = true;
            let read = chart.metadata.read(file.data.bytes(), helm);
            read.map_err(|source| LoadError::File { file: "Chart.yaml", source })?;
            if chart.metadata.api_version.is_empty() {
                "v1".clone_into(&mut chart.metadata.api_version);
            }
        }
        // Helm 3 takes any.
        let is_known = helm == HelmVersion::V3 || matches!(chart.metadata.api_version.as_str(), "v1" | "v2");
        if nesting == 0 && seen_metadata && !is_known {
            return Err(LoadError::Version);
        }
        let mut subcharts: BTreeMap<String, Vec<File>> = BTreeMap::new();
        for file in files {
            match file.name.as_str() {
                "Chart.yaml" | "Chart.lock" => {}
                "values.yaml" => {
                    chart.values = read_values(file.data.bytes(), helm)
                        .map_err(|source| LoadError::Values { source, helm })?;
                    chart.values_text = Some(file.data.bytes().clone());
                }
                "values.schema.json" => chart.schema = Some(file.data.bytes().clone()),
                "requirements.yaml" => {
                    seen_metadata |= !chart.metadata.api_version.is_empty();
                    let read = chart.metadata.read_requirements(file.data.bytes(), helm);
                    read.map_err(|source| LoadError::File { file: "requirements.yaml", source })?;
                    chart.keep_if_v1(file);
                }
                "requirements.lock" => chart.keep_if_v1(file),
                name if name.starts_with("templates/") => chart.templates.push(file),
                name => match name.strip_prefix("charts/") {
                    Some(inner) if !name.ends_with(".prov") => {
                        let folder = inner.split('/').next().unwrap_or(inner).to_owned();
                        let inner = File { name: inner.to_owned(), data: file.data };
                        subcharts.entry(folder).or_default().push(inner);
                    }
                    _ => chart.files.push(file),
                },
            }
        }
        if !seen_metadata {
            return Err(LoadError::NoChartYaml);
        }
        chart.metadata.validate()?;
        for (folder, files) in subcharts {
            if folder.starts_with(['_', '.']) {
                continue;
            }
            match chart.load_subchart(&folder, files, nesting) {
                Ok(subchart) => chart.dependencies.push(subchart),
                Err(error @ LoadError::ArchiveIsFolder { .. }) => return Err(error),
                Err(source) => {
                    let chart = chart.metadata.name.clone();
                    return Err(LoadError::Subchart { subchart: folder, chart, source: Box::new(source) });
                }
            }
        }
        Ok(chart)
    }

    fn keep_if_v1(&mut self, file: File) {
        if self.metadata.api_version == "v1" {
            self.files.push(file);
        }
    }

    fn load_subchart(&self, folder: &str, files: Vec<File>, nesting: usize) -> Result<Self, LoadError> {
        if folder.ends_with(".tgz") {
            return match files.first() {
                Some(file) if file.name == folder => {
                    Self::from_files(archive::read(file.data.bytes())?, nesting + 1, self.helm)
                }
                other => Err(LoadError::ArchiveIsFolder {
                    chart: self.metadata.name.clone(),
                    archive: folder.to_owned(),
                    found: other.map(|file| file.name.clone()).unwrap_or_default(),
                }),
            };
        }
        // A file of `charts/` itself is no part of a chart.
        let files = files.into_iter().filter_map(|file| {
            let (_, name) = file.name.split_once('/')?;
            Some(File { name: name.to_owned(), data: file.data })
        });
        Self::from_files(files.collect(), nesting + 1, self.helm)
    }

    /// Whether it only lends templates to others.
    pub fn is_library(&self) -> bool {
        self.metadata.kind.eq_ignore_ascii_case("library")
    }
}
