//! Values of flags that cannot be used: said before anything starts, with exit code 2.

use std::error::Error;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::path::Path;

/// A flag whose value cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--{flag} {value:?} cannot be used")]
pub(crate) struct BadFlag {
    flag: &'static str,
    value: String,
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

impl BadFlag {
    pub(crate) fn new(
        flag: &'static str,
        value: impl Display,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { flag, value: value.to_string(), source: source.into() }
    }
}

/// Makes sure that a file can be appended to; it is made when it is not there.
pub(crate) fn check_appendable(flag: &'static str, file: Option<&Path>) -> Result<(), BadFlag> {
    let Some(file) = file else { return Ok(()) };
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.map(drop).map_err(|source| BadFlag::new(flag, file.display(), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_its_value_and_the_reason_are_named() {
        let file = Path::new("/nonexistent/audit.log");
        let error = anyhow::Error::from(check_appendable("audit-log-path", Some(file)).unwrap_err());
        let text = format!("{error:#}");
        assert!(
            text.starts_with("--audit-log-path \"/nonexistent/audit.log\" cannot be used: No such file"),
            "{text}"
        );
        assert!(error.context("starting").is::<BadFlag>(), "also when more is said around it");
        check_appendable("audit-log-path", None).unwrap();
    }
}
