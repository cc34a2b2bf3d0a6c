//! Objects whose shard label is missing or wrong: a shard-scoped cache may not hold them, and then nobody works
//! on them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::label;
use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::sharded::parse_shard;
use crate::{Clock, Metrics, StoreKey};

/// Objects that are named in warnings within [`WARNING_WINDOW`].
const WARNINGS: u32 = 20;
const WARNING_WINDOW: Duration = Duration::from_secs(60);

type Labels = [(&'static str, &'static str); 2];

/// Why an object is outside its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It has no label.
    NoLabel,
    /// The label is no shard under this `--shards`.
    OutOfRange,
    /// The label is another shard than the one that namespace and name give.
    OtherShard,
}

impl Why {
    const ALL: [Why; 3] = [Why::NoLabel, Why::OutOfRange, Why::OtherShard];

    fn as_str(self) -> &'static str {
        match self {
            Why::NoLabel => "no-label",
            Why::OutOfRange => "out-of-range",
            Why::OtherShard => "other-shard",
        }
    }

    /// What is wrong with a label, when the object's shard is known or when only the label is.
    pub(crate) fn of(label: Option<&str>, shard: Option<u32>, count: u32) -> Option<Why> {
        let Some(label) = label else { return Some(Why::NoLabel) };
        match parse_shard(label).filter(|labelled| *labelled < count) {
            None => Some(Why::OutOfRange),
            Some(labelled) => shard.filter(|shard| *shard != labelled).map(|_| Why::OtherShard),
        }
    }
}

/// The metric, for all kinds of a process.
#[derive(Clone)]
pub(crate) struct OutsideShards {
    gauge: Family<Labels, Gauge>,
    warnings: Arc<Mutex<Warnings>>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Warnings {
    window_began: Duration,
    in_window: u32,
    left_out: u32,
}

impl OutsideShards {
    pub(crate) fn new(metrics: &Metrics, clock: Arc<dyn Clock>) -> Self {
        let gauge = Family::<Labels, Gauge>::default();
        let registered = gauge.clone();
        metrics.register(|registry| {
            registry.register(
                "convoy_objects_outside_shards",
                "Objects whose shard label is missing or does not fit this replica's --shards",
                registered,
            );
        });
        Self { gauge, warnings: Arc::default(), clock }
    }

    /// The objects of one kind, as one watcher of labels sees them.
    pub(crate) fn kind(&self, kind: &'static str) -> OutsideOfKind {
        for why in Why::ALL {
            drop(self.gauge.get_or_create(&labels(kind, why)));
        }
        OutsideOfKind { kind, known: HashMap::new(), all: self.clone() }
    }

    fn warn(&self, kind: &'static str, key: &StoreKey, why: Why) {
        let now = self.clock.monotonic();
        let mut warnings = self.warnings.lock();
        if now.saturating_sub(warnings.window_began) >= WARNING_WINDOW {
            if warnings.left_out > 0 {
                let objects = warnings.left_out;
                tracing::warn!(
                    objects,
                    "more objects have a shard label that is missing or wrong; \
                     the metric convoy_objects_outside_shards counts them"
                );
            }
            *warnings = Warnings { window_began: now, ..Warnings::default() };
        }
        if warnings.in_window == WARNINGS {
            warnings.left_out += 1;
            return;
        }
        warnings.in_window += 1;
        tracing::warn!(
            kind,
            object = %key,
            why = why.as_str(),
            "the label {} is missing or does not fit --shards: a shard-scoped cache may not hold the object. \
             Give apiserver, controller-manager and observer the same --shards",
            label::SHARD
        );
    }
}

fn labels(kind: &'static str, why: Why) -> Labels {
    [("kind", kind), ("why", why.as_str())]
}

/// The objects of one kind that are outside their shard.
pub(crate) struct OutsideOfKind {
    kind: &'static str,
    known: HashMap<StoreKey, Why>,
    all: OutsideShards,
}

impl OutsideOfKind {
    /// Says what is wrong with an object now, if anything.
    pub(crate) fn set(&mut self, key: &StoreKey, why: Option<Why>) {
        let old = match why {
            Some(why) => self.known.insert(key.clone(), why),
            None => self.known.remove(key),
        };
        if old == why {
            return;
        }
        if let Some(old) = old {
            self.all.gauge.get_or_create(&labels(self.kind, old)).dec();
        }
        if let Some(why) = why {
            self.all.gauge.get_or_create(&labels(self.kind, why)).inc();
            self.all.warn(self.kind, key, why);
        }
    }

    /// Forgets the objects that `keep` does not name.
    pub(crate) fn retain(&mut self, keep: impl Fn(&StoreKey) -> bool) {
        let gone: Vec<StoreKey> = self.known.keys().filter(|key| !keep(key)).cloned().collect();
        for key in gone {
            self.set(&key, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::ManualClock;

    #[test]
    fn sc45_labels_that_do_not_fit_are_counted_from_zero() {
        assert_eq!(Why::of(None, Some(1), 4), Some(Why::NoLabel));
        assert_eq!(Why::of(Some("4"), None, 4), Some(Why::OutOfRange));
        assert_eq!(Why::of(Some("01"), Some(1), 4), Some(Why::OutOfRange));
        assert_eq!(Why::of(Some("2"), Some(1), 4), Some(Why::OtherShard));
        assert_eq!(Why::of(Some("1"), Some(1), 4), None);

        let metrics = Metrics::default();
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let mut releases = OutsideShards::new(&metrics, clock).kind("Release");
        let line = |why: &str, count: u32| {
            format!("convoy_objects_outside_shards{{kind=\"Release\",why=\"{why}\"}} {count}\n")
        };
        let text = metrics.encode();
        assert!(
            ["no-label", "out-of-range", "other-shard"].iter().all(|why| text.contains(&line(why, 0))),
            "{text}"
        );
        let (a, b) = (StoreKey::new("team", "a"), StoreKey::new("team", "b"));
        releases.set(&a, Some(Why::NoLabel));
        releases.set(&a, Some(Why::OutOfRange));
        releases.set(&b, Some(Why::OutOfRange));
        assert!(metrics.encode().contains(&line("out-of-range", 2)));
        releases.retain(|key| *key == b);
        let text = metrics.encode();
        assert!(text.contains(&line("out-of-range", 1)) && text.contains(&line("no-label", 0)), "{text}");
    }
}
