//! Spans for an OpenTelemetry collector: which ones there are, and the bounded queue to whoever sends them.
//!
//! A span is one of [`TRACES`], and has only the attributes that its code names: kinds, names, revisions, counts. What is
//! logged within it is no part of it. Without [`open`] there are none, and they cost nothing.

mod collector;
mod export;

use std::sync::LazyLock;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span, SpanData, SpanExporter as _, SpanProcessor,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tracing::{Instrument as _, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

use self::collector::Collector;
pub use self::export::TraceExport;

/// The target of the spans that are sent; no log line has it.
pub const TRACES: &str = "convoy::traces";

/// Spans that wait to be sent; what comes when there are more is dropped, and counted.
const MOST_WAITING: usize = 4096;
/// How long one request to the collector may take.
const SEND_WITHIN: Duration = Duration::from_secs(10);
const SIGNAL_PATH: &str = "/v1/traces";

/// Where spans go.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// `http://host:4318` or `https://…`; `/v1/traces` is added to one without a path.
    pub endpoint: String,
    /// The CAs that are trusted instead of the public ones, in PEM.
    pub ca: Option<Vec<u8>>,
    /// Which part of the traces is sent, 0 to 1.
    pub sampling_ratio: f64,
    /// `service.name`, unless `OTEL_SERVICE_NAME` says another.
    pub service: String,
    /// `service.version`.
    pub version: &'static str,
    /// `service.instance.id`.
    pub instance: Option<String>,
}

/// Why no spans can be sent.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is no URL of a server.
    #[error("it is no endpoint: use http://host:4318 or https://host:4318")]
    Endpoint,
    /// The CAs.
    #[error("its CAs cannot be used: {0}")]
    Ca(String),
    /// What the library says.
    #[error("{0}")]
    Exporter(String),
}

/// The spans of this process, for [`init_telemetry`](crate::init_telemetry).
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

/// Makes the queue, and who empties it. Nothing is sent before that runs.
///
/// # Errors
/// See [`TracesError`].
pub fn open(options: &TraceOptions) -> Result<(Traces, TraceExport), TracesError> {
    let mut resource =
        Resource::builder().with_attribute(opentelemetry::KeyValue::new("service.version", options.version));
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(options.service.clone());
    }
    if let Some(instance) = &options.instance {
        let instance = opentelemetry::KeyValue::new("service.instance.id", instance.clone());
        resource = resource.with_attribute(instance);
    }
    let resource = resource.build();
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Collector::new(options.ca.as_deref())?)
        .with_endpoint(endpoint(&options.endpoint)?)
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(SEND_WITHIN)
        .build()
        .map_err(|error| TracesError::Exporter(error.to_string()))?;
    exporter.set_resource(&resource);
    let (spans, waiting) = mpsc::channel(MOST_WAITING);
    let provider = SdkTracerProvider::builder()
        .with_resource(resource)
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(options.sampling_ratio))))
        .with_span_processor(Queue { spans })
        .build();
    Ok((Traces { provider }, TraceExport::new(exporter, waiting)))
}

/// The URL that spans are sent to.
fn endpoint(given: &str) -> Result<String, TracesError> {
    let uri: http::Uri = given.parse().map_err(|_| TracesError::Endpoint)?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
    if !is_web || has_user || uri.query().is_some() {
        return Err(TracesError::Endpoint);
    }
    let base = given.trim_end_matches('/');
    Ok(if uri.path() == "/" { format!("{base}{SIGNAL_PATH}") } else { base.to_owned() })
}

impl Traces {
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("convoy"))
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(
                filter_fn(|metadata| metadata.is_span() && metadata.target() == TRACES)
                    .with_max_level_hint(LevelFilter::INFO),
            )
    }
}

/// Takes what ended, as long as there is room.
#[derive(Debug)]
struct Queue {
    spans: mpsc::Sender<SpanData>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.spans.try_send(span).is_err() {
            COUNTS.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Does work in a span, which declares `otel.status_code` and says whether it failed. Why is said in the log and the status,
/// and not in the span: it may quote what users wrote.
pub fn traced<T>(
    span: tracing::Span,
    work: impl Future<Output = T>,
    has_failed: impl FnOnce(&T) -> bool,
) -> impl Future<Output = T> {
    // What is traced is large, and would stand in each future around it.
    let work = Box::pin(work.instrument(span.clone()));
    async move {
        let answer = work.await;
        if has_failed(&answer) {
            span.record("otel.status_code", "ERROR");
        }
        answer
    }
}

/// There is one subscriber in a process, and so one count of its spans.
static COUNTS: LazyLock<Counts> = LazyLock::new(Counts::default);

#[derive(Debug, Default)]
struct Counts {
    exported: Counter,
    dropped: Counter,
}

/// Spans that a collector took, and spans that were dropped because the queue was full or no collector took them.
pub fn counted() -> (u64, u64) {
    (COUNTS.exported.get(), COUNTS.dropped.get())
}

/// Registers the counters of spans.
pub fn register(registry: &mut Registry) {
    let (exported, dropped) = (COUNTS.exported.clone(), COUNTS.dropped.clone());
    registry.register("convoy_trace_spans_exported", "Spans that the OpenTelemetry collector took", exported);
    let help = "Spans that were dropped: the queue was full, or the collector did not take them";
    registry.register("convoy_trace_spans_dropped", help, dropped);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_server_or_a_whole_url() {
        for (given, expected) in [
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("https://collector/", "https://collector/v1/traces"),
            ("https://collector/otlp/v1/traces", "https://collector/otlp/v1/traces"),
        ] {
            assert_eq!(endpoint(given).unwrap(), expected);
        }
        for bad in [
            "collector:4318",
            "ftp://collector",
            "http://",
            "http://user:CANARY@collector",
            "http://c/?key=x",
        ] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }
}
