//! Spans for an OpenTelemetry collector, as the command line and the environment ask for them.

use std::path::PathBuf;

use clap::Args;
use convoy_runtime::traces::{self, TraceExport, TraceOptions, Traces};

use crate::arguments::Command;
use crate::bad_flag::BadFlag;

/// Traces of what processes that serve do.
#[derive(Debug, Clone, Args)]
pub(crate) struct Tracing {
    /// Send spans of reconciles and of API requests to this OpenTelemetry collector, over OTLP/HTTP: http://host:4318 or
    /// https://host:4318. For processes that serve. Default: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT,
    /// else none are made.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) tracing_otlp_endpoint: Option<String>,
    /// The CAs that sign the collector's certificate, in PEM, instead of the public ones.
    #[arg(long, global = true, value_name = "FILE", env = "OTEL_EXPORTER_OTLP_CERTIFICATE")]
    pub(crate) tracing_otlp_ca_file: Option<PathBuf>,
    /// Which part of the traces is made, from 0 to 1.
    #[arg(long, global = true, value_parser = ratio, value_name = "RATIO", default_value = "1")]
    pub(crate) tracing_sampling_ratio: f64,
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if (0.0..=1.0).contains(&ratio) { Ok(ratio) } else { Err("it is not between 0 and 1".to_owned()) }
}

impl Tracing {
    /// The spans of a command, and who sends them; none when nobody asked for any.
    pub(crate) fn open(
        &self,
        command: &Command,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<(Traces, TraceExport)>, BadFlag> {
        let (service, instance) = match command {
            Command::Standalone(_) => ("standalone", None),
            Command::Apiserver(_) => ("apiserver", variable("POD_NAME")),
            Command::ControllerManager(manager) => {
                ("controller-manager", manager.identity.replica_id.clone())
            }
            Command::Observer(observer) => ("observer", observer.identity.replica_id.clone()),
            _ => return Ok(None),
        };
        let Some(endpoint) = self.endpoint(variable) else { return Ok(None) };
        let read = |file: &PathBuf| {
            std::fs::read(file).map_err(|error| BadFlag::new("tracing-otlp-ca-file", file.display(), error))
        };
        let options = TraceOptions {
            ca: self.tracing_otlp_ca_file.as_ref().map(read).transpose()?,
            sampling_ratio: self.tracing_sampling_ratio,
            service: format!("convoy-{service}"),
            version: env!("CARGO_PKG_VERSION"),
            instance,
            endpoint,
        };
        traces::open(&options).map(Some).map_err(|error| {
            // It may hold a password, which is not repeated.
            let shown = if options.endpoint.contains('@') { "…" } else { &options.endpoint };
            BadFlag::new("tracing-otlp-endpoint", shown, error)
        })
    }

    fn endpoint(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        if self.tracing_otlp_endpoint.is_some() || is_off {
            return self.tracing_otlp_endpoint.clone();
        }
        let of_all_signals = || {
            let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        };
        variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(of_all_signals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(flag: Option<&str>, pairs: &[(&str, &str)]) -> Option<String> {
        let tracing = Tracing {
            tracing_otlp_endpoint: flag.map(str::to_owned),
            tracing_otlp_ca_file: None,
            tracing_sampling_ratio: 1.0,
        };
        tracing.endpoint(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn the_flag_goes_before_the_environment_and_without_both_there_are_no_spans() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/x");
        assert_eq!(endpoint(None, &[]), None);
        assert_eq!(endpoint(None, &[all]).as_deref(), Some("http://all:4318/v1/traces"));
        assert_eq!(endpoint(None, &[all, traces]).as_deref(), Some("http://traces/x"));
        assert_eq!(endpoint(Some("http://flag"), &[all, traces]).as_deref(), Some("http://flag"));
        assert_eq!(endpoint(None, &[all, ("OTEL_SDK_DISABLED", "true")]), None);
        assert_eq!(endpoint(None, &[all, ("OTEL_TRACES_EXPORTER", "none")]), None);
    }

    #[test]
    fn a_ratio_is_between_0_and_1() {
        assert_eq!(ratio("0.25"), Ok(0.25));
        for bad in ["-1", "1.1", "NaN", "half"] {
            assert!(ratio(bad).is_err(), "{bad}");
        }
    }
}
