//! Shards that no controller-manager holds.

use std::time::Duration;

use convoy_api::{ConditionStatus, Release, condition_type, find_condition, reason};
use convoy_runtime::leases::PeerLeases;
use jiff::{SignedDuration, Timestamp};

use crate::verdict::Finding;

/// The leases of the controller-managers.
#[derive(Clone, Debug)]
pub struct ControllerLeases {
    /// As lists show them.
    pub leases: PeerLeases,
    /// How long a shard may be without a live holder before its Releases say so: `--lease-duration` and
    /// `--lease-renew-interval` together, in which another replica takes over.
    pub patience: Duration,
}

impl ControllerLeases {
    /// Whether a shard has had no live holder for longer than the patience.
    pub(crate) fn is_missing(&self, shard: u32) -> bool {
        self.gap(shard).is_some()
    }

    fn gap(&self, shard: u32) -> Option<Duration> {
        self.leases.missing_for(shard).filter(|gap| *gap > self.patience)
    }

    /// What to say of a Release's controller-manager when there is none.
    pub(crate) fn finding(&self, release: &Release, shard: u32, now: Timestamp) -> Option<Finding> {
        let gap = SignedDuration::try_from(self.gap(shard)?).ok()?;
        let status = release.status.as_ref();
        let looked = status.and_then(|status| status.controller.as_ref()).and_then(|controller| {
            Some((controller.replica.as_str(), controller.last_look_time.as_ref()?.0))
        });
        // One that has looked a moment ago is there; its lease is in the next list.
        let patience = SignedDuration::try_from(self.patience).ok()?;
        if looked.is_some_and(|(_, at)| now.duration_since(at) < patience) {
            return None;
        }
        let since = whole_second(now.checked_sub(gap).unwrap_or(now));
        let last = looked.map_or(String::new(), |(replica, at)| {
            format!("; {replica} last looked at {}", whole_second(at))
        });
        let before = status
            .and_then(|status| find_condition(&status.conditions, condition_type::READY))
            .map_or(String::new(), |ready| format!("; Ready was {} ({})", ready.status, ready.reason));
        let message = format!("no controller-manager has held shard {shard} since {since}{last}{before}");
        Some(Finding { status: ConditionStatus::Unknown, reason: reason::CONTROLLER_MISSING, message })
    }
}

/// Whether a Release says that its controller-manager is missing.
pub(crate) fn is_said(release: &Release) -> bool {
    let conditions = release.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
    find_condition(conditions, condition_type::READY)
        .is_some_and(|ready| ready.reason == reason::CONTROLLER_MISSING)
}

fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
