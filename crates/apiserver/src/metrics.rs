//! Counters of the server, in Prometheus' text format, under kube-apiserver's names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// What a request is counted under. Only names that the server serves get in, so that clients cannot
/// make series.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// The verb in upper case.
    pub verb: String,
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The code of the answer.
    pub code: u16,
}

/// Upper bounds of the duration buckets, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
const MAX_SERIES: usize = 10_000;

#[derive(Debug, Default)]
struct Series {
    count: u64,
    sum: f64,
    buckets: [u64; BUCKETS.len()],
}

impl Series {
    fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        for (bucket, bound) in self.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }

    fn render(&self, out: &mut String, name: &str, labels: &str) {
        for (bound, count) in BUCKETS.iter().zip(self.buckets) {
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", self.sum);
        let _ = writeln!(out, "{name}_count{{{labels}}} {}", self.count);
    }
}

/// The series of one counter by their labels.
#[derive(Debug, Default)]
struct Counter {
    help: &'static str,
    series: BTreeMap<String, Arc<AtomicU64>>,
}

/// Calls to etcd of one kind.
#[derive(Debug, Default)]
struct EtcdCalls {
    took: Series,
    failed: u64,
}

/// All counters of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    counters: Mutex<BTreeMap<&'static str, Counter>>,
    etcd: Mutex<BTreeMap<&'static str, EtcdCalls>>,
    objects: Mutex<BTreeMap<String, u64>>,
    series: Mutex<BTreeMap<Labels, Series>>,
    /// Reads in flight.
    pub reads: AtomicI64,
    /// Writes in flight.
    pub writes: AtomicI64,
    /// Watches open.
    pub watches: AtomicI64,
    /// Connections open.
    pub connections: AtomicI64,
}

impl Metrics {
    /// Counts one finished request.
    pub fn observe(&self, labels: Labels, took: Duration) {
        let mut all = self.series.lock();
        if all.len() >= MAX_SERIES && !all.contains_key(&labels) {
            return;
        }
        let series = all.entry(labels).or_default();
        series.add(took);
    }

    /// Counts one answer, or failure, of etcd.
    pub fn observe_etcd(&self, operation: &'static str, took: Duration, is_ok: bool) {
        let mut all = self.etcd.lock();
        let calls = all.entry(operation).or_default();
        calls.took.add(took);
        calls.failed += u64::from(!is_ok);
    }

    /// Says how many objects of a resource are stored.
    pub fn set_object_count(&self, resource: &str, count: u64) {
        self.objects.lock().insert(resource.to_owned(), count);
    }

    /// A counter of a part of the server, 0 from the start. `labels` stand as in the text, such as
    /// `resource="releases"`, and may be empty.
    pub fn counter(&self, name: &'static str, help: &'static str, labels: &str) -> Arc<AtomicU64> {
        let mut counters = self.counters.lock();
        let counter = counters.entry(name).or_default();
        counter.help = help;
        Arc::clone(counter.series.entry(labels.to_owned()).or_default())
    }

    /// All counters as text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let all = self.series.lock();
        let label = |l: &Labels, more: &str| {
            format!(
                "verb=\"{}\",group=\"{}\",version=\"{}\",resource=\"{}\",subresource=\"{}\"{more}",
                l.verb, l.group, l.version, l.resource, l.subresource
            )
        };
        out.push_str("# HELP apiserver_request_total Requests by verb, resource and HTTP code.\n");
        out.push_str("# TYPE apiserver_request_total counter\n");
        for (labels, series) in all.iter() {
            let code = format!(",code=\"{}\"", labels.code);
            let _ = writeln!(out, "apiserver_request_total{{{}}} {}", label(labels, &code), series.count);
        }
        out.push_str("# HELP apiserver_request_duration_seconds Time to answer, without watches.\n");
        out.push_str("# TYPE apiserver_request_duration_seconds histogram\n");
        let mut by_resource: BTreeMap<Labels, Series> = BTreeMap::new();
        for (labels, series) in all.iter().filter(|(labels, _)| labels.verb != "WATCH") {
            let merged = by_resource.entry(Labels { code: 0, ..labels.clone() }).or_default();
            merged.count += series.count;
            merged.sum += series.sum;
            for (into, from) in merged.buckets.iter_mut().zip(series.buckets) {
                *into += from;
            }
        }
        drop(all);
        let name = "apiserver_request_duration_seconds";
        for (labels, series) in &by_resource {
            series.render(&mut out, name, &label(labels, ""));
        }
        let (exported, dropped) = convoy_runtime::traces::counted();
        for (name, value) in [("exported", exported), ("dropped", dropped)] {
            let _ = writeln!(out, "# TYPE convoy_trace_spans_{name}_total counter");
            let _ = writeln!(out, "convoy_trace_spans_{name}_total {value}");
        }
        out.push_str("# HELP apiserver_current_inflight_requests Requests being answered.\n");
        out.push_str("# TYPE apiserver_current_inflight_requests gauge\n");
        for (kind, gauge) in [("readOnly", &self.reads), ("mutating", &self.writes)] {
            let value = gauge.load(Ordering::Relaxed);
            let _ = writeln!(out, "apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {value}");
        }
        for (name, help, gauge) in [
            ("apiserver_longrunning_requests", "Watches open.", &self.watches),
            ("apiserver_open_connections", "Connections open.", &self.connections),
        ] {
            let value = gauge.load(Ordering::Relaxed);
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        self.render_etcd(&mut out);
        for (name, counter) in self.counters.lock().iter() {
            let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} counter", counter.help);
            for (labels, count) in &counter.series {
                let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
                let _ = writeln!(out, "{name}{labels} {}", count.load(Ordering::Relaxed));
            }
        }
        out
    }
}

impl Metrics {
    /// Nothing for a server without an etcd.
    fn render_etcd(&self, out: &mut String) {
        let all = self.etcd.lock();
        if all.is_empty() {
            return;
        }
        let total = |out: &mut String, name: &str, help: &str, of: fn(&EtcdCalls) -> u64| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
            for (operation, calls) in all.iter() {
                let _ = writeln!(out, "{name}{{operation=\"{operation}\"}} {}", of(calls));
            }
        };
        total(out, "etcd_requests_total", "Calls to etcd.", |calls| calls.took.count);
        total(out, "etcd_request_errors_total", "Calls to etcd that failed.", |calls| calls.failed);
        let name = "etcd_request_duration_seconds";
        let _ = writeln!(out, "# HELP {name} Time that etcd took to answer.\n# TYPE {name} histogram");
        for (operation, calls) in all.iter() {
            calls.took.render(out, name, &format!("operation=\"{operation}\""));
        }
        let name = "apiserver_storage_objects";
        let _ = writeln!(out, "# HELP {name} Objects in etcd, as last counted.\n# TYPE {name} gauge");
        for (resource, count) in self.objects.lock().iter() {
            let _ = writeln!(out, "{name}{{resource=\"{resource}\"}} {count}");
        }
    }
}

/// Counts something as long as it lives.
#[derive(Debug)]
pub struct Gauge<'a>(&'a AtomicI64);

impl<'a> Gauge<'a> {
    /// Counts one more.
    pub fn enter(counter: &'a AtomicI64) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_there_before_anything_is_counted() {
        let metrics = Metrics::default();
        let count = metrics.counter("convoy_things_total", "Things.", "of=\"a\"");
        let text = "# HELP convoy_things_total Things.\n# TYPE convoy_things_total counter\nconvoy_things_total{of=\"a\"} 0\n";
        assert!(metrics.render().contains(text), "{}", metrics.render());
        count.fetch_add(2, Ordering::Relaxed);
        assert!(metrics.render().contains("convoy_things_total{of=\"a\"} 2\n"));
    }

    #[test]
    fn requests_are_counted_by_resource_and_code() {
        let metrics = Metrics::default();
        let labels =
            Labels { verb: "GET".into(), resource: "secrets".into(), code: 200, ..Labels::default() };
        metrics.observe(labels.clone(), Duration::from_millis(3));
        metrics.observe(Labels { code: 404, ..labels }, Duration::from_secs(2));
        let text = metrics.render();
        assert!(text.contains("resource=\"secrets\",subresource=\"\",code=\"404\"} 1\n"), "{text}");
        assert!(text.contains("resource=\"secrets\",subresource=\"\",le=\"0.005\"} 1\n"), "{text}");
        assert!(text.contains("resource=\"secrets\",subresource=\"\"} 2\n"), "{text}");
    }
}
