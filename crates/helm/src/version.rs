//! Helm 3 or Helm 4: what a chart was written for.

use std::fmt;
use std::str::FromStr;

/// The Helm that a chart is read and rendered as. docs/src/helm-charts.md says what differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HelmVersion {
    /// Helm v3.22.
    V3,
    /// Helm v4.2.
    #[default]
    V4,
}

impl HelmVersion {
    /// Go's type of `.Values` and of `.Template`.
    pub(crate) fn values_type(self) -> &'static str {
        match self {
            Self::V3 => "chartutil.Values",
            Self::V4 => "common.Values",
        }
    }
}

impl fmt::Display for HelmVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V3 => "3",
            Self::V4 => "4",
        })
    }
}

/// A text that names no version of Helm that convoy knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither 3 nor 4")]
pub struct HelmVersionError(String);

impl FromStr for HelmVersion {
    type Err = HelmVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "3" => Ok(Self::V3),
            "4" => Ok(Self::V4),
            _ => Err(HelmVersionError(text.to_owned())),
        }
    }
}
