//! Shards that no observer holds: nobody says how their Releases are.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use convoy_api::{Release, reason};
use convoy_runtime::leases::PeerLeases;
use convoy_runtime::{Clock, Sharded as _, Shards, Shutdown, Store, StoreKey, WorkQueue, store_key};
use jiff::{SignedDuration, Timestamp};

use crate::release::HealthGate;

/// How often it is looked whether an observer went or came.
const LOOK: Duration = Duration::from_secs(2);

/// The leases of the observers.
#[derive(Clone, Debug)]
pub struct ObserverLeases {
    /// As lists show them.
    pub leases: PeerLeases,
    /// How long a shard may be without a live holder before its Releases say so: `--lease-duration` and
    /// `--lease-renew-interval` together, in which another replica takes over.
    pub patience: Duration,
}

impl ObserverLeases {
    fn gap(&self, shard: u32) -> Option<Duration> {
        self.leases.missing_for(shard).filter(|gap| *gap > self.patience)
    }

    /// Whether nobody has observed a shard for longer than a takeover takes.
    pub(crate) fn is_missing(&self, shard: u32) -> bool {
        self.gap(shard).is_some()
    }

    /// What a Release that waits for health is to say when nobody observes it: what was seen last may not
    /// be true any more.
    pub(crate) fn gate(&self, shard: u32, now: Timestamp) -> Option<HealthGate> {
        let gap = SignedDuration::try_from(self.gap(shard)?).ok()?;
        let since = now.checked_sub(gap).unwrap_or(now);
        let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
        Some(HealthGate::Unknown {
            reason: reason::OBSERVER_MISSING.to_owned(),
            message: format!("no observer has held shard {shard} since {since}; start one"),
        })
    }

    /// Queues the Releases of a shard when its observer went or came, until shutdown.
    pub(crate) async fn follow(
        self,
        shards: Shards,
        releases: Store<Release>,
        queue: Arc<WorkQueue<StoreKey>>,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
    ) {
        let mut missing = BTreeSet::new();
        loop {
            let now: BTreeSet<u32> =
                shards.owned().keys().copied().filter(|shard| self.gap(*shard).is_some()).collect();
            let changed: BTreeSet<u32> = now.symmetric_difference(&missing).copied().collect();
            if !changed.is_empty() {
                tracing::info!(shards = ?changed, missing = now.len(), "observers went or came");
                let concerned = releases.filter(|release| changed.contains(&release.shard(&shards)));
                concerned.iter().for_each(|release| queue.add(store_key(&**release)));
            }
            missing = now;
            tokio::select! {
                () = shutdown.wait() => return,
                () = clock.sleep(LOOK) => {}
            }
        }
    }
}
