//! What a chart is rendered with: nothing, its own test values, one boolean flipped, one null, an upgrade.

use std::path::{Path, PathBuf};

use convoy_helm::{Data, TemplateFlags, Values};
use serde_json::{Map, Value as Json};

/// A kind of variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Default,
    Ci,
    Booleans,
    Nulls,
    Upgrade,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Default, Self::Ci, Self::Booleans, Self::Nulls, Self::Upgrade];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Ci => "ci",
            Self::Booleans => "booleans",
            Self::Nulls => "nulls",
            Self::Upgrade => "upgrade",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One way to render a chart.
pub(crate) struct Variant {
    pub(crate) name: String,
    file: Option<PathBuf>,
    values: Option<Json>,
    is_upgrade: bool,
}

/// The same command for both sides.
pub(crate) struct Case {
    pub(crate) arguments: Vec<String>,
    pub(crate) flags: TemplateFlags,
}

impl Variant {
    /// The command; values of its own are written to `scratch`.
    pub(crate) fn arguments(&self, chart: &Path, scratch: &Path) -> Result<Case, String> {
        let mut arguments: Vec<String> = ["template", "rel"].map(str::to_owned).to_vec();
        arguments.push(chart.display().to_string());
        let mut flags = TemplateFlags { is_upgrade: self.is_upgrade, ..TemplateFlags::default() };
        let file = match (&self.file, &self.values) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(values)) => {
                std::fs::write(scratch, values.to_string()).map_err(|error| error.to_string())?;
                Some(scratch.to_path_buf())
            }
            (None, None) => None,
        };
        if let Some(file) = file {
            let file = file.display().to_string();
            arguments.extend(["-f".to_owned(), file.clone()]);
            flags.values.push(file);
        }
        if self.is_upgrade {
            arguments.push("--is-upgrade".to_owned());
        }
        Ok(Case { arguments, flags })
    }
}

/// The variants of a kind for a chart.
pub(crate) fn of(kind: Kind, chart: &Path, values: Option<&Values>, most: usize) -> Vec<Variant> {
    let plain =
        |name: &str, is_upgrade| Variant { name: name.to_owned(), file: None, values: None, is_upgrade };
    let mut all = match kind {
        Kind::Default => vec![plain("", false)],
        Kind::Upgrade => vec![plain("--is-upgrade", true)],
        Kind::Ci => ci(chart),
        Kind::Booleans | Kind::Nulls => {
            let mut all = Vec::new();
            if let Some(values) = values {
                changes(kind, values, &mut Vec::new(), &mut all);
            }
            all
        }
    };
    if most > 0 && all.len() > most {
        let found = all.len();
        all = all
            .into_iter()
            .enumerate()
            .filter(|(at, _)| crate::is_kept(*at, found, most))
            .map(|(_, kept)| kept)
            .collect();
    }
    all
}

fn ci(chart: &Path) -> Vec<Variant> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(chart.join("ci"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("values.yaml"))
        .collect();
    files.sort();
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    files
        .into_iter()
        .map(|file| Variant { name: name(&file), file: Some(file), values: None, is_upgrade: false })
        .collect()
}

/// One variant for each boolean flipped, or each key that is null.
fn changes(kind: Kind, values: &Values, path: &mut Vec<String>, all: &mut Vec<Variant>) {
    for (key, value) in values {
        path.push(String::from_utf8_lossy(key).into_owned());
        let change = match (kind, value) {
            (Kind::Booleans, Data::Bool(value)) => Some(Json::Bool(!value)),
            (Kind::Nulls, _) => Some(Json::Null),
            _ => None,
        };
        if let Some(change) = change {
            let name = format!("{}={change}", path.join("."));
            let values = path.iter().rev().fold(change, |inner, key| {
                Json::Object(std::iter::once((key.clone(), inner)).collect::<Map<String, Json>>())
            });
            all.push(Variant { name, file: None, values: Some(values), is_upgrade: false });
        }
        if let Data::Map(inner) = value {
            changes(kind, inner, path, all);
        }
        path.pop();
    }
}
