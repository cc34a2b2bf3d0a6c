//! `convoy show`: parts of a chart, as `helm show` prints them.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use convoy_helm::{HelmVersion, Part, show};

use crate::chart_files::read_chart;

/// Print a part of a Helm chart, as `helm show` does.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to print.
    #[arg(value_enum)]
    part: PartName,
    /// The chart: a folder or a .tgz.
    chart: String,
}

/// A part of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PartName {
    /// Chart.yaml.
    Chart,
    /// values.yaml.
    Values,
    /// The readme.
    Readme,
    /// Custom resource definitions.
    Crds,
    /// All of these.
    All,
}

impl From<PartName> for Part {
    fn from(name: PartName) -> Self {
        match name {
            PartName::Chart => Self::Chart,
            PartName::Values => Self::Values,
            PartName::Readme => Self::Readme,
            PartName::Crds => Self::Crds,
            PartName::All => Self::All,
        }
    }
}

/// Prints; errors are printed as Helm prints them.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let shown = read_chart(Path::new(&arguments.chart)).and_then(|mut files| {
        let chart = files.load(HelmVersion::V4).map_err(|error| error.helm_text());
        let shown = chart.map(|chart| show(&chart, arguments.part.into()));
        files.all_read().and(shown)
    });
    match shown {
        Ok(shown) => {
            std::io::stdout().write_all(&shown)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("Error: {error}");
            Ok(ExitCode::FAILURE)
        }
    }
}
