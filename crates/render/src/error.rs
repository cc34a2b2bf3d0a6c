/// Why a Release does not render. All of it stays until the source or the Release changes. Text that came
/// from a Secret is masked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// `spec.source.git.path` is no relative path inside the source.
    #[error("the path {path:?} is absolute or leaves the source: give a folder of it, from its root")]
    BadPath {
        /// The path as given.
        path: String,
    },
    /// The folder is not in the artifact.
    #[error(
        "there is no folder {path:?} in revision {revision}: mend spec.source.git.path, or add the folder"
    )]
    PathNotFound {
        /// The path as given.
        path: String,
        /// Where it was looked for.
        revision: String,
    },
    /// More than one renderer is named.
    #[error("spec.render names both helm and manifests: keep one")]
    Ambiguous,
    /// `spec.render.helm` without a chart.
    #[error("{path}: spec.render.helm is set, but there is no Chart.yaml in this folder")]
    NoChart {
        /// The folder.
        path: String,
    },
    /// A kustomization.
    #[error("{file}: kustomizations are not supported yet: use plain manifests or a Helm chart")]
    Kustomization {
        /// The file that makes the folder one.
        file: String,
    },
    /// A chart below a folder of manifests.
    #[error(
        "{folder} is a Helm chart inside a folder of manifests: let spec.source.git.path name it, or \
         leave it out with spec.render.manifests.exclude"
    )]
    ChartBelow {
        /// The chart's folder.
        folder: String,
    },
    /// A glob that cannot be read.
    #[error("spec.render.manifests: the glob {glob:?} is malformed: {detail}")]
    Glob {
        /// The glob as given.
        glob: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A file that is no YAML or JSON.
    #[error("{file}:{line}:{column}: {detail}")]
    Syntax {
        /// Path in the artifact.
        file: String,
        /// Line in the file, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong.
        detail: String,
    },
    /// A limit is passed.
    #[error("the Release renders to more than {limit} {what}")]
    TooMuch {
        /// `documents` or `bytes`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A values file or a values reference.
    #[error("values from {from}: {detail}")]
    Values {
        /// The file, or the ConfigMap or Secret and key.
        from: String,
        /// What is wrong.
        detail: String,
    },
    /// The chart took longer than it is given, or nobody wants it any more. A machine that is less busy may be done in time.
    #[error(
        "{folder}: the chart takes more than the {seconds} s that a render is given: let it do less (fewer keys and \
         certificates, shorter loops), or split it"
    )]
    Stopped {
        /// The chart's folder.
        folder: String,
        /// What a render is given.
        seconds: u64,
    },
    /// The chart does not load or does not render.
    #[error("{folder}: {detail}")]
    Chart {
        /// The chart's folder.
        folder: String,
        /// In Helm's words.
        detail: String,
    },
}

impl RenderError {
    /// The reason for the condition Rendered of the Release; one of [`convoy_api::reason`].
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PathNotFound { .. } => convoy_api::reason::PATH_NOT_FOUND,
            Self::BadPath { .. } | Self::Ambiguous | Self::Glob { .. } => convoy_api::reason::INVALID_SPEC,
            Self::NoChart { .. }
            | Self::Kustomization { .. }
            | Self::ChartBelow { .. }
            | Self::Syntax { .. }
            | Self::TooMuch { .. }
            | Self::Values { .. }
            | Self::Stopped { .. }
            | Self::Chart { .. } => convoy_api::reason::RENDER_FAILED,
        }
    }
}
