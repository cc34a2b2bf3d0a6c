//! Logs, and which of them are written.

use std::convert::Infallible;
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

use crate::Clock;
use crate::traces::{TRACES, Traces};

/// How often [`LogFilter::follow`] looks at its file.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// No filter is longer.
const MOST_BYTES: u64 = 16 * 1024;

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

/// Sends log lines that pass `filter` to standard error, and spans to `traces`.
///
/// # Errors
/// When the filter is malformed, or logging was set up before.
pub fn init_telemetry(
    filter: &str,
    format: LogFormat,
    traces: Option<&Traces>,
) -> Result<LogFilter, TelemetryError> {
    let (env_filter, handle) = reload::Layer::new(parse(filter)?);
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    // Spans are no lines: whether one is sent has nothing to do with which lines are written.
    let no_traces = filter_fn(|metadata| metadata.target() != TRACES).with_max_level_hint(LevelFilter::TRACE);
    let lines = lines.with_filter(env_filter.and(no_traces));
    let subscriber = tracing_subscriber::registry().with(lines).with(traces.map(Traces::layer));
    subscriber.try_init().map_err(|_| TelemetryError::AlreadySet)?;
    Ok(LogFilter { from_start: filter.to_owned(), handle })
}

/// Which log lines are written, while a process runs.
#[derive(Debug)]
pub struct LogFilter {
    from_start: String,
    handle: reload::Handle<EnvFilter, Registry>,
}

impl LogFilter {
    /// Goes by the filter in a file as it changes, and by the one from the start while there is no file. A filter that is
    /// malformed is warned of once, and the one before stays.
    pub async fn follow(self, file: &Path, clock: &dyn Clock) -> Infallible {
        let mut last = FilterFile::Missing;
        loop {
            last = self.look(last, file).await;
            clock.sleep(LOOK_INTERVAL).await;
        }
    }

    async fn look(&self, last: FilterFile, file: &Path) -> FilterFile {
        let now = FilterFile::read(file.to_owned()).await;
        if now == last {
            return now;
        }
        let outcome = match &now {
            FilterFile::Missing => self.set(&self.from_start),
            FilterFile::Filter(filter) => self.set(filter),
            FilterFile::Unreadable(why) => Err(why.clone()),
        };
        let file = file.display();
        match outcome {
            Ok(filter) => tracing::info!(%filter, %file, "log lines are written by this filter from now on"),
            Err(why) => tracing::warn!(%why, %file, "the log filter stays as it was"),
        }
        now
    }

    fn set(&self, filter: &str) -> Result<String, String> {
        let parsed = parse(filter).map_err(|error| error.to_string())?;
        self.handle.reload(parsed).map_err(|error| error.to_string())?;
        Ok(filter.to_owned())
    }
}

/// What a file with a log filter says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FilterFile {
    Missing,
    Filter(String),
    Unreadable(String),
}

impl FilterFile {
    async fn read(file: PathBuf) -> Self {
        let read = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            std::fs::File::open(file)?.take(MOST_BYTES).read_to_string(&mut text).map(|_| text)
        });
        match read.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(text) if text.trim().is_empty() => FilterFile::Missing,
            Ok(text) => FilterFile::Filter(text.trim().to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => FilterFile::Missing,
            Err(error) => FilterFile::Unreadable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_filter_in_a_file_counts_as_long_as_it_is_there_and_well_formed() {
        let (layer, handle) = reload::Layer::new(parse("warn").unwrap());
        let filter = LogFilter { from_start: "warn".to_owned(), handle };
        let _logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        let is_written = || tracing::enabled!(tracing::Level::DEBUG);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("filter");
        let mut last = filter.look(FilterFile::Missing, &file).await;
        assert!(!is_written());
        for (text, expected) in [
            (Some("debug\n"), true),
            (Some("no=such=filter"), true),
            (Some("info,convoy_runtime=debug"), true),
            (Some("info,convoy_apply=debug"), false),
            (Some("debug"), true),
            (Some("\n"), false),
            (Some("trace"), true),
            (None, false),
        ] {
            match text {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            last = filter.look(last, &file).await;
            assert_eq!(is_written(), expected, "{text:?}");
        }
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert!(matches!(filter.look(last, &file).await, FilterFile::Unreadable(_)));
        assert!(!is_written());
    }
}
