//! Logs.

use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            other => Err(format!("unknown log format {other:?}; use text or json")),
        }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is malformed.
    #[error("the log filter {filter:?} is malformed; write for example info or info,convoy_apply=debug")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What the parser says.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Something else set up logging first.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Whether a filter is one that [`init_telemetry`] takes.
///
/// # Errors
/// [`TelemetryError::Filter`].
pub fn check_log_filter(filter: &str) -> Result<(), TelemetryError> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::try_new(filter).map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })
}

/// Sends log lines that pass `filter` to standard error.
///
/// # Errors
/// When the filter is malformed, or logging was set up before.
pub fn init_telemetry(filter: &str, format: LogFormat) -> Result<(), TelemetryError> {
    let env_filter = parse(filter)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(env_filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let result = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    result.map_err(|_| TelemetryError::AlreadySet)
}
