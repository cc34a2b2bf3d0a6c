//! What a replica is told about the division of the work, and what cannot work.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::Assignment;

/// `--lease-renew-interval` when it is not given.
pub const DEFAULT_RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// `--lease-duration` when it is not given.
pub const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(30);
/// `--lease-observe-interval` when it is not given.
pub const DEFAULT_OBSERVE_INTERVAL: Duration = Duration::from_secs(2);
/// `--lease-observe-interval` when it is not given, with `--release-member-on-exit`: peers that hand over
/// at once are looked for more often.
pub const DEFAULT_OBSERVE_INTERVAL_WITH_RELEASE: Duration = Duration::from_millis(500);

/// The longest `--replica-id`: the name of a lease is at most 253 bytes (a DNS subdomain), an id is a
/// DNS label of at most 63 (`k8s.io/apimachinery/pkg/util/validation`, `IsDNS1123Label`).
const LONGEST_ID: usize = 63;
/// The longest `--lease-duration`. What stands on a lease and is longer was written by no replica.
pub const LONGEST_LEASE_DURATION: Duration = Duration::from_secs(86_400);
/// More shards than this cost more lease traffic than they can be worth.
pub const MOST_SHARDS: u32 = 4096;

/// A kind of process that shares work. Each has its own leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessKind {
    /// The controller-manager.
    ControllerManager,
    /// The observer.
    Observer,
}

impl ProcessKind {
    /// What the names of its leases begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            ProcessKind::ControllerManager => "convoy-cm",
            ProcessKind::Observer => "convoy-obs",
        }
    }

    /// The process as people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            ProcessKind::ControllerManager => "controller-manager",
            ProcessKind::Observer => "observer",
        }
    }
}

/// What one replica goes by. Made by hand or by flags, then checked with [`Settings::check`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whose leases.
    pub process: ProcessKind,
    /// `--replica-id`.
    pub replica_id: String,
    /// Random for each start of a process: tells two processes with one id apart.
    pub boot_id: String,
    /// `--shards`.
    pub shards: NonZeroU32,
    /// `--lease-renew-interval`.
    pub renew_interval: Duration,
    /// `--lease-duration`.
    pub lease_duration: Duration,
    /// `--lease-observe-interval`.
    pub observe_interval: Duration,
    /// `--shard-assignment`.
    pub assignment: Assignment,
    /// `--release-member-on-exit`.
    pub release_member_on_exit: bool,
    /// Whether the API server is asked how many shards it counts, so that this replica owns nothing when it
    /// counts others.
    pub asks_api_server: bool,
    /// Whether no other replica can exist, because the store is this process's own: then leases that an
    /// earlier process left are taken without waiting.
    pub is_sole: bool,
    /// Where this replica is asked by the apiserver, `host:port`: it is told on the member lease.
    pub advertised: Option<String>,
    /// A fault that is put in on purpose, for the simulation to find.
    #[cfg(feature = "mutants")]
    pub mutant: Option<crate::Mutant>,
}

/// Settings that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The id cannot be part of a lease's name.
    #[error(
        "--replica-id {id:?} is not a DNS label: use 1 to 63 lower-case letters, digits and '-', with a letter or digit at both ends"
    )]
    ReplicaId {
        /// The id.
        id: String,
    },
    /// A duration is zero or not of whole seconds.
    #[error("--{flag} {value:?} is not usable: {why}")]
    Duration {
        /// The flag's name.
        flag: &'static str,
        /// Its value.
        value: Duration,
        /// What it should be.
        why: &'static str,
    },
    /// A replica would lose its leases between two renewals.
    #[error(
        "--lease-renew-interval {interval:?} is not less than half of --lease-duration {duration:?}: one late renewal would lose all shards; use a third of it or less"
    )]
    IntervalTooLong {
        /// `--lease-renew-interval`.
        interval: Duration,
        /// `--lease-duration`.
        duration: Duration,
    },
    /// The shard count is out of range.
    #[error("--shards {shards} is more than {MOST_SHARDS}; a shard costs a lease renewal in each interval")]
    TooManyShards {
        /// `--shards`.
        shards: u32,
    },
}

impl Settings {
    /// The defaults of all flags.
    pub fn new(process: ProcessKind, replica_id: impl Into<String>, boot_id: impl Into<String>) -> Self {
        Self {
            process,
            replica_id: replica_id.into(),
            boot_id: boot_id.into(),
            shards: crate::DEFAULT_SHARD_COUNT,
            renew_interval: DEFAULT_RENEW_INTERVAL,
            lease_duration: DEFAULT_LEASE_DURATION,
            observe_interval: DEFAULT_OBSERVE_INTERVAL,
            assignment: Assignment::default(),
            release_member_on_exit: false,
            asks_api_server: false,
            is_sole: false,
            advertised: None,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Checks the settings. Answers with what works but is risky, a sentence each.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn check(&self) -> Result<Vec<String>, SettingsError> {
        if !is_dns_label(&self.replica_id) {
            return Err(SettingsError::ReplicaId { id: self.replica_id.clone() });
        }
        if self.shards.get() > MOST_SHARDS {
            return Err(SettingsError::TooManyShards { shards: self.shards.get() });
        }
        let second = Duration::from_secs(1);
        if self.lease_duration < second || self.lease_duration.subsec_nanos() != 0 {
            return Err(SettingsError::Duration {
                flag: "lease-duration",
                value: self.lease_duration,
                why: "a lease lasts whole seconds, at least one (spec.leaseDurationSeconds)",
            });
        }
        if self.lease_duration > LONGEST_LEASE_DURATION {
            return Err(SettingsError::Duration {
                flag: "lease-duration",
                value: self.lease_duration,
                why: "a dead replica's shards would have no owner for more than a day",
            });
        }
        for (flag, value) in
            [("lease-renew-interval", self.renew_interval), ("lease-observe-interval", self.observe_interval)]
        {
            if value < Duration::from_millis(50) {
                return Err(SettingsError::Duration { flag, value, why: "it must be at least 50ms" });
            }
        }
        if self.renew_interval * 2 >= self.lease_duration {
            return Err(SettingsError::IntervalTooLong {
                interval: self.renew_interval,
                duration: self.lease_duration,
            });
        }
        let mut risks = Vec::new();
        if self.renew_interval * 3 > self.lease_duration {
            risks.push(format!(
                "--lease-renew-interval {:?} is more than a third of --lease-duration {:?}: a short outage of the API server stops the work",
                self.renew_interval, self.lease_duration
            ));
        }
        if self.observe_interval > self.renew_interval {
            risks.push(format!(
                "--lease-observe-interval {:?} is longer than --lease-renew-interval {:?}: takeover is later by as much",
                self.observe_interval, self.renew_interval
            ));
        }
        if self.lease_duration < Duration::from_secs(10) {
            risks.push(format!(
                "--lease-duration {:?} is shorter than many single writes take: slow writes are given up at a hand-over",
                self.lease_duration
            ));
        }
        Ok(risks)
    }

    /// From before the last successful renewal was sent until new writes stop: two thirds of the duration.
    pub fn write_until(&self) -> Duration {
        write_until(self.lease_duration)
    }

    /// From before the last successful renewal was sent until writes under way are given up: five sixths
    /// of the duration. What is left to the whole duration allows clocks whose rates differ by 1.2.
    pub fn hold_until(&self) -> Duration {
        hold_until(self.lease_duration)
    }

    /// How soon a renewal that failed is tried again.
    pub fn retry_interval(&self) -> Duration {
        (self.renew_interval / 5).clamp(Duration::from_millis(20), Duration::from_secs(2))
    }

    /// Who had no answer to a read for so long before it sent the one that was answered cannot know whether the API server
    /// was restored from a backup meanwhile. One read that fails at once makes no such gap, two do.
    pub fn outage(&self) -> Duration {
        self.observe_interval + self.retry_interval() * 3 / 2
    }

    /// How long one request about a lease may take.
    pub fn request_deadline(&self) -> Duration {
        (self.lease_duration / 6).max(Duration::from_millis(200))
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn has(&self, mutant: crate::Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

/// Whether a text is a DNS label (RFC 1123).
pub fn is_dns_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty()
        && text.len() <= LONGEST_ID
        && text.bytes().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// See [`Settings::write_until`].
pub(crate) fn write_until(lease_duration: Duration) -> Duration {
    lease_duration * 2 / 3
}

/// See [`Settings::hold_until`].
pub(crate) fn hold_until(lease_duration: Duration) -> Duration {
    lease_duration * 5 / 6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new(ProcessKind::ControllerManager, "cm-0", "boot")
    }

    #[test]
    fn sc15_sc23_defaults_are_ten_and_thirty_seconds_and_carry_no_risk() {
        let settings = settings();
        assert_eq!(settings.renew_interval, Duration::from_secs(10));
        assert_eq!(settings.lease_duration, Duration::from_secs(30));
        assert_eq!(settings.check(), Ok(Vec::new()));
    }

    #[test]
    fn sc28_what_cannot_work_is_refused_and_what_is_risky_is_told() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = settings();
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        let told = refused(|settings| settings.renew_interval = Duration::from_secs(15));
        assert!(told.contains("--lease-renew-interval 15s is not less than half"), "{told}");
        for id in ["", "Cm", "a_b", "-a", "a-", "a.b", &"a".repeat(64)] {
            let mut settings = settings();
            settings.replica_id = id.to_owned();
            assert!(matches!(settings.check(), Err(SettingsError::ReplicaId { .. })), "{id}");
        }
        assert!(
            refused(|settings| settings.lease_duration = Duration::from_millis(1500))
                .contains("whole seconds")
        );
        assert!(refused(|settings| settings.observe_interval = Duration::ZERO).contains("50ms"));
        assert!(refused(|settings| settings.shards = NonZeroU32::MAX).contains("--shards"));
        let mut risky = settings();
        risky.renew_interval = Duration::from_secs(12);
        assert_eq!(risky.check().unwrap().len(), 1);
    }

    /// (write_until + the longest a write may go on) × 1.2 ≤ duration.
    #[test]
    fn own_deadlines_leave_room_for_clock_rates_within_one_fifth() {
        for seconds in 1..200 {
            let mut settings = settings();
            settings.lease_duration = Duration::from_secs(seconds);
            assert!(settings.hold_until() * 12 / 10 <= settings.lease_duration);
            assert!(settings.write_until() < settings.hold_until());
        }
    }
}
