//! Metrics of the lease loop.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::Metrics;

/// Seconds.
const BUCKETS: [f64; 11] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// What the lease loop counts. All are there from zero.
#[derive(Clone, Debug)]
pub(super) struct LeaseMetrics {
    pub(super) owned: Gauge,
    pub(super) wanted: Gauge,
    pub(super) unowned: Gauge,
    pub(super) unowned_seconds: Gauge<f64, std::sync::atomic::AtomicU64>,
    pub(super) unowned_worst_seconds: Gauge<f64, std::sync::atomic::AtomicU64>,
    pub(super) hand_offs: Counter,
    pub(super) takeovers: Counter,
    pub(super) losses: Counter,
    pub(super) renew_seconds: Histogram,
    pub(super) failures: Counter,
    pub(super) conflicts: Counter,
    pub(super) guard_refusals: Counter,
    pub(super) disagreement: Gauge,
    pub(super) at_last_epoch: Gauge,
    pub(super) apiserver_shards: Gauge,
    pub(super) apiserver_disagreement: Gauge,
}

impl LeaseMetrics {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let made = Self {
            owned: Gauge::default(),
            wanted: Gauge::default(),
            unowned: Gauge::default(),
            unowned_seconds: Gauge::default(),
            unowned_worst_seconds: Gauge::default(),
            hand_offs: Counter::default(),
            takeovers: Counter::default(),
            losses: Counter::default(),
            renew_seconds: Histogram::new(BUCKETS),
            failures: Counter::default(),
            conflicts: Counter::default(),
            guard_refusals: Counter::default(),
            disagreement: Gauge::default(),
            at_last_epoch: Gauge::default(),
            apiserver_shards: Gauge::default(),
            apiserver_disagreement: Gauge::default(),
        };
        metrics.register(|registry| {
            let gauge = |gauge: &Gauge| gauge.clone();
            registry.register("convoy_shards_owned", "Shards that this replica acts for", gauge(&made.owned));
            registry.register(
                "convoy_shards_wanted",
                "Shards that are this replica's by the division",
                gauge(&made.wanted),
            );
            registry.register(
                "convoy_shards_unowned",
                "Shards of this process kind without a live holder, as this replica sees it",
                gauge(&made.unowned),
            );
            registry.register(
                "convoy_shard_unowned_seconds",
                "For how long the worst of the shards without a live holder has had none",
                made.unowned_seconds.clone(),
            );
            registry.register(
                "convoy_shard_unowned_worst_seconds",
                "The longest that this replica has seen a shard without a live holder",
                made.unowned_worst_seconds.clone(),
            );
            registry.register(
                "convoy_shard_hand_offs",
                "Shards that this replica released, as planned",
                made.hand_offs.clone(),
            );
            registry.register(
                "convoy_shard_takeovers",
                "Shards that this replica took after their holder's lease had ended",
                made.takeovers.clone(),
            );
            registry.register(
                "convoy_shard_losses",
                "Shards that this replica lost other than by releasing them",
                made.losses.clone(),
            );
            registry.register(
                "convoy_lease_renew_seconds",
                "How long writes of leases took that succeeded",
                made.renew_seconds.clone(),
            );
            registry.register(
                "convoy_lease_write_failures",
                "Writes of leases that failed or had no answer in time",
                made.failures.clone(),
            );
            registry.register(
                "convoy_lease_conflicts",
                "Writes of leases that met a change",
                made.conflicts.clone(),
            );
            registry.register(
                "convoy_guard_refusals",
                "Looks at a shard's ownership, before a write or at the start of work, that found it was not this replica's",
                made.guard_refusals.clone(),
            );
            registry.register(
                "convoy_lease_disagreement",
                "1 while a peer runs with settings that do not fit",
                gauge(&made.disagreement),
            );
            registry.register(
                "convoy_shards_at_last_epoch",
                "Shards of this replica whose leaseTransitions cannot be raised any more",
                gauge(&made.at_last_epoch),
            );
            registry.register(
                "convoy_apiserver_shards",
                "How many shards the API server counts; 0 when it does not say",
                gauge(&made.apiserver_shards),
            );
            registry.register(
                "convoy_apiserver_shards_disagreement",
                "1 while this replica owns nothing because the API server counts other shards",
                gauge(&made.apiserver_disagreement),
            );
        });
        made
    }
}
